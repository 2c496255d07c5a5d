//! The heap over memory that the kernel swaps, on a zram device of our own.

use std::sync::atomic::{AtomicU64, Ordering};

use warmswap_heap::{
    Collector, FleetConfig, Heap, HeapConfig, HeapMemory as _, KernelMemory, Kind, Mutator, Record,
    Ref, Root,
};
use warmswap_sys::Root as SystemRoot;
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramSwap, probe};
use warmswap_testkit::skip;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

/// A swap device until it is dropped, with the folder of its undo list.
struct Swap {
    _device: ZramSwap,
    _folder: tempfile::TempDir,
}

fn swap() -> Result<Swap, String> {
    let root = SystemRoot::machine();
    probe(&root).map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().expect("a folder");
    let undo = Undo::open(&root, folder.path()).expect("an undo list");
    let config = ZramConfig {
        disk_bytes: 256 << 20,
        algorithm: "lz4".to_owned(),
        second_algorithm: None,
        backing_device: None,
        memory_limit_bytes: None,
        priority: 32767,
    };
    let device = ZramSwap::create(&undo, &config).map_err(|error| error.to_string())?;
    Ok(Swap {
        _device: device,
        _folder: folder,
    })
}

/// Where memory lies, so that it can be looked at once a heap owns it.
#[derive(Clone, Copy)]
struct Span(usize, usize);

impl Span {
    fn of(memory: &KernelMemory) -> Self {
        Self(memory.base().addr(), memory.bytes())
    }

    /// Pages in swap.
    fn swapped(self) -> usize {
        let pagemap = Pagemap::open(&SystemRoot::machine(), std::process::id()).expect("our own");
        let count = AtomicU64::new(0);
        let visit = |_, entry: warmswap_sys::pagemap::PagemapEntry| {
            count.fetch_add(u64::from(entry.swapped()), Ordering::Relaxed);
        };
        let (first, end) = (self.0 as u64, (self.0 + self.1) as u64);
        pagemap.scan(first, end, visit).expect("mapped");
        count.into_inner() as usize
    }
}

/// A list of records with a word each; the first one's root.
fn list(mutator: &mut Mutator, len: u32) -> Root<Record> {
    let mut first: Option<Root<Record>> = None;
    for number in 0..len {
        mutator.safepoint();
        let record = mutator.alloc_record(1, 96).expect("room");
        record.data(mutator)[0].store(number, Ordering::Relaxed);
        let before = first.as_ref().map(|root| root.get(mutator));
        record.set(mutator, 0, before);
        first = Some(mutator.root(record));
    }
    first.expect("not empty")
}

fn check(mutator: &Mutator, list: &Root<Record>, len: u32) {
    let mut next: Option<Ref<'_, Record>> = Some(list.get(mutator));
    for number in (0..len).rev() {
        let record = next.expect("as long as it was made");
        assert_eq!(record.data(mutator)[0].load(Ordering::Relaxed), number);
        next = record.get(mutator, 0);
    }
    assert!(next.is_none());
}

#[test]
fn cold_regions_go_to_the_kernels_swap_and_background_collections_leave_them_there() {
    const LEN: u32 = 100_000;
    let name = "cold_regions_go_to_the_kernels_swap_and_background_collections_leave_them_there";
    let _swap = match swap() {
        Ok(swap) => swap,
        Err(reason) => skip!(name, "{reason}"),
    };
    let config = HeapConfig::new(64 * MIB).with(Collector::Fleet(FleetConfig::paper()));
    let memory = KernelMemory::new(config.address_bytes()).expect("memory");
    let span = Span::of(&memory);
    let heap = Heap::new(memory, config).expect("a heap");
    let mut mutator = heap.mutator().expect("the first of this thread");
    let list = list(&mut mutator, LEN);
    mutator.collect(Kind::Minor);
    heap.background();
    mutator.blocking(|| heap.expire_timer());
    let stats = heap.stats();
    let grouping = stats.reports.last().expect("one has run");
    assert_eq!((grouping.kind, stats.refusals), (Kind::Grouping, 0));
    let cold_pages = grouping.grouped_bytes[2] as usize / PAGE;
    let away = span.swapped();
    assert!(away * 10 > cold_pages * 9, "{away} of {cold_pages} pages");
    for _ in 0..3 {
        mutator.collect(Kind::Background);
    }
    let still_away = span.swapped();
    assert!(still_away + 16 > away, "{still_away} of {away} pages");
    check(&mutator, &list, LEN);
    assert!(span.swapped() * 10 < away, "they were read");
}

#[test]
fn the_kernel_is_told_to_keep_hot_pages_and_brings_back_those_that_are_restored() {
    const PAGES: usize = 1000;
    let name = "the_kernel_is_told_to_keep_hot_pages_and_brings_back_those_that_are_restored";
    let _swap = match swap() {
        Ok(swap) => swap,
        Err(reason) => skip!(name, "{reason}"),
    };
    let memory = KernelMemory::new(PAGES * PAGE).expect("memory");
    let span = Span::of(&memory);
    for page in 0..PAGES {
        // SAFETY: within the memory, which nothing else uses.
        #[allow(unsafe_code)]
        unsafe {
            memory.base().add(page * PAGE).cast::<usize>().write(page);
        }
    }
    memory.cold(0..PAGES / 2 * PAGE).expect("swap");
    let away = span.swapped();
    assert!(away * 10 > PAGES / 2 * 9, "{away} pages");
    memory.hot(0..PAGES * PAGE).expect("Linux 5.14");
    assert!(span.swapped() + 16 > away, "nothing comes back");
    memory.restore(0..PAGES * PAGE).expect("Linux 5.14");
    assert_eq!(span.swapped(), 0);
}
