//! The records of a dump, one after the other.

use std::io::Read;

use crate::error::{DumpError, Result};
use crate::hprof::format::{FieldType, IdSize, RootKind, heap_tag, tag};
use crate::input::Input;
use crate::source;

/// Names are cut to this many bytes. The class file format allows 65,535.
const NAME_BYTES_MAX: u64 = 65_535;

/// An instance with more bytes of fields than this is an error. A class file has at most 65,535 fields of 8 bytes, so
/// that only long chains of superclasses could exceed it.
const INSTANCE_BYTES_MAX: u32 = 16 << 20;

/// Elements of an object array that are handed over at once.
const ELEMENTS_AT_ONCE: u64 = 1024;

/// What a class dump says. The vectors are those of the reader and are reused for the next class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassDump {
    /// Identifier of the class object.
    pub id: u64,
    /// Its superclass; 0 for none.
    pub super_class: u64,
    /// Objects that the class object refers to: class loader, signers, protection domain, static fields, constants.
    /// Null references are left out.
    pub references: Vec<u64>,
    /// Types of the static fields.
    pub static_fields: Vec<FieldType>,
    /// Types of the instance fields that the class itself declares, in the order of the instance's bytes.
    pub instance_fields: Vec<FieldType>,
    /// Identifiers of the strings that name these fields.
    pub instance_names: Vec<u64>,
}

/// An instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance<'a> {
    /// Its identifier.
    pub id: u64,
    /// Identifier of its class.
    pub class: u64,
    /// Its fields: those of its class, then those of the superclass, and so on.
    pub fields: &'a [u8],
}

/// An array of references. Its elements follow in calls of [`Visitor::elements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectArray {
    /// Its identifier.
    pub id: u64,
    /// Identifier of its class.
    pub class: u64,
    /// Number of elements.
    pub length: u32,
}

/// An array of values. The values are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimitiveArray {
    /// Its identifier.
    pub id: u64,
    /// Type of its elements.
    pub element: FieldType,
    /// Number of elements.
    pub length: u32,
}

/// Receives the records of a dump, in the order of the file.
#[allow(unused_variables)]
pub trait Visitor {
    /// A heap dump begins: the first of the file is number 1. False to pass over what it holds.
    fn begin_dump(&mut self, number: u32) -> bool {
        true
    }
    /// The heap dump ends, complete.
    fn end_dump(&mut self) {}
    /// A string; `text` is modified UTF-8, cut after 65,535 bytes.
    fn string(&mut self, id: u64, text: &[u8]) {}
    /// The class object `class` is named by the string `name`, in the form `java/lang/String`.
    fn load_class(&mut self, class: u64, name: u64) {}
    /// `object` is a root.
    fn root(&mut self, kind: RootKind, object: u64) {}
    /// A class.
    fn class(&mut self, class: &ClassDump) {}
    /// An instance.
    fn instance(&mut self, instance: Instance<'_>) {}
    /// An array of references.
    fn object_array(&mut self, array: ObjectArray) {}
    /// The next elements of the array that came last, 1,024 at most.
    fn elements(&mut self, ids: &[u64]) {}
    /// An array of values.
    fn primitive_array(&mut self, array: PrimitiveArray) {}
}

/// Where the reader is among the heap dumps of a file: one in all segments up to an end record, or in a record of its own.
#[derive(Debug, Default)]
struct Dump {
    number: u32,
    is_open: bool,
    is_wanted: bool,
}

impl Dump {
    fn begin(&mut self, visitor: &mut impl Visitor) {
        if !self.is_open {
            self.is_open = true;
            self.number = self.number.saturating_add(1);
            self.is_wanted = visitor.begin_dump(self.number);
        }
    }

    fn end(&mut self, visitor: &mut impl Visitor) {
        self.is_open = false;
        if std::mem::take(&mut self.is_wanted) {
            visitor.end_dump();
        }
    }

    /// The records of the file end at `offset`.
    fn complete(&self, offset: u64) -> Result<()> {
        let missing = match (self.number, self.is_open) {
            (0, _) => "the heap dump",
            (_, true) => "the end of the heap dump",
            (_, false) => return Ok(()),
        };
        Err(DumpError::CutOff { offset, missing })
    }
}

/// The format's name, up to the last digit of its version.
const MAGIC: &[u8] = b"JAVA PROFILE 1.0.";

/// Reads the header of a file of which some bytes were read before.
fn header<R: Read>(input: &mut Input<R>, mut magic: Vec<u8>) -> Result<IdSize> {
    let left = MAGIC.len() + 2 - magic.len();
    match input.read_to(left as u64, &mut magic, "the format's name") {
        Ok(()) | Err(DumpError::Ended { .. }) => {}
        Err(error) => return Err(error),
    }
    let Some([b'1'..=b'3', 0]) = magic.strip_prefix(MAGIC) else {
        let found = source::recognize(&magic);
        return Err(DumpError::NotADump { found });
    };
    let offset = input.offset();
    let id_size = match input.u4("the size of identifiers")? {
        4 => IdSize::Four,
        8 => IdSize::Eight,
        found => {
            return Err(DumpError::Unexpected {
                offset,
                found: found.into(),
                expected: "4 or 8 as the size of identifiers",
            });
        }
    };
    input.skip(8, "the time of the dump")?;
    Ok(id_size)
}

/// Reads a dump as a stream. Memory: the largest instance, besides the buffers.
#[derive(Debug)]
pub struct HprofReader<R> {
    input: Input<R>,
    id_size: IdSize,
    class: ClassDump,
    bytes: Vec<u8>,
    ids: Vec<u64>,
}

impl<R: Read> HprofReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The file is not a dump, or of an unknown version.
    pub fn new(inner: R) -> Result<Self> {
        let mut input = Input::new(inner);
        let id_size = header(&mut input, Vec::new())?;
        Ok(Self {
            input,
            id_size,
            class: ClassDump::default(),
            bytes: Vec::new(),
            ids: Vec::new(),
        })
    }

    /// The size of identifiers.
    pub fn id_size(&self) -> IdSize {
        self.id_size
    }

    /// Hands all records to `visitor`.
    ///
    /// # Errors
    /// The file is damaged or cannot be read. The visitor has seen everything before that place.
    pub fn visit(mut self, visitor: &mut impl Visitor) -> Result<()> {
        let mut dump = Dump::default();
        while !self.input.is_at_end()? {
            let offset = self.input.offset();
            let tag = self.input.u1("the tag of a record")?;
            if tag == MAGIC[0] {
                // Another file was appended to this one, whose dumps are complete.
                dump.complete(offset)?;
                self.appended()?;
                continue;
            }
            if tag == tag::PADDING {
                // A file that was made larger than what was written to it.
                self.input.zeros("the tag of a record")?;
                return dump.complete(offset);
            }
            self.input.skip(4, "the time of a record")?;
            let length = self.input.u4("the length of a record")?;
            self.input.enter(length.into());
            match tag {
                tag::UTF8 => self.string(visitor)?,
                tag::LOAD_CLASS => {
                    self.input.skip(4, "a class's serial number")?;
                    let class = self.id("a class")?;
                    self.input.skip(4, "a stack trace")?;
                    visitor.load_class(class, self.id("a class's name")?);
                }
                tag::HEAP_DUMP | tag::HEAP_DUMP_SEGMENT => {
                    dump.begin(visitor);
                    while dump.is_wanted && self.input.left() > 0 {
                        self.heap_record(visitor)?;
                    }
                    if tag == tag::HEAP_DUMP {
                        dump.end(visitor);
                    }
                }
                tag::HEAP_DUMP_END => {
                    dump.begin(visitor);
                    dump.end(visitor);
                }
                // Stack traces, threads, statistics, and what later versions add.
                _ => {}
            }
            self.input.leave()?;
        }
        dump.complete(self.input.offset())
    }

    /// Reads the header of an appended file behind its first byte.
    fn appended(&mut self) -> Result<()> {
        let offset = self.input.offset() + MAGIC.len() as u64 + 1;
        let id_size = header(&mut self.input, vec![MAGIC[0]])?;
        if id_size == self.id_size {
            return Ok(());
        }
        Err(DumpError::Unexpected {
            offset,
            found: id_size.bytes(),
            expected: "identifiers of the same size as in the dumps before",
        })
    }

    fn id(&mut self, expected: &'static str) -> Result<u64> {
        self.input.id(self.id_size, expected)
    }

    fn string(&mut self, visitor: &mut impl Visitor) -> Result<()> {
        let id = self.id("a string's identifier")?;
        let length = self.input.left().min(NAME_BYTES_MAX);
        self.bytes.clear();
        self.input.read_to(length, &mut self.bytes, "a string")?;
        visitor.string(id, &self.bytes);
        Ok(())
    }

    fn heap_record(&mut self, visitor: &mut impl Visitor) -> Result<()> {
        let offset = self.input.offset();
        let tag = self.input.u1("the tag of an object or root")?;
        if let Some(kind) = RootKind::from_tag(tag) {
            let object = self.id("a root's object")?;
            let trailer = kind.trailer_bytes(self.id_size);
            self.input.skip(trailer, "a root's place")?;
            visitor.root(kind, object);
            return Ok(());
        }
        match tag {
            heap_tag::CLASS_DUMP => self.class(visitor),
            heap_tag::INSTANCE_DUMP => self.instance(visitor),
            heap_tag::OBJECT_ARRAY_DUMP => self.object_array(visitor),
            heap_tag::PRIMITIVE_ARRAY_DUMP => self.primitive_array(visitor, true),
            heap_tag::PRIMITIVE_ARRAY_NODATA => self.primitive_array(visitor, false),
            // Room that was never written to.
            0 => Err(DumpError::CutOff {
                offset,
                missing: "an object or root",
            }),
            heap_tag::HEAP_DUMP_INFO => self.input.skip(4 + self.id_size.bytes(), "a heap's name"),
            _ => Err(DumpError::Unexpected {
                offset,
                found: tag.into(),
                expected: "the tag of an object or root",
            }),
        }
    }

    fn field_type(&mut self) -> Result<FieldType> {
        let offset = self.input.offset();
        let code = self.input.u1("a type")?;
        FieldType::from_code(code).ok_or(DumpError::Unexpected {
            offset,
            found: code.into(),
            expected: "the number of a type",
        })
    }

    /// Reads one identifier into the references of the class, unless it is null.
    fn class_reference(&mut self, expected: &'static str) -> Result<()> {
        let id = self.id(expected)?;
        if id != 0 {
            self.class.references.push(id);
        }
        Ok(())
    }

    /// Reads a typed value of a class dump.
    fn value(&mut self) -> Result<FieldType> {
        let kind = self.field_type()?;
        match kind {
            FieldType::Object => self.class_reference("a static reference")?,
            _ => self.input.skip(kind.bytes(0), "a static value")?,
        }
        Ok(kind)
    }

    fn class(&mut self, visitor: &mut impl Visitor) -> Result<()> {
        self.class.references.clear();
        self.class.static_fields.clear();
        self.class.instance_fields.clear();
        self.class.instance_names.clear();
        self.class.id = self.id("a class")?;
        self.input.skip(4, "a stack trace")?;
        self.class.super_class = self.id("a superclass")?;
        for part in ["a class loader", "signers", "a protection domain"] {
            self.class_reference(part)?;
        }
        self.input
            .skip(2 * self.id_size.bytes(), "reserved identifiers")?;
        self.input.skip(4, "an instance size")?;
        for _ in 0..self.input.u2("the number of constants")? {
            self.input.skip(2, "a constant's index")?;
            self.value()?;
        }
        for _ in 0..self.input.u2("the number of static fields")? {
            self.id("a static field's name")?;
            let kind = self.value()?;
            self.class.static_fields.push(kind);
        }
        for _ in 0..self.input.u2("the number of fields")? {
            let name = self.id("a field's name")?;
            self.class.instance_names.push(name);
            let kind = self.field_type()?;
            self.class.instance_fields.push(kind);
        }
        visitor.class(&self.class);
        Ok(())
    }

    fn instance(&mut self, visitor: &mut impl Visitor) -> Result<()> {
        let id = self.id("an object")?;
        self.input.skip(4, "a stack trace")?;
        let class = self.id("an object's class")?;
        let offset = self.input.offset();
        let length = self.input.u4("the length of an object")?;
        if length > INSTANCE_BYTES_MAX {
            return Err(DumpError::Unexpected {
                offset,
                found: length.into(),
                expected: "at most 16 MiB of fields",
            });
        }
        self.bytes.clear();
        self.input
            .read_to(length.into(), &mut self.bytes, "an object's fields")?;
        visitor.instance(Instance {
            id,
            class,
            fields: &self.bytes,
        });
        Ok(())
    }

    fn object_array(&mut self, visitor: &mut impl Visitor) -> Result<()> {
        const ELEMENTS: &str = "an array's elements";
        let id = self.id("an array")?;
        self.input.skip(4, "a stack trace")?;
        let length = self.input.u4("an array's length")?;
        let class = self.id("an array's class")?;
        if u64::from(length) * self.id_size.bytes() > self.input.left() {
            return Err(DumpError::Overrun {
                offset: self.input.offset(),
                expected: ELEMENTS,
            });
        }
        visitor.object_array(ObjectArray { id, class, length });
        let mut left = u64::from(length);
        while left > 0 {
            let count = left.min(ELEMENTS_AT_ONCE);
            self.bytes.clear();
            let bytes = count * self.id_size.bytes();
            self.input.read_to(bytes, &mut self.bytes, ELEMENTS)?;
            let id_size = self.id_size;
            let elements = self.bytes.chunks_exact(id_size.bytes() as usize);
            self.ids.clear();
            self.ids
                .extend(elements.filter_map(|bytes| id_size.decode(bytes)));
            visitor.elements(&self.ids);
            left -= count;
        }
        Ok(())
    }

    fn primitive_array(&mut self, visitor: &mut impl Visitor, with_data: bool) -> Result<()> {
        let id = self.id("an array")?;
        self.input.skip(4, "a stack trace")?;
        let length = self.input.u4("an array's length")?;
        let offset = self.input.offset();
        let element = self.field_type()?;
        if element == FieldType::Object {
            return Err(DumpError::Unexpected {
                offset,
                found: 2,
                expected: "the number of a primitive type",
            });
        }
        if with_data {
            let bytes = u64::from(length) * element.bytes(0);
            self.input.skip(bytes, "an array's elements")?;
        }
        visitor.primitive_array(PrimitiveArray {
            id,
            element,
            length,
        });
        Ok(())
    }
}
