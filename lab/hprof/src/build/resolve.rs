//! Between the passes: numbers for objects and classes, sizes, roots.

use crate::address_index::AddressIndex;
use crate::build::{
    CLASS, Census, Draft, INSTANCE, OBJECT_ARRAY, OBJECTS_MAX, PRIMITIVE_ARRAY, Raw,
};
use crate::error::{HprofError, Result};
use crate::format::{FieldType, IdSize, RootKind};
use crate::graph::{CLASS_BITS, CLASS_MASK, Class, ClassId, ObjectGraph, ObjectId};
use crate::graph::{Root, RootKinds};
use crate::layout::{ALIGNMENT, Layout};

use rustc_hash::FxHashMap;

/// No program comes near; a longer chain is a cycle.
const SUPERCLASSES_MAX: usize = 1024;

/// A graph without references.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub graph: ObjectGraph,
    pub drafts: Vec<Draft>,
    pub class_numbers: FxHashMap<u64, u32>,
    /// Objects in the file, repeated ones included.
    pub in_file: usize,
    /// The place in the file of each object.
    pub ordinals: Vec<u32>,
}

/// References and bytes of other fields, in an instance.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    references: u64,
    primitive_bytes: u64,
}

pub(super) fn resolve(mut census: Census) -> Result<Unfinished> {
    if census.has_too_many {
        return Err(HprofError::TooMany {
            what: "objects or classes",
            limit: OBJECTS_MAX as u64,
        });
    }
    let in_file = census.objects.len();
    let mut objects = std::mem::take(&mut census.objects);
    objects.sort_unstable_by_key(|raw| (raw.address, raw.ordinal));
    // An address of 0 is null; of objects at one address, the first of the file counts.
    objects.retain(|raw| raw.address != 0);
    objects.dedup_by_key(|raw| raw.address);

    let fields = total_fields(&mut census)?;
    let mut classes = classes(&mut census);
    let class_class = find_or_add(&mut classes, "java/lang/Class");
    let array_classes = FieldType::PRIMITIVE
        .map(|kind| find_or_add(&mut classes, kind.array_class().unwrap_or_default()));
    let sizes = Sizes {
        drafts: &census.drafts,
        fields: &fields,
        class_fields: fields
            .get(class_class as usize)
            .copied()
            .unwrap_or_default(),
    };
    let (layout, layout_fit) = sizes.best_layout(&objects, census.id_size);
    let units = sizes.units(&objects, &layout);
    for (number, raw) in objects.iter().enumerate() {
        if raw.kind() == CLASS {
            classes[(raw.class & CLASS_MASK) as usize].object = Some(ObjectId(number as u32));
        }
    }
    let class_of = |raw: &Raw| match raw.kind() {
        PRIMITIVE_ARRAY => {
            let place = (raw.class & CLASS_MASK) as usize;
            PRIMITIVE_ARRAY << CLASS_BITS | array_classes[place]
        }
        _ => raw.class,
    };
    let addresses: Vec<u64> = objects.iter().map(|raw| raw.address).collect();
    let graph = ObjectGraph {
        id_size: census.id_size,
        layout,
        layout_fit,
        sizes: units,
        classes_of: objects.iter().map(class_of).collect(),
        reference_starts: Vec::new(),
        references: Vec::new(),
        dangling: 0,
        classes,
        class_class: ClassId(class_class),
        roots: roots(&census.roots, &AddressIndex::new(&addresses)),
        addresses,
    };
    Ok(Unfinished {
        graph,
        drafts: census.drafts,
        class_numbers: census.class_numbers,
        in_file,
        ordinals: objects.iter().map(|raw| raw.ordinal).collect(),
    })
}

/// Links superclasses, and adds up the fields of each class and its superclasses.
fn total_fields(census: &mut Census) -> Result<Vec<Fields>> {
    for draft in &mut census.drafts {
        draft.super_class = match draft.super_address {
            0 => None,
            address => census.class_numbers.get(&address).copied(),
        };
    }
    let total = |draft: &Draft| {
        let mut fields = Fields::default();
        let mut next = Some(draft);
        for _ in 0..SUPERCLASSES_MAX {
            let Some(class) = next else {
                return Ok(fields);
            };
            fields.references += class.references;
            fields.primitive_bytes += class.primitive_bytes;
            next = class
                .super_class
                .map(|number| &census.drafts[number as usize]);
        }
        Err(HprofError::TooMany {
            what: "superclasses of one class",
            limit: SUPERCLASSES_MAX as u64,
        })
    };
    census.drafts.iter().map(total).collect()
}

/// The classes with their names. Takes the strings.
fn classes(census: &mut Census) -> Vec<Class> {
    let strings = std::mem::take(&mut census.strings);
    let mut classes: Vec<Class> = census
        .drafts
        .iter()
        .map(|draft| Class {
            name: String::new(),
            object: None,
            super_class: draft.super_class.map(ClassId),
        })
        .collect();
    for (address, name) in &census.class_names {
        if let Some(number) = census.class_numbers.get(address)
            && let Some(name) = strings.get(name)
        {
            classes[*number as usize].name = name.to_string();
        }
    }
    classes
}

/// The number of the class `name`, which is added if there is none.
fn find_or_add(classes: &mut Vec<Class>, name: &str) -> u32 {
    let place = classes.iter().position(|class| class.name == name);
    let place = place.unwrap_or_else(|| {
        classes.push(Class {
            name: name.to_owned(),
            object: None,
            super_class: None,
        });
        classes.len() - 1
    });
    place as u32
}

fn roots(raw: &[(u64, RootKind)], index: &AddressIndex<'_>) -> Vec<Root> {
    let mut found: Vec<(ObjectId, RootKind)> = raw
        .iter()
        .filter_map(|(address, kind)| Some((ObjectId(index.find(*address)?), *kind)))
        .collect();
    found.sort_unstable();
    let mut roots: Vec<Root> = Vec::new();
    for (object, kind) in found {
        match roots.last_mut() {
            Some(root) if root.object == object => root.kinds = root.kinds.with(kind),
            _ => roots.push(Root {
                object,
                kinds: RootKinds::default().with(kind),
            }),
        }
    }
    roots
}

struct Sizes<'a> {
    drafts: &'a [Draft],
    fields: &'a [Fields],
    /// Fields of `java.lang.Class`, which each class object has before its static fields.
    class_fields: Fields,
}

impl Sizes<'_> {
    fn bytes(&self, raw: &Raw, layout: &Layout) -> u64 {
        let number = (raw.class & CLASS_MASK) as usize;
        match raw.kind() {
            INSTANCE => {
                let fields = self.fields[number];
                layout.instance_bytes(fields.references, fields.primitive_bytes)
            }
            OBJECT_ARRAY => layout.array_bytes(FieldType::Object, raw.length),
            PRIMITIVE_ARRAY => layout.array_bytes(FieldType::PRIMITIVE[number], raw.length),
            _ => {
                let draft = &self.drafts[number];
                layout.instance_bytes(
                    self.class_fields.references + draft.static_references,
                    self.class_fields.primitive_bytes + draft.static_primitive_bytes,
                )
            }
        }
    }

    /// The layout under which most objects end where the next one begins, and how many do. Class objects do not count:
    /// they have fields that the dump leaves out.
    fn best_layout(&self, objects: &[Raw], id_size: IdSize) -> (Layout, f64) {
        let candidates = Layout::candidates(id_size);
        let pairs = || {
            objects
                .iter()
                .zip(objects.iter().skip(1))
                .filter(|(raw, _)| raw.kind() != CLASS)
        };
        let (mut best, mut best_fits) = (candidates[0], 0);
        for layout in candidates {
            let fits = pairs()
                .filter(|(raw, next)| next.address - raw.address == self.bytes(raw, layout))
                .count();
            if fits > best_fits {
                (best, best_fits) = (*layout, fits);
            }
        }
        let share = best_fits as f64 / pairs().count().max(1) as f64;
        (best, share)
    }

    /// Sizes in units of the alignment; no object reaches into the next.
    fn units(&self, objects: &[Raw], layout: &Layout) -> Vec<u32> {
        let next_addresses = objects.iter().skip(1).map(|raw| raw.address);
        objects
            .iter()
            .zip(next_addresses.chain([u64::MAX]))
            .map(|(raw, next)| {
                let bytes = self.bytes(raw, layout).min(next - raw.address);
                u32::try_from((bytes / ALIGNMENT).max(1)).unwrap_or(u32::MAX)
            })
            .collect()
    }
}
