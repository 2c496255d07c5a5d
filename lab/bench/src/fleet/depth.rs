//! What launches access, and what launch regions hold, by D (Figure 6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_heap::Kind;

use super::arm::{Arm, SwapTarget};
use super::subject::{ArmMemory, Side};
use super::{FleetError, Subject};

/// The largest D.
pub const MOST_DEPTH: u32 = 6;

/// What is measured.
#[derive(Clone, Debug)]
pub struct DepthOptions {
    /// The programs.
    pub subjects: Vec<Subject>,
    /// Seed.
    pub seed: u64,
}

/// Which objects a grouping takes for launch objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Near-root objects.
    Nro,
    /// Foreground young objects.
    Fyo,
    /// Both: the paper's launch objects.
    Both,
    /// Those that earlier launches accessed, and both.
    Learned,
}

/// One program with one D.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DepthRow {
    /// The program.
    pub program: String,
    /// The launch objects.
    pub choice: Choice,
    /// D; 0 for [`Choice::Fyo`].
    pub depth: u32,
    /// Objects of earlier times that a launch accessed.
    pub accessed_objects: u64,
    /// Of them, launch objects: the re-access ratio, in per mille.
    pub covered_per_mille: u64,
    /// Bytes of launch objects, in per mille of all bytes.
    pub footprint_per_mille: u64,
    /// Of the accessed objects, launch objects.
    #[serde(default)]
    pub covered_objects: u64,
    /// Bytes of launch objects.
    #[serde(default)]
    pub launch_bytes: u64,
    /// Bytes of all objects.
    #[serde(default)]
    pub all_bytes: u64,
}

impl DepthRow {
    /// How many times the part of the heap that launch objects take they cover of what a launch accesses; `None` where
    /// either is nothing.
    #[must_use]
    pub fn covered_by_footprint(&self) -> Option<f64> {
        let covered = self.covered_objects as f64 / self.accessed_objects as f64;
        let footprint = self.launch_bytes as f64 / self.all_bytes as f64;
        Some(covered / footprint).filter(|ratio| ratio.is_finite())
    }
}

/// Coverage and footprint of launch objects.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DepthReport {
    /// By program, choice and D.
    pub rows: Vec<DepthRow>,
}

/// Measures.
///
/// # Errors
/// [`FleetError`].
pub fn depth(
    options: &DepthOptions,
    progress: &dyn Fn(u64, u64),
) -> Result<DepthReport, FleetError> {
    let mut cases = vec![(Choice::Fyo, 0)];
    cases.extend((1..=MOST_DEPTH).map(|depth| (Choice::Nro, depth)));
    cases.extend((1..=MOST_DEPTH).map(|depth| (Choice::Both, depth)));
    cases.push((Choice::Learned, 2));
    let work = (options.subjects.len() * cases.len()) as u64;
    let mut rows = Vec::new();
    for subject in &options.subjects {
        for &(choice, depth) in &cases {
            rows.push(row(subject, choice, depth, options.seed)?);
            progress(rows.len() as u64, work);
        }
    }
    Ok(DepthReport { rows })
}

fn row(subject: &Subject, choice: Choice, depth: u32, seed: u64) -> Result<DepthRow, FleetError> {
    let memory = ArmMemory {
        budget_bytes: 4 * subject.max_bytes as u64 + (64 << 20),
        swap: SwapTarget::Pool,
        flash_bytes: 0,
        folder: std::path::Path::new("/"),
    };
    let arm = if choice == Choice::Learned {
        Arm::Learned
    } else {
        Arm::Rgs
    };
    let mut side = Side::new(arm, memory, 1000.0)?.with_depth(depth);
    side.add(subject, seed)?;
    let program = &side.programs[0];
    let earlier_launches = if choice == Choice::Learned { 3 } else { 0 };
    for _ in 0..earlier_launches {
        program.use_it(20)?;
        program.background()?;
        program.launch(0)?;
        program.settle_in_foreground()?;
    }
    program.use_it(20)?;
    if choice == Choice::Nro {
        // Nothing is young afterwards.
        program.collect(Kind::Minor)?;
    }
    program.background()?;
    let stats = program.stats()?;
    let grouping = stats
        .reports
        .iter()
        .rev()
        .find(|report| report.kind == Kind::Grouping);
    let bytes = grouping.map_or([0; 3], |report| report.grouped_bytes);
    program.launch(0)?;
    let stats = program.stats()?;
    let launch = stats.launches.last().copied().unwrap_or_default();
    let accessed: u64 = launch.grouped_objects.iter().sum();
    Ok(DepthRow {
        program: program.kind().to_owned(),
        choice,
        depth,
        accessed_objects: accessed,
        covered_objects: launch.grouped_objects[0],
        launch_bytes: bytes[0],
        all_bytes: bytes.iter().sum(),
        covered_per_mille: launch.grouped_objects[0] * 1000 / accessed.max(1),
        footprint_per_mille: bytes[0] * 1000 / bytes.iter().sum::<u64>().max(1),
    })
}
