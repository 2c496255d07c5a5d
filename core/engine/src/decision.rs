//! What the engine asks a host to do.

use crate::chunks::Place;
use serde::{Deserialize, Serialize};
use warmswap_page::ChunkPlan;
use warmswap_page::{AppId, FileId};
use warmswap_policy::{ChunkId, PageId};

/// One thing to do, and on whose behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is to be done.
    pub action: Action,
    /// What it is done for.
    pub cause: Cause,
}

/// On whose behalf something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The application waits for this page.
    Fault,
    /// The application waits for a frame.
    DirectReclaim,
    /// No thread waits: reclaim between the watermarks, or of an application that was asked to shrink.
    Background,
    /// No thread waits yet: prediction of the next fault. The pages wait in the prefetch buffer.
    Prefetch,
    /// No thread waits yet: the footprint of the launch under way. A host with idle processors puts the pages in
    /// their place, several batches at a time, at a lower priority than the application.
    Prepage,
}

/// What is to be done. The chunk's pages are [`Engine::chunk_pages`](crate::Engine::chunk_pages).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Compress the chunk's pages, in their order, into the pool; afterwards their frames are free.
    /// Report [`stored`](crate::Engine::stored) or [`refused`](crate::Engine::refused).
    ///
    /// If the engine [wants a sample](crate::Engine::wants_sample), it is given one first
    /// ([`admit`](crate::Engine::admit)), and may take the chunk back.
    Store {
        /// The new chunk.
        chunk: ChunkId,
        /// Codec and chunk size.
        plan: ChunkPlan,
    },
    /// Write the chunk's one page to the backing file as it is; afterwards its frame is free. Report
    /// [`stored`](crate::Engine::stored) or [`refused`](crate::Engine::refused).
    StoreRaw {
        /// The new chunk.
        chunk: ChunkId,
    },
    /// Move the chunk, compressed as it is, from the pool to the backing file. Its pages are anonymous.
    /// Report
    /// [`written_back`](crate::Engine::written_back) or [`write_back_failed`](crate::Engine::write_back_failed).
    WriteBack {
        /// The chunk.
        chunk: ChunkId,
    },
    /// Bring back those pages of the chunk for which [`Engine::is_loading`](crate::Engine::is_loading),
    /// and keep the chunk. Report [`loaded`](crate::Engine::loaded).
    Load {
        /// The chunk.
        chunk: ChunkId,
        /// Where it is.
        place: Place,
    },
    /// Read these pages of a file that are not in memory into frames, as one request: they are accounted
    /// from now on, and a touch of them waits for the read. Nothing is reported. A host whose read fails
    /// [frees](crate::Engine::free) them.
    ReadFile {
        /// The file.
        file: FileId,
        /// Offset of the first page, in pages.
        first: u64,
        /// How many; at most 512.
        pages: u32,
        /// True for a single page that is read for the file system's metadata around it: it goes ahead of
        /// the large reads of the file.
        is_metadata: bool,
    },
    /// The chunk is no longer needed. Report the new usage.
    Free {
        /// The chunk, already forgotten by the engine: its number may be used again.
        chunk: ChunkId,
        /// Where it is.
        place: Place,
        /// Its size there, as it was reported.
        bytes: u32,
    },
    /// The page's frame is free; its chunk holds the same content.
    Drop {
        /// The page.
        page: PageId,
    },
    /// The frame of a page of a file is free; the content is in the file, once it was written there if
    /// it is dirty.
    Discard {
        /// The page.
        page: PageId,
        /// True: the host writes it to its file first.
        dirty: bool,
    },
    /// A page of a file is in its file only from now on: its copy in the pool gives way, or the file was
    /// written. Nothing is reported. It is for hosts that find pages by themselves: they forget that the page is
    /// in this chunk, whose `Free` follows when no other page is in it.
    Forget {
        /// The page.
        page: PageId,
        /// The chunk that held its copy.
        chunk: ChunkId,
    },
    /// Nothing else can be given up: end this application and report [`exit`](crate::Engine::exit).
    Kill {
        /// The background application that was not used for the longest time.
        app: AppId,
    },
}

/// Why a host could not store a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The pool is full, whatever the engine's account says.
    PoolFull,
    /// The pool takes no object of that size: the pages go past it.
    TooLarge,
    /// The backing file is full, or cannot be written.
    BackingFailed,
}
