//! Measures what a page costs, beside the kernel's zram: `faults TRACE [ROUNDS] [PAGES]`, as root.

use warmswap_bench::{FaultsOptions, Pages, faults};
use warmswap_sys::{Root, undo::Undo};
use warmswap_trace::TraceReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let trace = args.next().ok_or("usage: faults TRACE [ROUNDS] [PAGES]")?;
    let mut number = |default| args.next().map_or(Ok(default), |text| text.parse());
    let (rounds, pages) = (number(9)?, number(8192)?);
    let pages = Pages::sample(&TraceReader::open(trace)?, pages)?;
    let root = Root::machine();
    let undo = Undo::open(&root, &Undo::default_folder(&root))?;
    undo.on_signals()?;
    let options = FaultsOptions {
        rounds,
        allow_busy: true,
    };
    let report = faults(&pages, options, &undo, &|_, _| {})?;
    println!("got {:.2} of a processor", report.cpu_share);
    for m in &report.measures {
        println!(
            "{:>16} {:>8.0} ns, {:>8.0} ns {:<36} {:.2}",
            m.key, m.ours_ns, m.other_ns, m.other, m.ratio
        );
    }
    for l in &report.latencies {
        println!(
            "{:>28}: p50 {} ns, p99 {} ns, p99.9 {} ns",
            l.who, l.p50_ns, l.p99_ns, l.p999_ns
        );
    }
    Ok(())
}
