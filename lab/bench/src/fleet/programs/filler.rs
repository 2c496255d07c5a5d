//! Records with data as compressible as applications' own.

use std::sync::atomic::Ordering;

use warmswap_heap::{AllocError, Mutator, Record, Ref};

use super::common::Checksum;

/// References of an object.
pub const REFERENCES: usize = 8;
/// Header, and the word with the object's shape.
pub const HEADER_BYTES: usize = 16;

/// Allocates an object. Its data follows from its number.
pub fn alloc(
    mutator: &Mutator,
    number: u32,
    data_bytes: usize,
) -> Result<Ref<'_, Record>, AllocError> {
    let object = mutator.alloc_record(REFERENCES, data_bytes)?;
    fill(mutator, object, number);
    Ok(object)
}

/// Fills an object's data as data of applications is: fields of repeating kinds, a few of them random. LZ4
/// makes pages of it 2.5 to 3 times smaller.
pub fn fill(mutator: &Mutator, object: Ref<'_, Record>, number: u32) {
    let mut state = number.wrapping_mul(0x9e37_79b9) | 1;
    for (i, word) in object.data(mutator).iter().enumerate() {
        // Xorshift.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let value = match i % 16 {
            0 if i == 0 => number,
            // A count, a flag, an enumeration.
            0 => state & 7,
            // A pointer: it shares its high half with its neighbours.
            2 => 0x7f3a_0000 | state & 0xfff8,
            3 => 0x0000_7ffe,
            // A hash or time.
            4 => state,
            5 => 1,
            6 => 0x0041_0043,
            9 => state & 0xff,
            10 => 0x0000_7ffe,
            _ => 0,
        };
        word.store(value, Ordering::Relaxed);
    }
}

/// Reads an object.
pub fn read(mutator: &Mutator, object: Ref<'_, Record>, sum: &mut Checksum) {
    for word in object.data(mutator) {
        sum.add(word.load(Ordering::Relaxed).into());
    }
}

/// Lets an object refer to what another one refers to.
pub fn copy_references(mutator: &Mutator, from: Ref<'_, Record>, to: Ref<'_, Record>) {
    for i in 0..REFERENCES {
        to.set(mutator, i, from.get(mutator, i));
    }
}

#[cfg(test)]
mod tests {
    use warmswap_codec::{Codec, Scratch};
    use warmswap_heap::{Heap, HeapConfig, KernelMemory};
    use warmswap_page::PAGE_BYTES;

    use super::*;

    #[test]
    fn pages_of_objects_compress_as_usual() {
        let config = HeapConfig::new(4 << 20);
        let memory = KernelMemory::new(config.address_bytes()).expect("memory");
        let heap = Heap::new(memory, config).expect("a heap");
        let mutator = heap.mutator().expect("a mutator");
        for object_bytes in [512, 2048] {
            let data_bytes = object_bytes - HEADER_BYTES - 4 * REFERENCES;
            let mut bytes = Vec::new();
            for number in 1..1000u32 {
                // The header and references: these are to objects allocated at about the same time.
                bytes.extend([7, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0xd0, 1, 0, 0]);
                bytes.extend((1..=8).flat_map(|i| (number * 64 + i).to_le_bytes()));
                let object = alloc(&mutator, number, data_bytes).expect("room");
                let data = object.data(&mutator).iter();
                bytes.extend(data.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()));
            }
            let mut scratch = Scratch::new();
            let mut into = vec![0; Codec::Lz4.bound_bytes(PAGE_BYTES)];
            let (pages, _) = bytes.as_chunks::<PAGE_BYTES>();
            let sizes = pages.iter().map(|page| {
                let size = scratch.compress(Codec::Lz4, page, &mut into);
                size.expect("room for the result")
            });
            let ratio = (pages.len() * PAGE_BYTES) as f64 / sizes.sum::<usize>() as f64;
            assert!((2.4..3.2).contains(&ratio), "{object_bytes}: {ratio}");
        }
    }
}
