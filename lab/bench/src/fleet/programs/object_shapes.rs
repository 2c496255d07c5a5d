//! The objects of a heap dump, as far as a program needs them: sizes, references, roots.

use std::collections::VecDeque;
use std::path::Path;

use warmswap_heapdump::{DumpError, ObjectGraph, ObjectId, ObjectKind};

use super::common::Draw;

/// An object's place in a tree of shortest paths.
#[derive(Clone, Copy, Debug)]
pub struct Parent {
    /// The object before it on the path; a root is its own.
    pub object: u32,
    /// Which of that object's references leads here; for a root, its number among the roots.
    pub slot: u32,
}

/// Objects that can be reached from roots: sizes, references, roots. Numbered from 0, older ones first as far as a dump
/// says: by address, or in the order of a file that has no addresses.
#[derive(Debug)]
pub struct ObjectShapes {
    sizes: Vec<u32>,
    /// Where each object's references begin, and the number of all at the end.
    starts: Vec<u32>,
    references: Vec<u32>,
    roots: Vec<u32>,
}

impl ObjectShapes {
    /// The objects of a dump in a file.
    ///
    /// # Errors
    /// It cannot be read, or is no heap dump.
    pub fn open(path: &Path) -> Result<Self, DumpError> {
        Ok(Self::of(&ObjectGraph::open(path)?))
    }

    /// The objects of a dump that can be reached from its roots. A few seconds for ten million objects.
    ///
    /// The class of an object is kept alive by it, which a dump does not say; here the classes of all objects are
    /// roots.
    ///
    /// # Panics
    /// The dump has more than 4 billion references.
    #[must_use]
    pub fn of(graph: &ObjectGraph) -> Self {
        let mut is_root = vec![false; graph.len()];
        for root in graph.roots() {
            is_root[root.object.index()] |= root.kinds.keeps_alive();
        }
        let mut queue: Vec<ObjectId> = graph.objects().filter(|o| is_root[o.index()]).collect();
        let mut is_live = is_root.clone();
        while let Some(object) = queue.pop() {
            if graph.kind(object) != ObjectKind::Class
                && let Some(class) = graph.class(graph.class_of(object)).object
                && !is_root[class.index()]
            {
                is_root[class.index()] = true;
                if !std::mem::replace(&mut is_live[class.index()], true) {
                    queue.push(class);
                }
            }
            for &to in graph.references(object) {
                if !std::mem::replace(&mut is_live[to.index()], true) {
                    queue.push(to);
                }
            }
        }
        let mut numbers = vec![u32::MAX; graph.len()];
        let live = graph.objects().filter(|object| is_live[object.index()]);
        for (number, object) in (0..).zip(live) {
            numbers[object.index()] = number;
        }
        let mut shapes = Self::empty();
        for object in graph.objects().filter(|object| is_live[object.index()]) {
            let to = graph.references(object).iter();
            let size = heap_bytes(graph, object);
            shapes.push(size, to.map(|to| numbers[to.index()]));
            if is_root[object.index()] {
                shapes.roots.push(numbers[object.index()]);
            }
        }
        shapes
    }

    /// A made-up graph of so many objects, for tests.
    #[must_use]
    pub fn made_up(objects: usize, seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let mut shapes = Self::empty();
        for number in 0..objects {
            // Most refer to older objects; each is referred to by the next one or by a root.
            let count = draw.below(5).min(number);
            let mut to: Vec<u32> = (0..count).map(|_| draw.below(number) as u32).collect();
            if number % 20 > 0 {
                to.push(number as u32 - 1);
            }
            let size = 16 + 8 * draw.zipf(200) as u32 + 4 * to.len() as u32;
            shapes.push(size, to.into_iter());
            if number % 20 == 19 || number + 1 == objects {
                shapes.roots.push(number as u32);
            }
        }
        shapes
    }

    fn empty() -> Self {
        Self {
            sizes: Vec::new(),
            starts: vec![0],
            references: Vec::new(),
            roots: Vec::new(),
        }
    }

    fn push(&mut self, size: u32, references: impl Iterator<Item = u32>) {
        self.sizes.push(size);
        self.references.extend(references);
        let end = u32::try_from(self.references.len()).expect("fewer than 4 billion references");
        self.starts.push(end);
    }

    /// Objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Bytes of all objects in the dumped heap.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|&size| u64::from(size)).sum()
    }

    /// Bytes of an object in the dumped heap, header included.
    #[must_use]
    pub fn size(&self, object: usize) -> usize {
        self.sizes[object] as usize
    }

    /// What an object refers to.
    #[must_use]
    pub fn references(&self, object: usize) -> &[u32] {
        &self.references[self.starts[object] as usize..self.starts[object + 1] as usize]
    }

    /// The objects that roots refer to.
    #[must_use]
    pub fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// A shortest path to each object.
    pub fn parents(&self) -> Vec<Parent> {
        const NONE: Parent = Parent {
            object: u32::MAX,
            slot: 0,
        };
        let mut parents = vec![NONE; self.len()];
        let mut queue = VecDeque::new();
        for (slot, &object) in self.roots.iter().enumerate() {
            let slot = slot as u32;
            parents[object as usize] = Parent { object, slot };
            queue.push_back(object);
        }
        while let Some(object) = queue.pop_front() {
            for (slot, &to) in self.references(object as usize).iter().enumerate() {
                let parent = &mut parents[to as usize];
                if parent.object == u32::MAX {
                    let slot = slot as u32;
                    *parent = Parent { object, slot };
                    queue.push_back(to);
                }
            }
        }
        parents
    }

    /// References to each object, those of roots included.
    pub fn in_degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0u32; self.len()];
        for &to in self.references.iter().chain(&self.roots) {
            degrees[to as usize] += 1;
        }
        degrees
    }
}

/// Bytes of an object in the heap. Native memory, as a snapshot of V8 lists it, lies outside.
fn heap_bytes(graph: &ObjectGraph, object: ObjectId) -> u32 {
    match graph.kind(object) {
        ObjectKind::Native => 0,
        _ => u32::try_from(graph.size_bytes(object)).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_v8_has_shapes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/heapsnapshot");
        let shapes = ObjectShapes::open(&Path::new(folder).join("small.heapsnapshot"));
        let shapes = shapes.expect("a snapshot");
        // All but the string that no path leads to; the buffer of the embedder has no bytes here.
        assert_eq!(shapes.len(), 7);
        assert_eq!(shapes.bytes(), 16 + 44 + 28 + 28 + 100 + 12);
        assert_eq!(shapes.roots().len(), 2);
    }
}
