//! Kinds of programs that are registered with the kernel (`binfmt_misc`): it runs them by an interpreter, as it does scripts.
//!
//! Like all that looks at programs to come, this allocates nothing.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, RawDir};

use super::PathBuffer;

/// Where the kernel shows what is registered, a file for each; nothing where that is not mounted.
const FOLDER: &CStr = c"/proc/sys/fs/binfmt_misc";

/// What the kernel shows of one is shorter: a registration has 1,920 bytes at most.
const MOST_TEXT: usize = 4096;

/// Sets `path` to the interpreter that runs a file which begins with `head`; none where nothing is registered for it.
pub(super) fn set_interpreter(path: &mut PathBuffer, file: &OwnedFd, head: &[u8]) -> Option<()> {
    let read = OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, FOLDER, read | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let mut buffer = [MaybeUninit::uninit(); MOST_TEXT];
    let mut entries = RawDir::new(&folder, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let mut text = [0; MOST_TEXT];
        // Folders and the file that takes registrations cannot be read.
        let bytes = rustix::fs::openat(&folder, entry.file_name(), read, Mode::empty())
            .and_then(|entry| rustix::io::pread(&entry, &mut text, 0));
        let Some(kind) = bytes.ok().and_then(|bytes| Kind::parse(&text[..bytes])) else {
            continue;
        };
        let is_it = match kind.extension {
            Some(extension) => has_extension(file, extension),
            None => kind.begins(head),
        };
        if is_it {
            return path.set(kind.interpreter);
        }
    }
    None
}

/// Whether the file has a name with that extension, a dot included.
fn has_extension(file: &OwnedFd, extension: &[u8]) -> bool {
    let mut link = PathBuffer::new();
    let number = file.as_raw_fd().cast_unsigned();
    let mut name = [MaybeUninit::uninit(); super::MOST_PATH];
    link.number(b"/proc/self/fd/", number, b"")
        .and_then(|()| rustix::fs::readlinkat_raw(CWD, link.text()?, &mut name).ok())
        .is_some_and(|(name, _)| name.ends_with(extension))
}

/// One that is registered, as the kernel shows it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kind<'a> {
    interpreter: &'a [u8],
    /// With the dot before it; where there is none the magic number decides.
    extension: Option<&'a [u8]>,
    offset: usize,
    /// In hexadecimal digits.
    magic: &'a [u8],
    /// Likewise, and as long; empty where all bits count.
    mask: &'a [u8],
}

impl<'a> Kind<'a> {
    /// None for one that is switched off.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let mut lines = text.split(|&byte| byte == b'\n');
        if lines.next()? != b"enabled" {
            return None;
        }
        let mut kind = Self::default();
        for line in lines {
            let mut words = line.splitn(2, |&byte| byte == b' ');
            let (Some(name), Some(value)) = (words.next(), words.next()) else {
                continue;
            };
            match name {
                b"interpreter" => kind.interpreter = value,
                b"extension" => kind.extension = Some(value),
                b"offset" => kind.offset = str::from_utf8(value).ok()?.parse().ok()?,
                b"magic" => kind.magic = value,
                b"mask" => kind.mask = value,
                _ => {}
            }
        }
        (!kind.interpreter.is_empty()).then_some(kind)
    }

    /// Whether a file that begins so has the magic number.
    fn begins(&self, head: &[u8]) -> bool {
        let bytes = self.magic.len() / 2;
        let Some(found) = head.get(self.offset..self.offset + bytes) else {
            return false;
        };
        let is_alike = |(at, &found): (usize, &u8)| {
            let mask = byte(self.mask, at).unwrap_or(u8::MAX);
            byte(self.magic, at).is_some_and(|wanted| (found ^ wanted) & mask == 0)
        };
        bytes > 0 && found.iter().enumerate().all(is_alike)
    }
}

/// The byte at a place of hexadecimal digits.
fn byte(digits: &[u8], at: usize) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pair = digits.get(2 * at..2 * at + 2)?;
    Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_magic_number_counts_where_its_mask_has_bits() {
        let text =
            b"enabled\ninterpreter /usr/bin/a b\nflags: OC\noffset 2\nmagic 7f45ff\nmask ffff00\n";
        let kind = Kind::parse(text).unwrap();
        assert_eq!(kind.interpreter, b"/usr/bin/a b");
        for (head, expected) in [
            (&b"xx\x7fE\x01yy"[..], true),
            (b"xx\x7fE\x00", true),
            (b"xx\x7fE", false),
            (b"xx\x7fF\xff", false),
            (b"\x7fE\xff\x00\x00", false),
            (b"", false),
        ] {
            assert_eq!(kind.begins(head), expected, "{head:?}");
        }
        let without_mask = Kind::parse(b"enabled\ninterpreter /i\noffset 0\nmagic 4d5a\n").unwrap();
        assert!(without_mask.begins(b"MZ\x90") && !without_mask.begins(b"MY"));
    }

    #[test]
    fn what_is_switched_off_or_no_registration_is_none() {
        for text in [
            &b"disabled\ninterpreter /i\nmagic 4d5a\n"[..],
            b"enabled\n",
            b"enabled",
            b"",
            b"enabled\ninterpreter /i\noffset x\n",
        ] {
            assert_eq!(Kind::parse(text), None, "{text:?}");
        }
        let by_name = Kind::parse(b"enabled\ninterpreter /i\nflags: \nextension .jar\n").unwrap();
        assert_eq!(by_name.extension, Some(&b".jar"[..]));
        assert!(!by_name.begins(b"") && !by_name.begins(b"PK"));
    }

    #[test]
    fn a_file_has_the_extension_that_its_name_ends_with() {
        let folder = tempfile::tempdir().unwrap();
        let file: OwnedFd = std::fs::File::create(folder.path().join("a.b.jar"))
            .unwrap()
            .into();
        assert!(has_extension(&file, b".jar"));
        assert!(!has_extension(&file, b".b"));
    }
}
