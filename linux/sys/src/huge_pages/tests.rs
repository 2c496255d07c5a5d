use super::guard::{Judge, Look};
use super::*;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What programs and kernel have before anything is taken away.
const MACHINE_MIB: u64 = 1400;

/// A machine with pages of 2 MiB of which `huge` are free, and others that take memory and free some meanwhile.
struct Model {
    available: u64,
    huge: u64,
    reserved: u64,
    /// What others take when the first pages are reserved.
    others_take: u64,
    /// What others free at each of the next looks.
    others_free: Vec<u64>,
    compacted: u32,
    /// Pages that compaction makes free.
    compactable: u64,
}

impl Kernel for Model {
    fn left_bytes(&mut self, of: Left) -> Result<u64, HugePagesError> {
        Ok(match of {
            Left::Available(_) => self.available,
            Left::Machine(_) => MACHINE_MIB * MIB - self.reserved * 2 * MIB,
        })
    }

    fn reserve(&mut self, pages: u64) -> Result<u64, HugePagesError> {
        let before = self.reserved;
        self.reserved = pages.min(before + self.huge);
        self.huge = self.huge + before - self.reserved;
        self.available += before * 2 * MIB;
        self.available -= self.reserved * 2 * MIB + std::mem::take(&mut self.others_take);
        Ok(self.reserved)
    }

    fn compact(&mut self) {
        self.compacted += 1;
        self.huge += std::mem::take(&mut self.compactable);
    }

    fn wait(&mut self) {
        self.available += self.others_free.pop().unwrap_or_default();
    }
}

fn model(available_mib: u64, huge: u64) -> Model {
    Model {
        available: available_mib * MIB,
        huge,
        reserved: 0,
        others_take: 0,
        others_free: Vec::new(),
        compacted: 0,
        compactable: 0,
    }
}

fn plan(left_mib: u64) -> Plan {
    Plan {
        page_bytes: 2 * MIB,
        left: Left::Available(left_mib * MIB),
    }
}

#[test]
fn what_is_to_be_left_is_left() {
    let mut kernel = model(1001, 10_000);

    let taken = plan(300).carry_out(&mut kernel).unwrap();

    assert_eq!((taken, kernel.reserved), (350, 350));
    assert_eq!(kernel.available, 301 * MIB);
}

#[test]
fn a_machine_of_a_size_has_it_whatever_others_hold() {
    let plan = Plan {
        left: Left::Machine(701 * MIB),
        ..plan(0)
    };
    for others_take in [0, 150 * MIB] {
        let mut kernel = model(1000, 10_000);
        kernel.others_take = others_take;
        kernel.others_free = vec![70 * MIB; 9];

        let taken = plan.carry_out(&mut kernel).unwrap();

        assert_eq!((taken, kernel.reserved), (349, 349));
    }
}

#[test]
fn what_others_take_meanwhile_is_given_back() {
    let mut kernel = model(1000, 10_000);
    kernel.others_take = 650 * MIB;

    plan(300).carry_out(&mut kernel).unwrap();

    assert_eq!((kernel.available, kernel.reserved), (300 * MIB, 25));
}

#[test]
fn what_others_free_late_is_taken_too() {
    let mut kernel = model(1000, 10_000);
    kernel.others_free = vec![70 * MIB, 0, 0, 0, 30 * MIB, 0];

    plan(300).carry_out(&mut kernel).unwrap();

    assert_eq!((kernel.available, kernel.reserved), (300 * MIB, 400));
}

#[test]
fn memory_that_does_not_settle_and_memory_that_others_took_are_refused() {
    let mut kernel = model(1000, 10_000);
    kernel.others_free = vec![4 * MIB; 1000];
    let error = plan(300).carry_out(&mut kernel).unwrap_err();
    assert!(matches!(error, HugePagesError::Unsteady { .. }), "{error}");

    let mut kernel = model(1000, 10_000);
    kernel.others_take = 800 * MIB;
    let error = plan(300).carry_out(&mut kernel).unwrap_err();
    assert!(matches!(error, HugePagesError::TooLittle { .. }), "{error}");
}

#[test]
fn compaction_helps_or_it_is_stuck() {
    let mut kernel = model(1000, 100);
    kernel.compactable = 250;
    assert_eq!(plan(300).carry_out(&mut kernel).unwrap(), 350);
    assert_eq!(kernel.compacted, 1);

    let mut kernel = model(1000, 100);
    let error = plan(300).carry_out(&mut kernel).unwrap_err();
    assert!(
        matches!(error, HugePagesError::Stuck { available_bytes, .. } if available_bytes == 800 * MIB),
        "{error}"
    );
    assert_eq!(kernel.compacted, TRIES);
}

fn bounds() -> Bounds {
    Bounds {
        least_available_bytes: 100,
        available_patience: Duration::from_secs(2),
        most_stall_percent_when_short: 25.0,
        most_stall_percent: 95.0,
        stall_window: Duration::from_secs(10),
    }
}

fn look(at_s: u64, available_bytes: u64, stall_s: u64) -> Look {
    Look {
        at: Duration::from_secs(at_s),
        available_bytes,
        stall_us: Some(stall_s * 1_000_000),
    }
}

#[test]
fn memory_has_run_out_when_too_little_is_there_for_long() {
    for waits in [true, false] {
        let mut judge = Judge::new(bounds());
        // Half of the time is waited, or the kernel does not tell.
        let look = |at_s: u64, available_bytes| Look {
            stall_us: waits.then_some(at_s * 500_000),
            ..look(at_s, available_bytes, 0)
        };

        assert_eq!(judge.look(look(0, 99)).0, None);
        assert_eq!(judge.look(look(1, 99)).0, None);
        assert_eq!(judge.look(look(2, 100)).0, None, "it recovered");
        assert_eq!(judge.look(look(3, 7)).0, None);
        assert_eq!(judge.look(look(4, 8)).0, None);
        let expected = RanOut::Available { available_bytes: 9 };
        assert_eq!(judge.look(look(5, 9)).0, Some(expected));
    }
}

#[test]
fn little_that_nobody_waits_for_is_enough() {
    let mut judge = Judge::new(bounds());

    for at_s in 0..=60 {
        assert_eq!(judge.look(look(at_s, 0, 100)).0, None, "{at_s}");
    }
    assert_eq!(judge.look(look(61, 0, 101)).0, None);
    let expected = RanOut::Available { available_bytes: 0 };
    assert_eq!(judge.look(look(62, 0, 102)).0, Some(expected));
}

#[test]
fn memory_has_run_out_when_all_tasks_only_wait() {
    let mut judge = Judge::new(bounds());

    assert_eq!(judge.look(look(0, 500, 100)), (None, None));
    assert_eq!(judge.look(look(9, 500, 109)), (None, None));
    let (ran_out, percent) = judge.look(look(10, 500, 109));
    assert_eq!((ran_out, percent), (None, Some(90.0)));
    let expected = RanOut::Stall { percent: 100.0 };
    let (ran_out, percent) = judge.look(look(20, 500, 119));
    assert_eq!((ran_out, percent), (Some(expected), Some(100.0)));
    let unknown = Look {
        stall_us: None,
        ..look(40, 500, 0)
    };
    assert_eq!(Judge::new(bounds()).look(unknown), (None, None));
}

/// The kernel's files in a folder, with what is available made to follow what is reserved.
struct Folder {
    files: Files,
    dir: PathBuf,
}

impl Kernel for Folder {
    fn left_bytes(&mut self, of: Left) -> Result<u64, HugePagesError> {
        self.files.left_bytes(of)
    }

    fn reserve(&mut self, pages: u64) -> Result<u64, HugePagesError> {
        let before = reserved(&self.dir) - self.files.before;
        let bytes = self.left_bytes(Left::Available(0))? + before * 2 * MIB;
        let now = self.files.reserve(pages)?;
        available(&self.dir, (bytes >> 20) - now * 2);
        Ok(now)
    }

    fn compact(&mut self) {}

    fn wait(&mut self) {}
}

fn take(undo: &Undo, left_bytes: u64, bounds: Bounds) -> Reservation {
    let dir = undo.root().path("/");
    Reservation::take_from(undo, Left::Available(left_bytes), bounds, |files| Folder {
        files,
        dir,
    })
    .unwrap()
}

/// A folder that stands in for a machine with `available_mib` available.
fn machine(dir: &Path, available_mib: u64, huge_pages: u64) -> Undo {
    std::fs::create_dir_all(dir.join("proc/sys/vm")).unwrap();
    std::fs::write(dir.join("proc/sys/vm/nr_hugepages"), huge_pages.to_string()).unwrap();
    available(dir, available_mib);
    std::fs::write(dir.join("proc/zoneinfo"), "").unwrap();
    Undo::open(&Root::at(dir), &dir.join("state")).unwrap()
}

fn available(dir: &Path, mib: u64) {
    let text = format!(
        "MemTotal: 4194304 kB\nMemAvailable: {:8} kB\nHugepagesize: 2048 kB\n",
        mib << 10
    );
    // Always of one length and in place: the guard reads at any moment, and never finds a part of it.
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    let file = options.open(dir.join("proc/meminfo")).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
}

/// Reserved pages. While the guard writes the number, which is a file here and no kernel's, there is none for a moment.
fn reserved(dir: &Path) -> u64 {
    let path = dir.join("proc/sys/vm/nr_hugepages");
    std::iter::repeat_with(|| file::read_u64(&path))
        .find_map(Result::ok)
        .expect("the repetition has no end")
}

/// Like [`Bounds::of`], at once.
fn impatient(left_bytes: u64) -> Bounds {
    Bounds {
        available_patience: Duration::ZERO,
        ..Bounds::of(left_bytes)
    }
}

#[test]
fn it_adds_to_what_is_reserved_and_goes_back_to_that() {
    let dir = tempfile::tempdir().unwrap();
    let undo = machine(dir.path(), 1000, 5);

    let reservation = take(&undo, 300 * MIB, Bounds::of(300 * MIB));

    assert_eq!(reserved(dir.path()), 355);
    assert_eq!(reservation.taken_bytes(), 700 * MIB);
    reservation.check().unwrap();
    reservation.give_back().unwrap();
    assert_eq!(reserved(dir.path()), 5);
    available(dir.path(), 1000);
    drop(take(&undo, 300 * MIB, Bounds::of(300 * MIB)));
    assert_eq!(reserved(dir.path()), 5);
}

#[test]
fn a_panic_and_the_next_command_after_a_kill_give_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let undo = machine(dir.path(), 1000, 0);
    let outcome = std::panic::catch_unwind(|| {
        let _taken = take(&undo, 300 * MIB, Bounds::of(300 * MIB));
        panic!("on purpose");
    });
    assert!(outcome.is_err());
    assert_eq!(reserved(dir.path()), 0);

    available(dir.path(), 1000);
    // A process that was killed leaves its list, under the number of a process that is no more.
    let reservation = take(&undo, 300 * MIB, Bounds::of(300 * MIB));
    let list = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    let state = dir.path().join("state");
    let [path] = list(&state).try_into().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    reservation.give_back().unwrap();
    std::fs::write(dir.path().join("proc/sys/vm/nr_hugepages"), "350").unwrap();
    let earlier = text.replacen("\"start_ticks\": ", "\"start_ticks\": 1", 1);
    assert_ne!(earlier, text);
    std::fs::write(&path, earlier).unwrap();

    Undo::open(&Root::at(dir.path()), &state).unwrap();

    assert_eq!(reserved(dir.path()), 0);
    assert!(list(&state).is_empty());
}

#[test]
fn the_guard_gives_it_back_when_memory_runs_out() {
    let dir = tempfile::tempdir().unwrap();
    let undo = machine(dir.path(), 1000, 3);
    let reservation = take(&undo, 300 * MIB, impatient(300 * MIB));
    assert_eq!(reserved(dir.path()), 353);

    available(dir.path(), 2);

    while reservation.check().is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let error = reservation.check().unwrap_err();
    assert!(
        matches!(error, HugePagesError::RanOut(RanOut::Available { available_bytes }) if available_bytes == 2 * MIB),
        "{error}"
    );
    // The word comes before the deed.
    while reserved(dir.path()) != 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(reservation);
    assert_eq!(reserved(dir.path()), 3);
}

#[test]
fn what_was_seen_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let undo = machine(dir.path(), 300, 0);
    let reservation = take(&undo, 300 * MIB, Bounds::of(300 * MIB));
    let seen = loop {
        let seen = reservation.take_seen();
        if seen.looks > 0 {
            break seen;
        }
    };

    assert_eq!(seen.mean_available_bytes(), 300 * MIB);
    assert_eq!(seen.least_available_bytes, 300 * MIB);
    assert_eq!(Seen::default().mean_available_bytes(), 0);
    let less = Seen {
        looks: 1,
        sum_available_bytes: 100 * MIB,
        least_available_bytes: 100 * MIB,
        most_stall_percent: 5.0,
        cpu_ns: 7,
    };
    let both = less.and(Seen { looks: 1, ..seen });
    assert_eq!((both.looks, both.least_available_bytes), (2, 100 * MIB));
    assert_eq!(less.and(Seen::default()), less);
    assert_eq!(Seen::default().and(less), less);
}

#[test]
fn what_processors_hold_for_themselves_can_be_taken() {
    let dir = tempfile::tempdir().unwrap();
    let undo = machine(dir.path(), 200, 0);
    let zones = "Node 0, zone   Normal\n  pages free     7\n  pagesets\n    cpu: 0\n              count:    25600\n\
                 \x20             high:     4096\n    cpu: 1\n              count:    2560\n";
    std::fs::write(dir.path().join("proc/zoneinfo"), zones).unwrap();
    let left = |left: Left| left.of(undo.root()).unwrap();
    assert_eq!(left(Left::Available(0)), 310 * MIB);
    assert_eq!(left(Left::Machine(0)), 4096 * MIB);
}

#[test]
fn a_machine_that_cannot_is_told_why_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let undo = machine(dir.path(), 200, 0);
    let error =
        Reservation::take(&undo, Left::Available(300 * MIB), Bounds::of(300 * MIB)).unwrap_err();
    assert!(matches!(error, HugePagesError::TooLittle { .. }), "{error}");
    assert!(
        error.to_string().starts_with("300 MiB are to be left"),
        "{error}"
    );

    std::fs::remove_file(dir.path().join("proc/sys/vm/nr_hugepages")).unwrap();
    let error =
        Reservation::take(&undo, Left::Available(100 * MIB), Bounds::of(100 * MIB)).unwrap_err();
    assert!(matches!(error, HugePagesError::Missing { .. }), "{error}");
}
