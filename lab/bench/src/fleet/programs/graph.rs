//! The objects of a heap dump, of a JVM or V8, on the managed heap.
//!
//! # What is real
//!
//! Sizes of objects (but for 4 to 8 bytes by which a [`Record`]'s header is larger than HotSpot's), which object refers
//! to which, the roots, and so the distance of each object from them. Objects are allocated in the order of their
//! addresses, which is the order of their allocation as far as HotSpot's collectors keep it. V8's have none: theirs is the
//! order of the file.
//!
//! # What is assumed
//!
//! - The data in the objects, which is drawn to be as compressible as usual.
//! - Use: walks along references from the roots, with Zipf's law over a fixed random order of objects; those that are
//!   young (the last 9.3 % by address, the paper's part) are in it more often.
//! - Changes: an object that was used, if one reference leads to it, is replaced by a copy of itself. The graph stays
//!   as it is, and the object before it refers to a new one.
//! - A launch: the objects that half of the roots refer to, objects used last with all on the path to them, a stable
//!   set of others, and a few random ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warmswap_heap::{AllocError, Mutator, Record, Ref, Refs, Root};

use super::super::program::{Program, ProgramError};
use super::common::{Checksum, Draw, not_started, with_room};
use super::filler;
use super::object_shapes::{ObjectShapes, Parent};

/// References in an array of the table that finds objects while they are loaded.
const PAGE: usize = 8192;
/// Header, and the word with the shape.
const HEADER_BYTES: usize = 16;
/// Objects or references that are loaded between two safepoints.
const BATCH: usize = 256;
/// Paths of each kind that are kept.
const MOST_PATHS: usize = 20_000;
/// Longer paths are not walked: those along lists.
const LONGEST_PATH: usize = 64;
/// Larger objects are not copied when they change.
const MOST_CHANGED_BYTES: usize = 4096;
/// Targets of the last actions that a launch looks at.
const RECENT: usize = 2000;
/// Paths that an action walks: one for so many objects, but at least the number behind.
const OBJECTS_OF_WALK: usize = 20_000;
const LEAST_WALKS: usize = 16;

/// A way to an object.
#[derive(Clone, Debug)]
struct Path {
    /// The number of a root, then of a reference in each object.
    steps: Box<[u32]>,
    /// Nothing else refers to the object at its end, so that a copy can take its place.
    is_changeable: bool,
}

/// A program with the objects of a heap dump. See the module.
#[derive(Debug)]
pub struct Graph {
    name: String,
    shapes: Arc<ObjectShapes>,
    draw: Draw,
    next_object: u32,
    roots: Vec<Root<Record>>,
    /// Paths to objects that are not young, in random order.
    old: Vec<Path>,
    young: Vec<Path>,
    /// Paths to objects that one reference leads to.
    changeable: Vec<Box<[u32]>>,
    /// Paths that were walked last, the last one at the end: whether it is of a young one, and its number.
    recent: VecDeque<(bool, usize)>,
}

impl Graph {
    /// A program; nothing is allocated yet.
    #[must_use]
    pub fn new(name: &str, shapes: Arc<ObjectShapes>, seed: u64) -> Self {
        Self {
            name: format!("graph-{name}"),
            shapes,
            draw: Draw::new(seed),
            next_object: 1,
            roots: Vec::new(),
            old: Vec::new(),
            young: Vec::new(),
            changeable: Vec::new(),
            recent: VecDeque::new(),
        }
    }

    fn next_number(&mut self) -> u32 {
        let number = self.next_object;
        self.next_object = self.next_object.wrapping_add(1).max(1);
        number
    }

    /// Allocates all objects, without references.
    fn load_objects(
        &mut self,
        mutator: &mut Mutator,
    ) -> Result<Vec<Root<Refs<Record>>>, ProgramError> {
        let shapes = Arc::clone(&self.shapes);
        let mut table = Vec::with_capacity(shapes.len().div_ceil(PAGE));
        for object in 0..shapes.len() {
            if object % BATCH == 0 {
                mutator.safepoint();
            }
            if object % PAGE == 0 {
                table.push(with_room(mutator, |mutator| {
                    Ok(mutator.root(mutator.alloc_refs(PAGE)?))
                })?);
            }
            let number = self.next_number();
            let references = shapes.references(object).len();
            let data_bytes = data_bytes(shapes.size(object), references);
            with_room(mutator, |mutator| {
                let record = mutator.alloc_record(references, data_bytes)?;
                filler::fill(mutator, record, number);
                let page = table[object / PAGE].get(mutator);
                page.set(mutator, object % PAGE, Some(record));
                Ok(())
            })?;
        }
        Ok(table)
    }

    fn link_objects(&self, mutator: &mut Mutator, table: &[Root<Refs<Record>>]) {
        for object in 0..self.shapes.len() {
            if object % BATCH == 0 {
                mutator.safepoint();
            }
            let Some(record) = at(mutator, table, object) else {
                continue;
            };
            for (slot, &to) in self.shapes.references(object).iter().enumerate() {
                record.set(mutator, slot, at(mutator, table, to as usize));
            }
        }
    }

    /// Chooses the paths that are walked later.
    fn choose_paths(&mut self, mutator: &mut Mutator) {
        let shapes = Arc::clone(&self.shapes);
        let parents = mutator.blocking(|| shapes.parents());
        let degrees = mutator.blocking(|| shapes.in_degrees());
        let young_from = shapes.len() - shapes.len() * 93 / 1000;
        // All objects that were left out of a sample are as likely as the ones in it.
        let mut order = self.sample(shapes.len(), 4 * MOST_PATHS);
        let young = self.sample(shapes.len() - young_from, MOST_PATHS);
        order.extend(young.into_iter().map(|i| young_from + i));
        for object in order {
            mutator.safepoint();
            let Some(steps) = path_to(&parents, object) else {
                continue;
            };
            let path = Path {
                is_changeable: degrees[object] == 1
                    && steps.len() > 1
                    && shapes.size(object) <= MOST_CHANGED_BYTES,
                steps,
            };
            if path.is_changeable && self.changeable.len() < MOST_PATHS {
                self.changeable.push(path.steps.clone());
            }
            let paths = if object >= young_from {
                &mut self.young
            } else {
                &mut self.old
            };
            if paths.len() < MOST_PATHS {
                paths.push(path);
            }
        }
    }

    /// So many different numbers below `all` in random order, or fewer.
    fn sample(&mut self, all: usize, most: usize) -> Vec<usize> {
        let count = all.min(most);
        let mut chosen: Vec<usize> = (0..count).map(|i| i * all / count.max(1)).collect();
        for i in (1..chosen.len()).rev() {
            chosen.swap(i, self.draw.below(i + 1));
        }
        chosen
    }

    /// Reads all objects on a path.
    fn walk(&self, mutator: &Mutator, path: &[u32], sum: &mut Checksum) {
        let Some((&root, slots)) = path.split_first() else {
            return;
        };
        let mut object = self.roots[root as usize].get(mutator);
        read(mutator, object, sum);
        for &slot in slots {
            match object.get(mutator, slot as usize) {
                Some(next) => object = next,
                None => return,
            }
            read(mutator, object, sum);
        }
    }

    fn path(&self, (is_young, number): (bool, usize)) -> Option<&Path> {
        let paths = if is_young { &self.young } else { &self.old };
        paths.get(number)
    }

    /// Replaces any object by a copy of it. Bytes allocated.
    fn change_any(&mut self, mutator: &mut Mutator) -> Result<usize, ProgramError> {
        let number = self.next_number();
        let which = self.draw.zipf(self.changeable.len());
        match self.changeable.get(which) {
            Some(path) => self.change(mutator, path, number),
            None => Ok(HEADER_BYTES),
        }
    }

    /// Replaces the object at the end of a path by a copy of it. Bytes allocated.
    fn change(
        &self,
        mutator: &mut Mutator,
        path: &[u32],
        number: u32,
    ) -> Result<usize, ProgramError> {
        with_room(mutator, |mutator| {
            let (slots, last) = (&path[1..path.len() - 1], path[path.len() - 1] as usize);
            let mut before = self.roots[path[0] as usize].get(mutator);
            for &slot in slots {
                match before.get(mutator, slot as usize) {
                    Some(next) => before = next,
                    None => return Ok(HEADER_BYTES),
                }
            }
            let Some(old) = before.get(mutator, last) else {
                return Ok(HEADER_BYTES);
            };
            let (references, data_bytes) = old.shape(mutator);
            let new = mutator.alloc_record(references, data_bytes)?;
            filler::fill(mutator, new, number);
            for i in 0..references {
                new.set(mutator, i, old.get(mutator, i));
            }
            before.set(mutator, last, Some(new));
            Ok(HEADER_BYTES + 4 * references + data_bytes)
        })
    }
}

/// An object by its number, while objects are loaded.
fn at<'m>(
    mutator: &'m Mutator,
    table: &[Root<Refs<Record>>],
    object: usize,
) -> Option<Ref<'m, Record>> {
    let page = table.get(object / PAGE)?.get(mutator);
    page.get(mutator, object % PAGE)
}

/// Bytes of data so that a record is as large as an object was.
fn data_bytes(size: usize, references: usize) -> usize {
    size.saturating_sub(HEADER_BYTES + references * size_of::<u32>())
}

fn path_to(parents: &[Parent], mut object: usize) -> Option<Box<[u32]>> {
    let mut path = Vec::new();
    loop {
        let parent = parents[object];
        path.push(parent.slot);
        if parent.object as usize == object {
            path.reverse();
            return Some(path.into());
        }
        if parent.object == u32::MAX || path.len() > LONGEST_PATH {
            return None;
        }
        object = parent.object as usize;
    }
}

/// Reads an object, of a large array the start: 1 KiB.
fn read(mutator: &Mutator, object: Ref<'_, Record>, sum: &mut Checksum) {
    for word in object.data(mutator).iter().take(256) {
        sum.add(word.load(Ordering::Relaxed).into());
    }
}

/// Allocates a short list of small records: garbage. Bytes allocated.
fn make_garbage(mutator: &Mutator, number: u32) -> Result<usize, AllocError> {
    const DATA_BYTES: usize = 40;
    let first = mutator.alloc_record(1, DATA_BYTES)?;
    let second = mutator.alloc_record(1, DATA_BYTES)?;
    filler::fill(mutator, first, number);
    filler::fill(mutator, second, number);
    first.set(mutator, 0, Some(second));
    Ok(2 * (HEADER_BYTES + DATA_BYTES + 8))
}

impl Program for Graph {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        if self.shapes.roots().is_empty() {
            let what = "the heap dump has no objects that roots refer to";
            return Err(ProgramError::Data(what.into()));
        }
        let table = self.load_objects(mutator)?;
        self.link_objects(mutator, &table);
        for &object in self.shapes.roots() {
            if let Some(record) = at(mutator, &table, object as usize) {
                self.roots.push(mutator.root(record));
            }
        }
        drop(table);
        self.choose_paths(mutator);
        Ok(())
    }

    fn use_it(&mut self, mutator: &mut Mutator, actions: usize) -> Result<u64, ProgramError> {
        if self.roots.is_empty() {
            return Err(not_started(&self.name));
        }
        let mut sum = Checksum::new();
        let walks = (self.shapes.len() / OBJECTS_OF_WALK).max(LEAST_WALKS);
        for _ in 0..actions {
            for _ in 0..walks {
                mutator.safepoint();
                let is_young = self.draw.percent(40);
                let paths = if is_young { &self.young } else { &self.old };
                let count = paths.len();
                let target = (is_young, self.draw.zipf(count));
                self.recent.push_back(target);
                if self.recent.len() > RECENT {
                    self.recent.pop_front();
                }
                let number = self.next_number();
                let Some(path) = self.path(target) else {
                    continue;
                };
                self.walk(mutator, &path.steps, &mut sum);
                if path.is_changeable {
                    self.change(mutator, &path.steps, number)?;
                } else {
                    with_room(mutator, |mutator| make_garbage(mutator, number))?;
                }
            }
        }
        Ok(sum.get())
    }

    fn work_in_background(
        &mut self,
        mutator: &mut Mutator,
        bytes: usize,
        old_changes: usize,
    ) -> Result<(), ProgramError> {
        let mut done = 0;
        for _ in 0..old_changes {
            mutator.safepoint();
            done += self.change_any(mutator)?;
        }
        while done < bytes {
            mutator.safepoint();
            let number = self.next_number();
            done += with_room(mutator, |mutator| make_garbage(mutator, number))?;
        }
        Ok(())
    }

    fn launch(&mut self, mutator: &mut Mutator) -> Result<u64, ProgramError> {
        if self.roots.is_empty() {
            return Err(not_started(&self.name));
        }
        let mut sum = Checksum::new();
        for root in self.roots.iter().step_by(2) {
            mutator.safepoint();
            read(mutator, root.get(mutator), &mut sum);
        }
        for &target in self.recent.iter().rev() {
            mutator.safepoint();
            if let Some(path) = self.path(target) {
                self.walk(mutator, &path.steps, &mut sum);
            }
        }
        // From the end of the order, where use seldom goes.
        let stable = self.old.len() / 20;
        for path in self.old.iter().rev().take(stable) {
            mutator.safepoint();
            self.walk(mutator, &path.steps, &mut sum);
        }
        for _ in 0..stable / 5 {
            mutator.safepoint();
            let which = self.draw.below(self.old.len());
            if let Some(path) = self.path((false, which)) {
                self.walk(mutator, &path.steps, &mut sum);
            }
        }
        Ok(sum.get())
    }
}
