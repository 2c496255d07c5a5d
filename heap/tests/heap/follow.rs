//! A heap that hears of switches from the daemon.

use std::time::Duration;

use warmswap_heap::{Collector, FleetConfig, Kind};
use warmswap_protocol::{Access, Standing, Switches};
use warmswap_sys::Root;
use warmswap_sys::process::Stat;

use crate::common::{MIB, alloc, fleet, heap};

fn own(is_foreground: bool) -> Standing {
    let pid = std::process::id();
    let stat = Stat::read(&Root::machine(), pid).expect("it runs");
    Standing {
        pid,
        start_ticks: stat.start_ticks,
        is_foreground,
    }
}

#[test]
fn a_heap_comes_and_goes_as_the_daemon_says() {
    let place = tempfile::tempdir().expect("a folder");
    let socket = place.path().join("daemon.sock");
    let config = FleetConfig {
        background_wait: Duration::ZERO,
        ..fleet()
    };
    let heap = heap(8 * MIB, Collector::Fleet(config));
    heap.follow_daemon(&socket).expect("a thread");
    let mut mutator = heap.mutator().expect("the first of this thread");
    let kept = mutator.root(alloc(&mutator, 1, 0, 4).expect("room"));
    let mut switches = Switches::make(&socket, Access::Owner).expect("a folder");

    for groupings in 1..=2 {
        switches.tell(&[own(false)]).expect("a file");
        let is_grouped = || {
            let reports = heap.stats().reports;
            let grouped = reports.iter().filter(|r| r.kind == Kind::Grouping);
            grouped.count() == groupings
        };
        mutator.blocking(|| wait_until(&is_grouped));
        switches.tell(&[own(true)]).expect("a file");
        // The launch is over after three seconds.
        let is_launched = || heap.stats().launches.len() == groupings;
        mutator.blocking(|| wait_until(&is_launched));
    }
    drop(kept);
}

fn wait_until(condition: &dyn Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
