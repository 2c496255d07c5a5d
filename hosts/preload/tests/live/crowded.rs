//! Programs that can have no more threads, by a control group of the test's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use warmswap_testkit::skip;

use crate::SMALL;
use crate::common::{Case, Run, run_program};

/// A group of the controller `pids`, removed on drop.
struct Group(PathBuf);

impl Group {
    /// `None` where there is no such controller, or no right to it.
    fn new(name: &str) -> Option<Self> {
        let roots = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(Path::new);
        let folder = format!("warmswap-test-{name}-{}", std::process::id());
        let folders = roots.map(|root| root.join(&folder));
        let group = folders
            .into_iter()
            .find(|folder| fs::create_dir(folder).is_ok());
        let group = Self(group?);
        group.0.join("pids.max").exists().then_some(group)
    }

    /// How often a task was refused.
    fn refused(&self) -> u64 {
        let events = fs::read_to_string(self.0.join("pids.events")).unwrap_or_default();
        let count = events.trim().strip_prefix("max ");
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last task may be on its way out.
        for _ in 0..1000 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs the program in a group, and something else meanwhile. `None` where it cannot run.
fn crowded(name: &str, what: &str, meanwhile: impl FnOnce(&Group)) -> Option<Run> {
    let Some(group) = Group::new(what) else {
        skip!(name, "no controller `pids`, or no right to it"; None);
    };
    let mut input = tempfile::tempfile().expect("a file");
    use std::io::{Seek as _, Write as _};
    writeln!(input, "{} {what}", group.0.display()).expect("written");
    input.rewind().expect("a file");
    run_program("crowded", &Case::new(SMALL), Stdio::from(input), || {
        meanwhile(&group)
    })
}

#[test]
fn a_program_without_room_for_our_threads_is_not_paged() {
    let name = "a_program_without_room_for_our_threads_is_not_paged";
    if let Some(run) = crowded(name, "stays", |_| ()) {
        let said = run.errors.matches("runs without paging").count();
        assert_eq!(said, 1, "{}", run.errors);
    }
}

#[test]
fn a_child_waits_for_room_for_its_threads() {
    let name = "a_child_waits_for_room_for_its_threads";
    let run = crowded(name, "forks", |group| {
        // A program that hangs or fails before ends by itself.
        for _ in 0..10_000 {
            if group.refused() > 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        fs::write(group.0.join("pids.max"), "max").expect("our own group");
    });
    if let Some(run) = run {
        assert!(run.stats.expect("a report").managed);
    }
}
