use super::*;
use std::io::Cursor;
use warmswap_heapdump::hprof::writer::{ClassToWrite, DumpWriter};
use warmswap_heapdump::{FieldType, IdSize, RootKind};

const NODE: u64 = 0x10_0000;
const MARK: u64 = 0x10_0100;
const ARRAYS: u64 = 0x10_0200;

/// A page apart: a root (0x1000), its child (0x2000), a grandchild (0x3000), garbage (0x4000), the mark (0x5000), and
/// behind it a young array of 8 KiB (0x6000), which the grandchild refers to. Classes lie on one page.
fn graph() -> ObjectGraph {
    let mut dump = DumpWriter::new(2, IdSize::Eight);
    let class = |id, fields: &[FieldType]| ClassToWrite {
        id,
        fields: fields.to_vec(),
        ..ClassToWrite::default()
    };
    dump.class("Node", &class(NODE, &[FieldType::Object]));
    dump.class("Mark", &class(MARK, &[]));
    for (id, next) in [(0x1000, 0x2000), (0x2000, 0x3000), (0x4000, 0x1000)] {
        dump.instance(id, NODE, &[(FieldType::Object, next)]);
    }
    dump.object_array(0x3000, ARRAYS, &[0x6000, 0x1000, 0]);
    dump.instance(0x5000, MARK, &[]);
    dump.primitive_array(0x6000, FieldType::Byte, 8192 - 16);
    dump.root(RootKind::JavaFrame, 0x1000);
    dump.root(RootKind::JniGlobal, 0x5000);
    dump.root(RootKind::Unreachable, 0x4000);
    ObjectGraph::read(&mut Cursor::new(dump.finish())).unwrap()
}

fn study() -> HeapStudy {
    let graph = graph();
    heap_graph("test", &graph, 4, graph.last_instance_of("Mark"))
}

fn extent(objects: u64, bytes: u64, pages: u64) -> Extent {
    Extent {
        objects,
        bytes,
        pages: Some(pages),
    }
}

#[test]
fn depths_follow_the_shortest_path_and_count_classes() {
    let study = study();
    let found: Vec<Extent> = study.depths.iter().map(|row| row.extent).collect();
    // Two instances; child and both classes; the array of references; the young array.
    assert_eq!(
        found,
        [
            extent(2, 32, 2),
            extent(3, 48, 2),
            extent(1, 32, 1),
            extent(1, 8192, 2)
        ]
    );
    assert_eq!(study.deepest, 3);
    assert_eq!(study.deeper, extent(0, 0, 0));
    assert_eq!(study.unreached, extent(1, 16, 1));
}

#[test]
fn sets_are_united_and_grouped() {
    let study = study();
    assert_eq!(study.heap, extent(8, 8320, 8));
    // Classes lie behind the mark as well.
    assert_eq!(study.young, Some(extent(3, 8224, 3)));
    let set = study.launch_sets[1];
    assert_eq!(set.depth, 2);
    assert_eq!(set.near_root, extent(5, 80, 4));
    assert_eq!(set.near_root.grouped_pages(), 1);
    assert_eq!(set.launch, Some(extent(6, 8272, 6)));
    assert_eq!(set.launch.unwrap().grouped_pages(), 3);
}

#[test]
fn what_misleads_is_said() {
    let notes = |references: fn(u64) -> u64, step: u64, root: u64, class_root: Option<u64>| {
        let mut dump = DumpWriter::new(2, IdSize::Eight);
        let class = ClassToWrite {
            id: NODE,
            fields: vec![FieldType::Object],
            ..ClassToWrite::default()
        };
        dump.class("Node", &class);
        for number in 1..100 {
            let next = (FieldType::Object, references(number) * step);
            dump.instance(number * step, NODE, &[next]);
        }
        dump.root(RootKind::JavaFrame, root * step);
        if let Some(id) = class_root {
            dump.root(RootKind::StickyClass, id);
        }
        let graph = ObjectGraph::read(&mut Cursor::new(dump.finish())).unwrap();
        heap_graph("test", &graph, 1, None).notes
    };
    assert_eq!(notes(|number| number - 1, 16, 99, Some(NODE)), [""; 0]);
    let said = [
        "sizes and pages mislead: only 0.0 % of the objects end where",
        "no class is a root, as in dumps by jhsdb",
        "100.0 % of the references lead to objects that the dump lacks",
        "100.0 % of the roots lead to",
        "100.0 % of the bytes have no path",
    ];
    let found = notes(|number| number + 1000, 4096, 1000, None);
    assert_eq!(found.len(), said.len(), "{found:?}");
    for (found, said) in found.iter().zip(said) {
        assert!(found.starts_with(said), "{found}");
    }
}

#[test]
fn an_object_across_a_border_counts_on_both_pages() {
    let mut dump = DumpWriter::new(2, IdSize::Eight);
    dump.primitive_array(0x1ff0, FieldType::Long, 4);
    dump.primitive_array(0x2020, FieldType::Long, 1);
    let graph = ObjectGraph::read(&mut Cursor::new(dump.finish())).unwrap();
    let heap = heap_graph("test", &graph, 1, None).heap;
    assert_eq!(heap, extent(2, 72, 2));
}

#[test]
fn sizes_are_cumulative() {
    let study = study();
    assert_eq!(study.sizes.median_bytes, 16);
    assert_eq!(study.sizes.mean_bytes, 1040.0);
    let below_page = study.sizes.cumulative.last().unwrap();
    assert_eq!(below_page.objects, 7.0 / 8.0);
    assert_eq!(below_page.bytes, 128.0 / 8320.0);
}

#[test]
fn a_dump_without_objects_is_no_error() {
    let dump = DumpWriter::new(2, IdSize::Eight).finish();
    let graph = ObjectGraph::read(&mut Cursor::new(dump)).unwrap();
    let study = heap_graph("test", &graph, 2, None);
    assert_eq!(study.heap, extent(0, 0, 0));
    assert_eq!(study.launch_sets[0].launch, None);
}

/// Objects that are numbered from 1.
fn numbered() -> DumpWriter {
    let mut dump = DumpWriter::new(2, IdSize::Eight);
    let class = ClassToWrite {
        id: 1,
        fields: vec![FieldType::Object, FieldType::Int],
        ..ClassToWrite::default()
    };
    dump.class("Node", &class);
    for id in 2..102 {
        dump.instance(id, 1, &[(FieldType::Object, id - 1), (FieldType::Int, 7)]);
    }
    dump.root(RootKind::JniGlobal, 101);
    dump
}

#[test]
fn numbered_objects_have_sizes_and_no_pages() {
    let graph = ObjectGraph::read(&mut Cursor::new(numbered().finish())).unwrap();
    let study = heap_graph("test", &graph, 2, None);
    let heap = Extent {
        objects: 101,
        bytes: 100 * 24 + 16,
        pages: None,
    };
    assert_eq!((study.heap, study.layout_fit), (heap, None));
    assert_eq!(study.launch_sets[0].near_root.pages, None);
    assert!(study.notes[0].contains("no addresses"), "{:?}", study.notes);
}

#[test]
fn objects_of_numbered_ones_are_of_no_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbered.hprof");
    std::fs::write(&path, numbered().finish()).unwrap();
    let studied = heap_study(&path, Dumps::Each, 2, Some("Node"));
    assert!(matches!(studied, Err(StudyError::NoAddresses { .. })));
}

/// The snapshot that the fuzzer starts from: `lab/heapdump/src/v8/tests.rs` writes it.
#[test]
fn a_snapshot_of_v8_has_sizes_and_depths_and_no_pages() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/heapsnapshot");
    let path = Path::new(folder).join("small.heapsnapshot");
    let study = &heap_study(&path, Dumps::Each, 4, None).unwrap()[0];
    let depths = study.depths.iter().map(|row| row.extent);
    let depths: Vec<_> = depths.map(|at| (at.objects, at.bytes, at.pages)).collect();
    let buffer_bytes = 5 << 32;
    // The map and the embedder; table, key and buffer; the second key; its value.
    let expected = [(2, 116), (3, 72 + buffer_bytes), (1, 28), (1, 12)];
    assert_eq!(
        depths,
        expected.map(|(objects, bytes)| (objects, bytes, None))
    );
    assert_eq!((study.unreached.objects, study.deepest), (1, 3));
    assert_eq!((study.dump.as_str(), study.layout_fit), ("small", None));
    assert_eq!(
        study.notes,
        [
            "objects have numbers and no addresses: pages are unknown",
            "100.0 % of the bytes are native memory, outside of the heap that V8 collects",
        ]
    );
    let aged = heap_study(&path, Dumps::Each, 4, Some("Key"));
    assert!(matches!(aged, Err(StudyError::NoAddresses { .. })));
}

#[test]
fn each_dump_of_a_file_stands_for_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.hprof");
    let mut two = numbered();
    two.end_dump();
    two.primitive_array(0x1000, FieldType::Byte, 16);
    std::fs::write(&path, two.finish()).unwrap();

    let objects = |dumps: &str| -> Vec<u64> {
        let studied = heap_study(&path, dumps.parse().unwrap(), 2, None).unwrap();
        studied.iter().map(|study| study.heap.objects).collect()
    };

    assert_eq!(objects("first"), [101]);
    assert_eq!(objects("last"), [1]);
    assert_eq!(objects("2"), [1]);
    assert_eq!(objects("each"), [101, 1]);
    let error = heap_study(&path, Dumps::One(WhichDump::Number(3)), 2, None).unwrap_err();
    assert!(error.to_string().contains("number 3"), "{error}");
    let study = &heap_study(&path, Dumps::One(WhichDump::Last), 2, None).unwrap()[0];
    assert_eq!(study.notes[0], "dump 2 of 2 in this file");
}

#[test]
fn dumps_are_named_or_numbered() {
    for wrong in ["0", "-1", "second", ""] {
        assert!(wrong.parse::<Dumps>().is_err(), "{wrong}");
    }
}

#[test]
fn a_dump_without_an_object_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.hprof");
    std::fs::write(&path, DumpWriter::new(2, IdSize::Eight).finish()).unwrap();
    let error = heap_study(&path, Dumps::One(WhichDump::First), 4, None).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("heap dump 1 of the file has no object"),
        "{said}"
    );
}
