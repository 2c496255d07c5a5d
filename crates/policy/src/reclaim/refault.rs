//! What a page earns by coming back soon after it left.
//!
//! Where touches of resident pages are not seen, as in an arena, a clock knows no reference bits: pages leave in
//! the order in which they came, those that are used all the time as well as others. What is seen is how soon a
//! page is missed. One that comes back before as many others left as there is room for (its refault distance, as
//! the kernel's working-set detection calls it) was worth more than some that stayed, and stays longer the next
//! time: 1, 3, 7, then 14, up to 112 rounds of the clock, by a level more for each time that its distance fits into
//! the room in powers of two. One that comes back late stays shorter again.
//!
//! The rounds are many because a page that stays is not measured: among pages of which each is used more often than
//! the next, 16 rounds at most cost a tenth more faults than 128, and more than 128 gain nothing.

use crate::page::Page;

/// Highest number of times in a row that a page came back soon which counts.
const HIGHEST_LEVEL: u32 = 7;
/// Late is after so many times as many departures as there are resident pages; what comes back later still has
/// nothing left of what it earned.
const LATE: u32 = 4;
/// Bits of the steps that a page has left.
const STEP_BITS: u32 = 3;
const MOST_STEPS: u32 = (1 << STEP_BITS) - 1;

/// For how long a page stays, in six bits: its level, and the steps that are left of it. Level `n` is worth `2^n - 1`
/// rounds of the clock; from level 4 on these are 7 steps that take `2^(n - 3)` rounds each, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    level: u8,
    steps: u8,
}

impl Stay {
    /// Bits of [`Stay::bits`].
    pub const BITS: u32 = STEP_BITS + (HIGHEST_LEVEL + 1).ilog2();

    /// All the rounds of a level.
    fn of_level(level: u32) -> Self {
        Self {
            level: level as u8,
            steps: MOST_STEPS.min((1 << level) - 1) as u8,
        }
    }

    /// What [`Self::bits`] gave; 0 is a page that has earned nothing.
    pub fn from_bits(bits: u8) -> Self {
        Self {
            level: bits >> STEP_BITS,
            steps: bits & MOST_STEPS as u8,
        }
    }

    /// A number of six bits.
    pub fn bits(self) -> u8 {
        self.level << STEP_BITS | self.steps
    }

    /// One round less; `draw` decides whether that is a step. `None` when there is none left.
    pub fn spend(self, draw: u32) -> Option<Self> {
        let rounds_of_a_step = 1 << u32::from(self.level).saturating_sub(STEP_BITS);
        let is_step = draw.is_multiple_of(rounds_of_a_step);
        (self.steps > 0).then(|| Self {
            steps: self.steps - u8::from(is_step),
            ..self
        })
    }

    /// As a page that was missed twice: enough to be missed again before it leaves.
    pub fn fair() -> Self {
        Self::of_level(2)
    }

    /// After it came back at this distance, with room for so many pages.
    fn after(self, distance: u32, resident: u32) -> Self {
        let level = u32::from(self.level);
        Self::of_level(match resident / distance.max(1) {
            0 if distance < resident.saturating_mul(LATE) => level.saturating_sub(1),
            0 => 0,
            times => (level + 1 + times.ilog2()).min(HIGHEST_LEVEL),
        })
    }

    /// Whether it stays so long that it is not worth while to be prepared for its leaving.
    pub fn is_long(self) -> bool {
        self.level >= 2
    }
}

/// Counts departures, so that the distance of a refault is known, and draws. Every call is constant time.
#[derive(Debug, Default)]
pub struct Departures {
    count: u32,
    draws: u32,
}

impl Departures {
    /// A number for [`Stay::spend`], spread evenly; the same ones in every run.
    pub fn draw(&mut self) -> u32 {
        self.draws = self.draws.wrapping_add(0x9E37_79B9);
        (self.draws ^ self.draws >> 15).wrapping_mul(0x85EB_CA6B) >> 16
    }

    /// The page, which is on no list any more, leaves.
    pub fn note(&mut self, page: &mut Page) {
        self.count = self.count.wrapping_add(1);
        page.set_note(self.count);
    }

    /// What the page, which left with `stay` and is on no list yet, has now that it was missed. `resident` pages are
    /// in frames.
    pub fn earned(&self, page: &Page, stay: Stay, resident: usize) -> Stay {
        let distance = self.count.wrapping_sub(page.note());
        stay.after(distance, u32::try_from(resident).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how many rounds a page stays.
    fn rounds(mut stay: Stay, departures: &mut Departures) -> u32 {
        let mut rounds = 0;
        while let Some(less) = stay.spend(departures.draw()) {
            assert_eq!(Stay::from_bits(less.bits()), less);
            (stay, rounds) = (less, rounds + 1);
        }
        rounds
    }

    #[test]
    fn each_level_doubles_the_rounds() {
        let mut departures = Departures::default();
        let mut stay = Stay::from_bits(0);
        let mut mean = Vec::new();
        for _ in 0..9 {
            stay = stay.after(9, 10);
            assert!(u32::from(stay.bits()) < 1 << Stay::BITS);
            let all = (0..1000).map(|_| rounds(stay, &mut departures));
            mean.push(f64::from(all.sum::<u32>()) / 1000.0);
        }
        for (at, wanted) in [1.0, 3.0, 7.0, 14.0, 28.0, 56.0, 112.0, 112.0, 112.0]
            .into_iter()
            .enumerate()
        {
            // Of 7 draws each in a thousand turns.
            let is_near = (mean[at] - wanted).abs() < wanted / 20.0;
            assert!(
                if at < 3 { mean[at] == wanted } else { is_near },
                "{mean:?}"
            );
        }
    }

    #[test]
    fn what_comes_back_late_stays_shorter() {
        let high = Stay::of_level(4);
        assert_eq!(high.after(11, 10), Stay::of_level(3));
        assert_eq!(high.after(39, 10), Stay::of_level(3));
        let nothing = Stay::from_bits(0);
        let levels = [10, 6, 5, 3, 2, 1, 0].map(|distance| nothing.after(distance, 10).level);
        assert_eq!(levels, [1, 1, 2, 2, 3, 4, 4]);
        assert_eq!(high.after(40, 10), nothing);
        assert_eq!(nothing.after(11, 10), nothing);
    }
}
