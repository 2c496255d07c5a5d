//! What a page earns by coming back soon after it left.
//!
//! Where touches of resident pages are not seen, as in an arena, a clock knows no reference bits: pages leave in
//! the order in which they came, those that are used all the time as well as others. What is seen is how soon a
//! page is missed. One that comes back before as many others left as there is room for (its refault distance, as
//! the kernel's working-set detection calls it) was worth more than some that stayed, and stays longer the next
//! time: 1, 3, 7, then 15 rounds of the clock, by a level more for each time that its distance fits into the room in
//! powers of two. One that comes back late stays shorter again.

use crate::page::Page;

/// Highest number of times in a row that a page came back soon which counts.
const HIGHEST_LEVEL: u32 = 4;
/// Late is after so many times as many departures as there are resident pages; what comes back later still has
/// nothing left of what it earned.
const LATE: u32 = 4;

/// Rounds for which a page stays, in five bits: `2^level + rounds left`, where a level is worth `2^level - 1` rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay(u8);

impl Stay {
    /// Bits of [`Stay::bits`].
    pub const BITS: u32 = HIGHEST_LEVEL + 1;

    /// All the rounds of a level.
    fn of_level(level: u32) -> Self {
        Self(((1_u32 << (level + 1)) - 1) as u8)
    }

    /// What [`Self::bits`] gave; 0 is a page that has earned nothing.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits.max(1))
    }

    /// A number of five bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    fn level(self) -> u32 {
        u32::from(self.0).ilog2()
    }

    /// One round less. `None` when there is none left.
    pub fn spend(self) -> Option<Self> {
        (!self.0.is_power_of_two()).then_some(Self(self.0 - 1))
    }

    /// As a page that was missed twice: enough to be missed again before it leaves.
    pub fn fair() -> Self {
        Self::of_level(2)
    }

    /// After it came back at this distance, with room for so many pages.
    fn after(self, distance: u32, resident: u32) -> Self {
        let level = self.level();
        Self::of_level(match resident / distance.max(1) {
            0 if distance < resident.saturating_mul(LATE) => level.saturating_sub(1),
            0 => 0,
            times => (level + 1 + times.ilog2()).min(HIGHEST_LEVEL),
        })
    }

    /// Whether it stays so long that it is not worth while to be prepared for its leaving.
    pub fn is_long(self) -> bool {
        self.level() >= 2
    }
}

/// Counts departures, so that the distance of a refault is known. Every call is constant time.
#[derive(Debug, Default)]
pub struct Departures {
    count: u32,
}

impl Departures {
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

    #[test]
    fn each_level_doubles_the_rounds_and_one_more() {
        let mut stay = Stay::from_bits(0);
        let mut rounds = Vec::new();
        for _ in 0..6 {
            stay = stay.after(9, 10);
            assert!(stay.bits() < 1 << Stay::BITS);
            assert_eq!(Stay::from_bits(stay.bits()), stay);
            let mut left = 0;
            while let Some(less) = stay.spend() {
                (stay, left) = (less, left + 1);
            }
            rounds.push(left);
        }
        assert_eq!(rounds, [1, 3, 7, 15, 15, 15]);
    }

    #[test]
    fn what_comes_back_late_stays_shorter() {
        let high = Stay::of_level(4);
        assert_eq!(high.after(11, 10), Stay::of_level(3));
        assert_eq!(high.after(39, 10), Stay::of_level(3));
        let nothing = Stay::from_bits(0);
        let levels = [10, 6, 5, 3, 2, 1, 0].map(|distance| nothing.after(distance, 10).level());
        assert_eq!(levels, [1, 1, 2, 2, 3, 4, 4]);
        assert_eq!(high.after(40, 10), nothing);
        assert_eq!(nothing.after(11, 10), nothing);
    }
}
