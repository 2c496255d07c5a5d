//! The second pass: what each object refers to.

use crate::error::{DumpError, Result};
use crate::graph::{ObjectGraph, ObjectId};
use crate::hprof::address_index::AddressIndex;
use crate::hprof::build::resolve::Unfinished;
use crate::hprof::build::{Selection, WhichDump};
use crate::hprof::format::IdSize;
use crate::hprof::reader::{ClassDump, Instance, ObjectArray, PrimitiveArray, Visitor};

/// Collects references in the order of the file.
#[derive(Debug)]
pub(super) struct Edges<'a> {
    unfinished: &'a Unfinished,
    index: AddressIndex<'a>,
    id_size: IdSize,
    selection: Selection,
    collected: Collected,
}

/// References in the order of the file, and where those of each object begin.
#[derive(Debug, Default)]
pub(super) struct Collected {
    starts: Vec<u64>,
    references: Vec<ObjectId>,
    dangling: u64,
}

impl<'a> Edges<'a> {
    /// Collects those of dump `number`.
    pub fn new(unfinished: &'a Unfinished, number: u32) -> Self {
        Self {
            unfinished,
            index: AddressIndex::new(&unfinished.graph.addresses),
            id_size: unfinished.id_size,
            selection: Selection::new(WhichDump::Number(number)),
            collected: Collected::default(),
        }
    }

    pub fn finish(self) -> Collected {
        self.collected
    }

    /// Whether the dump was read, and a damage behind it does not matter.
    pub fn is_complete(&self) -> bool {
        self.selection.is_complete()
    }

    fn begin(&mut self) {
        let start = self.collected.references.len() as u64;
        self.collected.starts.push(start);
    }

    fn refer(&mut self, address: u64) {
        if address == 0 {
            return;
        }
        match self.index.find(address) {
            Some(number) => self.collected.references.push(ObjectId(number)),
            None => self.collected.dangling += 1,
        }
    }
}

impl Visitor for Edges<'_> {
    fn begin_dump(&mut self, number: u32) -> bool {
        self.selection.begin(number)
    }

    fn end_dump(&mut self) {
        self.selection.is_complete = true;
    }

    fn class(&mut self, class: &ClassDump) {
        self.begin();
        self.refer(class.super_class);
        for address in &class.references {
            self.refer(*address);
        }
    }

    fn instance(&mut self, instance: Instance<'_>) {
        self.begin();
        let drafts = &self.unfinished.drafts;
        let mut rest = instance.fields;
        let mut next = self.unfinished.class_numbers.get(&instance.class).copied();
        // Chains of superclasses end: the first pass would have failed otherwise.
        while let Some(class) = next.map(|number| &drafts[number as usize]) {
            for offset in &class.reference_offsets {
                let field = rest.get(*offset as usize..).unwrap_or_default();
                if let Some(address) = self.id_size.decode(field) {
                    self.refer(address);
                }
            }
            rest = rest.get(class.dump_bytes as usize..).unwrap_or_default();
            next = class.super_class.filter(|_| !rest.is_empty());
        }
    }

    fn object_array(&mut self, _array: ObjectArray) {
        self.begin();
    }

    fn elements(&mut self, ids: &[u64]) {
        for address in ids {
            self.refer(*address);
        }
    }

    fn primitive_array(&mut self, _array: PrimitiveArray) {
        self.begin();
    }
}

impl Collected {
    /// The finished graph: references in the order of the objects.
    pub fn attach(mut self, unfinished: Unfinished) -> Result<ObjectGraph> {
        let Unfinished {
            mut graph,
            in_file,
            ordinals,
            ..
        } = unfinished;
        if self.starts.len() != in_file {
            return Err(DumpError::Changed);
        }
        self.starts.push(self.references.len() as u64);
        graph.dangling = self.dangling;
        let is_in_order = (0..)
            .zip(&ordinals)
            .all(|(place, ordinal)| place == *ordinal);
        if is_in_order && ordinals.len() == in_file {
            graph.reference_starts = self.starts;
            graph.references = self.references;
            return Ok(graph);
        }
        graph.references.reserve_exact(self.references.len());
        graph.reference_starts.reserve_exact(ordinals.len() + 1);
        graph.reference_starts.push(0);
        for ordinal in ordinals {
            let ordinal = ordinal as usize;
            let range = self.starts[ordinal] as usize..self.starts[ordinal + 1] as usize;
            graph.references.extend_from_slice(&self.references[range]);
            let end = graph.references.len() as u64;
            graph.reference_starts.push(end);
        }
        Ok(graph)
    }
}
