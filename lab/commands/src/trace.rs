//! `warmswap-lab trace`: look into a trace, or convert it.

use crate::host::Host;
use crate::shipped::input;
use anyhow::Result;
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use warmswap_output::file::is_same;
use warmswap_output::units::grouped as count;
use warmswap_output::{BadInput, Output};
use warmswap_page::{AppId, LaunchKind, PageAddr};
use warmswap_results::tables;
use warmswap_study::Progress;
use warmswap_trace::import::ariadne::{self, Imported};
use warmswap_trace::sample::{SampleOptions, sample};
use warmswap_trace::stats::{TraceStats, stats};
use warmswap_trace::{Event, EventKind, TraceReader, oracle_general};

/// Examples.
pub const HELP: &str = "\
Examples:
  warmswap-lab trace info --verify mine.wst
      applications, pages and relaunches; every block is checked
  warmswap-lab trace head -n 5 --from 1000 traces/mixed.wst
      events 1000 to 1004
  warmswap-lab trace export mine.wst --out mine.bin
      for libCacheSim
  warmswap-lab trace import artifact/ --out ariadne.wst
      from the Ariadne artifact
  warmswap-lab trace sample mine.wst --out small.wst --share 0.1
      a tenth of the pages

Exit status: 2 when the file is no trace, or damaged; the line says at which byte.";

/// What is done with a trace.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// What a trace holds
    Info(InfoArgs),
    /// The first events of a trace, or some from the middle
    Head(HeadArgs),
    /// The accesses as libCacheSim reads them (oracleGeneral), each with the next one to the same page
    Export(ExportArgs),
    /// A trace from the files of the Ariadne authors' artifact
    Import(ImportArgs),
    /// A smaller trace: a spatial sample of a large one
    Sample(SampleArgs),
}

/// Which trace.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The trace
    trace: PathBuf,
    /// Check every block, too
    #[arg(long)]
    verify: bool,
}

/// Which trace, and which of its events.
#[derive(Debug, Args)]
pub struct HeadArgs {
    /// The trace
    trace: PathBuf,
    /// How many events
    #[arg(short = 'n', long, default_value_t = 20)]
    events: usize,
    /// Begin with this event, counted from 0
    #[arg(long, default_value_t = 0)]
    from: u64,
}

/// Which trace, and what is written.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The trace
    trace: PathBuf,
    /// The file to write
    #[arg(long)]
    out: PathBuf,
    /// Accesses to pages of files, too
    #[arg(long)]
    files: bool,
}

/// From where, and to where.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The folder with swapout_trace.txt (or its .meta and .data), swapin_trace.txt, ttid_swapin_trace.txt
    /// and lru_list.txt
    folder: PathBuf,
    /// The trace to write
    #[arg(long)]
    out: PathBuf,
}

/// Which trace, and what is kept of it.
#[derive(Debug, Args)]
pub struct SampleArgs {
    /// The trace
    trace: PathBuf,
    /// The trace to write
    #[arg(long)]
    out: PathBuf,
    /// Share of the pages that is kept, in aligned blocks of 16
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Another share for an application's anonymous pages: `--app-share redis=0.1`
    #[arg(long, value_name = "APP=SHARE")]
    app_share: Vec<String>,
    /// Decides which
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stop after so many events
    #[arg(long)]
    max_events: Option<u64>,
    /// Keep only these applications, by name
    #[arg(long, value_delimiter = ',')]
    apps: Option<Vec<String>>,
    /// Zstandard level of the contents
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
}

/// Carries out a subcommand.
///
/// # Errors
/// Bad options or input, or a file that cannot be written.
pub fn run(command: TraceCommand, host: &dyn Host) -> Result<()> {
    let output = host.output();
    match command {
        TraceCommand::Info(args) => info(&args, host),
        TraceCommand::Head(args) => head(&args, host),
        TraceCommand::Export(args) => {
            output.refuse_tables("warmswap-lab trace export")?;
            check_out(&args.out, &args.trace, output)?;
            let trace = host.reader(&input(&args.trace, output)?)?;
            let accesses = oracle_general::export(&trace, &args.out, args.files)?;
            output.say(&format!(
                "{} accesses written to {}",
                count(accesses),
                args.out.display()
            ))?;
            let exported = Exported {
                accesses,
                file: args.out,
            };
            output.save("warmswap.trace_export", exported)
        }
        TraceCommand::Import(args) => import(&args, host),
        TraceCommand::Sample(args) => {
            check_out(&args.out, &args.trace, output)?;
            let reader = host.reader(&input(&args.trace, output)?)?;
            let app_shares = app_shares(&reader, &args.app_share)?;
            if args.share == 0.0 && app_shares.iter().all(|&(_, share)| share == 0.0) {
                let why = "--share 0 keeps nothing: give more than 0, up to 1";
                return Err(BadInput(why.to_owned()).into());
            }
            check_share(&format!("--share {}", args.share), args.share)?;
            let apps = args.apps.map(|names| app_ids(&reader, &names));
            let apps = apps.transpose()?;
            let is_left_out = |app| apps.as_ref().is_some_and(|apps| !apps.contains(app));
            if let Some(at) = app_shares.iter().position(|(app, _)| is_left_out(app)) {
                let why = format!("--app-share {}: --apps leaves it out", args.app_share[at]);
                return Err(BadInput(why).into());
            }
            let options = SampleOptions {
                share: args.share,
                app_shares,
                seed: args.seed,
                max_events: args.max_events,
                apps,
                content_level: args.level,
            };
            sample(&reader, &args.out, &options)?;
            show(&args.out, host)
        }
    }
}

/// Checks that a trace can be written that is made of another.
fn check_out(out: &Path, trace: &Path, output: &Output) -> Result<(), BadInput> {
    output.check_file("--out", out)?;
    if is_same(out, trace) {
        let out = out.display();
        let why = format!("--out {out} is the trace that is read: name another file");
        return Err(BadInput(why));
    }
    Ok(())
}

fn app_ids(reader: &TraceReader, names: &[String]) -> Result<Vec<AppId>> {
    let find = |name: &String| {
        let index = reader.apps().iter().position(|app| app.name == *name);
        index.map(|index| AppId(index as u16)).ok_or_else(|| {
            let known: Vec<_> = reader.apps().iter().map(|app| app.name.as_str()).collect();
            BadInput(format!(
                "the trace has no application '{name}'; it has {}",
                known.join(", ")
            ))
            .into()
        })
    };
    names.iter().map(find).collect()
}

fn check_share(option: &str, share: f64) -> Result<(), BadInput> {
    match (0.0..=1.0).contains(&share) {
        true => Ok(()),
        false => Err(BadInput(format!(
            "{option}: a share is from 0 to 1, such as 0.1"
        ))),
    }
}

fn app_shares(reader: &TraceReader, texts: &[String]) -> Result<Vec<(AppId, f64)>> {
    let parse = |text: &String| {
        let parsed = text
            .split_once('=')
            .and_then(|(name, share)| Some((name, share.parse().ok()?)));
        let (name, share) = parsed.ok_or_else(|| BadInput(format!("'{text}' is not APP=SHARE")))?;
        check_share(&format!("--app-share {text}"), share)?;
        Ok((app_ids(reader, &[name.to_owned()])?[0], share))
    };
    let shares: Vec<(AppId, f64)> = texts.iter().map(parse).collect::<Result<_>>()?;
    let is_again = |at: &usize| shares[..*at].iter().any(|other| other.0 == shares[*at].0);
    match (0..shares.len()).find(is_again) {
        Some(at) => {
            let why = format!("--app-share {}: the application has a share", texts[at]);
            Err(BadInput(why).into())
        }
        None => Ok(shares),
    }
}

fn show(trace: &Path, host: &dyn Host) -> Result<()> {
    show_with(trace, None, host)
}

fn show_with(trace: &Path, imported: Option<Imported>, host: &dyn Host) -> Result<()> {
    let reader = host.reader(&input(trace, host.output())?)?;
    let stats = TraceStats {
        imported,
        ..stats(&reader)?
    };
    let tables = tables::trace_info(&stats);
    host.output().emit("warmswap.trace_info", stats, &tables)
}

fn info(args: &InfoArgs, host: &dyn Host) -> Result<()> {
    if args.verify {
        let on_progress = host.progress("verifying");
        host.reader(&input(&args.trace, host.output())?)?
            .verify(|done, total| on_progress(Progress { done, total }))?;
    }
    show(&args.trace, host)
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Exported {
    /// Accesses that were written.
    accesses: u64,
    /// The file.
    file: PathBuf,
}

/// One event of a trace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown<'a> {
    /// From 0.
    number: u64,
    /// Nanoseconds since the trace began.
    time_ns: u64,
    /// The application.
    app: &'a str,
    /// What happened, in words.
    what: String,
}

fn head(args: &HeadArgs, host: &dyn Host) -> Result<()> {
    let output = host.output();
    output.refuse_tables("warmswap-lab trace head")?;
    let reader = host.reader(&input(&args.trace, output)?)?;
    let name = |app: AppId| reader.app(app).map_or("?", |info| &info.name);
    let mut events = Vec::new();
    for (event, number) in reader
        .events_from(args.from)?
        .take(args.events)
        .zip(args.from..)
    {
        if output.is_closed() {
            break;
        }
        let Event { time_ns, app, kind } = event?;
        let (app, what) = (name(app), words(&reader, kind));
        let seconds = time_ns as f64 / 1e9;
        output.say(&format!("{seconds:>14.6} s  {app:<12} {what}"))?;
        if output.saves() {
            events.push(Shown {
                number,
                time_ns,
                app,
                what,
            });
        }
    }
    output.save("warmswap.trace_head", events)
}

fn place(reader: &TraceReader, page: PageAddr) -> String {
    match page {
        PageAddr::Anon { .. } => page.to_string(),
        PageAddr::File { file, number } => {
            let path = reader.file(file).map_or("?", |info| &info.path);
            format!("{path} page {number}")
        }
    }
}

fn words(reader: &TraceReader, kind: EventKind) -> String {
    match kind {
        EventKind::Access {
            page,
            write,
            content,
        } => {
            let verb = if write { "write" } else { "read" };
            let content = content.map_or(String::new(), |id| format!("  content {}", id.0));
            format!("{verb} {}{content}", place(reader, page))
        }
        EventKind::Content { page, content } => {
            format!("holds {}  content {}", place(reader, page), content.0)
        }
        EventKind::LaunchBegin(LaunchKind::Cold) => "launch".to_owned(),
        EventKind::LaunchBegin(LaunchKind::Relaunch) => "relaunch".to_owned(),
        EventKind::LaunchEnd => "has answered".to_owned(),
        EventKind::Background => "to the background".to_owned(),
        EventKind::Free { page, pages } => {
            format!("frees {pages} pages at {}", place(reader, page))
        }
        EventKind::Exit => "exits".to_owned(),
    }
}

fn import(args: &ImportArgs, host: &dyn Host) -> Result<()> {
    host.output().check_file("--out", &args.out)?;
    let (imported, _) = ariadne::import(&args.folder, &args.out)?;
    host.output().say(&format!(
        "{} swap-outs, {} swap-ins in the relaunch window, {} after it, {} from unknown sectors, {} pages on LRU lists",
        count(imported.swap_outs),
        count(imported.launch_swap_ins),
        count(imported.execution_swap_ins),
        count(imported.unknown_swap_ins),
        count(imported.resident_pages),
    ))?;
    show_with(&args.out, Some(imported), host)
}
