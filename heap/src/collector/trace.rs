//! Tracing: finds live objects, copies or marks them, and follows their references.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::bitmap::Bitmap;
use crate::config::LaunchDepth;
use crate::header::Header;
use crate::heap::heal;
use crate::layout::{Addr, CARD_GRANULES, GRANULE_BYTES, PAGE_BYTES};
use crate::marvin::Bookmarks;
use crate::regions::{Asker, Flags, RegionState};
use crate::space::{Bump, Forwarded, Space};
use crate::types::{Shape, Shapes};

use super::grouping::{CLASS_FLAGS, Class, Grouping, Room, classify_large};
use super::report::CollectionReport;

/// Where copies go: a region for each class, and others for objects without one.
#[derive(Debug)]
struct Copies {
    classes: [Bump; 3],
    foreground: Bump,
    old: Bump,
}

impl Copies {
    fn new() -> Self {
        let bump = |flags| Bump::new(flags, Asker::Collection);
        Self {
            classes: CLASS_FLAGS.map(bump),
            foreground: bump(Flags::FOREGROUND),
            old: bump(Flags::OLD),
        }
    }

    /// For an object that is not grouped: with those of its region.
    fn like(&self, from: Flags) -> &Bump {
        if !from.has(Flags::FOREGROUND) {
            return &self.old;
        }
        let class = CLASS_FLAGS.iter().position(|&class| from.has(class));
        class.map_or(&self.foreground, |class| &self.classes[class])
    }

    fn retire(&self, space: &Space) {
        let all = self.classes.iter().chain([&self.foreground, &self.old]);
        all.for_each(|bump| bump.retire(space));
    }
}

/// What mutators contribute to a collection, behind one lock: a mutator gets here only for an object that it is the
/// first to load.
#[derive(Debug)]
pub struct SharedCopies {
    copies: Copies,
    shapes: Shapes,
    is_grouping: bool,
    /// Objects whose references are still to be followed.
    found: Vec<Addr>,
    objects: u64,
    bytes: u64,
}

impl SharedCopies {
    pub fn new() -> Self {
        Self {
            copies: Copies::new(),
            shapes: Shapes::default(),
            is_grouping: false,
            found: Vec::new(),
            objects: 0,
            bytes: 0,
        }
    }

    /// A collection begins.
    pub fn begin(&mut self, is_grouping: bool) {
        self.is_grouping = is_grouping;
        (self.objects, self.bytes) = (0, 0);
    }

    /// It ends: objects, and bytes that were copied. With all mutators stopped.
    pub fn end(&mut self, space: &Space) -> (u64, u64) {
        self.copies.retire(space);
        (self.objects, self.bytes)
    }

    /// Copies an object for a mutator.
    pub fn copy(&mut self, space: &Space, object: Addr) -> Addr {
        let bump = if self.is_grouping {
            &self.copies.classes[Class::WorkingSet as usize]
        } else {
            self.copies
                .like(space.regions.info(object.region()).flags())
        };
        let copied = copy_to(space, &mut self.shapes, object, bump);
        if copied.granules > 0 {
            self.objects += 1;
            self.bytes += u64::from(copied.granules) * GRANULE_BYTES as u64;
            self.found.push(copied.to);
        }
        copied.to
    }

    /// A mutator marked an object.
    pub fn marked(&mut self, space: &Space, object: Addr) {
        if self.is_grouping {
            classify_large(&space.regions, object, Class::WorkingSet);
        }
        self.objects += 1;
        self.found.push(object);
    }

    /// Takes what mutators found.
    pub fn take_found(&mut self) -> Vec<Addr> {
        std::mem::take(&mut self.found)
    }
}

/// Copies an object of an evacuated region to a region that is being filled.
fn copy_to(space: &Space, shapes: &mut Shapes, object: Addr, bump: &Bump) -> Forwarded {
    let reserve = |granules| bump.reserve(space, granules);
    let undo = |at, granules| bump.undo(at, granules);
    let Some(copied) = space.forward(object, shapes, reserve, undo) else {
        // The region table keeps room for all copies of a collection back from mutators.
        panic!("no room for a copy of the object at {object:?}");
    };
    if copied.granules > 0 {
        space.cards.note_start(copied.to);
    }
    copied
}

/// One collection's tracing, on the collector's thread.
#[derive(Debug)]
pub struct Tracer<'a> {
    space: &'a Space,
    bookmarks: &'a Bookmarks,
    copies: Copies,
    shapes: Shapes,
    /// Objects whose references are to be followed: depth first, or breadth first for grouping.
    queue: Vec<Addr>,
    /// For breadth first: what is found while `queue` is followed.
    later: Vec<Addr>,
    grouping: Option<Grouping>,
    touched_pages: Bitmap,
    pub report: CollectionReport,
}

impl<'a> Tracer<'a> {
    pub fn new(space: &'a Space, bookmarks: &'a Bookmarks, report: CollectionReport) -> Self {
        Self {
            space,
            bookmarks,
            copies: Copies::new(),
            shapes: Shapes::default(),
            queue: Vec::new(),
            later: Vec::new(),
            grouping: None,
            touched_pages: Bitmap::new(space.bytes() / PAGE_BYTES),
            report,
        }
    }

    /// Groups objects. Those learned get room in launch regions, in this order, which they fill when they are found.
    pub fn group(&mut self, depth: LaunchDepth, learned: impl Iterator<Item = Addr>) {
        let (space, pages) = (self.space, &self.touched_pages);
        let (grouping, ahead) = Grouping::new(space, &mut self.shapes, depth, learned, |object| {
            touch(pages, object.byte(), GRANULE_BYTES);
        });
        self.copies.classes[Class::Launch as usize].take_over(&ahead);
        self.grouping = Some(grouping);
    }

    /// Follows a reference outside the heap.
    pub fn root(&mut self, slot: &AtomicU32) {
        self.follow(slot);
    }

    /// What mutators found is to be followed, too.
    pub fn add_found(&mut self, found: Vec<Addr>) {
        self.report.mutator_objects += found.len() as u64;
        self.queue.extend(found);
    }

    /// Follows the references in a dirty card of a kept region. It stays dirty if one of them still leads from a
    /// foreground to a background object.
    pub fn card(&mut self, card: u32) {
        let first = card * CARD_GRANULES;
        let end = first + CARD_GRANULES;
        let space = self.space;
        let large = self.large_object(first);
        let Some(from) = large
            .or_else(|| space.cards.object_before(first))
            .or_else(|| {
                // Nothing reaches into the card from before.
                space.cards.object_before(end - 1)
            })
        else {
            return;
        };
        let mut shapes = std::mem::take(&mut self.shapes);
        let mut visited = 0;
        space.walk(from, &mut shapes, |shapes, object, header, granules| {
            let at = object.granule();
            if at >= end {
                return false;
            }
            self.touch(object.byte(), GRANULE_BYTES);
            if at + granules > first && space.is_live(object) {
                visited += 1;
                self.card_object(shapes, object, header, first..end);
            }
            true
        });
        self.shapes = shapes;
        self.report.card_objects += visited;
    }

    /// Follows the references of an object that lie in a card.
    fn card_object(
        &mut self,
        shapes: &mut Shapes,
        object: Addr,
        header: Header,
        card: std::ops::Range<u32>,
    ) {
        let space = self.space;
        let bytes = card.start as usize * GRANULE_BYTES..card.end as usize * GRANULE_BYTES;
        let bookmarks = self.bookmarks;
        let is_bookmarked = bookmarks.visit(object, |slot| {
            self.follow(slot);
        });
        if is_bookmarked.is_some() {
            // It was written to, and swapped out since: what it holds in its place is not what counts.
            return;
        }
        self.touch(bytes.start, bytes.len());
        space.each_slot_within(object, header, shapes, bytes, |byte| {
            self.follow_within(object, byte);
        });
    }

    /// The large object that a granule lies in.
    fn large_object(&self, granule: u32) -> Option<u32> {
        let regions = &self.space.regions;
        let mut region = (granule / crate::layout::REGION_GRANULES) as usize;
        if !regions.info(region).flags().has(Flags::LARGE) {
            return None;
        }
        while regions.state(region) == RegionState::Continuation {
            region -= 1;
        }
        Some(crate::layout::first_granule(region))
    }

    /// Follows references until there is none left.
    pub fn drain(&mut self) {
        loop {
            while let Some(object) = self.queue.pop() {
                self.scan(object);
            }
            if self.later.is_empty() {
                return;
            }
            std::mem::swap(&mut self.queue, &mut self.later);
            // Those found first are followed first.
            self.queue.reverse();
            if let Some(grouping) = &mut self.grouping {
                grouping.next_depth();
            }
        }
    }

    /// Whether nothing is left to follow.
    pub fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.later.is_empty()
    }

    /// The first references of objects that were found from the roots are followed next: what they lead to is one
    /// reference away from a root.
    pub fn roots_done(&mut self) {
        if let Some(grouping) = &mut self.grouping {
            grouping.roots_done();
            std::mem::swap(&mut self.queue, &mut self.later);
            self.queue.reverse();
        }
    }

    fn found(&mut self, object: Addr) {
        if self.grouping.is_some() {
            self.later.push(object);
        } else {
            self.queue.push(object);
        }
    }

    fn scan(&mut self, object: Addr) {
        let (space, bookmarks) = (self.space, self.bookmarks);
        let granules = bookmarks.visit(object, |slot| {
            self.follow(slot);
        });
        if let Some(granules) = granules {
            // Its content is swapped out; its references are kept elsewhere.
            space.regions.info(object.region()).add_live(granules);
            return;
        }
        let mut shapes = std::mem::take(&mut self.shapes);
        let header = space.header(object);
        if space.regions.state(object.region()) == RegionState::InPlace {
            let granules = space.granules(object, header, &mut shapes);
            space.regions.info(object.region()).add_live(granules);
            self.touch_content(object, header, granules, &mut shapes);
        }
        space.each_slot(object, header, &mut shapes, |byte| {
            self.follow_within(object, byte);
        });
        self.shapes = shapes;
    }

    /// Follows a reference within an object. Where it leads from a foreground to a background object, its card says
    /// so afterwards.
    fn follow_within(&mut self, object: Addr, byte: usize) {
        let Some(to) = self.follow(self.space.slot(byte)) else {
            return;
        };
        let regions = &self.space.regions;
        let is_foreground =
            |object: Addr| regions.info(object.region()).flags().has(Flags::FOREGROUND);
        if is_foreground(object) && !is_foreground(to) {
            self.space.cards.mark(byte);
        }
    }

    /// Finds the object that a slot refers to; where it is now.
    fn follow(&mut self, slot: &AtomicU32) -> Option<Addr> {
        let object = Addr::new(slot.load(Ordering::Acquire))?;
        match self.space.regions.state(object.region()) {
            RegionState::Evacuated => {
                let to = self.copy(object);
                heal(slot, object, to);
                Some(to)
            }
            RegionState::InPlace => {
                self.mark(object);
                Some(object)
            }
            _ => Some(object),
        }
    }

    fn mark(&mut self, object: Addr) {
        if !self.space.marks.set(object.granule() as usize) {
            return;
        }
        self.report.marked_objects += 1;
        if self.grouping.is_some() {
            self.group_large(object);
        }
        self.found(object);
    }

    /// Gives a large object its class, where it is.
    fn group_large(&mut self, object: Addr) {
        let space = self.space;
        let granules = space.granules(object, space.header(object), &mut self.shapes);
        let from = space.regions.info(object.region()).flags();
        let class = self.class_of(object, from).map(|(class, _)| class);
        if let Some(class) = class {
            classify_large(&space.regions, object, class);
            self.count_grouped(class, granules as usize * GRANULE_BYTES);
        }
    }

    /// What an object of a region with these flags is grouped as, and the room that was kept for it; `None` while
    /// nothing is grouped.
    fn class_of(&mut self, object: Addr, from: Flags) -> Option<(Class, Option<Room>)> {
        let launch_bytes = self.report.grouped_bytes[Class::Launch as usize];
        let grouping = self.grouping.as_mut()?;
        Some(grouping.class_of(object, from, launch_bytes))
    }

    fn count_grouped(&mut self, class: Class, bytes: usize) {
        self.report.grouped_objects[class as usize] += 1;
        self.report.grouped_bytes[class as usize] += bytes as u64;
    }

    fn copy(&mut self, object: Addr) -> Addr {
        let space = self.space;
        self.touch(object.byte(), GRANULE_BYTES);
        if let Some(to) = space.header(object).forwarding() {
            return to;
        }
        let from = space.regions.info(object.region()).flags();
        let class = self.class_of(object, from);
        let copied = match class {
            Some((_, Some(room))) => room.fill_with(space, &mut self.shapes, object),
            Some((class, None)) => {
                let bump = &self.copies.classes[class as usize];
                copy_to(space, &mut self.shapes, object, bump)
            }
            None => copy_to(space, &mut self.shapes, object, self.copies.like(from)),
        };
        if copied.granules > 0 {
            let bytes = copied.granules as usize * GRANULE_BYTES;
            self.touch(object.byte(), bytes);
            self.report.copied_objects += 1;
            self.report.copied_bytes += bytes as u64;
            self.report.survivors[copied.age - 1] += 1;
            if let Some((class, _)) = class {
                self.count_grouped(class, bytes);
            }
            self.found(copied.to);
        }
        copied.to
    }

    /// The end of the tracing: regions are filled no further, and room that no object was found for is marked as such.
    pub fn finish(&mut self) {
        if let Some(grouping) = &mut self.grouping {
            grouping.fill_rooms(self.space);
        }
        self.copies.retire(self.space);
        self.report.touched_pages = self.touched_pages.count() as u64;
    }

    /// An object in place was accessed: its header, and its content where it has references.
    fn touch_content(&self, object: Addr, header: Header, granules: u32, shapes: &mut Shapes) {
        let bytes = match shapes.get(header.type_index()) {
            Shape::Bytes | Shape::Filler => GRANULE_BYTES,
            Shape::Fixed { slots, .. } => slots
                .last()
                .map_or(GRANULE_BYTES, |&last| GRANULE_BYTES + last as usize),
            Shape::Record => {
                let (references, _) = self.space.record_parts(object);
                2 * GRANULE_BYTES + references as usize * size_of::<u32>()
            }
            Shape::References => granules as usize * GRANULE_BYTES,
        };
        self.touch(object.byte(), bytes);
    }

    /// Bytes of the heap were accessed.
    fn touch(&self, byte: usize, bytes: usize) {
        touch(&self.touched_pages, byte, bytes);
    }
}

/// Notes the pages of bytes that were accessed.
fn touch(pages: &Bitmap, byte: usize, bytes: usize) {
    for page in byte / PAGE_BYTES..(byte + bytes).div_ceil(PAGE_BYTES) {
        pages.set(page);
    }
}
