//! A Redis server with half the memory that it needs: under the kernel's zram, and under the preloaded library.
//!
//! Three servers hold the same data at the same time: one with all its memory, one in a memory cgroup over a zram
//! device of its own, one paged by the library with half the first one's footprint as budget. They are asked in
//! turn, so that all see the same machine. The cgroup of the second gets what the third really takes, the
//! library's threads and tables included, less what the zram device takes beside the cgroup; it is set anew before
//! every turn.

mod requests;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramSwap};

use self::requests::{Data, Load, Turn};
use self::server::Server;
use crate::clock::{busy_share, median};
use crate::{BenchError, Latency, Pages};

pub use requests::Choice;

/// Bytes of each value.
const VALUE_BYTES: usize = 1024;

/// How much is asked.
#[derive(Debug, Clone, Serialize)]
pub struct RedisOptions {
    /// The library that is preloaded.
    pub library: PathBuf,
    /// The scheme of the paged server.
    pub scheme: String,
    /// Keys of each server, with 1 KiB each.
    pub keys: usize,
    /// Turns of each server with each choice of keys; medians count.
    pub rounds: usize,
    /// Requests of a turn, after half as many that are not measured.
    pub requests: usize,
    /// Connections that ask at the same time, each for one value at a time.
    pub connections: usize,
    /// The seed of the keys that are asked for.
    pub seed: u64,
    /// Measure although other programs take the processor.
    pub allow_busy: bool,
}

/// Who has the memory of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Nobody takes any of it.
    Dram,
    /// The kernel, with zram.
    Zram,
    /// The preloaded library.
    Warmswap,
}

/// What came of one arm with one choice of keys; medians of the turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RedisRow {
    /// Who has the memory.
    pub arm: Arm,
    /// How keys are chosen.
    pub choice: Choice,
    /// Requests a second.
    pub requests_per_second: f64,
    /// The median of the turns' ratios of requests a second to those under zram in the same round.
    pub ratio: f64,
    /// Waiting times of all requests of all turns.
    pub latency: Latency,
    /// CPU nanoseconds of the server, its pager included, a request.
    pub cpu_ns: f64,
    /// Faults of the server for which a page had to come back, a request.
    pub faults: f64,
    /// Memory of the server, with what it takes of zram, at the end of the turns.
    pub memory_bytes: f64,
    /// Requests a second in each turn.
    pub turns: Vec<f64>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RedisReport {
    /// Memory that the server needs.
    pub footprint_bytes: u64,
    /// Half of it: the budget.
    pub budget_bytes: u64,
    /// What share of a processor the measuring thread got before the rounds, 0 to 1.
    pub cpu_share: f64,
    /// What was measured.
    pub rows: Vec<RedisRow>,
}

/// Measures. Changes on the machine (a zram device, three cgroups) are noted in `undo` and taken back.
///
/// # Errors
/// [`BenchError`], when it cannot run or would measure something else.
pub fn redis(
    pages: &Pages,
    options: &RedisOptions,
    undo: &Undo,
    progress: &dyn Fn(u64, u64),
) -> Result<RedisReport, BenchError> {
    warmswap_sys::zram::probe(undo.root())?;
    let cpu_share = busy_share(Duration::from_millis(300), options.allow_busy)?;
    let steps = (3 + 6 * options.rounds) as u64;
    let data = Data::new(pages, options.keys, VALUE_BYTES);

    let plain = Server::start(undo, "dram", None)?;
    data.fill(plain.socket())?;
    let footprint_bytes = plain.memory_bytes()?;
    progress(1, steps);
    let budget_bytes = footprint_bytes / 2;
    let preload = server::Preload {
        library: &options.library,
        scheme: &options.scheme,
        budget_bytes,
    };
    let ours = Server::start(undo, "warmswap", Some(preload))?;
    data.fill(ours.socket())?;
    progress(2, steps);
    let zram = ZramSwap::create(
        undo,
        &ZramConfig {
            disk_bytes: 2 * footprint_bytes,
            algorithm: "lz4".to_owned(),
            second_algorithm: None,
            memory_limit_bytes: None,
            priority: 32767,
        },
    )?;
    let kernel = Server::start(undo, "zram", None)?;
    data.fill(kernel.socket())?;
    progress(3, steps);

    let mut turns: Vec<(Arm, Turn)> = Vec::new();
    for round in 0..options.rounds {
        for choice in Choice::ALL {
            // Who begins changes, and with it who finds the caches as which other left them.
            for at in 0..3 {
                let arm = [Arm::Warmswap, Arm::Zram, Arm::Dram][(round + at) % 3];
                let server = match arm {
                    Arm::Dram => &plain,
                    Arm::Warmswap => &ours,
                    Arm::Zram => &kernel,
                };
                if arm == Arm::Zram {
                    kernel.squeeze(ours.memory_bytes()?, &zram)?;
                }
                let load = Load {
                    choice,
                    requests: options.requests,
                    connections: options.connections,
                    seed: options.seed + round as u64,
                };
                let mut turn = data.ask(server, load)?;
                if arm == Arm::Zram {
                    turn.memory_bytes += zram.stats()?.memory_bytes;
                }
                turns.push((arm, turn));
                progress(3 + turns.len() as u64, steps);
            }
        }
    }
    drop(kernel);
    zram.remove()?;
    Ok(RedisReport {
        footprint_bytes,
        budget_bytes,
        cpu_share,
        rows: rows(&turns),
    })
}

fn rows(turns: &[(Arm, Turn)]) -> Vec<RedisRow> {
    let of = |arm, choice| -> Vec<&Turn> {
        turns
            .iter()
            .filter(|(a, turn)| *a == arm && turn.choice == choice)
            .map(|(_, turn)| turn)
            .collect()
    };
    let mut rows = Vec::new();
    for choice in Choice::ALL {
        let beside = of(Arm::Zram, choice);
        for arm in [Arm::Dram, Arm::Zram, Arm::Warmswap] {
            let turns = of(arm, choice);
            let middle =
                |number: &dyn Fn(&Turn) -> f64| median(turns.iter().map(|turn| number(turn)));
            let ratios = turns.iter().zip(&beside);
            let waits = turns.iter().flat_map(|turn| turn.waits_ns.iter().copied());
            rows.push(RedisRow {
                arm,
                choice,
                requests_per_second: middle(&Turn::requests_per_second),
                ratio: median(
                    ratios.map(|(a, b)| a.requests_per_second() / b.requests_per_second()),
                ),
                latency: Latency::of(arm.name(), waits),
                cpu_ns: middle(&|turn| turn.a_request(turn.cpu_ns)),
                faults: middle(&|turn| turn.a_request(turn.faults)),
                memory_bytes: middle(&|turn| turn.memory_bytes as f64),
                turns: turns
                    .iter()
                    .map(|turn| turn.requests_per_second())
                    .collect(),
            });
        }
    }
    rows
}

impl Arm {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::Zram => "zram",
            Self::Warmswap => "warmswap",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_medians_of_its_turns_and_their_ratios() {
        let turn = |choice, seconds: f64| Turn {
            choice,
            seconds,
            waits_ns: vec![1000; 100],
            cpu_ns: 200_000,
            faults: 50,
            memory_bytes: 7,
        };
        let mut turns = Vec::new();
        for seconds in [1.0, 2.0, 4.0] {
            for choice in Choice::ALL {
                turns.push((Arm::Zram, turn(choice, seconds)));
                turns.push((Arm::Warmswap, turn(choice, seconds / 2.0)));
            }
        }
        let rows = rows(&turns);
        assert_eq!(rows.len(), 6);
        let ours = rows
            .iter()
            .find(|row| row.arm == Arm::Warmswap && row.choice == Choice::Zipfian)
            .expect("a row");
        assert_eq!((ours.requests_per_second, ours.ratio), (100.0, 2.0));
        assert_eq!((ours.cpu_ns, ours.turns.len()), (2000.0, 3));
        assert_eq!(ours.faults, 0.5);
        assert_eq!(ours.latency.touches, 300);
    }
}
