//! A snapshot of a running Node beside what an independent reader in JavaScript says of the same file. Prints a line with
//! `--nocapture`. Needs node (`NODE` names another one); skipped by name where there is none.

use std::path::{Path, PathBuf};
use std::process::Command;

use warmswap_heapdump::{ObjectGraph, ObjectId, ObjectKind};

/// Holds 1,000 objects of a class, ten of them as keys of a weak map, a buffer of 1 MiB, and writes a snapshot. The values of
/// half of the entries are so long that V8 leaves their edges' names unformatted.
const PROGRAM: &str = r#"
class Marker { constructor(i) { this.next = { i }; } }
globalThis.keep = [];
for (let i = 0; i < 1000; i++) keep.push(new Marker(i));
globalThis.map = new WeakMap();
for (let i = 0; i < 10; i++) map.set(keep[i], i % 2 ? Buffer.alloc(3000, 97).toString('latin1') : { i });
globalThis.buffer = new ArrayBuffer(1 << 20);
require('v8').writeHeapSnapshot(process.argv[2]);
"#;

/// Prints objects, bytes, objects of the class, their bytes, roots, reached objects, and objects by depth.
const READER: &str = r#"
const { snapshot, nodes, edges, strings } = JSON.parse(require('fs').readFileSync(process.argv[2]));
const { node_fields, node_types, edge_fields, edge_types } = snapshot.meta;
const column = (name) => node_fields.indexOf(name);
const width = node_fields.length;
const count = nodes.length / width;
const get = (node, name) => nodes[node * width + column(name)];
const type = (node) => node_types[0][get(node, 'type')];
const name = (node) => strings[get(node, 'name')];
const isGroup = (node) => type(node) === 'synthetic' && get(node, 'self_size') === 0;
const strong = [];
for (let node = 0, edge = 0; node < count; node++) {
  const to = [];
  for (let i = 0; i < get(node, 'edge_count'); i++, edge += edge_fields.length) {
    const kind = edge_types[0][edges[edge + edge_fields.indexOf('type')]];
    if (kind === 'weak' || kind === 'shortcut') continue;
    const label = edges[edge + edge_fields.indexOf('name_or_index')];
    if (kind === 'internal' && /^\d+ \/ part of key/.test(strings[label]) && type(node) === 'array') continue;
    if (['(Internalized strings)', '(External strings)'].includes(name(node)) && isGroup(node)) continue;
    to.push(edges[edge + edge_fields.indexOf('to_node')] / width);
  }
  strong.push(to);
}
const objects = [...Array(count).keys()].filter((node) => !isGroup(node));
const bytes = (list) => list.reduce((sum, node) => sum + get(node, 'self_size'), 0);
const markers = objects.filter((node) => type(node) === 'object' && name(node) === 'Marker');
const seen = new Set();
// Groups have no depth of their own: they are gone through before any object.
const groups = [0];
let level = [];
const visit = (node, list) => { if (!seen.has(node)) { seen.add(node); list.push(node); } };
for (const group of groups) for (const to of strong[group]) if (isGroup(to)) visit(to, groups); else visit(to, level);
const depths = [];
while (level.length > 0) {
  depths.push(level.length);
  const next = [];
  for (const node of level) for (const to of strong[node]) if (!isGroup(to)) visit(to, next);
  level = next;
}
const reached = depths.reduce((sum, objects) => sum + objects, 0);
console.log([objects.length, bytes(objects), markers.length, bytes(markers), depths[0], reached, ...depths].join(' '));
"#;

fn node(program: &Path, argument: &Path, node: &Path) -> Option<String> {
    let ran = Command::new(node).arg(program).arg(argument).output();
    let output = ran.ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// Objects by depth, breadth first.
fn depths(graph: &ObjectGraph) -> Vec<u64> {
    let mut is_reached = vec![false; graph.len()];
    let mut level: Vec<ObjectId> = graph.roots().iter().map(|root| root.object).collect();
    for root in &level {
        is_reached[root.index()] = true;
    }
    let mut depths = Vec::new();
    while !level.is_empty() {
        depths.push(level.len() as u64);
        let targets = level.iter().flat_map(|object| graph.references(*object));
        level = targets
            .copied()
            .filter(|to| !std::mem::replace(&mut is_reached[to.index()], true))
            .collect();
    }
    depths
}

/// What the reader in JavaScript prints.
fn summary(graph: &ObjectGraph) -> Vec<u64> {
    let markers: Vec<ObjectId> = graph
        .objects()
        .filter(|object| graph.class(graph.class_of(*object)).name == "Marker")
        .filter(|object| graph.kind(*object) == ObjectKind::Instance)
        .collect();
    let bytes = |objects: &[ObjectId]| objects.iter().map(|o| graph.size_bytes(*o)).sum();
    let all: Vec<ObjectId> = graph.objects().collect();
    let depths = depths(graph);
    let mut summary = vec![
        all.len() as u64,
        bytes(&all),
        markers.len() as u64,
        bytes(&markers),
        graph.roots().len() as u64,
        depths.iter().sum(),
    ];
    summary.extend(depths);
    summary
}

#[test]
fn figures_are_those_of_an_independent_reader() {
    let program = std::env::var_os("NODE").map_or_else(|| PathBuf::from("node"), PathBuf::from);
    let folder = tempfile::tempdir().expect("a folder");
    let [writer, reader, snapshot] =
        ["write.js", "read.js", "node.heapsnapshot"].map(|name| folder.path().join(name));
    std::fs::write(&writer, PROGRAM).expect("written");
    std::fs::write(&reader, READER).expect("written");
    if node(&writer, &snapshot, &program).is_none() {
        warmswap_testkit::skip!(
            "figures_are_those_of_an_independent_reader",
            "no node in PATH"
        );
    }
    let said = node(&reader, &snapshot, &program).expect("node ran before");
    let expected = said.split_whitespace().map(|word| word.parse());
    let expected: Vec<u64> = expected.collect::<Result<_, _>>().expect("numbers");

    let graph = ObjectGraph::open(&snapshot).expect("a snapshot");
    let found = summary(&graph);
    println!("objects, bytes, markers, their bytes, roots, reached, by depth: {found:?}");
    assert_eq!(found, expected);
    assert_eq!(found[2], 1000);
    let reached = found[5] as f64 / found[0] as f64;
    assert!(reached > 0.99, "nearly all can be reached: {reached}");
    let buffer = graph.objects().filter(|object| {
        graph.kind(*object) == ObjectKind::Native && graph.size_bytes(*object) == 1 << 20
    });
    assert_eq!(buffer.count(), 1);
}
