//! Applications that the kernel killed for want of memory, and their next relaunch: a cold start.

use warmswap_apps::AppError;
use warmswap_sys::meminfo::oom_kills;
use warmswap_sys::{FileError, Root};

/// Tells an application that was killed from one that failed: since it last answered, the kernel killed something.
#[derive(Debug)]
pub struct Kills {
    root: Root,
    begin: u64,
    /// For each application, the kernel's count when it was last seen alive.
    alive: Vec<u64>,
}

impl Kills {
    /// Of so many applications, which are alive.
    pub fn new(root: &Root, apps: usize) -> Result<Self, FileError> {
        let begin = oom_kills(root)?;
        Ok(Self {
            root: root.clone(),
            begin,
            alive: vec![begin; apps],
        })
    }

    /// The application has answered.
    pub fn answered(&mut self, app: usize) -> Result<(), FileError> {
        self.alive[app] = oom_kills(&self.root)?;
        Ok(())
    }

    /// What an application's failure means: nothing more than that it was killed, or an error.
    pub fn explain(&self, app: usize, error: AppError) -> Result<(), AppError> {
        let has_failed = matches!(
            error,
            AppError::Ended { .. }
                | AppError::Pipe { .. }
                | AppError::Late { .. }
                | AppError::Answer { .. }
        );
        let was_killed = oom_kills(&self.root)? > self.alive[app];
        if has_failed && was_killed {
            return Ok(());
        }
        Err(error)
    }

    /// Processes that the kernel killed since the beginning.
    pub fn count(&self) -> Result<u64, FileError> {
        Ok(oom_kills(&self.root)?.saturating_sub(self.begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> AppError {
        AppError::Ended {
            app: "a".to_owned(),
            stderr: String::new(),
        }
    }

    #[test]
    fn a_failure_after_a_kill_is_one_until_the_application_answers_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let killed = |count: u64| {
            std::fs::write(
                dir.path().join("proc/vmstat"),
                format!("oom_kill {count}\n"),
            )
            .unwrap();
        };
        killed(7);
        let mut kills = Kills::new(&Root::at(dir.path()), 2).unwrap();

        kills.explain(0, ended()).unwrap_err();
        killed(9);
        kills.explain(0, ended()).unwrap();
        kills.explain(1, ended()).unwrap();
        kills.answered(0).unwrap();
        kills.explain(0, ended()).unwrap_err();
        kills.explain(1, ended()).unwrap();
        let other = AppError::Unknown {
            name: "b".to_owned(),
            known: String::new(),
        };
        kills.explain(1, other).unwrap_err();
        assert_eq!(kills.count().unwrap(), 2);
    }
}
