//! The types of objects: where their references are.
//!
//! A type that lives on the heap implements [`Object`]; [`object!`](crate::object) writes the implementation. The
//! collector never calls code of the type: it knows the byte offsets of the references from the table here.
#![allow(unsafe_code)] // Where a type's references are is a promise.

use std::any::TypeId;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

use crate::header::MAX_TYPES;
use crate::reference::Field;

/// What may be a field of an object: plain data, or [`Field`]s.
///
/// # Safety
/// [`Self::slots`] lists the offset of every [`Field`] within a value, and nothing else. A value can be moved by
/// copying its bytes, and need not be dropped.
pub unsafe trait Trace: Send + Sync + 'static {
    /// Adds the byte offsets of all references in a value that begins at byte `at`.
    fn slots(at: usize, into: &mut Vec<u32>);
}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {$(
        // SAFETY: plain data has no references, and no destructor.
        unsafe impl Trace for $type {
            fn slots(_at: usize, _into: &mut Vec<u32>) {}
        }
    )*};
}

plain!(
    (),
    bool,
    char,
    u8,
    u16,
    u32,
    u64,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    f32,
    f64,
    std::sync::atomic::AtomicBool,
    std::sync::atomic::AtomicU8,
    std::sync::atomic::AtomicU16,
    std::sync::atomic::AtomicU32,
    std::sync::atomic::AtomicU64,
    std::sync::atomic::AtomicUsize,
    std::sync::atomic::AtomicI32,
    std::sync::atomic::AtomicI64,
);

// SAFETY: one reference, at its start.
unsafe impl<T: Managed> Trace for Field<T> {
    fn slots(at: usize, into: &mut Vec<u32>) {
        into.push(at as u32);
    }
}

// SAFETY: the elements follow each other, and each lists its own.
unsafe impl<T: Trace, const N: usize> Trace for [T; N] {
    fn slots(at: usize, into: &mut Vec<u32>) {
        for i in 0..N {
            T::slots(at + i * size_of::<T>(), into);
        }
    }
}

/// What a reference can point at: an [`Object`], or an array ([`Refs`](crate::Refs), [`Bytes`](crate::Bytes),
/// [`Record`](crate::Record)).
pub trait Managed: 'static {}

/// A type of fixed size that lives on the heap. [`object!`](crate::object) implements it.
///
/// # Safety
/// As for [`Trace`]. [`Self::type_index`] gives the number that the registry gave this very type.
pub unsafe trait Object: Trace + Managed {
    /// The number of the type in headers.
    fn type_index() -> u16;
}

/// Declares structs that live on the heap. Fields are data ([`Trace`]) or references ([`Field`](crate::Field)).
///
/// ```
/// warmswap_heap::object! {
///     /// An element of a list.
///     pub struct Element {
///         pub value: u64,
///         pub next: warmswap_heap::Field<Element>,
///     }
/// }
/// ```
#[macro_export]
macro_rules! object {
    ($($(#[$attribute:meta])* $vis:vis struct $name:ident {
        $($(#[$field_attribute:meta])* $field_vis:vis $field:ident : $type:ty),* $(,)?
    })*) => {$(
        $(#[$attribute])*
        $vis struct $name {
            $($(#[$field_attribute])* $field_vis $field: $type),*
        }

        #[allow(unsafe_code)]
        // SAFETY: every field lists its own references, at its own offset; each is `Trace`, so that bytes can be
        // copied; and the assertion below refuses a struct that has to be dropped.
        unsafe impl $crate::Trace for $name {
            fn slots(at: usize, into: &mut ::std::vec::Vec<u32>) {
                const { assert!(!::std::mem::needs_drop::<$name>()) };
                $(<$type as $crate::Trace>::slots(at + ::std::mem::offset_of!($name, $field), into);)*
                let _ = (at, into);
            }
        }

        impl $crate::Managed for $name {}

        #[allow(unsafe_code)]
        // SAFETY: the number is the one that the registry gave this type.
        unsafe impl $crate::Object for $name {
            #[inline]
            fn type_index() -> u16 {
                static INDEX: $crate::TypeCell = $crate::TypeCell::new();
                INDEX.get::<$name>()
            }
        }
    )*};
}

/// The number of a type, once it is known. For [`object!`](crate::object).
#[derive(Debug)]
pub struct TypeCell(AtomicU32);

impl TypeCell {
    /// Not known yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The number of `T`, for which alone this cell is used.
    #[inline]
    pub fn get<T: Trace>(&self) -> u16 {
        match self.0.load(Ordering::Acquire) {
            0 => {
                let index = register::<T>();
                self.0.store(index.into(), Ordering::Release);
                index
            }
            index => index as u16,
        }
    }
}

impl Default for TypeCell {
    fn default() -> Self {
        Self::new()
    }
}

/// How an object of a type is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Room that holds no object: left by a copy that another thread made first.
    Filler,
    /// As many references as its length says.
    References,
    /// As many bytes as its length says.
    Bytes,
    /// A word with the number of references (low half) and of data bytes (high half); the references; the data.
    Record,
    /// Always so many bytes, with references at these offsets.
    Fixed {
        /// Bytes without the header.
        bytes: u32,
        /// Byte offsets of the references, lowest first.
        slots: &'static [u32],
    },
}

/// Type number of fillers.
pub const FILLER: u16 = 1;
/// Type number of arrays of references.
pub const REFERENCES: u16 = 2;
/// Type number of byte arrays.
pub const BYTES: u16 = 3;
/// Type number of records.
pub const RECORD: u16 = 4;

type Registered = (Option<TypeId>, Shape);

/// All types of the process by number. Types are never forgotten; a program has a few hundred at most.
fn registry() -> &'static RwLock<Vec<Registered>> {
    static TYPES: OnceLock<RwLock<Vec<Registered>>> = OnceLock::new();
    TYPES.get_or_init(|| {
        RwLock::new(vec![
            // No object has type 0.
            (None, Shape::Filler),
            (None, Shape::Filler),
            (None, Shape::References),
            (None, Shape::Bytes),
            (None, Shape::Record),
        ])
    })
}

/// The number of a type: the same at each call.
///
/// # Panics
/// When there are more than 32,768 types, or the type is larger than 4 GiB.
pub fn register<T: Trace>() -> u16 {
    const { assert!(align_of::<T>() <= crate::layout::GRANULE_BYTES) };
    let mut types = registry().write();
    let id = TypeId::of::<T>();
    if let Some(known) = types.iter().position(|&(known, _)| known == Some(id)) {
        return known as u16;
    }
    let index = types.len();
    assert!(index < MAX_TYPES, "more than {MAX_TYPES} types of objects");
    let mut slots = Vec::new();
    T::slots(0, &mut slots);
    // A struct's fields are in the order of the source, not of memory.
    slots.sort_unstable();
    let bytes = u32::try_from(size_of::<T>()).expect("an object of less than 4 GiB");
    let slots = Vec::leak(slots);
    types.push((Some(id), Shape::Fixed { bytes, slots }));
    index as u16
}

/// Shapes by type number, for one thread: the registry's lock is taken only for types that are new to it.
#[derive(Debug, Default)]
pub struct Shapes(Vec<Shape>);

impl Shapes {
    /// The shape of a type.
    #[inline]
    pub fn get(&mut self, type_index: u16) -> Shape {
        if let Some(&shape) = self.0.get(usize::from(type_index)) {
            return shape;
        }
        self.0.clear();
        self.0
            .extend(registry().read().iter().map(|&(_, shape)| shape));
        self.0[usize::from(type_index)]
    }
}
