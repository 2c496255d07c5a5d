//! The work memory of all codecs, and the codec calls themselves.

use crate::{Codec, CodecError, MAX_CHUNK_BYTES, bdi, lz4, lzo, zstd};

/// The default level of zstd, low as the kernel's zram has it.
pub const DEFAULT_ZSTD_LEVEL: i32 = 1;

/// Work memory of every codec, for one thread.
///
/// Creating it allocates everything (about 1 MiB); its methods allocate nothing afterwards.
/// [`Scratch::lean`] leaves out what a thread that only decompresses never needs.
pub struct Scratch {
    lzo: lzo::Table,
    zstd: zstd::Contexts,
    /// Takes the output of lz4 when the caller's destination is shorter than the bound.
    bounce: Box<[u8]>,
    /// Where pages are joined to a chunk of several pages.
    pub(crate) staging: Box<[u8]>,
}

impl Scratch {
    /// Work memory with zstd at [`DEFAULT_ZSTD_LEVEL`].
    pub fn new() -> Scratch {
        Scratch::with_zstd_level(DEFAULT_ZSTD_LEVEL)
    }

    /// Work memory with zstd at `level`; the library clamps it to its own range (-131072 to 22).
    pub fn with_zstd_level(level: i32) -> Scratch {
        let mut scratch = Scratch::lean_at(level);
        scratch.zstd.prepare();
        scratch
    }

    /// Work memory without what zstd needs to compress: its first calls allocate that, and nothing else does.
    pub fn lean() -> Scratch {
        Scratch::lean_at(DEFAULT_ZSTD_LEVEL)
    }

    fn lean_at(level: i32) -> Scratch {
        Scratch {
            lzo: lzo::Table::new(),
            zstd: zstd::Contexts::new(level),
            bounce: vec![0; Codec::Lz4.bound_bytes(MAX_CHUNK_BYTES)].into(),
            staging: vec![0; MAX_CHUNK_BYTES].into(),
        }
    }

    /// Compresses `src` into the front of `dst` and returns how many bytes that took.
    ///
    /// `None` means that the result does not fit in `dst`: give a `dst` shorter than `src` to
    /// find out whether the data shrinks enough, or one of [`Codec::bound_bytes`] for a call that
    /// cannot fail (and for the fastest one: shorter ones may cost a copy). Sources longer than
    /// [`MAX_CHUNK_BYTES`], and empty ones, give `None` too. On `None` the content of `dst` is
    /// unspecified.
    pub fn compress(&mut self, codec: Codec, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        if src.is_empty() || src.len() > MAX_CHUNK_BYTES {
            return None;
        }
        match codec {
            Codec::Lz4 => lz4::compress(src, dst, &mut self.bounce),
            Codec::Lzo => lzo::compress(&mut self.lzo, src, dst),
            Codec::Zstd => self.zstd.compress(src, dst),
            Codec::Bdi => bdi::compress(src, dst),
        }
    }

    /// Decompresses `src` into `dst`, whose length must be the exact original size.
    ///
    /// # Errors
    ///
    /// [`CodecError`] when the input is malformed or decodes to another size; `dst` is then
    /// unspecified. A corrupted input may also decode to wrong bytes of the right size: the codecs
    /// carry no checksum.
    pub fn decompress(
        &mut self,
        codec: Codec,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let expected_bytes = dst.len();
        if expected_bytes > MAX_CHUNK_BYTES {
            return Err(CodecError::TooLong { expected_bytes });
        }
        let decoded = match codec {
            Codec::Lz4 => lz4::decompress(src, dst),
            Codec::Lzo => lzo::decompress(src, dst),
            Codec::Zstd => self.zstd.decompress(src, dst),
            Codec::Bdi => bdi::decompress(src, dst),
        };
        match decoded {
            Some(decoded_bytes) if decoded_bytes == expected_bytes => Ok(()),
            Some(decoded_bytes) => Err(CodecError::WrongLength {
                codec,
                decoded_bytes,
                expected_bytes,
            }),
            None => Err(CodecError::Malformed {
                codec,
                encoded_bytes: src.len(),
                expected_bytes,
            }),
        }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}
