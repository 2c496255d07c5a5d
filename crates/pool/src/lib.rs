//! The compressed pool: size classes, handles, compaction, a limit in bytes.
