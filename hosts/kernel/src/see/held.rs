//! The files on disks of this machine that a process holds: that it has mapped, or open.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use warmswap_sys::maps::{Backing, mapped_file};
use warmswap_sys::opened::{FileHandle, open_files};
use warmswap_sys::{FileError, Root};

use super::areas::{Kind, Readable};

/// Its files. Those that may not answer, and those that cannot be told without being opened, are left out.
///
/// # Errors
/// [`FileError`]; [`FileError::is_gone`] when the process ended.
pub fn files(root: &Root, pid: u32, areas: &[Readable]) -> Result<BTreeSet<FileHandle>, FileError> {
    let mut files = open_files(root, pid)?;
    let mut seen = FxHashSet::default();
    for Readable { area, kind } in areas {
        let mapping = &area.mapping;
        if let (Kind::File, Backing::File(file)) = (kind, &mapping.backing)
            && seen.insert((&file.device, file.inode))
        {
            let path = mapped_file(root, pid, mapping.start, mapping.end);
            files.extend(FileHandle::of(&path));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::see::areas;

    #[test]
    fn code_and_open_files_are_held() {
        let root = Root::machine();
        let pid = std::process::id();
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("open");
        let _file = File::create(&path).unwrap();
        let readable = areas::read(&root, pid).unwrap().readable;
        let held = files(&root, pid, &readable).unwrap();
        let of = |path| FileHandle::of(path).unwrap();
        assert!(held.contains(&of(&path)));
        let code = std::env::current_exe().unwrap();
        let is_local = readable.iter().any(|r| r.kind == Kind::File);
        assert_eq!(held.contains(&of(&code)), is_local);
    }
}
