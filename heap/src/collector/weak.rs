//! What refers to objects without keeping them alive, once all live ones are found.

use std::sync::atomic::Ordering;

use crate::heap::{Finaliser, Inner, heal};
use crate::layout::Addr;
use crate::regions::RegionState;

/// Where an object is after the collection; `None` if it is garbage.
pub fn survivor(heap: &Inner, object: Addr) -> Option<Addr> {
    if !heap.has_survived(object) {
        return None;
    }
    match heap.space.regions.state(object.region()) {
        RegionState::Evacuated => heap.space.header(object).forwarding(),
        _ => Some(object),
    }
}

/// Empties weak references to garbage, and lets the others follow their objects.
pub fn clear_weaks(heap: &Inner) {
    for block in heap.weaks().blocks() {
        for slot in block.iter() {
            let Some(object) = Addr::new(slot.load(Ordering::Acquire)) else {
                continue;
            };
            match survivor(heap, object) {
                Some(to) => heal(slot, object, to),
                None => {
                    // A slot that was taken anew meanwhile refers to a live object.
                    let raw = object.granule();
                    let _ = slot.compare_exchange(raw, 0, Ordering::AcqRel, Ordering::Acquire);
                }
            }
        }
    }
}

/// Takes out the finalisers of garbage. What a mutator adds meanwhile is of an object that it has, which survives where
/// it is.
pub fn due_finalisers(heap: &Inner) -> Vec<Finaliser> {
    let all = std::mem::take(&mut *heap.finalisers.lock());
    let (mut due, mut kept) = (Vec::new(), Vec::with_capacity(all.len()));
    for mut finaliser in all {
        match survivor(heap, finaliser.object) {
            Some(to) => {
                finaliser.object = to;
                kept.push(finaliser);
            }
            None => due.push(finaliser),
        }
    }
    heap.finalisers.lock().append(&mut kept);
    due
}
