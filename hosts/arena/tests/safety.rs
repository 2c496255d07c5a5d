//! What happens when something is wrong: a child process does it, and its end is looked at.
#![allow(unsafe_code)] // Regions are reached through raw pointers, and faults are made on purpose.

mod common;

use common::*;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use warmswap_arena::{Advice, Arena, ArenaConfig, Mechanism};
use warmswap_backing::testing::{Faults, FaultyStorage};

/// Set in the child process of a test.
const CHILD: &str = "WARMSWAP_ARENA_TEST_CHILD";

/// Runs a test of this file once more, in a process of its own, where it does `work`; what came of that process. `None`
/// where it cannot run. That process ends here.
fn in_child(test: &str, work: impl FnOnce()) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        work();
        // No test of the child's has passed; what looks at it wants another end.
        std::process::exit(0);
    }
    if !can_run(test, Mechanism::Auto) {
        return None;
    }
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "")
        .stdin(Stdio::null())
        .output();
    Some(child.expect("a child"))
}

/// The child ended by SIGABRT, after a line with an address and these words.
fn assert_died(output: &Output, words: &str) {
    use std::os::unix::process::ExitStatusExt;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{text}");
    let line = text
        .lines()
        .find(|line| line.contains("warmswap: cannot serve the page at 0x"));
    assert!(line.is_some_and(|line| line.contains(words)), "{text}");
}

#[test]
fn damage_in_the_pool_ends_the_process() {
    let test = "damage_in_the_pool_ends_the_process";
    if let Some(output) = in_child(test, damage_the_pool) {
        assert_died(&output, "checksum");
    }
}

fn damage_the_pool() {
    use std::os::unix::fs::FileExt;
    const MARK: u64 = 0x6d61_726b_6d61_726b;
    let arena = Arena::new(config(8 * MIB, "zram")).expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(PAGE).expect("a region");
    let mut random = Random(1);
    for word in words(&region) {
        word.store(random.next(), Ordering::Relaxed);
    }
    // Its page does not shrink, so that its words stand in the pool as they are.
    words(&region)[0].store(!MARK, Ordering::Relaxed);
    leave(&region);
    let memory = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/proc/self/mem")
        .expect("own memory");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own maps");
    let mut damaged = 0;
    for line in maps.lines().filter(|line| line.contains("rw-p")) {
        let range = line.split(' ').next().expect("a range");
        let (start, end) = range.split_once('-').expect("two addresses");
        let [start, end] =
            [start, end].map(|text| u64::from_str_radix(text, 16).expect("an address"));
        let mut page = vec![0; PAGE];
        for address in (start..end.min(start + (64 << 20))).step_by(PAGE) {
            if memory.read_exact_at(&mut page, address).is_err() {
                continue;
            }
            let found = page
                .as_chunks::<8>()
                .0
                .iter()
                .position(|w| *w == (!MARK).to_ne_bytes());
            if let Some(at) = found {
                // The word behind the mark, so that the search finds it again nowhere.
                let at = address + 8 * at as u64 + 8;
                damaged += usize::from(memory.write_all_at(&[0; 8], at).is_ok());
            }
        }
    }
    assert!(damaged > 0);
    let read = words(&region)[0].load(Ordering::Relaxed);
    // Never reached; a wrong exit is told from an abort.
    println!("read {read}");
}

#[test]
fn an_input_error_ends_the_process() {
    let test = "an_input_error_ends_the_process";
    if let Some(output) = in_child(test, read_a_backing_file_that_fails) {
        assert_died(&output, "memory");
    }
}

fn read_a_backing_file_that_fails() {
    let storage = FaultyStorage::new(1);
    let config = ArenaConfig {
        backing_limit_bytes: 64 << 20,
        ..config(8 * MIB, "swap")
    };
    let arena = Arena::with_storage(config, Box::new(storage.clone())).expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(16 * PAGE).expect("a region");
    (0..16).for_each(|page| write_page(words(&region), page, 1));
    leave(&region);
    storage.set_faults(Faults {
        permanent_read_eio: 100,
        ..Faults::default()
    });
    check_page(words(&region), 3, 1);
}

#[test]
fn output_errors_lose_nothing() {
    if !can_run("output_errors_lose_nothing", Mechanism::Auto) {
        return;
    }
    let faults = [
        Faults {
            no_space: 100,
            ..Faults::default()
        },
        Faults {
            permanent_write_eio: 100,
            ..Faults::default()
        },
        Faults {
            short: 30,
            interrupted: 30,
            transient_eio: 10,
            permanent_write_eio: 3,
            no_space: 3,
            ..Faults::default()
        },
    ];
    for faults in faults {
        let storage = FaultyStorage::new(2);
        let config = ArenaConfig {
            backing_limit_bytes: 64 << 20,
            pool_limit_bytes: Some(3 * MIB as u64 / 2),
            ..config(4 * MIB, "zswap")
        };
        let arena = Arena::with_storage(config, Box::new(storage.clone())).expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(16 * MIB).expect("a region");
        storage.set_faults(faults);
        let pages = 16 * MIB / PAGE;
        for version in 1..3 {
            (0..pages).for_each(|page| write_page(words(&region), page, version));
            (0..pages).for_each(|page| check_page(words(&region), page, version));
        }
        arena.check().expect("the engine's invariants");
    }
}

#[test]
fn other_addresses_go_to_the_handler_before() {
    let test = "other_addresses_go_to_the_handler_before";
    if let Some(output) = in_child(test, fault_with_a_handler_of_its_own) {
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(42), "{text}");
    }
}

fn fault_with_a_handler_of_its_own() {
    extern "C" fn handler(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel gives a valid structure.
        let address = unsafe { (*info).si_addr() };
        let code = if address.is_null() { 41 } else { 42 };
        // SAFETY: allowed in a handler.
        unsafe { libc::_exit(code) }
    }
    // SAFETY: the structure is filled in before it is used, and the handler keeps to what is allowed in one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handler;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
    let arena = Arena::new(config(8 * MIB, "zram")).expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(MIB).expect("a region");
    // Ours are served.
    write_page(words(&region), 7, 1);
    leave(&region);
    check_page(words(&region), 7, 1);
    // A page of a file behind its end is not ours.
    let file = tempfile::tempfile().expect("a file");
    // SAFETY: maps a page of a file of no bytes, and reads it, which raises SIGBUS.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ,
            libc::MAP_SHARED,
            std::os::fd::AsRawFd::as_raw_fd(&file),
            0,
        );
        page.cast::<u8>().read_volatile();
    }
}

#[test]
fn without_a_handler_before_the_default_is_done() {
    let test = "without_a_handler_before_the_default_is_done";
    if let Some(output) = in_child(test, send_itself_the_signal) {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(output.status.signal(), Some(7));
    }
}

fn send_itself_the_signal() {
    // SAFETY: sets the default action, which the test's runtime may have changed.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    let _arena = Arena::new(config(8 * MIB, "zram")).expect("an arena");
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(libc::SIGBUS) };
}

#[test]
fn a_forked_child_has_no_region_and_the_parent_goes_on() {
    use std::os::unix::process::ExitStatusExt;
    if !can_run("a_forked_child_has_no_region", Mechanism::Auto) {
        return;
    }
    let arena = Arena::new(config(4 * MIB, "warmswap")).expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(8 * MIB).expect("a region");
    (0..2048).for_each(|page| write_page(words(&region), page, 1));
    // SAFETY: the child makes one access and ends without running anything of this process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the region is not there, and the access ends the child: the default action is set, so that
        // the test runner's own handler says nothing.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            region.as_mut_ptr().read_volatile();
            libc::_exit(0);
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    let status = std::process::ExitStatus::from_raw(status);
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status}");
    (0..2048).for_each(|page| check_page(words(&region), page, 1));
    check_account(&arena);
}

#[test]
fn pinned_pages_can_be_given_to_the_kernel() {
    for mechanism in [Mechanism::Move, Mechanism::Copy] {
        if !can_run("pinned_pages_can_be_given_to_the_kernel", mechanism) {
            continue;
        }
        let arena = Arena::new(ArenaConfig {
            mechanism,
            ..config(4 * MIB, "zram")
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(16 * PAGE).expect("a region");
        (0..16).for_each(|page| write_page(words(&region), page, 1));
        leave(&region);
        let range = region.as_mut_ptr().cast_const()
            ..region.as_mut_ptr().cast_const().wrapping_add(region.len());
        // SAFETY: the region lives, and no thread writes to it now.
        let bytes = unsafe { std::slice::from_raw_parts(range.start, region.len()) };
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let refused = rustix::io::write(&writer, &bytes[..PAGE]);
        assert_eq!(
            refused,
            Err(rustix::io::Errno::FAULT),
            "without touching it first"
        );
        {
            let _pinned = arena.touch_for_kernel(range.clone());
            region
                .advise(0..region.len(), Advice::Cold)
                .expect("in the region");
            // Pages that are chosen to leave stay.
            let other = app.region(8 * MIB).expect("a region");
            (0..2048).for_each(|page| write_page(words(&other), page, 2));
            assert_eq!(
                region
                    .resident_pages(0..region.len())
                    .expect("in the region"),
                16
            );
            let written = rustix::io::write(&writer, bytes).expect("room in the pipe");
            assert_eq!(written, bytes.len());
        }
        leave(&region);
        {
            let _pinned = region.pin(0..region.len()).expect("in the region");
            // SAFETY: the region lives, and no other thread uses it now.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(region.as_mut_ptr(), region.len()) };
            let mut read = 0;
            while read < bytes.len() {
                read += rustix::io::read(&reader, &mut bytes[read..]).expect("all of it");
            }
        }
        leave(&region);
        (0..16).for_each(|page| check_page(words(&region), page, 1));
    }
}

/// The kernel's own hold on memory: buffers that are registered with an io_uring stay pinned until it is closed.
struct KernelHold(std::os::fd::OwnedFd);

impl KernelHold {
    /// Holds `len` bytes; `None` where there is no io_uring.
    fn of(start: *mut u8, len: usize) -> Option<Self> {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        const REGISTER_BUFFERS: libc::c_uint = 0;
        let mut params = [0u64; 15];
        // SAFETY: the kernel fills in a structure of 120 bytes, which is there.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the call gave this descriptor to no other code.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let buffer = libc::iovec {
            iov_base: start.cast(),
            iov_len: len,
        };
        // SAFETY: one buffer, which the caller keeps mapped; nothing is read or written there.
        let result = unsafe {
            let request = (fd.as_raw_fd(), REGISTER_BUFFERS, &raw const buffer, 1);
            libc::syscall(
                libc::SYS_io_uring_register,
                request.0,
                request.1,
                request.2,
                request.3,
            )
        };
        (result == 0).then_some(Self(fd))
    }
}

#[test]
fn a_page_that_the_kernel_holds_stays_and_the_arena_goes_on() {
    let name = "a_page_that_the_kernel_holds_stays_and_the_arena_goes_on";
    if !can_run(name, Mechanism::Move) {
        return;
    }
    let arena = Arena::new(ArenaConfig {
        mechanism: Mechanism::Move,
        ..config(8 * MIB, "zram")
    })
    .expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(64 * PAGE).expect("a region");
    let memory = words(&region);
    (0..64).for_each(|page| write_page(memory, page, 1));
    let held = 20 * PAGE..22 * PAGE;
    let start = region.as_mut_ptr().wrapping_add(held.start);
    let Some(hold) = KernelHold::of(start, held.len()) else {
        warmswap_testkit::skip!(name, "needs io_uring");
    };
    let others = || {
        let resident = |bytes| region.resident_pages(bytes).expect("in the region");
        resident(0..held.start) + resident(held.end..region.len())
    };
    while others() > 0 {
        region
            .advise(0..region.len(), Advice::Cold)
            .expect("in the region");
        std::thread::yield_now();
    }
    let stats = arena.stats();
    assert!(stats.pager.stayed >= 2, "{stats:#?}");
    assert_eq!(region.resident_pages(held).expect("in the region"), 2);
    (0..64).for_each(|page| check_page(memory, page, 1));
    drop(hold.0);
    // The kernel lets go of the pages a moment after the descriptor is closed.
    leave(&region);
    (0..64).for_each(|page| check_page(memory, page, 1));
    check_account(&arena);
}

/// Pages that were in their place when the advice looked, and left before the engine heard of it, were taken for
/// present: what they were stored in was freed.
#[test]
fn pages_that_are_said_to_be_hot_while_they_leave_keep_their_content() {
    let name = "pages_that_are_said_to_be_hot_while_they_leave_keep_their_content";
    const PAGES: usize = 2048;
    if !can_run(name, Mechanism::Move) {
        return;
    }
    let arena = Arena::new(config(4 * MIB, "zram")).expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(PAGES * PAGE).expect("a region");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let advises = threads.spawn(|| {
            let mut rounds = 0u64;
            while !is_done.load(Ordering::Relaxed) {
                // The half that is touched least, in parts as large as a collector's regions.
                let first = PAGES / 2 + rounds as usize * 64 % (PAGES / 2);
                let advice = [Advice::Hot, Advice::Hot, Advice::Cold][rounds as usize % 3];
                region
                    .advise(first * PAGE..(first + 64) * PAGE, advice)
                    .expect("in the region");
                rounds += 1;
            }
            rounds
        });
        for round in 1..=12 {
            (0..PAGES).for_each(|page| write_page(words(&region), page, round));
            (0..PAGES).for_each(|page| check_page(words(&region), page, round));
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(advises.join().expect("it does not fail") > 0);
    });
}
