//! Families of processes: all that one program started.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::process::{Process, ProcessError, Stat};
use crate::{FileError, Root};

/// The status of every process on the machine. Processes that end meanwhile are left out.
///
/// # Errors
/// [`FileError`] when `/proc` cannot be listed, or a process be read, for want of descriptors say: a list that is not whole
/// would tell of processes that they ended.
pub fn all(root: &Root) -> Result<Vec<Stat>, FileError> {
    let proc_dir = root.path("/proc");
    let entries = std::fs::read_dir(&proc_dir).map_err(|e| FileError::new("list", &proc_dir, e))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| FileError::new("list", &proc_dir, e))?;
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        match Stat::read(root, pid) {
            Ok(stat) => found.push(stat),
            Err(error) if error.is_exhausted() => return Err(error),
            // It ended, or may not be looked at.
            Err(_) => {}
        }
    }
    Ok(found)
}

/// `ancestor` and all its living descendants, parents before children, else by number.
///
/// # Errors
/// [`FileError`] when `/proc` cannot be listed.
pub fn descendants(root: &Root, ancestor: u32) -> Result<Vec<Stat>, FileError> {
    let mut living = all(root)?;
    living.retain(|s| s.state != 'Z');
    Ok(family(&living, ancestor).into_iter().cloned().collect())
}

/// `ancestor` and all its descendants of these processes, parents before children, else by number. A list
/// read while processes come and go may hold a ring; each process is listed once all the same.
#[must_use]
pub fn family(processes: &[Stat], ancestor: u32) -> Vec<&Stat> {
    let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
    let mut found = Vec::new();
    for stat in processes {
        if stat.pid == ancestor {
            found.push(stat);
        } else {
            children.entry(stat.parent).or_default().push(stat);
        }
    }
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        let mut family = children.remove(&parent.pid).unwrap_or_default();
        family.sort_by_key(|s| s.pid);
        found.append(&mut family);
        next += 1;
    }
    found
}

/// Living members of the session `session` that started at or after `start_ticks`.
///
/// # Errors
/// [`FileError`] when `/proc` cannot be listed.
pub fn session_members(
    root: &Root,
    session: u32,
    start_ticks: u64,
) -> Result<Vec<Stat>, FileError> {
    let mut members = all(root)?;
    members.retain(|s| s.session == session && s.start_ticks >= start_ticks && s.state != 'Z');
    Ok(members)
}

/// Ends (SIGKILL) the session that the process `leader`, started at `start_ticks`, made, until no member
/// is left. A later session with the same number is never touched.
///
/// # Errors
/// [`FileError`] when `/proc` cannot be listed.
pub fn kill_session(root: &Root, leader: u32, start_ticks: u64) -> Result<(), FileError> {
    // A session's number stays taken while any member lives; if the leader's number names a process with another
    // start, the session died out and the number was given anew.
    if Stat::read(root, leader).is_ok_and(|s| s.start_ticks != start_ticks) {
        return Ok(());
    }
    // Members may fork while the list is read, so look again until it is empty. A member in an uninterruptible
    // wait dies only afterwards: bounded.
    for _ in 0..1000 {
        let members = session_members(root, leader, start_ticks)?;
        if members.is_empty() {
            return Ok(());
        }
        for member in members {
            if let Ok(process) = Process::open(member.pid) {
                // The handle was opened by number: check that it is still that process.
                if Stat::read(root, member.pid).is_ok_and(|s| s.start_ticks == member.start_ticks) {
                    let _ = process.kill();
                }
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Processes that stand still (SIGSTOP) until this is dropped.
#[derive(Debug)]
pub struct Stopped<'a, P: Borrow<Process>>(&'a [P]);

impl<'a, P: Borrow<Process>> Stopped<'a, P> {
    /// Stops `processes` and waits until every thread stands, at most `limit`; threads in an
    /// uninterruptible wait come later. Processes that ended are passed over.
    ///
    /// # Errors
    /// [`ProcessError`] when a signal is refused; those stopped before are resumed.
    pub fn stop(root: &Root, processes: &'a [P], limit: Duration) -> Result<Self, ProcessError> {
        let guard = Self(processes);
        for process in processes {
            match process.borrow().stop() {
                Err(e) if !e.is_gone() => return Err(e),
                _ => {}
            }
        }
        let begin = Instant::now();
        for process in processes {
            let pid = process.borrow().pid();
            while !Stat::all_threads_stopped(root, pid) && begin.elapsed() < limit {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(guard)
    }
}

impl<P: Borrow<Process>> Drop for Stopped<'_, P> {
    fn drop(&mut self) {
        for process in self.0 {
            let _ = process.borrow().resume();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    fn fixture(stats: &[(u32, u32)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (pid, parent) in stats {
            let folder = dir.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&folder).unwrap();
            let line = format!(
                "{pid} (p) S {parent} 1 5 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {} 0 0",
                pid * 10
            );
            std::fs::write(folder.join("stat"), line).unwrap();
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn descendants_come_parents_first_and_strangers_not_at_all() {
        let (_dir, root) = fixture(&[(9, 5), (5, 1), (7, 5), (3, 9), (4, 2), (2, 1)]);

        let found: Vec<u32> = descendants(&root, 5)
            .unwrap()
            .iter()
            .map(|s| s.pid)
            .collect();

        assert_eq!(found, [5, 7, 9, 3]);
        assert!(descendants(&root, 99).unwrap().is_empty());
    }

    #[test]
    fn session_members_that_started_earlier_are_strangers() {
        let (_dir, root) = fixture(&[(9, 5), (5, 1), (7, 5)]);

        let mut members: Vec<u32> = session_members(&root, 5, 70)
            .unwrap()
            .iter()
            .map(|s| s.pid)
            .collect();
        members.sort_unstable();

        assert_eq!(members, [7, 9]);
    }

    fn shell_with_child() -> (std::process::Child, u64) {
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 60 & echo started; wait"])
            .stdout(Stdio::piped());
        crate::process::in_new_session(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let start = Stat::read(&Root::machine(), child.id())
            .unwrap()
            .start_ticks;
        (child, start)
    }

    #[test]
    fn a_session_is_ended_with_its_grandchildren_but_not_a_later_one() {
        let root = Root::machine();
        let (mut child, start) = shell_with_child();
        let pid = child.id();
        assert_eq!(descendants(&root, pid).unwrap().len(), 2);

        kill_session(&root, pid, start + 1).unwrap();
        assert_eq!(
            session_members(&root, pid, start).unwrap().len(),
            2,
            "another session's number"
        );
        kill_session(&root, pid, start).unwrap();

        assert!(session_members(&root, pid, start).unwrap().is_empty());
        child.wait().unwrap();
    }
}
