//! What is read in bulk at a switch: by what is free, and by what a fault costs beside a bulk read.

use super::State;

/// Where memory is short, a bulk read has to be so many times cheaper than faults: it takes memory from other programs.
pub const LEAST_GAIN: u64 = 4;

/// What reading a page from a swap area takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// By a fault of the program, in nanoseconds.
    pub fault_ns: u64,
    /// As one of many, in nanoseconds.
    pub bulk_ns: u64,
}

impl Cost {
    /// Of compressed memory, before it was measured.
    pub const MEMORY: Self = Self {
        fault_ns: 5_000,
        bulk_ns: 4_000,
    };
    /// Of a disk, before it was measured.
    pub const DISK: Self = Self {
        fault_ns: 150_000,
        bulk_ns: 15_000,
    };

    /// The same with one more measurement, which counts for an eighth.
    #[must_use]
    pub fn with(self, measured: Self) -> Self {
        let mean = |old: u64, new: u64| (old * 7 + new) / 8;
        Self {
            fault_ns: mean(self.fault_ns, measured.fault_ns),
            bulk_ns: mean(self.bulk_ns, measured.bulk_ns),
        }
    }
}

/// What is read at a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// Nothing: the program's faults are about as cheap.
    Nothing,
    /// Pages that launches touched, so many bytes at most.
    Footprint(u64),
    /// All that is away and not cold.
    All,
}

/// Decides that for a program of which `away_bytes` are away, where `room_bytes` are free beyond the reserve and `free_bytes`
/// beyond the kernel's watermarks. `disk`: what pages of a disk cost; none where swap is compressed memory alone.
#[must_use]
pub fn fetch(
    state: State,
    room_bytes: u64,
    free_bytes: u64,
    away_bytes: u64,
    disk: Option<Cost>,
) -> Fetch {
    if state != State::Short && away_bytes <= room_bytes {
        return Fetch::All;
    }
    let is_worth = |cost: Cost| cost.fault_ns >= cost.bulk_ns.saturating_mul(LEAST_GAIN);
    match free_bytes > 0 && disk.is_some_and(is_worth) {
        true => Fetch::Footprint(free_bytes),
        false => Fetch::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comes_where_memory_is_free_whatever_the_device() {
        for disk in [None, Some(Cost::DISK)] {
            assert_eq!(fetch(State::Rest, 100, 200, 100, disk), Fetch::All);
            assert_eq!(fetch(State::Calm, 100, 200, 0, disk), Fetch::All);
        }
    }

    #[test]
    fn where_memory_is_short_only_the_footprint_comes_and_only_from_a_disk() {
        let disk = Some(Cost::DISK);
        let short = |free, disk| fetch(State::Short, 1000, free, 100, disk);
        assert_eq!(short(40, disk), Fetch::Footprint(40));
        assert_eq!(short(0, disk), Fetch::Nothing);
        assert_eq!(short(40, None), Fetch::Nothing);
        assert_eq!(
            fetch(State::Rest, 99, 150, 100, disk),
            Fetch::Footprint(150)
        );
        let slow_in_bulk = Cost {
            bulk_ns: 40_000,
            ..Cost::DISK
        };
        assert_eq!(short(40, Some(slow_in_bulk)), Fetch::Nothing);
    }

    #[test]
    fn a_measurement_counts_for_an_eighth() {
        let measured = Cost {
            fault_ns: 80_000,
            bulk_ns: 0,
        };
        let cost = Cost {
            fault_ns: 0,
            bulk_ns: 8_000,
        };
        let expected = Cost {
            fault_ns: 10_000,
            bulk_ns: 7_000,
        };
        assert_eq!(cost.with(measured), expected);
    }
}
