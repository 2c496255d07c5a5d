//! How many programs can be cached until the first kill (Figure 11).
//!
//! One program after the other is started in an arena with a budget and a swap file, both of fixed size, as on the
//! paper's phone. After each start, every cached program works in the background for a period. A program is killed, as
//! Android's low-memory killer would do it,
//!
//! - when memory and swap are used up: a fault had to go beyond the budget; or
//! - when the machine thrashes: bringing pages back would have kept the flash busy for more than
//!   [`THRASHING_PER_MILLE`] of the period.
//!
//! The period is a number, not a time: what is read from flash is counted, and costs its bandwidth. So the result does
//! not depend on the machine.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arm::{Arm, SwapTarget};
use super::flash::READ_BYTES_PER_SECOND;
use super::subject::{ArmMemory, Side};
use super::{FleetError, Subject};

/// The part of a period for which programs may wait for flash before one of them is killed, in per mille: Android's
/// low-memory killer kills when all tasks stall for 700 ms of a second (`ro.lmk.psi_complete_stall_ms`).
pub const THRASHING_PER_MILLE: u64 = 700;

/// What is measured.
#[derive(Clone, Debug)]
pub struct CapacityOptions {
    /// What the programs are called.
    pub name: String,
    /// The programs, which are started in turn again and again.
    pub subjects: Vec<Subject>,
    /// The arms.
    pub arms: Vec<Arm>,
    /// Budget of the arena, in bytes.
    pub budget_bytes: u64,
    /// Size of the swap file, in bytes.
    pub flash_bytes: u64,
    /// A period in the background, in milliseconds of flash time.
    pub period_ms: u64,
    /// Bytes that each program allocates in a period.
    pub background_bytes: usize,
    /// Old objects that it changes.
    pub background_changes: usize,
    /// Factor of the heap limit in the background (section 7.4).
    pub background_factor: f64,
    /// Collects each program as a whole in each period, whatever its limit says. Not in the paper.
    pub forced_collections: bool,
    /// No more programs than this.
    pub most: usize,
    /// Seed.
    pub seed: u64,
    /// Folder for backing files.
    pub folder: PathBuf,
}

/// Why no more programs could be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Killed {
    /// Memory and swap were used up.
    Full,
    /// Programs waited for flash most of the time.
    Thrashing,
    /// It was not: the benchmark had no more programs.
    Never,
}

/// One arm's capacity.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ArmCapacity {
    /// The arm.
    pub arm: Arm,
    /// Programs that were cached before the first was killed.
    pub cached: usize,
    /// Why it was.
    pub killed: Killed,
    /// With so many programs cached, the part of the period for which flash was read, in per mille.
    pub busy_per_mille: Vec<u64>,
}

/// Capacities, arm beside arm.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CapacityReport {
    /// What the programs are called.
    pub name: String,
    /// Budget, in bytes.
    pub budget_bytes: u64,
    /// Size of the swap file, in bytes.
    pub flash_bytes: u64,
    /// Factor of the heap limit in the background.
    pub background_factor: f64,
    /// Whether programs were collected in each period, whatever their limits said.
    #[serde(default)]
    pub forced_collections: bool,
    /// The arms.
    pub arms: Vec<ArmCapacity>,
}

/// Measures.
///
/// # Errors
/// [`FleetError`].
pub fn capacity(
    options: &CapacityOptions,
    progress: &dyn Fn(u64, u64),
) -> Result<CapacityReport, FleetError> {
    let mut arms = Vec::new();
    for (i, &arm) in options.arms.iter().enumerate() {
        arms.push(one(options, arm, &|cached| {
            let all = (options.arms.len() * options.most) as u64;
            progress((i * options.most + cached) as u64, all);
        })?);
    }
    Ok(CapacityReport {
        name: options.name.clone(),
        budget_bytes: options.budget_bytes,
        flash_bytes: options.flash_bytes,
        background_factor: options.background_factor,
        forced_collections: options.forced_collections,
        arms,
    })
}

fn one(
    options: &CapacityOptions,
    arm: Arm,
    progress: &dyn Fn(usize),
) -> Result<ArmCapacity, FleetError> {
    let memory = ArmMemory {
        budget_bytes: options.budget_bytes,
        swap: SwapTarget::Counted,
        flash_bytes: options.flash_bytes,
        folder: &options.folder,
    };
    let mut side = Side::new(arm, memory, options.background_factor)?;
    let mut busy_per_mille = Vec::new();
    let mut killed = Killed::Never;
    while side.programs.len() < options.most && killed == Killed::Never {
        let subject = &options.subjects[side.programs.len() % options.subjects.len()];
        side.add(subject, options.seed)?;
        side.programs[side.programs.len() - 1].background()?;
        let read_before = side.flash_read_bytes();
        for program in &side.programs {
            program.work(options.background_bytes, options.background_changes)?;
            if options.forced_collections {
                program.collect(arm.background_kind())?;
            }
            program.background_period()?;
        }
        let read = side.flash_read_bytes() - read_before;
        let busy = read * 1_000_000 / READ_BYTES_PER_SECOND / options.period_ms.max(1);
        busy_per_mille.push(busy);
        killed = if side.stats()?.overcommits > 0 {
            Killed::Full
        } else if busy > THRASHING_PER_MILLE {
            Killed::Thrashing
        } else {
            Killed::Never
        };
        progress(side.programs.len());
    }
    let cached = side.programs.len() - usize::from(killed != Killed::Never);
    Ok(ArmCapacity {
        arm,
        cached,
        killed,
        busy_per_mille,
    })
}
