//! What the kernel starts for a program, and whether a library can be preloaded into that.

use object::elf::{DT_NEEDED, ELFMAG, FileHeader32, FileHeader64, SHT_DYNSYM};
use object::read::ReadCache;
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _, Sym as _};
use object::{Endianness, FileKind};
use rustix::fs::StatVfsMountFlags;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use warmswap_output::BadInput;
use warmswap_output::program::{bad, executable};
use warmswap_protocol::sanitizers::{LIBRARIES, LINKED};

/// Scripts may name scripts as their interpreters; the kernel follows so many.
const SCRIPT_DEPTH: usize = 5;

/// The kernel reads so much of a script's first line.
const FIRST_LINE: usize = 256;

/// What the C library starts for a text that names no interpreter.
pub const SHELL: &str = "/bin/sh";

/// Bits of a mode that give the program other rights than its user's. The one of the group counts only where the group may
/// execute the program.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2010;

/// What starts for a program.
#[derive(Debug)]
pub struct Start {
    /// The file that the kernel loads: the program's own, or that of the last interpreter.
    pub file: PathBuf,
    /// Whether the program is a text that names no interpreter: the kernel refuses it, and the shell reads it.
    pub by_shell: bool,
}

/// Follows the program at `path`, which can be executed, to what the kernel loads for it.
///
/// # Errors
/// [`BadInput`] where an interpreter or a loader is missing, which the kernel would say of the program.
pub fn start(path: &Path) -> Result<Start, BadInput> {
    let mut start = Start {
        file: path.to_owned(),
        by_shell: false,
    };
    for _ in 0..=SCRIPT_DEPTH {
        let next = match first_line(&start.file) {
            Ok(Line::Script(interpreter)) => interpreter,
            Ok(Line::Text) if !start.by_shell => {
                start.by_shell = true;
                SHELL.into()
            }
            // A program that may be executed and not read is left to the kernel.
            _ => {
                check_loader(&start.file)?;
                return Ok(start);
            }
        };
        executable(&next).map_err(|why| lacking(&start.file, "interpreter", &next, why))?;
        start.file = next;
    }
    Err(bad(path, "too many interpreters of interpreters"))
}

/// The file at `path` cannot be run for want of another one.
fn lacking(path: &Path, what: &str, other: &Path, why: impl Display) -> BadInput {
    let windows = match other.as_os_str().as_bytes() {
        [.., b'\r'] => "; its first line ends with a carriage return, as on Windows: remove that",
        _ => "",
    };
    bad(path, format!("its {what} {other:?}: {why}{windows}"))
}

/// How a file begins.
enum Line {
    /// With the name of an interpreter.
    Script(PathBuf),
    /// As texts do: with no zero in the first line.
    Text,
    /// Otherwise.
    Binary,
}

fn first_line(path: &Path) -> io::Result<Line> {
    let mut start = Vec::new();
    File::open(path)?
        .take(FIRST_LINE as u64)
        .read_to_end(&mut start)?;
    if let Some(interpreter) = interpreter(&start) {
        return Ok(Line::Script(interpreter));
    }
    let line = start.split(|&byte| byte == b'\n').next();
    let is_text = !start.starts_with(&ELFMAG) && line.is_none_or(|line| !line.contains(&0));
    Ok(if is_text { Line::Text } else { Line::Binary })
}

/// The interpreter that a script names, as the kernel reads it: blanks and tabs end it, and so does a zero. A name that is
/// longer than what the kernel reads is none.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let rest = start.strip_prefix(b"#!")?;
    let line_end = rest.iter().position(|&byte| byte == b'\n');
    let line = &rest[..line_end.unwrap_or(rest.len())];
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let name = &line[line.iter().position(|byte| !is_blank(byte))?..];
    let end = name.iter().position(|byte| is_blank(byte) || *byte == 0);
    let is_cut = end.is_none() && line_end.is_none() && start.len() == FIRST_LINE;
    let name = &name[..end.unwrap_or(name.len())];
    (!is_cut && !name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
}

/// Checks that the loader of a program is there. What cannot be read is left to the kernel.
fn check_loader(path: &Path) -> Result<(), BadInput> {
    let Ok(data) = File::open(path).map(ReadCache::new) else {
        return Ok(());
    };
    let loader = match FileKind::parse(&data) {
        Ok(FileKind::Elf32) => loader::<FileHeader32<Endianness>>(&data),
        Ok(FileKind::Elf64) => loader::<FileHeader64<Endianness>>(&data),
        _ => return Ok(()),
    };
    match loader {
        Ok(Some(loader)) => match loader.metadata() {
            Err(why) => Err(lacking(path, "loader", &loader, why)),
            Ok(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The loader that a program names; `None` for one that is statically linked.
fn loader<H: FileHeader<Endian = Endianness>>(
    data: &ReadCache<File>,
) -> object::Result<Option<PathBuf>> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let loader = segments
        .iter()
        .find_map(|s| s.interpreter(endian, data).transpose());
    let loader = loader.transpose()?;
    Ok(loader.map(|path| PathBuf::from(OsStr::from_bytes(path))))
}

/// Checks that the dynamic loader will put a library into the program whose file the kernel loads.
pub fn check(file: &Path) -> Result<(), BadInput> {
    check_rights(file)?;
    check_elf(file)
}

/// Whether the program at `path` was built with a sanitizer. What cannot be read was not.
pub fn has_sanitizer(path: &Path) -> bool {
    let found = || {
        let data = ReadCache::new(File::open(path).ok()?);
        let header = FileHeader64::<Endianness>::parse(&data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &data).ok()?;
        let (entries, link) = sections.dynamic(endian, &data).ok()??;
        let strings = sections.strings(endian, &data, link).ok()?;
        let mut needed = entries
            .iter()
            .filter(|entry| entry.tag(endian) == DT_NEEDED)
            .filter_map(|entry| entry.string(endian, strings).ok());
        let is_one = |name: &[u8]| LIBRARIES.iter().any(|known| name.starts_with(known));
        if needed.any(is_one) {
            return Some(true);
        }
        let symbols = sections.symbols(endian, &data, SHT_DYNSYM).ok()?;
        let names = |wanted: &[u8]| {
            let mut symbols = symbols.iter();
            symbols.any(|symbol| symbol.name(endian, strings).ok() == Some(wanted))
        };
        Some(LINKED.into_iter().all(names))
    };
    found() == Some(true)
}

fn check_rights(path: &Path) -> Result<(), BadInput> {
    let found = executable(path).map_err(|why| bad(path, why))?;
    let is_ignored = rustix::thread::no_new_privs().is_ok_and(|is_set| is_set)
        || rustix::fs::statvfs(path)
            .is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID));
    if is_ignored {
        return Ok(());
    }
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let other_user = found.mode() & SET_USER != 0 && found.uid() != user.as_raw();
    let other_group = found.mode() & SET_GROUP == SET_GROUP && found.gid() != group.as_raw();
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
        _ => return Err(bad(path, "it is neither an ELF program nor a text")),
    }
    let loader = loader::<FileHeader64<Endianness>>(&data);
    let loader =
        loader.map_err(|error| bad(path, format!("its ELF header is damaged: {error}")))?;
    let Some(loader) = loader else {
        let why = "it is statically linked, so that no library can be preloaded into it; link it dynamically, \
                   or link the warmswap library into it";
        return Err(bad(path, why));
    };
    if loader.to_string_lossy().contains("musl") {
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
            (b"MZ\0\0".to_vec(), "neither an ELF"),
            (b"\x7fELF\x01\x01\x01".repeat(20), "32-bit"),
            (elf(INTERP, "")[..70].to_vec(), "damaged"),
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
        for (flags, expected) in [
            ("-fsanitize=address", true),
            ("-fsanitize=address -static-libasan", true),
            ("-fsanitize=thread -static-libtsan", true),
            ("-fsanitize=leak -static-liblsan", true),
            ("-fsanitize=undefined -static-libubsan", false),
            ("-O1", false),
        ] {
            let path = folder.path().join(flags);
            let mut compiler = std::process::Command::new("cc");
            compiler.args(flags.split(' ')).arg(&source);
            compiler.arg("-o").arg(&path);
            match compiler.output() {
                Ok(output) if output.status.success() => {}
                _ => {
                    let why = "there is no C compiler with this sanitizer";
                    warmswap_testkit::skip!("programs_with_a_sanitizer_are_known", "{why}");
                }
            }
            assert_eq!(has_sanitizer(&path), expected, "{flags}");
        }
        assert!(!has_sanitizer(Path::new("/bin/sh")) && !has_sanitizer(&source));
    }

    #[test]
    fn scripts_are_as_their_interpreters() {
        for first_line in ["#! /bin/sh -e", "#!\t/bin/sh\t", "#!/bin/sh\0x"] {
            let (_folder, path) = program(format!("{first_line}\necho\n").as_bytes(), 0o755);
            let start = start(&path).unwrap();
            assert_eq!(start.file, Path::new("/bin/sh"), "{first_line:?}");
            assert!(!start.by_shell);
            check(&start.file).unwrap();
        }
        let (_static, interpreter) = program(&elf(1, ""), 0o755);
        let (_folder, path) = program(format!("#!{} x", interpreter.display()).as_bytes(), 0o755);
        let said = check(&start(&path).unwrap().file).unwrap_err().0;
        assert!(said.contains("statically linked"), "{said}");
        let (_folder, own) = program(b"", 0o755);
        fs::write(&own, format!("#!{}", own.display())).unwrap();
        assert!(start(&own).unwrap_err().0.contains("too many"));
    }

    #[test]
    fn texts_without_an_interpreter_are_read_by_the_shell() {
        let too_long = format!("#!/{}\necho\n", "x".repeat(FIRST_LINE));
        for content in [
            "echo\n",
            "",
            "#!\necho\n",
            "#! \t\n",
            "# text\n\0",
            &too_long,
        ] {
            let (_folder, path) = program(content.as_bytes(), 0o755);
            let start = start(&path).unwrap();
            let file = start.file.as_path();
            assert_eq!(
                (file, start.by_shell),
                (Path::new(SHELL), true),
                "{content:?}"
            );
        }
        let (_folder, path) = program(b"MZ\0\0", 0o755);
        assert!(!start(&path).unwrap().by_shell);
        // A script whose interpreter is a text is one, too.
        let (_other, other) = program(format!("#!{}\n", path.display()).as_bytes(), 0o755);
        fs::write(&path, "echo\n").unwrap();
        assert!(start(&other).unwrap().by_shell);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (content, parts) in [
            (
                b"#!/does/not/exist\n".to_vec(),
                ["interpreter", "/does/not/exist"],
            ),
            (
                b"#!/bin/sh\r\necho\r\n".to_vec(),
                ["interpreter", "carriage return"],
            ),
            (
                b"#!/etc/passwd\n".to_vec(),
                ["interpreter", "not executable"],
            ),
            (
                elf(INTERP, "/does/not/load\0"),
                ["loader", "/does/not/load"],
            ),
        ] {
            let (_folder, path) = program(&content, 0o755);
            let said = start(&path).unwrap_err().0;
            let begin = format!("cannot run {}: its ", path.display());
            let is_whole = parts.iter().all(|part| said.contains(part));
            assert!(said.starts_with(&begin) && is_whole, "{said}");
        }
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
        // The kernel has no eye for these bits of a script.
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        check(&start(&path).unwrap().file).unwrap();
    }
}
