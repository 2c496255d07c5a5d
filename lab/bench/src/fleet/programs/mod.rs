//! Programs on the managed heap.
//!
//! | program | what it holds | what is real in it |
//! |---|---|---|
//! | [`Synthetic`] | objects of one size | nothing: the paper's manually created applications (section 6) |
//! | [`Index`] | an inverted index over documents, with their texts | texts, data structures, use by a person is drawn |
//! | [`Graph`] | the objects of a heap dump of a JVM or V8 | sizes, references, roots; data and use are drawn |

mod common;
mod corpus;
mod dictionary;
mod filler;
mod graph;
mod html;
mod index;
mod index_store;
mod made_up;
mod object_shapes;
mod synthetic;
mod words;

pub(super) use common::with_room;
pub use corpus::{Corpus, Document};
pub use graph::Graph;
pub use index::{Index, IndexOptions};
pub use object_shapes::ObjectShapes;
pub use synthetic::{Synthetic, SyntheticOptions};
