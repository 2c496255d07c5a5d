//! Compressors for chunks of 128 bytes to 128 KiB: lz4, lzo, zstd, base-delta-immediate, same-filled.
