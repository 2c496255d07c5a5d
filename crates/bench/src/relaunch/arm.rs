//! One arm of one block.

use std::path::PathBuf;
use std::time::Duration;

use warmswap_apps::{AppSpec, Request, RunningApp};
use warmswap_kernel::{Application, Goal, Members};
use warmswap_sys::memcg::{Group, Memcg};
use warmswap_sys::meminfo::SwapTraffic;
use warmswap_sys::process::Stat;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{Device, ZramConfig, ZramSwap};
use warmswap_sys::{Root, file};

use super::arenas::{self, ArenaCounts, Arenas, Footprints};
use super::host_thread::HostThread;
use super::keeper::{Keeper, Kept};
use super::options::{Arm, Preload, RelaunchOptions, Step};
use super::order::{order, request_seed};
use super::pager::{Pager, PagerCounts};
use super::sampler::{Sampled, Sampler};
use super::usage::{CpuNow, Faults, anonymous_bytes, faults, kernel_threads};
use super::value::RelaunchValue;
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
    /// What the applications took in the first arm; there in the arm `preload`.
    pub footprints: Option<&'a Footprints>,
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
    /// What host or arenas did in the warm-up.
    pub before: PagerCounts,
    /// The same at the end.
    pub after: PagerCounts,
    /// Budgets of the arenas by application; none for those without.
    pub budgets: Vec<Option<u64>>,
    /// What the applications took before the limit.
    pub footprints: Footprints,
}

/// What a block has, once everything runs.
struct Block<'a> {
    apps: Vec<RunningApp>,
    group: Group,
    budgets: Vec<Option<u64>>,
    footprints: Footprints,
    keeper: &'a Keeper,
    pager: &'a Pager,
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
        let budgets = self.budgets();
        let apps = self.start_all(&memcg, &budgets, progress)?;
        std::thread::sleep(SETTLE);
        let footprints = footprints(root, &group, &apps)?;
        let device = zram.as_ref().map(|zram| Device::new(root, zram.id()));
        let keeper = Keeper::start(group.clone(), device, self.total_bytes);
        let pager = self.pager(&group, &apps, &budgets)?;
        let mut block = Block {
            apps,
            group,
            budgets,
            footprints,
            keeper: &keeper,
            pager: &pager,
        };
        // What a host reads ahead of files is charged to its own group, and counts like all else.
        let guest = match self.arm {
            Arm::Kernel => Some(Guest::join(root, &memcg)?),
            _ => None,
        };
        let done = self.switches(&mut block, progress);
        drop(guest);
        let Block { apps, group, .. } = block;
        drop(pager);
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

    /// What the programs are preloaded with.
    fn preload(&self) -> Option<&Preload> {
        let preload = self.options.preload.as_ref();
        preload.filter(|_| self.arm == Arm::Preload)
    }

    /// The budget of each application's arena; none for those that run without.
    fn budgets(&self) -> Vec<Option<u64>> {
        let division = self.preload().and(self.footprints).zip(self.total_bytes);
        let apps = self.options.apps.iter().enumerate();
        apps.map(|(app, spec)| {
            let (footprints, total_bytes) = division.filter(|_| spec.start.preload)?;
            Some(footprints.budget_bytes(app, total_bytes))
        })
        .collect()
    }

    /// Who is told of switches.
    fn pager(
        &self,
        group: &Group,
        apps: &[RunningApp],
        budgets: &[Option<u64>],
    ) -> Result<Pager, BenchError> {
        Ok(match self.arm {
            Arm::Dram | Arm::Zram => Pager::Nobody,
            Arm::Kernel => Pager::Host(self.host(group, apps)?),
            Arm::Preload => {
                let folders = apps.iter().zip(budgets);
                let folders = folders.map(|(app, budget)| budget.map(|_| app.folder().to_owned()));
                Pager::Arenas(Arenas::start(folders.collect()))
            }
        })
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
        budgets: &[Option<u64>],
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<Vec<RunningApp>, BenchError> {
        let options = self.options;
        let _guest = Guest::join(self.undo.root(), memcg)?;
        let apps = options.apps.iter().zip(budgets);
        apps.map(|(spec, &budget)| {
            let app = self.start(spec, budget)?;
            progress(Step::Started { app: &spec.name });
            Ok(app)
        })
        .collect()
    }

    fn start(&self, spec: &AppSpec, budget: Option<u64>) -> Result<RunningApp, BenchError> {
        let (size, place) = (self.options.size, &self.options.place);
        let Some((preload, budget_bytes)) = self.preload().zip(budget) else {
            return Ok(RunningApp::start(spec, size, place, self.undo)?);
        };
        let variable = arenas::settings(preload, budget_bytes)?;
        let app = RunningApp::start_with(spec, size, place, self.undo, |folder| {
            arenas::environment(preload, variable, folder)
        })?;
        arenas::check_is_loaded(self.undo.root(), &app, preload)?;
        Ok(app)
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
        block: &mut Block<'_>,
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<Done, BenchError> {
        let options = self.options;
        let root = self.undo.root();
        let rounds = options.warm_up + options.relaunches;
        let apps = block.apps.len();
        let mut values = Vec::new();
        let mut begin = None;
        for round in 0..rounds {
            if round == options.warm_up {
                block.keeper.take();
                begin = Some((
                    CpuNow::read(root, &programs(&block.group)?)?,
                    SwapTraffic::read(root)?,
                    block.pager.counts(apps)?,
                ));
            }
            for place in order(options.seed, self.block, round, apps) {
                let value = self.switch(block, place, round)?;
                if round >= options.warm_up {
                    values.push(value);
                }
            }
            progress(Step::Round {
                done: round + 1,
                of: rounds,
            });
        }
        let (cpu, swap, before) = begin.ok_or(BenchError::NothingToMeasure)?;
        let now = SwapTraffic::read(root)?;
        Ok(Done {
            values,
            usage: block.keeper.take(),
            cpu: CpuNow::read(root, &programs(&block.group)?)?.since(cpu),
            swap: SwapTraffic {
                in_pages: now.in_pages - swap.in_pages,
                out_pages: now.out_pages - swap.out_pages,
                zswap_written_back_pages: now.zswap_written_back_pages
                    - swap.zswap_written_back_pages,
            },
            file_bytes: block.group.stats()?.file_bytes,
            before,
            after: block.pager.counts(apps)?,
            budgets: block.budgets.clone(),
            footprints: block.footprints.clone(),
        })
    }

    /// One application comes to the foreground, answers, is used and left.
    fn switch(
        &self,
        block: &mut Block<'_>,
        place: usize,
        round: u32,
    ) -> Result<RelaunchValue, BenchError> {
        let (group, pager) = (&block.group, block.pager);
        let app = &mut block.apps[place];
        let pids = app.pids()?;
        let seed = request_seed(self.options.seed, self.block, round, place);
        let look = || -> Result<Look, BenchError> {
            Ok(Look {
                faults: faults(self.undo.root(), &pids),
                group_major: group.stats()?.major_faults,
                arena: pager.arena(place)?,
            })
        };
        let before = look()?;
        let sampler = self.sampler(group, block.keeper)?;
        pager.switch(place);
        let answer = app.request(Request::Relaunch, seed)?;
        if let Some(sampler) = &sampler {
            sampler.answered();
        }
        let after = look()?;
        pager.done(place);
        let rest = Duration::from_millis(self.options.rest_ms);
        std::thread::sleep(rest / 2);
        let slices = sampler.map(Sampler::finish).unwrap_or_default();
        app.request(Request::Use, seed)?;
        std::thread::sleep(rest / 2);
        let (major_faults, minor_faults) = after.faults_since(&before);
        let arena = after.arena.zip(before.arena);
        let arena = arena.map(|(after, before)| after.since(before));
        Ok(RelaunchValue {
            arm: self.arm,
            block: self.block,
            round: round - self.options.warm_up.min(round),
            app: app.spec().name.clone(),
            latency_ns: answer.latency_ns,
            major_faults,
            minor_faults,
            prefetched: arena.map(|arena| arena.prefetched),
            prefetch_used: None,
            arena_in_pages: arena.map(|arena| arena.in_pages),
            slices,
        })
    }

    /// What samples a switch that is about to begin.
    fn sampler(&self, group: &Group, keeper: &Keeper) -> Result<Option<Sampler>, BenchError> {
        let Some(every) = self.options.sample_every else {
            return Ok(None);
        };
        let root = self.undo.root();
        let sampled = Sampled {
            programs: programs(group)?,
            kernel_threads: kernel_threads(root)?,
            with_arenas: self.arm == Arm::Preload,
            limit: keeper.clock(),
        };
        Sampler::start(root, every, &sampled).map(Some)
    }
}

/// Faults so far.
struct Look {
    /// Of the application's processes, as the kernel counts them.
    faults: Faults,
    /// Of all in the group, those that the kernel served by reading something.
    group_major: u64,
    /// Of the application's arenas.
    arena: Option<ArenaCounts>,
}

impl Look {
    /// Major and minor faults.
    ///
    /// A fault that an arena serves is a minor one to some kernels, and to others a major one, whatever it brought.
    /// So with an arena the major ones are those that brought a page from the pool, and those of the kernel's own
    /// that the group was charged.
    fn faults_since(&self, before: &Self) -> (u64, u64) {
        let major = self.faults.major.saturating_sub(before.faults.major);
        let minor = self.faults.minor.saturating_sub(before.faults.minor);
        let Some((now, then)) = self.arena.zip(before.arena) else {
            return (major, minor);
        };
        let group_major = self.group_major.saturating_sub(before.group_major);
        let arena_major = now.since(then).pool_faults;
        let all_major = major.min(group_major) + arena_major;
        (all_major, (major + minor).saturating_sub(all_major))
    }
}

/// The processes of a group, without this one.
fn programs(group: &Group) -> Result<Vec<u32>, BenchError> {
    let mut pids = group.pids()?;
    pids.retain(|&pid| pid != std::process::id());
    Ok(pids)
}

/// What the applications take.
fn footprints(root: &Root, group: &Group, apps: &[RunningApp]) -> Result<Footprints, BenchError> {
    let anonymous = apps
        .iter()
        .map(|app| -> Result<u64, BenchError> { Ok(anonymous_bytes(root, &app.pids()?)) });
    Ok(Footprints {
        anonymous_bytes: anonymous.collect::<Result<_, _>>()?,
        all_bytes: group.usage_bytes()?,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_an_arena_serves_are_major_when_they_bring_a_page_from_the_pool() {
        let look = |major, minor, group_major, pool_faults: Option<u64>| Look {
            faults: Faults { major, minor },
            group_major,
            arena: pool_faults.map(|pool_faults| ArenaCounts {
                pool_faults,
                ..ArenaCounts::default()
            }),
        };

        let plain = look(12, 50, 90, None).faults_since(&look(2, 10, 10, None));
        assert_eq!(plain, (10, 40));
        // One kernel counts the arena's 30 faults as minor ones, another as major ones; 5 are its own.
        let begin = look(0, 0, 0, Some(0));
        let new = look(5, 70, 5, Some(20)).faults_since(&begin);
        let old = look(35, 40, 5, Some(20)).faults_since(&begin);
        assert_eq!((new, old), ((25, 50), (25, 50)));
    }
}
