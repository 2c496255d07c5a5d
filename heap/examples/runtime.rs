//! The heap of a small language runtime: pairs and numbers, collected and paged, in the background with Fleet.
//!
//! `cargo run --release -p warmswap-heap --example runtime`

use std::time::Duration;

use warmswap_arena::{Arena, ArenaConfig};
use warmswap_heap::{
    AllocError, ArenaMemory, Collector, Field, FleetConfig, Heap, HeapConfig, Kind, Mutator, Ref,
    Root, object,
};
use warmswap_policy::SchemeSpec;

object! {
    /// A value of the language: a number, and what it is a list of.
    pub struct Pair {
        number: u64,
        head: Field<Pair>,
        tail: Field<Pair>,
    }
}

/// What a `cons` of the language compiles to.
fn cons<'m>(
    mutator: &'m Mutator,
    number: u64,
    head: Option<Ref<'m, Pair>>,
    tail: Option<Ref<'m, Pair>>,
) -> Result<Ref<'m, Pair>, AllocError> {
    let (empty_head, empty_tail) = (Field::null(), Field::null());
    let pair = mutator.alloc(Pair {
        number,
        head: empty_head,
        tail: empty_tail,
    })?;
    pair.head.set(mutator, head); // the write barrier is in here
    pair.tail.set(mutator, tail);
    Ok(pair)
}

/// A list of lists. The interpreter's loop polls for collections; what it keeps across that is a root.
fn build(mutator: &mut Mutator, lists: u64) -> Result<Root<Pair>, AllocError> {
    let all = mutator.root(cons(mutator, 0, None, None)?);
    for i in 0..lists {
        let mut list = None;
        for j in 0..100 {
            list = Some(cons(mutator, i * j, None, list)?);
        }
        let longer = cons(mutator, i, list, Some(all.get(mutator)))?;
        all.set(mutator, longer);
        mutator.safepoint(); // objects may move here; the compiler knows
    }
    Ok(all)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 48 MiB of memory for all heaps of the process together; what is beyond is compressed.
    let arena = Arena::new(ArenaConfig::new(48 << 20, SchemeSpec::named("warmswap")?))?;
    let fleet = FleetConfig {
        background_wait: Duration::from_secs(1),
        ..FleetConfig::learned()
    };
    let config = HeapConfig::new(256 << 20).with(Collector::Fleet(fleet));
    let app = arena.application("interpreter")?;
    let heap = Heap::new(ArenaMemory::new(app, config.address_bytes())?, config)?;

    let mut mutator = heap.mutator()?;
    heap.foreground();
    let program = build(&mut mutator, 20_000)?;
    heap.launch_done();

    heap.background(); // its user looks at something else
    mutator.blocking(|| std::thread::sleep(Duration::from_secs(4)));
    mutator.collect(Kind::Background); // does not bring anything back
    let away = arena.stats();
    let (heap_mib, frames_mib) = (heap.stats().used_bytes >> 20, away.resident_frames >> 8);
    println!(
        "in the background: {heap_mib} MiB of heap, {frames_mib} MiB in memory, the rest in {} MiB",
        away.pool_bytes >> 20
    );

    heap.foreground();
    println!("the newest list is number {}", program.get(&mutator).number);
    heap.launch_done();
    Ok(())
}
