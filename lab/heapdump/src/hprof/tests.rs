//! Dumps that are written, read back and compared; damaged ones that must give errors.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Write as _};

use proptest::prelude::*;

use crate::hprof::writer::{ClassToWrite, DumpWriter};
use crate::*;

fn read(bytes: &[u8]) -> Result<ObjectGraph> {
    ObjectGraph::read(&mut Cursor::new(bytes))
}

/// A dump with something of everything: what the fuzzer starts from.
fn small(id_size: IdSize) -> Vec<u8> {
    let mut dump = DumpWriter::new(2, id_size);
    let class = |id, super_class, fields: &[FieldType]| ClassToWrite {
        id,
        super_class,
        fields: fields.to_vec(),
        ..ClassToWrite::default()
    };
    dump.class("java/lang/Object", &class(0x1000, 0, &[]));
    dump.class("java/lang/Class", &class(0x1100, 0x1000, &[]));
    dump.class(
        "a/Base",
        &class(0x1200, 0x1000, &[FieldType::Int, FieldType::Object]),
    );
    dump.class(
        "a/Node",
        &ClassToWrite {
            statics: vec![(FieldType::Object, 0x2000), (FieldType::Long, 5)],
            loader: 0x2040,
            ..class(0x1300, 0x1200, &[FieldType::Object, FieldType::Byte])
        },
    );
    dump.end_segment();
    let node = [
        (FieldType::Object, 0x2020),
        (FieldType::Byte, 1),
        (FieldType::Int, 2),
        (FieldType::Object, 0x2040),
    ];
    dump.instance(0x2000, 0x1300, &node);
    dump.object_array(0x2020, 0x1400, &[0x2000, 0, 0x2040, 0x9999]);
    dump.primitive_array(0x2040, FieldType::Char, 10);
    dump.name("[La/Node;", 0x1400);
    for kind in RootKind::ALL {
        dump.root(kind, 0x2000);
    }
    dump.root(RootKind::StickyClass, 0x1000);
    dump.finish()
}

#[test]
fn a_small_dump_is_what_was_written() {
    for id_size in [IdSize::Four, IdSize::Eight] {
        let graph = read(&small(id_size)).unwrap();
        assert_eq!(graph.len(), 7);
        let at = |address| {
            let found = graph.objects().find(|o| graph.address(*o) == address);
            found.unwrap()
        };
        let (node, array, chars) = (at(0x2000), at(0x2020), at(0x2040));
        // Fields of the class come before those of its superclass.
        assert_eq!(graph.references(node), [array, chars]);
        assert_eq!(graph.references(array), [node, chars]);
        assert_eq!(graph.dangling_references(), 1);
        assert_eq!(graph.references(at(0x1300)), [at(0x1200), chars, node]);
        assert_eq!(graph.class(graph.class_of(node)).name, "a/Node");
        assert_eq!(graph.class(graph.class_of(array)).name, "[La/Node;");
        assert_eq!(graph.class(graph.class_of(chars)).name, "[C");
        assert_eq!(
            graph.class(graph.class_of(at(0x1300))).name,
            "java/lang/Class"
        );
        let class = graph.class(graph.class_of(node));
        assert_eq!(class.object, Some(at(0x1300)));
        assert_eq!(graph.kind(array), ObjectKind::ObjectArray);
        assert_eq!(graph.last_instance_of("a.Node"), Some(node));
        assert_eq!(graph.last_instance_of("a/Base"), None);
        for (class, last) in [
            ("[La/Node;", array),
            ("a.Node[]", array),
            ("char[]", chars),
            ("[C", chars),
        ] {
            assert_eq!(graph.last_instance_of(class), Some(last), "{class}");
        }
        let [first, second] = graph.roots() else {
            panic!("{:?}", graph.roots())
        };
        assert_eq!((first.object, second.object), (at(0x1000), node));
        assert!(first.kinds.contains(RootKind::StickyClass));
        assert_eq!(second.kinds.iter().count(), 16);
        // The node and the array end where the next one begins, under the usual layout of 8-byte identifiers.
        if id_size == IdSize::Eight {
            assert_eq!(
                graph.layout().unwrap().name,
                "HotSpot, compressed references"
            );
            assert_eq!(graph.size_bytes(node), 32);
            assert_eq!(graph.size_bytes(array), 32);
            assert_eq!(graph.size_bytes(chars), 40);
        }
    }
}

#[test]
fn the_seed_of_the_fuzzer_is_the_small_dump() {
    for (id_size, name) in [(IdSize::Four, "small-4"), (IdSize::Eight, "small-8")] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/hprof");
        let path = format!("{folder}/{name}.hprof");
        if std::env::var_os("WARMSWAP_BLESS").is_some() {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(&path, small(id_size)).unwrap();
        }
        let seed = std::fs::read(&path).unwrap();
        assert!(
            seed == small(id_size),
            "{path} is old; run this test with WARMSWAP_BLESS=1"
        );
    }
}

#[test]
fn errors_name_place_and_expectation() {
    let cases: &[(&[u8], &str)] = &[
        (
            b"",
            "at byte 0: expected \"JAVA PROFILE 1.0.1\", 1.0.2 or 1.0.3, or V8's JSON, found an empty file",
        ),
        (b"JAVA PROFILE 1.0.9\0\0\0\0\x08", "at byte 0: expected"),
        (
            b"JAVA PROFILE 1.0.2\0\0\0\0\x05\0\0\0\0\0\0\0\0",
            "at byte 19: found 5, expected 4 or 8",
        ),
        (
            b"JAVA PROFILE 1.0.2\0\0\0\0\x08\0\0\0\0",
            "at byte 23: the file ends, expected the time of the dump",
        ),
    ];
    for (bytes, expected) in cases {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

fn in_segment(body: &[u8], length: u32) -> Vec<u8> {
    let mut bytes = DumpWriter::new(2, IdSize::Four).finish();
    // Without the empty segment and the end record.
    bytes.truncate(31);
    bytes.extend([0x0c, 0, 0, 0, 0]);
    bytes.extend(length.to_be_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn hostile_lengths_are_errors_before_memory_is_taken() {
    // An instance of 4 GiB; one of 8 MiB that is not there; an array of 2^32 references.
    let instance = [0x21, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2];
    let huge = [&instance[..], &[0xff; 4]].concat();
    let error = read(&in_segment(&huge, u32::MAX)).unwrap_err();
    assert!(matches!(error, DumpError::Unexpected { .. }), "{error}");
    let absent = [&instance[..], &[0, 0x80, 0, 0]].concat();
    let error = read(&in_segment(&absent, u32::MAX)).unwrap_err();
    assert!(matches!(error, DumpError::Ended { .. }), "{error}");
    let array = [
        0x22, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2,
    ];
    let error = read(&in_segment(&array, u32::MAX)).unwrap_err();
    assert!(matches!(error, DumpError::Overrun { .. }), "{error}");
    let error = read(&in_segment(&[0x33], 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "at byte 40: found 51, expected the tag of an object or root"
    );
}

#[test]
fn classes_that_inherit_from_each_other_are_an_error() {
    let mut dump = DumpWriter::new(1, IdSize::Eight);
    for (id, super_class) in [(8, 16), (16, 8)] {
        let class = ClassToWrite {
            id,
            super_class,
            ..ClassToWrite::default()
        };
        dump.class("a/Cycle", &class);
    }
    let error = read(&dump.finish()).unwrap_err();
    assert!(matches!(error, DumpError::TooMany { .. }), "{error}");
}

#[test]
fn what_is_no_dump_is_named() {
    let cases: &[(&[u8], &str)] = &[
        (
            b"JAVA PROFILE 1.0.1, created Sat Nov 28 10:00:00 2026\n",
            "text form",
        ),
        (b"JAVA PROFILE 2.0\0 ", "another version"),
        (b"\0\x12portable heap dump\0\0\0\x06", "PHD"),
        (b"\x7fELF\x02\x01\x01\0", "a core dump"),
        (b"PK\x03\x04\x14\0", "a zip archive"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd"),
        (&[0; 100], "zeros"),
    ];
    for (bytes, expected) in cases {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let folder = ObjectGraph::open(std::env::temp_dir()).unwrap_err();
    assert!(folder.to_string().ends_with("found a folder"), "{folder}");
}

/// Compresses by gzip, a member for each piece.
fn gzip<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut packed = Vec::new();
    for piece in pieces {
        let mut member = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        member.write_all(piece).unwrap();
        packed = member.finish().unwrap();
    }
    packed
}

#[test]
fn compressed_dumps_of_one_member_or_many_are_read() {
    let bytes = small(IdSize::Eight);
    for packed in [gzip([&bytes[..]]), gzip(bytes.chunks(7))] {
        assert_eq!(read(&packed).unwrap().len(), 7);
        let cut = read(&packed[..packed.len() - 9]).unwrap_err();
        assert!(matches!(cut, DumpError::CutOff { .. }), "{cut}");
    }
    let twice = read(&gzip([&gzip([&bytes[..]])[..]])).unwrap_err();
    assert!(twice.to_string().contains("by gzip twice"), "{twice}");
}

#[test]
fn zeros_behind_compressed_data_are_passed_over_and_nothing_else() {
    let bytes = small(IdSize::Eight);
    for packed in [gzip([&bytes[..]]), gzip(bytes.chunks(7))] {
        for zeros in [1, 512, 100_000] {
            let padded = [&packed[..], &vec![0; zeros]].concat();
            assert_eq!(read(&padded).unwrap().len(), 7);
            for garbage in [&b"x"[..], &[0, 1], &packed] {
                let padded = [&padded[..], garbage].concat();
                let error = read(&padded).unwrap_err().to_string();
                assert!(error.contains("behind the compressed data"), "{error}");
            }
        }
        let error = read(&[&packed[..], b"text"].concat()).unwrap_err();
        assert!(
            error.to_string().contains("behind the compressed data"),
            "{error}"
        );
    }
}

#[test]
fn a_pipe_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("dump");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&pipe, gzip([&small(IdSize::Eight)[..]])).unwrap());
        assert_eq!(ObjectGraph::open(&pipe).unwrap().len(), 7);
    });
}

#[test]
fn a_dump_that_ends_between_records_is_cut_off() {
    let whole = small(IdSize::Eight);
    // The end record has a head of nine bytes and no body.
    let cut = &whole[..whole.len() - 9];
    let padded = [cut, &[0; 1000]].concat();
    for bytes in [cut, &padded, &whole[..31]] {
        let error = read(bytes).unwrap_err();
        assert!(error.to_string().contains("cut off"), "{error}");
    }
    let in_a_segment = read(&in_segment(&[0; 100], 100)).unwrap_err();
    assert!(
        in_a_segment.to_string().contains("cut off"),
        "{in_a_segment}"
    );
    let spacious = [&whole[..], &[0; 1000]].concat();
    assert_eq!(read(&spacious).unwrap().len(), 7);
    let more = [&whole[..], &[0; 9], b"rubbish"].concat();
    let error = read(&more).unwrap_err();
    assert!(matches!(error, DumpError::Unexpected { .. }), "{error}");
}

/// Two dumps: a byte array, and two of them and a root.
fn two_dumps() -> Vec<u8> {
    let mut dump = DumpWriter::new(2, IdSize::Eight);
    dump.primitive_array(0x1000, FieldType::Byte, 8);
    dump.end_dump();
    dump.primitive_array(0x1000, FieldType::Byte, 8);
    dump.primitive_array(0x2000, FieldType::Byte, 8);
    dump.root(RootKind::JniGlobal, 0x2000);
    dump.finish()
}

#[test]
fn each_of_two_dumps_stands_for_itself() {
    let bytes = two_dumps();
    let graph = |which| ObjectGraph::read_dump(&mut Cursor::new(&bytes), which);
    for (which, number, objects, roots) in [
        (WhichDump::First, 1, 1, 0),
        (WhichDump::Last, 2, 2, 1),
        (WhichDump::Number(1), 1, 1, 0),
        (WhichDump::Number(2), 2, 2, 1),
    ] {
        let graph = graph(which).unwrap();
        assert_eq!((graph.dump_number(), graph.dumps_in_file()), (number, 2));
        assert_eq!((graph.len(), graph.roots().len()), (objects, roots));
    }
    let error = graph(WhichDump::Number(3)).unwrap_err();
    assert!(matches!(
        error,
        DumpError::NoSuchDump {
            wanted: 3,
            dumps: 2
        }
    ));
}

#[test]
fn two_records_of_the_old_form_are_two_dumps() {
    let array = |id: u8| [&[0x23, 0, 0, 0, id, 0, 0, 0, 0, 0, 0, 0, 2, 8, 7, 7][..]].concat();
    let mut bytes = in_segment(&array(8), 16);
    bytes.extend([0x0c, 0, 0, 0, 0, 0, 0, 0, 16]);
    bytes.extend(array(16));
    let graph = read(&bytes).unwrap();
    assert_eq!((graph.len(), graph.dumps_in_file()), (1, 2));
}

#[test]
fn files_one_behind_the_other_are_dumps_that_stand_for_themselves() {
    let files = [small(IdSize::Eight), two_dumps(), small(IdSize::Eight)];
    let objects = [7, 1, 2, 7];
    for bytes in [files.concat(), gzip(files.iter().map(Vec::as_slice))] {
        let graph = |which| ObjectGraph::read_dump(&mut Cursor::new(&bytes), which).unwrap();
        for (number, objects) in (1..).zip(objects) {
            let graph = graph(WhichDump::Number(number));
            assert_eq!(
                (graph.len(), graph.dumps_in_file()),
                (objects, 4),
                "{number}"
            );
        }
        assert_eq!(graph(WhichDump::First).len(), 7);
        let last = graph(WhichDump::Last);
        assert_eq!(last.dump_number(), 4);
        assert!(last.last_instance_of("a.Node").is_some());
    }
    let cut = &files[0][..files[0].len() - 9];
    let error = read(&[cut, &files[0]].concat()).unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
    let other = [small(IdSize::Eight), small(IdSize::Four)].concat();
    let last = ObjectGraph::read_dump(&mut Cursor::new(&other), WhichDump::Last);
    assert!(matches!(last, Err(DumpError::Unexpected { found: 4, .. })));
}

#[test]
fn a_damaged_second_dump_leaves_the_first() {
    let bytes = two_dumps();
    let cut = &bytes[..bytes.len() - 20];
    assert_eq!(read(cut).unwrap().len(), 1);
    let last = ObjectGraph::read_dump(&mut Cursor::new(cut), WhichDump::Last);
    assert!(matches!(last, Err(DumpError::Ended { .. })));
}

/// Objects one behind the other, of these sizes.
fn packed(sizes: &[u64], mut write: impl FnMut(usize, u64)) {
    let mut address = 0x7_0000_0000;
    for (place, bytes) in sizes.iter().enumerate() {
        write(place, address);
        address += bytes;
    }
}

#[test]
fn an_alignment_above_8_shows_in_the_addresses() {
    for alignment in [16, 32, 256] {
        let mut dump = DumpWriter::new(2, IdSize::Eight);
        // 16 bytes of header, and elements.
        let sizes: Vec<u64> = (0..100)
            .map(|n: u64| (16 + n).next_multiple_of(alignment))
            .collect();
        packed(&sizes, |place, id| {
            dump.primitive_array(id, FieldType::Byte, place as u32);
        });
        let graph = read(&dump.finish()).unwrap();
        let name = format!("HotSpot, compressed references, aligned to {alignment}");
        assert_eq!(graph.layout().unwrap().to_string(), name);
        let found: Vec<u64> = graph
            .objects()
            .map(|object| graph.size_bytes(object))
            .collect();
        assert_eq!(found, sizes);
    }
}

#[test]
fn full_class_pointers_beside_compressed_references_are_a_layout() {
    let mut dump = DumpWriter::new(2, IdSize::Eight);
    let sizes: Vec<u64> = (0..60)
        .map(|n: u64| (20 + 4 * n).next_multiple_of(8))
        .collect();
    packed(&sizes, |place, id| {
        dump.object_array(id, 0x1000, &vec![0; place]);
    });
    let graph = read(&dump.finish()).unwrap();
    assert_eq!(
        graph.layout().unwrap().name,
        "HotSpot, full class pointers, packed arrays"
    );
}

/// A heap of arrays and 50 instances of a class of one int, each followed by what `behind` says.
fn heap_of(class: &str, field: &'static str, value: u64, bytes: u64, gaps: bool) -> ObjectGraph {
    let mut dump = DumpWriter::new(2, IdSize::Eight);
    let written = ClassToWrite {
        id: 0x1000,
        fields: vec![FieldType::Int],
        field_names: vec![field],
        ..ClassToWrite::default()
    };
    dump.class(class, &written);
    let sizes: Vec<u64> = (0..150)
        .map(|n| match n % 3 {
            0 => bytes,
            // Another object was there, which is gone.
            1 if gaps && n % 2 == 0 => 24 + 64,
            _ => 24,
        })
        .collect();
    packed(&sizes, |place, id| match place % 3 {
        0 => {
            dump.instance(id, 0x1000, &[(FieldType::Int, value)]);
        }
        _ => {
            dump.primitive_array(id, FieldType::Byte, 8);
        }
    });
    read(&dump.finish()).unwrap()
}

fn instance_bytes(graph: &ObjectGraph) -> BTreeSet<u64> {
    let instances = graph
        .objects()
        .filter(|object| graph.kind(*object) == ObjectKind::Instance);
    instances.map(|object| graph.size_bytes(object)).collect()
}

#[test]
fn fields_that_only_the_virtual_machine_knows_count() {
    // Header and int take 16 bytes; two words are added to them.
    for gaps in [false, true] {
        let graph = heap_of("java/lang/Thread", "priority", 5, 32, gaps);
        assert_eq!(instance_bytes(&graph), BTreeSet::from([32]));
        assert!(graph.layout_fit() > if gaps { 0.7 } else { 0.99 });
    }
}

#[test]
fn the_stack_of_a_parked_virtual_thread_counts() {
    // 100 words, and four words of bits for the 200 places of compressed references in them.
    let bytes = 16 + 16 + 100 * 8 + 4 * 8;
    let graph = heap_of("jdk/internal/vm/StackChunk", "size", 100, bytes, false);
    assert_eq!(instance_bytes(&graph), BTreeSet::from([bytes]));
}

#[test]
fn identifiers_that_count_objects_are_no_addresses() {
    for step in [1, 8, 12] {
        let mut dump = DumpWriter::new(2, IdSize::Eight);
        for number in 1..100 {
            dump.primitive_array(number * step, FieldType::Byte, 100);
        }
        let graph = read(&dump.finish()).unwrap();
        assert!(!graph.has_addresses(), "step {step}");
        assert!(
            graph
                .objects()
                .all(|object| graph.size_bytes(object) == 120)
        );
    }
    assert!(read(&small(IdSize::Eight)).unwrap().has_addresses());
}

#[test]
fn class_names_with_dots_are_those_with_slashes() {
    for (in_file, name) in [
        ("com.example.Mark", "com/example/Mark"),
        ("com/example/Mark", "com/example/Mark"),
        ("java.lang.String[]", "[Ljava/lang/String;"),
        ("int[][]", "[[I"),
        ("byte[]", "[B"),
        ("a/Lambda.0x80", "a/Lambda.0x80"),
    ] {
        let mut dump = DumpWriter::new(3, IdSize::Four);
        let class = ClassToWrite {
            id: 0x1000,
            ..ClassToWrite::default()
        };
        dump.class(in_file, &class);
        dump.instance(0x2000, 0x1000, &[]);
        let graph = read(&dump.finish()).unwrap();
        let mark = graph.last_instance_of(&name.replace('/', "."));
        assert!(mark.is_some() || name.contains(['[', '.']), "{in_file}");
        assert!(graph.last_instance_of(in_file).is_some(), "{in_file}");
        let instance = graph.objects().next_back().unwrap();
        assert_eq!(graph.class(graph.class_of(instance)).name, name);
    }
}

/// A heap to be written: addresses are places times 16.
#[derive(Clone, Debug)]
enum Item {
    Instance { class: usize, values: Vec<u64> },
    Objects(Vec<u64>),
    Values(FieldType, u32),
}

#[derive(Clone, Debug)]
struct Model {
    id_size: IdSize,
    /// Fields of each class; each class but the first extends the one before it, or none.
    classes: Vec<(Vec<FieldType>, bool)>,
    /// In the order of the file, with their places.
    items: Vec<(u64, Item)>,
    roots: Vec<(RootKind, u64)>,
    segment_items: usize,
}

const CLASSES_AT: u64 = 0x10_0000;
const ARRAY_CLASS: u64 = 0x20_0000;

fn class_id(class: usize) -> u64 {
    CLASSES_AT + class as u64 * 256
}

impl Model {
    /// Fields of an instance in the order of the dump.
    fn fields(&self, class: usize) -> Vec<FieldType> {
        let (own, extends) = &self.classes[class];
        let mut fields = own.clone();
        if *extends && class > 0 {
            fields.extend(self.fields(class - 1));
        }
        fields
    }

    fn write(&self) -> Vec<u8> {
        let mut dump = DumpWriter::new(2, self.id_size);
        let mut items = self.items.iter();
        // Classes come before, between and behind their instances.
        for class in 0..self.classes.len() {
            let (own, extends) = &self.classes[class];
            let extends = *extends && class > 0;
            let written = ClassToWrite {
                id: class_id(class),
                super_class: if extends { class_id(class - 1) } else { 0 },
                fields: own.clone(),
                ..ClassToWrite::default()
            };
            dump.class(&format!("C{class}"), &written);
            for item in items.by_ref().take(self.segment_items) {
                self.write_item(&mut dump, item);
            }
            dump.end_segment();
        }
        items.for_each(|item| self.write_item(&mut dump, item));
        for (kind, address) in &self.roots {
            dump.root(*kind, *address);
        }
        dump.finish()
    }

    fn write_item(&self, dump: &mut DumpWriter, (place, item): &(u64, Item)) {
        let id = place * 16;
        match item {
            Item::Instance { class, values } => {
                let values: Vec<_> = self
                    .fields(*class)
                    .into_iter()
                    .zip(values.iter().copied())
                    .collect();
                dump.instance(id, class_id(*class), &values);
            }
            Item::Objects(elements) => {
                dump.object_array(id, ARRAY_CLASS, elements);
            }
            Item::Values(kind, length) => {
                dump.primitive_array(id, *kind, *length);
            }
        }
    }

    fn compare(&self, graph: &ObjectGraph) {
        let mut expected: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for class in 0..self.classes.len() {
            let extends = self.classes[class].1 && class > 0;
            let references = extends.then(|| class_id(class - 1));
            expected.insert(class_id(class), references.into_iter().collect());
        }
        for (place, item) in &self.items {
            let references = match item {
                Item::Instance { class, values } => self
                    .fields(*class)
                    .into_iter()
                    .zip(values)
                    .filter(|(kind, _)| *kind == FieldType::Object)
                    .map(|(_, value)| *value)
                    .collect(),
                Item::Objects(elements) => elements.clone(),
                Item::Values(..) => Vec::new(),
            };
            expected.insert(place * 16, references);
        }
        let addresses: Vec<u64> = graph.objects().map(|o| graph.address(o)).collect();
        assert!(addresses.iter().eq(expected.keys()));
        for object in graph.objects() {
            let found: Vec<u64> = graph
                .references(object)
                .iter()
                .map(|o| graph.address(*o))
                .collect();
            let mut wanted = expected[&graph.address(object)].clone();
            wanted.retain(|address| expected.contains_key(address));
            assert_eq!(found, wanted);
            assert!(graph.size_bytes(object) >= 8);
        }
        for (place, item) in &self.items {
            let object = addresses.binary_search(&(place * 16)).unwrap();
            let object = ObjectId(object as u32);
            let name = &graph.class(graph.class_of(object)).name;
            match item {
                Item::Instance { class, .. } => assert_eq!(*name, format!("C{class}")),
                Item::Objects(_) => assert_eq!(graph.kind(object), ObjectKind::ObjectArray),
                Item::Values(kind, _) => assert_eq!(Some(&**name), kind.array_class()),
            }
        }
        let roots: BTreeSet<_> = self
            .roots
            .iter()
            .filter(|(_, address)| expected.contains_key(address))
            .copied()
            .collect();
        let found: BTreeSet<_> = graph
            .roots()
            .iter()
            .flat_map(|root| {
                let address = graph.address(root.object);
                root.kinds.iter().map(move |kind| (kind, address))
            })
            .collect();
        assert_eq!(found, roots);
    }
}

fn field_type() -> impl Strategy<Value = FieldType> {
    prop_oneof![
        Just(FieldType::Object),
        prop::sample::select(FieldType::PRIMITIVE.to_vec())
    ]
}

fn model() -> impl Strategy<Value = Model> {
    let classes = prop::collection::vec(
        (prop::collection::vec(field_type(), 0..5), any::<bool>()),
        1..6,
    );
    // Places of objects that may exist, of none, and null.
    let address = || prop_oneof![5 => (1..60u64).prop_map(|place| place * 16), 1 => Just(0u64)];
    let item = (
        any::<prop::sample::Index>(),
        prop::collection::vec(address(), 30),
        prop_oneof![Just(0), Just(1), Just(2)],
        (
            prop::sample::select(FieldType::PRIMITIVE.to_vec()),
            0..40u32,
        ),
    );
    (
        prop_oneof![Just(IdSize::Four), Just(IdSize::Eight)],
        classes,
        prop::collection::btree_set(1..60u64, 0..40),
        prop::collection::vec(item, 40),
        prop::collection::vec(
            (prop::sample::select(RootKind::ALL.to_vec()), address()),
            0..20,
        ),
        (0..10usize, any::<u64>()),
    )
        .prop_map(
            |(id_size, classes, places, raw, roots, (segment_items, mix))| {
                let mut items: Vec<_> = places
                    .into_iter()
                    .zip(raw)
                    .map(|(place, (class, values, what, (kind, length)))| {
                        let item = match what {
                            0 => Item::Instance {
                                class: class.index(classes.len()),
                                values,
                            },
                            1 => Item::Objects(values[..length as usize % 30].to_vec()),
                            _ => Item::Values(kind, length),
                        };
                        (place, item)
                    })
                    .collect();
                if mix % 2 == 0 {
                    items.sort_by_key(|(place, _)| {
                        (place ^ mix).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    });
                }
                Model {
                    id_size,
                    classes,
                    items,
                    roots,
                    segment_items,
                }
            },
        )
}

proptest! {
    #[test]
    fn any_dump_reads_back_as_its_model(model in model()) {
        model.compare(&read(&model.write()).unwrap());
    }

    #[test]
    fn cut_and_damaged_dumps_never_panic(
        model in model(),
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u32), 0..6),
    ) {
        let mut bytes = model.write();
        let whole = bytes.len();
        for (place, bit) in flips {
            bytes[place.index(whole)] ^= 1 << bit;
        }
        let _ = read(&bytes);
        bytes.truncate(cut.index(whole));
        let _ = read(&bytes);
    }

    #[test]
    fn a_cut_inside_of_the_last_record_is_an_error(model in model(), left in 1..9usize) {
        // The last record has a head of nine bytes and no body.
        let mut bytes = model.write();
        bytes.truncate(bytes.len() - left);
        let ended = matches!(read(&bytes), Err(DumpError::Ended { .. }));
        prop_assert!(ended);
    }
}
