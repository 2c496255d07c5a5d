//! The ways of a page out of memory and back, beside the kernel's zram.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_arena::FaultMode;
use warmswap_codec::{
    ChunkError, ChunkPlan, Codec, Scratch, decode, encode_contiguous, same_filled,
};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::undo::Undo;

use crate::arena_side::ArenaSide;
use crate::clock::{Cpu, busy_share, cpu_of, median};
use crate::fits::program;
use crate::kernel_side::KernelSide;
use crate::latency::{Latency, touch_each};
use crate::memory::{Plain, Touch};
use crate::pages::RUN_PAGES;
use crate::{BenchError, Pages};

/// A page in a chunk of its own, as in zram.
const BY_PAGE: &str = "zram";
/// 16 pages in a chunk.
const BY_RUN: &str = "zram+sizing=adaptive:64k-64k-64k";
/// Touches of a round that are served by a handler thread, which takes about 100 us each.
const SLOW_TOUCHES: usize = 256;

/// How much is measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FaultsOptions {
    /// How often all is measured, kernel and arena in turn; medians count.
    pub rounds: usize,
    /// Measure although other programs take the processor.
    pub allow_busy: bool,
}

impl Default for FaultsOptions {
    fn default() -> Self {
        Self {
            rounds: 9,
            allow_busy: false,
        }
    }
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    /// What is measured, as one word.
    pub key: Cow<'static, str>,
    /// What is measured.
    pub what: Cow<'static, str>,
    /// CPU nanoseconds in the arena, a page; median of the rounds.
    pub ours_ns: f64,
    /// The same for what it is compared with.
    pub other_ns: f64,
    /// What it is compared with.
    pub other: Cow<'static, str>,
    /// Median of the rounds' ratios.
    pub ratio: f64,
}

/// All comparisons of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultsReport {
    /// Pages of each round.
    pub pages: usize,
    /// Rounds.
    pub rounds: usize,
    /// What share of a processor the measuring thread got before the rounds, 0 to 1.
    pub cpu_share: f64,
    /// CPU time.
    pub measures: Vec<Measure>,
    /// Waiting times of single random pages.
    pub latencies: Vec<Latency>,
}

/// CPU nanoseconds a page in one round.
#[derive(Debug, Default)]
struct Round {
    kernel_out: f64,
    kernel_touch: f64,
    kernel_bulk: f64,
    out: f64,
    touch: f64,
    bulk: f64,
    asked: f64,
    out_run: f64,
    touch_run: f64,
    bulk_run: f64,
    decompress_run: f64,
    compress_page: f64,
    native: f64,
    fits: f64,
}

/// Measures. Changes on the machine (a zram device) are noted in `undo` and taken back.
///
/// # Errors
/// [`BenchError`], when it cannot run or would measure something else.
pub fn faults(
    pages: &Pages,
    options: FaultsOptions,
    undo: &Undo,
    progress: &dyn Fn(u64, u64),
) -> Result<FaultsReport, BenchError> {
    warmswap_sys::zram::probe(undo.root())?;
    let share = busy_share(Duration::from_millis(300), options.allow_busy)?;
    let subjects = Subjects {
        order: pages.shuffled(),
        kernel: KernelSide::new(undo, pages.len())?,
        by_page: ArenaSide::new(BY_PAGE, FaultMode::Signal, pages.len())?,
        by_run: ArenaSide::new(BY_RUN, FaultMode::Signal, pages.len())?,
        by_thread: ArenaSide::new(BY_PAGE, FaultMode::Thread, pages.len())?,
        chunks: chunks(pages)?,
        pages,
    };
    let mut waits: [Vec<u64>; 3] = Default::default();
    let mut rounds = Vec::with_capacity(options.rounds);
    // The first round warms up.
    for n in 0..=options.rounds {
        let round = subjects.round(n % 2 == 0, &mut waits)?;
        if n > 0 {
            rounds.push(round);
        } else {
            waits.iter_mut().for_each(Vec::clear);
        }
        progress(n as u64 + 1, options.rounds as u64 + 1);
    }
    let [kernel, in_thread, by_thread] = waits;
    subjects.kernel.remove()?;
    Ok(FaultsReport {
        pages: pages.len(),
        rounds: rounds.len(),
        cpu_share: share,
        measures: measures(&rounds),
        latencies: vec![
            Latency::of("kernel zram", kernel),
            Latency::of("arena, in the thread", in_thread),
            Latency::of("arena, by a handler thread", by_thread),
        ],
    })
}

struct Subjects<'a> {
    pages: &'a Pages,
    order: Vec<usize>,
    kernel: KernelSide,
    by_page: ArenaSide,
    by_run: ArenaSide,
    by_thread: ArenaSide,
    chunks: Vec<Vec<u8>>,
}

impl Subjects<'_> {
    fn round(&self, kernel_first: bool, waits: &mut [Vec<u64>; 3]) -> Result<Round, BenchError> {
        let mut round = Round::default();
        if kernel_first {
            self.kernel_round(&mut round)?;
        }
        (round.out, round.touch, round.bulk) = self.arena_round(&self.by_page)?;
        round.asked = self.asked_round(&self.by_page)?;
        (round.out_run, round.touch_run, round.bulk_run) = self.arena_round(&self.by_run)?;
        if !kernel_first {
            self.kernel_round(&mut round)?;
        }
        round.decompress_run = self.decompress()?;
        round.compress_page = self.compress()?;
        self.waits(waits)?;
        let (native, ours) = (self.native()?, self.fitting()?);
        (round.native, round.fits) = (native, ours);
        Ok(round)
    }

    fn per_page(&self, ns: u64) -> f64 {
        ns as f64 / self.pages.len() as f64
    }

    fn kernel_round(&self, round: &mut Round) -> Result<(), BenchError> {
        let kernel = &self.kernel;
        kernel.write(self.pages);
        round.kernel_out = kernel.page_out()?;
        round.kernel_touch = self.touch_in(&self.order, &kernel.memory);
        kernel.write(self.pages);
        kernel.page_out()?;
        let (ns, result) = cpu_of(Cpu::Thread, || {
            kernel.memory.will_need()?;
            (0..self.pages.len()).for_each(|page| kernel.memory.touch(page));
            Ok::<_, BenchError>(())
        });
        result?;
        round.kernel_bulk = self.per_page(ns);
        Ok(())
    }

    /// Swap-out, random touch, bulk restore.
    fn arena_round(&self, side: &ArenaSide) -> Result<(f64, f64, f64), BenchError> {
        side.write(self.pages);
        let out = side.page_out()?;
        let touch = self.touch_in(&self.order, &side.region);
        side.write(self.pages);
        side.page_out()?;
        let (ns, result) = cpu_of(Cpu::Thread, || {
            side.restore()?;
            (0..self.pages.len()).for_each(|page| side.region.touch(page));
            Ok::<_, BenchError>(())
        });
        result?;
        Ok((out, touch, self.per_page(ns)))
    }

    /// Random touch of pages that are asked for just before.
    fn asked_round(&self, side: &ArenaSide) -> Result<f64, BenchError> {
        side.write(self.pages);
        side.page_out()?;
        let (ns, result) = cpu_of(Cpu::Thread, || {
            self.order.iter().try_for_each(|&page| {
                side.ask(page)?;
                side.region.touch(page);
                Ok::<_, BenchError>(())
            })
        });
        result?;
        Ok(self.per_page(ns))
    }

    fn touch_in(&self, order: &[usize], memory: &impl Touch) -> f64 {
        let touch = || order.iter().for_each(|&page| memory.touch(page));
        self.per_page(cpu_of(Cpu::Thread, touch).0)
    }

    /// Decompression alone, of the chunks that a bulk restore decompresses, into memory that is there.
    fn decompress(&self) -> Result<f64, BenchError> {
        let plan = run_plan()?;
        let mut scratch = Scratch::new();
        let mut room = vec![1u8; self.pages.len() * PAGE_BYTES];
        let (ns, result) = cpu_of(Cpu::Thread, || {
            let rooms = room.chunks_mut(RUN_PAGES * PAGE_BYTES);
            for (chunk, room) in self.chunks.iter().zip(rooms) {
                decode(&mut scratch, plan, chunk, room)?;
            }
            Ok::<_, BenchError>(())
        });
        result?;
        std::hint::black_box(&room);
        Ok(self.per_page(ns))
    }

    /// Compression alone, of each page by itself.
    fn compress(&self) -> Result<f64, BenchError> {
        let plan = ChunkPlan::page(Codec::Lz4);
        let mut scratch = Scratch::new();
        let mut room = vec![0; plan.max_encoded_bytes(1)];
        let (ns, result) = cpu_of(Cpu::Thread, || {
            for page in self
                .pages
                .iter()
                .filter(|&page| same_filled(page).is_none())
            {
                encode_contiguous(&mut scratch, plan, page, &mut room)?;
            }
            Ok::<_, BenchError>(())
        });
        result?;
        Ok(self.per_page(ns))
    }

    fn waits(&self, waits: &mut [Vec<u64>; 3]) -> Result<(), BenchError> {
        let few = &self.order[..SLOW_TOUCHES.min(self.order.len())];
        self.kernel.write(self.pages);
        self.kernel.page_out()?;
        touch_each(&self.kernel.memory, few, &mut waits[0]);
        for (side, waits) in [&self.by_page, &self.by_thread]
            .into_iter()
            .zip(&mut waits[1..])
        {
            side.write(self.pages);
            side.page_out()?;
            touch_each(&side.region, few, waits);
        }
        Ok(())
    }

    fn native(&self) -> Result<f64, BenchError> {
        let memory = Plain::new(self.pages.len())?;
        let (ns, sum) = cpu_of(Cpu::Process, || program(&memory));
        std::hint::black_box(sum);
        Ok(self.per_page(ns))
    }

    fn fitting(&self) -> Result<f64, BenchError> {
        let side = ArenaSide::new("warmswap", FaultMode::Signal, self.pages.len())?;
        let (ns, sum) = cpu_of(Cpu::Process, || program(&side.region));
        std::hint::black_box(sum);
        Ok(self.per_page(ns))
    }
}

fn run_plan() -> Result<ChunkPlan, BenchError> {
    let plan = ChunkPlan::new(Codec::Lz4, (RUN_PAGES * PAGE_BYTES) as u32);
    Ok(plan.map_err(ChunkError::from)?)
}

/// The pages in chunks of 64 KiB.
fn chunks(pages: &Pages) -> Result<Vec<Vec<u8>>, BenchError> {
    let (plan, mut scratch) = (run_plan()?, Scratch::new());
    let plain: Vec<u8> = pages.iter().flatten().copied().collect();
    let mut room = vec![0; plan.max_encoded_bytes(RUN_PAGES)];
    plain
        .chunks(RUN_PAGES * PAGE_BYTES)
        .map(|chunk| {
            let encoded = encode_contiguous(&mut scratch, plan, chunk, &mut room)?;
            Ok(room[..encoded.bytes].to_vec())
        })
        .collect()
}

/// What is measured, and how a round tells.
struct Subject {
    key: &'static str,
    what: &'static str,
    other: &'static str,
    /// Ours, and what it is compared with.
    of: fn(&Round) -> (f64, f64),
}

const TOUCH: &str = "MADV_PAGEOUT, then touch at random";
const BULK: &str = "MADV_WILLNEED, then touch";
const OUT: &str = "MADV_PAGEOUT";

const fn subject(
    key: &'static str,
    what: &'static str,
    other: &'static str,
    of: fn(&Round) -> (f64, f64),
) -> Subject {
    Subject {
        key,
        what,
        other,
        of,
    }
}

#[rustfmt::skip]
const SUBJECTS: [Subject; 10] = [
    subject("touch_page", "single random pages, a page a chunk", TOUCH, |r| (r.touch, r.kernel_touch)),
    subject("asked_page", "the same, asked for (advise) before the touch", TOUCH, |r| (r.asked, r.kernel_touch)),
    subject("touch_run", "random touch of a set in chunks of 64 KiB", TOUCH, |r| (r.touch_run, r.kernel_touch)),
    subject("bulk_run", "bulk restore and touch, chunks of 64 KiB", BULK, |r| (r.bulk_run, r.kernel_bulk)),
    subject("decompress_run", "of that, decompression alone", BULK, |r| (r.decompress_run, r.kernel_bulk)),
    subject("bulk_decompress", "the same", "decompression alone", |r| (r.bulk_run, r.decompress_run)),
    subject("bulk_page", "bulk restore and touch, a page a chunk", BULK, |r| (r.bulk, r.kernel_bulk)),
    subject("out_page", "swap-out, all threads, a page a chunk", OUT, |r| (r.out, r.kernel_out)),
    subject("compress_page", "of that, compression alone", OUT, |r| (r.compress_page, r.kernel_out)),
    subject("out_run", "swap-out, all threads, chunks of 64 KiB", OUT, |r| (r.out_run, r.kernel_out)),
];

impl Subject {
    /// The medians of the rounds.
    fn measure(&self, rounds: &[Round]) -> Measure {
        let each =
            |number: fn((f64, f64)) -> f64| median(rounds.iter().map(|r| number((self.of)(r))));
        Measure {
            key: self.key.into(),
            what: self.what.into(),
            ours_ns: each(|(ours, _)| ours),
            other_ns: each(|(_, other)| other),
            other: self.other.into(),
            ratio: each(|(ours, other)| ours / other),
        }
    }
}

fn measures(rounds: &[Round]) -> Vec<Measure> {
    let fits = Subject {
        key: "fits",
        what: "a program that fits its budget, warmswap",
        other: "plain memory",
        of: |r| (r.fits, r.native),
    };
    let fits = Measure {
        ratio: median(rounds.iter().map(|r| r.native / r.fits)),
        ..fits.measure(rounds)
    };
    let subjects = SUBJECTS.iter().map(|subject| subject.measure(rounds));
    subjects.chain([fits]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_rounds() {
        let rounds = [(1.0, 4.0), (2.0, 4.0), (3.0, 12.0)].map(|(touch, kernel_touch)| Round {
            touch,
            kernel_touch,
            native: 98.0,
            fits: 100.0,
            ..Round::default()
        });
        let all = measures(&rounds);
        let of = |key| all.iter().find(|m| m.key == key).expect("measured");
        assert_eq!(
            (of("touch_page").ours_ns, of("touch_page").ratio),
            (2.0, 0.25)
        );
        assert_eq!(of("fits").ratio, 0.98);
    }
}
