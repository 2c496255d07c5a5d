//! Lines from a driver, with a limit in time.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Reads lines from a pipe and never waits longer than it is told to.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    pipe: R,
    buffer: Vec<u8>,
}

/// What came of waiting for a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its end.
    Text(String),
    /// The other side closed the pipe.
    End,
    /// The time is over.
    Late,
}

impl<R: io::Read + AsFd> LineReader<R> {
    pub(crate) fn new(pipe: R) -> Self {
        Self {
            pipe,
            buffer: Vec::new(),
        }
    }

    /// The next line, waiting at most `limit`.
    pub(crate) fn next(&mut self, limit: Duration) -> io::Result<Line> {
        let begin = Instant::now();
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Line::Text(
                    String::from_utf8_lossy(&line[..end]).into_owned(),
                ));
            }
            let Some(left) = limit.checked_sub(begin.elapsed()) else {
                return Ok(Line::Late);
            };
            let wait = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            match poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&wait)) {
                Ok(0) => return Ok(Line::Late),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let mut chunk = [0; 4096];
            match self.pipe.read(&mut chunk) {
                Ok(0) => return Ok(Line::End),
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn lines_come_whole_then_late_then_the_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = LineReader::new(reader);
        let soon = Duration::from_millis(1);

        writer.write_all(b"one\ntwo\nthr").unwrap();

        assert_eq!(lines.next(soon).unwrap(), Line::Text("one".to_owned()));
        assert_eq!(lines.next(soon).unwrap(), Line::Text("two".to_owned()));
        assert_eq!(lines.next(soon).unwrap(), Line::Late);
        writer.write_all(b"ee\n").unwrap();
        drop(writer);
        assert_eq!(lines.next(soon).unwrap(), Line::Text("three".to_owned()));
        assert_eq!(lines.next(soon).unwrap(), Line::End);
    }
}
