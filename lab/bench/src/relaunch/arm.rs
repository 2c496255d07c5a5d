//! One arm of one block.

mod look;

use std::time::Duration;

use warmswap_apps::{AppSpec, Request, RunningApp};
use warmswap_sys::meminfo::SwapTraffic;
use warmswap_sys::taken::Left;
use warmswap_sys::undo::Undo;
use warmswap_sys::{Root, file, monotonic_ns};

use super::daemon::DaemonProcess;
use super::host_thread::{HostThread, application};
use super::kills::Kills;
use super::limit::{Conditions, GroupLimit, MachineLimit, MemoryLimit};
use super::limit_keeper::Kept;
use super::options::{Arm, Preload, RelaunchOptions, Scope, Step};
use super::order::{order, request_seed};
use super::pager::{Pager, PagerCounts};
use super::preload::{self, Arenas, Footprints};
use super::readahead::{self, Readahead};
use super::sampler::{Sampled, Sampler};
use super::swap::Swap;
use super::usage::{CpuNow, CpuUsed, Faults, anonymous_bytes, faults, kernel_threads};
use super::value::RelaunchValue;
use crate::BenchError;

use look::Look;

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
    /// What the machine of the first arm over the whole machine had, for programs and kernel together.
    pub machine_bytes: Option<u64>,
    /// What the applications took in the first arm; there in the arm `preload`.
    pub footprints: Option<&'a Footprints>,
}

/// What an arm did in a block, without its warm-up.
#[derive(Debug)]
pub struct Done {
    pub values: Vec<RelaunchValue>,
    pub usage: Kept,
    pub cpu: CpuUsed,
    pub swap: SwapTraffic,
    /// Page cache at the end, in bytes.
    pub file_bytes: u64,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: u64,
    pub conditions: Conditions,
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
    budgets: Vec<Option<u64>>,
    footprints: Footprints,
    kills: Kills,
    limit: &'a dyn MemoryLimit,
    pager: &'a Pager,
}

impl Run<'_> {
    /// Sets the arm up, measures, and takes everything back.
    pub fn measure(&self, progress: &mut dyn FnMut(Step<'_>)) -> Result<Done, BenchError> {
        let root = self.undo.root();
        drop_caches(root)?;
        // Before any program starts: open files keep the setting with which they were opened.
        let _readahead = Readahead::set(self.undo, self.options.readahead_kib)?;
        let mut limit = self.limit()?;
        let daemon = self.daemon()?;
        let budgets = self.budgets();
        let apps = self.start_all(&*limit, daemon.as_ref(), &budgets, progress)?;
        std::thread::sleep(SETTLE);
        let footprints = footprints(root, &*limit, &apps)?;
        limit.impose();
        let pager = self.pager(daemon, &apps, &budgets)?;
        let mut block = Block {
            kills: Kills::new(root, apps.len())?,
            apps,
            budgets,
            footprints,
            limit: &*limit,
            pager: &pager,
        };
        // What a host reads ahead of files is charged to its own group, and counts like all else.
        let guest = match self.arm {
            arm if arm.has_host() => limit.admit()?,
            _ => None,
        };
        let done = self.switches(&mut block, progress);
        drop(guest);
        let Block { apps, .. } = block;
        drop(pager);
        // So that ending the programs and switching the swap off do not have to reclaim.
        limit.lift()?;
        for app in apps {
            app.stop()?;
        }
        limit.remove()?;
        done
    }

    /// Where the memory of this arm is limited.
    fn limit(&self) -> Result<Box<dyn MemoryLimit>, BenchError> {
        let name = format!("relaunch-{}", self.arm.name());
        let Some(total_bytes) = self.total_bytes else {
            return Ok(Box::new(GroupLimit::create(self.undo, &name, None)?));
        };
        let folder_and_algorithm = (
            self.options.directories.temporary.as_path(),
            self.options.algorithm.as_str(),
        );
        let kind = self.arm.swap();
        let swap = Swap::create(self.undo, kind, folder_and_algorithm, total_bytes)?;
        Ok(match self.arm.scope() {
            Scope::Machine => {
                let left = self.machine_bytes.map(Left::Machine);
                let left = left.unwrap_or(Left::Available(total_bytes));
                let limit = MachineLimit::create(self.undo, self.arm, left, swap)?;
                Box::new(limit)
            }
            _ => {
                let limited = Some((total_bytes, swap));
                Box::new(GroupLimit::create(self.undo, &name, limited)?)
            }
        })
    }

    /// The daemon of this arm. It is up before the applications are, as on any machine that has it.
    fn daemon(&self) -> Result<Option<DaemonProcess>, BenchError> {
        if !self.arm.has_daemon() {
            return Ok(None);
        }
        let options = self.options;
        let command = options.command.as_deref().ok_or(BenchError::NoCommand)?;
        let is_told = self.arm == Arm::Daemon;
        let temporary = &options.directories.temporary;
        DaemonProcess::start(self.undo, command, temporary, is_told, &options.host).map(Some)
    }

    /// What the programs are preloaded with.
    fn preload(&self) -> Option<&Preload> {
        let preload = self.options.preload.as_ref();
        preload.filter(|_| self.arm.is_preloaded())
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

    /// What is told of switches.
    fn pager(
        &self,
        daemon: Option<DaemonProcess>,
        apps: &[RunningApp],
        budgets: &[Option<u64>],
    ) -> Result<Pager, BenchError> {
        if let Some(daemon) = daemon {
            return Ok(Pager::Daemon(daemon));
        }
        Ok(match self.arm {
            arm if arm.has_host() => Pager::Host(self.host(apps)?),
            arm if arm.is_preloaded() => {
                let folders = apps.iter().zip(budgets);
                let folders = folders.map(|(app, budget)| budget.map(|_| app.folder().to_owned()));
                Pager::Arenas(Arenas::start(folders.collect()))
            }
            _ => Pager::None,
        })
    }

    /// Starts all applications under the limit.
    fn start_all(
        &self,
        limit: &dyn MemoryLimit,
        daemon: Option<&DaemonProcess>,
        budgets: &[Option<u64>],
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<Vec<RunningApp>, BenchError> {
        let options = self.options;
        let _guest = limit.admit()?;
        let kills = Kills::new(self.undo.root(), options.apps.len())?;
        let apps = options.apps.iter().zip(budgets).enumerate();
        apps.map(|(at, (spec, &budget))| {
            let app = match self.start(spec, budget) {
                Err(BenchError::App(error)) => {
                    // Where memory ran out, that is why.
                    limit.check()?;
                    kills.explain(at, error)?;
                    let app = spec.name.clone();
                    return Err(BenchError::KilledAtStart { app });
                }
                started => started?,
            };
            daemon.map_or(Ok(()), |daemon| daemon.launched(at, &app))?;
            progress(Step::Started { app: &spec.name });
            Ok(app)
        })
        .collect()
    }

    fn start(&self, spec: &AppSpec, budget: Option<u64>) -> Result<RunningApp, BenchError> {
        let (size, directories) = (self.options.size, &self.options.directories);
        let Some((preload, budget_bytes)) = self.preload().zip(budget) else {
            return Ok(RunningApp::start(spec, size, directories, self.undo)?);
        };
        let variable =
            preload::settings(self.arm, preload, (budget_bytes, &directories.temporary))?;
        let app = RunningApp::start_with(spec, size, directories, self.undo, |folder| {
            preload::environment(preload, variable, folder)
        })?;
        preload::check_is_loaded(self.undo.root(), &app, preload)?;
        Ok(app)
    }

    fn host(&self, apps: &[RunningApp]) -> Result<HostThread, BenchError> {
        let root = self.undo.root();
        let config = self.options.host.clone();
        let applications = apps.iter().map(|app| application(app, root));
        let applications = applications.collect::<Result<_, BenchError>>()?;
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
        let limit = block.limit;
        let mut values = Vec::new();
        let mut begin = None;
        for round in 0..rounds {
            if round == options.warm_up {
                limit.take_kept();
                begin = Some((
                    CpuNow::read(root, &limit.programs(&block.apps)?)?,
                    SwapTraffic::read(root)?,
                    block.pager.counts(apps)?,
                ));
            }
            for place in order(options.seed, self.block, round, apps) {
                let value = self.switch(block, place, round, progress);
                // A failure where memory ran out is no failure of its own.
                limit.check()?;
                let value = value?;
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
            usage: limit.take_kept(),
            cpu: CpuNow::read(root, &limit.programs(&block.apps)?)?.since(cpu),
            swap: SwapTraffic {
                in_pages: now.in_pages - swap.in_pages,
                out_pages: now.out_pages - swap.out_pages,
                zswap_written_back_pages: now.zswap_written_back_pages
                    - swap.zswap_written_back_pages,
            },
            file_bytes: limit.file_bytes()?,
            oom_kills: block.kills.count()?,
            conditions: Conditions {
                readahead_kib: readahead::now(root)?,
                ..limit.conditions()
            },
            before,
            after: block.pager.counts(apps)?,
            budgets: block.budgets.clone(),
            footprints: block.footprints.clone(),
        })
    }

    /// One application comes to the foreground, answers, is used and left. One that was killed is started again.
    fn switch(
        &self,
        block: &mut Block<'_>,
        place: usize,
        round: u32,
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<RelaunchValue, BenchError> {
        let (limit, pager) = (block.limit, block.pager);
        let seed = request_seed(self.options.seed, self.block, round, place);
        let look = |pids: &[u32]| -> Result<Look, BenchError> {
            Ok(Look {
                faults: faults(self.undo.root(), pids),
                group_major: limit.major_faults()?,
                arena: pager.arena(place)?,
            })
        };
        let pids = block.apps[place].pids()?;
        let before = look(&pids)?;
        let sampler = self.sampler(limit, &block.apps)?;
        let begin = monotonic_ns();
        pager.switch(place);
        let answer = block.apps[place].request(Request::Relaunch, seed);
        let answered = || {
            if let Some(sampler) = &sampler {
                sampler.answered();
            }
        };
        let (latency_ns, was_killed, faults) = match answer {
            Ok(answer) => {
                answered();
                (answer.latency_ns, false, look(&pids)?.faults_since(&before))
            }
            Err(error) => {
                block.kills.explain(place, error)?;
                self.start_again(block, place, progress)?;
                let latency_ns = monotonic_ns() - begin;
                answered();
                pager.restarted(place, &block.apps[place], self.undo.root())?;
                let begin = Look {
                    faults: Faults::default(),
                    ..before
                };
                let faults = look(&block.apps[place].pids()?)?.faults_since(&begin);
                (latency_ns, true, faults)
            }
        };
        block.kills.answered(place)?;
        let arena = pager.arena(place)?.zip(before.arena);
        let arena = arena.map(|(after, before)| after.since(before));
        pager.done(place);
        let rest = Duration::from_millis(self.options.rest_ms);
        std::thread::sleep(rest / 2);
        let slices = sampler.map(Sampler::finish).unwrap_or_default();
        let pids = block.apps[place].pids()?;
        let before = look(&pids)?;
        let use_of_it = match block.apps[place].request(Request::Use, seed) {
            Ok(answer) => {
                block.kills.answered(place)?;
                let (major_faults, _) = look(&pids)?.faults_since(&before);
                Some((answer.latency_ns, major_faults))
            }
            // It is started again when it is asked for again.
            Err(error) => {
                block.kills.explain(place, error)?;
                None
            }
        };
        std::thread::sleep(rest / 2);
        let (major_faults, minor_faults) = faults;
        Ok(RelaunchValue {
            arm: self.arm,
            block: self.block,
            round: round - self.options.warm_up.min(round),
            app: block.apps[place].spec().name.clone(),
            latency_ns,
            use_ns: use_of_it.map(|(time_ns, _)| time_ns),
            use_major_faults: use_of_it.map(|(_, major_faults)| major_faults),
            was_killed,
            major_faults,
            minor_faults,
            prefetched: arena.map(|arena| arena.prefetched),
            prefetch_used: None,
            arena_in_pages: arena.map(|arena| arena.in_pages),
            slices,
        })
    }

    /// Starts an application that was killed.
    fn start_again(
        &self,
        block: &mut Block<'_>,
        place: usize,
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<(), BenchError> {
        let spec = &self.options.apps[place];
        progress(Step::Killed { app: &spec.name });
        // What is left of it goes first.
        block.apps.remove(place).stop()?;
        let _guest = block.limit.admit()?;
        let app = self.start(spec, block.budgets[place])?;
        block.apps.insert(place, app);
        Ok(())
    }

    /// What samples a switch that is about to begin.
    fn sampler(
        &self,
        limit: &dyn MemoryLimit,
        apps: &[RunningApp],
    ) -> Result<Option<Sampler>, BenchError> {
        let Some(every) = self.options.sample_every else {
            return Ok(None);
        };
        let root = self.undo.root();
        let sampled = Sampled {
            programs: limit.programs(apps)?,
            kernel_threads: kernel_threads(root)?,
            with_arenas: self.arm.is_preloaded(),
            limit: limit.clock(),
        };
        Sampler::start(root, every, &sampled).map(Some)
    }
}

/// What the applications take.
fn footprints(
    root: &Root,
    limit: &dyn MemoryLimit,
    apps: &[RunningApp],
) -> Result<Footprints, BenchError> {
    let anonymous = apps
        .iter()
        .map(|app| -> Result<u64, BenchError> { Ok(anonymous_bytes(root, &app.pids()?)) });
    Ok(Footprints {
        anonymous_bytes: anonymous.collect::<Result<_, _>>()?,
        all_bytes: limit.used_bytes()?,
    })
}

/// Writes dirty pages out and drops what is cached, so that every arm begins alike.
pub fn drop_caches(root: &Root) -> Result<(), BenchError> {
    rustix::fs::sync();
    file::write(&root.path("/proc/sys/vm/drop_caches"), "3")?;
    Ok(())
}
