//! The kernel's description of its types (Documentation/bpf/btf.rst), as far as offsets of members need it.
//!
//! Written here since five offsets are all that is asked for: the maintained crates have another licence, or bring a loader
//! of programs along.

/// Types by their number, as `/sys/kernel/btf/vmlinux` has them.
#[derive(Debug)]
pub(super) struct Types {
    bytes: Vec<u8>,
    /// Where each type begins; types count from 1.
    starts: Vec<u32>,
    strings: usize,
}

const MAGIC: u16 = 0xeb9f;

const STRUCT: u32 = 4;
const UNION: u32 = 5;

/// Bytes of a type before what its kind adds, and of a member.
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;

/// Structures within structures without a name, at most.
const MOST_NESTED: u32 = 8;

impl Types {
    /// `None` where the bytes are no description of types.
    pub fn parse(bytes: Vec<u8>) -> Option<Self> {
        let magic = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
        if magic != MAGIC {
            return None;
        }
        let header = word(&bytes, 4)? as usize;
        let section = |at: usize| {
            let begin = header.checked_add(word(&bytes, at)? as usize)?;
            let end = begin.checked_add(word(&bytes, at + 4)? as usize)?;
            bytes.get(begin..end).map(|_| (begin, end))
        };
        let ((mut at, end), (strings, _)) = (section(8)?, section(16)?);
        let mut starts = Vec::new();
        while at < end {
            starts.push(u32::try_from(at).ok()?);
            let info = word(&bytes, at + 4)?;
            at += TYPE_BYTES + added_bytes(kind(info), count(info))?;
        }
        Some(Self {
            bytes,
            starts,
            strings,
        })
    }

    /// Where a member of a structure is, in bytes from its begin; members of nameless structures in it count as its own.
    /// `None` if there is none, or it is a bit field.
    pub fn offset(&self, structure: &str, member: &str) -> Option<u64> {
        let bits = self.starts.iter().find_map(|&at| {
            let at = at as usize;
            let is_it = kind(word(&self.bytes, at + 4)?) == STRUCT && self.is_named(at, structure);
            is_it.then(|| self.offset_bits(at, member, MOST_NESTED))?
        })?;
        (bits % 8 == 0).then_some(u64::from(bits / 8))
    }

    fn offset_bits(&self, at: usize, member: &str, nested: u32) -> Option<u32> {
        let info = word(&self.bytes, at + 4)?;
        (0..count(info)).find_map(|number| {
            let at = at + TYPE_BYTES + number * MEMBER_BYTES;
            // The highest bit of the information: the upper byte is the width of a bit field.
            let offset = match (word(&self.bytes, at + 8)?, info >> 31) {
                (offset, 0) => offset,
                (offset, _) => offset & 0xff_ffff,
            };
            if self.is_named(at, member) {
                return Some(offset);
            }
            let number = word(&self.bytes, at + 4)? as usize;
            let inner = *self.starts.get(number.checked_sub(1)?)? as usize;
            let is_group = matches!(kind(word(&self.bytes, inner + 4)?), STRUCT | UNION);
            let is_open = is_group && word(&self.bytes, at)? == 0 && nested > 0;
            let within = is_open.then(|| self.offset_bits(inner, member, nested - 1))??;
            offset.checked_add(within)
        })
    }

    /// Whether the name that a type or member begins with is this one.
    fn is_named(&self, at: usize, name: &str) -> bool {
        let found = word(&self.bytes, at).and_then(|offset| {
            let begin = self.strings.checked_add(offset as usize)?;
            self.bytes.get(begin..begin + name.len() + 1)
        });
        found.is_some_and(|found| found.strip_suffix(&[0]) == Some(name.as_bytes()))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn kind(info: u32) -> u32 {
    info >> 24 & 31
}

fn count(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// What follows a type of a kind with so many members; `None` for a kind that is not known.
fn added_bytes(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Integer, variable, tag of a declaration.
        1 | 14 | 17 => 4,
        // Array.
        3 => 12,
        // Structure, union, section, enumeration of 64 bits.
        STRUCT | UNION | 15 | 19 => count * 12,
        // Enumeration, prototype of a function.
        6 | 13 => count * 8,
        // Pointer, forward, typedef, volatile, const, restrict, function, float, tag of a type.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct outer { int first; struct { int second; union { int third; }; }; }`, after an integer.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0outer\0first\0second\0third\0";
        let name = |name: &str| {
            let bytes = name.as_bytes();
            strings
                .windows(bytes.len())
                .position(|w| w == bytes)
                .unwrap() as u32
        };
        let types: Vec<u32> = [
            vec![name("int"), 1 << 24, 4, 32],
            vec![0, 5 << 24 | 1, 4, name("third"), 1, 0],
            vec![0, 4 << 24 | 2, 8, name("second"), 1, 0, 0, 2, 32],
            vec![
                name("outer"),
                4 << 24 | 2,
                12,
                name("first"),
                1,
                0,
                0,
                3,
                32,
            ],
        ]
        .concat();
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = [
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ];
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        bytes.extend(header.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_of_nameless_structures_count_from_the_outer_one() {
        let types = Types::parse(sample()).unwrap();

        assert_eq!(types.offset("outer", "first"), Some(0));
        assert_eq!(types.offset("outer", "second"), Some(4));
        assert_eq!(types.offset("outer", "third"), Some(8));
        assert_eq!(types.offset("outer", "fourth"), None);
        assert_eq!(types.offset("inner", "first"), None);
    }

    #[test]
    fn what_is_cut_off_or_changed_is_refused_and_never_panics() {
        let sample = sample();
        for length in 0..sample.len() {
            if let Some(types) = Types::parse(sample[..length].to_vec()) {
                let _ = types.offset("outer", "third");
            }
        }
        for at in 0..sample.len() {
            for bits in [0x01, 0x80, 0xff] {
                let mut changed = sample.clone();
                changed[at] ^= bits;
                if let Some(types) = Types::parse(changed) {
                    let _ = types.offset("outer", "third");
                }
            }
        }
    }

    #[test]
    fn this_kernel_says_where_an_address_space_has_its_page_table() {
        let path = "/sys/kernel/btf/vmlinux";
        let Ok(bytes) = std::fs::read(path) else {
            let name = "this_kernel_says_where_an_address_space_has_its_page_table";
            warmswap_testkit::skip!(name, "this kernel has no {path}");
        };
        let types = Types::parse(bytes).unwrap();
        assert!(types.offset("mm_struct", "pgd").is_some());
    }
}
