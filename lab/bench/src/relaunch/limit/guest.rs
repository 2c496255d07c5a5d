//! This process as a guest in the control group of an arm.

use std::path::PathBuf;

use warmswap_sys::memcg::Memcg;
use warmswap_sys::{Root, file};

use crate::BenchError;

/// This process, as long as it is in the group of an arm.
#[derive(Debug)]
pub struct Guest {
    home: PathBuf,
}

impl Guest {
    pub(super) fn join(root: &Root, memcg: &Memcg) -> Result<Self, BenchError> {
        let guest = Self {
            home: own_group(root, memcg)?,
        };
        memcg.add(std::process::id())?;
        Ok(guest)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Where that fails, removing the group moves this process to the top.
        let _ = file::write(
            &self.home.join("cgroup.procs"),
            &std::process::id().to_string(),
        );
    }
}

/// The folder of the memory group in which this process is.
fn own_group(root: &Root, memcg: &Memcg) -> Result<PathBuf, BenchError> {
    let text = file::read(&root.path("/proc/self/cgroup"))?;
    let mount = memcg.path().parent().unwrap_or(memcg.path()).to_owned();
    let find = |is_it: &dyn Fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            is_it(controllers).then(|| mount.join(path.trim_start_matches('/')))
        })
    };
    let own = find(&|list| list.split(',').any(|c| c == "memory")).or_else(|| find(&str::is_empty));
    // With both versions mounted, the unified line may name a group of the other hierarchy.
    Ok(own.filter(|path| path.is_dir()).unwrap_or(mount))
}
