//! Takes over and takes back lists of changes of any content.
//!
//! The input is a state file. The paths of its actions are placed in a temporary folder, which is the root of the registry
//! too, so that nothing of the machine is touched; `BOOT` stands for the identity of the running system. Only what was read
//! here as actions, and written anew, is ever carried out.
#![no_main]

use std::fs;
use std::path::{Component, Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use serde::{Deserialize, Serialize};
use warmswap_sys::Root;
use warmswap_sys::undo::{Action, Undo};

/// The form of a state file.
#[derive(Serialize, Deserialize)]
struct State {
    boot_id: String,
    pid: u32,
    start_ticks: u64,
    actions: Vec<Action>,
}

/// Places the paths of an action below `root`. What has none is looked up in the registry's root.
fn confine(action: &mut Action, root: &Path) {
    let inside = |path: &mut PathBuf| {
        let parts = path.components();
        let names = parts.filter(|part| matches!(part, Component::Normal(_)));
        *path = root.join(names.collect::<PathBuf>());
    };
    match action {
        Action::Nothing | Action::RemoveZram { .. } | Action::EndSession { .. } => {}
        Action::RemoveGroup { path, to } => {
            inside(path);
            if let Some(to) = to.as_mut() {
                inside(to);
            }
        }
        Action::Restore { path, .. }
        | Action::RemoveSwapFile { path, .. }
        | Action::RemoveFolder { path }
        | Action::Unmount { path } => inside(path),
    }
}

fn make(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("make");
    fs::write(path, text).expect("write");
}

/// The folder of lists, and a list, may be written by their owner alone.
fn private(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("own");
}

/// The actions of the one state file in the folder.
fn listed(folder: &Path) -> Vec<Action> {
    let mut files = fs::read_dir(folder).expect("list").flatten();
    let Some(file) = files.next() else {
        return Vec::new();
    };
    assert!(files.next().is_none(), "more than one list");
    let text = fs::read_to_string(file.path()).expect("read");
    serde_json::from_str::<State>(&text)
        .expect("a list")
        .actions
}

fuzz_target!(|data: &[u8]| {
    let Ok(mut state) = serde_json::from_slice::<State>(data) else {
        return;
    };
    let place = tempfile::tempdir().expect("a temporary directory");
    let root = place.path().join("root");
    if state.boot_id == "BOOT" {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("an identity");
        state.boot_id = boot.trim().to_owned();
    }
    for action in &mut state.actions {
        confine(action, &root);
        assert!(!action.to_string().is_empty());
    }
    let text = serde_json::to_string(&state).expect("a list can be written");
    let again: State = serde_json::from_str(&text).expect("what was written");
    assert_eq!(again.actions, state.actions);

    make(&root.join("keep/file"), "kept");
    make(&root.join("warmswap-1/file"), "removed");
    make(&root.join("group/cgroup.procs"), "");
    make(&root.join("cgroup.procs"), "");
    make(&root.join("value"), "new");
    fs::create_dir_all(root.join("proc")).expect("make");
    let folder = place.path().join("state");
    let file = folder.join("1-2-3.json");
    make(&file, &text);
    private(&folder);

    let machine = Root::at(&root);
    if let Ok((undo, inherited)) = Undo::inherit(&machine, &folder) {
        let taken_over: Vec<_> = inherited.iter().map(|entry| entry.action.clone()).collect();
        assert!(
            taken_over
                .iter()
                .all(|action| state.actions.contains(action))
        );
        // The process may be alive: then the list is its own.
        let is_alive = file.exists();
        assert!(!is_alive || inherited.is_empty());
        if !is_alive {
            assert_eq!(
                listed(&folder),
                taken_over,
                "on disk before it is relied on"
            );
        }
        drop(inherited);
        // What was taken back is on no list any more; what failed stays there.
        if !is_alive {
            let left = listed(&folder);
            assert!(left.iter().all(|action| taken_over.contains(action)));
            assert!(!left.contains(&Action::Nothing));
        }
        let _ = undo.run_all();
    }
    let _ = Undo::open(&machine, &folder);
    // Only folders that carry the prefix may be removed with what is in them.
    assert!(root.join("keep/file").exists());
});
