//! Heap dumps of Java virtual machines: a streaming reader of the HPROF format, and the object graph of a dump.
//!
//! [`HprofReader`] reads versions 1.0.1 to 1.0.3 with identifiers of 4 or 8 bytes, as written by HotSpot
//! (`jcmd PID GC.heap_dump`) and by Android's runtime, and hands each record to a [`Visitor`]. Files may be compressed
//! by gzip, be pipes, and hold several dumps.
//! [`ObjectGraph::open`] reads a dump twice and keeps objects, classes, references and roots in flat arrays,
//! about 40 bytes for an object with three references.
//!
//! Input is not trusted. Damaged files give an [`DumpError`] with the offset and what was expected there;
//! memory grows with what the file holds, never with a length field alone.
//!
//! # Why no library
//!
//! Two crates read HPROF. `jvm-hprof` wants the whole dump mapped into memory, which takes `unsafe` here, has had no
//! release since 2021, and carries a licence outside of the workspace's list. `hprof-analyzer` is a maintained
//! application; its library produces finished reports and does not give access to parser or graph, and it brings a
//! query language and its parsers along. The part of the format that is needed fits into one file, [`reader`].

#![forbid(unsafe_code)]

mod address_index;
mod build;
mod error;
mod format;
mod graph;
mod input;
mod layout;
pub mod reader;
mod source;
#[cfg(any(test, feature = "writer"))]
pub mod writer;

#[cfg(test)]
mod tests;

pub use build::{DumpFile, WhichDump};
pub use error::{DumpError, Result};
pub use format::{FieldType, IdSize, RootKind};
pub use graph::{Class, ClassId, ObjectGraph, ObjectId, ObjectKind, Root, RootKinds};
pub use layout::Layout;
pub use reader::{ClassDump, HprofReader, Instance, ObjectArray, PrimitiveArray, Visitor};
