//! `warmswap-lab bench capacity`: how many programs stay alive in a given memory.

use super::relaunch::{narrate, preload};
use crate::commands::undo;
use crate::definitions;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use warmswap_apps::{Directories, Size};
use warmswap_bench::RelaunchOptions;
use warmswap_bench::relaunch::capacity::{CapacityOptions, capacity};
use warmswap_bench::relaunch::{Arm, Scope, Total};
use warmswap_kernel::HostConfig;
use warmswap_output::BadInput;
use warmswap_output::Output;
use warmswap_output::SizeExpr;
use warmswap_results::tables;
use warmswap_sys::Root;

/// Which programs, how many, and in how much memory.
#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// Application definitions (TOML), or folders of them; separated by commas [default: chromium, cpython, h2, node, redis
    /// and sqlite of the folder apps, as far as they are installed]
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    apps: Vec<PathBuf>,
    /// How many programs; separated by commas
    #[arg(long, value_delimiter = ',', default_value = "4,6,8,10,12,16")]
    counts: Vec<usize>,
    /// What pages them; separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "zram,kernel,preload"
    )]
    arms: Vec<Arm>,
    /// Memory for all of them, the compressed pool included
    #[arg(long, default_value = "512M", value_name = "SIZE")]
    memory: SizeExpr,
    /// Size of the swap area before compression, as a share of the memory or in bytes
    #[arg(long, default_value = "100%", value_name = "SIZE")]
    swap: SizeExpr,
    /// What takes longer to start or to answer is not alive, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..), value_name = "SECONDS")]
    patience: u32,
    /// Relaunches of each program
    #[arg(long, default_value_t = 4)]
    relaunches: u32,
    /// Rest after each switch, in milliseconds
    #[arg(long, default_value_t = 100, value_name = "MS")]
    rest_ms: u64,
    /// Decides the order of switches, and how requests vary
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Compression algorithm of the zram devices
    #[arg(long, default_value = "lz4")]
    algorithm: String,
    /// Three programs, four and six in 128 MiB, for a first look
    #[arg(long)]
    quick: bool,
    /// Measure although other programs take the processor
    #[arg(long)]
    allow_busy: bool,
}

/// Measures and shows.
pub fn run(args: &CapacityArgs, output: &Output) -> Result<()> {
    let options = options(args)?;
    let undo = undo(&Root::machine())?;
    let mut last = None;
    let report = capacity(&options, &undo, &mut |programs, step| {
        if last != programs {
            last = programs;
            warmswap_output::tell!("{} programs", programs.unwrap_or_default());
        }
        narrate(step);
    })?;
    let tables = tables::capacity(&report);
    output.emit("warmswap.bench.capacity", report, &tables)
}

fn options(args: &CapacityArgs) -> Result<CapacityOptions> {
    let arms = args.arms.clone();
    if let Some(arm) = arms.iter().find(|arm| arm.scope() != Scope::Group) {
        let why = format!("the arm {} has no memory of its own to fill", arm.name());
        return Err(BadInput(why).into());
    }
    let (memory, mut counts) = if args.quick {
        (SizeExpr::Bytes(128 << 20), vec![3, 4, 6])
    } else {
        (args.memory, args.counts.clone())
    };
    counts.sort_unstable();
    counts.dedup();
    let SizeExpr::Bytes(total_bytes) = memory else {
        return Err(BadInput("--memory is a size, such as 512M".to_owned()).into());
    };
    if counts.first().is_none_or(|&count| count == 0) || args.relaunches == 0 {
        return Err(BadInput("at least one program and one relaunch are needed".to_owned()).into());
    }
    let is_preloaded = arms.iter().any(|arm| arm.is_preloaded());
    let preload = is_preloaded.then(|| preload("warmswap", &args.algorithm));
    let directories = Directories::default();
    let mut apps = definitions::load_or_default(&args.apps)?;
    definitions::retain_installed(&mut apps, &directories.cache);
    Ok(CapacityOptions {
        total_bytes,
        counts,
        patience_s: args.patience,
        relaunch: RelaunchOptions {
            apps,
            size: Size::Small,
            directories,
            arms,
            total: Total::Bytes(total_bytes),
            swap_bytes: Some(match args.swap {
                SizeExpr::Bytes(bytes) => bytes,
                SizeExpr::Percent(percent) => (total_bytes as f64 * percent / 100.0) as u64,
            }),
            is_limited_at_start: true,
            blocks: 1,
            relaunches: args.relaunches,
            warm_up: 1,
            rest_ms: args.rest_ms,
            seed: args.seed,
            algorithm: args.algorithm.clone(),
            readahead_kib: None,
            host: HostConfig::default(),
            preload: preload.transpose()?,
            footprints: None,
            command: None,
            sample_every: None,
            allow_busy: args.allow_busy,
        },
    })
}
