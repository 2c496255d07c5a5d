//! Which programs are measured, and how large they are.

use std::sync::Arc;

use super::Subject;
use super::programs::{
    Corpus, Graph, Index, IndexOptions, ObjectShapes, Synthetic, SyntheticOptions,
};

/// What a program of the paper takes (section 6: 180 MB).
pub const PAPER_BYTES: usize = 180_000_000;

/// A heap may grow to this multiple of what its program needs. Programs that work long need more.
const MOST_GROWTH: usize = 3;

/// And to this in any case, in bytes: small programs grow by more than they begin with.
const LEAST_ROOM: usize = 32 << 20;

/// The paper's manually created application with objects of one size.
#[must_use]
pub fn synthetic(object_bytes: usize, bytes: usize) -> Subject {
    Subject {
        make: Arc::new(move |seed| {
            Box::new(Synthetic::new(SyntheticOptions {
                object_bytes,
                footprint_bytes: bytes,
                seed,
            }))
        }),
        max_bytes: (MOST_GROWTH * bytes).max(LEAST_ROOM),
    }
}

/// An inverted index of about this size.
#[must_use]
pub fn index(corpus: &Arc<Corpus>, bytes: usize) -> Subject {
    let corpus = Arc::clone(corpus);
    Subject {
        make: Arc::new(move |seed| {
            Box::new(Index::new(IndexOptions {
                corpus: Arc::clone(&corpus),
                text_bytes: bytes * 10 / 17,
                seed,
            }))
        }),
        max_bytes: (MOST_GROWTH * bytes).max(LEAST_ROOM),
    }
}

/// A program with the objects of a heap dump.
#[must_use]
pub fn graph(name: &str, shapes: &Arc<ObjectShapes>) -> Subject {
    let (name, shapes) = (name.to_owned(), Arc::clone(shapes));
    let bytes = shapes.bytes() as usize;
    Subject {
        make: Arc::new(move |seed| Box::new(Graph::new(&name, Arc::clone(&shapes), seed))),
        max_bytes: (MOST_GROWTH * bytes).max(LEAST_ROOM),
    }
}

/// One of each kind.
#[must_use]
pub fn one_of_each(corpus: &Arc<Corpus>, bytes: usize) -> Vec<Subject> {
    vec![
        synthetic(512, bytes),
        synthetic(2048, bytes),
        index(corpus, bytes),
    ]
}

/// About ten cached programs (section 7.2).
#[must_use]
pub fn ten(corpus: &Arc<Corpus>, bytes: usize) -> Vec<Subject> {
    let each = one_of_each(corpus, bytes).into_iter().cycle();
    each.take(10).collect()
}
