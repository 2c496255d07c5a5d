//! Whether two sets of samples differ by more than noise.
//!
//! Samples are latencies and other positive values that differ by factors, in *strata*: those of one application are
//! compared with those of the same application only, and every application weighs the same. What is estimated is the
//! ratio of geometric means. Two methods that assume no distribution:
//!
//! - **bootstrap**: each side of each stratum is drawn anew from itself, with replacement; the middle 95 % of the
//!   ratios are the interval;
//! - **permutation test**: within each stratum, labels are dealt out anew at random; the chance is the share of deals
//!   that differ at least as much as what was measured, itself included (so that it is never 0).
//!
//! Both draw from a generator with a fixed seed: the same samples give the same answer.

use serde::{Deserialize, Serialize};
use warmswap_page::quantile::Sorted;

/// Times that samples are drawn anew. The chance is known to 1 in 2,000, the interval to a few per cent of its width.
pub const DRAWS: u32 = 2_000;

/// A difference that chance alone makes less often than this is called more than noise.
pub const NOISE: f64 = 0.05;

/// Fewer samples than this on a side of a stratum say nothing about noise.
pub const LEAST_SAMPLES: usize = 3;

const SEED: u64 = 0x005e_ed0f_a11d_ea15;

/// Samples of one application, before and after, or here and there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stratum {
    /// What is compared with.
    pub before: Vec<f64>,
    /// What is compared.
    pub after: Vec<f64>,
}

/// Why a stratum says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {
    /// A side has fewer than [`LEAST_SAMPLES`].
    TooFew,
    /// A sample is 0, of which no ratio can be had.
    NoTime,
}

impl Stratum {
    /// Why it says nothing; `None` when it counts.
    #[must_use]
    pub fn silent(&self) -> Option<Silent> {
        let sides = [&self.before, &self.after];
        let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
        if sides.iter().any(|side| side.len() < LEAST_SAMPLES) {
            Some(Silent::TooFew)
        } else if !sides.into_iter().flatten().all(is_positive) {
            Some(Silent::NoTime)
        } else {
            None
        }
    }
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Geometric mean of `after` by the one of `before`: the mean over the strata.
    pub ratio: f64,
    /// 2.5 % of the bootstrap's ratios are below this.
    pub low: f64,
    /// 2.5 % of them are above this.
    pub high: f64,
    /// How often chance alone differs as much, from 0 to 1.
    pub chance: f64,
    /// Strata that had enough samples.
    pub strata: usize,
    /// Samples in them, both sides together.
    pub samples: usize,
}

impl Change {
    /// Whether chance alone seldom makes such a difference.
    #[must_use]
    pub fn is_more_than_noise(&self) -> bool {
        self.chance < NOISE
    }
}

/// Logarithms of one stratum, `before` first.
struct Logs {
    values: Vec<f64>,
    before: usize,
}

impl Logs {
    /// `None` when it says nothing.
    fn of(stratum: &Stratum) -> Option<Self> {
        if stratum.silent().is_some() {
            return None;
        }
        let sides = [&stratum.before, &stratum.after];
        Some(Self {
            values: sides.into_iter().flatten().map(|v| v.ln()).collect(),
            before: stratum.before.len(),
        })
    }

    fn difference(values: &[f64], before: usize) -> f64 {
        let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
        let (before, after) = values.split_at(before);
        mean(after) - mean(before)
    }
}

/// Compares. `None` when no stratum has [`LEAST_SAMPLES`] positive samples on both sides. Costs [`DRAWS`] passes over
/// all samples, twice.
#[must_use]
pub fn change(strata: &[Stratum]) -> Option<Change> {
    let strata: Vec<Logs> = strata.iter().filter_map(Logs::of).collect();
    if strata.is_empty() {
        return None;
    }
    let mean = |difference: &mut dyn FnMut(&Logs) -> f64| {
        strata.iter().map(difference).sum::<f64>() / strata.len() as f64
    };
    let measured = mean(&mut |logs| Logs::difference(&logs.values, logs.before));
    let mut random = oorandom::Rand64::new(SEED.into());
    let mut drawn = Vec::new();
    let resampled = (0..DRAWS).map(|_| {
        mean(&mut |logs| {
            drawn.clear();
            for side in [&logs.values[..logs.before], &logs.values[logs.before..]] {
                let any = |_| side[random.rand_range(0..side.len() as u64) as usize];
                drawn.extend((0..side.len()).map(any));
            }
            Logs::difference(&drawn, logs.before)
        })
    });
    let resampled = Sorted::by(resampled.collect::<Vec<_>>(), f64::total_cmp);
    let mut extreme = 0;
    for _ in 0..DRAWS {
        let dealt = mean(&mut |logs| {
            drawn.clone_from(&logs.values);
            shuffle(&mut drawn, &mut random);
            Logs::difference(&drawn, logs.before)
        });
        // Rounding must not make a deal that is the measured one smaller than it.
        extreme += u32::from(dealt.abs() >= measured.abs() * (1.0 - 1e-12));
    }
    let at = |per_mille| resampled.per_mille(per_mille).unwrap_or(measured).exp();
    Some(Change {
        ratio: measured.exp(),
        low: at(25),
        high: at(975),
        chance: f64::from(extreme + 1) / f64::from(DRAWS + 1),
        strata: strata.len(),
        samples: strata.iter().map(|logs| logs.values.len()).sum(),
    })
}

fn shuffle(values: &mut [f64], random: &mut oorandom::Rand64) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.rand_range(0..last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around `centre` that differ by a few per cent, no two alike.
    fn around(centre: f64, count: usize, shift: u64) -> Vec<f64> {
        let mut random = oorandom::Rand64::new((7 + shift).into());
        (0..count)
            .map(|_| centre * (0.9 + 0.2 * random.rand_float()))
            .collect()
    }

    fn stratum(before: Vec<f64>, after: Vec<f64>) -> Stratum {
        Stratum { before, after }
    }

    #[test]
    fn half_is_found_whatever_the_applications_take() {
        let strata = [(1.0, 1), (1000.0, 3)].map(|(centre, shift)| {
            let after = around(centre / 2.0, 25, shift + 1);
            stratum(around(centre, 20, shift), after)
        });

        let change = change(&strata).unwrap();

        assert!((change.ratio - 0.5).abs() < 0.03, "{change:?}");
        assert!(
            change.low < change.ratio && change.ratio < change.high,
            "{change:?}"
        );
        assert!(0.45 < change.low && change.high < 0.55, "{change:?}");
        assert!(change.is_more_than_noise());
        assert_eq!((change.strata, change.samples), (2, 90));
    }

    #[test]
    fn alike_is_noise() {
        // Of 40 pairs that do not differ, about 2 seem to by chance.
        let noisy = (0..40)
            .filter(|n| {
                let strata = [stratum(around(5.0, 12, 2 * n), around(5.0, 12, 2 * n + 1))];
                change(&strata).unwrap().is_more_than_noise()
            })
            .count();
        assert!(noisy <= 6, "{noisy} of 40");
    }

    #[test]
    fn a_stratum_of_its_own_does_not_hide_in_another() {
        // Mixed up, 1 to 10 would bury a difference of a tenth.
        let strata = [1.0, 10.0, 100.0]
            .map(|centre| stratum(around(centre, 30, 3), around(centre * 1.1, 30, 4)));
        let change = change(&strata).unwrap();
        assert!(change.is_more_than_noise(), "{change:?}");
        assert!(change.low > 1.0);
    }

    #[test]
    fn three_a_side_cannot_prove_much() {
        // All three above all three: one of the 20 ways to deal, and its mirror image.
        let strata = [stratum(vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0])];
        let change = change(&strata).unwrap();
        assert!((0.07..0.13).contains(&change.chance), "{change:?}");
        assert!(!change.is_more_than_noise());
    }

    #[test]
    fn the_same_samples_give_the_same_answer_and_too_few_give_none() {
        let strata = [stratum(around(1.0, 9, 5), around(1.2, 9, 6))];
        assert_eq!(change(&strata), change(&strata));
        assert_eq!(change(&[]), None);
        assert_eq!(change(&[stratum(vec![1.0; 2], vec![1.0; 9])]), None);
        assert_eq!(change(&[stratum(vec![0.0; 9], vec![1.0; 9])]), None);
        let equal = change(&[stratum(vec![2.0; 5], vec![2.0; 5])]).unwrap();
        assert_eq!((equal.ratio, equal.chance), (1.0, 1.0));
    }
}
