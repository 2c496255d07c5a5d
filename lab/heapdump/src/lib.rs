//! Heap dumps: streaming readers, and the object graph of a dump in compact form.
//!
//! - [`hprof`]: Java virtual machines.
//! - [`v8`]: JavaScript, in Node and Chromium.
//!
//! [`ObjectGraph::open`] tells the format by the first bytes and keeps objects, classes, references and roots in flat
//! arrays, about 40 bytes for an object with three references. Files may be compressed by gzip, and be pipes.
//!
//! Input is not trusted. Damaged files give a [`DumpError`] with the offset and what was expected there;
//! memory grows with what the file holds, never with a length field alone.

#![forbid(unsafe_code)]

mod error;
mod graph;
pub mod hprof;
mod input;
mod open;
mod sizes;
mod source;
pub mod v8;

pub use error::{DumpError, Result};
pub use graph::{Class, ClassId, ObjectGraph, ObjectId, ObjectKind, Root, RootKinds};
pub use hprof::{FieldType, IdSize, Layout, RootKind};
pub use open::{DumpFile, WhichDump};
