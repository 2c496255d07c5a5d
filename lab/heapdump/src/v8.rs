//! Heap snapshots of V8: JavaScript programs.
//!
//! They are JSON, as written by Node (`node --heapsnapshot-signal=SIGUSR2`, `v8.writeHeapSnapshot()`) and by the developer
//! tools of Chromium. Which columns nodes and edges have is read from the file's head; columns and sections that
//! are not known are passed over. The file is read in two passes, nodes and names, then edges, and no array of it is held.
//!
//! # What is an object
//!
//! Each node, but for synthetic ones of no bytes, such as `(GC roots)` and `(Stack roots)`: these group roots, and what a
//! group refers to is a root. A synthetic node with bytes is an object that the embedder holds on to, as
//! `Node / Environment`. The class of an object is its constructor's name, that of a native one or of one that V8 hides
//! what it is called; other classes stand for types, as `(string)`, `(closure)` or `(code)`. Sizes are those of the file: 0
//! for objects that V8 shares read-only, and for native ones bytes outside of its heap.
//!
//! # What is a reference
//!
//! Edges that V8's collector follows: of the types context, element, property, internal, hidden, and those that are not
//! known; weak ones are ignored by it, and shortcuts stand for no reference (`v8-profiler.h`). Besides these are left out
//!
//! - the edge from the table of a weak map to a value, since the value is kept by table and key together: there is one from
//!   the key as well. Both are called internal, and known by their names alone;
//! - the edges of the string tables, which do not keep strings alive, yet were written as strong ones until after Node 24.
//!
//! A property can skip up to three objects of V8's own, such as the map between an object and its `__proto__`
//! (`HeapEntryVerifier` in `heap-snapshot-generator.cc`), so that depths are at most those that the collector sees.

mod edges;
mod json;
mod meta;
mod names;
mod nodes;

#[cfg(test)]
mod tests;

use std::io::{Read, Seek};
use std::ops::ControlFlow;

use crate::error::{DumpError, Result};
use crate::graph::{ClassId, ObjectGraph};
use crate::open::WhichDump;
use crate::source;
use edges::Edges;
use json::{Json, NEXT};
use meta::Meta;
use names::Names;
use nodes::Nodes;

/// The sections that each snapshot has once.
const SECTIONS: [&str; 4] = ["snapshot", "nodes", "edges", "strings"];

/// Reads the snapshot of a file, which is its only dump.
pub(crate) fn read(input: &mut (impl Read + Seek), which: WhichDump) -> Result<ObjectGraph> {
    if let WhichDump::Number(wanted) = which
        && wanted != 1
    {
        return Err(DumpError::NoSuchDump { wanted, dumps: 1 });
    }
    let meta = section(input, "snapshot", Meta::read)?;
    let (nodes, names) = objects(input, &meta)?;
    let mut edges = Some(Edges::new(&meta, &nodes, &names));
    let mut edges = section(input, "edges", |json| match edges.take() {
        Some(edges) => edges.read(json),
        None => Err(DumpError::Changed),
    })?;
    let roots = edges.roots();
    let (reference_starts, references) = (edges.starts, edges.references);
    Ok(ObjectGraph {
        layout: None,
        layout_fit: 0.0,
        has_addresses: false,
        dump_number: 1,
        dumps_in_file: 1,
        addresses: nodes.ids,
        sizes: nodes.sizes,
        classes_of: nodes.classes_of,
        reference_starts,
        references,
        dangling: 0,
        dangling_roots: 0,
        classes: nodes.classes,
        class_class: ClassId(0),
        roots,
    })
}

fn json(input: &mut (impl Read + Seek)) -> Result<Json<'_>> {
    let mut json = Json::new(source::unpacked(input)?);
    json.begin()?;
    Ok(json)
}

/// Reads one section, and nothing behind it.
fn section<T>(
    input: &mut (impl Read + Seek),
    wanted: &'static str,
    mut read: impl FnMut(&mut Json<'_>) -> Result<T>,
) -> Result<T> {
    let (mut json, mut found) = (json(input)?, None);
    let _ = json.members("an object", |json, name| {
        if name != wanted {
            json.skip()?;
            return NEXT;
        }
        found = Some(read(json)?);
        Ok(ControlFlow::Break(()))
    })?;
    let (offset, expected) = (json.offset(), wanted);
    found.ok_or(DumpError::Lacks { offset, expected })
}

/// Reads nodes and strings, and checks that the rest of the file is JSON.
fn objects(input: &mut (impl Read + Seek), meta: &Meta) -> Result<(Nodes, Names)> {
    let (mut json, mut seen) = (json(input)?, [false; SECTIONS.len()]);
    let (mut nodes, mut names) = (Nodes::default(), Names::default());
    let _ = json.members("an object", |json, name| {
        let offset = json.offset();
        if let Some(place) = SECTIONS.iter().position(|section| *section == name)
            && std::mem::replace(&mut seen[place], true)
        {
            let (found, expected) = (name.to_owned(), "each section once");
            return Err(DumpError::Syntax {
                offset,
                found,
                expected,
            });
        }
        match name {
            "nodes" => nodes = Nodes::read(json, meta)?,
            "strings" if !seen[1] => {
                return Err(DumpError::Lacks {
                    offset,
                    expected: "nodes",
                });
            }
            "strings" => names = Names::read(json, &mut nodes)?,
            _ => json.skip()?,
        }
        NEXT
    })?;
    let offset = json.offset();
    json.end()?;
    match SECTIONS.iter().zip(seen).find(|(_, seen)| !seen) {
        Some((expected, _)) => Err(DumpError::Lacks { offset, expected }),
        None => Ok((nodes, names)),
    }
}
