//! Lines of numbers, read as a stream, with errors that name the line.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::{Position, Result, TraceError};

/// Editors on Windows begin text in UTF-8 with this.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A longer line is not one of ours; it is not read to its end.
const MAX_LINE_BYTES: u64 = 4096;

/// A file that is imported, with the name and the position for errors.
pub(crate) struct Input {
    path: PathBuf,
    reader: BufReader<File>,
    /// Lines read so far.
    line: u64,
    /// Bytes read so far by [`fill`](Self::fill).
    byte: u64,
    buffer: Vec<u8>,
}

impl Input {
    /// Opens `path`; `None` when there is no such file.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(TraceError::Io {
                    path: path.to_owned(),
                    action: "open",
                    source,
                });
            }
        };
        let reader = BufReader::with_capacity(1 << 18, file);
        Ok(Some(Self {
            path: path.to_owned(),
            reader,
            line: 0,
            byte: 0,
            buffer: Vec::new(),
        }))
    }

    /// The next line that is not empty, without its end; `None` at the end of the file.
    pub(crate) fn line(&mut self) -> Result<Option<&[u8]>> {
        loop {
            self.buffer.clear();
            let mut limited = (&mut self.reader).take(MAX_LINE_BYTES + 1);
            let read = limited.read_until(b'\n', &mut self.buffer);
            if let Err(source) = read {
                return Err(TraceError::Io {
                    path: self.path.clone(),
                    action: "read",
                    source,
                });
            }
            if self.buffer.is_empty() {
                return Ok(None);
            }
            self.line += 1;
            if self.buffer.len() as u64 > MAX_LINE_BYTES {
                return Err(self.bad_line(
                    "a longer line",
                    format!("a line of at most {MAX_LINE_BYTES} bytes"),
                ));
            }
            if self.line == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.drain(..BYTE_ORDER_MARK.len());
            }
            let line = self.buffer.trim_ascii();
            if line.contains(&b'\r') {
                return Err(self.bad_line("line ends of carriage returns alone", "line feeds"));
            }
            if !line.is_empty() {
                return Ok(Some(self.buffer.trim_ascii()));
            }
        }
    }

    /// The next line as `N` numbers with commas between.
    pub(crate) fn numbers<const N: usize>(&mut self, expected: &str) -> Result<Option<[u64; N]>> {
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        match numbers(line) {
            Some(numbers) => Ok(Some(numbers)),
            None => {
                let found = shown(line);
                Err(self.bad_line(found, expected))
            }
        }
    }

    /// Fills `buffer` with the next bytes. False at the end of the file.
    ///
    /// # Errors
    ///
    /// The file ends within the buffer, or cannot be read.
    pub(crate) fn fill(&mut self, buffer: &mut [u8], what: &str) -> Result<bool> {
        let mut have = 0;
        while have < buffer.len() {
            match self.reader.read(&mut buffer[have..]) {
                Ok(0) if have == 0 => return Ok(false),
                Ok(0) => {
                    let position = Position::Byte(self.byte);
                    return Err(self.bad(
                        position,
                        format!("{have} bytes"),
                        format!("{what} of {} bytes", buffer.len()),
                    ));
                }
                Ok(bytes) => have += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(TraceError::Io {
                        path: self.path.clone(),
                        action: "read",
                        source,
                    });
                }
            }
        }
        self.byte += have as u64;
        Ok(true)
    }

    /// Where the next bytes of [`fill`](Self::fill) begin.
    pub(crate) fn byte(&self) -> u64 {
        self.byte
    }

    /// The line that was read last, counted from 1.
    pub(crate) fn line_number(&self) -> u64 {
        self.line
    }

    /// An error at the line that was read last.
    pub(crate) fn bad_line(&self, found: impl ToString, expected: impl ToString) -> TraceError {
        self.bad(Position::Line(self.line), found, expected)
    }

    /// An error at a position of this file.
    pub(crate) fn bad(
        &self,
        position: Position,
        found: impl ToString,
        expected: impl ToString,
    ) -> TraceError {
        let (found, expected) = (found.to_string(), expected.to_string());
        TraceError::Import {
            path: self.path.clone(),
            position,
            found,
            expected,
        }
    }
}

/// `N` decimal numbers with commas between and nothing else.
pub(crate) fn numbers<const N: usize>(text: &[u8]) -> Option<[u64; N]> {
    let mut fields = text.split(|&b| b == b',');
    let mut numbers = [0; N];
    for slot in &mut numbers {
        *slot = number(fields.next()?)?;
    }
    fields.next().is_none().then_some(numbers)
}

/// A decimal number, with white space around it allowed.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Bytes as an error shows them: printable, short.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let short = &bytes[..bytes.len().min(60)];
    let dots = if short.len() < bytes.len() { "..." } else { "" };
    format!("\"{}{dots}\"", short.escape_ascii())
}
