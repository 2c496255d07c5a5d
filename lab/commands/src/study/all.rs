//! `warmswap-lab study all`: every study, and the comparisons of the papers, into a folder.
//!
//! Each result names the command line that makes it again alone.

use anyhow::Result;
use clap::{Args, Parser as _};
use std::fs::File;
use std::path::{Path, PathBuf};
use warmswap_output::{BadInput, Output};
use warmswap_study::{StudyError, Subject};
use warmswap_trace::TraceReader;

use crate::host::{Host, OnProgress};
use crate::shipped;

/// What to study, and where results go.
#[derive(Debug, Args)]
pub struct AllArgs {
    /// The traces
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// The folder for the results, one JSON file each
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// Heap dumps of the JVM or V8, separated by commas, for Fleet's figures about objects
    #[arg(long, value_delimiter = ',', value_name = "DUMP")]
    dumps: Vec<PathBuf>,
}

/// A result: the name of its file, the words of its command, and what it reads.
type Part = (&'static str, &'static str, Source);

#[derive(Clone, Copy)]
enum Source {
    /// All traces together.
    Traces,
    /// The first trace, where a study takes one.
    FirstTrace,
    /// The heap dumps, if there are any.
    Dumps,
}

/// The comparisons first.
const PARTS: &[Part] = &[
    (
        "compare-full",
        "compare --budget 200% --pressure full --schemes dram,swap,zram,ariadne-ehl-1k-2k-16k,\
         ariadne-al-1k-2k-16k,ariadne-ehl-1k-4k-16k,ariadne-al-1k-4k-16k,ariadne-ehl-512-2k-16k,\
         ariadne-al-512-2k-16k,ariadne-ehl-256-2k-32k,ariadne-al-256-2k-32k,warmswap",
        Source::Traces,
    ),
    (
        "compare-files",
        "compare --budget 200% --pressure full --files --schemes dram,zram,asap,asap-anon,asap-file",
        Source::Traces,
    ),
    (
        "compare-budget",
        "compare --budget 60% --schemes dram,swap,zram,zswap,asap,ariadne-ehl-1k-2k-16k,warmswap",
        Source::Traces,
    ),
    ("launches", "study launches", Source::Traces),
    ("misses", "study misses", Source::Traces),
    ("hotness-order", "study hotness-order", Source::Traces),
    ("similarity", "study similarity", Source::Traces),
    (
        "chunk-size",
        "study chunk-size --sample-mib 16",
        Source::FirstTrace,
    ),
    ("locality", "study locality", Source::Traces),
    ("compression", "study compression", Source::Traces),
    ("coverage", "study coverage", Source::Traces),
    ("sensitivity", "study sensitivity", Source::Traces),
    ("entropy", "study entropy", Source::FirstTrace),
    ("ezswap", "study ezswap", Source::Traces),
    ("switches", "study switches", Source::Traces),
    ("prepaging", "study prepaging", Source::Traces),
    ("parts", "study parts", Source::Traces),
    ("heap", "study heap", Source::Dumps),
];

/// Runs every part, one after the other.
///
/// # Errors
/// The folder cannot be made, or a part fails.
pub fn run(args: &AllArgs, host: &dyn Host) -> Result<()> {
    let output = host.output();
    // Each study writes its own file.
    output.refuse_result("warmswap-lab study all")?;
    for trace in &args.traces {
        host.reader(&shipped(trace))?;
    }
    for dump in &args.dumps {
        check(dump).map_err(|error| bad("read", dump, &error))?;
    }
    std::fs::create_dir_all(&args.out).map_err(|error| bad("make", &args.out, &error))?;
    for part in PARTS {
        let Some(line) = line(part, args) else {
            output.say(&format!("left out: study {}: no --dumps", part.0))?;
            continue;
        };
        output.say(&line.join(" "))?;
        match run_part(&line, host) {
            Err(error) if lacks_contents(&error) || needs_more_pages(&error) => {
                output.say(&format!("left out: {}: {error}", part.1))?;
            }
            done => done?,
        }
    }
    let folder = args.out.display();
    output.say(&format!(
        "what they say: warmswap-lab report {folder}/*.json"
    ))
}

/// Whether a dump can be read. A pipe is opened once, by the study.
fn check(dump: &Path) -> std::io::Result<()> {
    match dump.metadata()?.is_file() {
        true => File::open(dump).map(drop),
        false => Ok(()),
    }
}

/// What an argument names and cannot be used.
fn bad(action: &str, path: &Path, error: &std::io::Error) -> BadInput {
    BadInput(format!("cannot {action} {}: {error}", path.display()))
}

/// Runs a part, whose result goes to the file that its line names.
fn run_part(line: &[String], host: &dyn Host) -> Result<()> {
    let part = crate::Line::try_parse_from(line)?;
    let output = host.output().of_part(part.output, line.to_vec());
    crate::run(part.command, &PartHost { output, host })
}

/// The host, with an output of its own for a part.
struct PartHost<'a> {
    output: Output,
    host: &'a dyn Host,
}

impl Host for PartHost<'_> {
    fn output(&self) -> &Output {
        &self.output
    }

    fn progress(&self, what: &'static str) -> OnProgress {
        self.host.progress(what)
    }

    fn reader(&self, path: &Path) -> warmswap_trace::Result<TraceReader> {
        self.host.reader(path)
    }

    fn subject(&self, path: &Path, contents: bool) -> Result<Subject, StudyError> {
        self.host.subject(path, contents)
    }
}

/// Whether a study needs page contents, which a trace does not have. Others do without.
fn lacks_contents(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StudyError::NoContents { .. }))
}

/// Whether what the trace touches is too little for a study.
fn needs_more_pages(error: &anyhow::Error) -> bool {
    let study: Option<&StudyError> = error.downcast_ref();
    study.is_some_and(StudyError::needs_more_pages)
}

/// The command line of a part; `None` without what it is computed from.
fn line(&(name, words, source): &Part, args: &AllArgs) -> Option<Vec<String>> {
    let of: &[PathBuf] = match source {
        Source::Traces => &args.traces,
        Source::FirstTrace => &args.traces[..1],
        Source::Dumps => &args.dumps,
    };
    if of.is_empty() {
        return None;
    }
    let text = |path: &Path| path.display().to_string();
    let mut line = vec!["warmswap-lab".to_owned()];
    line.extend(words.split(' ').map(str::to_owned));
    line.extend(of.iter().map(|path| text(path)));
    line.push("--json".to_owned());
    line.push(text(&args.out.join(format!("{name}.json"))));
    Some(line)
}
