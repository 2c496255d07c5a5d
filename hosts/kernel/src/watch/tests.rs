use std::io::{Read as _, Write as _};

use super::*;
use crate::pages::What;

/// This process, of which nothing was looked at.
fn own() -> Watched {
    let root = Root::machine();
    let pid = std::process::id();
    let start_ticks = Stat::read(&root, pid).unwrap().start_ticks;
    Watched::open(&root, ProcessId { pid, start_ticks }, 0).unwrap()
}

fn change(page: u64, what: What) -> Change {
    Change { page, what }
}

#[test]
fn a_look_at_this_process_finds_what_was_written() {
    let root = Root::machine();
    let mut w = own();
    let mut changes = Vec::new();
    w.look(&root, &mut changes).unwrap();
    let known = w.pages.present() + w.pages.swapped();
    assert!(known > 0 && changes.len() as u64 == known);

    let memory = vec![1u8; 64 * 4096];
    let inner = memory.as_ptr() as u64 / 4096 + 1;
    assert!(w.news(&root) > 0);
    changes.clear();
    w.look(&root, &mut changes).unwrap();

    let appeared = |page| {
        let what = changes.iter().find(|c| c.page == page).map(|c| c.what);
        what == Some(What::Appeared) || what.is_none() && w.pages.residence(page).is_some()
    };
    assert!((inner..inner + 62).all(appeared), "{}", memory[5000]);
}

#[test]
fn a_look_around_some_pages_leaves_the_others_to_the_next_look() {
    let root = Root::machine();
    let mut w = own();
    // Zeroed memory of this size is mapped, and not there before it is written to.
    let mut memory = vec![0u8; 64 << 20];
    let begin = memory.as_ptr() as u64;
    let first = begin / 4096 + 1;
    let last = first + (64 << 20) / 4096 - 3;
    w.look(&root, &mut Vec::new()).unwrap();
    for page in [first, last] {
        memory[(page * 4096 - begin) as usize] = 1;
    }

    let mut changes = Vec::new();
    w.look_around(&root, &[first, first + 1], &mut changes)
        .unwrap();
    assert!(changes.contains(&change(first, What::Appeared)));
    assert_eq!(w.pages.residence(last), None);

    assert!(w.news(&root) > 0);
    changes.clear();
    w.look(&root, &mut changes).unwrap();
    assert!(changes.contains(&change(last, What::Appeared)));
    assert!(!changes.contains(&change(first, What::Appeared)));
}

/// A program with a file of 64 pages mapped for itself: told so on its standard input, it reads and writes pages of it.
struct Mapper {
    program: std::process::Child,
    first: u64,
}

impl Mapper {
    const PAGES: u64 = 64;

    /// None without an interpreter for it.
    fn start() -> Option<Self> {
        const SCRIPT: &str = "\
import ctypes, mmap, sys, tempfile
file = tempfile.TemporaryFile()
file.truncate(64 * 4096)
memory = mmap.mmap(file.fileno(), 64 * 4096, access=mmap.ACCESS_COPY)
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)) // 4096, flush=True)
for line in sys.stdin:
    for page in range(*map(int, line.split()[1:])):
        if line[0] == 'w':
            memory[page * 4096] = 1
        else:
            assert memory[page * 4096] == 0
    print('done', flush=True)
";
        let program = std::process::Command::new("python3")
            .args(["-c", SCRIPT])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .ok()?;
        let mut mapper = Self { program, first: 0 };
        mapper.first = mapper.hear().parse().expect("a page's number");
        Some(mapper)
    }

    fn hear(&mut self) -> String {
        let output = self.program.stdout.as_mut().expect("piped");
        let mut line = Vec::new();
        let mut byte = [0];
        while output.read(&mut byte).expect("a line") == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("text")
    }

    /// `r` reads, `w` writes these pages.
    fn touch(&mut self, how: char, pages: Range<u64>) {
        let input = self.program.stdin.as_mut().expect("piped");
        writeln!(input, "{how} {} {}", pages.start, pages.end).expect("it listens");
        assert_eq!(self.hear(), "done");
    }

    fn watch(&self) -> Watched {
        let root = Root::machine();
        let pid = self.program.id();
        let start_ticks = Stat::read(&root, pid).unwrap().start_ticks;
        Watched::open(&root, ProcessId { pid, start_ticks }, 0).unwrap()
    }

    /// Of its pages, those that the watch knows as the program's own.
    fn own(&self, w: &Watched) -> Vec<u64> {
        let pages = 0..Self::PAGES;
        let is_own = |page: &u64| w.pages.residence(self.first + page).is_some();
        pages.filter(is_own).collect()
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn pages_of_a_file_are_no_news_until_they_are_the_programs_own() {
    let Some(mut mapper) = Mapper::start() else {
        warmswap_testkit::skip!(
            "pages_of_a_file_are_no_news_until_they_are_the_programs_own",
            "python3 is not installed"
        );
    };
    let root = Root::machine();
    let mut w = mapper.watch();
    let look = |w: &mut Watched| w.look(&root, &mut Vec::new()).unwrap();
    look(&mut w);

    // Some before a look and some after it; the first is written to.
    mapper.touch('r', 0..32);
    mapper.touch('w', 0..1);
    look(&mut w);
    assert_eq!(mapper.own(&w), [0]);
    mapper.touch('r', 32..64);
    look(&mut w);
    assert_eq!(mapper.own(&w), [0]);

    // One that was known as the file's becomes the program's own: one of the next looks finds it.
    mapper.touch('w', 5..6);
    for _ in 0..SURE_LOOKS {
        look(&mut w);
    }
    assert_eq!(mapper.own(&w), [0, 5]);
}

#[test]
fn pages_that_are_near_make_one_span() {
    let blocks = |blocks: &[u64]| spans(blocks.iter().copied());
    assert!(blocks(&[]).is_empty());
    assert_eq!(blocks(&[4, 4, 5, 7, 10]), [4..8, 10..11]);
    assert_eq!(blocks(&[4, 9]), [4..5, 9..10]);
}

#[test]
fn another_process_of_that_number_is_not_watched() {
    let id = ProcessId {
        pid: std::process::id(),
        start_ticks: 1,
    };
    assert!(
        Watched::open(&Root::machine(), id, 0)
            .unwrap_err()
            .is_gone()
    );
}

#[test]
fn a_process_that_executes_another_program_before_the_first_look_is_seen() {
    let mut child = std::process::Command::new("sh")
        .args(["-c", "read line; exec sleep 1000"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let root = Root::machine();
    let pid = child.id();
    let start_ticks = Stat::read(&root, pid).unwrap().start_ticks;
    let mut watched = Watched::open(&root, ProcessId { pid, start_ticks }, 0).unwrap();
    // Its input ends, and the shell goes on.
    drop(child.stdin.take());
    while Stat::read(&root, pid).unwrap().command != "sleep" {
        std::thread::yield_now();
    }
    watched.look(&root, &mut Vec::new()).unwrap();
    let is_seen = !watched.pages.is_empty();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_seen);
}
