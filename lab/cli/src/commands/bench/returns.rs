//! `warmswap-lab bench return`: how fast programs come back after something else took their memory.

use super::relaunch::product_command;
use crate::definitions::Applications;
use anyhow::Result;
use clap::Args;
use warmswap_apps::{Directories, Size};
use warmswap_bench::relaunch::SwapKind;
use warmswap_bench::returns::{HogKind, ReturnArm, ReturnStep};
use warmswap_bench::{ReturnOptions, returns};
use warmswap_kernel::HostConfig;
use warmswap_output::{BadInput, Output, Quantity};
use warmswap_results::tables;
use warmswap_sys::{Root, undo::Undo};

/// What is measured, and how often.
#[derive(Debug, Args)]
pub struct ReturnArgs {
    #[command(flatten)]
    applications: Applications,
    /// How much memory the programs take
    #[arg(long, value_enum, default_value = "normal")]
    size: Size,
    /// What brings pages back; separated by commas. Without a limit is always measured, too. The daemon is the command
    /// `warmswap` beside this one, or of the PATH
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "kernel,daemon"
    )]
    arms: Vec<ReturnArm>,
    /// What pages are swapped to; separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "zram,file,zswap"
    )]
    swaps: Vec<SwapKind>,
    /// Seconds between the hog's end and the first return; separated by commas, with a hog for each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0,2,10,60",
        value_name = "SECONDS"
    )]
    waits: Vec<f64>,
    /// What takes the memory
    #[arg(long, value_enum, default_value = "anonymous")]
    hog: HogKind,
    /// How long the hog works about once it has the memory; every arm's does as much work
    #[arg(long, default_value_t = 20.0, value_name = "SECONDS")]
    hog_seconds: f64,
    /// The hog stays while programs are returned to
    #[arg(long)]
    hog_stays: bool,
    /// Pause after each return, in milliseconds
    #[arg(long, default_value_t = 2000, value_name = "MS")]
    pause_ms: u64,
    /// How often all is measured; the arms take turns at being first [default: as many as there are arms]
    #[arg(long)]
    blocks: Option<u32>,
    /// Decides the order of returns, and how requests vary
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Compression algorithm of the zram devices
    #[arg(long, default_value = "lz4")]
    algorithm: String,
    /// Take memory away from the whole machine, in place of limiting a control group. Nothing else should run
    #[arg(long)]
    machine: bool,
    /// Three small programs, one wait of 10 s over zram, for a first look (about two minutes)
    #[arg(long, conflicts_with_all = ["size", "swaps", "waits", "hog_seconds", "pause_ms", "blocks"])]
    quick: bool,
    /// Measure although other programs take the processor
    #[arg(long)]
    allow_busy: bool,
}

/// Measures and shows.
pub fn run(args: ReturnArgs, output: &Output) -> Result<()> {
    let options = options(args)?;
    let root = Root::machine();
    let undo = Undo::open(&root, &Undo::default_folder(&root))?;
    undo.on_signals()?;
    let report = returns(&options, &undo, &mut narrate)?;
    let tables = tables::returns(&report);
    output.emit("warmswap.bench.return", report, &tables)
}

fn options(args: ReturnArgs) -> Result<ReturnOptions> {
    let is_time = |seconds: &f64| (0.0..=3600.0).contains(seconds);
    let blocks = args.blocks.unwrap_or(args.arms.len() as u32);
    if blocks == 0 || !args.waits.iter().chain([&args.hog_seconds]).all(is_time) {
        let why = "at least one block is needed, and waits and the hog's time of 0 to 3600 s";
        return Err(BadInput(why.to_owned()).into());
    }
    let apps = args.applications.load()?;
    let ms = |seconds: f64| (seconds * 1000.0) as u64;
    let options = ReturnOptions {
        apps,
        size: args.size,
        directories: Directories::default(),
        arms: args.arms,
        swaps: args.swaps,
        waits_ms: args.waits.iter().copied().map(ms).collect(),
        hog: args.hog,
        hog_ms: ms(args.hog_seconds),
        hog_stays: args.hog_stays,
        pause_ms: args.pause_ms,
        warm_up: 3,
        blocks,
        seed: args.seed,
        algorithm: args.algorithm,
        is_machine: args.machine,
        host: HostConfig::default(),
        command: product_command(),
        allow_busy: args.allow_busy,
    };
    Ok(if args.quick { quick(options) } else { options })
}

/// For a first look: few programs, one short hog.
fn quick(options: ReturnOptions) -> ReturnOptions {
    ReturnOptions {
        apps: options.apps.into_iter().take(3).collect(),
        size: Size::Small,
        swaps: vec![SwapKind::Zram],
        waits_ms: vec![10_000],
        hog_ms: 2000,
        pause_ms: 100,
        blocks: 1,
        ..options
    }
}

fn narrate(step: ReturnStep<'_>) {
    match step {
        ReturnStep::Arm { arm, swap, block } => {
            let over = swap.map_or(String::new(), |swap| format!(" over {}", swap.name()));
            warmswap_output::tell!("block {}: {}{over}", block + 1, arm.name());
        }
        ReturnStep::Started { app } => warmswap_output::tell!("  {app} started"),
        ReturnStep::Hog { swapped_bytes } => {
            warmswap_output::tell!(
                "  the hog has run; {} of programs are in swap",
                Quantity::Bytes(swapped_bytes).human()
            );
        }
    }
}
