//! The strings of a snapshot, as far as they matter: names of classes and of roots, and ephemerons.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{DumpError, Result};
use crate::graph::Class;
use crate::v8::json::Json;
use crate::v8::nodes::Nodes;

/// Groups of what is no root: the string tables do not keep their strings alive, yet V8 wrote their edges as strong ones
/// until after Node 24 (`TODO(v8:11800)` in `heap-snapshot-generator.cc`).
const STRING_TABLES: [&str; 2] = ["(Internalized strings)", "(External strings)"];

/// Behind a number, how V8 names both edges of an entry in a weak map: the one from its key, and the one from its table.
const EPHEMERON: &str = " / part of key (";

/// What the strings say.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Strings that name groups of what is no root.
    pub string_tables: FxHashSet<u64>,
    /// Strings that name edges of ephemerons, with the table's identifier. V8 formats a name into 1,024 bytes, and leaves
    /// the format itself where they do not suffice, so that the table may not be named.
    pub ephemerons: FxHashMap<u64, Option<u64>>,
}

impl Names {
    /// Reads the value of `strings`, and names the classes.
    pub fn read(json: &mut Json<'_>, nodes: &mut Nodes) -> Result<Self> {
        let (mut names, mut count) = (Self::default(), 0);
        let mut classes = nodes.unnamed_classes().into_iter().peekable();
        json.elements("an array of strings", |json| {
            let text = String::from_utf8_lossy(json.string("a string")?);
            while let Some((_, class)) = classes.next_if(|(string, _)| *string == count) {
                nodes.classes[class as usize].name = text.clone().into_owned();
            }
            names.look_at(count, &text);
            count += 1;
            Ok(())
        })?;
        match nodes.largest_name {
            Some((found, offset)) if found >= count => Err(DumpError::Unexpected {
                offset,
                found,
                expected: "the number of a string that the snapshot has",
            }),
            _ => Ok(names),
        }
    }

    fn look_at(&mut self, string: u64, text: &str) {
        if STRING_TABLES.contains(&text) {
            self.string_tables.insert(string);
        }
        let unnumbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
        if unnumbered.starts_with(EPHEMERON) {
            self.ephemerons.insert(string, table(text));
        }
    }
}

/// The table's identifier in the name of an ephemeron's edge.
fn table(name: &str) -> Option<u64> {
    let (_, table) = name.rsplit_once("(table @")?;
    table.strip_suffix(')')?.parse().ok()
}

/// A class without a name yet.
pub(super) fn unnamed() -> Class {
    Class {
        name: String::new(),
        object: None,
        super_class: None,
    }
}
