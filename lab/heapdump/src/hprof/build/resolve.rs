//! Between the passes: numbers for objects and classes, sizes, roots.

use crate::error::{DumpError, Result};
use crate::graph::{CLASS_BITS, CLASS_MASK, Class, ClassId, ObjectGraph, ObjectId};
use crate::graph::{Root, RootKinds};
use crate::hprof::address_index::AddressIndex;
use crate::hprof::build::sizes::{Fields, Sizes};
use crate::hprof::build::{CLASS, Census, Draft, OBJECTS_MAX, PRIMITIVE_ARRAY, Raw};
use crate::hprof::format::{FieldType, IdSize, RootKind};

use rustc_hash::FxHashMap;

/// No program comes near; a longer chain is a cycle.
const SUPERCLASSES_MAX: usize = 1024;

/// A graph without references.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub id_size: IdSize,
    pub graph: ObjectGraph,
    pub drafts: Vec<Draft>,
    pub class_numbers: FxHashMap<u64, u32>,
    /// Objects in the file, repeated ones included.
    pub in_file: usize,
    /// The place in the file of each object.
    pub ordinals: Vec<u32>,
}

pub(super) fn resolve(mut census: Census) -> Result<Unfinished> {
    if census.has_too_many {
        return Err(DumpError::TooMany {
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
    let class_fields = fields.get(class_class as usize).copied();
    let sizes = Sizes::infer(
        &objects,
        census.id_size,
        &census.drafts,
        &fields,
        class_fields.unwrap_or_default(),
    );
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
    let (roots, dangling_roots) = roots(&census.roots, &AddressIndex::new(&addresses));
    let graph = ObjectGraph {
        layout: Some(sizes.layout),
        layout_fit: sizes.fit,
        has_addresses: sizes.has_addresses,
        dump_number: census.selection.chosen,
        dumps_in_file: census.selection.dumps,
        sizes: sizes.all(&objects),
        classes_of: objects.iter().map(class_of).collect(),
        reference_starts: Vec::new(),
        references: Vec::new(),
        dangling: 0,
        classes,
        class_class: ClassId(class_class),
        dangling_roots,
        roots,
        addresses,
    };
    Ok(Unfinished {
        id_size: census.id_size,
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
        Err(DumpError::TooMany {
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
            classes[*number as usize].name = class_name(name);
        }
    }
    classes
}

/// A class's name as HotSpot writes it: `java/lang/String`, `[Ljava/lang/String;` or `[I`. Android's runtime writes
/// `java.lang.String`, `java.lang.String[]` and `int[]`.
pub(crate) fn class_name(name: &str) -> String {
    let Some(element) = name.strip_suffix("[]") else {
        // A name with slashes has dots only where they belong.
        let is_dotted = !name.contains('/');
        return name.replace('.', if is_dotted { "/" } else { "." });
    };
    let primitive = FieldType::PRIMITIVE
        .iter()
        .find(|kind| kind.java_name() == element)
        .and_then(|kind| kind.array_class());
    match (primitive, element.ends_with("[]")) {
        (Some(array), _) => array.to_owned(),
        (None, true) => format!("[{}", class_name(element)),
        (None, false) => format!("[L{};", class_name(element)),
    }
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

/// The roots, and how many stand at addresses without an object.
fn roots(raw: &[(u64, RootKind)], index: &AddressIndex<'_>) -> (Vec<Root>, u64) {
    let mut found: Vec<(ObjectId, RootKind)> = raw
        .iter()
        .filter_map(|(address, kind)| Some((ObjectId(index.find(*address)?), *kind)))
        .collect();
    let dangling = (raw.len() - found.len()) as u64;
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
    (roots, dangling)
}
