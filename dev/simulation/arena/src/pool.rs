//! A simulation of the pool alone: objects are stored, loaded, moved and freed by several threads.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::{machine, random::Random, thread};

use warmswap_page::Layout;
use warmswap_pool::{Content, Handle, Pool, PoolConfig};

/// Objects that threads share.
const OBJECTS: usize = 64;

/// An object: its handle, and the key of its content. 0 while a thread changes it.
#[derive(Debug, Default)]
struct Object {
    handle: AtomicU64,
    key: AtomicU64,
    readers: AtomicU64,
}

/// Length and bytes of the object of a key: of few size classes, of few slots a span, so that threads
/// meet in them and objects move.
fn content(key: u64) -> Vec<u8> {
    let len = [1300, 1300, 1330, 2000][key as usize % 4] + (key >> 8) as usize % 8;
    (0..len).map(|i| (key as usize * 31 + i) as u8).collect()
}

/// Runs the simulation of a seed; loads that were compared, and objects that were moved.
///
/// # Panics
/// When an object is not what was stored.
pub fn simulate_pool(seed: u64) -> (u64, u64) {
    let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let counted = Arc::clone(&counts);
    let config = machine::Config {
        seed,
        kernel: std::kernel::Config::default(),
    };
    machine::run(config, move || {
        let mut random = Random::new(seed);
        let layout = [Layout::SizeClasses, Layout::SizeClasses, Layout::Z3fold];
        let pool = Pool::new(PoolConfig {
            cache_bytes: random.below(2) << 14,
            layout: layout[random.below(3) as usize],
            ..PoolConfig::default()
        });
        let pool = pool.unwrap_or_else(|error| panic!("{error}"));
        let objects: Vec<_> = (0..OBJECTS).map(|_| Object::default()).collect();
        let world = Arc::new((pool, objects, Arc::clone(&counted)));
        let tasks: Vec<_> = (0..2 + random.below(6))
            .map(|_| {
                let (world, mut random) = (Arc::clone(&world), Random::new(random.next()));
                thread::spawn(move || {
                    let (pool, objects, counts) = &*world;
                    (0..300).for_each(|_| turn(pool, objects, &counts.0, &mut random));
                })
            })
            .collect();
        for task in tasks {
            let Ok(()) = task.join() else {
                panic!("a task ended by a panic")
            };
        }
        counted.1.store(world.0.stats().moved_objects, Relaxed);
    });
    (counts.0.load(Relaxed), counts.1.load(Relaxed))
}

/// One thing that a thread does. The thread that sees an object's key at 0 has it to itself; the numbers of this model take
/// no step.
fn turn(pool: &Pool, objects: &[Object], loads: &AtomicU64, random: &mut Random) {
    machine::progress();
    if random.below(6) == 0 {
        pool.compact(1 + random.below(64));
        return;
    }
    let object = &objects[random.below(OBJECTS as u64) as usize];
    let (handle, key) = (object.handle.load(Relaxed), object.key.load(Relaxed));
    let handle = Handle::from_number(handle as u32);
    if key != 0 && random.below(3) > 0 {
        let Some(handle) = handle else { return };
        object.readers.fetch_add(1, Relaxed);
        let loaded = pool.load(handle, |found| match found {
            Content::Bytes(bytes) => bytes.to_vec(),
            Content::Filled(word) => word.to_ne_bytes().to_vec(),
        });
        object.readers.fetch_sub(1, Relaxed);
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
        assert!(loaded == content(key), "the object of key {key} is another");
        loads.fetch_add(1, Relaxed);
        return;
    }
    if object.readers.load(Relaxed) > 0 || (key == 0 && handle.is_some()) {
        return;
    }
    object.key.store(0, Relaxed);
    // Anything but a handle, while this thread has it.
    object.handle.store(u64::from(u32::MAX), Relaxed);
    if let Some(handle) = handle {
        let freed = pool.free(handle);
        freed.unwrap_or_else(|error| panic!("{error}"));
    }
    if random.below(2) == 0 {
        // None for now, so that spans become empty.
        object.handle.store(0, Relaxed);
        return;
    }
    let key = 1 + random.below(1 << 16);
    match pool.store(&content(key), 1) {
        Ok(handle) => object.handle.store(handle.get().into(), Relaxed),
        Err(refusal) => panic!("{refusal}"),
    }
    object.key.store(key, Relaxed);
}
