//! Sizes of objects, in few bytes each.

use rustc_hash::FxHashMap;

/// Sizes in the order of the objects. Those that fit into 32 bits, counted in units, take 4 bytes.
#[derive(Debug)]
pub(crate) struct Sizes {
    unit_bytes: u64,
    units: Vec<u32>,
    /// Bytes of the objects that do not fit, by number.
    large: FxHashMap<usize, u64>,
}

/// Stands for a size that does not fit.
const LARGE: u32 = u32::MAX;

impl Default for Sizes {
    fn default() -> Self {
        Self::in_units_of(1)
    }
}

impl Sizes {
    /// Sizes that are multiples of `unit_bytes`.
    pub fn in_units_of(unit_bytes: u64) -> Self {
        Self {
            unit_bytes,
            units: Vec::new(),
            large: FxHashMap::default(),
        }
    }

    /// Adds the size of the next object.
    pub fn push(&mut self, bytes: u64) {
        let units = u32::try_from(bytes / self.unit_bytes).unwrap_or(LARGE);
        if units == LARGE {
            self.large.insert(self.units.len(), bytes);
        }
        self.units.push(units);
    }

    /// Bytes of an object.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn bytes(&self, object: usize) -> u64 {
        match self.units[object] {
            LARGE => self.large.get(&object).copied().unwrap_or_default(),
            units => u64::from(units) * self.unit_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_any_width_are_what_was_pushed() {
        let limit = u64::from(u32::MAX);
        for unit_bytes in [1, 8] {
            let mut sizes = Sizes::in_units_of(unit_bytes);
            let pushed = [0, 1, limit - 1, limit, limit + 1, 1 << 40].map(|n| n * unit_bytes);
            pushed.iter().for_each(|bytes| sizes.push(*bytes));
            let read = [0, 1, 2, 3, 4, 5].map(|object| sizes.bytes(object));
            assert_eq!(read, pushed);
        }
    }
}
