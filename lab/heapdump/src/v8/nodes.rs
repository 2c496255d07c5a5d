//! The nodes of a snapshot: objects, and groups of roots.

use rustc_hash::FxHashMap;

use crate::error::{DumpError, Result};
use crate::graph::{CLASS_BITS, CLASS_MASK, Class, ObjectId, ObjectKind};
use crate::sizes::Sizes;
use crate::v8::json::Json;
use crate::v8::meta::{Meta, NodeType, Row};
use crate::v8::names::unnamed;

/// Numbers of nodes are 32 bits wide.
const NODES_MAX: u64 = u32::MAX as u64;

/// A node that groups roots and is no object: `(GC roots)`, `(Stack roots)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// The node's number.
    node: u32,
    /// The number of the string that names it.
    pub name: u64,
}

/// A class: the nodes of a type, or those of them with one name.
type ClassKey = (u64, Option<u64>);

/// The nodes, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Identifiers of objects, which are no addresses.
    pub ids: Vec<u64>,
    pub sizes: Sizes,
    /// Kinds and classes of objects.
    pub classes_of: Vec<u32>,
    pub classes: Vec<Class>,
    /// Edges of each node, groups included.
    pub edge_counts: Vec<u32>,
    /// By node.
    pub groups: Vec<Group>,
    class_numbers: FxHashMap<ClassKey, u32>,
    /// The largest number of a string that names a node, and where it stands.
    pub largest_name: Option<(u64, u64)>,
}

impl Nodes {
    /// Reads the value of `nodes`.
    pub fn read(json: &mut Json<'_>, meta: &Meta) -> Result<Self> {
        let mut nodes = Self::default();
        meta.nodes.rows(json, |row| nodes.push(meta, row))?;
        let found = nodes.count();
        match meta.node_count {
            Some(expected) if expected != found => Err(DumpError::WrongCount {
                offset: json.offset(),
                what: "nodes",
                found,
                expected,
            }),
            _ => Ok(nodes),
        }
    }

    /// Nodes so far, groups included.
    pub fn count(&self) -> u64 {
        self.edge_counts.len() as u64
    }

    fn push(&mut self, meta: &Meta, [kind, name, id, size, edges]: Row<5>) -> Result<()> {
        let node = self.number()?;
        let Some(node_type) = meta.node_types.get(kind.0 as usize) else {
            return Err(unexpected(kind, "the number of a type of nodes"));
        };
        let Ok(edge_count) = u32::try_from(edges.0) else {
            return Err(unexpected(edges, "fewer than 4 billion edges of a node"));
        };
        self.edge_counts.push(edge_count);
        if self
            .largest_name
            .is_none_or(|(largest, _)| largest < name.0)
        {
            self.largest_name = Some(name);
        }
        if node_type.kind == NodeType::Synthetic && size.0 == 0 {
            self.groups.push(Group { node, name: name.0 });
            return Ok(());
        }
        if node == 0 {
            return Err(unexpected(kind, "the root, a synthetic node of no bytes"));
        }
        let class = self.class(meta, kind.0, name.0)?;
        self.classes_of
            .push((object_kind(node_type.kind) as u32) << CLASS_BITS | class);
        self.ids.push(id.0);
        self.sizes.push(size.0);
        Ok(())
    }

    /// The number of the next node.
    fn number(&self) -> Result<u32> {
        match u32::try_from(self.edge_counts.len()) {
            Ok(number) if u64::from(number) < NODES_MAX => Ok(number),
            _ => Err(DumpError::TooMany {
                what: "objects",
                limit: NODES_MAX,
            }),
        }
    }

    fn class(&mut self, meta: &Meta, kind: u64, name: u64) -> Result<u32> {
        let node_type = &meta.node_types[kind as usize];
        let key = (kind, node_type.has_class_name.then_some(name));
        if let Some(class) = self.class_numbers.get(&key) {
            return Ok(*class);
        }
        let number = self.classes.len() as u32;
        if number == CLASS_MASK {
            let (what, limit) = ("classes", CLASS_MASK.into());
            return Err(DumpError::TooMany { what, limit });
        }
        self.class_numbers.insert(key, number);
        self.classes.push(match key.1 {
            Some(_) => unnamed(),
            // As Chromium's developer tools have it.
            None => Class {
                name: format!("({})", node_type.name),
                ..unnamed()
            },
        });
        Ok(number)
    }

    /// The strings that name classes, in their order, with the classes. Takes them.
    pub fn unnamed_classes(&mut self) -> Vec<(u64, u32)> {
        let classes = std::mem::take(&mut self.class_numbers);
        let classes = classes.into_iter();
        let mut named: Vec<(u64, u32)> = classes
            .filter_map(|((_, name), class)| Some((name?, class)))
            .collect();
        named.sort_unstable();
        named
    }

    /// The group of roots that a node is, or the object.
    pub fn find(&self, node: u32) -> Node {
        match self.groups.binary_search_by_key(&node, |group| group.node) {
            Ok(place) => Node::Group(self.groups[place]),
            Err(groups_before) => Node::Object(ObjectId(node - groups_before as u32)),
        }
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    Group(Group),
    Object(ObjectId),
}

fn object_kind(kind: NodeType) -> ObjectKind {
    match kind {
        NodeType::Array => ObjectKind::ObjectArray,
        NodeType::Value => ObjectKind::PrimitiveArray,
        NodeType::Native => ObjectKind::Native,
        NodeType::Synthetic | NodeType::Object => ObjectKind::Instance,
    }
}

/// An error about a number and its offset.
pub(super) fn unexpected((found, offset): (u64, u64), expected: &'static str) -> DumpError {
    DumpError::Unexpected {
        offset,
        found,
        expected,
    }
}
