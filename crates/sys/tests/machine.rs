//! Paging a real process out to a zram device of our own, and everything gone afterwards.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use warmswap_sys::advise::{Advice, PageRange, advise};
use warmswap_sys::maps::{Backing, Maps};
use warmswap_sys::memory::Memory;
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::prepage::prepage;
use warmswap_sys::process::Process;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramError, ZramSwap, probe};
use warmswap_sys::{PAGE_BYTES, Root, swap};

fn config(disk_bytes: u64) -> ZramConfig {
    ZramConfig {
        disk_bytes,
        algorithm: "lzo-rle".to_owned(),
        memory_limit_bytes: None,
        priority: 32767,
    }
}

/// The state of the first page of the process's largest anonymous mapping, and that mapping's range.
fn largest(root: &Root, pid: u32) -> PageRange {
    let maps = Maps::read(root, pid).unwrap();
    let anonymous = maps
        .as_slice()
        .iter()
        .filter(|m| m.backing == Backing::Anonymous && m.write);
    let map = anonymous.max_by_key(|m| m.pages()).unwrap();
    PageRange {
        first: map.start / PAGE_BYTES as u64,
        count: map.pages(),
    }
}

fn count(pagemap: &Pagemap, range: PageRange) -> (u64, u64) {
    let (mut present, mut swapped) = (0, 0);
    let page = PAGE_BYTES as u64;
    let visit = |_, entry: warmswap_sys::pagemap::Entry| {
        present += u64::from(entry.present());
        swapped += u64::from(entry.swapped());
    };
    pagemap
        .scan(
            range.first * page,
            (range.first + range.count) * page,
            visit,
        )
        .unwrap();
    (present, swapped)
}

#[test]
fn a_process_is_paged_out_and_back_and_the_device_is_gone() {
    let root = Root::machine();
    if let Err(e) = probe(&root) {
        println!("skipped: a_process_is_paged_out_and_back_and_the_device_is_gone: {e}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let undo = Undo::open(&root, dir.path()).unwrap();
    let device = ZramSwap::create(&undo, &config(256 << 20)).unwrap();
    let device_path = device.device();
    assert!(
        swap::areas(&root)
            .unwrap()
            .iter()
            .any(|a| *a.path == *device_path && a.priority == 32767)
    );
    // The shell holds 8 MB of text in one variable.
    let script = "x=$(head -c 8000000 /dev/zero | tr '\\0' 'a'); echo ready; read -r line";
    let mut child = Command::new("bash")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let process = Process::open(child.id()).unwrap();
    let pagemap = Pagemap::open(&root, child.id()).unwrap();
    let range = largest(&root, child.id());
    let (before, _) = count(&pagemap, range);
    assert!(before >= 1900, "{before} pages");

    advise(&process, Advice::PageOut, &[range]).unwrap();
    let (present, swapped) = count(&pagemap, range);
    assert!(
        present * 20 < before,
        "{present} of {before} pages are still there"
    );
    assert!(swapped * 20 > before * 19);
    assert!(device.stats().unwrap().same_filled_pages > 0);

    let numbers: Vec<u64> = (range.first..range.first + 100).collect();
    assert_eq!(prepage(child.id(), &numbers).unwrap(), 100);
    let hundred = PageRange {
        count: 100,
        ..range
    };
    assert_eq!(count(&pagemap, hundred), (100, 0));
    let mut page = vec![0; PAGE_BYTES];
    assert_eq!(
        Memory::open(&root, child.id())
            .unwrap()
            .read_pages(range.first + 500, &mut page)
            .unwrap(),
        1
    );
    assert_eq!(page, [b'a'; PAGE_BYTES]);

    child.kill().unwrap();
    child.wait().unwrap();
    device.remove().unwrap();
    assert!(!device_path.exists());
    assert!(
        swap::areas(&root)
            .unwrap()
            .iter()
            .all(|a| *a.path != *device_path)
    );
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "no state file is left"
    );
}

#[test]
fn an_algorithm_that_does_not_exist_leaves_no_device() {
    let root = Root::machine();
    if let Err(e) = probe(&root) {
        println!("skipped: an_algorithm_that_does_not_exist_leaves_no_device: {e}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let undo = Undo::open(&root, dir.path()).unwrap();

    let result = ZramSwap::create(
        &undo,
        &ZramConfig {
            algorithm: "no-such".to_owned(),
            ..config(1 << 20)
        },
    );

    let Err(ZramError::Algorithm { offered, .. }) = result else {
        panic!("{result:?}")
    };
    assert!(offered.contains("lzo"), "{offered}");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "the device is gone and nothing is pending"
    );
}
