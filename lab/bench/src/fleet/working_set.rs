//! What a background collection accesses (Figure 12), and how long objects live (Figure 5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_heap::Kind;

use super::arm::{Arm, SwapTarget};
use super::subject::{ArmMemory, Side};
use super::{FleetError, Subject};
use crate::relaunch::Quantiles;

/// Collections over which lifetimes are followed (Figure 5: 15).
pub const LIFETIME_COLLECTIONS: usize = 15;

/// Actions before: ten minutes of use, one every two seconds.
const LIFETIME_ACTIONS: usize = 300;

/// No collection begins by itself.
const UNLIMITED_FACTOR: f64 = 1000.0;

/// What is measured.
#[derive(Clone, Debug)]
pub struct WorkingSetOptions {
    /// The programs.
    pub subjects: Vec<Subject>,
    /// Old objects changed between two collections, from few to many.
    pub old_changes: Vec<usize>,
    /// Bytes allocated between two collections.
    pub background_bytes: usize,
    /// Collections of each sort; the median counts.
    pub rounds: usize,
    /// Seed.
    pub seed: u64,
}

/// What collections of a program accessed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSetRow {
    /// The program.
    pub program: String,
    /// Old objects changed before each collection.
    pub old_changes: usize,
    /// Objects that can be reached.
    pub live_objects: usize,
    /// Objects that a native collection of the whole heap accessed, at the median.
    pub native_objects: u64,
    /// Pages that it accessed.
    pub native_pages: u64,
    /// The same for a background collection.
    pub bgc_objects: u64,
    /// Pages.
    pub bgc_pages: u64,
}

/// How many objects survive collections in the background, in per mille.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Lifetimes {
    /// The program.
    pub program: String,
    /// Foreground objects at the switch to the background, garbage included, and background objects in each round.
    pub objects: [u64; 2],
    /// Foreground objects that can be reached after 1, 2, … collections.
    pub foreground_per_mille: Vec<u64>,
    /// Background objects that survived their first, second, … collection.
    pub background_per_mille: Vec<u64>,
}

/// Working sets and lifetimes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSetReport {
    /// Bytes allocated between two collections.
    pub background_bytes: usize,
    /// By program and number of changes.
    pub rows: Vec<WorkingSetRow>,
    /// By program.
    pub lifetimes: Vec<Lifetimes>,
}

/// Measures.
///
/// # Errors
/// [`FleetError`].
pub fn working_set(
    options: &WorkingSetOptions,
    progress: &dyn Fn(u64, u64),
) -> Result<WorkingSetReport, FleetError> {
    let mut report = WorkingSetReport {
        background_bytes: options.background_bytes,
        rows: Vec::new(),
        lifetimes: Vec::new(),
    };
    let work = options.subjects.len() as u64 * 3;
    for (i, subject) in options.subjects.iter().enumerate() {
        let i = i as u64;
        let native = accessed(subject, Arm::Native, options)?;
        progress(3 * i + 1, work);
        let bgc = accessed(subject, Arm::Bgc, options)?;
        progress(3 * i + 2, work);
        for ((native, bgc), &old_changes) in native.iter().zip(&bgc).zip(&options.old_changes) {
            report.rows.push(WorkingSetRow {
                program: native.program.clone(),
                old_changes,
                live_objects: native.live_objects,
                native_objects: native.objects,
                native_pages: native.pages,
                bgc_objects: bgc.objects,
                bgc_pages: bgc.pages,
            });
        }
        report.lifetimes.push(lifetimes(subject, options)?);
        progress(3 * i + 3, work);
    }
    Ok(report)
}

/// What collections of one sort accessed.
struct Accessed {
    program: String,
    live_objects: usize,
    objects: u64,
    pages: u64,
}

/// A program that was used in the foreground, with memory for everything.
fn in_use(
    subject: &Subject,
    arm: Arm,
    options: &WorkingSetOptions,
    actions: usize,
) -> Result<Side, FleetError> {
    let memory = ArmMemory {
        budget_bytes: 4 * subject.max_bytes as u64 + (64 << 20),
        swap: SwapTarget::Pool,
        flash_bytes: 0,
        folder: std::path::Path::new("/"),
    };
    let mut side = Side::new(arm, memory, UNLIMITED_FACTOR)?;
    side.add(subject, options.seed)?;
    side.programs[0].use_it(actions)?;
    Ok(side)
}

fn accessed(
    subject: &Subject,
    arm: Arm,
    options: &WorkingSetOptions,
) -> Result<Vec<Accessed>, FleetError> {
    let side = in_use(subject, arm, options, 20)?;
    let program = &side.programs[0];
    program.background()?;
    let mut all = Vec::new();
    for &changes in &options.old_changes {
        let (mut objects, mut pages) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds.max(1) {
            program.work(options.background_bytes, changes)?;
            program.collect(arm.background_kind())?;
            if let Some(report) = program.stats()?.reports.last() {
                objects.push(report.touched_objects());
                pages.push(report.touched_pages);
            }
        }
        all.push(Accessed {
            program: program.kind().to_owned(),
            live_objects: program.check()?.reachable,
            objects: Quantiles::of(objects).p50 as u64,
            pages: Quantiles::of(pages).p50 as u64,
        });
    }
    Ok(all)
}

fn lifetimes(subject: &Subject, options: &WorkingSetOptions) -> Result<Lifetimes, FleetError> {
    let side = in_use(subject, Arm::Bgc, options, LIFETIME_ACTIONS)?;
    let program = &side.programs[0];
    // Whatever there is at the switch (section 4.1).
    let foreground = program.check()?.objects as u64;
    program.background()?;
    let changes = options.old_changes.first().copied().unwrap_or(0);
    let mut foreground_per_mille = Vec::new();
    let mut survivors = [0u64; LIFETIME_COLLECTIONS];
    let mut allocated = Vec::new();
    for _ in 0..LIFETIME_COLLECTIONS {
        let before = program.check()?.objects;
        program.work(options.background_bytes, changes)?;
        let after = program.check()?;
        allocated.push((after.objects - before) as u64);
        program.collect(Kind::Background)?;
        if let Some(report) = program.stats()?.reports.last() {
            for (sum, count) in survivors.iter_mut().zip(report.survivors) {
                *sum += count;
            }
        }
        let reachable = program.check()?.reachable_foreground as u64;
        foreground_per_mille.push(reachable * 1000 / foreground.max(1));
    }
    // Those of the last k rounds had no chance of surviving k collections.
    let background_per_mille = survivors.iter().enumerate().map(|(k, &count)| {
        let had_a_chance: u64 = allocated[..allocated.len() - k].iter().sum();
        count * 1000 / had_a_chance.max(1)
    });
    Ok(Lifetimes {
        program: program.kind().to_owned(),
        objects: [
            foreground,
            allocated.iter().sum::<u64>() / allocated.len() as u64,
        ],
        foreground_per_mille,
        background_per_mille: background_per_mille.collect(),
    })
}
