//! The protocol: one line of JSON for each request, one for each answer.
//!
//! ```text
//! > {"warmswap":1,"request":"status"}
//! < {"warmswap":1,"answer":{"status":{"pid":4711,"name":"redis-server","phase":"foreground",…}}}
//! > {"warmswap":1,"request":"dance"}
//! < {"warmswap":1,"refusal":{"kind":"unknown","message":"…"}}
//! ```
//!
//! A client may send several requests on one connection; the answers come in the same order. A line that is
//! no request is answered too, and the connection goes on. Only a line that is too long ends it, since there
//! is no telling where the next one starts.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DaemonStatus, ProgramStats, ProgramStatus};

/// The version of the protocol. It changes when old clients or servers would misunderstand.
pub const PROTOCOL_VERSION: u32 = 1;

/// Longest request in bytes, newline included.
pub const MAX_REQUEST_BYTES: usize = 64 << 10;

/// Longest answer in bytes, newline included.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Request {
    /// What are you doing? Answered by [`Answer::Status`].
    Status,
    /// All that is known. Answered by [`Answer::Stats`].
    Stats,
    /// Your user looks at something else. Answered by [`Answer::Done`].
    Background,
    /// Your user is back: a launch window opens. Answered by [`Answer::Done`].
    Foreground,
    /// The launch is complete, and its window closes. Answered by [`Answer::Done`].
    LaunchDone,
    /// To the daemon: all that it knows. Answered by [`Answer::Daemon`].
    Daemon,
    /// To the daemon: something about one application. Answered by [`Answer::Done`].
    App {
        /// Its name.
        name: String,
        /// What.
        event: AppEvent,
    },
    /// To the daemon: this process pages itself out and brings back what it needs, so that its pages are left to it. Answered by
    /// [`Answer::Done`].
    PagesItself {
        /// The process.
        pid: u32,
    },
    /// To the daemon, by an agent: something about a window system of its user. Answered by [`Answer::Done`].
    Window {
        /// Which.
        system: WindowSystem,
        /// What.
        event: WindowEvent,
    },
}

/// A window system that says which window is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowSystem {
    /// An X server.
    X11,
    /// sway.
    Sway,
    /// i3.
    I3,
}

impl WindowSystem {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X11 => "x11",
            Self::Sway => "sway",
            Self::I3 => "i3",
        }
    }
}

/// What happened at a window system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WindowEvent {
    /// It is followed. Told again before [`WINDOWS_HEARD_FOR`] has passed.
    Live {
        /// The display or the socket, for people.
        place: String,
    },
    /// It is not there, or cannot be followed.
    Absent {
        /// Why, for people.
        why: String,
    },
    /// A window of this process is looked at. Refused where the process is not the agent's user's.
    Focus {
        /// The process.
        pid: u32,
    },
    /// A window is looked at whose process is not this user's.
    Elsewhere,
}

/// How long the daemon holds a window system to be followed after it was last told so.
pub const WINDOWS_HEARD_FOR: Duration = Duration::from_secs(90);

/// What happened to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AppEvent {
    /// Its user looks at it: a launch window opens.
    Switch,
    /// Its user looks at something else.
    Background,
    /// The relaunch is complete, and its window closes.
    LaunchDone,
    /// It is being started: the process and all that it starts belong to it.
    Launch {
        /// The process.
        pid: u32,
    },
}

/// The answer to a request that was carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// To [`Request::Status`].
    Status(ProgramStatus),
    /// To [`Request::Stats`].
    Stats(Box<ProgramStats>),
    /// To [`Request::Daemon`].
    Daemon(Box<DaemonStatus>),
    /// It is done, and there is nothing to say.
    Done,
}

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalKind {
    /// The line is no request, or too long.
    Malformed,
    /// It is of another version of the protocol.
    Version,
    /// There is no such request.
    Unknown,
    /// Not in this state: the program is not paged yet, for example.
    NotNow,
    /// It is not for this user: the program belongs to another one.
    Denied,
    /// It was tried, and failed.
    Failed,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

/// A request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub kind: RefusalKind,
    /// For people: what is wrong.
    pub message: String,
}

impl Refusal {
    /// A refusal with its reason.
    #[must_use]
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// What comes back for a request.
pub type Reply = Result<Answer, Refusal>;

#[derive(Serialize)]
struct RequestLine<'a> {
    warmswap: u32,
    request: &'a Request,
}

/// Read in two steps, so that a request that is unknown can be told from a line that is none.
#[derive(Deserialize)]
struct AnyRequest {
    warmswap: u32,
    request: Value,
}

#[derive(Serialize, Deserialize)]
struct ReplyLine {
    warmswap: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
}

/// The line of a request, newline included.
pub(crate) fn request_line(request: &Request) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&RequestLine {
        warmswap: PROTOCOL_VERSION,
        request,
    })?;
    line.push(b'\n');
    Ok(line)
}

/// Reads a request from its line.
pub(crate) fn read_request(line: &[u8]) -> Result<Request, Refusal> {
    let malformed = |error| {
        let message =
            format!("not a request ({error}); one is {{\"warmswap\":1,\"request\":\"status\"}}");
        Refusal::new(RefusalKind::Malformed, message)
    };
    let any: AnyRequest = serde_json::from_slice(line).map_err(malformed)?;
    if any.warmswap != PROTOCOL_VERSION {
        let message = format!(
            "version {} of the protocol is spoken here, not {}",
            PROTOCOL_VERSION, any.warmswap
        );
        return Err(Refusal::new(RefusalKind::Version, message));
    }
    serde_json::from_value(any.request)
        .map_err(|error| Refusal::new(RefusalKind::Unknown, error.to_string()))
}

/// The line of a reply, newline included. What cannot be written as JSON, or not in [`MAX_ANSWER_BYTES`],
/// becomes a refusal.
pub(crate) fn reply_line(reply: Reply) -> Vec<u8> {
    let line = |reply: Reply| {
        let (answer, refusal) = match reply {
            Ok(answer) => (Some(answer), None),
            Err(refusal) => (None, Some(refusal)),
        };
        let mut line = serde_json::to_vec(&ReplyLine {
            warmswap: PROTOCOL_VERSION,
            answer,
            refusal,
        })?;
        line.push(b'\n');
        Ok::<_, serde_json::Error>(line)
    };
    match line(reply) {
        Ok(line) if line.len() <= MAX_ANSWER_BYTES => line,
        Ok(_) => line_of_failure("the answer is too long"),
        Err(_) => line_of_failure("the answer cannot be written"),
    }
}

/// A refusal that needs no encoder which could fail.
fn line_of_failure(message: &str) -> Vec<u8> {
    format!(
        "{{\"warmswap\":{PROTOCOL_VERSION},\"refusal\":{{\"kind\":\"failed\",\"message\":\"{message}\"}}}}\n"
    )
    .into_bytes()
}

/// Why a line is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplyError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("it speaks version {0} of the protocol")]
    Version(u32),
    #[error("neither an answer nor a refusal")]
    Neither,
}

/// Reads a reply from its line.
pub(crate) fn read_reply(line: &[u8]) -> Result<Reply, ReplyError> {
    #[derive(Deserialize)]
    struct Versioned {
        warmswap: u32,
    }
    let Versioned { warmswap } = serde_json::from_slice(line)?;
    if warmswap != PROTOCOL_VERSION {
        return Err(ReplyError::Version(warmswap));
    }
    let line: ReplyLine = serde_json::from_slice(line)?;
    match (line.answer, line.refusal) {
        (_, Some(refusal)) => Ok(Err(refusal)),
        (Some(answer), None) => Ok(Ok(answer)),
        (None, None) => Err(ReplyError::Neither),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AppStatus;
    use proptest::prelude::*;

    fn requests() -> Vec<Request> {
        let app = |event| Request::App {
            name: "an app".to_owned(),
            event,
        };
        vec![
            Request::Status,
            Request::Stats,
            Request::Background,
            Request::Foreground,
            Request::LaunchDone,
            Request::Daemon,
            app(AppEvent::Switch),
            app(AppEvent::Background),
            app(AppEvent::LaunchDone),
            app(AppEvent::Launch { pid: 7 }),
            Request::Window {
                system: WindowSystem::Sway,
                event: WindowEvent::Focus { pid: 7 },
            },
        ]
    }

    fn kind(line: &str) -> RefusalKind {
        read_request(line.as_bytes()).unwrap_err().kind
    }

    #[test]
    fn requests_are_read_back() {
        for request in requests() {
            let line = request_line(&request).unwrap();
            assert_eq!(read_request(line.trim_ascii_end()), Ok(request));
        }
    }

    #[test]
    fn the_form_on_the_wire_stays() {
        let line = request_line(&Request::LaunchDone).unwrap();
        assert_eq!(line, b"{\"warmswap\":1,\"request\":\"launch_done\"}\n");
        let line = reply_line(Ok(Answer::Done));
        assert_eq!(line, b"{\"warmswap\":1,\"answer\":\"done\"}\n");
        let line = reply_line(Err(Refusal::new(RefusalKind::NotNow, "no")));
        assert_eq!(
            line,
            b"{\"warmswap\":1,\"refusal\":{\"kind\":\"not_now\",\"message\":\"no\"}}\n"
        );
    }

    #[test]
    fn requests_to_the_daemon_are_told_from_those_to_programs() {
        let line = request_line(&requests()[9]).unwrap();
        let expected = concat!(
            r#"{"warmswap":1,"request":{"app":{"name":"an app","event":{"launch":{"pid":7}}}}}"#,
            "\n"
        );
        assert_eq!(std::str::from_utf8(&line), Ok(expected));
    }

    #[test]
    fn what_is_wrong_with_a_request_has_a_kind() {
        assert_eq!(kind(""), RefusalKind::Malformed);
        assert_eq!(kind("status"), RefusalKind::Malformed);
        assert_eq!(kind(r#"{"request":"status"}"#), RefusalKind::Malformed);
        assert_eq!(
            kind(r#"{"warmswap":2,"request":"status"}"#),
            RefusalKind::Version
        );
        assert_eq!(
            kind(r#"{"warmswap":1,"request":"dance"}"#),
            RefusalKind::Unknown
        );
        assert_eq!(
            kind(r#"{"warmswap":1,"request":{"status":{"x":1}}}"#),
            RefusalKind::Unknown
        );
    }

    #[test]
    fn replies_are_read_back_and_others_are_errors() {
        let stats = ProgramStats {
            pid: 7,
            data_ratio: Some(2.5),
            ..ProgramStats::default()
        };
        for reply in [
            Ok(Answer::Done),
            Ok(Answer::Status(stats.status())),
            Ok(Answer::Stats(Box::new(stats))),
            Ok(Answer::Daemon(Box::new(DaemonStatus {
                apps: vec![AppStatus::default()],
                ..DaemonStatus::default()
            }))),
            Err(Refusal::new(RefusalKind::Failed, "a \"quoted\"\nreason")),
        ] {
            let line = reply_line(reply.clone());
            assert_eq!(line.iter().filter(|&&b| b == b'\n').count(), 1);
            assert_eq!(read_reply(line.trim_ascii_end()).unwrap(), reply);
        }
        assert!(matches!(
            read_reply(b"{\"warmswap\":1}"),
            Err(ReplyError::Neither)
        ));
        assert!(matches!(
            read_reply(b"{\"warmswap\":9}"),
            Err(ReplyError::Version(9))
        ));
        assert!(matches!(read_reply(b"hello"), Err(ReplyError::Json(_))));
    }

    #[test]
    fn fields_and_kinds_of_later_versions_are_taken() {
        let newer = br#"{"warmswap":1,"refusal":{"kind":"tired","message":"later"},"x":1}"#;
        let refusal = read_reply(newer).unwrap().unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Other);
        let newer = br#"{"warmswap":1,"answer":{"status":{"pid":3,"mood":"good"}}}"#;
        let Answer::Status(status) = read_reply(newer).unwrap().unwrap() else {
            panic!("a status");
        };
        assert_eq!(status.pid, 3);
    }

    #[test]
    fn an_answer_that_is_too_long_is_refused() {
        let stats = ProgramStats {
            name: "x".repeat(MAX_ANSWER_BYTES),
            ..ProgramStats::default()
        };
        let line = reply_line(Ok(Answer::Stats(Box::new(stats))));
        let refusal = read_reply(line.trim_ascii_end()).unwrap().unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Failed);
    }

    proptest! {
        #[test]
        fn no_line_panics(line: Vec<u8>) {
            let _ = read_request(&line);
            let _ = read_reply(&line);
        }

        #[test]
        fn no_likely_line_panics(
            version in 0..3u32, key in "request|answer|refusal|x", value in "\\PC{0,40}",
        ) {
            for line in [
                format!("{{\"warmswap\":{version},\"{key}\":{value}}}"),
                format!("{{\"warmswap\":{version},\"{key}\":\"{value}\"}}"),
            ] {
                let _ = read_request(line.as_bytes());
                let _ = read_reply(line.as_bytes());
            }
        }
    }
}
