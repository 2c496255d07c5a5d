//! A chunk as it is stored.

use warmswap_codec::{ChunkPlan, Scratch, decode, fill};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::ChunkId;
use warmswap_pool::Content;

use crate::chunk_word::{ChunkWord, mark_of};
use crate::error::StoreError;

/// Bytes of a page's number in a chunk.
pub const MEMBER_BYTES: usize = 4;

/// Bytes in front of the object of a chunk whose members are recorded. One page alone needs no record: its reader
/// knows its number.
pub(crate) const fn prefix_bytes(pages: usize) -> usize {
    if pages > 1 { pages * MEMBER_BYTES } else { 0 }
}

/// What a chunk holds.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    number: ChunkId,
    plan: ChunkPlan,
    /// How many pages.
    pub pages: usize,
    members: &'a [[u8; MEMBER_BYTES]],
    /// That of a page alone whose number was told.
    mark: Option<u16>,
    body: Body<'a>,
}

/// The content of a chunk's pages.
#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    /// An encoded object.
    Object(&'a [u8]),
    /// This word all over.
    Filled(u64),
}

impl<'a> Chunk<'a> {
    /// A chunk that is stored as these bytes.
    pub(crate) fn new(
        number: ChunkId,
        location: ChunkWord,
        bytes: &'a [u8],
    ) -> Result<Self, StoreError> {
        let prefix = if location.has_members {
            prefix_bytes(location.pages)
        } else {
            0
        };
        let short = StoreError::Short {
            chunk: number.0,
            bytes: bytes.len(),
        };
        let (members, object) = bytes.split_at_checked(prefix).ok_or(short)?;
        Ok(Self {
            members: members.as_chunks().0,
            ..Self::with(number, location, Body::Object(object))
        })
    }

    /// A chunk that is filled with one word.
    pub(crate) fn filled(number: ChunkId, location: ChunkWord, word: u64) -> Self {
        Self::with(number, location, Body::Filled(word))
    }

    fn with(number: ChunkId, location: ChunkWord, body: Body<'a>) -> Self {
        Self {
            number,
            plan: location.plan,
            pages: location.pages,
            members: &[],
            mark: (location.has_members && location.pages == 1).then_some(location.mark),
            body,
        }
    }

    /// The numbers of its pages, in their order; none where they are not recorded.
    pub fn members(&self) -> impl Iterator<Item = u32> + 'a {
        self.members
            .iter()
            .map(|member| u32::from_le_bytes(*member))
    }

    /// Whether the page of this number is at this place in it, as far as that was told: of a page alone the last bits of its
    /// number, of pages that are filled with one word nothing.
    pub fn holds(&self, number: u32, index: usize) -> bool {
        let is_at = |member: &[u8; MEMBER_BYTES]| *member == number.to_le_bytes();
        let is_member = self.members.is_empty() || self.members.get(index).is_some_and(is_at);
        index < self.pages && is_member && self.mark.is_none_or(|mark| mark == mark_of(number))
    }

    /// Whether it is stored as this.
    pub fn is(&self, content: Content<'_>) -> bool {
        match (self.body, content) {
            (Body::Object(object), Content::Bytes(bytes)) => object == bytes,
            (Body::Filled(word), Content::Filled(other)) => word == other,
            _ => false,
        }
    }

    /// Decodes the pages into room for exactly as many.
    ///
    /// # Errors
    /// [`StoreError::Decode`], also when the room is not of that size. What it holds is undefined then.
    pub fn decode(&self, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), StoreError> {
        let failed = |source| StoreError::Decode {
            chunk: self.number.0,
            source,
        };
        if out.len() != self.pages * PAGE_BYTES {
            return Err(failed(warmswap_codec::ChunkError::PageCount {
                bytes: out.len(),
                max_bytes: self.pages * PAGE_BYTES,
            }));
        }
        match self.body {
            Body::Filled(word) => {
                fill(word, out);
                Ok(())
            }
            Body::Object(object) => decode(scratch, self.plan, object, out).map_err(failed),
        }
    }
}
