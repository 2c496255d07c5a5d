//! Files that a command writes: looked at before the work begins, and written as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::exit::BadInput;

/// Whether a file is named that stands for standard output.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Checks that a file can be written, so that what `option` asks for is not refused when the work is done. Changes
/// nothing.
///
/// # Errors
/// [`BadInput`] with the reason.
pub fn check(option: &str, path: &Path) -> Result<(), BadInput> {
    let cannot = |why: String| {
        let path = path.display();
        Err(BadInput(format!("cannot write {option} {path}: {why}")))
    };
    if is_stdout(path) {
        return cannot("standard output does not take it; name a file".to_owned());
    }
    match path.metadata() {
        Ok(found) if found.is_dir() => cannot("it is a folder; name a file".to_owned()),
        Ok(_) => access(path, Access::WRITE_OK).or_else(|error| cannot(error.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let usable = access(folder(path), Access::WRITE_OK | Access::EXEC_OK);
            usable.or_else(|error| cannot(format!("its folder: {error}")))
        }
        Err(error) => cannot(error.to_string()),
    }
}

/// Whether two paths name one file, also one that does not exist yet. What takes several results one after the other, such
/// as a pipe or `/dev/null`, is none.
#[must_use]
pub fn is_same(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => {
            one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        (Err(_), Err(_)) => one == other || place(one).is_some_and(|of| Some(of) == place(other)),
        _ => false,
    }
}

/// Where a file would be that does not exist.
fn place(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    Some(folder(path).canonicalize().ok()?.join(name))
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// What a symbolic link leads to is replaced, and not the link.
fn behind_links(path: &Path) -> PathBuf {
    match (fs::canonicalize(path), fs::read_link(path)) {
        (Ok(found), _) => found,
        (Err(_), Ok(target)) => behind_links(&folder(path).join(target)),
        (Err(_), Err(_)) => path.to_owned(),
    }
}

/// Writes the file at `path` as a whole or not at all.
///
/// What is written goes to a temporary file in the same directory, which then takes the place of `path`. What is no regular
/// file, such as `/dev/stdout` or a FIFO, and a file that has no name any more, is written to directly.
///
/// # Errors
/// What the system says; `path` is then as it was before.
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let has_name = |found: fs::Metadata| found.is_file() && fs::canonicalize(path).is_ok();
    if fs::metadata(path).is_ok_and(|found| !has_name(found)) {
        return write(&mut File::options().write(true).truncate(true).open(path)?);
    }
    let path = &behind_links(path);
    // Who may read it stays as it was; the umask takes away what new files of this process must not have.
    let before = fs::metadata(path).map(|found| found.permissions()).ok();
    let mut file = tempfile::Builder::new()
        .prefix(".warmswap-")
        .suffix(".tmp")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder(path))?;
    let mut buffered = BufWriter::new(file.as_file_mut());
    write(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    if let Some(permissions) = before {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_by_any_path_and_a_device_never() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("there"), "1").unwrap();
        fs::write(path("other"), "1").unwrap();
        fs::create_dir(path("sub")).unwrap();
        std::os::unix::fs::symlink("there", path("link")).unwrap();
        let same = |one: &str, other: &str| is_same(&path(one), &path(other));
        assert!(same("there", "sub/../there") && same("there", "link"));
        assert!(same("new", "new") && same("new", "./new") && same("new", "sub/../new"));
        assert!(!same("there", "other") && !same("there", "new") && !same("new", "sub/new"));
        let null = Path::new("/dev/null");
        assert!(!is_same(null, null));
        assert!(is_same(Path::new("-"), Path::new("-")));
    }

    #[test]
    fn what_cannot_be_written_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        fs::write(&path, "before").unwrap();
        let half = |out: &mut dyn Write| {
            out.write_all(&[b'x'; 1 << 20])?;
            Err(io::Error::from(ErrorKind::StorageFull))
        };
        let error = save(&path, half).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        save(&path, |out| out.write_all(b"after")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it was private");
    }

    #[test]
    fn links_are_followed_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (read, pipe) = io::pipe().unwrap();
        let pipe_path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        for (link, target) in [("to_new", "new"), ("to_pipe", &pipe_path)] {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
            save(&path(link), |out| out.write_all(b"text")).unwrap();
            assert!(path(link).is_symlink(), "{link}");
        }
        drop(pipe);
        assert_eq!(fs::read_to_string(path("new")).unwrap(), "text");
        assert_eq!(io::read_to_string(read).unwrap(), "text");
    }
}
