//! How large objects are in memory.
//!
//! A dump gives the bytes of fields with references of the size of an identifier. In memory, there are headers,
//! references may be compressed to 4 bytes, and objects are aligned. None of this is in the file, but the addresses are:
//! after a collection that compacts, each object ends where the next one begins. So the layout is the one under which
//! most objects do.

use crate::format::{FieldType, IdSize};

/// Objects begin at multiples of this, and so their sizes are multiples.
pub(crate) const ALIGNMENT: u64 = 8;

/// Sizes of headers and references in a virtual machine's heap, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What this layout is known as.
    pub name: &'static str,
    /// Header of an instance.
    pub instance_header: u64,
    /// Header of an array, with its length.
    pub array_header: u64,
    /// A reference.
    pub reference_bytes: u64,
}

impl Layout {
    const fn new(name: &'static str, headers: (u64, u64), reference_bytes: u64) -> Self {
        Self {
            name,
            instance_header: headers.0,
            array_header: headers.1,
            reference_bytes,
        }
    }

    /// The layouts that occur with identifiers of `id_size`, the most usual one first.
    pub const fn candidates(id_size: IdSize) -> &'static [Self] {
        const FOUR: &[Layout] = &[
            // Android's class Object has its header as fields, which a dump lists.
            Layout::new("Android", (0, 12), 4),
            Layout::new("HotSpot, 32 bits", (8, 12), 4),
        ];
        const EIGHT: &[Layout] = &[
            Layout::new("HotSpot, compressed references", (12, 16), 4),
            Layout::new("HotSpot, compact headers", (8, 12), 4),
            Layout::new("HotSpot, compressed class pointers", (12, 16), 8),
            Layout::new("HotSpot, compact headers, full references", (8, 12), 8),
            Layout::new("HotSpot, full references", (16, 24), 8),
            Layout::new("HotSpot, full references, packed arrays", (16, 20), 8),
        ];
        match id_size {
            IdSize::Four => FOUR,
            IdSize::Eight => EIGHT,
        }
    }

    /// Bytes of an instance with so many references and bytes of other fields. Fields are assumed to be packed without
    /// holes, as HotSpot does since version 15.
    pub fn instance_bytes(&self, references: u64, primitive_bytes: u64) -> u64 {
        let bytes = self.instance_header + references * self.reference_bytes + primitive_bytes;
        // Not even the smallest object is smaller than two words of 4 bytes.
        bytes.max(8).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of an array.
    pub fn array_bytes(&self, element: FieldType, length: u32) -> u64 {
        let element_bytes = element.bytes(self.reference_bytes);
        let elements_at = self.array_header.next_multiple_of(element_bytes);
        (elements_at + element_bytes * u64::from(length)).next_multiple_of(ALIGNMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_known_objects() {
        let [compressed, compact, .., full, _] = Layout::candidates(IdSize::Eight) else {
            panic!("layouts are missing");
        };
        // java.lang.Object; java.lang.Integer; java.util.HashMap$Node (int and three references).
        assert_eq!(compressed.instance_bytes(0, 0), 16);
        assert_eq!(compressed.instance_bytes(0, 4), 16);
        assert_eq!(compressed.instance_bytes(3, 4), 32);
        assert_eq!(compact.instance_bytes(3, 4), 24);
        assert_eq!(full.instance_bytes(3, 4), 48);
        assert_eq!(compressed.array_bytes(FieldType::Byte, 5), 24);
        assert_eq!(compressed.array_bytes(FieldType::Object, 16), 80);
        assert_eq!(full.array_bytes(FieldType::Object, 16), 152);
        // Elements of 8 bytes are aligned behind a header of 12.
        assert_eq!(compact.array_bytes(FieldType::Long, 1), 24);
    }
}
