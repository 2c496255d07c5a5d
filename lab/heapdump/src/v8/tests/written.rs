//! Writes snapshots in any form.

use std::fmt::Write as _;

const NODE_TYPES: [&str; 7] = [
    "hidden",
    "array",
    "string",
    "object",
    "native",
    "synthetic",
    "object shape",
];
const EDGE_TYPES: [&str; 7] = [
    "context", "element", "property", "internal", "hidden", "shortcut", "weak",
];

/// The columns of Node 12 to 14.
pub const OLD: [&str; 6] = [
    "type",
    "name",
    "id",
    "self_size",
    "edge_count",
    "trace_node_id",
];

/// How a file is laid out.
pub struct Form {
    pub node_fields: Vec<&'static str>,
    pub edge_fields: Vec<&'static str>,
    /// Between two numbers and around all sections.
    pub space: &'static str,
    /// Further sections, before the nodes and at the end.
    pub sections: [&'static str; 2],
}

impl Form {
    pub fn new(node_fields: &[&'static str]) -> Self {
        Self {
            node_fields: node_fields.to_vec(),
            edge_fields: vec!["type", "name_or_index", "to_node"],
            space: "\n",
            sections: [
                r#""trace_tree":[1,0,-2.5,[[2,{"a":null}]]],"#,
                r#","locations":[7,1,2,3]"#,
            ],
        }
    }
}

/// Type, name, identifier, size, and edges: type, name, node.
pub type Node = (
    &'static str,
    &'static str,
    u64,
    u64,
    Vec<(&'static str, &'static str, u64)>,
);

pub const FROM_TABLE: &str =
    "3 / part of key (Key @15) -> value (Object @17) pair in WeakMap (table @13)";
pub const FROM_KEY: &str =
    "1 / part of key (Key @15) -> value (Object @17) pair in WeakMap (table @13)";

/// A weak map with one entry, a buffer of the embedder, and a string that only the table of strings has. The buffer's size
/// has more than 32 bits.
pub fn nodes() -> Vec<Node> {
    vec![
        (
            "synthetic",
            "",
            1,
            0,
            vec![
                ("element", "1", 1),
                ("shortcut", "2", 6),
                ("element", "3", 9),
            ],
        ),
        (
            "synthetic",
            "(GC roots)",
            3,
            0,
            vec![("element", "1", 2), ("element", "2", 3)],
        ),
        (
            "synthetic",
            "(Stack roots)",
            5,
            0,
            vec![("internal", "1", 4), ("internal", "2", 4), ("weak", "3", 7)],
        ),
        (
            "synthetic",
            "(Internalized strings)",
            7,
            0,
            vec![("internal", "1", 8)],
        ),
        (
            "object",
            "WeakMap",
            9,
            16,
            vec![
                ("internal", "table", 5),
                ("property", "next", 6),
                ("hidden", "3", 6),
            ],
        ),
        (
            "array",
            "",
            13,
            44,
            vec![
                ("weak", "0", 7),
                ("weak", "1", 10),
                ("internal", FROM_TABLE, 10),
            ],
        ),
        ("object", "Key", 11, 28, vec![("element", "0", 7)]),
        ("object", "Key", 15, 28, vec![("internal", FROM_KEY, 10)]),
        ("string", "\u{e9}\u{1f600}\"", 21, 0, vec![]),
        (
            "synthetic",
            "Node / Environment",
            2_346_159_264,
            100,
            vec![("internal", "buffer", 11), ("internal", "roots", 2)],
        ),
        ("object", "Object", 17, 12, vec![]),
        ("native", "system / JSArrayBufferData", 23, 5 << 32, vec![]),
    ]
}

/// The number of a string, which is added if there is none.
fn string(strings: &mut Vec<&'static str>, text: &'static str) -> usize {
    strings.iter().position(|s| *s == text).unwrap_or_else(|| {
        strings.push(text);
        strings.len() - 1
    })
}

fn list(numbers: &[String], space: &str) -> String {
    numbers.join(&format!("{space},"))
}

/// The text in quotation marks, in ASCII as V8 writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for unit in text.encode_utf16() {
        match char::from_u32(unit.into()) {
            Some(c @ (' ' | '!' | '#'..='[' | ']'..='~')) => quoted.push(c),
            _ => write!(quoted, "\\u{unit:04x}").unwrap(),
        }
    }
    quoted + "\""
}

pub fn write(nodes: &[Node], form: &Form) -> String {
    let place = |names: &[&str], name: &str| names.iter().position(|n| *n == name).unwrap();
    let (mut strings, mut node_numbers, mut edge_numbers) = (vec!["<dummy>"], vec![], vec![]);
    let edge_total: usize = nodes.iter().map(|node| node.4.len()).sum();
    for (kind, name, id, size, edges) in nodes {
        for field in &form.node_fields {
            node_numbers.push(match *field {
                "type" => place(&NODE_TYPES, kind).to_string(),
                "name" => string(&mut strings, name).to_string(),
                "id" => id.to_string(),
                "self_size" => size.to_string(),
                "edge_count" => edges.len().to_string(),
                _ => "-1.5e3".to_owned(),
            });
        }
        for (kind, name, to) in edges {
            for field in &form.edge_fields {
                edge_numbers.push(match *field {
                    "type" => place(&EDGE_TYPES, kind).to_string(),
                    "name_or_index" => match *kind {
                        "element" | "hidden" => name.to_string(),
                        _ => string(&mut strings, name).to_string(),
                    },
                    "to_node" => (to * form.node_fields.len() as u64).to_string(),
                    _ => "0".to_owned(),
                });
            }
        }
    }
    let types = |fields: &[&str], types: &[&str]| {
        let types = fields.iter().map(|field| match *field {
            "type" => format!("{types:?}"),
            _ => "\"number\"".to_owned(),
        });
        list(&types.collect::<Vec<_>>(), "")
    };
    let space = form.space;
    let [before, behind] = form.sections;
    let strings: Vec<String> = strings.into_iter().map(quoted).collect();
    format!(
        "{{\"snapshot\":{{\"title\":\"x\",\"meta\":{{\"node_fields\":{:?},\"node_types\":[{}],\
         \"edge_fields\":{:?},\"edge_types\":[{}],\"sample_fields\":[\"a\"]}},\
         \"node_count\":{},\"edge_count\":{edge_total}}},{space}{before}\"nodes\":[{}],{space}\
         \"edges\":[{}],{space}\"strings\":[{}]{behind}}}",
        form.node_fields,
        types(&form.node_fields, &NODE_TYPES),
        form.edge_fields,
        types(&form.edge_fields, &EDGE_TYPES),
        nodes.len(),
        list(&node_numbers, space),
        list(&edge_numbers, space),
        list(&strings, space),
    )
}

/// A snapshot with something of everything: what the fuzzer starts from.
pub fn small() -> String {
    write(&nodes(), &Form::new(&OLD))
}
