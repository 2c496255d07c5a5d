//! Files that a process has open.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::FileHandle;
use crate::mount::is_local;
use crate::{FileError, Root, file};

/// So many descriptors of a process are looked at at most: a server may have a million.
const MOST_DESCRIPTORS: usize = 1024;

/// The files on disks of this machine that a process has open, each once, by its first thousand descriptors. Files that a network
/// or a program answers for are not asked for.
///
/// # Errors
/// [`FileError`]; [`FileError::is_gone`] when the process ended.
pub fn open_files(root: &Root, pid: u32) -> Result<BTreeSet<FileHandle>, FileError> {
    let own = file::read(&root.path("/proc/self/mountinfo"))?;
    let mut local = local_mounts(&own);
    let mounts = file::read(&root.proc_file(pid, "mountinfo"))?;
    local.extend(local_mounts(&mounts));
    let folder = root.proc_file(pid, "fd");
    let entries = std::fs::read_dir(&folder).map_err(|e| FileError::new("read", &folder, e))?;
    let on_disk = entries
        .flatten()
        .take(MOST_DESCRIPTORS)
        .filter_map(|entry| {
            let link = entry.path();
            if !may_be_on_disk(&std::fs::read_link(&link).ok()?) {
                return None;
            }
            let info = root.proc_file(pid, "fdinfo").join(entry.file_name());
            let mount = mount_in(&file::read(&info).ok()?)?;
            local.contains(&mount).then_some(link)
        });
    // A descriptor that was closed meanwhile holds nothing.
    let links: Vec<PathBuf> = on_disk.collect();
    Ok(links.iter().flat_map(|link| FileHandle::of(link)).collect())
}

/// By what the link of a descriptor says. The kernel may write megabytes about descriptors of other kinds, as of all that one of
/// inotify watches.
fn may_be_on_disk(target: &Path) -> bool {
    target.is_absolute() && !target.starts_with("/dev")
}

/// The numbers of mounts on disks of this machine, by the text of mountinfo.
fn local_mounts(mounts: &str) -> BTreeSet<u64> {
    let number = |line: &str| {
        let (mount, system) = line.split_once(" - ")?;
        let kind = system.split(' ').next()?;
        let number = mount.split(' ').next()?.parse().ok()?;
        is_local(kind).then_some(number)
    };
    mounts.lines().filter_map(number).collect()
}

/// The mount that a file belongs to, by the text of fdinfo.
fn mount_in(text: &str) -> Option<u64> {
    let mut values = text.lines().filter_map(|line| line.strip_prefix("mnt_id:"));
    values.next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn mounts_on_disks_of_this_machine_are_told_by_number() {
        let mounts = "36 35 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n\
                      40 36 0:50 / /net rw - nfs4 host:/ rw\n\
                      41 36 0:51 / /far rw - fuse.sshfs host: rw\n\
                      42 36 254:2 / /home rw - xfs /dev/vda2 rw\n\
                      damaged\n";
        assert_eq!(local_mounts(mounts), BTreeSet::from([36, 42]));
        let text = "pos:\t0\nflags:\t0100000\nmnt_id:\t42\nino:\t7\n";
        assert_eq!(mount_in(text), Some(42));
        assert_eq!(mount_in("pos:\t0\n"), None);
    }

    #[test]
    fn descriptors_of_other_kinds_are_left_out() {
        for (target, expected) in [
            ("/home/a/file", true),
            ("/home/a/gone (deleted)", true),
            ("/dev/dri/card0", false),
            ("anon_inode:inotify", false),
            ("socket:[7]", false),
            ("pipe:[7]", false),
        ] {
            assert_eq!(may_be_on_disk(Path::new(target)), expected, "{target}");
        }
    }

    #[test]
    fn a_file_is_told_by_the_process_that_has_it_open_and_by_its_path_alike() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let [held, other] = ["held", "other"].map(|name| folder.path().join(name));
        let file = File::create(&held).unwrap();
        std::fs::write(&other, "").unwrap();
        let handles = [&held, &other].map(|path| FileHandle::of(path).unwrap());
        let pid = std::process::id();
        let open = open_files(&Root::machine(), pid).unwrap();
        assert!(open.contains(&handles[0]));
        assert!(!open.contains(&handles[1]));
        drop(file);
        let open = open_files(&Root::machine(), pid).unwrap();
        assert!(!open.contains(&handles[0]));
    }
}
