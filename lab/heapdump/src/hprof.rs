//! Heap dumps of Java virtual machines: HPROF.
//!
//! [`HprofReader`] reads versions 1.0.1 to 1.0.3 with identifiers of 4 or 8 bytes, as written by HotSpot
//! (`jcmd PID GC.heap_dump`) and by Android's runtime, and hands each record to a [`Visitor`]. A file may hold several
//! dumps. A graph is read in two passes.
//!
//! # Why no library
//!
//! Two crates read HPROF. `jvm-hprof` wants the whole dump mapped into memory, which takes `unsafe` here, has had no
//! release since 2021, and carries a licence outside of the workspace's list. `hprof-analyzer` is a maintained
//! application; its library produces finished reports and does not give access to parser or graph, and it brings a
//! query language and its parsers along. The part of the format that is needed fits into one file, [`reader`].

mod address_index;
mod build;
mod format;
mod layout;
pub mod reader;
#[cfg(any(test, feature = "writer"))]
pub mod writer;

#[cfg(test)]
mod tests;

pub(crate) use build::{class_name, read};
pub use format::{FieldType, IdSize, RootKind};
pub use layout::Layout;
pub use reader::{ClassDump, HprofReader, Instance, ObjectArray, PrimitiveArray, Visitor};
