//! Makes an object graph out of a dump, in two passes: what objects there are, then what they refer to.

mod edges;
mod resolve;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::error::{HprofError, Result};
use crate::format::{FieldType, IdSize, RootKind};
use crate::graph::{CLASS_BITS, CLASS_MASK, ObjectGraph, ObjectKind};
use crate::reader::{ClassDump, HprofReader, Instance, ObjectArray, PrimitiveArray, Visitor};

/// Numbers of objects are 32 bits wide.
const OBJECTS_MAX: usize = u32::MAX as usize;

/// Class numbers share 32 bits with the kind of object. Some are left for classes that a dump may lack.
const CLASSES_MAX: usize = CLASS_MASK as usize - 16;

impl ObjectGraph {
    /// Reads the dump at `path`.
    ///
    /// # Errors
    /// As [`ObjectGraph::read`]; the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let mut file = File::open(path).map_err(|source| HprofError::Io { offset: 0, source })?;
        Self::read(&mut file)
    }

    /// Reads a dump, twice.
    ///
    /// Memory while reading: about 60 bytes for an object and 8 for a reference, at worst a small multiple of the file.
    ///
    /// # Errors
    /// The file is damaged, cannot be read, changes meanwhile, or has more than 2³² - 1 objects.
    pub fn read(input: &mut (impl Read + Seek)) -> Result<Self> {
        let reader = open(input)?;
        let mut census = Census::new(reader.id_size());
        reader.visit(&mut census)?;
        let unfinished = resolve::resolve(census)?;
        let mut edges = edges::Edges::new(&unfinished);
        open(input)?.visit(&mut edges)?;
        edges.finish().attach(unfinished)
    }
}

fn open<R: Read + Seek>(input: &mut R) -> Result<HprofReader<&mut R>> {
    input
        .seek(SeekFrom::Start(0))
        .map_err(|source| HprofError::Io { offset: 0, source })?;
    HprofReader::new(input)
}

/// An object as the first pass sees it.
#[derive(Clone, Copy, Debug)]
struct Raw {
    address: u64,
    /// Kind and class; for an array of values, kind and place of its type in [`FieldType::PRIMITIVE`].
    class: u32,
    /// Elements of an array.
    length: u32,
    /// The place in the order of the file.
    ordinal: u32,
}

impl Raw {
    fn kind(self) -> u32 {
        self.class >> CLASS_BITS
    }
}

const INSTANCE: u32 = ObjectKind::Instance as u32;
const OBJECT_ARRAY: u32 = ObjectKind::ObjectArray as u32;
const PRIMITIVE_ARRAY: u32 = ObjectKind::PrimitiveArray as u32;
const CLASS: u32 = ObjectKind::Class as u32;

/// A class as the first pass sees it.
#[derive(Clone, Debug, Default)]
struct Draft {
    super_address: u64,
    super_class: Option<u32>,
    static_references: u64,
    static_primitive_bytes: u64,
    /// Of the fields that the class itself declares: bytes in the dump, and offsets of the references among them.
    dump_bytes: u32,
    reference_offsets: Vec<u32>,
    /// Of all fields of an instance, those of superclasses included.
    references: u64,
    primitive_bytes: u64,
}

/// The first pass: objects, classes, names and roots.
#[derive(Debug)]
struct Census {
    id_size: IdSize,
    objects: Vec<Raw>,
    has_too_many: bool,
    drafts: Vec<Draft>,
    class_numbers: FxHashMap<u64, u32>,
    strings: FxHashMap<u64, Box<str>>,
    class_names: Vec<(u64, u64)>,
    roots: Vec<(u64, RootKind)>,
}

impl Census {
    fn new(id_size: IdSize) -> Self {
        Self {
            id_size,
            objects: Vec::new(),
            has_too_many: false,
            drafts: Vec::new(),
            class_numbers: FxHashMap::default(),
            strings: FxHashMap::default(),
            class_names: Vec::new(),
            roots: Vec::new(),
        }
    }

    /// The number of the class at `address`, which may come later in the file.
    fn class_number(&mut self, address: u64) -> u32 {
        *self.class_numbers.entry(address).or_insert_with(|| {
            self.drafts.push(Draft::default());
            self.drafts.len() as u32 - 1
        })
    }

    fn push(&mut self, address: u64, kind: u32, class: u32, length: u32) {
        if self.objects.len() == OBJECTS_MAX || self.drafts.len() >= CLASSES_MAX {
            self.has_too_many = true;
            return;
        }
        self.objects.push(Raw {
            address,
            class: kind << CLASS_BITS | class,
            length,
            ordinal: self.objects.len() as u32,
        });
    }
}

impl Visitor for Census {
    fn string(&mut self, id: u64, text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.strings.insert(id, text.into_boxed_str());
    }

    fn load_class(&mut self, class: u64, name: u64) {
        self.class_names.push((class, name));
    }

    fn root(&mut self, kind: RootKind, object: u64) {
        self.roots.push((object, kind));
    }

    fn class(&mut self, class: &ClassDump) {
        let number = self.class_number(class.id);
        self.push(class.id, CLASS, number, 0);
        let id_bytes = self.id_size.bytes();
        let draft = &mut self.drafts[number as usize];
        draft.super_address = class.super_class;
        (draft.static_references, draft.static_primitive_bytes) = count(&class.static_fields);
        (draft.references, draft.primitive_bytes) = count(&class.instance_fields);
        draft.reference_offsets.clear();
        draft.dump_bytes = 0;
        for field in &class.instance_fields {
            if *field == FieldType::Object {
                draft.reference_offsets.push(draft.dump_bytes);
            }
            draft.dump_bytes += field.bytes(id_bytes) as u32;
        }
    }

    fn instance(&mut self, instance: Instance<'_>) {
        let class = self.class_number(instance.class);
        self.push(instance.id, INSTANCE, class, 0);
    }

    fn object_array(&mut self, array: ObjectArray) {
        let class = self.class_number(array.class);
        self.push(array.id, OBJECT_ARRAY, class, array.length);
    }

    fn primitive_array(&mut self, array: PrimitiveArray) {
        let place = FieldType::PRIMITIVE
            .iter()
            .position(|kind| *kind == array.element);
        let place = place.unwrap_or_default() as u32;
        self.push(array.id, PRIMITIVE_ARRAY, place, array.length);
    }
}

/// Number of references, and bytes of the other fields.
fn count(fields: &[FieldType]) -> (u64, u64) {
    let references = fields.iter().filter(|kind| **kind == FieldType::Object);
    let bytes = fields.iter().map(|kind| kind.bytes(0)).sum();
    (references.count() as u64, bytes)
}
