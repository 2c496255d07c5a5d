//! The 64-bit entry of a handle: what it holds, and where.
//!
//! | kind | bits 2..7 | bits 7..64 |
//! |---|---|---|
//! | 0 free | next free handle (bits 2..34) | – |
//! | 1 object | pages - 1 | length (18), slot (6), span (27) |
//! | 2 filled | pages - 1 | the word, sign-extended from 57 bits |
//! | 3 filled, any word | pages - 1 | as object; its 8 bytes are the word |

/// Bits of a length: objects are shorter than 2 to this.
pub(crate) const LENGTH_BITS: u32 = 18;
/// Bits of a slot number in a span.
pub(crate) const SLOT_BITS: u32 = 6;
/// Bits of a span number in a class.
pub(crate) const SPAN_BITS: u32 = 27;
/// Bits of the number of pages (1 to 32, minus 1).
pub(crate) const PAGES_BITS: u32 = 5;

const KIND_BITS: u32 = 2;
const PAYLOAD_SHIFT: u32 = KIND_BITS + PAGES_BITS;
const SLOT_SHIFT: u32 = PAYLOAD_SHIFT + LENGTH_BITS;
const SPAN_SHIFT: u32 = SLOT_SHIFT + SLOT_BITS;
const _: () = assert!(SPAN_SHIFT + SPAN_BITS <= u64::BITS);

/// Where an object lies in the class that its length gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) span: u32,
    pub(crate) slot: u32,
}

/// An object in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) pages: u32,
    /// Bytes that the caller stored.
    pub(crate) length: u32,
    pub(crate) location: Location,
    /// Whether the bytes are a word that fills the pages.
    pub(crate) is_word: bool,
}

/// A decoded entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Not in use; the next free handle's number, or 0.
    Free { next: u32 },
    /// Pages filled with one word that the entry itself holds.
    Filled { pages: u32, word: u64 },
    /// Bytes in a slot.
    Placed(Placed),
}

const fn field(raw: u64, shift: u32, bits: u32) -> u32 {
    (raw >> shift) as u32 & ((1 << bits) - 1)
}

impl Entry {
    /// Whether an entry can hold `word` itself.
    pub(crate) const fn holds_word(word: u64) -> bool {
        let shifted = (word << PAYLOAD_SHIFT) as i64;
        (shifted >> PAYLOAD_SHIFT) as u64 == word
    }

    pub(crate) const fn pack(self) -> u64 {
        match self {
            Entry::Free { next } => (next as u64) << KIND_BITS,
            Entry::Filled { pages, word } => {
                2 | ((pages - 1) as u64) << KIND_BITS | word << PAYLOAD_SHIFT
            }
            Entry::Placed(placed) => {
                let kind = if placed.is_word { 3 } else { 1 };
                kind | ((placed.pages - 1) as u64) << KIND_BITS
                    | (placed.length as u64) << PAYLOAD_SHIFT
                    | (placed.location.slot as u64) << SLOT_SHIFT
                    | (placed.location.span as u64) << SPAN_SHIFT
            }
        }
    }

    pub(crate) const fn unpack(raw: u64) -> Entry {
        let pages = field(raw, KIND_BITS, PAGES_BITS) + 1;
        let kind = raw & 3;
        if kind == 0 {
            return Entry::Free {
                next: (raw >> KIND_BITS) as u32,
            };
        }
        if kind == 2 {
            return Entry::Filled {
                pages,
                word: (raw as i64 >> PAYLOAD_SHIFT) as u64,
            };
        }
        Entry::Placed(Placed {
            pages,
            length: field(raw, PAYLOAD_SHIFT, LENGTH_BITS),
            location: Location {
                span: field(raw, SPAN_SHIFT, SPAN_BITS),
                slot: field(raw, SLOT_SHIFT, SLOT_BITS),
            },
            is_word: kind == 3,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn objects_survive_packing(
            pages in 1..=32_u32,
            length in 0..1_u32 << LENGTH_BITS,
            slot in 0..1_u32 << SLOT_BITS,
            span in 0..1_u32 << SPAN_BITS,
            is_word: bool,
        ) {
            let location = Location { span, slot };
            let entry = Entry::Placed(Placed { pages, length, location, is_word });
            prop_assert_eq!(Entry::unpack(entry.pack()), entry);
        }

        #[test]
        fn words_survive_packing_when_they_fit(pages in 1..=32_u32, word: u64, shift in 0..64_u32) {
            for word in [word, word >> shift, (word as i64 >> shift) as u64] {
                let entry = Entry::Filled { pages, word };
                prop_assert_eq!(Entry::unpack(entry.pack()) == entry, Entry::holds_word(word));
            }
        }

        #[test]
        fn free_entries_survive_packing(next: u32) {
            prop_assert_eq!(Entry::unpack(Entry::Free { next }.pack()), Entry::Free { next });
        }
    }
}
