//! One arm of one block.

use std::path::PathBuf;
use std::time::Duration;

use warmswap_apps::{Request, RunningApp};
use warmswap_kernel::{Application, Goal, HostStatus, Members};
use warmswap_sys::memcg::{Group, Memcg};
use warmswap_sys::meminfo::SwapTraffic;
use warmswap_sys::process::Stat;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{Device, ZramConfig, ZramSwap};
use warmswap_sys::{Root, file};

use super::host_thread::HostThread;
use super::keeper::{Keeper, Kept};
use super::result::RelaunchValue;
use super::usage::{CpuNow, Faults, faults};
use super::{Arm, RelaunchOptions, Step, order, request_seed};
use crate::BenchError;

/// The programs are at rest for so long before memory is limited.
const SETTLE: Duration = Duration::from_millis(500);

/// One arm of one block, before it runs.
pub struct Run<'a> {
    pub options: &'a RelaunchOptions,
    pub undo: &'a Undo,
    pub arm: Arm,
    pub block: u32,
    /// None for no limit.
    pub total_bytes: Option<u64>,
}

/// What an arm did in a block, without its warm-up.
#[derive(Debug)]
pub struct Done {
    pub values: Vec<RelaunchValue>,
    pub usage: Kept,
    pub cpu: CpuNow,
    pub swap: SwapTraffic,
    /// Page cache charged to the group at the end, in bytes.
    pub file_bytes: u64,
    /// What the host used in the warm-up, and at the end.
    pub host: Option<(HostStatus, HostStatus)>,
}

impl Run<'_> {
    /// Sets the arm up, measures, and takes everything back.
    pub fn measure(&self, progress: &mut dyn FnMut(Step<'_>)) -> Result<Done, BenchError> {
        let root = self.undo.root();
        drop_caches(root)?;
        let zram = match self.total_bytes {
            Some(_) => Some(self.device()?),
            None => None,
        };
        let memcg = Memcg::create(self.undo, &format!("relaunch-{}", self.arm.name()))?;
        let group = memcg.group();
        let mut apps = self.start_all(&memcg, progress)?;
        std::thread::sleep(SETTLE);
        let device = zram.as_ref().map(|zram| Device::new(root, zram.id()));
        let keeper = Keeper::start(group.clone(), device, self.total_bytes);
        let host = match self.arm {
            Arm::Kernel => Some(self.host(&group, &apps)?),
            _ => None,
        };
        let done = self.switches(&mut apps, &group, &keeper, host.as_ref(), progress);
        drop(host);
        drop(keeper);
        // So that ending the programs and switching the swap off do not have to reclaim.
        let _ = group.set_limit(None);
        for app in apps {
            app.stop()?;
        }
        memcg.remove()?;
        if let Some(zram) = zram {
            zram.remove()?;
        }
        done
    }

    fn device(&self) -> Result<ZramSwap, BenchError> {
        let memory = warmswap_sys::meminfo::Meminfo::read(self.undo.root())?;
        Ok(ZramSwap::create(
            self.undo,
            &ZramConfig {
                disk_bytes: memory.total_bytes / 2,
                algorithm: self.options.algorithm.clone(),
                memory_limit_bytes: None,
                priority: 32767,
            },
        )?)
    }

    /// Starts all applications in the group: this process joins it meanwhile, so that they are born there.
    fn start_all(
        &self,
        memcg: &Memcg,
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<Vec<RunningApp>, BenchError> {
        let options = self.options;
        let _guest = Guest::join(self.undo.root(), memcg)?;
        options
            .apps
            .iter()
            .map(|spec| {
                let app = RunningApp::start(spec, options.size, &options.place, self.undo)?;
                progress(Step::Started { app: &spec.name });
                Ok(app)
            })
            .collect()
    }

    fn host(&self, group: &Group, apps: &[RunningApp]) -> Result<HostThread, BenchError> {
        let root = self.undo.root();
        let mut config = self.options.host.clone();
        config.goal = Goal {
            budget_bytes: self.total_bytes,
            group: Some(group.path().to_owned()),
            ..config.goal
        };
        let applications = apps
            .iter()
            .map(|app| {
                let pid = app.process();
                Ok(Application {
                    name: app.spec().name.clone(),
                    members: Members::Tree {
                        pid,
                        start_ticks: Stat::read(root, pid)?.start_ticks,
                        with_root: true,
                    },
                })
            })
            .collect::<Result<_, BenchError>>()?;
        HostThread::start(config, root, applications)
    }

    fn switches(
        &self,
        apps: &mut [RunningApp],
        group: &Group,
        keeper: &Keeper,
        host: Option<&HostThread>,
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<Done, BenchError> {
        let options = self.options;
        let root = self.undo.root();
        let rounds = options.warm_up + options.relaunches;
        let mut values = Vec::new();
        let mut begin = None;
        for round in 0..rounds {
            if round == options.warm_up {
                keeper.take();
                begin = Some((
                    CpuNow::read(root, &group.pids()?)?,
                    SwapTraffic::read(root)?,
                    host.map(HostThread::status),
                ));
            }
            for place in order(options.seed, self.block, round, apps.len()) {
                let value = self.switch(&mut apps[place], place, round, host)?;
                if round >= options.warm_up {
                    values.push(value);
                }
            }
            progress(Step::Round {
                done: round + 1,
                of: rounds,
            });
        }
        let (cpu, swap, host_before) = begin.ok_or(BenchError::NothingToMeasure)?;
        let now = SwapTraffic::read(root)?;
        let host_now = host.map(HostThread::status);
        Ok(Done {
            values,
            usage: keeper.take(),
            cpu: CpuNow::read(root, &group.pids()?)?.since(cpu),
            swap: SwapTraffic {
                in_pages: now.in_pages - swap.in_pages,
                out_pages: now.out_pages - swap.out_pages,
                zswap_written_back_pages: now.zswap_written_back_pages
                    - swap.zswap_written_back_pages,
            },
            file_bytes: group.stats()?.file_bytes,
            host: host_before.zip(host_now),
        })
    }

    /// One application comes to the foreground, answers, is used and left.
    fn switch(
        &self,
        app: &mut RunningApp,
        place: usize,
        round: u32,
        host: Option<&HostThread>,
    ) -> Result<RelaunchValue, BenchError> {
        let root = self.undo.root();
        let pids = app.pids()?;
        let before = faults(root, &pids);
        let seed = request_seed(self.options.seed, self.block, round, place);
        if let Some(host) = host {
            host.switch(place);
        }
        let answer = app.request(Request::Relaunch, seed)?;
        if let Some(host) = host {
            host.done(place);
        }
        let after = faults(root, &pids);
        let rest = Duration::from_millis(self.options.rest_ms);
        std::thread::sleep(rest / 2);
        app.request(Request::Use, seed)?;
        std::thread::sleep(rest / 2);
        Ok(value(self, app, round, answer.latency_ns, (before, after)))
    }
}

fn value(
    run: &Run<'_>,
    app: &RunningApp,
    round: u32,
    latency_ns: u64,
    (before, after): (Faults, Faults),
) -> RelaunchValue {
    RelaunchValue {
        arm: run.arm,
        block: run.block,
        round: round - run.options.warm_up.min(round),
        app: app.spec().name.clone(),
        latency_ns,
        major_faults: after.major.saturating_sub(before.major),
        minor_faults: after.minor.saturating_sub(before.minor),
        prefetched: None,
        prefetch_used: None,
    }
}

/// This process, as long as it is in the group of an arm.
struct Guest {
    home: PathBuf,
}

impl Guest {
    fn join(root: &Root, memcg: &Memcg) -> Result<Self, BenchError> {
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

/// Writes dirty pages out and drops what is cached, so that every arm begins alike.
fn drop_caches(root: &Root) -> Result<(), BenchError> {
    rustix::fs::sync();
    file::write(&root.path("/proc/sys/vm/drop_caches"), "3")?;
    Ok(())
}
