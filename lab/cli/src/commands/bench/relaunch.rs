//! `warmswap-lab bench relaunch`: real applications beside plain zram when memory is short.

use crate::commands::undo;
use crate::definitions::Applications;
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use warmswap_apps::{AppSpec, Directories, Size};
use warmswap_bench::relaunch::{Arm, Preload, Scope, Step, Total};
use warmswap_bench::{RelaunchOptions, relaunch};
use warmswap_codec::Codec;
use warmswap_doctor::{Machine, Part, preload_library, require};
use warmswap_kernel::HostConfig;
use warmswap_output::BadInput;
use warmswap_output::Output;
use warmswap_output::program::find;
use warmswap_policy::SchemeSpec;
use warmswap_results::tables;
use warmswap_sys::Root;

/// What is measured, and how often.
#[derive(Debug, Args)]
pub struct RelaunchArgs {
    #[command(flatten)]
    applications: Applications,
    /// How much memory the applications take
    #[arg(long, value_enum, default_value = "normal")]
    size: Size,
    /// What pages them; separated by commas [default: dram,zram,kernel and, where it
    /// works here, preload; with --machine dram,zram-default,zram-tuned,daemon,daemon-untold]
    #[arg(long, value_enum, value_delimiter = ',')]
    arms: Option<Vec<Arm>>,
    /// Take memory away from the whole machine, in place of limiting a control group: plain zram with the kernel's settings
    /// and with those of distributions, beside the daemon as shipped, told of switches and not. Nothing else should run
    #[arg(long)]
    machine: bool,
    /// Memory of the limited arms, compressed pool included, as a share of what the applications take
    /// without a limit
    #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
    share: f64,
    /// The same in MiB, in place of a share
    #[arg(long, value_name = "MIB")]
    total_mib: Option<u64>,
    /// How often each arm runs, in rotated order
    #[arg(long, default_value_t = 2)]
    blocks: u32,
    /// Relaunches of each application in each arm of a block
    #[arg(long, default_value_t = 6)]
    relaunches: u32,
    /// Relaunches before these, which do not count
    #[arg(long, default_value_t = 3)]
    warm_up: u32,
    /// Rest after each switch, in milliseconds
    #[arg(long, default_value_t = 300, value_name = "MS")]
    rest_ms: u64,
    /// Decides the order of switches, and how requests vary
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Compression algorithm of the zram devices
    #[arg(long, default_value = "lz4")]
    algorithm: String,
    /// Readahead of non-rotational disks in all arms, in KiB [default: this machine's]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(4..=65536))]
    readahead_kib: Option<u64>,
    /// The scheme of the arm preload; its codec is --algorithm's, unless it names one
    #[arg(long, default_value = "warmswap", value_name = "SCHEME")]
    preload_scheme: String,
    /// Kernel host and daemon bring nothing back in idle time
    #[arg(long)]
    no_bring_back: bool,
    /// Kernel host and daemon read nothing ahead at switches
    #[arg(long)]
    no_prefetch: bool,
    /// Sample CPU time and I/O of each switch every so many milliseconds, and sum them up (ASAP, Figures 13 and 14);
    /// takes some time of a processor itself
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(2..=1000))]
    sample_ms: Option<u64>,
    /// One block at small size with few relaunches, for a first look (about two minutes)
    #[arg(long)]
    quick: bool,
    /// Measure although other programs take the processor
    #[arg(long)]
    allow_busy: bool,
}

/// Measures and shows.
pub fn run(args: RelaunchArgs, output: &Output) -> Result<()> {
    let options = options(args)?;
    let undo = undo(&Root::machine())?;
    let report = relaunch(&options, &undo, &mut narrate)?;
    let tables = tables::relaunch(&report);
    output.emit("warmswap.bench.relaunch", report, &tables)
}

fn options(args: RelaunchArgs) -> Result<RelaunchOptions> {
    let apps = args.applications.load()?;
    if args.relaunches == 0 || args.blocks == 0 || !(args.share > 0.0 && args.share <= 10.0) {
        let why = "at least one block and relaunch is needed, and a share above 0";
        return Err(BadInput(why.to_owned()).into());
    }
    let (arms, preload) = arms(&args, &apps)?;
    Ok(RelaunchOptions {
        apps,
        size: if args.quick { Size::Small } else { args.size },
        directories: Directories::default(),
        arms,
        total: args
            .total_mib
            .map_or(Total::Share(args.share), |mib| Total::Bytes(mib << 20)),
        blocks: if args.quick { 1 } else { args.blocks },
        relaunches: if args.quick {
            args.relaunches.min(3)
        } else {
            args.relaunches
        },
        warm_up: if args.quick { 2 } else { args.warm_up },
        rest_ms: if args.quick {
            args.rest_ms.min(100)
        } else {
            args.rest_ms
        },
        seed: args.seed,
        algorithm: args.algorithm,
        readahead_kib: args.readahead_kib,
        host: HostConfig {
            bring_back: !args.no_bring_back,
            prefetch: !args.no_prefetch,
            ..HostConfig::default()
        },
        preload,
        command: product_command(),
        sample_every: args.sample_ms.map(Duration::from_millis),
        allow_busy: args.allow_busy,
    })
}

/// The command whose daemon is measured: beside this one, else in the search path.
pub(super) fn product_command() -> Option<PathBuf> {
    let name = "warmswap";
    let beside = std::env::current_exe()
        .ok()
        .map(|this| this.with_file_name(name));
    let beside = beside.filter(|path| path.is_file());
    beside.or_else(|| find(name.as_ref(), std::env::var_os("PATH")).ok())
}

/// All arms over a whole machine, and what the applications take without a limit.
const MACHINE_ARMS: [Arm; 5] = [
    Arm::Dram,
    Arm::ZramDefault,
    Arm::ZramTuned,
    Arm::Daemon,
    Arm::DaemonUntold,
];

/// The arms that are wanted, and what the arm `preload` needs. Where it is not named, it is left out if this machine or
/// these applications do not allow it.
fn arms(args: &RelaunchArgs, apps: &[AppSpec]) -> Result<(Vec<Arm>, Option<Preload>)> {
    if let Some(named) = &args.arms {
        let arms: Vec<Arm> = named.clone();
        let other = if args.machine {
            Scope::Group
        } else {
            Scope::Machine
        };
        if let Some(arm) = arms.iter().find(|arm| arm.scope() == other) {
            let why = if args.machine {
                "needs a control group: leave out"
            } else {
                "needs"
            };
            return Err(BadInput(format!("the arm {} {why} --machine", arm.name())).into());
        }
        let is_preloaded = arms.iter().any(|arm| arm.is_preloaded());
        let preload = is_preloaded.then(|| preload(&args.preload_scheme, &args.algorithm));
        return Ok((arms, preload.transpose()?));
    }
    if args.machine {
        return Ok((MACHINE_ARMS.to_vec(), None));
    }
    let mut arms = vec![Arm::Dram, Arm::Zram, Arm::Kernel];
    if !apps.iter().any(|app| app.start.preload) {
        return Ok((arms, None));
    }
    match preload(&args.preload_scheme, &args.algorithm) {
        Ok(preload) => {
            arms.push(Arm::Preload);
            Ok((arms, Some(preload)))
        }
        Err(error) => {
            let why = warmswap_output::exit::line(&error);
            warmswap_output::tell!("the arm preload is left out: {why}");
            Ok((arms, None))
        }
    }
}

/// What the arm `preload` needs, if this machine can run it.
fn preload(scheme: &str, algorithm: &str) -> Result<Preload> {
    let scheme = with_codec(scheme, algorithm);
    SchemeSpec::parse(&scheme)?;
    let machine = Machine::this();
    require(&machine, Part::Run).context("this machine cannot run the arm preload")?;
    let library = preload_library(&machine)?;
    // Applications run in folders of their own.
    let library = library
        .canonicalize()
        .with_context(|| format!("cannot find {}", library.display()))?;
    Ok(Preload {
        library,
        scheme,
        codec: codec_of(algorithm).map(str::to_owned),
    })
}

/// The scheme with the codec that a zram device of this algorithm has, so that the arms compress alike.
fn with_codec(scheme: &str, algorithm: &str) -> String {
    match codec_of(algorithm) {
        Some(codec) if !scheme.contains("codec=") => format!("{scheme}+codec={codec}"),
        _ => scheme.to_owned(),
    }
}

/// Our name of the kernel's algorithm, which has names for variants (lzo-rle, lz4hc).
fn codec_of(algorithm: &str) -> Option<&'static str> {
    let mut codecs = Codec::ALL.map(Codec::name).into_iter();
    codecs.find(|name| algorithm.starts_with(name))
}

fn narrate(step: Step<'_>) {
    match step {
        Step::Arm { arm, block } => warmswap_output::tell!("block {}: {}", block + 1, arm.name()),
        Step::Started { app } => warmswap_output::tell!("  {app} started"),
        Step::Killed { app } => warmswap_output::tell!("  {app} was killed, and is started again"),
        Step::Round { done, of } => warmswap_output::tell!("  round {done} of {of}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arena_compresses_as_the_zram_device_does() {
        assert_eq!(with_codec("warmswap", "lz4"), "warmswap+codec=lz4");
        assert_eq!(with_codec("warmswap", "lzo-rle"), "warmswap+codec=lzo");
        assert_eq!(with_codec("zram+codec=zstd", "lz4"), "zram+codec=zstd");
        assert_eq!(with_codec("zram", "842"), "zram");
        for algorithm in ["lz4", "lzo-rle", "zstd"] {
            for scheme in ["warmswap", "zram", "ariadne"] {
                SchemeSpec::parse(&with_codec(scheme, algorithm)).unwrap();
            }
        }
    }
}
