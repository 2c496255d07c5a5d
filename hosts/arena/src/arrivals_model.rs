//! The arrival queue under many schedules (shuttle), and with real threads.
//!
//! The file of the queue is compiled again here, over shuttle's atomics. They are sequentially consistent, as the queue's
//! own accesses are, but for one failed exchange whose value is not used.

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use arrivals::ArrivalQueue;

#[path = "arrivals.rs"]
#[allow(clippy::duplicate_mod, reason = "over other atomics")]
mod arrivals;

mod sync {
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
}

const SCHEDULES: usize = 2000;

/// Runs a test under many schedules: uniformly random ones, and ones that put rare orders to the fore.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

/// A queue, and the words that say which pages have an arrival.
struct Told {
    arrivals: ArrivalQueue,
    pages: Vec<AtomicBool>,
}

impl Told {
    fn new(capacity: usize, pages: usize) -> Self {
        Self {
            arrivals: ArrivalQueue::new(capacity),
            pages: (0..pages).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// A page arrives: its word says so before it is queued.
    fn arrive(&self, page: usize) {
        self.pages[page].store(true, Ordering::SeqCst);
        self.arrivals.push(page);
    }

    /// Takes arrivals as the pager does; how many pages it heard of.
    fn drain(&self) -> usize {
        let take = |page: &usize| self.pages[*page].swap(false, Ordering::SeqCst);
        let overflow = if self.arrivals.take_overflow() {
            (0..self.pages.len()).filter(take).count()
        } else {
            0
        };
        overflow
            + std::iter::from_fn(|| self.arrivals.pop())
                .filter(take)
                .count()
    }
}

/// Writers and a reader; the reader looks once more when the writers are done. It heard of each page once.
fn no_arrival_is_lost(capacity: usize, writers: usize, pages_each: usize) {
    let told = Arc::new(Told::new(capacity, writers * pages_each));
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let told = Arc::clone(&told);
            thread::spawn(move || {
                for page in 0..pages_each {
                    told.arrive(writer * pages_each + page);
                }
            })
        })
        .collect();
    let mut heard = told.drain() + told.drain();
    for thread in threads {
        thread.join().expect("it has said why");
    }
    heard += told.drain();
    assert_eq!(heard, writers * pages_each);
}

/// A place that is taken and not yet filled is passed by, and its writer notices.
#[test]
fn no_arrival_is_lost_in_a_queue_with_room() {
    explore(|| no_arrival_is_lost(8, 2, 2));
}

/// Places are used again while others are read; writers find some of them taken.
#[test]
fn no_arrival_is_lost_in_a_queue_that_runs_over() {
    explore(|| no_arrival_is_lost(2, 2, 2));
    explore(|| no_arrival_is_lost(2, 3, 1));
}

/// A page that arrives again while the reader takes it is heard of again.
#[test]
fn a_page_that_arrives_twice_is_heard_of() {
    explore(|| {
        let told = Arc::new(Told::new(4, 1));
        let writer = {
            let told = Arc::clone(&told);
            thread::spawn(move || {
                told.arrive(0);
                told.arrive(0);
            })
        };
        let heard = told.drain();
        writer.join().expect("it has said why");
        let heard = heard + told.drain();
        assert!((1..=2).contains(&heard), "{heard}");
        assert!(
            !told.pages[0].load(Ordering::SeqCst),
            "no thread looks again"
        );
    });
}

mod threads {
    use std::sync::atomic::Ordering;

    use crate::arrivals::ArrivalQueue;

    #[test]
    fn a_queue_keeps_order_and_says_so_when_it_forgot() {
        let arrivals = ArrivalQueue::new(4);
        for page in 0..4 {
            assert_eq!(arrivals.push(page), page >= 2);
        }
        assert_eq!(arrivals.pop(), Some(0));
        assert!(!arrivals.take_overflow());
        arrivals.push(4);
        assert!(arrivals.push(5));
        assert!(arrivals.take_overflow());
        assert_eq!(arrivals.pop(), None);
        arrivals.push(6);
        assert_eq!(arrivals.pop(), Some(6));
        assert_eq!(arrivals.pop(), None);
    }

    /// A page is told of before it is pushed, as in the page words, where the reader looks after an overflow.
    #[test]
    fn many_writers_and_a_reader_lose_nothing_that_is_not_reported() {
        use std::collections::HashSet;
        use std::sync::atomic::AtomicBool;
        const WRITERS: usize = 4;
        const PAGES: usize = 5_000;
        let arrivals = ArrivalQueue::new(64);
        let told: Vec<_> = (0..WRITERS * PAGES)
            .map(|_| AtomicBool::new(false))
            .collect();
        let mut drained = HashSet::new();
        let drain = |drained: &mut HashSet<usize>| {
            if arrivals.take_overflow() {
                let is_told = |&page: &usize| told[page].load(Ordering::SeqCst);
                drained.extend((0..told.len()).filter(is_told));
            }
            drained.extend(std::iter::from_fn(|| arrivals.pop()));
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (arrivals, told) = (&arrivals, &told);
                    scope.spawn(move || {
                        let own = told.iter().enumerate().skip(writer * PAGES);
                        for (page, is_told) in own.take(PAGES) {
                            is_told.store(true, Ordering::SeqCst);
                            arrivals.push(page);
                            if page % 8 == 0 {
                                std::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            while !writers.iter().all(|writer| writer.is_finished()) {
                drain(&mut drained);
            }
        });
        drain(&mut drained);
        assert_eq!(drained.len(), told.len());
        assert!(drained.iter().all(|&page| page < told.len()));
    }
}
