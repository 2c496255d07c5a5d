//! Writes small dumps for tests: whatever is asked for, in the order in which it is asked for.

use crate::hprof::format::{FieldType, IdSize, RootKind, heap_tag, tag};

/// The class of a dump that is to be written.
#[derive(Clone, Debug, Default)]
pub struct ClassToWrite {
    /// Identifier of the class object.
    pub id: u64,
    /// Identifier of the superclass; 0 for none.
    pub super_class: u64,
    /// Identifier of the class loader; 0 for none.
    pub loader: u64,
    /// Static fields.
    pub statics: Vec<(FieldType, u64)>,
    /// Types of the instance fields.
    pub fields: Vec<FieldType>,
    /// Names of the first of them.
    pub field_names: Vec<&'static str>,
}

/// A dump in memory.
#[derive(Debug)]
pub struct DumpWriter {
    id_size: IdSize,
    out: Vec<u8>,
    segment: Vec<u8>,
    strings: u64,
}

impl DumpWriter {
    /// Begins a dump of version 1.0.`minor`.
    pub fn new(minor: u8, id_size: IdSize) -> Self {
        let mut out = format!("JAVA PROFILE 1.0.{minor}\0").into_bytes();
        out.extend((id_size.bytes() as u32).to_be_bytes());
        out.extend([0; 8]);
        Self {
            id_size,
            out,
            segment: Vec::new(),
            strings: 0,
        }
    }

    /// Writes a class and its name.
    pub fn class(&mut self, name: &str, class: &ClassToWrite) -> &mut Self {
        self.name(name, class.id);
        self.segment.push(heap_tag::CLASS_DUMP);
        self.id(class.id);
        self.segment.extend([0; 4]);
        for id in [class.super_class, class.loader, 0, 0, 0, 0] {
            self.id(id);
        }
        self.segment.extend([0; 4]);
        // One constant, which is no reference.
        self.segment.extend([0, 1, 0, 7]);
        self.value(FieldType::Byte, 1, true);
        self.segment
            .extend((class.statics.len() as u16).to_be_bytes());
        for (kind, value) in &class.statics {
            self.id(1);
            self.value(*kind, *value, true);
        }
        self.segment
            .extend((class.fields.len() as u16).to_be_bytes());
        for (place, kind) in class.fields.iter().enumerate() {
            let name = class
                .field_names
                .get(place)
                .map_or(1, |name| self.string(name));
            self.id(name);
            self.segment.push(code(*kind));
        }
        self
    }

    /// Names a class.
    pub fn name(&mut self, name: &str, class: u64) -> &mut Self {
        let string = self.string(name);
        let string = self.encoded(string);
        let class = self.encoded(class);
        let record = [&[0; 4], &*class, &[0; 4], &*string].concat();
        self.record(tag::LOAD_CLASS, &record);
        self
    }

    /// Writes a string; its identifier.
    fn string(&mut self, text: &str) -> u64 {
        self.strings += 1;
        let string = self.encoded(self.strings);
        self.record(tag::UTF8, &[&string, text.as_bytes()].concat());
        self.strings
    }

    /// Writes an instance with its fields: those of its class, then those of its superclass, and so on.
    pub fn instance(&mut self, id: u64, class: u64, fields: &[(FieldType, u64)]) -> &mut Self {
        self.segment.push(heap_tag::INSTANCE_DUMP);
        self.id(id);
        self.segment.extend([0; 4]);
        self.id(class);
        let id_bytes = self.id_size.bytes();
        let bytes: u64 = fields.iter().map(|(kind, _)| kind.bytes(id_bytes)).sum();
        self.segment.extend((bytes as u32).to_be_bytes());
        for (kind, value) in fields {
            self.value(*kind, *value, false);
        }
        self
    }

    /// Writes an array of references.
    pub fn object_array(&mut self, id: u64, class: u64, elements: &[u64]) -> &mut Self {
        self.segment.push(heap_tag::OBJECT_ARRAY_DUMP);
        self.id(id);
        self.segment.extend([0; 4]);
        self.segment.extend((elements.len() as u32).to_be_bytes());
        self.id(class);
        for element in elements {
            self.id(*element);
        }
        self
    }

    /// Writes an array of zeros.
    pub fn primitive_array(&mut self, id: u64, element: FieldType, length: u32) -> &mut Self {
        self.segment.push(heap_tag::PRIMITIVE_ARRAY_DUMP);
        self.id(id);
        self.segment.extend([0; 4]);
        self.segment.extend(length.to_be_bytes());
        self.segment.push(code(element));
        let end = self.segment.len() + length as usize * element.bytes(0) as usize;
        self.segment.resize(end, 0);
        self
    }

    /// Writes a root.
    pub fn root(&mut self, kind: RootKind, object: u64) -> &mut Self {
        let tag = (0..=u8::MAX).find(|tag| RootKind::from_tag(*tag) == Some(kind));
        self.segment.extend(tag);
        self.id(object);
        let end = self.segment.len() + kind.trailer_bytes(self.id_size) as usize;
        self.segment.resize(end, 0);
        self
    }

    /// Ends a segment of the heap dump; what comes next goes to another.
    pub fn end_segment(&mut self) -> &mut Self {
        let segment = std::mem::take(&mut self.segment);
        self.record(tag::HEAP_DUMP_SEGMENT, &segment);
        self
    }

    /// Ends the dump; what comes next goes to another.
    pub fn end_dump(&mut self) -> &mut Self {
        self.end_segment();
        self.record(tag::HEAP_DUMP_END, &[]);
        self
    }

    /// Ends the last dump, and the file.
    pub fn finish(mut self) -> Vec<u8> {
        self.end_dump();
        self.out
    }

    fn record(&mut self, tag: u8, body: &[u8]) {
        self.out.push(tag);
        self.out.extend([0; 4]);
        self.out.extend((body.len() as u32).to_be_bytes());
        self.out.extend(body);
    }

    fn encoded(&self, id: u64) -> Vec<u8> {
        let skipped = 8 - self.id_size.bytes() as usize;
        id.to_be_bytes()[skipped..].to_vec()
    }

    fn id(&mut self, id: u64) {
        let encoded = self.encoded(id);
        self.segment.extend(encoded);
    }

    fn value(&mut self, kind: FieldType, value: u64, with_type: bool) {
        if with_type {
            self.segment.push(code(kind));
        }
        let bytes = kind.bytes(self.id_size.bytes()) as usize;
        self.segment.extend(&value.to_be_bytes()[8 - bytes..]);
    }
}

fn code(kind: FieldType) -> u8 {
    (0..=u8::MAX)
        .find(|code| FieldType::from_code(*code) == Some(kind))
        .unwrap_or_default()
}
