//! One arm of one block.

use std::time::Duration;

use warmswap_apps::{Request, RunningApp};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::cpu_time::machine_busy_ns;
use warmswap_sys::meminfo::{BlockTraffic, VmstatFile};
use warmswap_sys::taken::Left;
use warmswap_sys::undo::Undo;

use super::back::{BackWatch, swapped_bytes};
use super::hog::{Hog, HogSize};
use super::options::{ReturnArm, ReturnOptions, ReturnStep};
use super::result::{HogValue, ReturnValue};
use crate::BenchError;
use crate::relaunch::arm::drop_caches;
use crate::relaunch::daemon::DaemonProcess;
use crate::relaunch::host_thread::{HostThread, application};
use crate::relaunch::limit::{GroupLimit, MachineLimit, MemoryLimit};
use crate::relaunch::order::{order, request_seed};
use crate::relaunch::pager::Pager;
use crate::relaunch::swap::Swap;
use crate::relaunch::usage::faults;
use crate::relaunch::{Arm, SwapKind};

/// Programs are at rest for so long before memory is limited.
const SETTLE: Duration = Duration::from_millis(500);

/// How much memory there is.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// What the programs take without a limit.
    pub footprint_bytes: u64,
    /// What the limited arms have for programs, hog and compressed pool: the programs fit.
    pub total_bytes: u64,
    /// What the hog wants.
    pub hog_bytes: u64,
}

impl Sizes {
    /// Half as much again as the programs take, of which the hog wants two thirds: with a pool that compresses to a third,
    /// three quarters of the programs leave.
    pub fn of(footprint_bytes: u64) -> Self {
        Self {
            footprint_bytes,
            total_bytes: footprint_bytes + footprint_bytes / 2,
            hog_bytes: footprint_bytes,
        }
    }
}

/// One arm of one block, before it runs.
pub struct Run<'a> {
    pub options: &'a ReturnOptions,
    pub undo: &'a Undo,
    pub arm: ReturnArm,
    /// None without a limit.
    pub swap: Option<SwapKind>,
    pub block: u32,
    /// None until an arm without a limit has told.
    pub sizes: Option<Sizes>,
    /// What the machine of the first limited arm had, where the whole machine is limited.
    pub machine_bytes: Option<u64>,
}

/// What an arm did.
pub struct Done {
    pub sizes: Sizes,
    pub machine_bytes: Option<u64>,
    pub hogs: Vec<HogValue>,
    pub values: Vec<ReturnValue>,
}

/// What runs in an arm.
struct Running<'a> {
    apps: Vec<RunningApp>,
    limit: &'a dyn MemoryLimit,
    pager: &'a Pager,
    hog_bytes: u64,
    /// Rounds of requests so far, by which they vary.
    round: u32,
}

impl Run<'_> {
    /// Sets the arm up, measures, and takes everything back.
    pub fn measure(&self, progress: &mut dyn FnMut(ReturnStep<'_>)) -> Result<Done, BenchError> {
        drop_caches(self.undo.root())?;
        let mut limit = self.limit()?;
        let daemon = self.daemon()?;
        let mut apps = self.start_all(&*limit, daemon.as_ref(), progress)?;
        for round in 0..self.options.warm_up {
            for (place, app) in apps.iter_mut().enumerate() {
                let seed = request_seed(self.options.seed, self.block, round, place);
                app.request(Request::Relaunch, seed)?;
                app.request(Request::Use, seed)?;
            }
        }
        std::thread::sleep(SETTLE);
        let sizes = match self.sizes {
            Some(sizes) => sizes,
            None => Sizes::of(limit.used_bytes()?),
        };
        limit.impose();
        let pager = self.pager(daemon, &apps)?;
        let mut running = Running {
            apps,
            limit: &*limit,
            pager: &pager,
            hog_bytes: sizes.hog_bytes,
            round: self.options.warm_up,
        };
        let measured = self.hogs(&mut running, progress);
        let Running { apps, .. } = running;
        drop(pager);
        let machine_bytes = limit.conditions().usable_bytes;
        // So that ending the programs and switching the swap off do not have to reclaim.
        limit.lift()?;
        for app in apps {
            app.stop()?;
        }
        limit.remove()?;
        let (hogs, values) = measured?;
        Ok(Done {
            sizes,
            machine_bytes,
            hogs,
            values,
        })
    }

    /// Where the memory of this arm is limited.
    fn limit(&self) -> Result<Box<dyn MemoryLimit>, BenchError> {
        let name = format!("return-{}", self.arm.name());
        let Some((kind, sizes)) = self.swap.zip(self.sizes) else {
            return Ok(Box::new(GroupLimit::create(self.undo, &name, None)?));
        };
        let options = self.options;
        let place = (
            options.place.temporary.as_path(),
            options.algorithm.as_str(),
        );
        let swap = Swap::create(self.undo, kind, place, (sizes.total_bytes, None))?;
        if options.is_machine {
            let left = self.machine_bytes.map(Left::Machine);
            let left = left.unwrap_or(Left::Available(sizes.total_bytes));
            let limit = MachineLimit::create(self.undo, Arm::ZramDefault, left, swap)?;
            return Ok(Box::new(limit));
        }
        let limited = Some((sizes.total_bytes, swap));
        Ok(Box::new(GroupLimit::create(self.undo, &name, limited)?))
    }

    /// The daemon of a whole machine, which is up before the programs are.
    fn daemon(&self) -> Result<Option<DaemonProcess>, BenchError> {
        let options = self.options;
        if self.arm != ReturnArm::Daemon || !options.is_machine {
            return Ok(None);
        }
        let command = options.command.as_deref().ok_or(BenchError::NoCommand)?;
        let temporary = &options.place.temporary;
        DaemonProcess::start(self.undo, command, temporary, true, &options.host).map(Some)
    }

    fn start_all(
        &self,
        limit: &dyn MemoryLimit,
        daemon: Option<&DaemonProcess>,
        progress: &mut dyn FnMut(ReturnStep<'_>),
    ) -> Result<Vec<RunningApp>, BenchError> {
        let options = self.options;
        let _guest = limit.admit()?;
        let apps = options.apps.iter().enumerate();
        apps.map(|(at, spec)| {
            let app = RunningApp::start(spec, options.size, &options.place, self.undo)?;
            daemon.map_or(Ok(()), |daemon| daemon.launched(at, &app))?;
            progress(ReturnStep::Started { app: &spec.name });
            Ok(app)
        })
        .collect()
    }

    /// What is told of switches.
    fn pager(
        &self,
        daemon: Option<DaemonProcess>,
        apps: &[RunningApp],
    ) -> Result<Pager, BenchError> {
        if let Some(daemon) = daemon {
            return Ok(Pager::Daemon(daemon));
        }
        if self.arm != ReturnArm::Daemon {
            return Ok(Pager::Nobody);
        }
        let root = self.undo.root();
        let applications = apps.iter().map(|app| application(app, root));
        let applications = applications.collect::<Result<_, _>>()?;
        let host = HostThread::start(self.options.host.clone(), root, applications)?;
        Ok(Pager::Host(host))
    }

    /// A hog for each wait, with the returns after it.
    fn hogs(
        &self,
        running: &mut Running<'_>,
        progress: &mut dyn FnMut(ReturnStep<'_>),
    ) -> Result<(Vec<HogValue>, Vec<ReturnValue>), BenchError> {
        let (mut hogs, mut values) = (Vec::new(), Vec::new());
        for (at, &wait_ms) in self.options.waits_ms.iter().enumerate() {
            let done = self.hog(running, (at as u32, wait_ms), progress);
            // A failure where memory ran out is no failure of its own.
            running.limit.check()?;
            let (hog, mut returns) = done?;
            hogs.push(hog);
            values.append(&mut returns);
        }
        Ok((hogs, values))
    }

    /// All programs are used, a hog takes their memory and ends, or stays, and they are returned to.
    fn hog(
        &self,
        running: &mut Running<'_>,
        (at, wait_ms): (u32, u64),
        progress: &mut dyn FnMut(ReturnStep<'_>),
    ) -> Result<(HogValue, Vec<ReturnValue>), BenchError> {
        let (options, root) = (self.options, self.undo.root());
        let apps = running.apps.len();
        for place in order(options.seed, self.block, running.round, apps) {
            self.switch(running, place)?;
        }
        running.round += 1;
        let before = self.counts(running.pager, apps)?;
        let size = HogSize {
            kind: options.hog,
            bytes: running.hog_bytes,
            length_ms: (!options.hog_stays).then_some(options.hog_ms),
        };
        let mut hog = {
            let _guest = running.limit.admit()?;
            Hog::start(self.undo, &options.place.temporary, size)?
        };
        let hog_ns = hog.wait_until_full()?;
        let stays = if options.hog_stays {
            std::thread::sleep(Duration::from_millis(options.hog_ms));
            Some(hog)
        } else {
            hog.wait_until_ended()?;
            None
        };
        let pids = pids(&running.apps)?;
        let away_bytes = swapped_bytes(root, &pids);
        progress(ReturnStep::Hog {
            swapped_bytes: away_bytes,
        });
        let back = (away_bytes > 0).then(|| BackWatch::start(root, pids, away_bytes));
        std::thread::sleep(Duration::from_millis(wait_ms));
        let mut values: Vec<ReturnValue> = Vec::new();
        for place in some_twice(options.seed, self.block, at, apps) {
            let value = self.switch(running, place)?;
            let is_second = values.iter().any(|of| of.app == value.app);
            values.push(ReturnValue {
                wait_ms,
                is_second,
                ..value
            });
            std::thread::sleep(Duration::from_millis(options.pause_ms));
        }
        running.round += 1;
        let back_ns = back.and_then(BackWatch::finish);
        drop(stays);
        let after = self.counts(running.pager, apps)?;
        let since = |number: fn(&Counts) -> u64| number(&after).saturating_sub(number(&before));
        let hog = HogValue {
            arm: self.arm,
            swap: self.swap,
            block: self.block,
            wait_ms,
            hog_ns,
            swapped_bytes: away_bytes,
            back_ns,
            cpu_ns: Some(since(|counts| counts.machine_ns)).filter(|&ns| ns > 0),
            daemon_cpu_ns: after
                .daemon_ns
                .zip(before.daemon_ns)
                .map(|(a, b)| a.saturating_sub(b)),
            in_pages: since(|counts| counts.blocks.in_pages),
            out_pages: since(|counts| counts.blocks.out_pages),
            read_bytes: since(|counts| files(counts.blocks.read_bytes, counts.blocks.in_pages)),
            written_bytes: since(|counts| {
                files(counts.blocks.written_bytes, counts.blocks.out_pages)
            }),
        };
        Ok((hog, values))
    }

    /// A program comes to the foreground, answers, and is used.
    fn switch(&self, running: &mut Running<'_>, place: usize) -> Result<ReturnValue, BenchError> {
        let root = self.undo.root();
        let seed = request_seed(self.options.seed, self.block, running.round, place);
        let app = &mut running.apps[place];
        let pids = app.pids()?;
        let before = faults(root, &pids).major;
        running.pager.switch(place);
        let answer = app.request(Request::Relaunch, seed)?;
        running.pager.done(place);
        let used = app.request(Request::Use, seed)?;
        Ok(ReturnValue {
            arm: self.arm,
            swap: self.swap,
            block: self.block,
            wait_ms: 0,
            app: app.spec().name.clone(),
            is_second: false,
            answer_ns: answer.latency_ns,
            use_ns: used.latency_ns,
            major_faults: faults(root, &pids).major.saturating_sub(before),
        })
    }

    fn counts(&self, pager: &Pager, apps: usize) -> Result<Counts, BenchError> {
        let root = self.undo.root();
        let host = pager.counts(apps)?.host;
        Ok(Counts {
            machine_ns: machine_busy_ns(root)?,
            daemon_ns: host.map(|host| host.counters.host_cpu_ns + host.counters.bring_cpu_ns),
            blocks: VmstatFile::open(root)?.read()?,
        })
    }
}

/// Counts at a time.
struct Counts {
    /// Of all processors, whatever they did but idle.
    machine_ns: u64,
    daemon_ns: Option<u64>,
    blocks: BlockTraffic,
}

/// Of so many bytes that block devices moved those that were not pages of swap.
fn files(all_bytes: u64, swap_pages: u64) -> u64 {
    all_bytes.saturating_sub(swap_pages * PAGE_BYTES as u64)
}

/// The processes of all programs.
fn pids(apps: &[RunningApp]) -> Result<Vec<u32>, BenchError> {
    let mut pids = Vec::new();
    for app in apps {
        pids.append(&mut app.pids()?);
    }
    Ok(pids)
}

/// The places of programs in the order in which they are returned to: each once, and half of them twice.
fn some_twice(seed: u64, block: u32, at: u32, apps: usize) -> Vec<usize> {
    let again = order(!seed, block, at, apps);
    let places = order(seed, block, at, apps + apps / 2);
    let app = |place: usize| place.checked_sub(apps).map_or(place, |extra| again[extra]);
    places.into_iter().map(app).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_returned_to_and_half_of_them_twice() {
        for (seed, apps) in [(1, 5), (2, 1), (3, 8)] {
            let places = some_twice(seed, 0, 1, apps);
            assert_eq!(places.len(), apps + apps / 2);
            let times = |app| places.iter().filter(|&&place| place == app).count();
            let times: Vec<_> = (0..apps).map(times).collect();
            assert!(
                times.iter().all(|&times| times == 1 || times == 2),
                "{times:?}"
            );
        }
        assert_ne!(some_twice(1, 0, 0, 8), some_twice(2, 0, 0, 8));
        assert_eq!(some_twice(1, 0, 0, 8), some_twice(1, 0, 0, 8));
    }

    #[test]
    fn the_programs_fit_and_do_not_beside_the_hog() {
        let sizes = Sizes::of(1000);
        assert!(sizes.total_bytes > sizes.footprint_bytes);
        assert!(sizes.footprint_bytes + sizes.hog_bytes > sizes.total_bytes);
    }
}
