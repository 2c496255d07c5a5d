//! How large objects are in memory.
//!
//! A dump gives the bytes of fields with references of the size of an identifier. In memory, there are headers,
//! references may be compressed to 4 bytes, and objects are aligned. None of this is in the file, but the addresses are:
//! after a collection that compacts, each object ends where the next one begins. So the layout is the one under which
//! most objects do.

use std::fmt;

use crate::hprof::format::{FieldType, IdSize};

/// Objects begin at multiples of this, or of a multiple of it.
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
    /// Objects begin at multiples of this, and so their sizes are multiples.
    pub alignment: u64,
}

impl Layout {
    /// The alignments that HotSpot can be told (`ObjectAlignmentInBytes`).
    pub(crate) const ALIGNMENTS: [u64; 6] = [ALIGNMENT, 16, 32, 64, 128, 256];

    const fn new(name: &'static str, headers: (u64, u64), reference_bytes: u64) -> Self {
        Self {
            name,
            instance_header: headers.0,
            array_header: headers.1,
            reference_bytes,
            alignment: ALIGNMENT,
        }
    }

    /// The layouts that occur with identifiers of `id_size`, the most usual one first.
    pub const fn candidates(id_size: IdSize) -> &'static [Self] {
        const FOUR: &[Layout] = &[
            // Android's class Object has its header as fields, which a dump lists.
            Layout::new("Android", (0, 12), 4),
            Layout::new("HotSpot, 32 bits", (8, 12), 4),
        ];
        // Arrays are packed since Java 23: their elements begin right behind the length.
        const EIGHT: &[Layout] = &[
            Layout::new("HotSpot, compressed references", (12, 16), 4),
            Layout::new("HotSpot, compact headers", (8, 12), 4),
            Layout::new("HotSpot, compressed class pointers", (12, 16), 8),
            Layout::new("HotSpot, compact headers, full references", (8, 12), 8),
            Layout::new("HotSpot, full references", (16, 24), 8),
            Layout::new("HotSpot, full references, packed arrays", (16, 20), 8),
            Layout::new("HotSpot, full class pointers", (16, 24), 4),
            Layout::new("HotSpot, full class pointers, packed arrays", (16, 20), 4),
        ];
        match id_size {
            IdSize::Four => FOUR,
            IdSize::Eight => EIGHT,
        }
    }

    pub(crate) const fn aligned_to(self, alignment: u64) -> Self {
        Self { alignment, ..self }
    }

    /// Where the last field of an instance ends that has so many references and bytes of other fields. Fields are assumed to
    /// be packed without holes, as HotSpot does since version 15.
    pub(crate) fn instance_end(&self, references: u64, primitive_bytes: u64) -> u64 {
        let end = self.instance_header + references * self.reference_bytes + primitive_bytes;
        // Not even the smallest object is smaller than two words of 4 bytes.
        end.max(8)
    }

    /// Where the last element of an array ends.
    pub(crate) fn array_end(&self, element: FieldType, length: u32) -> u64 {
        let element_bytes = element.bytes(self.reference_bytes);
        let elements_at = self.array_header.next_multiple_of(element_bytes);
        elements_at + element_bytes * u64::from(length)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.alignment != ALIGNMENT {
            write!(f, ", aligned to {}", self.alignment)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_known_objects() {
        let named = |name| {
            let all = Layout::candidates(IdSize::Eight);
            *all.iter().find(|layout| layout.name == name).unwrap()
        };
        let compressed = named("HotSpot, compressed references");
        let compact = named("HotSpot, compact headers");
        let full = named("HotSpot, full references");
        let instance = |layout: Layout, references, primitive_bytes| {
            let end = layout.instance_end(references, primitive_bytes);
            end.next_multiple_of(layout.alignment)
        };
        let array = |layout: Layout, element, length| {
            let end = layout.array_end(element, length);
            end.next_multiple_of(layout.alignment)
        };
        // java.lang.Object; java.lang.Integer; java.util.HashMap$Node (int and three references).
        assert_eq!(instance(compressed, 0, 0), 16);
        assert_eq!(instance(compressed, 0, 4), 16);
        assert_eq!(instance(compressed, 3, 4), 32);
        assert_eq!(instance(compact, 3, 4), 24);
        assert_eq!(instance(full, 3, 4), 48);
        assert_eq!(instance(full.aligned_to(32), 3, 4), 64);
        assert_eq!(array(compressed, FieldType::Byte, 5), 24);
        assert_eq!(array(compressed, FieldType::Object, 16), 80);
        assert_eq!(array(full, FieldType::Object, 16), 152);
        // Elements of 8 bytes are aligned behind a header of 12.
        assert_eq!(array(compact, FieldType::Long, 1), 24);
        assert_eq!(
            full.aligned_to(16).to_string(),
            "HotSpot, full references, aligned to 16"
        );
    }
}
