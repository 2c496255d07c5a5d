//! Grouping: which objects a launch needs, so that they lie on pages of their own (RGS, section 5.3.1).
//!
//! A grouping collection finds objects breadth first from the roots and copies each as one of three classes. Launch objects
//! are those near the roots (NRO), the young ones (FYO), and those that earlier launches accessed. Mutators copy what
//! they load meanwhile themselves, as the working set. All others are cold. A large object is not
//! copied: its own regions get its class.

use rustc_hash::FxHashMap;

use crate::config::LaunchDepth;
use crate::layout::Addr;
use crate::regions::{Asker, Flags, RegionState, RegionTable};
use crate::space::{Bump, Forwarded, Space, fill};
use crate::types::Shapes;

/// What a grouping collection copies an object as (section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// NRO, FYO, and what was learned.
    Launch = 0,
    /// Accessed by a mutator while the collection ran.
    WorkingSet = 1,
    /// All others.
    Cold = 2,
}

/// Flags of the regions of each class.
pub const CLASS_FLAGS: [Flags; 3] = [
    Flags::FOREGROUND.with(Flags::LAUNCH),
    Flags::FOREGROUND.with(Flags::WORKING_SET),
    Flags::FOREGROUND.with(Flags::COLD),
];

/// A large object stays where it is, and its regions become those of a class.
pub fn classify_large(regions: &RegionTable, object: Addr, class: Class) {
    let info = regions.info(object.region());
    let flags = CLASS_FLAGS
        .iter()
        .fold(info.flags(), |flags, &of_class| flags.without(of_class));
    info.set_flags(flags.with(CLASS_FLAGS[class as usize]));
}

/// Room in a launch region that is kept for one object.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    at: Addr,
    granules: u32,
}

impl Room {
    /// Copies the object here, unless a mutator has copied it first.
    pub fn fill_with(self, space: &Space, shapes: &mut Shapes, object: Addr) -> Forwarded {
        let Some(copied) = space.forward(object, shapes, |_| Some(self.at), |_, _| {}) else {
            unreachable!("there is room");
        };
        if copied.to == self.at {
            space.cards.note_start(self.at);
        } else {
            fill(space, self.at, self.granules);
        }
        copied
    }
}

/// How far a grouping collection looks for launch objects, and what it knows of earlier launches.
#[derive(Debug)]
pub struct Grouping {
    depth: LaunchDepth,
    /// References from the roots to the objects that are being found.
    found_at: u32,
    /// Learned objects that were not found yet, with room for them. Mutators may copy such an object elsewhere, so that
    /// the room is beyond what copies need; `None` when there is none left, and for large objects, which stay in place.
    learned: FxHashMap<Addr, Option<Room>>,
}

impl Grouping {
    /// Keeps room for learned objects in launch regions, in this order; the regions go on being filled behind it. Each
    /// object's header is read, which `touch` hears of first.
    pub fn new(
        space: &Space,
        shapes: &mut Shapes,
        depth: LaunchDepth,
        learned: impl Iterator<Item = Addr>,
        touch: impl Fn(Addr),
    ) -> (Self, Bump) {
        let mut rooms = FxHashMap::default();
        let ahead = Bump::new(CLASS_FLAGS[Class::Launch as usize], Asker::Ahead);
        for object in learned {
            if rooms.contains_key(&object) {
                continue;
            }
            match space.regions.state(object.region()) {
                RegionState::Evacuated => {}
                RegionState::InPlace => {
                    rooms.insert(object, None);
                    continue;
                }
                _ => continue,
            }
            let header = space.header(object);
            if header.forwarding().is_some() {
                // A mutator has accessed it since the flip.
                continue;
            }
            touch(object);
            let granules = space.granules(object, header, shapes);
            let room = ahead.reserve(space, granules);
            rooms.insert(object, room.map(|at| Room { at, granules }));
        }
        let grouping = Self {
            depth,
            found_at: 0,
            learned: rooms,
        };
        (grouping, ahead)
    }

    /// All that roots refer to was found: what these objects refer to is one reference away from a root.
    pub fn roots_done(&mut self) {
        self.found_at = 1;
    }

    /// What is found from here on is one reference further away.
    pub fn next_depth(&mut self) {
        self.found_at += 1;
    }

    /// What an object of a region with these flags is copied as, and the room that was kept for it, when launch objects take
    /// so many bytes already.
    pub fn class_of(
        &mut self,
        object: Addr,
        from: Flags,
        launch_bytes: u64,
    ) -> (Class, Option<Room>) {
        let learned = self.learned.remove(&object);
        let is_near = match self.depth {
            LaunchDepth::References(depth) => self.found_at < depth,
            LaunchDepth::Bytes(bytes) => launch_bytes < bytes as u64,
        };
        let class = if learned.is_some() || is_near || from.has(Flags::YOUNG) {
            Class::Launch
        } else {
            Class::Cold
        };
        (class, learned.flatten())
    }

    /// Room that no object was found for is marked as such.
    pub fn fill_rooms(&mut self, space: &Space) {
        for room in self.learned.drain().filter_map(|(_, room)| room) {
            fill(space, room.at, room.granules);
        }
    }
}
