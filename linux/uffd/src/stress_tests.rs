//! What the kernel's own `uffd-stress` does, for the calls that are used here: pages bounce between their places and
//! staging while threads count in them and the process forks. No count is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use warmswap_page::PAGE_BYTES;

const PAGES: usize = 192;
const MOST_AT_ONCE: usize = 16;
const WRITERS: usize = 3;
const COUNTS: usize = 20_000;
const FORKS: usize = 40;

/// All of it is mapped, each page with a counter of 0. `None` after saying why not.
fn counters(test: &str, mechanism: Mechanism) -> Option<(PagedMemory, Slots)> {
    let config = PagedConfig {
        addresses: Addresses::Whole { at: 0 },
        pages: PAGES,
        slots: 2 * MOST_AT_ONCE,
        mechanism,
        delivery: FaultDelivery::Events,
    };
    let (memory, slots) = match PagedMemory::new(config) {
        Ok((memory, _)) if !memory.hears_of_forks() => {
            warmswap_testkit::record_skip(test, "no right to events of forks");
            return None;
        }
        Ok(made) => made,
        Err(error) => {
            warmswap_testkit::record_skip(test, &error.to_string());
            return None;
        }
    };
    // A child has the counters, and no frame that is on its way.
    memory.inherit(0, PAGES, true).expect("mapped");
    memory.inherit_staging(false).expect("mapped");
    memory
        .protect(0, PAGES, Protection::READ_WRITE)
        .expect("reserved");
    memory.adopt(0, PAGES).expect("mapped");
    memory
        .copy_in(0, &[0; PAGES * PAGE_BYTES])
        .expect("missing pages");
    Some((memory, slots))
}

fn counter(memory: &PagedMemory, page: usize) -> &AtomicU64 {
    let first: *mut u64 = std::ptr::with_exposed_provenance_mut(memory.address(page));
    // SAFETY: the page is mapped as long as the memory lives, and its first word is used as this only.
    unsafe { AtomicU64::from_ptr(first) }
}

fn random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*state >> 33) as usize
}

/// Takes at most so many pages out of their places and puts them back; how many. None, or fewer, where a fork shares
/// their frames.
fn bounce_by_move(memory: &PagedMemory, bag: &SlotBag, first: usize, most: usize) -> usize {
    let Some(mut slots) = bag.take(most) else {
        return 0;
    };
    let moved = memory
        .move_out(first, &mut slots)
        .expect("they are in their places");
    let mut away = slots.split_front(moved);
    bag.put(slots);
    let mut page = first;
    while !away.is_empty() {
        let back = memory.move_in(page, &mut away).expect("they are missing");
        bag.put(away.split_front(back));
        page += back;
    }
    moved
}

/// The same for one page, which is copied.
fn bounce_by_copy(memory: &PagedMemory, page: usize) -> usize {
    let mut copy = [0; PAGE_BYTES];
    memory
        .write_protect(page, 1, true)
        .expect("it is in its place");
    memory.read_page(page, &mut copy);
    memory.discard(page, 1).expect("mapped");
    memory.copy_in(page, &copy).expect("it is missing");
    1
}

/// Reads events until all is over: a fork waits for that, and a move meanwhile is told to try again. A page that
/// a thread waits for is on its way back already.
fn drain(memory: &PagedMemory, is_over: &AtomicBool) -> usize {
    let mut forks = 0;
    while !is_over.load(Ordering::Acquire) {
        memory.wait_events(None, 5).expect("events");
        while let Some(event) = memory.read_event().expect("events") {
            forks += usize::from(matches!(event, Event::Fork(_)));
        }
    }
    forks
}

/// By the system call: the C library's `fork` holds the locks of the heap until the event is read, and the thread that
/// reads events may need one of them.
fn fork_and_join() {
    // SAFETY: the child, a copy of this process as after a fork, ends at once; the call for that is allowed whatever
    // other threads do.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    let child = libc::pid_t::try_from(child).expect("a process");
    if child == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    // SAFETY: waits for the child made above.
    let joined = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    assert_eq!(joined, child);
}

/// Each writer has every third page, each mover one half of them. Counts go on until a page has bounced, so that there were
/// some meanwhile; how many counts there were.
fn stress(memory: &PagedMemory, bag: &SlotBag) -> u64 {
    let (is_over, are_counted, bounced) = (
        AtomicBool::new(false),
        AtomicBool::new(false),
        AtomicU64::new(0),
    );
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| drain(memory, &is_over));
        let (are_counted, bounced) = (&are_counted, &bounced);
        let writers = [0, 1, 2].map(|writer| {
            scope.spawn(move || {
                let mut state = writer as u64;
                let mut counts = 0;
                while counts < COUNTS as u64 || bounced.load(Ordering::Relaxed) == 0 {
                    counts += 1;
                    let page = random(&mut state) % (PAGES / WRITERS) * WRITERS + writer;
                    // No single access: a frame that is replaced in between loses a count.
                    let count = counter(memory, page).load(Ordering::Relaxed);
                    counter(memory, page).store(count + 1, Ordering::Relaxed);
                }
                counts
            })
        });
        let movers = [0, PAGES / 2].map(|half| {
            scope.spawn(move || {
                let mut state = 7 + half as u64;
                while !are_counted.load(Ordering::Acquire) {
                    let most = 1 + random(&mut state) % MOST_AT_ONCE;
                    let page = half + random(&mut state) % (PAGES / 2 - most + 1);
                    let done = match memory.mechanism() {
                        Mechanism::Move => bounce_by_move(memory, bag, page, most),
                        Mechanism::Copy => bounce_by_copy(memory, page),
                    };
                    bounced.fetch_add(done as u64, Ordering::Relaxed);
                }
            })
        });
        (0..FORKS).for_each(|_| fork_and_join());
        let counts = writers.map(|writer| writer.join().expect("it counts"));
        are_counted.store(true, Ordering::Release);
        movers
            .into_iter()
            .for_each(|mover| mover.join().expect("it moves"));
        is_over.store(true, Ordering::Release);
        assert_eq!(drained.join().expect("it reads"), FORKS);
        counts.iter().sum()
    })
}

#[test]
fn no_count_is_lost_while_pages_bounce_and_the_process_forks() {
    let test = "no_count_is_lost_while_pages_bounce_and_the_process_forks";
    for mechanism in [Mechanism::Move, Mechanism::Copy] {
        let Some((memory, slots)) = counters(test, mechanism) else {
            continue;
        };
        let bag = SlotBag::new(slots.len());
        bag.put(slots);
        let counts = stress(&memory, &bag);
        let sum: u64 = (0..PAGES)
            .map(|page| counter(&memory, page).load(Ordering::Relaxed))
            .sum();
        assert_eq!(sum, counts, "{mechanism:?}");
        assert!(counts >= (WRITERS * COUNTS) as u64, "{mechanism:?}");
    }
}
