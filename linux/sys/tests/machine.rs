//! Paging a real process out to a zram device of our own, and everything gone afterwards.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use warmswap_page::PAGE_BYTES;
use warmswap_sys::advise::{Advice, PageRange, advise};
use warmswap_sys::memcg::Memcg;
use warmswap_sys::memory::MemoryFile;
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::prepage::prepage;
use warmswap_sys::process::Process;
use warmswap_sys::swap::file::SwapFile;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{Device, ZramConfig, ZramError, ZramSwap, probe};
use warmswap_sys::{Root, swap};
use warmswap_testkit::skip;

fn config(disk_bytes: u64) -> ZramConfig {
    ZramConfig {
        disk_bytes,
        algorithm: "lz4".to_owned(),
        second_algorithm: None,
        backing_device: None,
        memory_limit_bytes: None,
        priority: 32767,
    }
}

/// Set for the process that is paged out.
const CHILD: &str = "WARMSWAP_TEST_HOLD_PAGES";
/// Pages that it holds, of the letter a.
const HELD_PAGES: usize = 2000;

/// Not a test of its own: run by the test below in another process, which says where its pages are and
/// waits for the end of its input.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let memory = std::hint::black_box(vec![b'a'; (HELD_PAGES + 1) * PAGE_BYTES]);
    println!(
        "pages at {}",
        (memory.as_ptr() as usize).div_ceil(PAGE_BYTES)
    );
    std::io::stdin().lines().for_each(drop);
    drop(std::hint::black_box(memory));
}

/// Starts [`child`] with what `prepare` adds, and waits until it holds its pages.
fn start_child(prepare: impl FnOnce(&mut Command)) -> (Child, PageRange) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    prepare(&mut command);
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let address = output
        .lines()
        .find_map(|line| line.unwrap().split_once("pages at ")?.1.parse().ok());
    let range = PageRange {
        first: address.expect("the child says where its pages are"),
        count: HELD_PAGES as u64,
    };
    (child, range)
}

fn count(pagemap: &Pagemap, range: PageRange) -> (u64, u64) {
    let (mut present, mut swapped) = (0, 0);
    let page = PAGE_BYTES as u64;
    let visit = |_, entry: warmswap_sys::pagemap::PagemapEntry| {
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
        skip!(
            "a_process_is_paged_out_and_back_and_the_device_is_gone",
            "{e}"
        );
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
    let (mut child, range) = start_child(|_| ());
    let process = Process::open(child.id()).unwrap();
    let pagemap = Pagemap::open(&root, child.id()).unwrap();
    let (before, _) = count(&pagemap, range);
    assert_eq!(before, HELD_PAGES as u64);

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
        MemoryFile::open(&root, child.id())
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

/// The kernel would find no room for the group's pages, and kill its process.
#[test]
fn a_swap_file_stays_while_a_group_at_its_limit_has_pages_in_it() {
    let name = "a_swap_file_stays_while_a_group_at_its_limit_has_pages_in_it";
    let root = Root::machine();
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let undo = Undo::open(&root, &dir.path().join("undo")).unwrap();
    let group = match Memcg::create(&undo, &format!("sys-test-{}", std::process::id())) {
        Ok(group) => group,
        Err(e) => skip!(name, "{e}"),
    };
    let swap = match SwapFile::create(&undo, dir.path(), 64 << 20, 32767) {
        Ok(swap) => swap,
        Err(e) => skip!(name, "this file system cannot be swapped to: {e}"),
    };
    let path = swap.path().to_owned();
    let (mut child, range) = start_child(|command| group.start_here(command).unwrap());
    group.limit(Some(4 << 20)).unwrap();
    let pagemap = Pagemap::open(&root, child.id()).unwrap();
    let (_, swapped) = count(&pagemap, range);
    assert!(swapped > 900, "{swapped}");

    let others = swap::areas(&root).unwrap().into_iter();
    let others = others.filter(|area| *area.path != *path);
    if others.map(|area| area.free_bytes()).sum::<u64>() == 0 {
        let refused = swap.remove().unwrap_err().to_string();
        assert!(
            refused.contains(&group.path().display().to_string()),
            "{refused}"
        );
        assert!(path.exists());
    } else {
        drop(swap);
    }
    assert!(child.try_wait().unwrap().is_none(), "it lives on");

    // What stays is in the list, and goes once there is room.
    group.limit(None).unwrap();
    undo.run_all().unwrap();
    assert!(!path.exists());
    let areas = swap::areas(&root).unwrap();
    assert!(areas.iter().all(|area| *area.path != *path));
    assert!(child.try_wait().unwrap().is_none(), "it lives on");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_algorithm_that_does_not_exist_leaves_no_device() {
    let root = Root::machine();
    if let Err(e) = probe(&root) {
        skip!("an_algorithm_that_does_not_exist_leaves_no_device", "{e}");
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
    assert!(offered.split(' ').any(|name| name == "lz4"), "{offered}");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "the device is gone and nothing is pending"
    );
}

#[test]
fn a_disk_for_cold_pages_is_refused_by_name_where_the_kernel_writes_nothing_back() {
    let name = "a_disk_for_cold_pages_is_refused_by_name_where_the_kernel_writes_nothing_back";
    let root = Root::machine();
    if let Err(e) = probe(&root) {
        skip!(name, "{e}");
    }
    let dir = tempfile::tempdir().unwrap();
    let undo = Undo::open(&root, dir.path()).unwrap();
    let asked = dir.path().join("no-disk");
    let config = ZramConfig {
        backing_device: Some(asked.clone()),
        ..config(1 << 20)
    };

    match ZramSwap::create(&undo, &config) {
        Err(ZramError::NoBackingDevice { asked: named }) => assert_eq!(named, asked),
        // The kernel can, and there is no such device.
        Err(ZramError::File(error)) => assert_eq!(error.path, asked, "{error}"),
        other => panic!("{other:?}"),
    }
    let pending = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(pending, 0, "no device is left");
}

#[test]
fn a_second_algorithm_is_set_where_the_kernel_can_and_refused_elsewhere() {
    let root = Root::machine();
    if let Err(e) = probe(&root) {
        skip!(
            "a_second_algorithm_is_set_where_the_kernel_can_and_refused_elsewhere",
            "{e}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let undo = Undo::open(&root, dir.path()).unwrap();
    let second = |name: &str| ZramConfig {
        second_algorithm: Some(name.to_owned()),
        ..config(1 << 20)
    };

    match ZramSwap::create(&undo, &second("lz4")) {
        Ok(device) => {
            assert_eq!(device.second_algorithm().as_deref(), Some("lz4"));
            let number = device.device().to_string_lossy().replace("/dev/zram", "");
            let upkeep = Device::new(&root, number.parse().unwrap()).upkeep();
            assert!(upkeep.recompresses);
            device.remove().unwrap();
            let refused = ZramSwap::create(&undo, &second("no-such"));
            assert!(
                matches!(refused, Err(ZramError::Algorithm { .. })),
                "{refused:?}"
            );
        }
        Err(ZramError::NoSecondAlgorithm { asked }) => assert_eq!(asked, "lz4"),
        Err(other) => panic!("{other}"),
    }
    let pending = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(pending, 0, "no device is left");
}
