//! Pages into objects.

use warmswap_codec::{ChunkError, ChunkPlan, Codec, Scratch, encode_contiguous, same_filled};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_page::PAGE_BYTES;
use warmswap_pool::Content;

use crate::chunk::{MEMBER_BYTES, prefix_bytes};
use crate::chunk_word::mark_of;

/// Encodes one chunk at a time.
#[derive(Debug)]
pub struct Encoder {
    scratch: Scratch,
    room: Vec<u8>,
}

/// What an [`Encoder`] made of a chunk last; its bytes are in the encoder until the next one.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    pub(crate) plan: ChunkPlan,
    pub(crate) pages: usize,
    pub(crate) has_members: bool,
    /// As its chunk's word has it.
    pub(crate) mark: u16,
    body: Body,
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// One word all over.
    Filled(u64),
    /// So many bytes of members and object.
    Bytes(usize),
}

impl Encoded {
    /// As the pool wants it; `room` begins with its bytes.
    pub fn content<'a>(&self, room: &'a [u8]) -> Content<'a> {
        match self.body {
            Body::Filled(word) => Content::Filled(word),
            Body::Bytes(bytes) => Content::Bytes(&room[..bytes]),
        }
    }
}

impl Encoder {
    /// With room for the largest chunk of any codec.
    #[must_use]
    pub fn new(scratch: Scratch) -> Self {
        let longest = Codec::ALL
            .iter()
            .filter_map(|&codec| ChunkPlan::new(codec, (MAX_CHUNK_PAGES * PAGE_BYTES) as u32).ok())
            .map(|plan| plan.max_encoded_bytes(MAX_CHUNK_PAGES))
            .max()
            .unwrap_or_default();
        Self {
            scratch,
            room: vec![0; longest + prefix_bytes(MAX_CHUNK_PAGES)],
        }
    }

    /// Encodes pages that lie one after the other in `plain`; `members` are their numbers, to be recorded with them, or
    /// empty.
    ///
    /// # Errors
    /// [`ChunkError`]: these are not pages of one chunk of this plan.
    pub fn encode(
        &mut self,
        plan: ChunkPlan,
        plain: &[u8],
        members: &[u32],
    ) -> Result<Encoded, ChunkError> {
        let pages = plain.len() / PAGE_BYTES;
        debug_assert!(members.is_empty() || members.len() == pages);
        let body = match same_filled(plain) {
            Some(word) => Body::Filled(word),
            None => self.encode_object(plan, plain, members)?,
        };
        Ok(Encoded {
            plan,
            pages,
            has_members: !members.is_empty(),
            mark: members.first().map_or(0, |&page| mark_of(page)),
            body,
        })
    }

    fn encode_object(
        &mut self,
        plan: ChunkPlan,
        plain: &[u8],
        members: &[u32],
    ) -> Result<Body, ChunkError> {
        let prefix = prefix_bytes(members.len());
        let (numbers, object) = self.room.split_at_mut(prefix);
        let numbers = numbers.as_chunks_mut::<MEMBER_BYTES>().0;
        for (number, member) in numbers.iter_mut().zip(members) {
            *number = member.to_le_bytes();
        }
        let encoded = encode_contiguous(&mut self.scratch, plan, plain, object)?;
        Ok(Body::Bytes(prefix + encoded.bytes))
    }

    /// What was encoded last, as the pool wants it.
    pub fn content(&self, encoded: Encoded) -> Content<'_> {
        encoded.content(&self.room)
    }

    /// For decoding, while nothing is encoded.
    pub fn scratch(&mut self) -> &mut Scratch {
        &mut self.scratch
    }
}
