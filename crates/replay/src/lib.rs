//! The replay host: a recorded trace, with real page contents and real compressors, under any scheme.
