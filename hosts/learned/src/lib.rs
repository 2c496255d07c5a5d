//! What the policies learned about an application, as a file that survives a restart.
//!
//! A host takes the tables out of its engine (`Engine::learned`), names the files in them by their paths, and [`save`]s them
//! as one small file for each application. After a restart it [`load`]s that file and teaches the engine. A lost file costs a
//! few slow launches and nothing else, so a damaged one, or one of another version, is never used and never fatal.
//!
//! | module | subject |
//! |---|---|
//! | [`mod@format`] | the bytes: one line of header with version and checksum, then JSON |
//! | [`folder`] | the files: names, replacement as a whole, reading |

#![forbid(unsafe_code)]

pub mod folder;
pub mod format;

pub use folder::{LoadError, SaveError, load, path_of, replace, save, sync};
pub use format::{FormatError, decode, encode};
