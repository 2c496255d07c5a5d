//! The protocol between mutators and collector under many schedules (shuttle).
//!
//! Real are [`World`], [`CardTable`] and [`Header`]: the code that the heap runs. A model are the objects: an array of
//! words each in place of raw memory, whose forwarding, healing and barriers are written as in [`crate::space`],
//! [`crate::heap`] and [`crate::mutator`], step by step. Shuttle's atomics are sequentially consistent: what depends on
//! weaker orders is Miri's and the threads' tests' to find.

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use shuttle::thread;

use crate::cards::{CLEAN, CardTable, DIRTY};
use crate::header::Header;
use crate::layout::{Addr, REGION_GRANULES};
use crate::sync::Mutex;
use crate::world::World;

const SCHEDULES: usize = 2000;

/// Runs a test under many schedules: uniformly random ones, and ones that put rare orders to the fore.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

// ---- safepoints ----

#[test]
fn nobody_runs_while_the_world_is_stopped() {
    explore(|| {
        let world = Arc::new(World::default());
        let inside = Arc::new(AtomicUsize::new(0));
        let mutators: Vec<_> = (0..3)
            .map(|_| {
                let (world, inside) = (Arc::clone(&world), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..2 {
                        world.enter();
                        for _ in 0..2 {
                            inside.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            if world.is_requested() {
                                world.leave();
                                world.enter();
                            }
                        }
                        world.leave();
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let stopped = world.stop();
            for _ in 0..3 {
                assert_eq!(inside.load(Ordering::SeqCst), 0);
            }
            drop(stopped);
        }
        for mutator in mutators {
            mutator.join().expect("it has said why");
        }
        drop(world.stop());
    });
}

// ---- cards ----

/// A store by a mutator is in a card that was dirty at the stop, or is dirty afterwards.
#[test]
fn no_store_is_in_a_clean_card() {
    explore(|| {
        let cards = Arc::new(CardTable::new(1));
        let world = Arc::new(World::default());
        // Whether the slot refers to a young object; one card holds both slots.
        let slots = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        cards.set_region(0, CLEAN);
        let mutators: Vec<_> = (0..2)
            .map(|i| {
                let (cards, world, slots) =
                    (Arc::clone(&cards), Arc::clone(&world), Arc::clone(&slots));
                thread::spawn(move || {
                    world.enter();
                    for value in 1..=2 {
                        slots[i].store(value, Ordering::SeqCst);
                        cards.mark(8 * i);
                        if world.is_requested() {
                            world.leave();
                            world.enter();
                        }
                    }
                    world.leave();
                })
            })
            .collect();
        let mut seen = [0; 2];
        for _ in 0..3 {
            let stopped = world.stop();
            let mut dirty = Vec::new();
            cards.take_dirty(0, &mut dirty);
            if !dirty.is_empty() {
                seen = [0, 1].map(|i: usize| slots[i].load(Ordering::SeqCst));
            }
            let now = [0, 1].map(|i: usize| slots[i].load(Ordering::SeqCst));
            assert_eq!(now, seen, "a store that no dirty card told of");
            assert_eq!(cards.get(0), CLEAN);
            drop(stopped);
        }
        for mutator in mutators {
            mutator.join().expect("it has said why");
        }
        let now = [0, 1].map(|i: usize| slots[i].load(Ordering::SeqCst));
        assert!(now == seen || cards.get(0) == DIRTY);
    });
}

// ---- copies ----

const OBJECTS: usize = 2;
/// An object of the model: header, a reference (granule of its header), a counter.
const WORDS: usize = 3;
const FROM: u32 = REGION_GRANULES;
const TO: u32 = 2 * REGION_GRANULES;
/// Room for copies: of the collector, and of mutators.
const ROOM: usize = OBJECTS * WORDS;

struct Model {
    world: World,
    /// The evacuated region, then the collector's copies, then the mutators'.
    words: Vec<AtomicU64>,
    root: AtomicU32,
    is_collecting: AtomicU8,
    collector_top: AtomicUsize,
    /// What mutators copied and is still to be scanned; their next room.
    shared: Mutex<(Vec<u32>, usize)>,
}

impl Model {
    /// A ring of objects in the evacuated region, and a root.
    fn new() -> Self {
        let mut words: Vec<_> = (0..3 * ROOM).map(|_| AtomicU64::new(0)).collect();
        for i in 0..OBJECTS {
            let next = FROM as usize + (i + 1) % OBJECTS * WORDS;
            words[i * WORDS] = AtomicU64::new(Header::object(5, i as u32).0);
            words[i * WORDS + 1] = AtomicU64::new(next as u64);
        }
        Self {
            world: World::default(),
            words,
            root: AtomicU32::new(FROM),
            is_collecting: AtomicU8::new(0),
            collector_top: AtomicUsize::new(0),
            shared: Mutex::default(),
        }
    }

    fn word(&self, granule: u32) -> &AtomicU64 {
        let index = if granule >= TO {
            ROOM + (granule - TO) as usize
        } else {
            (granule - FROM) as usize
        };
        &self.words[index]
    }

    fn is_evacuated(granule: u32) -> bool {
        granule < TO
    }

    /// `Space::forward`: where the object is, and whether this call copied it there.
    fn forward(&self, object: u32, to: u32) -> (u32, bool) {
        let header = Header(self.word(object).load(Ordering::Acquire));
        if let Some(to) = header.forwarding() {
            return (to.granule(), false);
        }
        for i in 1..WORDS as u32 {
            let word = self.word(object + i).load(Ordering::Relaxed);
            self.word(to + i).store(word, Ordering::Relaxed);
        }
        self.word(to).store(header.copied().0, Ordering::Relaxed);
        let forwarded = Header::forwarded(Addr::new(to).expect("not 0")).0;
        let word = self.word(object);
        match word.compare_exchange(header.0, forwarded, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => (to, true),
            Err(other) => {
                let to = Header(other).forwarding().expect("only copies change it");
                (to.granule(), false)
            }
        }
    }

    /// The mutator's read barrier for a slot of 32 bits at the root.
    fn load_root(&self) -> u32 {
        let object = self.root.load(Ordering::Acquire);
        let now = self.follow(object);
        if now != object {
            let (relaxed, acquire) = (Ordering::AcqRel, Ordering::Acquire);
            let _ = self.root.compare_exchange(object, now, relaxed, acquire);
        }
        now
    }

    /// The same for a reference in an object.
    fn load_next(&self, object: u32) -> u32 {
        let slot = self.word(object + 1);
        let next = slot.load(Ordering::Acquire);
        let now = u64::from(self.follow(next as u32));
        if now != next {
            let _ = slot.compare_exchange(next, now, Ordering::AcqRel, Ordering::Acquire);
        }
        now as u32
    }

    fn follow(&self, object: u32) -> u32 {
        if self.is_collecting.load(Ordering::Acquire) == 0 || !Self::is_evacuated(object) {
            return object;
        }
        if let Some(to) = Header(self.word(object).load(Ordering::Acquire)).forwarding() {
            return to.granule();
        }
        let mut shared = self.shared.lock();
        let room = TO + (ROOM + shared.1) as u32;
        let (to, is_new) = self.forward(object, room);
        if is_new {
            shared.1 += WORDS;
            shared.0.push(to);
        }
        to
    }

    /// The collector's: follows a slot.
    fn copy(&self, object: u32, queue: &mut Vec<u32>) -> u32 {
        if !Self::is_evacuated(object) {
            return object;
        }
        let top = self.collector_top.load(Ordering::Relaxed);
        let (to, is_new) = self.forward(object, TO + top as u32);
        if is_new {
            self.collector_top.store(top + WORDS, Ordering::Relaxed);
            queue.push(to);
        }
        to
    }

    fn collect(&self) {
        let stopped = self.world.stop();
        self.is_collecting.store(1, Ordering::Release);
        drop(stopped);
        let mut queue = Vec::new();
        let root = self.root.load(Ordering::Acquire);
        let to = self.copy(root, &mut queue);
        let (relaxed, acquire) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.root.compare_exchange(root, to, relaxed, acquire);
        loop {
            while let Some(object) = queue.pop() {
                let slot = self.word(object + 1);
                let next = slot.load(Ordering::Acquire);
                let to = u64::from(self.copy(next as u32, &mut queue));
                let _ = slot.compare_exchange(next, to, Ordering::AcqRel, Ordering::Acquire);
            }
            queue = std::mem::take(&mut self.shared.lock().0);
            if !queue.is_empty() {
                continue;
            }
            let stopped = self.world.stop();
            queue = std::mem::take(&mut self.shared.lock().0);
            if queue.is_empty() {
                self.is_collecting.store(0, Ordering::Release);
                // Evacuated regions are used for something else from here on.
                for i in 0..ROOM {
                    self.words[i].store(u64::MAX, Ordering::Release);
                }
                drop(stopped);
                return;
            }
            drop(stopped);
        }
    }
}

/// No mutator ever has an evacuated object, no write is lost, and nothing refers to an evacuated region in the end.
#[test]
fn mutators_write_to_copies_only_and_no_write_is_lost() {
    explore(|| {
        let model = Arc::new(Model::new());
        let mutators: Vec<_> = (0..2)
            .map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.world.enter();
                    for _ in 0..2 {
                        let mut object = model.load_root();
                        for _ in 0..OBJECTS {
                            let is_collecting = model.is_collecting.load(Ordering::Acquire) != 0;
                            assert!(!is_collecting || !Model::is_evacuated(object));
                            assert_ne!(model.word(object).load(Ordering::Acquire), u64::MAX);
                            model.word(object + 2).fetch_add(1, Ordering::AcqRel);
                            object = model.load_next(object);
                        }
                        // Stores a reference: the root may now be any of the objects.
                        let next = model.load_next(object);
                        model.root.store(next, Ordering::Release);
                        if model.world.is_requested() {
                            model.world.leave();
                            model.world.enter();
                        }
                    }
                    model.world.leave();
                })
            })
            .collect();
        model.collect();
        for mutator in mutators {
            mutator.join().expect("it has said why");
        }
        let mut object = model.root.load(Ordering::Acquire);
        let mut seen = Vec::new();
        for _ in 0..OBJECTS {
            assert!(!Model::is_evacuated(object));
            seen.push(object);
            let count = model.word(object + 2).load(Ordering::Acquire);
            assert_eq!(count, 4, "two mutators, two rounds");
            object = model.word(object + 1).load(Ordering::Acquire) as u32;
        }
        assert_eq!(object, seen[0], "still a ring");
    });
}
