use super::*;

fn value_file(dir: &Path, value: &str) -> PathBuf {
    let path = dir.join("value");
    std::fs::write(&path, value).unwrap();
    path
}

fn restore(path: &Path, value: &str) -> Action {
    Action::Restore {
        path: path.to_owned(),
        value: value.to_owned(),
    }
}

fn open(dir: &Path) -> Undo {
    Undo::open(&Root::machine(), &dir.join("state")).unwrap()
}

fn state_files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir.join("state"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect()
}

/// The state file of a process that ended with `actions` pending.
fn leave(dir: &Path, actions: Vec<Action>) {
    let state = State {
        boot_id: boot_id(&Root::machine()),
        pid: std::process::id(),
        start_ticks: 1,
        pid_namespace: 0,
        actions,
    };
    std::fs::create_dir(dir.join("state")).unwrap();
    let text = serde_json::to_string(&state).unwrap();
    std::fs::write(dir.join("state/left.json"), text).unwrap();
}

#[test]
fn dropping_takes_back_and_removes_the_state_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "changed");
    let undo = open(dir.path());

    let pending = undo.register(restore(&path, "old")).unwrap();
    assert_eq!(state_files(dir.path()).len(), 1);
    drop(pending);

    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert!(state_files(dir.path()).is_empty());
}

#[test]
fn state_files_are_private_also_where_others_may_reach_them() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    let folder = root.path(SYSTEM_FOLDER);
    let mode = |path: &Path| {
        let found = std::fs::metadata(path).unwrap();
        found.permissions().mode() & 0o7777
    };
    let undo = Undo::open(&root, &folder).unwrap();
    assert_eq!(mode(&folder), 0o711);
    let pending = undo.register(Action::Nothing).unwrap();
    let entries: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    let [file] = entries.as_slice() else {
        panic!("{entries:?}")
    };
    assert_eq!(mode(&file.as_ref().unwrap().path()), 0o600);
    drop(pending);

    // A folder of an older version; and one within it, which is nobody's but the daemon's.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    Undo::open(&root, &folder).unwrap();
    assert_eq!(mode(&folder), 0o711);
    let private = folder.join("daemon.state");
    Undo::inherit(&root, &private).unwrap();
    assert_eq!(mode(&private), 0o700);
}

#[test]
fn a_list_that_cannot_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("list.json");
    // No file takes the place of a folder.
    std::fs::create_dir(&path).unwrap();
    let state = State {
        boot_id: boot_id(&Root::machine()),
        pid: std::process::id(),
        start_ticks: 1,
        pid_namespace: 0,
        actions: Vec::new(),
    };
    write_state(&path, &state).unwrap_err();
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_panic_takes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "changed");
    let undo = open(dir.path());

    let outcome = std::panic::catch_unwind(|| {
        let _pending = undo.register(restore(&path, "old")).unwrap();
        panic!("on purpose");
    });

    assert!(outcome.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn run_all_goes_backwards() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "third");
    let undo = open(dir.path());
    let first = undo.register(restore(&path, "first")).unwrap();
    let second = undo.register(restore(&path, "second")).unwrap();

    undo.run_all().unwrap();

    assert!(std::fs::read_to_string(&path).unwrap().starts_with("first"));
    std::fs::write(&path, "later").unwrap();
    drop((first, second));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "later",
        "done once only"
    );
}

#[test]
fn a_failure_is_reported_kept_and_does_not_stop_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "changed");
    let undo = open(dir.path());
    let _first = undo.register(restore(&path, "old")).unwrap();
    let forbidden = undo
        .register(Action::RemoveFolder {
            path: dir.path().join("precious"),
        })
        .unwrap();

    let error = undo.run_all().unwrap_err();

    assert!(error.to_string().contains("precious"), "{error}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("old"));
    let state = std::fs::read_to_string(&state_files(dir.path())[0]).unwrap();
    assert!(
        state.contains("precious") && !state.contains("\"old\""),
        "{state}"
    );
    assert!(forbidden.finish().is_err());
}

#[test]
fn the_next_run_takes_back_what_an_ended_process_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "changed");
    let folder = dir.path().join("state");
    std::fs::create_dir(&folder).unwrap();
    let state = |pid, start_ticks, boot_id| State {
        boot_id,
        pid,
        start_ticks,
        pid_namespace: 0,
        actions: vec![restore(&path, "old")],
    };
    let write = |state: &State| {
        std::fs::write(
            folder.join("left.json"),
            serde_json::to_string(state).unwrap(),
        )
        .unwrap();
    };
    let me = Stat::read(&Root::machine(), std::process::id()).unwrap();
    let boot = boot_id(&Root::machine());

    write(&state(me.pid, me.start_ticks, boot.clone()));
    drop(open(dir.path()));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "changed",
        "its process lives"
    );

    write(&state(
        me.pid,
        me.start_ticks + 1,
        "another boot".to_owned(),
    ));
    drop(open(dir.path()));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "changed",
        "the machine was restarted since"
    );
    assert!(state_files(dir.path()).is_empty());

    // A number of another namespace: the process may live there.
    let state_of = |pid_namespace| State {
        pid_namespace,
        ..state(me.pid, me.start_ticks + 1, boot.clone())
    };
    write(&state_of(pid_namespace() + 1));
    drop(open(dir.path()));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "changed");
    assert_eq!(state_files(dir.path()).len(), 1);

    write(&state_of(pid_namespace()));
    drop(open(dir.path()));
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("old"));
    assert!(state_files(dir.path()).is_empty());
}

#[test]
fn a_folder_is_removed_with_its_contents() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("warmswap-test");
    std::fs::create_dir_all(folder.join("deep/er")).unwrap();
    let undo = open(dir.path());

    undo.register(Action::RemoveFolder {
        path: folder.clone(),
    })
    .unwrap()
    .finish()
    .unwrap();

    assert!(!folder.exists());
}

#[test]
fn no_change_begins_after_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let undo = open(dir.path());
    undo.0.lock().interrupted = true;

    let refused = undo.register(Action::Nothing);

    assert!(matches!(refused, Err(UndoError::Interrupted)));
}

#[test]
fn what_an_ended_process_left_can_be_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "changed");
    leave(
        dir.path(),
        vec![restore(&path, "old"), restore(&path, "older")],
    );

    let (undo, inherited) = Undo::inherit(&Root::machine(), &dir.path().join("state")).unwrap();

    let actions: Vec<_> = inherited.iter().map(|left| left.action.clone()).collect();
    assert_eq!(actions, [restore(&path, "old"), restore(&path, "older")]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "changed");
    assert_eq!(
        state_files(dir.path()).len(),
        1,
        "it stands in the heir's file now"
    );
    let mut inherited = inherited.into_iter();
    inherited.next_back().unwrap().take_back().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "older");
    drop((inherited, undo));
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("old"));
    assert!(state_files(dir.path()).is_empty());
}

#[test]
fn of_an_earlier_boot_nothing_is_inherited() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "changed");
    leave(dir.path(), vec![restore(&path, "old")]);
    let file = state_files(dir.path()).remove(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let earlier = text.replace(&boot_id(&Root::machine()), "an earlier boot");
    std::fs::write(&file, earlier).unwrap();

    let (_undo, inherited) = Undo::inherit(&Root::machine(), &dir.path().join("state")).unwrap();

    assert!(inherited.is_empty());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "changed");
    assert!(state_files(dir.path()).is_empty());
}

/// What stands in a folder that another user made, or can write to, is not done with our rights.
#[test]
fn what_others_could_have_written_is_not_done() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "mine");
    leave(dir.path(), vec![restore(&path, "written by another")]);
    let (state, left) = (dir.path().join("state"), dir.path().join("state/left.json"));
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let refused = |folder: &Path| {
        for result in [
            Undo::open(&Root::machine(), folder).map(drop),
            Undo::inherit(&Root::machine(), folder).map(drop),
        ] {
            let error = result.unwrap_err().to_string();
            assert!(
                error.contains("cannot trust") || error.contains("cannot read"),
                "{error}"
            );
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    };

    mode(&state, 0o777);
    refused(&state);
    mode(&state, 0o755);
    mode(&left, 0o666);
    refused(&state);
    mode(&left, 0o600);
    symlink(&state, dir.path().join("link")).unwrap();
    refused(&dir.path().join("link"));
    std::fs::rename(&left, dir.path().join("elsewhere.json")).unwrap();
    symlink(dir.path().join("elsewhere.json"), &left).unwrap();
    refused(&state);
    std::fs::remove_file(&left).unwrap();
    if crate::is_root() {
        std::os::unix::fs::chown(&state, Some(1111), None).unwrap();
        refused(&state);
    }
}

#[test]
fn a_change_is_made_under_its_entry_and_not_after_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "old");
    let undo = open(dir.path());
    let pending = undo.register(restore(&path, "old")).unwrap();

    let made = pending.change(|| std::fs::write(&path, "new").is_ok());
    assert!(made.unwrap());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");

    undo.0.lock().interrupted = true;
    let error = pending.change(|| panic!("it is not called")).unwrap_err();
    assert!(matches!(error, UndoError::Interrupted), "{error}");
    drop(pending);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn what_cannot_be_taken_back_refuses_no_command_and_keeps_nothing_else_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "changed");
    // The name of this folder says that it is not ours to remove.
    let forbidden = Action::RemoveFolder {
        path: dir.path().join("precious"),
    };
    leave(dir.path(), vec![restore(&path, "old"), forbidden]);

    let _undo = open(dir.path());

    assert!(std::fs::read_to_string(&path).unwrap().starts_with("old"));
    assert_eq!(state_files(dir.path()).len(), 1, "for the next command");
    // What was taken back is not taken back again.
    std::fs::write(&path, "chosen since").unwrap();
    drop(open(dir.path()));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "chosen since");
}

/// In a container nobody may wait for processes that ended.
#[test]
fn a_process_that_nobody_waited_for_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = value_file(dir.path(), "changed");
    let root = Root::machine();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let start = loop {
        let stat = Stat::read(&root, child.id()).unwrap();
        if stat.state == 'Z' {
            break stat.start_ticks;
        }
        std::thread::yield_now();
    };
    leave(dir.path(), vec![restore(&path, "old")]);
    let file = dir.path().join("state/left.json");
    let state = State {
        boot_id: boot_id(&root),
        pid: child.id(),
        start_ticks: start,
        pid_namespace: pid_namespace(),
        actions: vec![restore(&path, "old")],
    };
    std::fs::write(&file, serde_json::to_string(&state).unwrap()).unwrap();

    let _undo = open(dir.path());

    assert!(std::fs::read_to_string(&path).unwrap().starts_with("old"));
    child.wait().unwrap();
}

/// Control groups are folders here: their files are removed with them by the kernel, and by hand in this test.
#[test]
fn groups_that_members_made_go_with_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let (group, to) = (dir.path().join("group"), dir.path().join("to"));
    for folder in [group.join("a/b"), to.clone()] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let perform = |action: &Action| action.perform(&Root::at(dir.path()));
    let remove = Action::RemoveGroup {
        path: group.clone(),
        to: Some(to.clone()),
    };
    std::fs::write(to.join("cgroup.procs"), "").unwrap();
    // A group without a list of members is gone.
    perform(&remove).unwrap();
    assert!(group.exists());

    for folder in ["", "a", "a/b"] {
        let procs = group.join(folder).join("cgroup.procs");
        std::fs::write(procs, format!("7{}\n", folder.len())).unwrap();
    }
    let error = perform(&remove).unwrap_err();

    assert!(error.path.ends_with("group"), "{error}");
    let moved = std::fs::read_to_string(to.join("cgroup.procs")).unwrap();
    assert!(moved.starts_with("73"), "{moved}");
    // Its group is gone: members go to the parent.
    let gone = Action::RemoveGroup {
        path: group.join("a/b"),
        to: Some(dir.path().join("nowhere")),
    };
    perform(&gone).unwrap_err();
    let moved = std::fs::read_to_string(group.join("a/cgroup.procs")).unwrap();
    assert!(moved.starts_with("73"), "{moved}");
}

#[test]
fn what_the_kernel_cannot_do_just_then_is_tried_again() {
    let tries = |code| {
        let mut tries = 0;
        let result = while_busy(|| {
            tries += 1;
            let error = std::io::Error::from_raw_os_error(code);
            match tries {
                3 => Ok(()),
                _ => Err(FileError::new("do", Path::new("/x"), error)),
            }
        });
        (tries, result.is_ok())
    };
    for code in [libc::EBUSY, libc::EINTR, libc::ENOMEM] {
        assert_eq!(tries(code), (3, true), "{code}");
    }
    assert_eq!(tries(libc::EPERM), (1, false));
}

/// A signal comes while the child begins, which may take for ever: the list's lock is free.
#[test]
fn a_session_that_begins_as_a_signal_comes_does_not_run() {
    use crate::session::{Session, SessionError};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt as _;
    let dir = tempfile::tempdir().unwrap();
    let undo = open(dir.path());
    let (mut begins, in_child) = UnixStream::pair().unwrap();
    let mut command = std::process::Command::new("sleep");
    command.arg("60");
    // SAFETY: between fork and exec only read and write are called, on a descriptor and a byte of the child's own.
    unsafe {
        command.pre_exec(move || {
            let mut byte = [0];
            rustix::io::write(&in_child, &byte)?;
            rustix::io::read(&in_child, &mut byte)?;
            Ok(())
        })
    };
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| {
            begins.read_exact(&mut [0]).unwrap();
            let mut list = undo.0.lock();
            list.interrupted = true;
            undo.0.run_all(&mut list).unwrap();
            drop(list);
            begins.write_all(&[0]).unwrap();
        });
        Session::start(&undo, &mut command)
    });
    let refused = refused.unwrap_err();
    let interrupted = SessionError::Undo(UndoError::Interrupted);
    assert_eq!(refused.to_string(), interrupted.to_string());
    let family = crate::tree::descendants(&Root::machine(), std::process::id()).unwrap();
    assert_eq!(family.len(), 1, "this process alone: {family:?}");
}
