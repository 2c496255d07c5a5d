//! The backing store: a checksummed log of compressed records for write-back.
