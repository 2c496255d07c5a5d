//! Reads JSON as a stream: arrays of any length in the memory of one element.

use std::io::Read;
use std::ops::ControlFlow;

use crate::error::{DumpError, Result};
use crate::input::Input;

/// Objects and arrays inside of each other, at most. V8's deepest are call trees, with two levels for each frame.
const LEVELS_MAX: usize = 1 << 16;

/// Bytes of a string that are kept; the rest is read and left out. V8 cuts names to 1,024 characters.
const STRING_BYTES_MAX: usize = 65_535;

/// Digits that always fit into a `u64`.
const SAFE_DIGITS: usize = 19;

/// Longer texts are no numbers.
const NUMBER_BYTES_MAX: usize = 512;

/// Whether to go on with the next member.
pub(super) type Flow = Result<ControlFlow<()>>;

/// A member was read; the next one follows.
pub(super) const NEXT: Flow = Ok(ControlFlow::Continue(()));

/// A reader of JSON. What is skipped is checked too, so that a damage is noticed wherever it is.
pub(super) struct Json<'a> {
    input: Input<Box<dyn Read + 'a>>,
    text: Vec<u8>,
}

impl<'a> Json<'a> {
    pub fn new(inner: Box<dyn Read + 'a>) -> Self {
        let (input, text) = (Input::new(inner), Vec::new());
        Self { input, text }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The next byte that is no white space. It stays unread.
    fn peek(&mut self, expected: &'static str) -> Result<u8> {
        loop {
            match self.input.peek()? {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.input.consume(1),
                Some(byte) => return Ok(byte),
                None => return Err(self.ended(expected)),
            }
        }
    }

    fn ended(&self, expected: &'static str) -> DumpError {
        let offset = self.offset();
        DumpError::Ended { offset, expected }
    }

    fn unexpected(&self, found: u8, expected: &'static str) -> DumpError {
        DumpError::Syntax {
            offset: self.offset(),
            found: found.escape_ascii().to_string(),
            expected,
        }
    }

    /// The same for the byte that was read last.
    fn misread(&self, found: u8, expected: &'static str) -> DumpError {
        DumpError::Syntax {
            offset: self.offset() - 1,
            found: found.escape_ascii().to_string(),
            expected,
        }
    }

    /// Reads `wanted` behind white space.
    fn take(&mut self, wanted: u8, expected: &'static str) -> Result<()> {
        match self.peek(expected)? {
            found if found == wanted => self.input.consume(1),
            found => return Err(self.unexpected(found, expected)),
        }
        Ok(())
    }

    /// Reads `wanted` if it comes next.
    fn take_if(&mut self, wanted: u8, expected: &'static str) -> Result<bool> {
        let is_next = self.peek(expected)? == wanted;
        if is_next {
            self.input.consume(1);
        }
        Ok(is_next)
    }

    /// Reads the next byte of a string.
    fn bump(&mut self) -> Result<u8> {
        let Some(byte) = self.input.peek()? else {
            return Err(self.ended("the rest of a string"));
        };
        self.input.consume(1);
        Ok(byte)
    }

    /// Passes over a byte order mark.
    pub fn begin(&mut self) -> Result<()> {
        if self.input.peek()? == Some(0xef) {
            for _ in 0..3 {
                self.bump()?;
            }
        }
        Ok(())
    }

    /// Reads the end of the file.
    pub fn end(&mut self) -> Result<()> {
        match self.peek("the end of the file") {
            Ok(found) => Err(self.unexpected(found, "the end of the file")),
            Err(DumpError::Ended { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads an object: `each` gets the name of each member and reads its value.
    pub fn members(
        &mut self,
        expected: &'static str,
        mut each: impl FnMut(&mut Self, &str) -> Flow,
    ) -> Flow {
        self.take(b'{', expected)?;
        if self.take_if(b'}', "a name or }")? {
            return NEXT;
        }
        loop {
            self.name()?;
            let name = String::from_utf8_lossy(&self.text).into_owned();
            if each(self, &name)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if !self.has_next(b'}', "a comma or }")? {
                return NEXT;
            }
        }
    }

    /// Reads an array: `each` reads an element.
    pub fn elements(
        &mut self,
        expected: &'static str,
        mut each: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.take(b'[', expected)?;
        if self.take_if(b']', "an element or ]")? {
            return Ok(());
        }
        loop {
            each(self)?;
            if !self.has_next(b']', "a comma or ]")? {
                return Ok(());
            }
        }
    }

    /// Reads a comma, or `closer`, behind which nothing comes.
    fn has_next(&mut self, closer: u8, expected: &'static str) -> Result<bool> {
        match self.peek(expected)? {
            b',' => self.input.consume(1),
            found if found == closer => {
                self.input.consume(1);
                return Ok(false);
            }
            found => return Err(self.unexpected(found, expected)),
        }
        Ok(true)
    }

    /// Reads the name of a member, and the colon.
    fn name(&mut self) -> Result<()> {
        self.string("a name")?;
        self.take(b':', "a colon")
    }

    /// Whether an array comes next.
    pub fn is_at_array(&mut self) -> Result<bool> {
        Ok(self.peek("a value")? == b'[')
    }

    /// Reads a number that is not negative and has no fraction, and says where it begins.
    pub fn unsigned(&mut self, expected: &'static str) -> Result<(u64, u64)> {
        self.peek(expected)?;
        let offset = self.offset();
        match self.number(expected)? {
            Some(number) => Ok((number, offset)),
            None => Err(DumpError::Syntax {
                offset,
                found: String::from_utf8_lossy(&self.text).into_owned(),
                expected,
            }),
        }
    }

    /// Reads a number; `None` if it is none that a `u64` holds.
    pub fn number(&mut self, expected: &'static str) -> Result<Option<u64>> {
        let found = self.peek(expected)?;
        if !(found == b'-' || found.is_ascii_digit()) {
            return Err(self.unexpected(found, expected));
        }
        if let Some(number) = self.short_number() {
            return Ok(Some(number));
        }
        let offset = self.offset();
        self.number_text()?;
        let text = String::from_utf8_lossy(&self.text);
        if is_number(&self.text) {
            return Ok(text.parse().ok());
        }
        let found = text.into_owned();
        match self.input.peek()? {
            Some(_) => Err(DumpError::Syntax {
                offset,
                found,
                expected,
            }),
            None => Err(self.ended(expected)),
        }
    }

    /// Reads a number of few digits that lies in the buffer with the byte behind it: nearly all do.
    fn short_number(&mut self) -> Option<u64> {
        let buffered = self.input.buffered();
        let (mut number, mut digits) = (0_u64, 0);
        while let Some(byte @ b'0'..=b'9') = buffered.get(digits)
            && digits < SAFE_DIGITS
        {
            number = number * 10 + u64::from(byte - b'0');
            digits += 1;
        }
        let is_whole = matches!(buffered.get(digits), Some(b',' | b']' | b'\n' | b'}'));
        if !is_whole || digits == 0 || (buffered[0] == b'0' && digits > 1) {
            return None;
        }
        self.input.consume(digits);
        Some(number)
    }

    /// Reads what can be a number, into the text.
    fn number_text(&mut self) -> Result<()> {
        self.text.clear();
        while let Some(byte @ (b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) =
            self.input.peek()?
        {
            if self.text.len() == NUMBER_BYTES_MAX {
                return Err(self.unexpected(byte, "the end of a number"));
            }
            self.text.push(byte);
            self.input.consume(1);
        }
        Ok(())
    }

    /// Reads a string, cut to the first 65,535 bytes. What is no Unicode stands for the replacement character.
    pub fn string(&mut self, expected: &'static str) -> Result<&[u8]> {
        self.take(b'"', expected)?;
        self.text.clear();
        let mut high = None;
        loop {
            if self.input.peek()? != Some(b'\\') {
                self.flush(&mut high);
            }
            self.plain()?;
            match self.bump()? {
                b'"' => break,
                b'\\' => self.escape(&mut high)?,
                found => return Err(self.misread(found, "no control character in a string")),
            }
        }
        Ok(&self.text)
    }

    /// Reads the bytes of a string up to its end, an escape or a control character.
    fn plain(&mut self) -> Result<()> {
        loop {
            let Some(_) = self.input.peek()? else {
                return Err(self.ended("the rest of a string"));
            };
            let buffered = self.input.buffered();
            let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
            let end = buffered.iter().position(|byte| !is_plain(byte));
            let count = end.unwrap_or(buffered.len());
            let room = STRING_BYTES_MAX.saturating_sub(self.text.len());
            self.text.extend_from_slice(&buffered[..count.min(room)]);
            self.input.consume(count);
            if end.is_some() {
                return Ok(());
            }
        }
    }

    /// A first half of a surrogate pair without the second is no character.
    fn flush(&mut self, high: &mut Option<u16>) {
        if high.take().is_some() {
            self.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn push(&mut self, character: char) {
        if self.text.len() < STRING_BYTES_MAX {
            let mut bytes = [0; 4];
            let encoded = character.encode_utf8(&mut bytes);
            self.text.extend_from_slice(encoded.as_bytes());
        }
    }

    /// Reads what follows a backslash. `high` is the first half of a surrogate pair that came right before.
    fn escape(&mut self, high: &mut Option<u16>) -> Result<()> {
        let character = match self.bump()? {
            byte @ (b'"' | b'\\' | b'/') => byte.into(),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_unit(high),
            found => return Err(self.misread(found, "an escape")),
        };
        self.flush(high);
        self.push(character);
        Ok(())
    }

    /// Reads the four digits of `\u`.
    fn code_unit(&mut self, high: &mut Option<u16>) -> Result<()> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.bump()?;
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(self.misread(byte, "a hexadecimal digit"));
            };
            unit = unit << 4 | digit as u16;
        }
        let pair = high.take().into_iter().chain([unit]);
        for decoded in char::decode_utf16(pair) {
            self.flush(high);
            match decoded.map_err(|error| error.unpaired_surrogate()) {
                Ok(character) => self.push(character),
                Err(first @ 0xd800..0xdc00) => *high = Some(first),
                Err(_) => self.push(char::REPLACEMENT_CHARACTER),
            }
        }
        Ok(())
    }

    /// Reads a value of any kind and forgets it.
    pub fn skip(&mut self) -> Result<()> {
        let mut closers = Vec::new();
        loop {
            if self.skip_start(&mut closers)? {
                continue;
            }
            loop {
                let Some(closer) = closers.last().copied() else {
                    return Ok(());
                };
                if self.has_next(closer, "a comma or the end of a list")? {
                    if closer == b'}' {
                        self.name()?;
                    }
                    break;
                }
                closers.pop();
            }
        }
    }

    /// Reads a simple value, an empty list, or the start of one, up to its first value; whether it was a start.
    fn skip_start(&mut self, closers: &mut Vec<u8>) -> Result<bool> {
        let opener = self.peek("a value")?;
        match opener {
            b'{' | b'[' => self.input.consume(1),
            b'"' => return self.string("a string").map(|_| false),
            b'-' | b'0'..=b'9' => return self.number("a number").map(|_| false),
            _ => return self.literal(opener).map(|()| false),
        }
        // In ASCII, both closers come two behind their openers.
        let closer = opener + 2;
        if self.take_if(closer, "an element")? {
            return Ok(false);
        }
        if opener == b'{' {
            self.name()?;
        }
        closers.push(closer);
        if closers.len() > LEVELS_MAX {
            let (what, limit) = ("levels of lists", LEVELS_MAX as u64);
            return Err(DumpError::TooMany { what, limit });
        }
        Ok(true)
    }

    fn literal(&mut self, first: u8) -> Result<()> {
        let word: &[u8] = match first {
            b't' => b"true",
            b'f' => b"false",
            b'n' => b"null",
            found => return Err(self.unexpected(found, "a value")),
        };
        for wanted in word {
            match self.input.peek()? {
                Some(found) if found == *wanted => self.input.consume(1),
                Some(found) => return Err(self.unexpected(found, "true, false or null")),
                None => return Err(self.ended("true, false or null")),
            }
        }
        Ok(())
    }
}

/// Whether the text is a number as JSON has them.
fn is_number(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (mantissa, exponent) = split(text, |byte| matches!(byte, b'e' | b'E'));
    let (whole, fraction) = split(mantissa, |byte| byte == b'.');
    let exponent = exponent.map(|exponent| match exponent {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    });
    let is_digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_digits(whole)
        && (whole.len() == 1 || whole[0] != b'0')
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(is_digits)
}

/// What is before the first byte that `is_separator`, and what is behind it.
fn split(text: &[u8], is_separator: impl Fn(u8) -> bool) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| is_separator(*byte)) {
        Some(place) => (&text[..place], Some(&text[place + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests;
