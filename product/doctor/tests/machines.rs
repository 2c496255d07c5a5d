//! Diagnoses of machines that are described by files and by the answers of their kernels.

use std::fs;
use std::io;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use warmswap_doctor::{
    CHECKS, Diagnosis, Kernel, LibraryError, Machine, Part, State, diagnose, preload_library,
    require,
};
use warmswap_sys::accessed::AccessedError;
use warmswap_sys::perf::PerfError;
use warmswap_sys::{FileError, Root};
use warmswap_uffd::{Feature, Features, OpenError};

const ENOSYS: i32 = 38;
const EPERM: i32 = 1;

/// A kernel as a set of answers.
#[derive(Clone, Debug)]
struct Answers {
    page_bytes: usize,
    /// Errno, or features.
    userfaultfd: Result<Features, i32>,
    everywhere: bool,
    events: bool,
    /// Errno.
    madvise: Result<(), i32>,
    swapon: bool,
    scan: bool,
}

impl Answers {
    fn all() -> Self {
        Self {
            page_bytes: 4096,
            userfaultfd: Ok(Features::of(&Feature::ALL)),
            everywhere: true,
            events: true,
            madvise: Ok(()),
            swapon: true,
            scan: true,
        }
    }
}

fn refused(errno: i32) -> OpenError {
    OpenError::Open(io::Error::from_raw_os_error(errno))
}

impl Kernel for Answers {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn userfaultfd(&self) -> Result<Features, OpenError> {
        self.userfaultfd.map_err(refused)
    }

    fn userfaultfd_everywhere(&self) -> Result<(), OpenError> {
        self.everywhere.then_some(()).ok_or(refused(EPERM))
    }

    fn page_fault_events(&self) -> Result<(), PerfError> {
        let paranoid = "2".to_owned();
        self.events
            .then_some(())
            .ok_or(PerfError::Permission { paranoid })
    }

    fn process_madvise(&self) -> io::Result<()> {
        self.madvise.map_err(io::Error::from_raw_os_error)
    }

    fn swapon(&self) -> io::Result<()> {
        let refused = io::Error::from_raw_os_error(EPERM);
        self.swapon.then_some(()).ok_or(refused)
    }

    fn pagemap_scan(&self) -> Result<bool, FileError> {
        Ok(self.scan)
    }

    fn accessed_bits(&self) -> Result<(), AccessedError> {
        self.scan.then_some(()).ok_or(AccessedError::Layout)
    }
}

const ROOT: &str = "Name:\twarmswap\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";
const USER: &str = "Name:\twarmswap\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n";

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     \n\
Max open files            1024                 524288               files     \n\
Max locked memory         8388608              8388608              bytes     \n\
Max address space         unlimited            unlimited            bytes     \n";

/// The files of a machine on which everything works.
const GOOD: &[(&str, &str)] = &[
    ("proc/self/status", ROOT),
    ("proc/self/limits", LIMITS),
    (
        "proc/self/mounts",
        "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
    ),
    (
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n",
    ),
    ("proc/self/cgroup", "0::/\n"),
    ("proc/pressure/memory", "some avg10=0.00\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/vm/unprivileged_userfaultfd", "0\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/sys/vm/max_map_count", "65530\n"),
    ("proc/sys/kernel/perf_event_paranoid", "2\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
    (
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n",
    ),
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("sys/class/zram-control/hot_add", ""),
    ("sys/block/zram0/comp_algorithm", "lzo [lzo-rle] lz4 zstd\n"),
    ("dev/userfaultfd", ""),
    ("usr/lib/warmswap/libwarmswap_preload.so", "\u{7f}ELF"),
];

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The good machine with other files, or without some.
fn machine(changes: &[(&str, Option<&str>)], kernel: Answers) -> (TempDir, Machine) {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in GOOD {
        write(folder.path(), path, content);
    }
    for (path, content) in changes {
        match content {
            Some(content) => write(folder.path(), path, content),
            None => {
                let path = folder.path().join(path);
                if path.is_dir() {
                    fs::remove_dir_all(path).unwrap();
                } else {
                    fs::remove_file(path).unwrap();
                }
            }
        }
    }
    let root = Root::at(folder.path());
    let machine = Machine::recorded(root, Box::new(kernel), Path::new("/usr/bin/warmswap"));
    (folder, machine)
}

fn diagnosis(changes: &[(&str, Option<&str>)], kernel: Answers) -> Diagnosis {
    let (_folder, machine) = machine(changes, kernel);
    diagnose(&machine)
}

/// The checks that are not passed, in the words that people see.
fn complaints(diagnosis: &Diagnosis) -> Vec<String> {
    let bad = diagnosis
        .checks
        .iter()
        .filter(|row| row.state != State::There);
    bad.map(|row| row.explain()).collect()
}

fn working(diagnosis: &Diagnosis) -> Vec<&'static str> {
    let works = diagnosis.parts.iter().filter(|part| part.works);
    works.map(|part| part.part.name()).collect()
}

#[test]
fn on_a_good_machine_everything_works() {
    let found = diagnosis(&[], Answers::all());
    assert_eq!(complaints(&found), [""; 0]);
    assert_eq!(
        working(&found),
        [
            "daemon", "run", "group", "arena", "kernel", "record", "bench"
        ]
    );
    assert!(found.parts.iter().all(|part| part.better_with.is_empty()));
}

#[test]
fn an_ordinary_user_is_told_what_to_run() {
    let kernel = Answers {
        everywhere: false,
        events: false,
        ..Answers::all()
    };
    let found = diagnosis(&[("proc/self/status", Some(USER))], kernel);

    assert_eq!(working(&found), ["arena"]);
    assert_eq!(
        complaints(&found),
        [
            "faults within system calls: not allowed: vm.unprivileged_userfaultfd is 0, and \
             CAP_SYS_PTRACE is missing; to fix it: sudo sysctl -w vm.unprivileged_userfaultfd=1, or for \
             this user alone: sudo setfacl -m u:$USER:rw /dev/userfaultfd",
            "locked memory: 8192 KiB of 32784; to fix it: raise the hard limit \
             `memlock` in /etc/security/limits.conf, log in anew, then ulimit -l 32784",
            "root: this process is not root's; to fix it: run the command with sudo",
            "page-fault events: not allowed: kernel.perf_event_paranoid is 2; to fix it: sudo \
             sysctl -w kernel.perf_event_paranoid=0",
            "other processes: CAP_SYS_PTRACE is missing; to fix it: run the command with sudo",
            "process_madvise: CAP_SYS_NICE is missing; to fix it: run the command with sudo",
        ]
    );
}

#[test]
fn page_fault_events_are_needed_for_recording_alone() {
    let kernel = Answers {
        events: false,
        ..Answers::all()
    };
    let found = diagnosis(&[], kernel);
    assert!(found.parts.iter().all(|part| part.better_with.is_empty()));
    let lacking = found.parts.iter().filter(|part| !part.works);
    let lacking: Vec<_> = lacking.map(|part| part.part.name()).collect();
    assert_eq!(lacking, ["record"]);
}

#[test]
fn an_old_kernel_is_told_from_a_filter() {
    let explain = |errno| {
        let kernel = Answers {
            userfaultfd: Err(errno),
            ..Answers::all()
        };
        let (_folder, machine) = machine(&[], kernel);
        require(&machine, Part::Arena).unwrap_err().to_string()
    };
    let old = explain(ENOSYS);
    assert!(old.contains("CONFIG_USERFAULTFD"), "{old}");
    let filtered = explain(EPERM);
    assert!(filtered.contains("seccomp"), "{filtered}");
}

/// What `part` is told, with other files and another kernel.
fn explained(changes: &[(&str, Option<&str>)], kernel: Answers, part: Part) -> String {
    let (_folder, machine) = machine(changes, kernel);
    require(&machine, part).unwrap_err().to_string()
}

#[test]
fn root_of_a_container_is_not_root_of_the_machine() {
    let without = ROOT.replace("000001ffffffffff", "00000000a80425fb");
    let no_right = [("proc/self/status", Some(without.as_str()))];
    let namespace = [("proc/self/uid_map", Some("0 100000 65536\n"))];
    let machines = [(
        "proc/self/uid_map",
        Some("         0          0 4294967295\n"),
    )];
    let filtered = Answers {
        swapon: false,
        ..Answers::all()
    };
    for (changes, kernel, says) in [
        (&no_right[..], Answers::all(), "CAP_SYS_ADMIN is missing"),
        (&namespace[..], Answers::all(), "root of a user namespace"),
        (&machines[..], filtered.clone(), "filter of system calls"),
    ] {
        let told = explained(changes, kernel, Part::Group);
        assert!(
            told.contains(says) && told.contains("outside of containers"),
            "{told}"
        );
    }
    assert_eq!(complaints(&diagnosis(&machines, Answers::all())), [""; 0]);
    // The daemon uses swap that is there; where it would have to make some it cannot.
    let none = [("proc/swaps", Some("Filename Type Size Used Priority\n"))];
    assert!(working(&diagnosis(&machines, filtered.clone())).contains(&"daemon"));
    assert!(explained(&none, filtered, Part::Daemon).contains("none can be made here"));
}

#[test]
fn a_filter_of_system_calls_is_told_from_an_old_kernel() {
    let madvise = |errno| Answers {
        madvise: Err(errno),
        ..Answers::all()
    };
    assert!(explained(&[], madvise(ENOSYS), Part::Daemon).contains("Linux 5.10"));
    let filtered = explained(&[], madvise(EPERM), Part::Daemon);
    assert!(
        filtered.contains("seccomp") && !filtered.contains("5.10"),
        "{filtered}"
    );
}

#[test]
fn a_read_only_sys_makes_no_devices() {
    let mounts = "sysfs /sys sysfs ro,nosuid 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
    let told = explained(
        &[("proc/self/mounts", Some(mounts))],
        Answers::all(),
        Part::Group,
    );
    assert!(told.contains("mount -o remount,rw /sys"), "{told}");
}

#[test]
fn zswap_before_zram_is_named_and_before_a_disk_it_is_not() {
    let on = ("sys/module/zswap/parameters/enabled", Some("Y"));
    let zram = (
        "proc/swaps",
        Some("Filename\n/dev/zram0 partition 1 0 100\n"),
    );
    let found = diagnosis(&[on, zram], Answers::all());
    assert_eq!(found.of(Part::Daemon).unwrap().better_with, ["zswap"]);
    assert!(complaints(&found)[0].contains("echo N > /sys/module/zswap"));
    assert_eq!(complaints(&diagnosis(&[on], Answers::all())), [""; 0]);
}

#[test]
fn the_way_to_memory_groups_is_one_that_can_work() {
    let v1 = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
    let cgroups = |enabled| {
        format!("#subsys_name\thierarchy\tnum\tenabled\ncpu\t3\t1\t1\nmemory\t0\t1\t{enabled}\n")
    };
    for (mounts, cgroups, says) in [
        (v1, cgroups(1), "mount -t cgroup -o memory"),
        (v1, cgroups(0), "cgroup_enable=memory"),
        (
            v1,
            "#subsys_name\ncpu\t3\t1\t1\n".to_owned(),
            "CONFIG_MEMCG",
        ),
        (
            "cgroup2 /cg cgroup2 rw 0 0\n",
            cgroups(1),
            "cgroup.subtree_control",
        ),
        ("", cgroups(1), "mount -t cgroup2 none /sys/fs/cgroup"),
    ] {
        let changes = [
            ("proc/self/mounts", Some(mounts)),
            ("proc/cgroups", Some(cgroups.as_str())),
        ];
        let told = explained(&changes, Answers::all(), Part::Group);
        assert!(told.contains(says), "{told}");
    }
}

#[test]
fn without_frame_moves_live_memory_works_less_well() {
    let features = Features::of(&Feature::ALL).without(Features::of(&[Feature::Move]));
    let kernel = Answers {
        userfaultfd: Ok(features),
        ..Answers::all()
    };
    let found = diagnosis(&[], kernel);

    assert_eq!(working(&found).len(), Part::ALL.len());
    for part in [Part::Arena, Part::Run, Part::Bench] {
        assert_eq!(found.of(part).unwrap().better_with, ["frame_moves"]);
    }
    assert_eq!(
        complaints(&found),
        ["UFFDIO_MOVE: this kernel lacks Move; to fix it: use Linux 6.8 or later"]
    );
}

/// Each setting that can be wrong, wrong: the check that notices, what it says, and which part cannot work.
#[test]
fn each_setting_is_noticed_by_its_own_check() {
    let v1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
    let small = LIMITS.replace(
        "unlimited            unlimited",
        "1073741824           unlimited",
    );
    let few = LIMITS.replace("1024                 524288", "64                   64");
    type Row<'a> = (&'a str, Option<&'a str>, &'a str, &'a str, &'a [&'a str]);
    let rows: &[Row] = &[
        (
            "proc/sys/vm/overcommit_memory",
            Some("2"),
            "overcommit",
            "sysctl -w vm.overcommit_memory=0",
            &["run", "arena", "bench"],
        ),
        (
            "proc/sys/vm/max_map_count",
            Some("1000"),
            "mappings",
            "sysctl -w vm.max_map_count=65530",
            &[],
        ),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            Some("[always] madvise never"),
            "huge_pages",
            "sh -c 'echo madvise > /sys/kernel/mm/transparent_hugepage/enabled'",
            &[],
        ),
        (
            "proc/self/limits",
            Some(&small),
            "address_space",
            "ulimit -v unlimited",
            &["run", "arena", "bench"],
        ),
        (
            "proc/self/limits",
            Some(&few),
            "open_files",
            "limits.conf",
            &[],
        ),
        (
            "proc/swaps",
            None,
            "swap",
            "CONFIG_SWAP",
            &["daemon", "group", "kernel", "record", "bench"],
        ),
        (
            "sys/class/zram-control",
            None,
            "zram",
            "modprobe zram",
            &["group", "kernel", "record", "bench"],
        ),
        (
            "sys/block/zram0/comp_algorithm",
            Some("[zstd]"),
            "zram_lz4",
            "LZ4",
            &["record", "bench"],
        ),
        (
            "proc/self/mounts",
            Some(""),
            "memory_groups",
            "mount -t cgroup2",
            &["group", "kernel", "bench"],
        ),
        (
            "proc/sys/vm/swappiness",
            Some("0"),
            "group_swap",
            "sysctl vm.swappiness=60",
            &["group"],
        ),
        (
            "sys/fs/cgroup/memory.swap.max",
            Some("1048576"),
            "group_swap",
            "leaves 1 MiB of swap",
            &["group"],
        ),
        ("proc/pressure/memory", None, "pressure", "psi=1", &[]),
        (
            "usr/lib/warmswap/libwarmswap_preload.so",
            None,
            "preload_library",
            "/usr/bin/libwarmswap_preload.so nor /usr/lib/warmswap",
            &["run"],
        ),
    ];
    for &(path, content, key, says, broken) in rows {
        let found = diagnosis(&[(path, content)], Answers::all());

        let lacking: Vec<_> = found
            .checks
            .iter()
            .filter(|row| row.state == State::Lacking)
            .collect();
        assert_eq!(lacking.len(), 1, "{path}: {lacking:?}");
        assert_eq!(lacking[0].key, key);
        let explained = lacking[0].explain();
        assert!(explained.contains(says), "{explained}");
        let not_working: Vec<_> = found
            .parts
            .iter()
            .filter(|part| !part.works)
            .map(|part| part.part.name())
            .collect();
        assert_eq!(not_working, broken, "{key}");
    }
    let found = diagnosis(&[("proc/self/mounts", Some(v1))], Answers::all());
    let groups = found
        .checks
        .iter()
        .find(|row| row.key == "memory_groups")
        .unwrap();
    assert_eq!(
        (groups.state, groups.found.as_str()),
        (State::There, "version 1")
    );
}

#[test]
fn what_cannot_be_known_hinders_nothing() {
    let found = diagnosis(&[("sys/block/zram0", None)], Answers::all());
    assert_eq!(
        complaints(&found),
        ["lz4 in zram: no zram device is there to be asked"]
    );
    assert_eq!(working(&found).len(), Part::ALL.len());
}

#[test]
fn a_daemon_without_swap_and_without_zram_does_not_work() {
    let found = diagnosis(
        &[
            ("proc/swaps", Some("Filename Type Size Used Priority\n")),
            ("sys/class/zram-control", None),
        ],
        Answers::all(),
    );
    assert!(
        !working(&found).contains(&"daemon"),
        "{:?}",
        working(&found)
    );
    let complaints = complaints(&found).join("\n");
    assert!(complaints.contains("no zram to make one"), "{complaints}");
}

#[test]
fn pages_of_another_size_stop_every_part() {
    let kernel = Answers {
        page_bytes: 65536,
        ..Answers::all()
    };
    let found = diagnosis(&[], kernel);
    assert_eq!(working(&found), [""; 0]);
    assert_eq!(complaints(&found).len(), 1);
}

#[test]
fn the_library_beside_the_command_comes_before_the_installed_one() {
    let beside = "usr/bin/libwarmswap_preload.so";
    let (_folder, both) = machine(&[(beside, Some(""))], Answers::all());
    assert_eq!(
        preload_library(&both).unwrap(),
        Path::new("/usr/bin/libwarmswap_preload.so")
    );

    let (_folder, installed) = machine(&[], Answers::all());
    let path = preload_library(&installed).unwrap();
    assert_eq!(path, Path::new("/usr/lib/warmswap/libwarmswap_preload.so"));

    let (_folder, neither) = machine(&[("usr/lib", None)], Answers::all());
    let error = preload_library(&neither).unwrap_err();
    assert!(
        matches!(&error, LibraryError::Nowhere { places } if places.len() == 2),
        "{error}"
    );
}

#[test]
fn this_machine_can_be_diagnosed() {
    let found = diagnose(&Machine::this());
    assert_eq!(
        found.checks.len(),
        CHECKS.iter().map(|group| group.len()).sum::<usize>()
    );
    for row in &found.checks {
        assert!(!row.found.is_empty(), "{row:?}");
        assert_eq!(row.state == State::Lacking, row.fix.is_some(), "{row:?}");
        assert!(!row.explain().contains('\n'), "{row:?}");
    }
}

#[test]
fn every_check_has_a_name_of_its_own_and_a_part_that_needs_it() {
    let mut keys: Vec<_> = CHECKS
        .iter()
        .copied()
        .flatten()
        .map(|check| check.key)
        .collect();
    keys.sort_unstable();
    let count = keys.len();
    keys.dedup();
    assert_eq!(keys.len(), count);
    assert!(
        CHECKS
            .iter()
            .copied()
            .flatten()
            .all(|check| !check.needs.is_empty())
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_file_makes_a_check_panic(index in 0..GOOD.len(), content in "\\PC{0,80}|Uid:\t\\PC{0,9}|CapEff: [0-9a-z]{0,30}|Max open files [0-9 ]{0,40}") {
        let found = diagnosis(&[(GOOD[index].0, Some(&content))], Answers::all());
        prop_assert!(!found.checks.is_empty());
    }
}
