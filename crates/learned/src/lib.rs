//! Hot lists and footprints that survive a restart: one small file for each application.
//!
//! A host takes what its engine learned (`Engine::learned`), names the files by their paths, and [`save`]s
//! it; after a restart it [`load`]s it and teaches the engine. Losing such a file costs a few slow launches
//! and nothing else: so one that is damaged, or of another version, is never used and never fatal.
//!
//! | module | subject |
//! |---|---|
//! | [`mod@format`] | the bytes: one line of header with version and checksum, then JSON |
//! | [`folder`] | the files: names, replacement as a whole, reading |

#![forbid(unsafe_code)]

pub mod folder;
pub mod format;

pub use folder::{LoadError, SaveError, load, path_of, save};
pub use format::{FormatError, decode, encode};
