//! One arm of one block.

use std::time::{Duration, Instant};

use warmswap_apps::{Request, RunningApp};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::cpu_time::machine_busy_ns;
use warmswap_sys::meminfo::{BlockTraffic, SwapTraffic, VmstatFile, oom_kills};
use warmswap_sys::taken::Left;
use warmswap_sys::undo::Undo;

use super::back::{Away, BackWatch};
use super::hog::{Hog, HogSize};
use super::options::{ReturnArm, ReturnOptions, ReturnStep};
use super::result::{HogValue, ReturnValue};
use crate::BenchError;
use crate::relaunch::arm::drop_caches;
use crate::relaunch::daemon::DaemonProcess;
use crate::relaunch::limit::{GroupLimit, MachineLimit, MemoryLimit};
use crate::relaunch::order::{order, request_seed};
use crate::relaunch::pager::Pager;
use crate::relaunch::swap::Swap;
use crate::relaunch::usage::{faults, footprint_bytes};
use crate::relaunch::{Arm, SwapKind};

/// Programs are at rest for so long before memory is limited.
const SETTLE: Duration = Duration::from_millis(500);

/// What the hog's interpreter takes beside what the hog wants.
const INTERPRETER_BYTES: u64 = 16 << 20;

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
    /// Half as much again as the programs take, and the hog wants two thirds of that: half of the programs, and the compressed
    /// pool's part besides, has to leave, be it to swap or, where it is of files, to be read again.
    pub fn of(footprint_bytes: u64) -> Self {
        Self {
            footprint_bytes,
            total_bytes: footprint_bytes + footprint_bytes / 2 + INTERPRETER_BYTES,
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
        let daemon = self.daemon(&*limit)?;
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
            None => Sizes::of(footprint_bytes(self.undo.root(), &pids(&apps)?)),
        };
        limit.impose();
        let pager = daemon.map_or(Pager::None, Pager::Daemon);
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
        let folder_and_algorithm = (
            options.directories.temporary.as_path(),
            options.algorithm.as_str(),
        );
        let swap = Swap::create(self.undo, kind, folder_and_algorithm, sizes.total_bytes)?;
        if options.is_machine {
            let left = self.machine_bytes.map(Left::Machine);
            let left = left.unwrap_or(Left::Available(sizes.total_bytes));
            let limit = MachineLimit::create(self.undo, Arm::ZramDefault, left, swap)?;
            return Ok(Box::new(limit));
        }
        let limited = Some((sizes.total_bytes, swap));
        Ok(Box::new(GroupLimit::create(self.undo, &name, limited)?))
    }

    /// The daemon, which is up before the programs are, and under their limit: its own memory and the pages of files that it
    /// reads ahead count like all else.
    fn daemon(&self, limit: &dyn MemoryLimit) -> Result<Option<DaemonProcess>, BenchError> {
        let options = self.options;
        if !self.arm.has_daemon() {
            return Ok(None);
        }
        let command = options.command.as_deref().ok_or(BenchError::NoCommand)?;
        let (temporary, is_told) = (
            &options.directories.temporary,
            self.arm == ReturnArm::Daemon,
        );
        let _guest = limit.admit()?;
        DaemonProcess::start(self.undo, command, temporary, is_told, &options.host).map(Some)
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
            let app = RunningApp::start(spec, options.size, &options.directories, self.undo)?;
            daemon.map_or(Ok(()), |daemon| daemon.launched(at, &app))?;
            progress(ReturnStep::Started { app: &spec.name });
            Ok(app)
        })
        .collect()
    }

    /// A hog for each wait, with the returns after it.
    fn hogs(
        &self,
        running: &mut Running<'_>,
        progress: &mut dyn FnMut(ReturnStep<'_>),
    ) -> Result<(Vec<HogValue>, Vec<ReturnValue>), BenchError> {
        let (mut hogs, mut values) = (Vec::new(), Vec::new());
        for &wait_ms in &self.options.waits_ms {
            let done = self.hog(running, wait_ms, progress);
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
        wait_ms: u64,
        progress: &mut dyn FnMut(ReturnStep<'_>),
    ) -> Result<(HogValue, Vec<ReturnValue>), BenchError> {
        let (options, root) = (self.options, self.undo.root());
        let apps = running.apps.len();
        for place in order(options.seed, self.block, running.round, apps) {
            self.switch(running, place, false)?;
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
            Hog::start(self.undo, &options.directories.temporary, size)?
        };
        let hog_ns = hog.wait_until_full()?;
        if options.hog_stays {
            std::thread::sleep(Duration::from_millis(options.hog_ms));
        } else {
            hog.wait_until_ended()?;
        }
        let end = Instant::now();
        let programs = running
            .apps
            .iter()
            .map(|app| Ok(Away::read(root, app.pids()?)));
        let programs = programs.collect::<Result<Vec<_>, BenchError>>()?;
        let swapped_bytes = programs.iter().map(|program| program.swapped_bytes).sum();
        progress(ReturnStep::Hog { swapped_bytes });
        let back = (swapped_bytes > 0).then(|| BackWatch::start(root, programs));
        std::thread::sleep(Duration::from_millis(wait_ms).saturating_sub(end.elapsed()));
        let mut values: Vec<ReturnValue> = Vec::new();
        for place in some_twice(&order(options.seed, self.block, running.round, apps)) {
            let app = &running.apps[place].spec().name;
            let is_second = values.iter().any(|of| of.app == *app);
            let value = self.switch(running, place, is_second)?;
            values.push(ReturnValue { wait_ms, ..value });
            std::thread::sleep(Duration::from_millis(options.pause_ms));
        }
        // The second request to a program differs from the first.
        running.round += 2;
        let back_ns = back.and_then(BackWatch::finish);
        let left_bytes = Away::read(root, pids(&running.apps)?).swapped_bytes;
        let after = self.counts(running.pager, apps)?;
        let since = |number: fn(&Counts) -> u64| number(&after).saturating_sub(number(&before));
        let hog = HogValue {
            arm: self.arm,
            swap: self.swap,
            block: self.block,
            wait_ms,
            hog_ns,
            swapped_bytes,
            back_ns,
            left_bytes,
            oom_kills: since(|counts| counts.oom_kills),
            cpu_ns: Some(since(|counts| counts.machine_ns)).filter(|&ns| ns > 0),
            daemon_cpu_ns: after
                .daemon_ns
                .zip(before.daemon_ns)
                .map(|(a, b)| a.saturating_sub(b)),
            in_pages: since(|counts| counts.swap.in_pages),
            out_pages: since(|counts| counts.swap.out_pages),
            read_bytes: since(|counts| files(counts.blocks.read_bytes, counts.blocks.in_pages)),
            written_bytes: since(|counts| {
                files(counts.blocks.written_bytes, counts.blocks.out_pages)
            }),
        };
        Ok((hog, values))
    }

    /// A program comes to the foreground, answers, and is used.
    fn switch(
        &self,
        running: &mut Running<'_>,
        place: usize,
        is_second: bool,
    ) -> Result<ReturnValue, BenchError> {
        let root = self.undo.root();
        let round = running.round + u32::from(is_second);
        let seed = request_seed(self.options.seed, self.block, round, place);
        let app = &mut running.apps[place];
        let pids = app.pids()?;
        let before = faults(root, &pids).major;
        running.pager.switch(place);
        let answer = app.request(Request::Relaunch, seed)?;
        let used = app.request(Request::Use, seed)?;
        Ok(ReturnValue {
            arm: self.arm,
            swap: self.swap,
            block: self.block,
            wait_ms: 0,
            app: app.spec().name.clone(),
            is_second,
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
            swap: SwapTraffic::read(root)?,
            blocks: VmstatFile::open(root)?.read()?,
            oom_kills: oom_kills(root)?,
        })
    }
}

/// Counts at a time.
struct Counts {
    /// Of all processors, whatever they did but idle.
    machine_ns: u64,
    daemon_ns: Option<u64>,
    swap: SwapTraffic,
    blocks: BlockTraffic,
    oom_kills: u64,
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

/// The programs in this order, half of them once more: after two programs the one that was returned to once and longest ago.
fn some_twice(order: &[usize]) -> Vec<usize> {
    let pairs = order.chunks(2).zip(order);
    let returns = pairs.flat_map(|(pair, &again)| match *pair {
        [first, second] => vec![first, second, again],
        _ => pair.to_vec(),
    });
    returns.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_returned_to_and_half_of_them_twice_never_in_a_row() {
        for apps in 1..9 {
            let returns = some_twice(&order(1, 0, 3, apps));
            assert_eq!(returns.len(), apps + apps / 2);
            let times = |app| returns.iter().filter(|&&of| of == app).count();
            assert!((0..apps).all(|app| matches!(times(app), 1 | 2)));
            assert!(returns.windows(2).all(|of| of[0] != of[1]), "{returns:?}");
        }
        assert_eq!(some_twice(&[4, 2, 0, 1]), [4, 2, 4, 0, 1, 2]);
    }

    #[test]
    fn the_programs_fit_and_do_not_beside_the_hog() {
        let sizes = Sizes::of(64 << 20);
        assert!(sizes.total_bytes > sizes.footprint_bytes);
        assert!(sizes.footprint_bytes + sizes.hog_bytes > sizes.total_bytes);
    }
}
