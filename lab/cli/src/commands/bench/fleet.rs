//! `warmswap-lab bench fleet`: garbage collection and swap together.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use warmswap_bench::fleet::capacity::{CapacityOptions, capacity};
use warmswap_bench::fleet::depth::{DepthOptions, depth};
use warmswap_bench::fleet::launches::{LaunchesOptions, launches};
use warmswap_bench::fleet::mix;
use warmswap_bench::fleet::programs::{Corpus, ObjectShapes};
use warmswap_bench::fleet::working_set::{WorkingSetOptions, working_set};
use warmswap_bench::fleet::{Arm, FleetReport, Subject, SwapTarget};
use warmswap_commands::replay_args::percent;
use warmswap_results::tables;
use warmswap_study::Progress;

use crate::progress::Bar;
use warmswap_output::BadInput;
use warmswap_output::Output;

/// What is measured, and how large it is.
#[derive(Debug, Args)]
pub struct FleetArgs {
    /// Experiments, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Experiment>,
    /// Size of each program, as a part of the paper's 180 MB
    #[arg(long, default_value_t = 0.25, value_name = "PART")]
    scale: f64,
    /// The same where pages go to flash of the paper's speed, which takes long
    #[arg(long, default_value_t = 0.05, value_name = "PART")]
    flash_scale: f64,
    /// Arms of hot launches, separated by commas [default: all but `kernel`, which needs a swap area]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ARM")]
    arms: Vec<Arm>,
    /// Launches of each program
    #[arg(long, default_value_t = 20)]
    launches: usize,
    /// Memory for all programs together, in per cent of what they take once they have started. With 75 per cent everything
    /// fits compressed, as on a phone that kills no program; with 50 faults go beyond the budget
    #[arg(long, default_value_t = 75, value_parser = percent::<u64>, value_name = "PERCENT")]
    budget: u64,
    /// Heap limits in the background, as multiples of what is live, separated by commas: `heap-limit` and `capacity`
    /// measure all of them, the other experiments the first one
    #[arg(long, value_delimiter = ',', default_values_t = [1.1, 2.0], value_name = "FACTOR")]
    heap_limits: Vec<f64>,
    /// Collects each program after its work in the background, whatever its limit says; as a rule limits alone begin
    /// collections, as in the paper
    #[arg(long)]
    forced_collections: bool,
    /// Seed of the programs and of the order of launches
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folders with texts for the index, separated by commas [default: documentation and standard
    /// libraries below /usr]
    #[arg(long, value_delimiter = ',', value_name = "FOLDER")]
    corpus: Vec<PathBuf>,
    /// Heap dumps of Java or JavaScript programs, separated by commas, whose objects are the programs, each in its own
    /// size [default: two synthetic programs and an index]
    #[arg(long, value_delimiter = ',', value_name = "DUMP")]
    dumps: Vec<PathBuf>,
    /// Folder for the swap file
    #[arg(long, default_value = "/var/tmp", value_name = "FOLDER")]
    folder: PathBuf,
    /// Small programs and few launches, for a first look (about two minutes)
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// What background collections access, and how long objects live (Figures 5 and 12)
    WorkingSet,
    /// What launches access, by D (Figure 6)
    Depth,
    /// Hot launches over a compressed pool (Figure 13)
    Pool,
    /// Hot launches over flash of the paper's speed (Figure 13)
    Flash,
    /// Hot launches by heap limit in the background (section 7.4)
    HeapLimit,
    /// Cached programs until the first kill (Figure 11)
    Capacity,
}

impl FleetArgs {
    fn wants(&self, experiment: Experiment) -> bool {
        self.only.is_empty() || self.only.contains(&experiment)
    }

    fn arms(&self) -> Vec<Arm> {
        match self.arms.as_slice() {
            [] => Arm::any_machine().collect(),
            arms => arms.into(),
        }
    }

    fn bytes(&self, scale: f64) -> usize {
        let scale = if self.quick { scale / 5.0 } else { scale };
        (mix::PAPER_BYTES as f64 * scale) as usize
    }

    fn launches(&self) -> usize {
        if self.quick {
            self.launches.min(4)
        } else {
            self.launches
        }
    }
}

/// What is measured.
enum Programs {
    /// Synthetic programs, and real ones with texts.
    Made(Arc<Corpus>),
    /// Objects of heap dumps.
    Dumps(Vec<Subject>),
}

impl Programs {
    fn of(args: &FleetArgs) -> Result<Self> {
        if !args.dumps.is_empty() {
            let graph = |path: &PathBuf| {
                let name = path
                    .file_stem()
                    .unwrap_or(path.as_os_str())
                    .to_string_lossy();
                let shapes = ObjectShapes::open(path)
                    .map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
                Ok(mix::graph(&name, &Arc::new(shapes)))
            };
            return Ok(Self::Dumps(
                args.dumps.iter().map(graph).collect::<Result<_>>()?,
            ));
        }
        let folders = if args.corpus.is_empty() {
            Corpus::default_folders()
        } else {
            args.corpus.clone()
        };
        let texts_bytes = 2 * args.bytes(args.scale);
        Ok(Self::Made(Arc::new(Corpus::load(&folders, texts_bytes)?)))
    }

    fn one_of_each(&self, bytes: usize) -> Vec<Subject> {
        match self {
            Self::Made(corpus) => mix::one_of_each(corpus, bytes),
            Self::Dumps(graphs) => graphs.clone(),
        }
    }

    /// Those that share a budget.
    fn cached(&self, bytes: usize) -> Vec<Subject> {
        match self {
            Self::Made(corpus) => mix::ten(corpus, bytes),
            Self::Dumps(graphs) => graphs.clone(),
        }
    }

    /// Sorts of programs that are cached until the first kill.
    fn kinds(&self, bytes: usize) -> Vec<(String, Vec<Subject>)> {
        match self {
            Self::Made(corpus) => vec![
                (
                    "large objects".to_owned(),
                    vec![mix::synthetic(2048, bytes)],
                ),
                ("small objects".to_owned(), vec![mix::synthetic(512, bytes)]),
                ("real".to_owned(), vec![mix::index(corpus, bytes)]),
            ],
            Self::Dumps(graphs) => vec![("heap dumps".to_owned(), graphs.clone())],
        }
    }
}

/// Measures and shows.
pub fn run(args: &FleetArgs, output: &Output) -> Result<()> {
    for scale in [args.scale, args.flash_scale] {
        if !(0.01..=4.0).contains(&scale) {
            return Err(BadInput(format!("a scale of {scale} is not within 0.01 to 4")).into());
        }
    }
    if args.launches == 0 || !(5..=400).contains(&args.budget) {
        let needed = "at least one launch and a budget of 5 to 400 per cent are needed";
        return Err(BadInput(needed.to_owned()).into());
    }
    if args
        .heap_limits
        .iter()
        .any(|factor| !(1.0..=100.0).contains(factor))
    {
        return Err(BadInput("a heap limit is 1 to 100 times what is live".to_owned()).into());
    }
    let bytes = args.bytes(args.scale);
    let programs = Programs::of(args)?;
    let mut report = FleetReport::default();
    let each = programs.one_of_each(bytes);
    if args.wants(Experiment::WorkingSet) {
        let options = WorkingSetOptions {
            subjects: each.clone(),
            // 10,000 where programs are a quarter of the paper's size, and as many for each of their objects.
            old_changes: [0, 1, 10, 100].map(|part| part * bytes / 450_000).into(),
            background_bytes: bytes / 10,
            rounds: 3,
            seed: args.seed,
        };
        let bar = bar("background collections");
        report.working_set = Some(working_set(&options, &bar)?);
    }
    if args.wants(Experiment::Depth) {
        let options = DepthOptions {
            subjects: each,
            seed: args.seed,
        };
        report.depth = Some(depth(&options, &bar("what launches access"))?);
    }
    if args.wants(Experiment::Pool) {
        let options = launch_options(args, programs.cached(bytes), bytes, SwapTarget::Pool);
        report
            .launches
            .push(launches(&options, &bar("hot launches"))?);
    }
    if args.wants(Experiment::HeapLimit) {
        // Of the first one, `pool` has the same.
        let skipped = usize::from(args.wants(Experiment::Pool));
        for &background_factor in &args.heap_limits[skipped..] {
            let options = LaunchesOptions {
                arms: vec![Arm::Native, Arm::Fleet],
                background_factor,
                ..launch_options(args, programs.cached(bytes), bytes, SwapTarget::Pool)
            };
            report
                .launches
                .push(launches(&options, &bar("hot launches by heap limit"))?);
        }
    }
    if args.wants(Experiment::Flash) {
        let flash_bytes = args.bytes(args.flash_scale);
        let options = launch_options(
            args,
            programs.cached(flash_bytes),
            flash_bytes,
            SwapTarget::Flash,
        );
        report
            .launches
            .push(launches(&options, &bar("hot launches over flash"))?);
    }
    if args.wants(Experiment::Capacity) {
        report.capacity = capacities(args, &programs)?;
    }
    let tables = tables::fleet(&report);
    output.emit("warmswap.bench.fleet", report, &tables)
}

fn bar(what: &'static str) -> impl Fn(u64, u64) {
    let bar = Bar::new(what);
    move |done, total| bar.set(Progress { done, total })
}

fn launch_options(
    args: &FleetArgs,
    subjects: Vec<Subject>,
    bytes: usize,
    swap: SwapTarget,
) -> LaunchesOptions {
    // A collection of a whole heap that lies in flash takes long.
    let fewer = if args.quick && swap == SwapTarget::Flash {
        4
    } else {
        1
    };
    LaunchesOptions {
        subjects,
        arms: args.arms(),
        launches: args.launches().div_ceil(fewer),
        actions: 20,
        background_bytes: bytes / 20,
        background_changes: 100,
        launch_bytes: bytes / 100,
        forced_collections: args.forced_collections,
        budget_percent: args.budget,
        swap,
        background_factor: args.heap_limits[0],
        seed: args.seed,
        folder: args.folder.clone(),
    }
}

/// Small, large and real programs, with both heap limits. Memory and swap are the paper's, scaled as the programs are:
/// 18 programs of 180 MB fit into 2 GB of swap and 1.24 GB of memory (section 7.1), a period is 30 s.
fn capacities(
    args: &FleetArgs,
    programs: &Programs,
) -> Result<Vec<warmswap_bench::fleet::capacity::CapacityReport>> {
    let bytes = args.bytes(args.flash_scale);
    let scaled = |paper: u64| paper * bytes as u64 / mix::PAPER_BYTES as u64;
    let kinds = programs.kinds(bytes);
    let mut reports = Vec::new();
    for (name, subjects) in kinds {
        for &background_factor in &args.heap_limits {
            let options = CapacityOptions {
                name: name.clone(),
                subjects: subjects.clone(),
                arms: vec![Arm::Native, Arm::Marvin, Arm::Fleet, Arm::Learned],
                budget_bytes: scaled(1_240_000_000),
                flash_bytes: scaled(2_000_000_000),
                period_ms: scaled(30_000),
                background_bytes: bytes / 20,
                background_changes: 100,
                background_factor,
                forced_collections: args.forced_collections,
                most: 40,
                seed: args.seed,
                folder: args.folder.clone(),
            };
            reports.push(capacity(&options, &bar("cached programs"))?);
        }
    }
    Ok(reports)
}
