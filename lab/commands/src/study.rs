//! `warmswap-lab study`: the figures and tables of the papers.

mod all;

use crate::host::Host;
use crate::replay_args::{open, percent, schemes};
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use warmswap_codec::Codec;
use warmswap_results::tables::{self, asap, studies};
use warmswap_study::compression::CompressionStudy;
use warmswap_study::{
    Dumps, OnProgress, Options, Sample, Subject, chunk_sizes, compression, coverage, entropy_study,
    ezswap, heap_study, hotness_order, launches, locality, misses, parts, prepaging, sensitivity,
    similarity, switches,
};

/// Examples.
pub const HELP: &str = "\
Examples:
  warmswap-lab study similarity traces/mixed.wst
      Figure 5 of the Ariadne paper
  warmswap-lab study heap dump.hprof
      what Fleet would keep of a Java program; a .heapsnapshot, of a JavaScript program
  warmswap-lab study all traces/mixed.wst -o results/
      every study and the papers' comparisons, for `warmswap-lab report`";

/// The studies.
#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// Hot, warm and cold data in each tenth of what is swapped out (Figure 4)
    HotnessOrder(StudyArgs),
    /// How much two consecutive relaunches have in common (Figure 5)
    Similarity(StudyArgs),
    /// Codecs over chunk sizes: ratio and speed (Figure 6)
    ChunkSize(ChunkSizeArgs),
    /// Whether neighbours in the pool come back together (Table 3)
    Locality(StudyArgs),
    /// Compression time and ratio of the size configurations (Figures 11, 12 and 13)
    Compression(StudyArgs),
    /// How well the hot list predicts a relaunch (Figure 14)
    Coverage(StudyArgs),
    /// Unsuitable chunk sizes (Figure 15)
    Sensitivity(StudyArgs),
    /// Whether entropy tells how a page compresses (ezswap Figures 5 and 6)
    Entropy(EntropyArgs),
    /// The parts of ezswap (ezswap Figures 8 to 11 and Table 3)
    Ezswap(EzswapArgs),
    /// The parts of the papers: which pay together, and which work against each other
    Parts(PartsArgs),
    /// How many of ten relaunches touch a page (ASAP Figures 5 to 7)
    Switches(StudyArgs),
    /// How well footprints predict a relaunch (ASAP Figure 12)
    Prepaging(StudyArgs),
    /// Cold launches beside relaunches, and how memory grows (Ariadne Table 1, ASAP Figure 1, Fleet Figure 2)
    Launches(StudyArgs),
    /// Misses of reclaim policies where exactly so many pages fit, as cache simulators count them
    Misses(MissesArgs),
    /// Every study, and the comparisons of the papers: a folder of results for `warmswap-lab report`
    All(all::AllArgs),
    /// Sizes, depths and launch sets of the objects in heap dumps of the JVM or V8 (Fleet Figures 6b and 7)
    Heap(HeapArgs),
}

/// Which heap dumps, and what counts.
#[derive(Debug, Args)]
pub struct HeapArgs {
    /// The dumps, as `jcmd PID GC.heap_dump`, `node --heapsnapshot-signal` or Chromium make them; compressed by gzip or not
    #[arg(required = true)]
    dumps: Vec<PathBuf>,
    /// The largest D: objects fewer than D references from a root are near it
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=100))]
    depth: u32,
    /// Of a file with several dumps: first, last, each by itself, or one by its number
    #[arg(long, default_value = "first", value_name = "WHICH")]
    dump: Dumps,
    /// Objects with higher addresses than the last instance of this class are young
    #[arg(long, value_name = "CLASS")]
    young_after: Option<String>,
}

/// Which trace, and how much of it.
#[derive(Debug, Args)]
pub struct EntropyArgs {
    /// The trace
    trace: PathBuf,
    /// Distinct pages to take from it
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pages: u64,
}

/// Which traces, with how much memory.
#[derive(Debug, Args)]
pub struct EzswapArgs {
    /// The traces
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Memory for resident pages and pool together, in percent of the trace's footprint
    #[arg(long, default_value_t = 50, value_parser = percent::<u32>, value_name = "PERCENT")]
    budget: u32,
    /// Of it, at most this for the pool, in percent
    #[arg(long, default_value_t = 10.0, value_parser = percent::<f64>, value_name = "PERCENT")]
    pool: f64,
}

/// Which traces, with how much memory.
#[derive(Debug, Args)]
pub struct PartsArgs {
    /// The traces
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Memory for resident pages and pool together, in percent of the trace's footprint
    #[arg(long, default_value_t = 50.0, value_parser = percent::<f64>, value_name = "PERCENT")]
    budget: f64,
    /// Of it, at most this for the pool, in percent: so little that pages are evicted from it
    #[arg(long, default_value_t = 10.0, value_parser = percent::<f64>, value_name = "PERCENT")]
    pool: f64,
}

/// Which traces and schemes.
#[derive(Debug, Args)]
pub struct StudyArgs {
    /// The traces
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Other schemes than the paper's, where the study replays
    #[arg(long, value_delimiter = ',')]
    schemes: Vec<String>,
}

/// Which traces, policies and sizes.
#[derive(Debug, Args)]
pub struct MissesArgs {
    /// The traces
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Reclaim policies; the separator is a semicolon, since arguments have commas
    #[arg(long, value_delimiter = ';', default_values_t = misses::POLICIES.map(str::to_owned))]
    policies: Vec<String>,
    /// How many pages fit, in percent of all that a trace touches
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PERCENT",
        default_values_t = misses::SHARES_PERCENT,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    fit: Vec<u32>,
}

/// Which trace, how much of it, and how often.
#[derive(Debug, Args)]
pub struct ChunkSizeArgs {
    /// The trace
    trace: PathBuf,
    /// Passes over the data; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: u32,
    /// Contents to take from the trace, in MiB
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    sample_mib: u64,
}

/// Carries out a study.
///
/// # Errors
/// Bad options or input, or a study that stops.
pub fn run(command: StudyCommand, host: &dyn Host) -> Result<()> {
    let output = host.output();
    let progress = host.progress("studying");
    let progress = &*progress;
    match command {
        StudyCommand::HotnessOrder(args) => {
            let (options, schemes) = (Options::default(), args.schemes("zram")?);
            let result = hotness_order(&args.open(host)?, &schemes, &options, progress)?;
            let tables = studies::hotness_order(&result);
            output.emit("warmswap.study.hotness_order", &result, &tables)
        }
        StudyCommand::Similarity(args) => {
            let result = similarity(&open(host, &args.traces, false)?)?;
            let table = studies::similarity(&result);
            output.emit("warmswap.study.similarity", &result, &[table])
        }
        StudyCommand::ChunkSize(args) => {
            let subject = &open(host, &[args.trace], true)?[0];
            let sample = Sample::of(subject, args.sample_mib << 20)?;
            let result = chunk_sizes(&sample, &Codec::ALL, args.passes, progress)?;
            let table = studies::chunk_sizes(&result);
            output.emit("warmswap.study.chunk_size", &result, &[table])
        }
        StudyCommand::Locality(args) => {
            let options = Options::full_pressure();
            let result = locality(
                &args.open(host)?,
                &args.schemes("zram")?,
                &options,
                progress,
            )?;
            let table = studies::locality(&result);
            output.emit("warmswap.study.locality", &result, &[table])
        }
        StudyCommand::Compression(args) => {
            let result = args.compression(&compression::SCHEMES, host, progress)?;
            let tables = studies::compression(&result);
            output.emit("warmswap.study.compression", &result, &tables)
        }
        StudyCommand::Coverage(args) => {
            let (options, schemes) = (Options::default(), args.schemes("ariadne")?);
            let result = coverage(&args.open(host)?, &schemes, &options, progress)?;
            let table = studies::coverage(&result);
            output.emit("warmswap.study.coverage", &result, &[table])
        }
        StudyCommand::Sensitivity(args) => {
            let result = args.compression(&sensitivity::SCHEMES, host, progress)?;
            let tables = studies::compression(&result);
            output.emit("warmswap.study.sensitivity", &result, &tables)
        }
        StudyCommand::Entropy(args) => {
            let subject = &open(host, &[args.trace], true)?[0];
            let result = entropy_study(subject, args.pages, progress)?;
            let tables = tables::ezswap::entropy(&result);
            output.emit("warmswap.study.entropy", &result, &tables)
        }
        StudyCommand::Ezswap(args) => {
            let subjects = open(host, &args.traces, true)?;
            let result = ezswap(&subjects, args.budget, args.pool, progress)?;
            let tables = tables::ezswap::ezswap(&result);
            output.emit("warmswap.study.ezswap", &result, &tables)
        }
        StudyCommand::Parts(args) => {
            let subjects = open(host, &args.traces, true)?;
            let result = parts(&subjects, (args.budget, args.pool), progress)?;
            let tables = tables::parts(&result);
            output.emit("warmswap.study.parts", &result, &tables)
        }
        StudyCommand::Switches(args) => {
            let result = switches(&open(host, &args.traces, false)?)?;
            let table = asap::switches(&result);
            output.emit("warmswap.study.switches", &result, &[table])
        }
        StudyCommand::Prepaging(args) => {
            let options = Options {
                file_pages: true,
                ..Options::full_pressure()
            };
            let schemes = args.schemes(warmswap_study::prepaging::SCHEME)?;
            let result = prepaging(&args.open(host)?, &schemes, &options, progress)?;
            let table = asap::prepaging(&result);
            output.emit("warmswap.study.prepaging", &result, &[table])
        }
        StudyCommand::Launches(args) => {
            let result = launches(&open(host, &args.traces, false)?)?;
            let table = studies::launches(&result);
            output.emit("warmswap.study.launches", &result, &[table])
        }
        StudyCommand::Misses(args) => {
            let subjects = open(host, &args.traces, false)?;
            let result = misses::misses(&subjects, &args.policies, &args.fit)?;
            let table = studies::misses(&result);
            output.emit("warmswap.study.misses", &result, &[table])
        }
        StudyCommand::All(args) => all::run(&args, host),
        StudyCommand::Heap(args) => {
            let mut result = Vec::new();
            for dump in &args.dumps {
                output.check_input(dump)?;
                let young_after = args.young_after.as_deref();
                result.extend(heap_study(dump, args.dump, args.depth, young_after)?);
            }
            output.emit("warmswap.study.heap", &result, &tables::heap(&result))
        }
    }
}

impl StudyArgs {
    fn open(&self, host: &dyn Host) -> Result<Vec<Subject>> {
        open(host, &self.traces, true)
    }

    fn compression(
        &self,
        paper: &[&str],
        host: &dyn Host,
        progress: OnProgress<'_>,
    ) -> Result<CompressionStudy> {
        let schemes = self.schemes(&paper.join(","))?;
        let options = Options::full_pressure();
        Ok(compression(
            &self.open(host)?,
            &schemes,
            &options,
            progress,
        )?)
    }

    fn schemes(&self, paper: &str) -> Result<Vec<warmswap_policy::SchemeSpec>> {
        if self.schemes.is_empty() {
            let paper: Vec<_> = paper.split(',').map(str::to_owned).collect();
            return schemes(&paper, &[]);
        }
        schemes(&self.schemes, &[])
    }
}
