//! What schemes took on each trace, and what parts gain by that.

use warmswap_policy::SchemeSpec;

use super::row::{BesideRow, PairRow, PartRow, Pays};
use super::set::{PLAIN, Part, Parts};
use crate::mean::{geometric_mean, mean};
use crate::run::Run;

/// What a scheme took on each trace, in their order.
#[derive(Clone, Debug)]
struct Cost {
    scheme: String,
    /// The mean relaunch; `None` without relaunches.
    relaunch_ns: Vec<Option<f64>>,
    /// Codec and estimates.
    cpu_ns: Vec<Option<f64>>,
}

/// Gains of the same replays, made again, differ by this factor at most: codec and pool are measured.
const NOISE: f64 = 1.02;

/// A gain over the traces.
#[derive(Clone, Copy, Debug)]
struct Gain {
    ratio: Option<f64>,
    /// Traces on which it is above 1.
    traces: u64,
}

impl Gain {
    /// Of what it is on each trace.
    fn of(ratios: impl Iterator<Item = Option<f64>> + Clone) -> Self {
        let known = ratios.flatten().filter(|&ratio| ratio > 0.0);
        Self {
            ratio: geometric_mean(known.clone()),
            traces: known.filter(|&ratio| ratio > 1.0).count() as u64,
        }
    }

    /// Whether it is above 1 by more than noise.
    fn pays(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio > NOISE)
    }
}

/// A quotient on each trace; none by nothing.
fn by<'a>(
    these: &'a [Option<f64>],
    those: &'a [Option<f64>],
) -> impl Iterator<Item = Option<f64>> + Clone + 'a {
    let quotient = |(&this, &that): (&Option<f64>, &Option<f64>)| {
        let that = that.filter(|&that| that > 0.0)?;
        Some(this? / that)
    };
    these.iter().zip(those).map(quotient)
}

/// What each scheme took.
pub(super) struct Costs(Vec<Cost>);

impl Costs {
    /// Of runs that stand trace by trace, schemes in their order.
    pub(super) fn of(runs: &[Run], specs: &[SchemeSpec]) -> Self {
        let cost = |(at, spec): (usize, &SchemeSpec)| {
            let own = || runs.iter().skip(at).step_by(specs.len());
            let cpu_ns = |run: &Run| Some(run.result.totals.cpu.total_ns() as f64);
            Cost {
                scheme: spec.name.clone(),
                relaunch_ns: own().map(relaunch_ns).collect(),
                cpu_ns: own().map(cpu_ns).collect(),
            }
        };
        Self(specs.iter().enumerate().map(cost).collect())
    }

    fn named(&self, name: &str) -> &Cost {
        let found = self.0.iter().find(|cost| cost.scheme == name);
        found.expect("every set and scheme was replayed")
    }

    fn of_set(&self, set: Parts) -> &Cost {
        self.named(&set.scheme_name())
    }

    /// What the parts of `with` gain by those of `without`.
    fn gain(&self, without: Parts, with: Parts) -> Gain {
        let [without, with] = [without, with].map(|set| &self.of_set(set).relaunch_ns[..]);
        Gain::of(by(without, with))
    }

    /// The row of some parts; `name` where it is not the names of these.
    pub(super) fn part_row(&self, set: Parts, name: Option<&str>) -> PartRow {
        let in_all = self.gain(set.others(), Parts::ALL);
        let alone = self.gain(Parts::NONE, set);
        let cpu = by(
            &self.of_set(Parts::ALL).cpu_ns,
            &self.of_set(set.others()).cpu_ns,
        );
        PartRow {
            part: name.map_or_else(|| set.names(), str::to_owned),
            paper: set.papers(),
            gain_in_all: in_all.ratio,
            gained_traces_in_all: in_all.traces,
            gain_alone: alone.ratio,
            gained_traces_alone: alone.traces,
            gain_interaction: in_all.ratio.zip(alone.ratio).map(|(all, own)| all / own),
            cpu_in_all: Gain::of(cpu).ratio,
            verdict: Pays::of(in_all.pays(), alone.pays()),
        }
    }

    /// The row of two parts.
    pub(super) fn pair_row(&self, pair: [Part; 2]) -> PairRow {
        let [first, second] = pair.map(|part| Parts::of(&[part]));
        let both = Parts::of(&pair);
        let ns = |set: Parts| &self.of_set(set).relaunch_ns[..];
        let first_gains = by(ns(Parts::NONE), ns(first));
        let first_gains_beside = by(ns(second), ns(both));
        let interaction = first_gains_beside.zip(first_gains);
        let interaction = Gain::of(interaction.map(|(beside, alone)| Some(beside? / alone?)));
        PairRow {
            first: first.names(),
            second: second.names(),
            gain_first: self.gain(Parts::NONE, first).ratio,
            gain_second: self.gain(Parts::NONE, second).ratio,
            gain_both: self.gain(Parts::NONE, both).ratio,
            gain_interaction: interaction.ratio,
            gained_traces: interaction.traces,
        }
    }

    /// The row of a scheme.
    pub(super) fn beside_row(&self, name: &str, runs: &[Run]) -> BesideRow {
        let (own, plain) = (self.named(name), self.named(PLAIN));
        let gain = Gain::of(by(&plain.relaunch_ns, &own.relaunch_ns));
        let runs = || runs.iter().filter(|run| run.result.scheme == name);
        let sum = |count: fn(&Run) -> u64| runs().map(count).sum();
        BesideRow {
            scheme: name.to_owned(),
            relaunch_ns: mean(own.relaunch_ns.iter().copied().flatten()),
            gain: gain.ratio,
            gained_traces: gain.traces,
            cpu_vs_base: Gain::of(by(&own.cpu_ns, &plain.cpu_ns)).ratio,
            backing_faults: sum(|run| run.result.counters.backing_faults),
            not_admitted: sum(|run| run.result.counters.not_admitted),
            written_back_chunks: sum(|run| run.result.counters.written_back_chunks),
            evicted_files: sum(|run| run.result.counters.evicted_files),
            buffer_hits: sum(|run| run.result.counters.buffer_hits),
            prepaged_used: sum(|run| run.result.counters.prepaged_used),
            flash_written_bytes: sum(|run| run.result.totals.flash_written_bytes),
            kills: sum(|run| run.result.totals.kills),
        }
    }
}

/// The mean relaunch of a replay, cold starts after a kill included.
fn relaunch_ns(run: &Run) -> Option<f64> {
    let relaunches = run.result.relaunches();
    mean(relaunches.map(|relaunch| relaunch.latency.total_ns() as f64))
}
