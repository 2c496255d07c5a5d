//! A zram device, a control group and programs of our own for tests of a host.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use warmswap_kernel::{AppId, Application, Goal, Host, HostConfig, Members};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::Root;
use warmswap_sys::advise::{Advice, PageRange, advise_on_every_cpu};
use warmswap_sys::maps::{Backing, Mapping, Maps};
use warmswap_sys::memcg::Memcg;
use warmswap_sys::process::Process;
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::{ZramConfig, ZramSwap, probe};

/// A program that holds pages of known content, and touches them when it is told to.
const PROGRAM: &str = r#"
import ctypes, mmap, os, resource, sys
pages = int(sys.argv[1])
if "BEGUN" not in os.environ:
    sys.stdin.readline()  # Its memory is charged to the group that it is in by then.
memory = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
def content(page):
    return (b"%07d%s" % (page, os.urandom(16).hex().encode()) * 200)[:4096]
known = []
for page in range(pages):
    text = content(page)
    known.append(hash(text))
    memory[page * 4096 : (page + 1) * 4096] = text
def faults():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_majflt, usage.ru_minflt
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
for line in sys.stdin:
    word, *numbers = line.split()
    first, end = (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (0, pages)
    if word == "touch":
        before = faults()
        total = 0
        for page in range(first, end):
            total += memory[page * 4096 + 9]
        after = faults()
        print(after[0] - before[0], after[1] - before[1], flush=True)
    elif word == "map":
        with open(numbers[0], "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        mapped.madvise(mmap.MADV_RANDOM)  # The kernel reads no neighbours ahead.
        print("mapped", flush=True)
    elif word == "read":
        before = faults()
        total = 0
        for page in range(first, end):
            total += mapped[page * 4096 + 9]
        after = faults()
        print(after[0] - before[0], total, flush=True)
    elif word == "check":
        print(sum(hash(memory[p * 4096 : (p + 1) * 4096]) != known[p] for p in range(pages)), flush=True)
    elif word == "lock":
        print(libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(pages * 4096)), flush=True)
    elif word == "drop":
        memory.madvise(mmap.MADV_DONTNEED, first * 4096, (end - first) * 4096)
        for page in range(first, end):
            known[page] = hash(bytes(4096))
        print("dropped", flush=True)
    elif word == "fork":
        child = os.fork()
        if child == 0:
            libc.prctl(1, 9)  # It ends with its parent: PR_SET_PDEATHSIG, SIGKILL.
            while True:
                import time
                time.sleep(1000)
        print(child, flush=True)
    elif word == "exec":
        os.environ["BEGUN"] = "yes"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
"#;

/// Only one test at a time changes the machine.
static MACHINE: Mutex<()> = Mutex::new(());

/// A swap device and a group of our own.
pub struct Machine {
    pub zram: Option<ZramSwap>,
    pub memcg: Memcg,
    pub folder: tempfile::TempDir,
    _undo: Undo,
    _turn: MutexGuard<'static, ()>,
}

impl Machine {
    /// Sets up swap for so many pages; says why it cannot.
    pub fn set_up(name: &str, swap_pages: u64) -> Result<Self, String> {
        let turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = Root::machine();
        probe(&root).map_err(|e| e.to_string())?;
        if Command::new("python3").arg("--version").output().is_err() {
            return Err("python3 is not installed".to_owned());
        }
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let undo = Undo::open(&root, &folder.path().join("undo")).map_err(|e| e.to_string())?;
        let memcg = Memcg::create(&undo, &format!("kernel-{name}-{}", std::process::id()))
            .map_err(|e| e.to_string())?;
        let zram = ZramSwap::create(
            &undo,
            &ZramConfig {
                disk_bytes: (swap_pages + 1) * PAGE_BYTES as u64,
                algorithm: "lz4".to_owned(),
                second_algorithm: None,
                memory_limit_bytes: None,
                priority: 32767,
            },
        )
        .map_err(|e| e.to_string())?;
        Ok(Self {
            zram: Some(zram),
            memcg,
            folder,
            _undo: undo,
            _turn: turn,
        })
    }

    /// Starts a program with so many pages in the group.
    pub fn program(&self, pages: u64) -> Program {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM, &pages.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        self.memcg.add(child.id()).expect("the group takes it");
        let mut program = Program {
            input: child.stdin.take().expect("piped"),
            output: BufReader::new(child.stdout.take().expect("piped")),
            child,
        };
        assert_eq!(program.ask("begin"), "ready");
        program
    }
}

/// A program under test. It ends when this is dropped.
pub struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }

    /// Sends a line and reads the answer.
    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").expect("it listens");
        self.line()
    }

    /// Touches pages; major and minor faults.
    pub fn touch(&mut self, first: u64, end: u64) -> (u64, u64) {
        let answer = self.ask(&format!("touch {first} {end}"));
        let (major, minor) = answer.split_once(' ').expect("two numbers");
        (major.parse().expect("major"), minor.parse().expect("minor"))
    }

    /// Pages whose content is not what it was.
    pub fn damaged(&mut self) -> u64 {
        self.ask("check").parse().expect("a number")
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// It as an application.
    pub fn application(&self, name: &str) -> Application {
        Application {
            name: name.to_owned(),
            members: Members::Tree {
                pid: self.pid(),
                start_ticks: 0,
                with_root: true,
            },
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Settings of a host that keeps its applications and the pool within a budget. There is no rate and no
/// headroom, so that tests need not wait.
pub fn within(budget_bytes: u64) -> HostConfig {
    HostConfig {
        goal: Goal {
            budget_bytes: Some(budget_bytes),
            headroom_bytes: Some(0),
            ..Goal::default()
        },
        page_out_pages_per_second: 100_000_000,
        launch_window_ms: 600_000,
        // Tests evict what it would lock.
        mlock_files: false,
        ..HostConfig::default()
    }
}

/// Has hot pages leave, too, when nothing else is left, so that they are there to be brought back ahead of use.
pub fn with_hot_pages_leaving(config: HostConfig) -> HostConfig {
    HostConfig {
        scheme: "asap-anon+reclaim=hotness:hot=last".to_owned(),
        ..config
    }
}

/// Ticks until nothing is missing to the goal, or nothing leaves any more.
pub fn settle(host: &mut Host) {
    let mut idle = 0;
    while idle < 200 {
        let tick = host.tick();
        if tick.missing_bytes == 0 {
            return;
        }
        idle = if tick.paged_out > 0 { 0 } else { idle + 1 };
    }
}

/// One relaunch that touches these pages, and what follows; major and minor faults.
pub fn relaunch(
    host: &mut Host,
    app: AppId,
    program: &mut Program,
    pages: std::ops::Range<u64>,
) -> (u64, u64) {
    host.switch_to(app).expect("it is known");
    wait_for_prepaging(host);
    let faults = program.touch(pages.start, pages.end);
    host.launch_done(app).expect("it is known");
    host.background(app).expect("it is known");
    settle(host);
    faults
}

/// Waits until what was asked for ahead of use is there.
pub fn wait_for_prepaging(host: &Host) {
    // A page that went away meanwhile is never done: bounded. But threads of idle priority wait for long where others
    // have work, so the bound is on looks that find nothing new.
    let (mut done, mut looks) = (0, 0);
    while looks < 200_000 {
        let counters = host.counters();
        if counters.prepage_done >= counters.prepage_asked {
            return;
        }
        looks = if counters.prepage_done > done {
            0
        } else {
            looks + 1
        };
        done = counters.prepage_done;
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

/// Waits until something holds that another thread sees to.
pub fn wait_until(holds: impl Fn() -> bool) {
    // Twenty seconds and more.
    for _ in 0..200_000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    panic!("it never held");
}

/// Bytes of so many pages.
pub const fn bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES as u64
}

/// A file system in memory.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// A program that has a file of 4096 pages mapped, and the file; none where files cannot be evicted.
pub fn program_with_a_file(machine: &Machine) -> Option<(Program, PathBuf)> {
    let folder = machine.folder.path();
    if rustix::fs::statfs(folder).unwrap().f_type == TMPFS_MAGIC {
        return None;
    }
    let path = folder.join("data");
    let page = |number: u64| [(number % 251) as u8; 4096];
    std::fs::write(&path, (0..4096).flat_map(page).collect::<Vec<u8>>()).unwrap();
    // What was not written yet cannot be evicted.
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    let mut program = machine.program(500);
    assert_eq!(program.ask(&format!("map {}", path.display())), "mapped");
    Some((program, path))
}

/// Has the kernel reclaim what the program has mapped of a file.
pub fn reclaim_file(program: &Program, path: &Path) {
    let maps = Maps::read(&Root::machine(), program.pid()).unwrap();
    let is_it = |m: &&Mapping| matches!(&m.backing, Backing::File(file) if file.path == path);
    let mapping = maps.as_slice().iter().find(is_it).unwrap();
    let range = PageRange {
        first: mapping.start / 4096,
        count: mapping.pages(),
    };
    let process = Process::open(program.pid()).unwrap();
    advise_on_every_cpu(&process, Advice::PageOut, &[range]).unwrap();
}
