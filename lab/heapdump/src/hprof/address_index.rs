//! Finds the object at an address.

/// Buckets of equal width over sorted addresses, about one for each, with a binary search inside. Where addresses lie
/// close together, as they do in a heap, a look-up costs two cache misses; at worst it is a binary search over all.
#[derive(Debug)]
pub(crate) struct AddressIndex<'a> {
    addresses: &'a [u64],
    shift: u32,
    /// The number of the first address of each bucket, and the number of all at the end.
    starts: Vec<u32>,
}

impl<'a> AddressIndex<'a> {
    /// `addresses` is sorted, without duplicates, of at most `u32::MAX` elements.
    pub fn new(addresses: &'a [u64]) -> Self {
        let first = addresses.first().copied().unwrap_or_default();
        let span = addresses.last().copied().unwrap_or_default() - first;
        let mut shift = 0;
        while (span >> shift) > addresses.len() as u64 {
            shift += 1;
        }
        let buckets = (span >> shift) + 1;
        let mut starts = Vec::with_capacity(buckets as usize + 1);
        let mut number = 0;
        for bucket in 0..buckets {
            while addresses
                .get(number)
                .is_some_and(|address| (address - first) >> shift < bucket)
            {
                number += 1;
            }
            starts.push(number as u32);
        }
        starts.push(addresses.len() as u32);
        Self {
            addresses,
            shift,
            starts,
        }
    }

    /// The number of `address` among the sorted ones.
    pub fn find(&self, address: u64) -> Option<u32> {
        let distance = address.checked_sub(*self.addresses.first()?)?;
        let bucket = usize::try_from(distance >> self.shift).ok()?;
        let start = *self.starts.get(bucket)?;
        let end = *self.starts.get(bucket + 1)?;
        let found = self.addresses[start as usize..end as usize].binary_search(&address);
        found.ok().map(|place| start + place as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_is_there_and_nothing_else(
            set in prop::collection::btree_set(
                prop_oneof![0..64u64, 0x7000_0000..0x7000_1000u64, any::<u64>()], 0..200),
            others in prop::collection::vec(prop_oneof![0..64u64, any::<u64>()], 50),
        ) {
            let addresses: Vec<u64> = set.iter().copied().collect();
            let index = AddressIndex::new(&addresses);
            for (number, address) in addresses.iter().enumerate() {
                prop_assert_eq!(index.find(*address), Some(number as u32));
            }
            for other in others {
                prop_assert_eq!(index.find(other).is_some(), set.contains(&other));
            }
        }
    }
}
