//! Against the kernel. Skipped by name where it has no userfaultfd, or lacks a feature.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::UserfaultfdFlags;

use super::uffd::{handshake, open_by_device};
use super::*;
use warmswap_page::PAGE_BYTES;

/// Memory with this mechanism and delivery, with all its slots; `None` after saying why not.
fn memory(
    test: &str,
    mechanism: Mechanism,
    delivery: FaultDelivery,
) -> Option<(PagedMemory, Slots)> {
    let config = PagedConfig {
        addresses: Addresses::Parts,
        pages: 1024,
        slots: 64,
        mechanism,
        delivery,
    };
    match PagedMemory::new(config) {
        Ok(memory) => Some(memory),
        Err(error) => {
            warmswap_testkit::record_skip(test, &error.to_string());
            None
        }
    }
}

fn byte(memory: &PagedMemory, page: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(memory.address(page))
}

#[test]
fn features_are_named_and_an_unknown_one_is_missed() {
    let Ok(features) = Uffd::probe() else {
        warmswap_testkit::skip!("features_are_named", "no userfaultfd");
    };
    let all = Features::of(&Feature::ALL);
    let missing = all.without(features);
    match Uffd::open(Reach::UserOnly, all) {
        Err(OpenError::Lacks(lacks)) => assert_eq!(lacks, missing),
        Ok(uffd) => assert!(missing == Features::NONE && uffd.features() == all),
        // Events of forks need rights.
        Err(error) => assert!(features.has(Feature::EventFork), "{error}"),
    }
    assert_eq!(
        Features::of(&[Feature::Sigbus, Feature::Move]).to_string(),
        "Sigbus, Move"
    );
}

#[test]
fn frames_move_out_and_in_and_a_second_page_is_refused() {
    let test = "frames_move_out_and_in";
    let Some((memory, mut slots)) = memory(test, Mechanism::Move, FaultDelivery::Signal) else {
        return;
    };
    memory.map(0, 8).expect("mapped");
    memory
        .copy_in(0, &[7; 4 * PAGE_BYTES])
        .expect("missing pages");
    let exists = memory
        .copy_in(3, &[8; PAGE_BYTES])
        .expect_err("page 3 is there");
    assert_eq!(exists.failure, Failure::PageExists);
    assert_eq!(
        (exists.address, exists.len),
        (memory.address(3), PAGE_BYTES)
    );

    let mut staged = slots.split_front(4);
    assert_eq!(memory.move_out(0, &mut staged).expect("four pages"), 4);
    assert!(memory.bytes(&staged).iter().all(|&b| b == 7));
    assert!(!memory.has_frame(0));
    let none = memory.move_out(0, &mut slots.split_front(1));
    assert_eq!(
        none.expect_err("nothing is there").failure,
        Failure::Missing
    );

    memory.bytes_mut(&mut staged)[PAGE_BYTES] = 9;
    assert_eq!(memory.move_in(4, &mut staged).expect("missing pages"), 4);
    // SAFETY: pages 4 to 7 are present.
    let values = [4, 5, 6].map(|page| unsafe { byte(&memory, page).read_volatile() });
    assert_eq!(values, [7, 9, 7]);
    assert!(memory.has_frame(4));
    let frames = |first, pages| {
        let mut found = Vec::new();
        let visited = memory.for_frames(first, pages, |page| found.push(page));
        visited.map(|()| found).expect("a page map")
    };
    assert_eq!(frames(0, 1024), [4, 5, 6, 7]);
    assert_eq!(frames(5, 2), [5, 6]);
    memory.unmap(0, 8).expect("unmapped");
}

#[test]
fn a_move_that_stops_in_the_middle_says_how_far_it_came() {
    let test = "a_move_that_stops_in_the_middle";
    let Some((memory, mut slots)) = memory(test, Mechanism::Move, FaultDelivery::Signal) else {
        return;
    };
    memory.map(0, 8).expect("mapped");
    memory
        .copy_in(0, &[7; 2 * PAGE_BYTES])
        .expect("missing pages");
    let mut four = slots.split_front(4);
    assert_eq!(memory.move_out(0, &mut four).expect("two are missing"), 2);
}

struct Filler {
    memory: PagedMemory,
    served: AtomicUsize,
}

// SAFETY: copies a static page to a missing one and counts; touches nothing of the range.
unsafe impl sigbus::FaultService for Filler {
    fn serve(&self, address: usize) {
        static ONES: [u8; PAGE_BYTES] = [1; PAGE_BYTES];
        let page = self.memory.page_of(address).expect("in the range");
        if !self.memory.has_frame(page) {
            self.memory.copy_in(page, &ONES).expect("a missing page");
        }
        self.served.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn sigbus_is_served_in_the_thread_that_faults() {
    let test = "sigbus_is_served_in_the_thread";
    let Some((memory, _slots)) = memory(test, Mechanism::Copy, FaultDelivery::Signal) else {
        return;
    };
    memory.map(0, 8).expect("mapped");
    let filler = Arc::new(Filler {
        memory,
        served: AtomicUsize::new(0),
    });
    let range = filler.memory.range();
    let registration = sigbus::register(range, filler.clone()).expect("a free place");
    for page in 0..8 {
        // SAFETY: the page is mapped, and its fault is served.
        let value = unsafe { byte(&filler.memory, page).add(5).read_volatile() };
        assert_eq!(value, 1);
    }
    assert_eq!(filler.served.load(Ordering::Relaxed), 8);
    drop(registration);
    assert_eq!(Arc::strong_count(&filler), 1);
}

#[test]
fn a_write_to_a_protected_page_is_an_event() {
    let test = "a_write_to_a_protected_page";
    let Some((memory, _slots)) = memory(test, Mechanism::Copy, FaultDelivery::Events) else {
        return;
    };
    memory.map(0, 1).expect("mapped");
    memory.copy_in(0, &[3; PAGE_BYTES]).expect("a missing page");
    memory.write_protect(0, 1, true).expect("present");
    std::thread::scope(|scope| {
        // SAFETY: the page is present; the write waits until the protection is lifted.
        scope.spawn(|| unsafe { byte(&memory, 0).write_volatile(4) });
        let waiter = memory.waiter().expect("a waiter");
        let event = loop {
            waiter.wait(1000).expect("an event");
            if let Some(event) = memory.read_event().expect("readable") {
                break event;
            }
        };
        assert!(
            matches!(event, Event::Fault { protected: true, write: true, address, .. }
                if address == memory.address(0)),
            "{event:?}"
        );
        let mut copy = [0; PAGE_BYTES];
        memory.read_page(0, &mut copy);
        assert_eq!(copy, [3; PAGE_BYTES]);
        memory.write_protect(0, 1, false).expect("present");
    });
    let mut copy = [0; PAGE_BYTES];
    memory.read_page(0, &mut copy);
    assert_eq!(copy[..2], [4, 3]);
}

#[test]
fn the_device_gives_a_descriptor_of_full_reach() {
    if std::fs::File::options()
        .read(true)
        .write(true)
        .open(DEVICE)
        .is_err()
    {
        warmswap_testkit::skip!(
            "the_device_gives_a_descriptor_of_full_reach",
            "{} is missing or not open to this user",
            DEVICE
        );
    }
    let fd = open_by_device(UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK).unwrap();
    let features = handshake(&fd, Features::NONE).unwrap();
    assert_eq!(features, Uffd::probe().unwrap());
}
