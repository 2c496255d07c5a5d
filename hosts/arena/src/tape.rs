//! The tape: everything that an arena's engine heard, and what it answered.
//!
//! The engine does no I/O and knows no clock, so a fresh engine that hears the same gives the same answers, one
//! by one: [`replay_tape`] checks that. The file has a line of JSON for the scheme and its limits, and one for each
//! call: a list of it and its answer. What the engine was taught of earlier runs is an object.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warmswap_engine::calls::{Answer, Call};
use warmswap_engine::{ConfigError, Decision, Engine, Limits};
use warmswap_page::{AppId, FileId};
use warmswap_policy::{Learned, PolicyError, SchemeSpec};

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// Version of the format.
    warmswap_tape: u32,
    scheme: SchemeSpec,
    limits: Limits,
}

const VERSION: u32 = 2;

/// The line of what the engine was taught.
#[derive(Debug, Serialize, Deserialize)]
struct Taught {
    app: AppId,
    learned: Learned<FileId>,
}

/// An engine all of whose changes go through [`RecordedEngine::call`]; what only looks is reached directly.
#[derive(Debug)]
pub struct RecordedEngine {
    engine: Engine,
    tape: Option<BufWriter<File>>,
}

impl Deref for RecordedEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl RecordedEngine {
    /// An engine of that scheme, with a tape if there is a path.
    pub fn new(
        engine: Engine,
        path: Option<&Path>,
        scheme: &SchemeSpec,
        limits: Limits,
    ) -> std::io::Result<Self> {
        let mut tape = path.map(File::create).transpose()?.map(BufWriter::new);
        if let Some(tape) = &mut tape {
            let head = Head {
                warmswap_tape: VERSION,
                scheme: scheme.clone(),
                limits,
            };
            serde_json::to_writer(&mut *tape, &head)?;
            tape.write_all(b"\n")?;
        }
        Ok(Self { engine, tape })
    }

    /// Makes a call. A tape that cannot be written ends there: it is still one of a run's beginning.
    pub fn call(&mut self, call: Call) -> Answer {
        let answer = call.make(&mut self.engine);
        if self.tape.is_some() {
            self.write(&(call, format!("{answer:?}")));
        }
        answer
    }

    /// Gives back what was learned in an earlier run.
    pub fn teach(&mut self, app: AppId, learned: Learned<FileId>) {
        self.engine.teach(app, &learned);
        self.write(&Taught { app, learned });
    }

    fn write(&mut self, line: &impl Serialize) {
        if let Some(tape) = &mut self.tape {
            let written = serde_json::to_writer(&mut *tape, line).map_err(std::io::Error::from);
            if written.and_then(|()| tape.write_all(b"\n")).is_err() {
                self.tape = None;
            }
        }
    }

    /// In the child of a `fork`: the tape, and what is not yet on it, are the parent's.
    pub fn leave_tape(&mut self) {
        std::mem::forget(self.tape.take());
    }

    /// The next thing to do when no thread waits.
    pub fn next_background_decision(&mut self) -> Option<Decision> {
        match self.call(Call::NextBackgroundDecision()) {
            Answer::Decision(decision) => decision,
            _ => None,
        }
    }
}

/// What a tape held, all of it answered alike by a fresh engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Calls.
    pub calls: u64,
    /// Of them, those that were answered by a decision.
    pub decisions: u64,
}

/// A tape cannot be replayed, or is answered otherwise.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A line is none of a tape.
    #[error("{path}: line {line} is not one of a tape of version {VERSION}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The scheme is none.
    #[error(transparent)]
    Scheme(#[from] PolicyError),
    /// The limits make no sense.
    #[error(transparent)]
    Limits(#[from] ConfigError),
    /// The engine answered otherwise.
    #[error("line {line}: {call:?} was answered {recorded}, and now {found}")]
    Differs {
        /// The line, from 1.
        line: u64,
        /// The call.
        call: Call,
        /// The answer on the tape.
        recorded: String,
        /// The answer of the fresh engine.
        found: String,
    },
}

/// Says everything that is on a tape to a fresh engine, and compares the answers one by one. A last line that was
/// cut off is left out.
///
/// # Errors
/// [`TapeError`]; [`TapeError::Differs`] names the first answer that is another.
pub fn replay_tape(path: &Path) -> Result<Replayed, TapeError> {
    let failed = |source| TapeError::Read {
        path: path.to_owned(),
        source,
    };
    let malformed = |line, error: serde_json::Error| TapeError::Line {
        path: path.to_owned(),
        line,
        reason: error.to_string(),
    };
    let mut lines = BufReader::new(File::open(path).map_err(failed)?);
    let mut text = String::new();
    lines.read_line(&mut text).map_err(failed)?;
    let head: Head = serde_json::from_str(&text).map_err(|error| malformed(1, error))?;
    if head.warmswap_tape != VERSION {
        return Err(TapeError::Line {
            path: path.to_owned(),
            line: 1,
            reason: format!("it is of version {}", head.warmswap_tape),
        });
    }
    let mut engine = Engine::new(head.scheme.build()?, head.limits)?;
    let mut replayed = Replayed {
        calls: 0,
        decisions: 0,
    };
    let mut line = 1;
    loop {
        text.clear();
        lines.read_line(&mut text).map_err(failed)?;
        if !text.ends_with('\n') {
            return Ok(replayed);
        }
        line += 1;
        if text.starts_with('{') {
            let taught: Taught =
                serde_json::from_str(&text).map_err(|error| malformed(line, error))?;
            engine.teach(taught.app, &taught.learned);
            continue;
        }
        let (call, recorded): (Call, String) =
            serde_json::from_str(&text).map_err(|error| malformed(line, error))?;
        let answer = call.make(&mut engine);
        let found = format!("{answer:?}");
        if found != recorded {
            return Err(TapeError::Differs {
                line,
                call,
                recorded,
                found,
            });
        }
        replayed.calls += 1;
        replayed.decisions += u64::from(matches!(answer, Answer::Decision(Some(_))));
    }
}
