//! Snapshots that are written by hand, read, and damaged.

mod written;

use std::io::{Cursor, Write as _};

use proptest::prelude::*;

use crate::*;
use written::{FROM_KEY, FROM_TABLE, Form, OLD, nodes, small, write};

fn read(text: impl AsRef<[u8]>) -> Result<ObjectGraph> {
    ObjectGraph::read(&mut Cursor::new(text.as_ref()))
}

fn ids(graph: &ObjectGraph, objects: &[ObjectId]) -> Vec<u64> {
    objects.iter().map(|o| graph.address(*o)).collect()
}

/// All that the small snapshot says.
fn check(graph: &ObjectGraph) {
    assert!(!graph.has_addresses() && graph.layout().is_none());
    assert_eq!((graph.dump_number(), graph.dumps_in_file()), (1, 1));
    let all: Vec<ObjectId> = graph.objects().collect();
    let table = [
        (9, 16, "WeakMap", ObjectKind::Instance, vec![13, 11, 11]),
        (13, 44, "(array)", ObjectKind::ObjectArray, vec![]),
        (11, 28, "Key", ObjectKind::Instance, vec![15]),
        (15, 28, "Key", ObjectKind::Instance, vec![17]),
        (21, 0, "(string)", ObjectKind::PrimitiveArray, vec![]),
        (
            2_346_159_264,
            100,
            "Node / Environment",
            ObjectKind::Instance,
            vec![23],
        ),
        (17, 12, "Object", ObjectKind::Instance, vec![]),
        (
            23,
            5 << 32,
            "system / JSArrayBufferData",
            ObjectKind::Native,
            vec![],
        ),
    ];
    assert_eq!(all.len(), table.len());
    for (object, (id, bytes, class, kind, references)) in all.into_iter().zip(table) {
        assert_eq!(graph.address(object), id);
        assert_eq!(graph.size_bytes(object), bytes);
        assert_eq!(graph.class(graph.class_of(object)).name, class);
        assert_eq!(graph.kind(object), kind);
        assert_eq!(ids(graph, graph.references(object)), references, "of {id}");
    }
    assert_eq!(graph.reference_count(), 6);
    let roots: Vec<ObjectId> = graph.roots().iter().map(|root| root.object).collect();
    assert_eq!(ids(graph, &roots), [9, 2_346_159_264]);
    assert!(graph.roots().iter().all(|root| root.kinds.keeps_alive()));
}

#[test]
fn a_small_snapshot_is_what_was_written() {
    check(&read(small()).unwrap());
}

#[test]
fn the_seed_of_the_fuzzer_is_the_small_snapshot() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/heapsnapshot");
    let path = format!("{folder}/small.heapsnapshot");
    if std::env::var_os("WARMSWAP_BLESS").is_some() {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&path, small()).unwrap();
    }
    let seed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        seed == small(),
        "{path} is old; run this test with WARMSWAP_BLESS=1"
    );
}

#[test]
fn columns_are_where_the_file_says() {
    let mut mixed = Form::new(&[
        "detachedness",
        "edge_count",
        "self_size",
        "later",
        "id",
        "name",
        "type",
    ]);
    mixed.edge_fields = vec!["to_node", "later", "type", "name_or_index"];
    mixed.space = " \t\r\n ";
    let of_node_24 = [
        "type",
        "name",
        "id",
        "self_size",
        "edge_count",
        "detachedness",
    ];
    let of_chromium = Form {
        space: "",
        sections: ["", ""],
        ..Form::new(&of_node_24)
    };
    let of_node_20 = [&OLD[..], &["detachedness"]].concat();
    for form in [
        mixed,
        Form::new(&of_node_24),
        of_chromium,
        Form::new(&of_node_20),
    ] {
        check(&read(write(&nodes(), &form)).unwrap());
    }
}

#[test]
fn sections_may_stand_in_another_order() {
    let text = small();
    let parts: Vec<&str> = ["\"edges\":", "\"strings\":"]
        .iter()
        .map(|name| &text[text.find(name).unwrap()..])
        .collect();
    let (edges, behind) = parts[0].split_at(parts[0].len() - parts[1].len());
    let before = &text[1..text.len() - parts[0].len()];
    // As a tool leaves it that sorts names.
    check(&read(format!("\u{feff} {{{edges}{before}{behind}\n")).unwrap());
    let strings_first = format!("{{\"strings\":[],{before}{edges}\"a\":1}}");
    let error = read(strings_first).unwrap_err().to_string();
    assert_eq!(
        error,
        "at byte 11: expected \"nodes\" before this place, as heap snapshots of V8 have it"
    );
}

/// V8 leaves the format of an edge's name where the name is longer than 1,024 bytes, as of a key or value that is a string.
#[test]
fn an_ephemeron_without_identifiers_in_its_name_is_one() {
    const FORMAT: &str = "3 / part of key (%s @%u) -> value (%s @%u) pair in WeakMap (table @%u)";
    let mut nodes = nodes();
    for edge in nodes.iter_mut().flat_map(|node| &mut node.4) {
        if [FROM_TABLE, FROM_KEY].contains(&edge.1) {
            edge.1 = FORMAT;
        }
    }
    check(&read(write(&nodes, &Form::new(&OLD))).unwrap());
}

#[test]
fn compressed_snapshots_and_pipes_are_read() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(small().as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    check(&read(&packed).unwrap());
    for end in 0..packed.len() {
        assert!(read(&packed[..end]).is_err(), "{end}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("snapshot");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&pipe, &packed).unwrap());
        check(&ObjectGraph::open(&pipe).unwrap());
    });
}

#[test]
fn there_is_one_dump_in_a_file() {
    let read = |which| ObjectGraph::read_dump(&mut Cursor::new(small()), which);
    for which in [WhichDump::First, WhichDump::Last, WhichDump::Number(1)] {
        check(&read(which).unwrap());
    }
    let error = read(WhichDump::Number(2)).unwrap_err();
    assert!(
        matches!(
            error,
            DumpError::NoSuchDump {
                wanted: 2,
                dumps: 1
            }
        ),
        "{error}"
    );
}

#[test]
fn a_snapshot_without_nodes_is_empty() {
    let graph = read(write(&[], &Form::new(&OLD))).unwrap();
    assert!(graph.is_empty() && graph.roots().is_empty());
}

#[test]
fn a_cut_anywhere_is_an_error() {
    let text = small();
    for end in 0..text.len() {
        let error = read(&text[..end]).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("at byte "), "{end}: {said}");
        // An empty file is none; all others end too early.
        assert!(
            end == 0 || matches!(error, DumpError::Ended { .. }),
            "{end}: {said}"
        );
    }
}

/// The small snapshot with one text replaced.
fn with(from: &str, to: &str) -> String {
    let text = small();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

#[test]
fn contradictions_are_errors_with_their_place() {
    let first_node = "\"nodes\":[5\n,1";
    for (text, expected) in [
        (
            with("\"node_count\":12", "\"node_count\":13"),
            "found 12 nodes, expected 13",
        ),
        (
            with("\"edge_count\":19", "\"edge_count\":18"),
            "found 19 edges, expected 18",
        ),
        (
            with(first_node, "\"nodes\":[7\n,1"),
            "found 7, expected the number of a type of nodes",
        ),
        (
            with(first_node, "\"nodes\":[3\n,1"),
            "found 3, expected the root",
        ),
        (
            with(first_node, "\"nodes\":[5\n,99"),
            "found 99, expected the number of a string",
        ),
        (
            with(first_node, "\"nodes\":[5\n,-1"),
            "found \"-1\", expected a number from 0",
        ),
        (
            with(first_node, "\"nodes\":[5\n,\"a\""),
            "found \"\\\"\", expected a number",
        ),
        (
            with("],\n\"edges\":[", "\n,1],\n\"edges\":["),
            "numbers in the last row",
        ),
        (
            with("\"edges\":[1", "\"edges\":[7"),
            "found 7, expected the number of a type of edges",
        ),
        (
            with("\"edges\":[1\n,1\n,6", "\"edges\":[1\n,1\n,7"),
            "found 7, expected the place of a node",
        ),
        (
            with("\"edges\":[1\n,1\n,6", "\"edges\":[1\n,1\n,72"),
            "found 72, expected the place of a node",
        ),
        (
            with("\"edges\":[", "\"edges\":[1\n,1\n,6\n,"),
            "no more edges than the nodes have",
        ),
        (
            with("\"edges\":[1\n,1\n,6\n,", "\"edges\":["),
            "found 18 edges, expected 19",
        ),
        (
            with("\"edge_count\",", "\"edge_cnt\","),
            "expected \"edge_count\" before this place",
        ),
        (
            with("\"edges\"", "\"edgse\""),
            "expected \"edges\" before this place",
        ),
        (
            with("\"snapshot\"", "\"snapshto\""),
            "expected \"snapshot\" before this place",
        ),
        (
            with("\"locations\"", "\"edges\""),
            "found \"edges\", expected each section once",
        ),
        (
            "{\"head\":{},\"samples\":[]}".to_owned(),
            "expected \"snapshot\" before this place",
        ),
        (small() + "x", "found \"x\", expected the end of the file"),
    ] {
        let said = read(&text).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}, not {expected}");
        assert!(said.starts_with("at byte "), "{said}");
    }
}

/// That all numbers of a graph are in their bounds.
fn walk(graph: &ObjectGraph) {
    let mut references = 0;
    for object in graph.objects() {
        let _ = graph.class(graph.class_of(object));
        let targets = graph.references(object);
        assert!(targets.iter().all(|target| target.index() < graph.len()));
        references += targets.len() as u64;
    }
    assert_eq!(references, graph.reference_count());
    assert!(
        graph
            .roots()
            .iter()
            .all(|root| root.object.index() < graph.len())
    );
}

#[test]
fn a_byte_that_is_another_never_panics() {
    let text = small().into_bytes();
    for place in 0..text.len() {
        for byte in *b"09,-\"]}{ \\\0\xff" {
            let mut damaged = text.clone();
            damaged[place] = byte;
            if let Ok(graph) = read(&damaged) {
                walk(&graph);
            }
        }
    }
}

proptest! {
    #[test]
    fn pieces_that_are_moved_never_panic(
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        length in 1..40usize,
    ) {
        let mut text = small().into_bytes();
        let from = from.index(text.len() - length);
        let piece: Vec<u8> = text.drain(from..from + length).collect();
        let to = to.index(text.len());
        text.splice(to..to, piece);
        if let Ok(graph) = read(&text) {
            walk(&graph);
        }
    }
}
