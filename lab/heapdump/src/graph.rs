//! The objects of a dump, and what they refer to.

use crate::hprof::{Layout, RootKind, class_name};
use crate::sizes::Sizes;

/// The number of an object. Objects are numbered from 0 in the order of their addresses, or identifiers; those of a V8
/// snapshot in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ObjectKind {
    /// An instance of a class.
    Instance,
    /// An array of references.
    ObjectArray,
    /// An array of values; in a snapshot of V8 also a string or a number.
    PrimitiveArray,
    /// The object that stands for a class and holds its static fields.
    Class,
    /// Memory outside of the heap, as V8 lists it beside its objects: buffers, and what the embedder has.
    Native,
}

/// A class of the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name, such as `java/lang/String` or `[I`, or a constructor's in JavaScript, or a type, such as `(closure)`; empty
    /// when the dump does not say.
    pub name: String,
    /// The object that stands for it, if it is in the dump.
    pub object: Option<ObjectId>,
    /// Its superclass.
    pub super_class: Option<ClassId>,
}

/// A set of root kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RootKinds(u16);

impl RootKinds {
    /// Whether `kind` is in the set.
    pub const fn contains(self, kind: RootKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Whether the set has a kind that keeps an object alive: any but [`RootKind::Unreachable`].
    pub const fn keeps_alive(self) -> bool {
        self.0 & !(1 << RootKind::Unreachable as u8) != 0
    }

    /// The kinds in the set.
    pub fn iter(self) -> impl Iterator<Item = RootKind> {
        RootKind::ALL
            .into_iter()
            .filter(move |kind| self.contains(*kind))
    }

    pub(crate) const fn with(self, kind: RootKind) -> Self {
        Self(self.0 | (1 << kind as u8))
    }
}

/// An object that the virtual machine holds on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The object.
    pub object: ObjectId,
    /// Why it is a root.
    pub kinds: RootKinds,
}

/// Bits of a class number; the three above are the object's kind.
pub(crate) const CLASS_BITS: u32 = 29;

/// The bits of the class number.
pub(crate) const CLASS_MASK: u32 = (1 << CLASS_BITS) - 1;

/// The object graph of a heap dump, in flat arrays.
///
/// What objects and references of a V8 snapshot are stands at [`crate::v8`]. In dumps of Java's virtual machines,
/// references are the fields and elements that are not null. What a `java.lang.ref.Reference` refers to is among them,
/// like any other field. Of a class object, they are superclass, class loader, signers,
/// protection domain and static fields; dumps of HotSpot leave out its own fields, such as cached names. The reference from an object to its class is not
/// among them: see [`ObjectGraph::class_of`] and [`Class::object`].
#[derive(Debug)]
pub struct ObjectGraph {
    pub(crate) layout: Option<Layout>,
    pub(crate) layout_fit: f64,
    pub(crate) has_addresses: bool,
    pub(crate) dump_number: u32,
    pub(crate) dumps_in_file: u32,
    pub(crate) addresses: Vec<u64>,
    pub(crate) sizes: Sizes,
    /// Kind and class. A class object has the number of the class that it stands for.
    pub(crate) classes_of: Vec<u32>,
    /// Where the references of each object begin, and the number of all at the end.
    pub(crate) reference_starts: Vec<u64>,
    pub(crate) references: Vec<ObjectId>,
    pub(crate) dangling: u64,
    pub(crate) dangling_roots: u64,
    pub(crate) classes: Vec<Class>,
    pub(crate) class_class: ClassId,
    pub(crate) roots: Vec<Root>,
}

impl ObjectGraph {
    /// Number of objects, class objects among them.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether the dump has no objects.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// All objects, in the order of their numbers.
    pub fn objects(&self) -> impl DoubleEndedIterator<Item = ObjectId> + ExactSizeIterator + use<> {
        (0..self.len() as u32).map(ObjectId)
    }

    /// Where the object lies, if [`ObjectGraph::has_addresses`]; its identifier otherwise.
    ///
    /// # Panics
    /// If there is no such object, as the following.
    pub fn address(&self, object: ObjectId) -> u64 {
        self.addresses[object.index()]
    }

    /// Bytes of the object in memory, header and padding included: by [`ObjectGraph::layout`], and never beyond the
    /// next object; or as the dump says them.
    pub fn size_bytes(&self, object: ObjectId) -> u64 {
        self.sizes.bytes(object.index())
    }

    /// What the object is.
    pub fn kind(&self, object: ObjectId) -> ObjectKind {
        match self.classes_of[object.index()] >> CLASS_BITS {
            0 => ObjectKind::Instance,
            1 => ObjectKind::ObjectArray,
            2 => ObjectKind::PrimitiveArray,
            3 => ObjectKind::Class,
            _ => ObjectKind::Native,
        }
    }

    /// The object's class; `java/lang/Class` for class objects.
    pub fn class_of(&self, object: ObjectId) -> ClassId {
        match self.kind(object) {
            ObjectKind::Class => self.class_class,
            _ => ClassId(self.classes_of[object.index()] & CLASS_MASK),
        }
    }

    /// The objects that `object` refers to, in the order of the dump; one that two fields refer to is there twice.
    pub fn references(&self, object: ObjectId) -> &[ObjectId] {
        let start = self.reference_starts[object.index()];
        let end = self.reference_starts[object.index() + 1];
        &self.references[start as usize..end as usize]
    }

    /// Number of references of all objects.
    pub fn reference_count(&self) -> u64 {
        self.references.len() as u64
    }

    /// References to addresses at which the dump has no object. They are left out.
    pub fn dangling_references(&self) -> u64 {
        self.dangling
    }

    /// Roots at addresses at which the dump has no object. They are left out.
    pub fn dangling_roots(&self) -> u64 {
        self.dangling_roots
    }

    /// The classes, by number. Besides those of the dump there are `java/lang/Class` and the arrays of values.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// A class.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn class(&self, class: ClassId) -> &Class {
        &self.classes[class.index()]
    }

    /// The roots, by object, each object once.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// The instance of the class `name` with the highest address. Both `a.b.C` and `a/b/C` name a class, and both `int[]` and
    /// `[I` one of arrays.
    ///
    /// A program that allocates it marks a moment: where addresses grow in the order of allocation, objects with greater
    /// numbers are younger. That holds for HotSpot's serial collector between a full collection and the next collection of
    /// the young generation, and stays true in a dump, whose full collection moves objects without changing their order.
    pub fn last_instance_of(&self, name: &str) -> Option<ObjectId> {
        let name = class_name(name);
        let named: Vec<bool> = self.classes.iter().map(|c| c.name == name).collect();
        let mut objects = self.objects().rev();
        objects.find(|object| named[self.class_of(*object).index()])
    }

    /// Whether identifiers are addresses. Some writers number objects, as V8 does; then sizes are those of the layout's
    /// fields, if the dump does not say them, and where an object lies is not known.
    pub fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// The number of this dump in its file, from 1.
    pub fn dump_number(&self) -> u32 {
        self.dump_number
    }

    /// Dumps in the file. Behind a damage in a dump that was not asked for, none is counted.
    pub fn dumps_in_file(&self) -> u32 {
        self.dumps_in_file
    }

    /// The layout that sizes are computed by; `None` for a dump that says them.
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// The share of objects that end exactly where the next one begins under [`ObjectGraph::layout`]: nearly 1 for a
    /// compacted heap, and no measure of anything where free space lies between objects.
    pub fn layout_fit(&self) -> f64 {
        self.layout_fit
    }
}
