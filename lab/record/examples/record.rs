//! Records applications into a trace and prints what was found.
//!
//! `record OUTPUT.wst SIZE RELAUNCHES [APP...]`, with SIZE `small` or `normal`; all applications of the
//! folder `apps` when none is named.

use std::path::Path;

use warmswap_apps::{Size, load_all};
use warmswap_record::{Progress, RecordConfig, Step, record};
use warmswap_sys::Root;
use warmswap_sys::undo::Undo;

struct Print;

impl Progress for Print {
    fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Started { app, pages } => {
                println!("{app}: started, {} MB", pages * 4096 / 1_000_000)
            }
            Step::Relaunched {
                app,
                relaunch,
                of,
                latency_ns,
                pages,
            } => {
                println!(
                    "{app}: relaunch {relaunch}/{of}, {} ms, {pages} pages",
                    latency_ns / 1_000_000
                );
            }
            Step::Written => println!("written"),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [output, size, relaunches, names @ ..] = &arguments[..] else {
        return Err("usage: record OUTPUT.wst small|normal RELAUNCHES [APP...]".into());
    };
    let mut apps = load_all(Path::new("apps"))?;
    apps.retain(|app| names.is_empty() || names.contains(&app.name));
    let mut config = RecordConfig::new(output, apps);
    config.size = if size == "normal" {
        Size::Normal
    } else {
        Size::Small
    };
    config.relaunches = relaunches.parse()?;
    let root = Root::machine();
    let undo = Undo::open(&root, &Undo::default_folder(&root))?;
    undo.on_signals()?;
    let summary = record(&config, &undo, &mut Print)?;
    for app in &summary.apps {
        println!(
            "{}: {} processes, {} MB anonymous, {} accesses ({} writes, {} without a fault event), {} pages \
             mapped around, {} not paged out, {} freed, similarity {:.3}",
            app.name,
            app.processes,
            app.anonymous_pages * 4096 / 1_000_000,
            app.accesses,
            app.writes,
            app.accesses_without_fault,
            app.pages_mapped_around,
            app.pages_not_paged_out,
            app.pages_freed,
            app.mean_similarity().unwrap_or(f64::NAN),
        );
        for relaunch in &app.relaunches {
            let similarity = relaunch
                .similarity
                .map_or("-".to_owned(), |s| format!("{s:.3}"));
            println!(
                "  {:.1} ms, {} pages, {similarity}",
                relaunch.latency_ns as f64 / 1e6,
                relaunch.pages
            );
        }
    }
    println!("{:?}\n{:?}", summary.trace, summary.losses);
    Ok(())
}
