//! The head of a snapshot, which says in which order nodes and edges have their fields.

use crate::error::{DumpError, Result};
use crate::v8::json::{Flow, Json, NEXT};

/// The fields of a node that are needed. Others, such as `trace_node_id` and `detachedness`, are passed over.
const NODE_FIELDS: [&str; 5] = ["type", "name", "id", "self_size", "edge_count"];

/// The fields of an edge that are needed.
const EDGE_FIELDS: [&str; 3] = ["type", "name_or_index", "to_node"];

/// What the types of nodes say about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeType {
    /// `synthetic`: of no bytes, it groups roots; of some, it is an object of the embedder.
    Synthetic,
    /// `array`: elements, properties, tables.
    Array,
    /// `string`, `number`, `bigint`: no references but to its map.
    Value,
    /// `native`: memory outside of the heap.
    Native,
    /// All others.
    Object,
}

/// A type of nodes.
#[derive(Debug)]
pub(super) struct NodeTypeName {
    pub name: String,
    pub kind: NodeType,
    /// Whether a node's name is that of its constructor or kind; otherwise it is content, or the name of a function.
    pub has_class_name: bool,
}

impl NodeTypeName {
    fn new(name: String) -> Self {
        let kind = match name.as_str() {
            "synthetic" => NodeType::Synthetic,
            "array" => NodeType::Array,
            "string" | "number" | "bigint" => NodeType::Value,
            "native" => NodeType::Native,
            _ => NodeType::Object,
        };
        let has_class_name = matches!(name.as_str(), "object" | "native" | "synthetic" | "hidden");
        Self {
            name,
            kind,
            has_class_name,
        }
    }
}

/// What the types of edges say about reachability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeType {
    /// `weak` edges, which the collector ignores, and `shortcut` ones, which stand for no reference.
    Ignored,
    /// `internal`: a reference, or one half of an ephemeron.
    Internal,
    /// All others: references.
    Strong,
}

impl EdgeType {
    fn new(name: &str) -> Self {
        match name {
            "weak" | "shortcut" => Self::Ignored,
            "internal" => Self::Internal,
            _ => Self::Strong,
        }
    }
}

/// Rows of numbers in one long array, of which `N` columns are needed.
#[derive(Debug)]
pub(super) struct Columns<const N: usize> {
    /// Of each column, its place in a row that is handed over.
    places: Vec<Option<usize>>,
}

/// The needed numbers of a row, each with its offset in the file.
pub(super) type Row<const N: usize> = [(u64, u64); N];

impl<const N: usize> Columns<N> {
    fn new(fields: &[String], wanted: [&'static str; N], offset: u64) -> Result<Self> {
        let mut places = vec![None; fields.len()];
        for (place, name) in wanted.into_iter().enumerate() {
            let column = fields.iter().position(|field| field == name);
            let Some(column) = column else {
                let expected = name;
                return Err(DumpError::Lacks { offset, expected });
            };
            places[column] = Some(place);
        }
        Ok(Self { places })
    }

    /// Numbers of a row.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Reads the array row by row.
    pub fn rows(
        &self,
        json: &mut Json<'_>,
        mut each: impl FnMut(Row<N>) -> Result<()>,
    ) -> Result<()> {
        let (mut row, mut column) = ([(0, 0); N], 0);
        json.elements("an array of numbers", |json| {
            match self.places[column] {
                Some(place) => row[place] = json.unsigned("a number from 0")?,
                None => _ = json.number("a number")?,
            }
            column += 1;
            if column < self.places.len() {
                return Ok(());
            }
            column = 0;
            each(row)
        })?;
        if column == 0 {
            return Ok(());
        }
        Err(DumpError::WrongCount {
            offset: json.offset(),
            what: "numbers in the last row",
            found: column as u64,
            expected: self.places.len() as u64,
        })
    }
}

/// What the head says.
#[derive(Debug)]
pub(super) struct Meta {
    pub nodes: Columns<{ NODE_FIELDS.len() }>,
    pub node_types: Vec<NodeTypeName>,
    pub edges: Columns<{ EDGE_FIELDS.len() }>,
    pub edge_types: Vec<EdgeType>,
    /// Numbers of nodes and edges, where it says them.
    pub node_count: Option<u64>,
    pub edge_count: Option<u64>,
}

/// The lists as they stand in the file.
#[derive(Debug, Default)]
struct Lists {
    node_fields: Vec<String>,
    node_types: Vec<Vec<String>>,
    edge_fields: Vec<String>,
    edge_types: Vec<Vec<String>>,
}

impl Meta {
    /// Reads the value of `snapshot`.
    pub fn read(json: &mut Json<'_>) -> Result<Self> {
        let (mut lists, mut node_count, mut edge_count) = (Lists::default(), None, None);
        let _ = json.members("an object, which describes the snapshot", |json, name| {
            match name {
                "meta" => return lists.read(json),
                "node_count" => node_count = Some(json.unsigned("the number of nodes")?.0),
                "edge_count" => edge_count = Some(json.unsigned("the number of edges")?.0),
                _ => json.skip()?,
            }
            NEXT
        })?;
        let offset = json.offset();
        let types_of = |fields: &[String], types: Vec<Vec<String>>| {
            let column = fields.iter().position(|field| field == "type");
            let types = column.and_then(|column| types.into_iter().nth(column));
            types.unwrap_or_default().into_iter()
        };
        let node_types = types_of(&lists.node_fields, lists.node_types);
        let edge_types = types_of(&lists.edge_fields, lists.edge_types);
        Ok(Self {
            nodes: Columns::new(&lists.node_fields, NODE_FIELDS, offset)?,
            node_types: node_types.map(NodeTypeName::new).collect(),
            edges: Columns::new(&lists.edge_fields, EDGE_FIELDS, offset)?,
            edge_types: edge_types.map(|name| EdgeType::new(&name)).collect(),
            node_count,
            edge_count,
        })
    }
}

impl Lists {
    /// Reads the value of `meta`.
    fn read(&mut self, json: &mut Json<'_>) -> Flow {
        json.members("an object, which names fields", |json, name| {
            match name {
                "node_fields" => self.node_fields = texts(json)?,
                "node_types" => self.node_types = types(json)?,
                "edge_fields" => self.edge_fields = texts(json)?,
                "edge_types" => self.edge_types = types(json)?,
                _ => json.skip()?,
            }
            NEXT
        })
    }
}

fn texts(json: &mut Json<'_>) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    json.elements("an array of names", |json| {
        let text = json.string("a name")?;
        texts.push(String::from_utf8_lossy(text).into_owned());
        Ok(())
    })?;
    Ok(texts)
}

/// Reads what values the fields have: a list of names for an enumeration, one name for all others.
fn types(json: &mut Json<'_>) -> Result<Vec<Vec<String>>> {
    let mut types = Vec::new();
    json.elements("an array of types", |json| {
        let is_enumeration = json.is_at_array()?;
        types.push(if is_enumeration {
            texts(json)?
        } else {
            json.string("a type")?;
            Vec::new()
        });
        Ok(())
    })?;
    Ok(types)
}
