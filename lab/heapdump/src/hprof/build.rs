//! Makes an object graph out of a dump, in two passes: what objects there are, then what they refer to.

mod edges;
mod resolve;
mod sizes;

use std::io::{Read, Seek};

pub(crate) use resolve::class_name;

use rustc_hash::FxHashMap;

use crate::error::{DumpError, Result};
use crate::graph::{CLASS_BITS, CLASS_MASK, ObjectGraph, ObjectKind};
use crate::hprof::format::{FieldType, IdSize, RootKind};
use crate::hprof::reader::{
    ClassDump, HprofReader, Instance, ObjectArray, PrimitiveArray, Visitor,
};
use crate::open::WhichDump;
use crate::source;

/// Numbers of objects are 32 bits wide.
const OBJECTS_MAX: usize = u32::MAX as usize;

/// Class numbers share 32 bits with the kind of object. Some are left for classes that a dump may lack.
const CLASSES_MAX: usize = CLASS_MASK as usize - 16;

/// Reads one dump of a file, twice.
pub(crate) fn read(input: &mut (impl Read + Seek), which: WhichDump) -> Result<ObjectGraph> {
    let census = Census::of(input, which)?;
    let number = census.selection.chosen;
    let unfinished = resolve::resolve(census)?;
    let mut edges = edges::Edges::new(&unfinished, number);
    match reader(input)?.visit(&mut edges) {
        Err(error) if !edges.is_complete() => return Err(error),
        _ => {}
    }
    edges.finish().attach(unfinished)
}

fn reader<R: Read + Seek>(input: &mut R) -> Result<HprofReader<Box<dyn Read + '_>>> {
    HprofReader::new(source::unpacked(input)?)
}

/// The dump of the file that a pass reads.
#[derive(Debug)]
struct Selection {
    which: WhichDump,
    /// The number of the dump that was read; 0 before there was one.
    chosen: u32,
    is_complete: bool,
    /// Dumps in the file so far.
    dumps: u32,
}

impl Selection {
    fn new(which: WhichDump) -> Self {
        Self {
            which,
            chosen: 0,
            is_complete: false,
            dumps: 0,
        }
    }

    /// Whether dump `number` is wanted.
    fn begin(&mut self, number: u32) -> bool {
        self.dumps = number;
        let is_wanted = match self.which {
            WhichDump::First => number == 1,
            WhichDump::Last => true,
            WhichDump::Number(wanted) => number == wanted,
        };
        if is_wanted {
            (self.chosen, self.is_complete) = (number, false);
        }
        is_wanted
    }

    /// Whether all that is wanted was read, and a damage behind it does not matter.
    fn is_complete(&self) -> bool {
        self.is_complete && self.dumps > self.chosen
    }

    /// Names that follow may be those of another dump's classes.
    fn takes_names(&self) -> bool {
        !self.is_complete || self.which == WhichDump::Last
    }
}

/// An object as the first pass sees it.
#[derive(Clone, Copy, Debug)]
struct Raw {
    address: u64,
    /// Kind and class; for an array of values, kind and place of its type in [`FieldType::PRIMITIVE`].
    class: u32,
    /// Elements of an array; words of the stack that a [`STACK_CHUNK`] holds.
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

/// The class whose instances hold a part of a virtual thread's stack behind their fields, since Java 21.
const STACK_CHUNK: &str = "jdk/internal/vm/StackChunk";

/// Its field with the number of words there.
const STACK_CHUNK_WORDS: &str = "size";

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
    /// Where an instance says how many words follow its fields, for the class whose instances differ in size.
    words_offset: Option<u32>,
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
    /// Names by class.
    class_names: FxHashMap<u64, u64>,
    roots: Vec<(u64, RootKind)>,
    selection: Selection,
}

impl Census {
    fn of(input: &mut (impl Read + Seek), which: WhichDump) -> Result<Self> {
        let reader = reader(input)?;
        let mut census = Self::new(reader.id_size(), which);
        match reader.visit(&mut census) {
            Err(error) if !census.selection.is_complete() => return Err(error),
            _ => {}
        }
        match (which, census.selection.chosen) {
            (WhichDump::Number(wanted), 0) => Err(DumpError::NoSuchDump {
                wanted,
                dumps: census.selection.dumps,
            }),
            _ => Ok(census),
        }
    }

    fn new(id_size: IdSize, which: WhichDump) -> Self {
        Self {
            id_size,
            objects: Vec::new(),
            has_too_many: false,
            drafts: Vec::new(),
            class_numbers: FxHashMap::default(),
            strings: FxHashMap::default(),
            class_names: FxHashMap::default(),
            roots: Vec::new(),
            selection: Selection::new(which),
        }
    }

    /// Whether `string` is `text`.
    fn is_named(&self, string: u64, text: &str) -> bool {
        self.strings
            .get(&string)
            .is_some_and(|name| **name == *text)
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
    fn begin_dump(&mut self, number: u32) -> bool {
        let is_wanted = self.selection.begin(number);
        if is_wanted {
            // Of the last dump, those before it are forgotten.
            self.objects.clear();
            self.drafts.clear();
            self.class_numbers.clear();
            self.roots.clear();
        }
        is_wanted
    }

    fn end_dump(&mut self) {
        self.selection.is_complete = true;
    }

    fn string(&mut self, id: u64, text: &[u8]) {
        if !self.selection.takes_names() {
            return;
        }
        let text = String::from_utf8_lossy(text).into_owned();
        self.strings.insert(id, text.into_boxed_str());
    }

    fn load_class(&mut self, class: u64, name: u64) {
        if self.selection.takes_names() {
            self.class_names.insert(class, name);
        }
    }

    fn root(&mut self, kind: RootKind, object: u64) {
        self.roots.push((object, kind));
    }

    fn class(&mut self, class: &ClassDump) {
        let number = self.class_number(class.id);
        self.push(class.id, CLASS, number, 0);
        let id_bytes = self.id_size.bytes();
        let name = self.class_names.get(&class.id).copied();
        let is_stack_chunk = name.is_some_and(|name| self.is_named(name, STACK_CHUNK));
        let words = class
            .instance_names
            .iter()
            .map(|name| is_stack_chunk && self.is_named(*name, STACK_CHUNK_WORDS));
        let words: Vec<bool> = words.collect();
        let draft = &mut self.drafts[number as usize];
        draft.super_address = class.super_class;
        (draft.static_references, draft.static_primitive_bytes) = count(&class.static_fields);
        (draft.references, draft.primitive_bytes) = count(&class.instance_fields);
        draft.reference_offsets.clear();
        draft.dump_bytes = 0;
        for (field, is_words) in class.instance_fields.iter().zip(words) {
            match field {
                FieldType::Object => draft.reference_offsets.push(draft.dump_bytes),
                FieldType::Int if is_words => draft.words_offset = Some(draft.dump_bytes),
                _ => {}
            }
            draft.dump_bytes += field.bytes(id_bytes) as u32;
        }
    }

    fn instance(&mut self, instance: Instance<'_>) {
        let class = self.class_number(instance.class);
        let words = self.drafts[class as usize].words_offset.and_then(|offset| {
            let field = instance.fields.get(offset as usize..)?.first_chunk()?;
            Some(u32::from_be_bytes(*field))
        });
        self.push(instance.id, INSTANCE, class, words.unwrap_or_default());
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
