use super::*;
use crate::Root;
use crate::maps::Maps;
use warmswap_testkit::Random;

fn own_pages(pages: usize) -> (Vec<u8>, u64) {
    let memory = vec![1u8; (pages + 1) * PAGE_BYTES];
    let first = (memory.as_ptr() as u64).div_ceil(PAGE_BYTES as u64);
    (memory, first)
}

/// More than the kernel collects at a time.
#[test]
fn many_regions_ascend_and_none_comes_twice() {
    let pagemap = Pagemap::open(&Root::machine(), std::process::id()).unwrap();
    if !pagemap.can_scan() {
        warmswap_testkit::record_skip("many_regions_ascend", "the kernel has no PAGEMAP_SCAN");
        return;
    }
    // Zeros that were never touched but for every other page.
    let mut memory = vec![0u8; 1600 * PAGE_BYTES];
    (0..800).for_each(|n| memory[2 * n * PAGE_BYTES] = 1);
    let mut regions = Vec::new();
    let space = 0..SPACE_END;
    pagemap
        .scan_pages(space, |region| regions.push(region))
        .unwrap();
    assert!(regions.len() > 800);
    let ascend = |pair: &[Region]| pair[0].first + pair[0].count <= pair[1].first;
    assert!(regions.windows(2).all(ascend));
    std::hint::black_box(memory);
}

/// Read, written and never touched, without order, in more runs than one call returns.
#[test]
fn used_pages_are_those_whose_entries_are_not_empty() {
    let pagemap = Pagemap::open(&Root::machine(), std::process::id()).unwrap();
    let page = PAGE_BYTES as u64;
    let mut memory = vec![0u8; 4000 * PAGE_BYTES];
    let start = (memory.as_ptr() as u64).next_multiple_of(page);
    let first = (start - memory.as_ptr() as u64) as usize;
    let mut random = Random(1);
    for number in 0..3999 {
        let byte = &mut memory[first + number * PAGE_BYTES];
        match random.below(4) {
            0 => *byte = 1,
            1 => _ = std::hint::black_box(*byte),
            _ => {}
        }
    }
    let addresses = start + page..start + 3998 * page;
    let mut read = Vec::new();
    pagemap
        .scan(addresses.start, addresses.end, |number, _| {
            read.push(number);
        })
        .unwrap();

    let mut used = Vec::new();
    let end = scan_used(pagemap.file.as_fd(), addresses.clone(), |run| {
        used.extend(run.start / page..run.end / page);
    });
    if !pagemap.can_scan() {
        assert!(end == addresses.start && used.is_empty());
        warmswap_testkit::skip!(
            "used_pages_are_those_whose_entries_are_not_empty",
            "the kernel has no PAGEMAP_SCAN"
        );
    }
    assert_eq!(end, addresses.end);
    assert_eq!(used, read);
    assert!(read.len() > 1000, "{}", read.len());
    // No page map: nothing is known.
    let other = std::fs::File::open("/dev/null").unwrap();
    let none = |run| panic!("{run:?}");
    assert_eq!(
        scan_used(other.as_fd(), addresses.clone(), none),
        addresses.start
    );
    std::hint::black_box(memory);
}

#[test]
fn both_ways_see_written_pages_as_present() {
    let (memory, first) = own_pages(300);
    let pagemap = Pagemap::open(&Root::machine(), std::process::id()).unwrap();
    let maps = Maps::read(&Root::machine(), std::process::id()).unwrap();
    let holds = |regions: &[Region]| {
        (first..first + 299).all(|page| {
            regions.iter().any(|r| {
                (r.first..r.first + r.count).contains(&page) && r.residence == Residence::Present
            })
        })
    };

    let mut read = Vec::new();
    pagemap
        .read_anonymous(maps.as_slice(), 0..u64::MAX, |r| read.push(r))
        .unwrap();
    assert!(holds(&read));

    if !pagemap.can_scan() {
        warmswap_testkit::skip!(
            "both_ways_see_written_pages_as_present",
            "the kernel has no PAGEMAP_SCAN"
        );
    }
    let mut scanned = Vec::new();
    pagemap
        .scan_pages(0..u64::MAX, |r| scanned.push(r))
        .unwrap();
    assert!(holds(&scanned));
    assert!(
        scanned
            .windows(2)
            .all(|w| w[0].first + w[0].count <= w[1].first)
    );
    assert_eq!(memory[PAGE_BYTES], 1);
}

#[test]
fn both_ways_see_what_is_mapped_of_a_file() {
    let pagemap = Pagemap::open(&Root::machine(), std::process::id()).unwrap();
    let maps = Maps::read(&Root::machine(), std::process::id()).unwrap();
    // The code of this test runs, so that its page is mapped.
    let code = both_ways_see_what_is_mapped_of_a_file as fn() as usize as u64 / 4096;
    let memory = vec![1u8; 3 * PAGE_BYTES];
    let anonymous = memory.as_ptr() as u64 / 4096 + 1;
    let holds = |regions: &[Region], page: u64| {
        let mut ranges = regions.iter().map(|r| r.first..r.first + r.count);
        ranges.any(|range| range.contains(&page))
    };

    let mut read = Vec::new();
    pagemap
        .read_files(maps.as_slice(), 0..u64::MAX, |r| read.push(r))
        .unwrap();
    assert!(holds(&read, code) && !holds(&read, anonymous));

    if !pagemap.can_scan() {
        warmswap_testkit::skip!(
            "both_ways_see_what_is_mapped_of_a_file",
            "the kernel has no PAGEMAP_SCAN"
        );
    }
    let mut scanned = Vec::new();
    pagemap
        .scan_files(0, u64::MAX, |r| scanned.push(r))
        .unwrap();
    assert!(holds(&scanned, code) && !holds(&scanned, anonymous));
    assert_eq!(memory[PAGE_BYTES], 1);
}

#[test]
fn a_scan_keeps_to_its_addresses() {
    let (memory, first) = own_pages(64);
    let pagemap = Pagemap::open(&Root::machine(), std::process::id()).unwrap();
    if !pagemap.can_scan() {
        warmswap_testkit::skip!(
            "a_scan_keeps_to_its_addresses",
            "the kernel has no PAGEMAP_SCAN"
        );
    }
    let page = PAGE_BYTES as u64;

    let mut scanned = Vec::new();
    let range = (first + 3) * page..(first + 10) * page;
    pagemap.scan_pages(range, |r| scanned.push(r)).unwrap();

    let expected = Region {
        first: first + 3,
        count: 7,
        residence: Residence::Present,
    };
    assert_eq!(scanned, [expected]);
    drop(memory);
}

#[test]
fn pages_of_files_and_shared_memory_are_not_anonymous() {
    let present = PagemapEntry::from_bits(1 << 63);
    let file = PagemapEntry::from_bits(1 << 63 | 1 << 61);
    let swapped = PagemapEntry::from_bits(1 << 62);

    assert_eq!(residence(present, false), Some(Residence::Present));
    assert_eq!(residence(swapped, false), Some(Residence::Swapped));
    assert_eq!(residence(file, false), None);
    assert_eq!(residence(swapped, true), None);
    assert_eq!(residence(PagemapEntry::default(), false), None);
}
