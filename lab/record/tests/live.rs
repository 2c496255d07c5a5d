//! Recordings of real programs: what the trace says is what they did, and nothing is left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use warmswap_apps::{AppSpec, Directories, check, load_all};
use warmswap_page::{LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_record::{AppSummary, RecordConfig, RecordError, Step, Summary, record};
use warmswap_sys::memcg::Memcg;
use warmswap_sys::page_cache::cached;
use warmswap_sys::perf::{FaultKind, PageFaults};
use warmswap_sys::undo::Undo;
use warmswap_sys::zram::probe;
use warmswap_sys::{Root, swap};
use warmswap_testkit::skip;
use warmswap_trace::{ContentId, EventKind, FileInfo, TraceReader};

/// Set for a process that records on behalf of a test; see [`child`].
const CHILD_FOLDER: &str = "WARMSWAP_TEST_RECORD_IN";

/// Why nothing can be recorded here.
fn obstacle() -> Option<String> {
    let root = Root::machine();
    if let Err(e) = probe(&root) {
        return Some(e.to_string());
    }
    PageFaults::open(&root, FaultKind::All, 8)
        .err()
        .map(|e| e.to_string())
}

/// Mean of the relaunches' similarities.
fn mean_similarity(app: &AppSummary) -> f64 {
    let values: Vec<f64> = app.relaunches.iter().filter_map(|r| r.similarity).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

fn machine_state() -> (Vec<swap::Area>, BTreeSet<PathBuf>, String, String) {
    let devices = std::fs::read_dir("/sys/block")
        .unwrap()
        .flatten()
        .map(|e| e.path());
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    // How full an area is changes with whatever else runs.
    let areas = swap::areas(&Root::machine()).unwrap().into_iter();
    let areas = areas.map(|area| swap::Area {
        used_bytes: 0,
        ..area
    });
    (
        areas.collect(),
        devices.collect(),
        read("/proc/sys/vm/page-cluster"),
        read("/sys/kernel/mm/transparent_hugepage/enabled"),
    )
}

/// A program that holds `PAGES` pages of known content. A relaunch reads 40 pages, 30 of them the same
/// every time; use writes ten pages.
const PATTERN: &str = r#"
import ctypes, mmap, random, sys
PAGES = 600
memory = mmap.mmap(-1, PAGES * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
def fill(page, version):
    memory[page * 4096 : (page + 1) * 4096] = (b"%06d.%06d." % (page, version) * 300)[:4096]
for page in range(PAGES):
    fill(page, 0)
print("ready", flush=True)
for line in sys.stdin:
    kind, seed = line.split()
    seed = int(seed)
    if kind == "relaunch":
        varied = random.Random(seed).sample(range(200, PAGES), 10)
        touched = sum(memory[page * 4096 + 9] for page in [*range(100, 130), *varied])
    else:
        for page in random.Random(seed).sample(range(PAGES), 10):
            fill(page, seed % 1000000)
    print(f"done {base:x}", flush=True)
"#;

const PATTERN_PAGES: u64 = 600;

fn pattern_spec() -> AppSpec {
    spec_of(&toml::Value::String(PATTERN.to_owned()).to_string())
}

/// A program in Python; `arguments` are the script and its own, as a list in TOML has them.
fn spec_of(arguments: &str) -> AppSpec {
    let text = format!(
        "name = \"pattern\"\nsummary = \"known pages\"\n[start]\ncommand = [\"python3\", \"-c\", {arguments}]\n\
         measured = \"tree\"\nready_limit_s = 120\n\
         [requests]\nrelaunch = \"reads\"\nuse = \"writes\"\nlimit_s = 60\n\
         [amount]\nunit = \"pages\"\nsmall = 600\nnormal = 600\n[needs]\nprograms = [\"python3\"]\n"
    );
    AppSpec::parse(&text, Path::new("/nowhere/pattern.toml")).unwrap()
}

fn config(dir: &Path, spec: AppSpec, relaunches: u32) -> RecordConfig {
    let mut config = RecordConfig::new(dir.join("out.wst"), vec![spec]);
    config.directories = Directories {
        temporary: dir.to_owned(),
        ..Directories::default()
    };
    config.relaunches = relaunches;
    config.foreground_ms = 250;
    config
}

fn run(dir: &Path, spec: AppSpec, relaunches: u32) -> Result<Summary, RecordError> {
    let undo = Undo::open(&Root::machine(), &dir.join("state")).unwrap();
    record(&config(dir, spec, relaunches), &undo, &mut |_| {})
}

/// Checks that launch windows, background and exit follow each other as they must; counts the windows.
fn well_formed_relaunches(reader: &TraceReader) -> u32 {
    let (mut relaunches, mut open, mut foreground, mut exited) = (0, false, false, false);
    for event in reader.events() {
        match event.unwrap().kind {
            EventKind::LaunchBegin(kind) => {
                assert!(!open && !foreground && !exited);
                (open, foreground) = (true, true);
                relaunches += u32::from(kind == LaunchKind::Relaunch);
            }
            EventKind::LaunchEnd => {
                assert!(open);
                open = false;
            }
            EventKind::Background => {
                assert!(!open && foreground);
                foreground = false;
            }
            EventKind::Exit => exited = true,
            _ => assert!(!exited),
        }
    }
    assert!(exited);
    relaunches
}

/// What the trace says that the pages of the pattern hold in the end, and which were accessed in each
/// launch window. The pattern is found by its contents.
struct Replayed {
    contents: BTreeMap<u64, ContentId>,
    windows: Vec<BTreeSet<u64>>,
}

fn replay(reader: &TraceReader) -> Replayed {
    let mut replayed = Replayed {
        contents: BTreeMap::new(),
        windows: Vec::new(),
    };
    let mut open = false;
    for event in reader.events() {
        let (page, content) = match event.unwrap().kind {
            EventKind::LaunchBegin(LaunchKind::Relaunch) => {
                replayed.windows.push(BTreeSet::new());
                open = true;
                continue;
            }
            EventKind::LaunchEnd => {
                open = false;
                continue;
            }
            EventKind::Access { page, content, .. } => {
                if let (true, PageAddr::Anon { number }) = (open, page) {
                    replayed.windows.last_mut().unwrap().insert(number);
                }
                (page, content)
            }
            EventKind::Content { page, content } => (page, Some(content)),
            EventKind::Free {
                page: PageAddr::Anon { number },
                pages,
            } => {
                for n in number..number + u64::from(pages) {
                    replayed.contents.remove(&n);
                }
                continue;
            }
            _ => continue,
        };
        if let (PageAddr::Anon { number }, Some(content)) = (page, content) {
            replayed.contents.insert(number, content);
        }
    }
    replayed
}

fn expected(page: u64, version: &str) -> Vec<u8> {
    let mut text = format!("{page:06}.{version}.").repeat(300).into_bytes();
    text.truncate(PAGE_BYTES);
    text
}

#[test]
fn the_trace_says_what_a_known_program_touched_and_held() {
    const NAME: &str = "the_trace_says_what_a_known_program_touched_and_held";
    if let Some(reason) =
        obstacle().or_else(|| check(&pattern_spec(), Path::new("/")).map(|m| m.to_string()))
    {
        skip!(NAME, "{reason}");
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();

    let summary = run(dir.path(), pattern_spec(), 3).unwrap();

    let reader = TraceReader::open(dir.path().join("out.wst")).unwrap();
    reader.verify(|_, _| {}).unwrap();
    assert_eq!(well_formed_relaunches(&reader), 3);
    let replayed = replay(&reader);

    // The pattern is the run of 600 pages whose first begins with page 0.
    let mut page = [0; PAGE_BYTES];
    let mut content = |number: u64| {
        reader
            .content(replayed.contents[&number], &mut page)
            .unwrap();
        page
    };
    let candidates = replayed.contents.keys().copied().collect::<Vec<_>>();
    let is_first = |n: &u64| replayed.contents.contains_key(&(n + PATTERN_PAGES - 1));
    let base = candidates
        .into_iter()
        .filter(is_first)
        .find(|&n| content(n).starts_with(b"000000.") && content(n + 1).starts_with(b"000001."))
        .expect("the pattern is in the trace");
    let mut written = 0;
    for i in 0..PATTERN_PAGES {
        let held = content(base + i);
        let version = String::from_utf8(held[7..13].to_vec()).unwrap();
        assert_eq!(held[..], expected(i, &version), "page {i}");
        written += u32::from(version != "000000");
    }
    assert!(
        written >= 20,
        "use writes ten pages each time; {written} were"
    );

    // Exactly the 30 and 10 pages that a relaunch reads, whatever else of Python's it touches.
    for window in &replayed.windows {
        let touched: Vec<u64> = window
            .range(base..base + PATTERN_PAGES)
            .map(|n| n - base)
            .collect();
        assert_eq!(touched.len(), 40, "{touched:?}");
        assert_eq!(touched[..30], (100..130).collect::<Vec<u64>>());
    }
    let lost = summary.losses.lost;
    assert_eq!(lost, 0);
    assert!(mean_similarity(&summary.apps[0]) > 0.5);
}

#[test]
fn relaunches_of_cpython_are_alike_and_the_machine_is_as_before() {
    const NAME: &str = "relaunches_of_cpython_are_alike_and_the_machine_is_as_before";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let spec = load_all(&folder)
        .unwrap()
        .into_iter()
        .find(|s| s.name == "cpython")
        .unwrap();
    if let Some(reason) = obstacle().or_else(|| check(&spec, Path::new("/")).map(|m| m.to_string()))
    {
        skip!(NAME, "{reason}");
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let before = machine_state();

    let summary = run(dir.path(), spec, 3).unwrap();

    assert_eq!(machine_state(), before);
    let app = &summary.apps[0];
    assert_eq!(app.relaunches.len(), 3);
    assert!(mean_similarity(app) > 0.5, "{app:?}");
    assert!(app.anonymous_pages > 5000, "{app:?}");
    let reader = TraceReader::open(dir.path().join("out.wst")).unwrap();
    assert_eq!(well_formed_relaunches(&reader), 3);
    assert_eq!(reader.summary(), summary.trace);
    assert_eq!(leftovers(dir.path()), ["out.wst"]);
}

/// A program of two processes that both have a file of 300 pages mapped, so that advice to page out leaves them alone. A
/// relaunch reads 40 of them.
const READER: &str = r#"
import mmap, os, sys
opened = open(sys.argv[1], "rb")
memory = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
def read(pages):
    return sum(memory[page * 4096] for page in pages)
end, end_of_parent = os.pipe()
read_all, has_read_all = os.pipe()
if os.fork() == 0:
    os.close(end_of_parent)
    read(range(300))
    os.write(has_read_all, b".")
    os.read(end, 1)
    os._exit(0)
read(range(300))
os.read(read_all, 1)
print("ready", flush=True)
for line in sys.stdin:
    digest = read(range(100, 140)) if line.startswith("relaunch") else 0
    print(f"done {digest:x}", flush=True)
"#;

/// Records relaunches of the reader; pages of its file in each window, and those that are in memory in the end.
fn record_reader(name: &str, cold_files: bool) -> Option<(Summary, Vec<BTreeSet<u64>>, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, vec![7; 300 * PAGE_BYTES]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    let in_memory = || -> u64 { cached(&file).unwrap().iter().map(|run| run.count).sum() };
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let no_group = Memcg::create_near(&Undo::open(&Root::machine(), dir.path()).unwrap(), "probe");
    let obstacle = obstacle()
        .or_else(|| no_group.err().map(|e| e.to_string()))
        .or_else(|| check(&pattern_spec(), Path::new("/")).map(|m| m.to_string()))
        .or_else(|| (in_memory() > 0).then(|| "this file system keeps what it is to drop".into()));
    if let Some(reason) = obstacle {
        skip!(name, "{reason}"; None);
    }
    let command = [READER, path.to_str().unwrap()].map(|s| toml::Value::String(s.to_owned()));
    let spec = spec_of(&format!("{}, {}", command[0], command[1]));
    let config = RecordConfig {
        cold_files,
        ..config(dir.path(), spec, 3)
    };
    let undo = Undo::open(&Root::machine(), &dir.path().join("state")).unwrap();
    let summary = record(&config, &undo, &mut |_| {}).unwrap();
    let left = in_memory();

    let reader = TraceReader::open(&config.output).unwrap();
    let is_ours = |info: &FileInfo| Path::new(&info.path) == path;
    let ours = reader.files().iter().position(is_ours).unwrap() as u32;
    let (mut windows, mut open) = (Vec::new(), false);
    for event in reader.events() {
        match event.unwrap().kind {
            EventKind::LaunchBegin(LaunchKind::Relaunch) => {
                windows.push(BTreeSet::new());
                open = true;
            }
            EventKind::LaunchEnd => open = false,
            EventKind::Access {
                page: PageAddr::File { file, number },
                ..
            } if open && file.0 == ours => {
                windows.last_mut().unwrap().insert(number);
            }
            _ => {}
        }
    }
    Some((summary, windows, left))
}

#[test]
fn pages_of_files_that_were_dropped_are_recorded_as_they_are_read_again() {
    const NAME: &str = "pages_of_files_that_were_dropped_are_recorded_as_they_are_read_again";
    let _alone = alone();
    let Some((summary, windows, _)) = record_reader(NAME, true) else {
        return;
    };
    let cold = summary.cold_files.unwrap();
    assert_eq!(cold.drops, 3);
    assert!(cold.pages_dropped >= 300, "{cold:?}");
    assert!(cold.major_faults >= 3, "{cold:?}");
    let read: BTreeSet<u64> = (100..140).collect();
    for window in &windows {
        match summary.exact_file_faults {
            true => assert_eq!(window, &read),
            // One fault maps neighbours along.
            false => assert!(!window.is_empty()),
        }
    }
    assert_eq!(windows.len(), 3);
    assert!(cold.pages_accessed_again >= 3 * windows[0].len() as u64);
}

#[test]
fn without_the_option_pages_of_files_stay() {
    const NAME: &str = "without_the_option_pages_of_files_stay";
    let _alone = alone();
    let Some((summary, windows, left)) = record_reader(NAME, false) else {
        return;
    };
    assert_eq!(summary.cold_files, None);
    assert_eq!(left, 300);
    assert!(windows.iter().all(BTreeSet::is_empty), "{windows:?}");
}

/// Names in `dir` but the folder of state files, which must be empty.
fn leftovers(dir: &Path) -> Vec<String> {
    let state = dir.join("state");
    assert_eq!(
        std::fs::read_dir(&state).unwrap().count(),
        0,
        "a state file is left"
    );
    let names = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n != "state").collect()
}

/// Tests that compare the machine before and after may not run at once.
fn alone() -> impl Drop {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    LOCK.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Not a test of its own: run by the tests below in a process that is to be interrupted. It says when the
/// recording is under way, then goes on for a long time, or panics.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_FOLDER).map(PathBuf::from) else {
        return;
    };
    let undo = Undo::open(&Root::machine(), &dir.join("state")).unwrap();
    undo.on_signals().unwrap();
    let config = config(&dir, pattern_spec(), 10_000);
    let under_way = &mut |_: Step<'_>| {
        std::fs::write(dir.join("under-way"), "").unwrap();
        assert!(!dir.join("panic").exists(), "on purpose");
    };
    record(&config, &undo, under_way).unwrap();
}

fn start_child(dir: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--test-threads=1"])
        .env(CHILD_FOLDER, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !dir.join("under-way").exists() {
        let ended = child.try_wait().unwrap();
        assert!(
            ended.is_none() || dir.join("under-way").exists(),
            "the child ended: {ended:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn an_interruption_leaves_nothing() {
    const NAME: &str = "an_interruption_leaves_nothing";
    if let Some(reason) = obstacle() {
        skip!(NAME, "{reason}");
    }
    let _alone = alone();
    for (signal, code) in [
        (rustix::process::Signal::INT, 130),
        (rustix::process::Signal::TERM, 143),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let before = machine_state();
        let mut child = start_child(dir.path());
        assert_ne!(
            machine_state().0,
            before.0,
            "our swap device is there meanwhile"
        );

        send(&child, signal);

        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(machine_state(), before);
        assert_eq!(leftovers(dir.path()), ["under-way"]);
    }
}

#[test]
fn a_panic_leaves_nothing() {
    const NAME: &str = "a_panic_leaves_nothing";
    if let Some(reason) = obstacle() {
        skip!(NAME, "{reason}");
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let before = machine_state();
    std::fs::write(dir.path().join("panic"), "").unwrap();

    let mut child = start_child(dir.path());

    assert_eq!(child.wait().unwrap().code(), Some(101));
    assert_eq!(machine_state(), before);
    let mut left = leftovers(dir.path());
    left.sort();
    assert_eq!(left, ["panic", "under-way"]);
}

#[test]
fn the_next_run_removes_what_a_killed_one_left() {
    const NAME: &str = "the_next_run_removes_what_a_killed_one_left";
    if let Some(reason) = obstacle() {
        skip!(NAME, "{reason}");
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let before = machine_state();
    let mut child = start_child(dir.path());
    send(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    assert_ne!(machine_state(), before, "nothing has cleaned up yet");

    drop(Undo::open(&Root::machine(), &dir.path().join("state")).unwrap());

    assert_eq!(machine_state(), before);
    assert_eq!(leftovers(dir.path()), ["under-way"]);
}

#[test]
fn nothing_to_record_and_nowhere_to_write_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let undo = Undo::open(&Root::machine(), &dir.path().join("state")).unwrap();
    let mut nothing = config(dir.path(), pattern_spec(), 1);
    nothing.apps.clear();
    let mut nowhere = config(dir.path(), pattern_spec(), 1);
    nowhere.output = dir.path().join("absent/out.wst");

    assert!(matches!(
        record(&nothing, &undo, &mut |_| {}),
        Err(RecordError::NoApps)
    ));
    let error = record(&nowhere, &undo, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("absent/out.wst"), "{error}");
}
