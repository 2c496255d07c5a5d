//! Where the objects lie: the layouts behind one face.

use std::sync::atomic::AtomicU64;

use crate::class::Class;
use crate::entry::Placed;
use crate::folds::{self, Fold, Folds};
use crate::geometry::{self, MAX_SLOT_BYTES};
use crate::handle::Handle;
use crate::shared::{CHECKSUM_BYTES, Object, ObjectRef, PoolWide};
use crate::spans::NoSlot;
use crate::stats::CompactionReport;
use warmswap_page::Layout;

/// The objects of a pool.
#[derive(Debug)]
pub(crate) enum Objects {
    /// One class for each size of slots.
    Classes {
        classes: Box<[Class]>,
        /// Bytes of the checksum behind each object.
        trailer_bytes: usize,
    },
    /// Pages of two or three objects.
    Folds(Box<Folds>),
}

impl Objects {
    pub(crate) fn new(layout: Layout, with_checksums: bool) -> Objects {
        match layout {
            Layout::SizeClasses => Objects::Classes {
                classes: geometry::all().into_iter().map(Class::new).collect(),
                trailer_bytes: if with_checksums { CHECKSUM_BYTES } else { 0 },
            },
            Layout::Zbud => Objects::Folds(Box::new(Folds::new(Fold::Two))),
            Layout::Z3fold => Objects::Folds(Box::new(Folds::new(Fold::Three))),
        }
    }

    /// Bytes of memory beside the struct itself, while nothing is stored.
    pub(crate) fn base_bytes(&self) -> usize {
        match self {
            Objects::Classes { classes, .. } => size_of_val(&**classes),
            Objects::Folds(folds) => size_of_val(&**folds),
        }
    }

    /// The largest object, in bytes.
    pub(crate) fn max_bytes(&self) -> usize {
        match self {
            Objects::Classes { .. } => MAX_SLOT_BYTES - CHECKSUM_BYTES,
            Objects::Folds(_) => folds::MAX_BYTES,
        }
    }

    /// The page of the pool that an object lies in, where a page is what eviction frees.
    pub(crate) fn page_of(&self, placed: Placed) -> Option<u32> {
        match self {
            Objects::Classes { .. } => None,
            Objects::Folds(_) => Some(placed.location.span),
        }
    }

    pub(crate) fn store(
        &self,
        shared: PoolWide<'_>,
        handle: Handle,
        placed: Placed,
        object: Object<'_>,
    ) -> Result<(), NoSlot> {
        match self {
            Objects::Classes {
                classes,
                trailer_bytes,
            } => {
                class(classes, *trailer_bytes, placed.length).store(shared, handle, placed, object)
            }
            Objects::Folds(folds) => folds.store(shared, handle, placed, object),
        }
    }

    /// Locks the object that `raw`, a value of `entry` that reads as `placed`, names. `None` when the
    /// entry has changed since, so that the caller starts again.
    #[inline]
    pub(crate) fn lock_object(
        &self,
        entry: &AtomicU64,
        raw: u64,
        placed: Placed,
    ) -> Option<ObjectRef<'_>> {
        match self {
            Objects::Classes {
                classes,
                trailer_bytes,
            } => class(classes, *trailer_bytes, placed.length).lock_object(
                entry,
                raw,
                placed.location,
                placed.length as usize,
            ),
            Objects::Folds(folds) => folds.lock_object(entry, raw, placed),
        }
    }

    /// Frees the object of `handle`, if its entry still places one of `length` bytes.
    pub(crate) fn free(&self, shared: PoolWide<'_>, handle: Handle, length: u32) -> Option<Placed> {
        match self {
            Objects::Classes {
                classes,
                trailer_bytes,
            } => class(classes, *trailer_bytes, length).free(shared, handle, length),
            Objects::Folds(folds) => folds.free(shared, handle, length),
        }
    }

    /// Moves objects between spans; see [`Pool::compact`](crate::Pool::compact). Pages of two or three
    /// objects are as dense as they get without it.
    pub(crate) fn compact(&self, shared: PoolWide<'_>, max_objects: u64) -> CompactionReport {
        let mut report = CompactionReport::default();
        if let Objects::Classes { classes, .. } = self {
            for class in classes {
                loop {
                    let left = max_objects - report.moved_objects.min(max_objects);
                    if !class.compact_one(shared, left, &mut report) {
                        break;
                    }
                }
            }
        }
        report
    }

    /// Gives all empty memory that was kept back to the kernel; the bytes of it.
    pub(crate) fn drop_cached(&self, shared: PoolWide<'_>) -> u64 {
        match self {
            Objects::Classes { classes, .. } => {
                classes.iter().map(|class| class.drop_cached(shared)).sum()
            }
            Objects::Folds(folds) => folds.drop_cached(shared),
        }
    }

    /// Bytes of spans and pages that hold memory.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> u64 {
        match self {
            Objects::Classes { classes, .. } => classes.iter().map(Class::held_span_bytes).sum(),
            Objects::Folds(folds) => folds.held_bytes(),
        }
    }

    /// Damages an object.
    #[cfg(test)]
    pub(crate) fn flip_bit(&self, placed: Placed, byte: usize) {
        match self {
            Objects::Classes {
                classes,
                trailer_bytes,
            } => class(classes, *trailer_bytes, placed.length).flip_bit(placed.location, byte),
            Objects::Folds(folds) => folds.flip_bit(placed.location, byte),
        }
    }

    /// Checks every invariant.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        match self {
            Objects::Classes { classes, .. } => classes.iter().for_each(Class::check),
            Objects::Folds(folds) => folds.check(),
        }
    }
}

/// The class of objects of `length` bytes.
fn class(classes: &[Class], trailer_bytes: usize, length: u32) -> &Class {
    &classes[geometry::class_of(length as usize + trailer_bytes)]
}
