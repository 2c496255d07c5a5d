//! A zram device, a control group and programs of our own for tests of a host.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use warmswap_kernel::{Application, Host, Members};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::Root;
use warmswap_sys::advise::{Advice, PageRange, advise_on_every_cpu};
use warmswap_sys::maps::{Backing, Mapping, Maps};
use warmswap_sys::memcg::Memcg;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::process::{MemoryUse, Process};
use warmswap_sys::swap::file::SwapFile;
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
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
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
        print(faults() - before, flush=True)
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
        print(faults() - before, flush=True)
    elif word == "check":
        print(sum(hash(memory[p * 4096 : (p + 1) * 4096]) != known[p] for p in range(pages)), flush=True)
    elif word == "share":
        fd = os.memfd_create("shared")
        os.ftruncate(fd, pages * 4096)
        shared = mmap.mmap(fd, pages * 4096, flags=mmap.MAP_SHARED)
        for page in range(pages):
            shared[page * 4096 : (page + 1) * 4096] = content(page)
        own = hash(bytes(shared))
        print("shared", flush=True)
    elif word == "touch-shared":
        before = faults()
        total = 0
        for page in range(pages):
            total += shared[page * 4096 + 9]
        print(faults() - before, flush=True)
    elif word == "check-shared":
        print(hash(bytes(shared)) == own, flush=True)
    elif word == "uffd":
        fd = libc.syscall(323, 0o4000 | 0o2000000)
        api = (ctypes.c_uint64 * 3)(0xAA, 0, 0)
        failed = fd < 0 or libc.ioctl(fd, 0xC018AA3F, api)
        # Its faults on missing pages are this program's to resolve from now on.
        register = (ctypes.c_uint64 * 4)(address, pages * 4096, 1, 0)
        failed = failed or libc.ioctl(fd, 0xC020AA00, register)
        print("failed" if failed else "registered", flush=True)
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

/// What programs of a test swap to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    Zram,
    /// With a disk behind it.
    ZramAndDisk,
    File,
}

/// Less than this free beyond what stays free: other programs of the machine decide what a test sees.
const LEAST_FREE_BYTES: u64 = 2 << 30;

/// A swap device and a group of our own.
pub struct Machine {
    zram: Option<ZramSwap>,
    /// Goes after the device that has it.
    _disk: Option<Disk>,
    _file: Option<SwapFile>,
    pub memcg: Memcg,
    pub folder: tempfile::TempDir,
    _undo: Undo,
    _turn: MutexGuard<'static, ()>,
}

impl Machine {
    /// Sets up swap for so many pages; says why it cannot.
    pub fn set_up(name: &str, swap: Swap, swap_pages: u64) -> Result<Self, String> {
        let turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = Root::machine();
        probe(&root).map_err(|e| e.to_string())?;
        if Command::new("python3").arg("--version").output().is_err() {
            return Err("python3 is not installed".to_owned());
        }
        let memory = Meminfo::read(&root).map_err(|e| e.to_string())?;
        if memory.free_bytes + memory.idle_file_bytes() < LEAST_FREE_BYTES {
            return Err("too little memory is free".to_owned());
        }
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let undo = Undo::open(&root, &folder.path().join("undo")).map_err(|e| e.to_string())?;
        let memcg = Memcg::create(&undo, &format!("kernel-{name}-{}", std::process::id()))
            .map_err(|e| e.to_string())?;
        let disk_bytes = (swap_pages + 1) * PAGE_BYTES as u64;
        let (mut zram, mut disk, mut file) = (None, None, None);
        match swap {
            Swap::Zram | Swap::ZramAndDisk => {
                if swap == Swap::ZramAndDisk {
                    disk = Some(Disk::create(disk_bytes)?);
                }
                let config = ZramConfig {
                    disk_bytes,
                    algorithm: "lz4".to_owned(),
                    second_algorithm: None,
                    backing_device: disk.as_ref().map(Disk::path),
                    memory_limit_bytes: None,
                    priority: 32767,
                };
                zram = Some(ZramSwap::create(&undo, &config).map_err(|e| e.to_string())?);
            }
            Swap::File => {
                let made = SwapFile::create(&undo, folder.path(), disk_bytes, 32767);
                file = Some(made.map_err(|e| e.to_string())?);
            }
        }
        Ok(Self {
            zram,
            _disk: disk,
            _file: file,
            memcg,
            folder,
            _undo: undo,
            _turn: turn,
        })
    }

    /// Pages that were read from the disk behind the zram device.
    pub fn disk_reads(&self) -> u64 {
        let zram = self.zram.as_ref().expect("a device");
        let path = format!("/sys/block/zram{}/bd_stat", zram.id());
        let text = std::fs::read_to_string(path).expect("the kernel writes back");
        text.split_whitespace()
            .nth(1)
            .expect("three numbers")
            .parse()
            .expect("a number")
    }

    /// A program of the same group that takes so many pages, with room for `room` pages beside what the others have now: they are
    /// pushed out. The limit stays when it ends.
    pub fn hog(&self, pages: u64, room: u64) -> Program {
        let used = self.memcg.group().usage_bytes().expect("a group");
        let limit = used + room * PAGE_BYTES as u64;
        self.memcg.limit(Some(limit)).expect("a limit");
        self.program(pages)
    }

    /// Has a program of the group read files until the group is at its limit; false where files are in memory only.
    pub fn fill_with_cache(&self) -> bool {
        if is_in_memory(self.folder.path()) {
            return false;
        }
        let group = self.memcg.group();
        let limit = group.limit_bytes().expect("a group").expect("a limit");
        let path = self.folder.path().join("cache");
        std::fs::write(&path, vec![5; limit as usize]).expect("it can be written");
        let file = std::fs::File::open(&path).expect("it is there");
        file.sync_all().expect("it can be written");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it is a file");
        let mut reader = Command::new("sh")
            .args(["-c", "read line; exec cat \"$0\""])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        self.memcg.add(reader.id()).expect("the group takes it");
        let mut input = reader.stdin.take().expect("piped");
        writeln!(input, "begin").expect("it listens");
        assert!(reader.wait().expect("it ends").success());
        let unused = limit.saturating_sub(group.usage_bytes().expect("a group"));
        assert!(unused < 8 << 20, "{unused} bytes are unused");
        true
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

/// Why there is no disk behind zram.
pub const WRITES_NOTHING_BACK: &str =
    "zram of this kernel writes nothing back (CONFIG_ZRAM_WRITEBACK)";

/// A disk in memory, which is another zram device.
struct Disk(u32);

impl Disk {
    fn create(bytes: u64) -> Result<Self, String> {
        let id = std::fs::read_to_string("/sys/class/zram-control/hot_add");
        let id = id.map_err(|e| e.to_string())?.trim().parse();
        let disk = Self(id.expect("the kernel gives a number"));
        let folder = PathBuf::from(format!("/sys/block/zram{}", disk.0));
        if !folder.join("backing_dev").exists() {
            return Err(WRITES_NOTHING_BACK.to_owned());
        }
        std::fs::write(folder.join("disksize"), bytes.to_string()).map_err(|e| e.to_string())?;
        Ok(disk)
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/zram{}", self.0))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::write("/sys/class/zram-control/hot_remove", self.0.to_string());
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

    /// Sends a line and reads the answer.
    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").expect("it listens");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("it answers");
        answer.trim().to_owned()
    }

    /// Sends a line and reads the number that is the answer.
    pub fn number(&mut self, line: &str) -> u64 {
        self.ask(line).parse().expect("a number")
    }

    /// Touches pages; major faults.
    pub fn touch(&mut self, first: u64, end: u64) -> u64 {
        self.number(&format!("touch {first} {end}"))
    }

    /// Pages of its own memory that are in swap.
    pub fn swapped_pages(&self) -> u64 {
        let memory = MemoryUse::read(&Root::machine(), self.pid()).expect("it runs");
        memory.swapped_bytes / PAGE_BYTES as u64
    }

    /// Pages whose content is not what it was.
    pub fn damaged(&mut self) -> u64 {
        self.number("check")
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

/// What a machine says of its memory beyond the least reserve.
#[derive(Clone, Copy, Default)]
pub struct Room {
    pub free_kib: u64,
    /// Cache that was not used lately.
    pub idle_file_kib: u64,
}

/// This machine, but with so much room, as it says.
pub fn machine_with(place: &Path, room: Room) -> Root {
    use std::os::unix::fs::symlink;
    let at = |name: &str| place.join(name);
    std::fs::create_dir(at("proc")).expect("a folder");
    for name in std::fs::read_dir("/proc").expect("a machine").flatten() {
        let name = name.file_name();
        if name != "meminfo" && name != "zoneinfo" {
            symlink(Path::new("/proc").join(&name), at("proc").join(&name)).expect("a link");
        }
    }
    symlink("/sys", at("sys")).expect("a link");
    let total_kib = 1 << 20;
    let free_kib = total_kib / 64 + room.free_kib;
    let available_kib = free_kib + room.idle_file_kib;
    let memory = format!(
        "MemTotal: {total_kib} kB\nMemFree: {free_kib} kB\nMemAvailable: {available_kib} kB\nInactive(file): {} kB\n",
        room.idle_file_kib
    );
    std::fs::write(at("proc/meminfo"), memory).expect("a file");
    let zones = "low 0\nmanaged 1\nprotection: (0)\n";
    std::fs::write(at("proc/zoneinfo"), zones).expect("a file");
    Root::at(place)
}

/// Has the host go on until something holds.
pub fn tick_until(host: &mut Host, what: &str, mut holds: impl FnMut(&Host) -> bool) {
    // A minute and more, on a machine that does nothing else.
    for _ in 0..3000 {
        host.tick();
        if holds(host) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{what}: {:?}", host.status());
}

/// Has the host go on for so many looks.
pub fn tick_for(host: &mut Host, looks: u32) {
    for _ in 0..looks {
        host.tick();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A file system in memory.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

fn is_in_memory(folder: &Path) -> bool {
    rustix::fs::statfs(folder).unwrap().f_type == TMPFS_MAGIC
}

/// A program that has a file of 4096 pages mapped, and the file; none where files cannot be evicted.
pub fn program_with_a_file(machine: &Machine) -> Option<(Program, PathBuf)> {
    let folder = machine.folder.path();
    if is_in_memory(folder) {
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
