//! Hot launches of cached programs that share a budget (Figure 13, section 7.4), with what they cost (section 7.3).

use std::path::PathBuf;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_heap::Cause;
use warmswap_page::latency::{Latencies, LatencySummary};
use warmswap_sys::cpu_time::CpuClock;

use super::arm::{Arm, SwapTarget};
use super::cached::Launch;
use super::subject::{ArmMemory, Side, SwapUse};
use super::{FleetError, Subject};
use crate::relaunch::Quantiles;

/// An action that takes longer misses a frame at 60 frames a second (section 7.3).
const FRAME: Duration = Duration::from_micros(16_700);

/// What is measured.
#[derive(Clone, Debug)]
pub struct LaunchesOptions {
    /// The programs; all of them are cached.
    pub subjects: Vec<Subject>,
    /// The arms; the first one's launches are what others must show.
    pub arms: Vec<Arm>,
    /// Launches of each program.
    pub launches: usize,
    /// Things that a person does between launch and switch.
    pub actions: usize,
    /// Bytes that each program allocates in the background between two launches of others.
    pub background_bytes: usize,
    /// Old objects that it changes then.
    pub background_changes: usize,
    /// Bytes that each launch allocates.
    pub launch_bytes: usize,
    /// Collects each program as a whole after its work in the background, whatever its limit says. Not in the paper.
    pub forced_collections: bool,
    /// The budget, as a part of what all heaps hold, in per cent.
    pub budget_percent: u64,
    /// Where pages go that leave.
    pub swap: SwapTarget,
    /// Factor of the heap limit in the background (section 7.4).
    pub background_factor: f64,
    /// Seed of programs and order.
    pub seed: u64,
    /// Folder for backing files.
    pub folder: PathBuf,
}

/// What one arm took.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ArmLaunches {
    /// The arm.
    pub arm: Arm,
    /// Each launch, by program, in order, in nanoseconds.
    pub launch_ns: Vec<Vec<u64>>,
    /// Median and 90th percentile over all launches.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// How many times faster the median is than under `native`: the mean over the programs (Figure 13m). `None`
    /// without that arm.
    pub median_speedup: Option<f64>,
    /// The same for the 90th percentile (Figure 15a).
    pub p90_speedup: Option<f64>,
    /// CPU time of the programs' threads in launches, in nanoseconds.
    pub launch_cpu_ns: u64,
    /// Time of each action in the foreground, in nanoseconds, summed up.
    pub actions: Actions,
    /// CPU time of everything that the arm did after the programs' start, in nanoseconds: programs, collectors, arena.
    pub cpu_ns: u64,
    /// Of it, what the collectors' threads took.
    pub collector_cpu_ns: u64,
    /// Collections, by kind.
    pub collections: Vec<Collections>,
    /// Why collections began.
    #[serde(default)]
    pub causes: Causes,
    /// Times that programs waited at safepoints.
    #[schemars(with = "std::collections::BTreeMap<String, u64>")]
    pub pauses: LatencySummary,
    /// Faults in launches.
    pub launch_faults: u64,
    /// Faults in all.
    pub faults: u64,
    /// Pages that were compressed or written to flash.
    pub pages_out: u64,
    /// Bytes read from flash.
    pub flash_read_bytes: u64,
    /// Times that faults went beyond the budget.
    pub overcommits: u64,
    /// What all heaps held at the end.
    pub heap_bytes: u64,
    /// Card tables of all heaps.
    pub card_bytes: u64,
    /// Addresses of all heaps, which card tables are for.
    #[serde(default)]
    pub address_bytes: u64,
}

/// Actions in the foreground.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Actions {
    /// How many.
    pub count: u64,
    /// Of them, longer than a frame at 60 a second: janks.
    pub slow: u64,
    /// All together.
    pub total_ns: u64,
}

/// Collections of one kind.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Collections {
    /// The kind.
    #[schemars(with = "String")]
    pub kind: warmswap_heap::Kind,
    /// How many.
    pub count: u64,
    /// Objects that they accessed.
    pub objects: u64,
    /// Pages that they accessed.
    pub pages: u64,
}

/// Why collections began, from the programs' start on.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Causes {
    /// The heap had grown to its limit.
    pub limit: u64,
    /// The program had been in the background for T_B.
    pub switch: u64,
    /// The benchmark asked for them, or a program whose heap was full.
    pub forced: u64,
    /// A background collection left the heap nearly full.
    pub last_resort: u64,
    /// Of all of them, those that began in a hot launch (section 4.2).
    pub in_launches: u64,
}

impl Causes {
    fn add(&mut self, cause: Cause) {
        *match cause {
            Cause::Limit => &mut self.limit,
            Cause::Timer => &mut self.switch,
            Cause::Request => &mut self.forced,
            Cause::LastResort => &mut self.last_resort,
        } += 1;
    }
}

/// Hot launches, arm beside arm.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LaunchesReport {
    /// Names of the programs.
    pub programs: Vec<String>,
    /// Budget of every arm but `dram`, in bytes.
    pub budget_bytes: u64,
    /// What all heaps held after the start, in bytes.
    pub footprint_bytes: u64,
    /// Where pages go that leave.
    pub swap: SwapTarget,
    /// Factor of the heap limit in the background.
    pub background_factor: f64,
    /// Whether programs were collected after each piece of their work in the background, whatever their limits said.
    #[serde(default)]
    pub forced_collections: bool,
    /// The arms.
    pub arms: Vec<ArmLaunches>,
}

/// Measures.
///
/// # Errors
/// [`FleetError`]; two arms that show different things are one.
pub fn launches(
    options: &LaunchesOptions,
    progress: &dyn Fn(u64, u64),
) -> Result<LaunchesReport, FleetError> {
    let clock = CpuClock::of_process(std::process::id());
    let cpu_ns = || clock.and_then(CpuClock::read_ns).unwrap_or(0);
    let memory = |arm: Arm, budget_bytes: u64| ArmMemory {
        budget_bytes,
        swap: if arm == Arm::Dram {
            SwapTarget::Pool
        } else {
            options.swap
        },
        flash_bytes: 16 << 30,
        folder: &options.folder,
    };
    let most: usize = options
        .subjects
        .iter()
        .map(|subject| subject.max_bytes)
        .sum();
    // Address space and copies included, all of it fits.
    let ample = 4 * most as u64 + (64 << 20);
    let steps = options.subjects.len() * options.launches;
    let work = (options.arms.len() + 1) * options.subjects.len() + steps * options.arms.len();
    let mut done = 0;
    let mut tick = || {
        done += 1;
        progress(done, work as u64);
    };
    let mut footprint_bytes = 0;
    {
        let mut side = Side::new(
            Arm::Dram,
            memory(Arm::Dram, ample),
            options.background_factor,
        )?;
        for subject in &options.subjects {
            side.add(subject, options.seed)?;
            tick();
        }
        for program in &side.programs {
            program.collect(warmswap_heap::Kind::Major)?;
            footprint_bytes += program.stats()?.used_bytes as u64;
        }
    }
    let budget_bytes = footprint_bytes * options.budget_percent / 100;
    let mut sides = Vec::new();
    for &arm in &options.arms {
        let budget = if arm == Arm::Dram {
            ample
        } else {
            budget_bytes
        };
        let mut side = Side::new(arm, memory(arm, budget), options.background_factor)?;
        for subject in &options.subjects {
            side.add(subject, options.seed)?;
            let program = &side.programs[side.programs.len() - 1];
            program.use_it(options.actions)?;
            program.background()?;
            tick();
        }
        sides.push((side, Account::default()));
    }
    for (side, account) in &mut sides {
        account.launch_ns = vec![Vec::new(); options.subjects.len()];
        account.before = side.stats()?;
    }
    for (step, &number) in order(options).iter().enumerate() {
        let mut first: Option<(Arm, u64)> = None;
        for turn in 0..sides.len() {
            // Each arm is the first one in turn.
            let at = (step + turn) % sides.len();
            let (side, account) = &mut sides[at];
            let before = cpu_ns();
            let shown = account.step(side, number, options)?;
            account.cpu_ns += cpu_ns() - before;
            match first {
                None => first = Some((side.arm, shown)),
                Some((_, expected)) if expected == shown => {}
                Some((other, _)) => {
                    return Err(FleetError::Differs {
                        program: side.programs[number].name().to_owned(),
                        arm: side.arm.name(),
                        other: other.name(),
                    });
                }
            }
            tick();
        }
    }
    let programs = sides.first().map_or_else(Vec::new, |(side, _)| {
        let names = side
            .programs
            .iter()
            .map(|program| program.name().to_owned());
        names.collect()
    });
    let mut arms = Vec::new();
    for (side, account) in sides {
        arms.push(account.result(&side)?);
    }
    if let Some(native) = arms.iter().find(|arm| arm.arm == Arm::Native) {
        let native = native.launch_ns.clone();
        for arm in &mut arms {
            arm.median_speedup = speedup(&native, &arm.launch_ns, |q| q.p50);
            arm.p90_speedup = speedup(&native, &arm.launch_ns, |q| q.p90);
        }
    }
    Ok(LaunchesReport {
        programs,
        budget_bytes,
        footprint_bytes,
        swap: options.swap,
        background_factor: options.background_factor,
        forced_collections: options.forced_collections,
        arms,
    })
}

/// The mean over the programs of how many times faster a quantile is.
fn speedup(native: &[Vec<u64>], arm: &[Vec<u64>], figure: fn(&Quantiles) -> f64) -> Option<f64> {
    let of = |launches: &Vec<u64>| figure(&Quantiles::of(launches.iter().copied())).max(1.0);
    let ratio = |(native, arm): (&Vec<u64>, &Vec<u64>)| of(native) / of(arm);
    let ratios: Vec<f64> = native.iter().zip(arm).map(ratio).collect();
    (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
}

/// Which program is launched at each step: all of them in each round, never one twice in a row.
fn order(options: &LaunchesOptions) -> Vec<usize> {
    let mut random = rand::rngs::SmallRng::seed_from_u64(options.seed);
    let mut order: Vec<usize> = Vec::new();
    for _ in 0..options.launches {
        let mut round: Vec<usize> = (0..options.subjects.len()).collect();
        round.shuffle(&mut random);
        if round.len() > 1 && order.last() == round.first() {
            round.swap(0, 1);
        }
        order.extend(round);
    }
    order
}

/// What one arm has done so far.
#[derive(Debug, Default)]
struct Account {
    launch_ns: Vec<Vec<u64>>,
    launch_cpu_ns: u64,
    actions: Actions,
    cpu_ns: u64,
    launch_faults: u64,
    launch_collections: u64,
    before: SwapUse,
}

impl Account {
    /// A user switches to a program, uses it, and leaves it; meanwhile the others work in the background. A checksum of
    /// what was shown.
    fn step(
        &mut self,
        side: &Side,
        number: usize,
        options: &LaunchesOptions,
    ) -> Result<u64, FleetError> {
        let program = &side.programs[number];
        let faults_before = side.stats()?.faults;
        let collections_before = program.stats()?.launch_collections;
        let Launch { time, cpu, shown } = program.launch(options.launch_bytes)?;
        let in_launches = program.stats()?.launch_collections - collections_before;
        self.launch_collections += in_launches;
        self.launch_faults += side.stats()?.faults - faults_before;
        self.launch_ns[number].push(time.as_nanos() as u64);
        self.launch_cpu_ns += cpu.as_nanos() as u64;
        let (times, seen) = program.use_it(options.actions)?;
        for time in times {
            self.actions.count += 1;
            self.actions.slow += u64::from(time > FRAME);
            self.actions.total_ns += time.as_nanos() as u64;
        }
        program.settle_in_foreground()?;
        program.background()?;
        for (other, program) in side.programs.iter().enumerate() {
            if other != number {
                program.work(options.background_bytes, options.background_changes)?;
                if options.forced_collections {
                    program.collect(side.arm.background_kind())?;
                }
                program.background_period()?;
            }
        }
        Ok(shown.rotate_left(1) ^ seen)
    }

    fn result(self, side: &Side) -> Result<ArmLaunches, FleetError> {
        let (before, after) = (self.before, side.stats()?);
        let mut kinds: Vec<Collections> = Vec::new();
        let mut collector_cpu_ns = 0;
        let (mut card_bytes, mut address_bytes) = (0, 0);
        let mut pauses = Latencies::default();
        let mut causes = Causes {
            in_launches: self.launch_collections,
            ..Causes::default()
        };
        for program in &side.programs {
            let stats = program.stats()?;
            card_bytes += stats.card_bytes as u64;
            address_bytes += stats.address_bytes as u64;
            for report in &stats.reports {
                causes.add(report.cause);
                collector_cpu_ns += report.cpu_ns;
                let at = kinds.iter().position(|kind| kind.kind == report.kind);
                let at = at.unwrap_or_else(|| {
                    kinds.push(Collections {
                        kind: report.kind,
                        count: 0,
                        objects: 0,
                        pages: 0,
                    });
                    kinds.len() - 1
                });
                kinds[at].count += 1;
                kinds[at].objects += report.touched_objects();
                kinds[at].pages += report.touched_pages;
            }
            pauses.merge(&program.pauses()?);
        }
        let launches = Quantiles::of(self.launch_ns.concat());
        Ok(ArmLaunches {
            arm: side.arm,
            p50_ns: launches.p50 as u64,
            p90_ns: launches.p90 as u64,
            mean_ns: launches.mean as u64,
            median_speedup: None,
            p90_speedup: None,
            launch_ns: self.launch_ns,
            launch_cpu_ns: self.launch_cpu_ns,
            actions: self.actions,
            cpu_ns: self.cpu_ns,
            collector_cpu_ns,
            collections: kinds,
            causes,
            pauses: pauses.summary(),
            launch_faults: self.launch_faults,
            faults: after.faults - before.faults,
            pages_out: after.pages_out - before.pages_out,
            flash_read_bytes: side.flash_read_bytes(),
            overcommits: after.overcommits - before.overcommits,
            heap_bytes: side.heap_bytes()?,
            card_bytes,
            address_bytes,
        })
    }
}
