//! How large objects are: by their fields, and by how far the next object is.
//!
//! A dump says neither how the virtual machine lays objects out nor which fields it adds to some classes. Both show in the
//! addresses: no object reaches into the next, and most end where the next one begins.

use rustc_hash::FxHashMap;

use crate::graph::CLASS_MASK;
use crate::hprof::build::{CLASS, Draft, INSTANCE, OBJECT_ARRAY, Raw};
use crate::hprof::format::{FieldType, IdSize};
use crate::hprof::layout::{ALIGNMENT, Layout};
use crate::sizes;

/// Objects that layouts are tried on, at most: from all parts of the heap.
const TRIED_MAX: usize = 1 << 20;

/// More than this between the fields and the next object is no field that the virtual machine added: those take some
/// words, or two times 128 bytes where a class is kept apart from others (`@Contended`).
const EXTRA_MAX: u64 = 512;

/// Bytes of a word on a stack.
const WORD_BYTES: u64 = 8;

/// References and bytes of other fields, in an instance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    pub references: u64,
    pub primitive_bytes: u64,
}

/// The sizes of a dump's objects.
#[derive(Debug)]
pub(super) struct Sizes<'a> {
    drafts: &'a [Draft],
    fields: &'a [Fields],
    /// Fields of `java.lang.Class`, which each class object has before its static fields.
    class_fields: Fields,
    pub layout: Layout,
    /// The share of objects that end where the next one begins.
    pub fit: f64,
    pub has_addresses: bool,
    /// Bytes that instances of a class have besides their fields, by class.
    extra: FxHashMap<u32, u64>,
}

/// Class objects in [`Sizes::extra`].
const ALL_CLASS_OBJECTS: u32 = u32::MAX;

impl<'a> Sizes<'a> {
    /// Finds the layout of objects that are sorted by address, and what the virtual machine adds to their fields.
    pub fn infer(
        objects: &[Raw],
        id_size: IdSize,
        drafts: &'a [Draft],
        fields: &'a [Fields],
        class_fields: Fields,
    ) -> Self {
        let candidates = Layout::candidates(id_size);
        let mut sizes = Self {
            drafts,
            fields,
            class_fields,
            layout: candidates[0],
            fit: 0.0,
            has_addresses: true,
            extra: FxHashMap::default(),
        };
        let step = objects.len().div_ceil(TRIED_MAX).max(1);
        let aligned = |alignment: u64| objects.iter().all(|raw| raw.address % alignment == 0);
        let mut best_fit = 0.0;
        for alignment in Layout::ALIGNMENTS
            .into_iter()
            .filter(|a| *a == ALIGNMENT || aligned(*a))
        {
            for candidate in candidates {
                let layout = candidate.aligned_to(alignment);
                let fit = sizes.fit_of(objects, &layout, step);
                if fit > best_fit {
                    (sizes.layout, best_fit) = (layout, fit);
                }
            }
        }
        sizes.has_addresses = sizes.are_addresses(objects, candidates, best_fit);
        if sizes.has_addresses {
            sizes.extra = sizes.extras(objects);
            sizes.fit = sizes.fit_of(objects, &sizes.layout, 1);
        } else {
            sizes.layout = candidates[0];
        }
        sizes
    }

    /// Where an object's last field ends, from its beginning.
    fn end(&self, raw: &Raw, layout: &Layout) -> u64 {
        let number = (raw.class & CLASS_MASK) as usize;
        match raw.kind() {
            INSTANCE => {
                let fields = self.fields[number];
                let end = layout.instance_end(fields.references, fields.primitive_bytes);
                end + match self.drafts[number].words_offset {
                    Some(_) => stack_bytes(raw.length, layout),
                    None => 0,
                }
            }
            OBJECT_ARRAY => layout.array_end(FieldType::Object, raw.length),
            CLASS => {
                let draft = &self.drafts[number];
                layout.instance_end(
                    self.class_fields.references + draft.static_references,
                    self.class_fields.primitive_bytes + draft.static_primitive_bytes,
                )
            }
            _ => layout.array_end(FieldType::PRIMITIVE[number], raw.length),
        }
    }

    fn bytes(&self, raw: &Raw, layout: &Layout) -> u64 {
        let extra = extra_key(raw).and_then(|key| self.extra.get(&key));
        let end = self.end(raw, layout) + extra.copied().unwrap_or_default();
        end.next_multiple_of(layout.alignment)
    }

    /// The share of every `step`th object that ends where the next one begins. Class objects do not count: they
    /// have fields that the dump leaves out.
    fn fit_of(&self, objects: &[Raw], layout: &Layout, step: usize) -> f64 {
        let (mut tried, mut fits) = (0_u64, 0_u64);
        for (raw, next) in pairs(objects)
            .step_by(step)
            .filter(|(raw, _)| raw.kind() != CLASS)
        {
            tried += 1;
            fits += u64::from(next.address - raw.address == self.bytes(raw, layout));
        }
        fits as f64 / tried.max(1) as f64
    }

    /// Whether identifiers can be addresses: objects begin at multiples of 8, and none reaches into the next, whatever the
    /// layout. In dumps of Android, the characters of a string lie inside of it.
    fn are_addresses(&self, objects: &[Raw], candidates: &[Layout], fit: f64) -> bool {
        let smallest = |raw: &Raw| candidates.iter().map(|layout| self.end(raw, layout)).min();
        let overlap =
            pairs(objects).filter(|(raw, next)| smallest(raw) > Some(next.address - raw.address));
        let overlap = overlap.count() as f64 / objects.len().max(1) as f64;
        let odd = objects
            .iter()
            .filter(|raw| raw.address % ALIGNMENT != 0)
            .count();
        odd * 10 <= objects.len() && overlap <= 0.5 && (overlap <= 0.01 || fit >= 0.1)
    }

    /// What instances of each class have besides their fields: the least distance to the next object that two of
    /// them and one in a hundred have, less their fields. More lies between where objects are gone.
    fn extras(&self, objects: &[Raw]) -> FxHashMap<u32, u64> {
        let alignment = self.layout.alignment;
        // Most objects have nothing but padding; these are only counted.
        let mut padded = vec![0_u32; self.drafts.len()];
        let mut slacks: FxHashMap<u32, FxHashMap<u64, u32>> = FxHashMap::default();
        for (raw, next) in pairs(objects) {
            let slack = (next.address - raw.address).checked_sub(self.end(raw, &self.layout));
            let (Some(key), Some(slack)) = (extra_key(raw), slack) else {
                continue;
            };
            match padded.get_mut(key as usize) {
                Some(count) if slack < alignment => *count = count.saturating_add(1),
                _ if slack < EXTRA_MAX + alignment => {
                    *slacks.entry(key).or_default().entry(slack).or_default() += 1;
                }
                _ => {}
            }
        }
        let extra = slacks.into_iter().filter_map(|(key, counts)| {
            let mut counts: Vec<(u64, u32)> = counts.into_iter().collect();
            counts.sort_unstable();
            let padded = padded.get(key as usize).copied().unwrap_or_default();
            let total = counts.iter().map(|(_, count)| count).sum::<u32>() + padded;
            if padded >= enough(total) {
                return None;
            }
            // Objects that end at different distances from a multiple of the alignment differ by less than it.
            let support = |least: u64| -> u32 {
                let alike = counts
                    .iter()
                    .filter(|(slack, _)| (least..least + alignment).contains(slack));
                alike.map(|(_, count)| count).sum()
            };
            let mut slacks = counts.iter().map(|(slack, _)| *slack);
            let least = slacks.find(|slack| support(*slack) >= enough(total))?;
            Some((key, least))
        });
        extra.collect()
    }

    /// The sizes; no object reaches into the next.
    pub fn all(&self, objects: &[Raw]) -> sizes::Sizes {
        let next_addresses = objects.iter().skip(1).map(|raw| raw.address);
        let nexts = next_addresses.chain([u64::MAX]);
        let mut sizes = sizes::Sizes::in_units_of(ALIGNMENT);
        for (raw, next) in objects.iter().zip(nexts) {
            let mut bytes = self.bytes(raw, &self.layout);
            if self.has_addresses {
                bytes = bytes.min(next - raw.address);
            }
            sizes.push(bytes.max(ALIGNMENT));
        }
        sizes
    }
}

/// Instances of so many that show what all have.
fn enough(instances: u32) -> u32 {
    (instances / 100).max(2)
}

/// Each object with the next.
fn pairs(objects: &[Raw]) -> impl Iterator<Item = (&Raw, &Raw)> {
    objects.iter().zip(objects.iter().skip(1))
}

/// What stands for the object in [`Sizes::extra`]; arrays have nothing besides their elements.
fn extra_key(raw: &Raw) -> Option<u32> {
    match raw.kind() {
        INSTANCE => Some(raw.class & CLASS_MASK),
        CLASS => Some(ALL_CLASS_OBJECTS),
        _ => None,
    }
}

/// Bytes of so many words of a stack, and of the bitmap behind them that says where references are: a bit for each
/// place that a reference can be at.
fn stack_bytes(words: u32, layout: &Layout) -> u64 {
    let words = u64::from(words);
    let places = words * (WORD_BYTES / layout.reference_bytes).max(1);
    WORD_BYTES * (words + places.div_ceil(u64::BITS.into()))
}
