//! The edges of a snapshot: what objects refer to, and which of them are roots.

use crate::error::{DumpError, Result};
use crate::graph::{CLASS_BITS, ObjectId, ObjectKind, Root, RootKinds};
use crate::hprof::RootKind;
use crate::v8::json::Json;
use crate::v8::meta::{EdgeType, Meta, Row};
use crate::v8::names::Names;
use crate::v8::nodes::{Node, Nodes, unexpected};

/// References of the objects in their order, and roots.
#[derive(Debug)]
pub(super) struct Edges<'a> {
    meta: &'a Meta,
    nodes: &'a Nodes,
    names: &'a Names,
    /// Nodes that edges began to come from.
    begun: usize,
    /// The last of them.
    from: Node,
    /// Its edges that are still to come.
    left: u32,
    count: u64,
    pub starts: Vec<u64>,
    pub references: Vec<ObjectId>,
    roots: Vec<ObjectId>,
}

impl<'a> Edges<'a> {
    pub fn new(meta: &'a Meta, nodes: &'a Nodes, names: &'a Names) -> Self {
        Self {
            meta,
            nodes,
            names,
            begun: 0,
            from: nodes.find(0),
            left: 0,
            count: 0,
            starts: Vec::new(),
            references: Vec::new(),
            roots: Vec::new(),
        }
    }

    /// Reads the value of `edges`.
    pub fn read(mut self, json: &mut Json<'_>) -> Result<Self> {
        self.meta.edges.rows(json, |row| self.push(row))?;
        let counts = self.nodes.edge_counts.iter();
        let of_nodes = counts.map(|count| u64::from(*count)).sum();
        for expected in self.meta.edge_count.into_iter().chain([of_nodes]) {
            if self.count != expected {
                return Err(DumpError::WrongCount {
                    offset: json.offset(),
                    what: "edges",
                    found: self.count,
                    expected,
                });
            }
        }
        self.advance();
        self.starts.push(self.references.len() as u64);
        Ok(self)
    }

    /// Goes on to the next node with edges, if all edges of the last one came; whether there is one.
    fn advance(&mut self) -> bool {
        while self.left == 0 {
            let Some(count) = self.nodes.edge_counts.get(self.begun) else {
                return false;
            };
            self.left = *count;
            self.from = self.nodes.find(self.begun as u32);
            self.begun += 1;
            if matches!(self.from, Node::Object(_)) {
                self.starts.push(self.references.len() as u64);
            }
        }
        true
    }

    fn push(&mut self, [kind, name, to]: Row<3>) -> Result<()> {
        if !self.advance() {
            return Err(unexpected(kind, "no more edges than the nodes have"));
        }
        self.left -= 1;
        self.count += 1;
        let Some(edge_type) = self.meta.edge_types.get(kind.0 as usize) else {
            return Err(unexpected(kind, "the number of a type of edges"));
        };
        let to = self.target(to)?;
        match edge_type {
            EdgeType::Ignored => {}
            EdgeType::Internal if self.is_from_table(name.0) => {}
            EdgeType::Internal | EdgeType::Strong => self.follow(to),
        }
        Ok(())
    }

    /// The node at a place among the numbers of all nodes.
    fn target(&self, (place, offset): (u64, u64)) -> Result<Node> {
        let columns = self.meta.nodes.count() as u64;
        if place.is_multiple_of(columns) && place / columns < self.nodes.count() {
            return Ok(self.nodes.find((place / columns) as u32));
        }
        Err(unexpected((place, offset), "the place of a node"))
    }

    /// Whether the edge is the one from the table of a weak map to a value. A collector goes there once it reached table
    /// and key; the edge from the key stands for both.
    fn is_from_table(&self, name: u64) -> bool {
        let (Some(table), Node::Object(from)) = (self.names.ephemerons.get(&name), self.from)
        else {
            return false;
        };
        match table {
            Some(table) => *table == self.nodes.ids[from.index()],
            None => {
                self.nodes.classes_of[from.index()] >> CLASS_BITS == ObjectKind::ObjectArray as u32
            }
        }
    }

    fn follow(&mut self, to: Node) {
        match (self.from, to) {
            (Node::Object(_), Node::Object(to)) => self.references.push(to),
            (Node::Group(from), Node::Object(to)) => {
                if !self.names.string_tables.contains(&from.name) {
                    self.roots.push(to);
                }
            }
            // All that is grouped is a root, whatever leads to the group.
            (_, Node::Group(_)) => {}
        }
    }

    /// The roots, each once. V8 says the kind of a root by a name, which differs between its versions.
    pub fn roots(&mut self) -> Vec<Root> {
        let mut roots = std::mem::take(&mut self.roots);
        roots.sort_unstable();
        roots.dedup();
        let kinds = RootKinds::default().with(RootKind::Unknown);
        let roots = roots.into_iter();
        roots.map(|object| Root { object, kinds }).collect()
    }
}
