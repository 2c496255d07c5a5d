//! A Redis server in a memory cgroup of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warmswap_control::{Client, RUN_VARIABLE, RunSettings};
use warmswap_sys::memcg::Memcg;
use warmswap_sys::process::in_new_session;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::ZramSwap;
use warmswap_sys::{Root, tree};

use crate::BenchError;

/// How long a server may take to answer for the first time, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Steps in which a cgroup's memory is taken away.
const STEPS: usize = 60;

/// What a server is paged with.
#[derive(Debug, Clone, Copy)]
pub struct Preload<'a> {
    pub library: &'a Path,
    pub scheme: &'a str,
    pub budget_bytes: u64,
}

/// A server; ends when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    group: Memcg,
    root: Root,
    folder: PathBuf,
    /// Where the library listens, if there is one.
    control: Option<PathBuf>,
}

impl Server {
    /// Starts a server without data.
    pub fn start(undo: &Undo, name: &str, preload: Option<Preload>) -> Result<Self, BenchError> {
        let own = format!("warmswap-bench-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(&own);
        std::fs::create_dir(&folder).map_err(BenchError::io("make a folder"))?;
        let group = Memcg::create(undo, &own)?;
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no"]);
        command
            .args(["--dir", "."])
            .arg("--unixsocket")
            .arg("socket");
        command.current_dir(&folder);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let control = preload.is_some().then(|| folder.join("control"));
        if let Some(preload) = preload {
            let mut settings = RunSettings::new(preload.scheme, preload.budget_bytes);
            settings.control.clone_from(&control);
            let variable = settings.to_variable()?;
            command.env("LD_PRELOAD", preload.library);
            command.env(RUN_VARIABLE, variable);
        }
        in_new_session(&mut command);
        // From its first page on: what it takes at its start counts, too.
        group.start_here(&mut command)?;
        let child = command.spawn().map_err(BenchError::io(
            "start redis-server (Debian: apt install redis-server)",
        ))?;
        let server = Self {
            child,
            group,
            root: undo.root().clone(),
            folder,
            control,
        };
        server.wait_for_answer()?;
        Ok(server)
    }

    fn wait_for_answer(&self) -> Result<(), BenchError> {
        let begin = Instant::now();
        loop {
            let pong = redis::Client::open(self.socket())
                .and_then(|client| client.get_connection())
                .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection));
            match pong {
                Ok(_) => return Ok(()),
                Err(error) if begin.elapsed() > PATIENCE => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Its address.
    pub fn socket(&self) -> String {
        format!("unix://{}", self.folder.join("socket").display())
    }

    /// Anonymous memory that the cgroup is charged: what the program's files take in the page cache, and what the
    /// kernel takes for tables, is much the same for all.
    pub fn memory_bytes(&self) -> Result<u64, BenchError> {
        Ok(self.group.stats()?.anonymous_bytes)
    }

    /// Faults so far for which a page had to come back.
    pub fn faults(&self) -> Result<u64, BenchError> {
        let Some(control) = &self.control else {
            return Ok(self.group.stats()?.major_faults);
        };
        let faults = Client::connect(control, PATIENCE)?.stats()?.faults;
        Ok(faults.pool + faults.backing)
    }

    /// CPU nanoseconds of all its threads so far.
    pub fn cpu_ns(&self) -> Result<u64, BenchError> {
        Ok(tree::cpu_ns(&self.root, &[self.child.id()])?)
    }

    /// Takes memory away until what is left and what it takes on the device are `total_bytes` together.
    pub fn squeeze(&self, total_bytes: u64, zram: &ZramSwap) -> Result<(), BenchError> {
        for _ in 0..STEPS {
            let stored = zram.stats()?.memory_bytes;
            let stats = self.group.stats()?;
            let (usage, anonymous) = (stats.usage_bytes, stats.anonymous_bytes);
            let wanted = total_bytes.saturating_sub(stored);
            // The limit is on everything; what is not anonymous comes on top.
            let beside = usage.saturating_sub(anonymous);
            if anonymous <= wanted {
                // What it may grow by is what is left of the total.
                return Ok(self.group.limit(Some(wanted + beside))?);
            }
            // In small steps: the kernel gives up when it cannot take much at once.
            let next = wanted.max(anonymous - anonymous / 16) + beside;
            match self.group.limit(Some(next)) {
                Err(error) if !error.is_busy() => return Err(error.into()),
                _ => {}
            }
        }
        Err(BenchError::NotSqueezed { total_bytes })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // With less memory than it needs it would take long to end by itself.
        let _ = self.group.limit(None);
        if let Ok(pid) = i32::try_from(self.child.id())
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
