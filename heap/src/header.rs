//! The word before every object: what it is, or where it went.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | 1: the object was copied, and bits 32 to 63 are the address of the copy |
//! | 1 to 15 | number of its type ([`crate::types`]) |
//! | 16 to 19 | age: how often it was copied, at most 15 |
//! | 32 to 63 | length: elements of an array of references, bytes of a byte array or filler |

use crate::layout::Addr;

const FORWARDED: u64 = 1;
const TYPE_SHIFT: u32 = 1;
const TYPE_MASK: u64 = 0x7fff;
const AGE_SHIFT: u32 = 16;
const LENGTH_SHIFT: u32 = 32;

/// The highest age; older objects have it, too.
pub const MOST_AGE: usize = 15;

/// Types that a header can name.
pub const MAX_TYPES: usize = TYPE_MASK as usize + 1;

/// A header's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(pub u64);

impl Header {
    /// An object of a type with a length (0 for types of fixed size).
    pub fn object(type_index: u16, length: u32) -> Self {
        debug_assert!(u64::from(type_index) <= TYPE_MASK);
        Self(u64::from(type_index) << TYPE_SHIFT | u64::from(length) << LENGTH_SHIFT)
    }

    /// An object that was copied to an address.
    pub fn forwarded(to: Addr) -> Self {
        Self(FORWARDED | u64::from(to.granule()) << LENGTH_SHIFT)
    }

    /// Where the object went, if it was copied.
    pub fn forwarding(self) -> Option<Addr> {
        if self.0 & FORWARDED == 0 {
            return None;
        }
        Addr::new((self.0 >> LENGTH_SHIFT) as u32)
    }

    /// The number of its type.
    pub fn type_index(self) -> u16 {
        (self.0 >> TYPE_SHIFT & TYPE_MASK) as u16
    }

    /// How often the object was copied, at most [`MOST_AGE`].
    pub fn age(self) -> usize {
        (self.0 >> AGE_SHIFT) as usize & MOST_AGE
    }

    /// The header of a copy.
    pub fn copied(self) -> Self {
        if self.age() == MOST_AGE {
            return self;
        }
        Self(self.0 + (1 << AGE_SHIFT))
    }

    /// Its length.
    pub fn length(self) -> u32 {
        (self.0 >> LENGTH_SHIFT) as u32
    }
}
