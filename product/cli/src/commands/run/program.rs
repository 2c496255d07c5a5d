//! Whether a library can be preloaded into a program.

use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::ReadCache;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, FileKind};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use warmswap_output::BadInput;
use warmswap_output::program::{bad, check_executable};

/// Scripts may name scripts as their interpreters; the kernel follows so many.
const SCRIPT_DEPTH: usize = 5;

/// The kernel reads so much of a script's first line.
const FIRST_LINE: u64 = 256;

/// Bits of a mode that give the program other rights than its user's.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// Checks that the kernel and the dynamic loader will put a library into the program at `path`.
pub fn check(path: &Path) -> Result<(), BadInput> {
    let mut path = path.to_owned();
    for _ in 0..SCRIPT_DEPTH {
        check_rights(&path)?;
        match interpreter(&path).map_err(|error| bad(&path, error))? {
            Some(next) => path = next,
            None => return check_elf(&path),
        }
    }
    Err(bad(&path, "too many interpreters of interpreters"))
}

/// How names of libraries begin that must come first in a program, and replace what the preloaded library replaces.
const SANITIZERS: [&[u8]; 5] = [
    b"libasan.so",
    b"libtsan.so",
    b"liblsan.so",
    b"libhwasan.so",
    b"libclang_rt.",
];

/// Whether the program at `path` was built with a sanitizer. What cannot be read was not.
pub fn has_sanitizer(path: &Path) -> bool {
    let names = || {
        let data = ReadCache::new(File::open(path).ok()?);
        let header = FileHeader64::<Endianness>::parse(&data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &data).ok()?;
        let (entries, link) = sections.dynamic(endian, &data).ok()??;
        let strings = sections.strings(endian, &data, link).ok()?;
        let needed = entries
            .iter()
            .filter(|entry| entry.tag(endian) == DT_NEEDED)
            .filter_map(|entry| entry.string(endian, strings).ok());
        Some(needed.map(<[u8]>::to_vec).collect::<Vec<_>>())
    };
    let is_one = |name: &Vec<u8>| SANITIZERS.iter().any(|known| name.starts_with(known));
    names().is_some_and(|names| names.iter().any(is_one))
}

fn check_rights(path: &Path) -> Result<(), BadInput> {
    let found = check_executable(path)?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let other_user = found.mode() & SET_USER != 0 && found.uid() != user.as_raw();
    let other_group = found.mode() & SET_GROUP != 0 && found.gid() != group.as_raw();
    if other_user || other_group {
        let why = "it is set-uid or set-gid, and the dynamic loader preloads nothing into such programs; run \
                   it as its owner, or a copy without these bits";
        return Err(bad(path, why));
    }
    // Root's rights are whole already.
    let mut value = [0u8; 64];
    let capable = rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok();
    if capable && !user.is_root() {
        let why = "it has file capabilities, and the dynamic loader preloads nothing into such programs; run \
                   a copy without them";
        return Err(bad(path, why));
    }
    Ok(())
}

/// The interpreter in a script's first line; `None` for what is no script.
fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut start = Vec::new();
    File::open(path)?.take(FIRST_LINE).read_to_end(&mut start)?;
    let Some(rest) = start.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let line = rest.split(|&b| b == b'\n').next().unwrap_or_default();
    let name = line
        .trim_ascii_start()
        .split(u8::is_ascii_whitespace)
        .next();
    Ok(name
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(OsStr::from_bytes(name))))
}

/// The kind that this command is, which is the library's too.
const OWN_KIND: FileKind = FileKind::Elf64;

fn check_elf(path: &Path) -> Result<(), BadInput> {
    let file = File::open(path).map_err(|error| bad(path, error))?;
    let data = ReadCache::new(file);
    match FileKind::parse(&data) {
        Ok(OWN_KIND) => {}
        Ok(FileKind::Elf32) => {
            return Err(bad(
                path,
                "it is a 32-bit program, and the library has 64 bits",
            ));
        }
        _ => return Err(bad(path, "it is neither an ELF program nor a script")),
    }
    let damaged = |error: object::Error| bad(path, format!("its ELF header is damaged: {error}"));
    let header = FileHeader64::<Endianness>::parse(&data).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let segments = header.program_headers(endian, &data).map_err(damaged)?;
    let loader = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_INTERP);
    let Some(loader) = loader else {
        let why = "it is statically linked, so that no library can be preloaded into it; link it dynamically, \
                   or link the warmswap library into it";
        return Err(bad(path, why));
    };
    let loader = loader.data(endian, &data);
    let loader = loader.map_err(|()| bad(path, "its ELF header is damaged"))?;
    if String::from_utf8_lossy(loader).contains("musl") {
        return Err(bad(
            path,
            "it uses musl, and the library is built for glibc",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    const INTERP: u32 = 3;

    /// The head of a 64-bit little-endian program with one segment of this type, which holds `loader`.
    fn elf(segment: u32, loader: &str) -> Vec<u8> {
        let mut bytes = vec![0u8; 120];
        bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x00");
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(16, &3u16.to_le_bytes());
        put(18, &62u16.to_le_bytes());
        put(20, &1u32.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(52, &64u16.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        put(64, &segment.to_le_bytes());
        put(72, &120u64.to_le_bytes());
        put(96, &(loader.len() as u64).to_le_bytes());
        bytes.extend(loader.as_bytes());
        bytes
    }

    fn program(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    fn refusal(content: &[u8]) -> String {
        let (_folder, path) = program(content, 0o755);
        check(&path).unwrap_err().0
    }

    #[test]
    fn programs_with_a_loader_are_taken() {
        let (_folder, path) = program(&elf(INTERP, "/lib64/ld-linux-x86-64.so.2\0"), 0o755);
        check(&path).unwrap();
        check(Path::new("/bin/sh")).unwrap();
    }

    #[test]
    fn programs_without_one_are_refused_with_the_reason() {
        for (content, reason) in [
            (elf(1, ""), "statically linked"),
            (elf(INTERP, "/lib/ld-musl-x86_64.so.1\0"), "musl"),
            (b"plain text".to_vec(), "neither an ELF"),
            (Vec::new(), "neither an ELF"),
            (b"\x7fELF\x01\x01\x01".repeat(20), "32-bit"),
            (elf(INTERP, "")[..70].to_vec(), "damaged"),
            (b"#!/does/not/exist\n".to_vec(), "/does/not/exist"),
        ] {
            let said = refusal(&content);
            assert!(said.contains(reason), "{said}");
        }
    }

    #[test]
    fn programs_with_a_sanitizer_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("main.c");
        fs::write(&source, "int main(void) { return 0; }").unwrap();
        for (flag, expected) in [("-fsanitize=address", true), ("-O1", false)] {
            let path = folder.path().join(flag);
            let mut compiler = std::process::Command::new("cc");
            compiler.arg(flag).arg(&source).arg("-o").arg(&path);
            match compiler.output() {
                Ok(output) if output.status.success() => {}
                _ => {
                    let why = "there is no C compiler with this sanitizer";
                    warmswap_testkit::skip!("programs_with_a_sanitizer_are_known", "{why}");
                }
            }
            assert_eq!(has_sanitizer(&path), expected, "{flag}");
        }
        assert!(!has_sanitizer(Path::new("/bin/sh")) && !has_sanitizer(&source));
    }

    #[test]
    fn scripts_are_as_their_interpreters() {
        let (_folder, path) = program(b"#! /bin/sh -e\necho\n", 0o755);
        check(&path).unwrap();
        let (_static, interpreter) = program(&elf(1, ""), 0o755);
        let said = refusal(format!("#!{} x", interpreter.display()).as_bytes());
        assert!(said.contains("statically linked"), "{said}");
        let (_folder, own) = program(b"", 0o755);
        fs::write(&own, format!("#!{}", own.display())).unwrap();
        assert!(check(&own).unwrap_err().0.contains("too many"));
    }

    #[test]
    fn other_rights_and_none_are_refused() {
        let (_folder, path) = program(&elf(INTERP, "/lib64/ld.so\0"), 0o644);
        assert!(check(&path).unwrap_err().0.contains("not executable"));
        if !warmswap_sys::is_root() {
            warmswap_testkit::skip!("other_rights_and_none_are_refused", "needs root");
        }
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(check(&path).unwrap_err().0.contains("set-uid"));
    }
}
