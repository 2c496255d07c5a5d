use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use super::*;

/// A reader, unless this machine has none; that is noted for the test of this name.
fn open(name: &str) -> Option<Accessed> {
    match Accessed::open(&Root::machine()) {
        Ok(accessed) => Some(accessed),
        Err(error) => warmswap_testkit::skip!(name, "{error}"; None),
    }
}

/// Pages of a process that have their accessed bits set, of `pages` from `first` on.
fn set(accessed: &mut Accessed, pagemap: &Pagemap, first: u64, pages: u64) -> Vec<u64> {
    let table = accessed.page_table(pagemap).unwrap();
    let tables: Vec<u64> = (first / TABLE_PAGES..=(first + pages - 1) / TABLE_PAGES).collect();
    let mut found = Vec::new();
    let visit = |table: u64, bits: &Bits| {
        let pages = (0..TABLE_PAGES).filter(|at| bits[(at / 64) as usize] >> (at % 64) & 1 == 1);
        found.extend(pages.map(|at| table * TABLE_PAGES + at));
    };
    accessed.read(table, &tables, visit).unwrap();
    found.retain(|page| (first..first + pages).contains(page));
    found
}

/// A process that touches every page of 32 MiB, says where they are, and touches every seventh for each line that it gets.
/// What it unmaps before makes the processor forget the entries that it has at hand.
const PROGRAM: &str = "
import ctypes, mmap, sys
pages = 8192
memory = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(pages):
    memory[page * 4096] = 1
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)) // 4096, flush=True)
for line in sys.stdin:
    other = mmap.mmap(-1, 64 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    other.write(bytes(64 * 4096))
    other.close()
    for page in range(0, pages, 7):
        memory[page * 4096]
    print(flush=True)
";

#[test]
fn what_another_process_accesses_is_seen_and_nothing_else() {
    let name = "what_another_process_accesses_is_seen_and_nothing_else";
    let Some(mut accessed) = open(name) else {
        return;
    };
    let child = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        warmswap_testkit::skip!(name, "needs python3");
    };
    let (mut tell, mut heard) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut line = move || {
        let mut text = String::new();
        let mut byte = [0];
        while heard.read_exact(&mut byte).is_ok() && byte[0] != b'\n' {
            text.push(char::from(byte[0]));
        }
        text
    };
    let first: u64 = line().parse().unwrap();
    let pages = 8192;
    let pagemap = Pagemap::open(&Root::machine(), child.id()).unwrap();

    // Most: the kernel's own reclaim may clear some bits, or page out some pages.
    let most = |found: usize, of: usize| assert!(found >= of * 9 / 10, "{found} of {of}");
    most(set(&mut accessed, &pagemap, first, pages).len(), 8192);
    for _ in 0..3 {
        clear(&Root::machine(), child.id()).unwrap();
        assert_eq!(set(&mut accessed, &pagemap, first, pages).len(), 0);
        tell.write_all(b"\n").unwrap();
        line();
        let found = set(&mut accessed, &pagemap, first, pages);
        let is_touched = |page: u64| (page - first).is_multiple_of(7);
        let untouched = found.iter().filter(|&&page| !is_touched(page)).count();
        assert_eq!(untouched, 0);
        most(found.len(), 8192_usize.div_ceil(7));
    }
    drop(tell);
    child.wait().unwrap();
    // The page table of a process that ended is empty, as long as its descriptor is open.
    assert_eq!(set(&mut accessed, &pagemap, first, pages).len(), 0);
}

#[test]
fn what_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Accessed::open(&Root::at(dir.path())).unwrap_err();
    if cfg!(target_arch = "x86_64") {
        assert!(error.to_string().contains("BTF"), "{error}");
    } else {
        assert!(error.to_string().contains("x86-64"), "{error}");
    }
}

#[test]
fn a_process_that_ended_is_not_written_for() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
    assert!(clear(&root, 7).unwrap_err().is_gone());
    assert!(!root.proc_file(7, "clear_refs").exists());
}
