//! The library in real programs: small ones in C for one subject each, and large ones that everybody knows, whose
//! answers are compared with those of a run without it.

mod anything;
mod children;
mod common;
mod crowded;
mod files;
mod learned;
mod loaded;

use common::{Budget, Case, compile, program, run, run_program};
use warmswap_testkit::skip;

/// What the C programs use is four times as much, or more.
const SMALL: Budget = Budget { mib: 12 };

fn in_every_way(name: &str) {
    for mechanism in ["move", "copy"] {
        let case = Case {
            mechanism,
            ..Case::new(SMALL)
        };
        let Some(stats) = program(name, &case) else {
            continue;
        };
        assert!(stats.managed, "{name}, {mechanism}: it was never paged");
        assert!(stats.faults.pool > 1000, "{name}, {mechanism}: {stats:?}");
    }
}

#[test]
fn threads_that_touch_pages_in_random_order_and_are_interrupted() {
    in_every_way("touch");
}

#[test]
fn threads_that_ended_before() {
    in_every_way("ended");
}

#[test]
fn a_thread_that_is_bound_while_it_makes_faults_and_what_it_creates() {
    in_every_way("bound");
}

#[test]
fn forks_with_copy_on_write() {
    in_every_way("fork");
}

#[test]
fn a_parent_reports_after_children_of_vfork_have_ended() {
    in_every_way("vfork");
}

#[test]
fn threads_of_ours_do_not_take_after_who_crosses_the_budget() {
    in_every_way("inherit");
}

#[test]
fn programs_with_few_addresses_or_little_data_are_not_paged() {
    for limit in ["-v 2000000", "-d 500000"] {
        let command = format!(
            "ulimit {limit}; exec awk 'BEGIN {{ for (i = 0; i < 300000; i++) a[i] = i; print length(a) }}'"
        );
        let Some((plain, paged)) = run(&Case::new(SMALL), &["sh", "-c", &command]) else {
            return;
        };
        assert_eq!(paged.answer, plain.answer, "{limit}: {}", paged.errors);
        let said = paged.errors.matches("runs without paging").count();
        assert_eq!(said, 1, "{limit}: {}", paged.errors);
    }
}

#[test]
fn a_program_that_locks_all_of_its_memory_is_not_paged() {
    if !warmswap_sys::is_root() {
        skip!("locked", "it takes root to lock so much");
    }
    let input = std::process::Stdio::null();
    if let Some(run) = run_program("locked", &Case::new(SMALL), input, || ()) {
        let said = run.errors.matches("runs without paging").count();
        assert_eq!(said, 1, "{}", run.errors);
    }
}

#[test]
fn programs_that_filter_their_system_calls() {
    let input = std::process::Stdio::null();
    if let Some(run) = run_program("filtered", &Case::new(SMALL), input, || ()) {
        let said = run.errors.matches("runs without paging").count();
        assert_eq!(said, 7, "{}", run.errors);
        assert!(run.stats.expect("a report").managed, "it was never paged");
    }
}

#[test]
fn limits_that_a_program_sets_itself() {
    in_every_way("limits");
}

#[test]
fn far_more_addresses_than_memory() {
    in_every_way("sparse");
}

#[test]
fn a_thread_that_is_to_be_cancelled() {
    in_every_way("cancelled");
}

#[test]
fn shared_memory_in_the_place_of_a_programs() {
    in_every_way("shm");
}

#[test]
fn a_program_that_enters_a_mount_namespace() {
    if !warmswap_sys::is_root() {
        skip!("namespaces", "it takes root");
    }
    in_every_way("namespaces");
}

#[test]
fn programs_that_make_or_enter_a_namespace_of_users() {
    let input = std::process::Stdio::null();
    let Some(run) = run_program("users", &Case::new(SMALL), input, || ()) else {
        return;
    };
    if run.answer.contains("no namespaces") {
        skip!("users", "there are no namespaces of users here");
    }
    let unpaged = "runs without paging: it enters a namespace";
    assert_eq!(run.errors.matches(unpaged).count(), 2, "{}", run.errors);
}

#[test]
fn children_that_are_made_without_handlers() {
    in_every_way("clone");
}

#[test]
fn a_program_that_closes_its_standard_error() {
    in_every_way("closed");
}

#[test]
fn threads_whose_stacks_are_the_programs_memory() {
    in_every_way("stacks");
}

#[test]
fn threads_that_open_streams_while_another_forks() {
    in_every_way("streams");
}

#[test]
fn threads_that_end_with_robust_mutexes_and_stacks_of_the_programs_own() {
    in_every_way("robust");
}

#[test]
fn a_program_with_a_userfaultfd_of_its_own() {
    in_every_way("uffds");
}

#[test]
fn memory_that_devices_write_to() {
    in_every_way("pinned");
}

#[test]
fn pipes_that_refer_to_pages_of_the_program() {
    in_every_way("pipes");
}

#[test]
fn a_program_with_an_allocator_of_its_own() {
    in_every_way("allocator");
}

#[test]
fn advice_of_a_program_on_itself() {
    in_every_way("advised");
}

#[test]
fn advice_of_a_program_on_itself_where_proc_is_of_no_help() {
    if !warmswap_sys::is_root() {
        skip!("advised_apart", "it takes root");
    }
    in_every_way("advised_apart");
}

#[test]
fn a_program_whose_own_allocator_is_locked_in_forks_is_not_paged() {
    let input = std::process::Stdio::null();
    if let Some(run) = run_program("allocator_locked", &Case::new(SMALL), input, || ()) {
        let said = run.errors.matches("runs without paging").count();
        assert_eq!(said, 1, "{}", run.errors);
    }
}

#[test]
fn memory_that_moves_while_it_is_used() {
    in_every_way("moved");
}

#[test]
fn views_take_the_place_of_memory() {
    in_every_way("views");
}

/// They are printed.
#[test]
fn calls_answer_as_without_the_library() {
    let Some((_folder, file)) = compile("answers") else {
        return;
    };
    let file = file.to_str().expect("text");
    for mechanism in ["move", "copy"] {
        let case = Case {
            mechanism,
            ..Case::new(SMALL)
        };
        let Some((plain, paged)) = run(&case, &[file]) else {
            continue;
        };
        assert_eq!(plain.answer, paged.answer, "{mechanism}: {}", paged.errors);
        assert!(paged.stats.expect("a report").managed, "{mechanism}");
    }
}

#[test]
fn keys_and_core_dumps() {
    in_every_way("attributes");
}

#[test]
fn hints_that_a_program_insists_on() {
    in_every_way("hints");
}

/// It waits until its memory is away.
#[test]
fn a_program_that_gives_up_its_rights_before_it_is_paged() {
    let input = std::process::Stdio::null;
    for mechanism in ["move", "copy"] {
        let case = Case {
            mechanism,
            ..Case::new(SMALL)
        };
        let Some(run) = run_program("rights", &case, input(), || ()) else {
            continue;
        };
        assert!(!run.errors.contains("without paging"), "{}", run.errors);
    }
}

#[test]
fn a_program_that_keeps_its_capabilities_when_it_changes_its_user() {
    let input = std::process::Stdio::null();
    let run = run_program("keepcaps", &Case::new(SMALL), input, || ());
    let unpaged = "runs without paging: it keeps capabilities";
    if let Some(run) = run
        && warmswap_sys::is_root()
    {
        assert!(run.errors.contains(unpaged), "{}", run.errors);
    }
}

#[test]
fn a_heap_of_small_mappings_is_paged() {
    run_program(
        "pieces",
        &Case::new(SMALL),
        std::process::Stdio::null(),
        || (),
    );
}

#[test]
fn processes_end_with_their_last_thread() {
    in_every_way("last");
}

#[test]
fn processes_whose_threads_end_unseen_or_that_may_write_no_file() {
    in_every_way("raw_exit");
}

#[test]
fn handlers_of_fork_that_were_there_first() {
    in_every_way("handlers");
}

#[test]
fn libraries_with_thread_local_variables() {
    in_every_way("libraries");
}

#[test]
fn mappings_that_are_made_where_nothing_is() {
    in_every_way("places");
}

#[test]
fn a_program_has_the_name_that_it_was_started_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("another-name");
    std::os::unix::fs::symlink("/bin/true", &link).expect("a link");
    let started_by = link.to_str().expect("text");
    if let Some((_, paged)) = run(&Case::new(SMALL), &[started_by]) {
        assert_eq!(paged.stats.expect("a report").name, "another-name");
    }
}

#[test]
fn forks_before_anything_is_paged() {
    in_every_way("attached");
}

#[test]
fn children_that_fork_at_once() {
    let case = Case::new(Budget { mib: 8 });
    let Some(stats) = program("nested", &case) else {
        return;
    };
    assert!(stats.managed, "it was never paged");
}

#[test]
fn children_that_are_stopped_before_their_first_instruction() {
    in_every_way("stopped");
}

/// It can write no report.
#[test]
fn forks_of_a_program_that_may_open_no_more_files() {
    let input = std::process::Stdio::null;
    for mechanism in ["move", "copy"] {
        let case = Case {
            mechanism,
            ..Case::new(SMALL)
        };
        let Some(run) = run_program("limited", &case, input(), || ()) else {
            continue;
        };
        assert!(!run.errors.contains("without paging"), "{}", run.errors);
    }
}

/// A fork costs the same however much is in the file: the program counts what its children write and read.
#[test]
fn forks_copy_nothing_of_the_backing_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = Case {
        scheme: "zswap",
        backing: Some(folder.path().join("swap")),
        ..Case::new(Budget { mib: 7 })
    };
    let Some(stats) = program("backed", &case) else {
        return;
    };
    assert!(stats.managed);
    // More than twice what a child may read and write, were it copied.
    assert!(stats.backing_bytes > 1 << 20, "{stats:?}");
    let left: Vec<_> = folder.path().read_dir().expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn libraries_that_are_loaded_meanwhile() {
    in_every_way("loader");
}

#[test]
fn remapping_unmapping_protecting_and_discarding() {
    in_every_way("layout");
}

#[test]
fn system_calls_on_memory_that_is_not_in_place() {
    in_every_way("calls");
}

#[test]
fn addresses_that_are_used_again_all_the_time() {
    in_every_way("churn");
}

#[test]
fn small_blocks_are_within_the_budget() {
    let Some(stats) = program("blocks", &Case::new(SMALL)) else {
        return;
    };
    assert!(stats.managed, "it was never paged");
}

#[test]
fn allocations_as_by_the_c_library() {
    program("allocations", &Case::new(SMALL));
}

/// It is not paged: what it tests is the allocator.
#[test]
fn a_child_allocates_while_a_thread_of_its_parent_frees() {
    program("exchanged", &Case::new(Budget { mib: 1 << 10 }));
}

#[test]
fn large_blocks_that_are_paged() {
    in_every_way("large");
}

#[test]
fn large_blocks_that_are_not_paged() {
    if let Some(stats) = program("large", &Case::new(Budget { mib: 1 << 10 })) {
        assert!(!stats.managed, "it was paged");
    }
}

#[test]
fn memory_that_grows_beyond_the_budget_by_mremap() {
    in_every_way("grown");
}

/// To the kernel the program has far more than its limit.
#[test]
fn a_handler_that_maps_and_forks_in_a_program_with_limits_of_its_own() {
    in_every_way("limited_handler");
}

#[test]
fn a_handler_that_forks_while_its_thread_creates_another() {
    let Some(stats) = program("interrupted", &Case::new(SMALL)) else {
        return;
    };
    assert!(stats.managed, "it was never paged");
}

#[test]
fn every_scheme_that_pages_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let schemes = [
        ("zram", false),
        ("ariadne-ehl-1k-2k-16k", false),
        ("asap", false),
        ("ezswap", false),
        ("ezswap", true),
        ("warmswap", false),
    ];
    for (scheme, has_backing) in schemes {
        let case = Case {
            scheme,
            backing: has_backing.then(|| folder.path().join("swap")),
            ..Case::new(SMALL)
        };
        let Some(stats) = program("touch", &case) else {
            return;
        };
        assert!(stats.managed, "{scheme}: it was never paged");
        // It touches 65 MiB and its heap at most, and most of them; a page with a frame and a copy is one page.
        let mib = stats.virtual_peak_bytes >> 20;
        assert!((56..=66).contains(&mib), "{scheme}: {mib} MiB");
    }
}

#[test]
fn a_program_with_a_backing_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = Case {
        scheme: "zswap",
        backing: Some(folder.path().join("swap")),
        // More than the pool has room for leaves, and some of it comes back.
        repeats: 4,
        ..Case::new(Budget { mib: 7 })
    };
    let Some(stats) = program("touch", &case) else {
        return;
    };
    assert!(stats.managed);
    assert!(
        stats.backing_bytes > 0 || stats.faults.backing > 0,
        "{stats:?}"
    );
    let left: Vec<_> = folder.path().read_dir().expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_program_whose_backing_file_has_no_room_computes_the_same_and_it_is_counted() {
    let name = "a_program_whose_backing_file_has_no_room_computes_the_same_and_it_is_counted";
    let folder = tempfile::tempdir().expect("a folder");
    let Some(_mounted) = SmallDisk::mount(folder.path()) else {
        skip!(name, "nothing can be mounted here");
    };
    let case = Case {
        scheme: "zswap",
        backing: Some(folder.path().join("swap")),
        ..Case::new(Budget { mib: 7 })
    };
    if let Some(stats) = program("touch", &case) {
        assert!(stats.managed && stats.backing_failures > 0, "{stats:?}");
    }
}

/// A file system of 64 KiB. Dropping it unmounts it.
struct SmallDisk<'a>(&'a std::path::Path);

impl<'a> SmallDisk<'a> {
    fn mount(place: &'a std::path::Path) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(place);
        mount.output().ok()?.status.success().then_some(Self(place))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let mut unmount = std::process::Command::new("umount");
        let _ = unmount.arg(self.0).status();
    }
}

/// Its answer is the same as without the library.
fn same_answer(budget: Budget, command: &[&str]) {
    let Some((plain, paged)) = run(&Case::new(budget), command) else {
        return;
    };
    assert_eq!(plain.answer, paged.answer, "{command:?}");
    let stats = paged.stats.expect("a report");
    assert!(stats.managed, "{command:?} was never paged: {stats:?}");
}

#[test]
fn sqlite() {
    let script = "create table t(a integer primary key, b text, c text); \
        with recursive n(i) as (select 1 union all select i+1 from n where i<150000) \
        insert into t select i, hex(i*7919), printf('%.100c', 'x') || i from n; \
        create index tb on t(b); select count(*), sum(length(c)) from t; \
        select a from t order by b desc limit 3; pragma integrity_check;";
    same_answer(Budget { mib: 16 }, &["sqlite3", ":memory:", script]);
}

#[test]
fn python() {
    let script = "import hashlib,json,re,subprocess\n\
        rows=[{'id':i,'name':'n%d'%(i*7919%100003),'tags':[str(j) for j in range(i%7)]} for i in range(60000)]\n\
        text=json.dumps(rows); again=json.loads(text); assert again==rows\n\
        print(hashlib.sha256(text.encode()).hexdigest(), len(re.findall('n9+',text)))\n\
        print(subprocess.run(['echo','from a child'],capture_output=True,text=True).stdout)\n\
        rows.sort(key=lambda r:r['name']); print(rows[0]['name'], rows[-1]['name'])";
    same_answer(Budget { mib: 24 }, &["python3", "-c", script]);
}

#[test]
fn pythons_own_tests() {
    let Some(python) = common::python_with_tests() else {
        return;
    };
    let modules = "test_list test_dict test_json test_re test_mmap test_thread test_fork1";
    let mut command = vec![python.as_str(), "-m", "test"];
    command.extend(modules.split(' '));
    let Some((plain, paged)) = run(&Case::new(Budget { mib: 24 }), &command) else {
        return;
    };
    for run in [plain, paged] {
        let is_ok = run.answer.contains("All 7 tests OK.");
        assert!(is_ok, "{}{}", run.answer, run.errors);
    }
}

#[test]
fn node() {
    let script = "const a=[];for(let i=0;i<300;i++)a.push(Buffer.alloc(300000,i%251));\
        const o=[];for(let i=0;i<200000;i++)o.push({i,s:'x'+i});\
        let t=0;for(let r=0;r<3;r++){for(const b of a)t+=b[1000]+b[299999];for(const e of o)t+=e.s.length}\
        console.log(t)";
    same_answer(Budget { mib: 48 }, &["node", "-e", script]);
}

#[test]
fn stress_ng() {
    // Its own check of every byte; the answer holds times.
    let command = [
        "stress-ng",
        "--vm",
        "2",
        "--vm-bytes",
        "96m",
        "--vm-keep",
        "--verify",
        "--vm-ops",
        "4000",
        "--timeout",
        "40",
        "--quiet",
    ];
    let Some((plain, paged)) = run(&Case::new(Budget { mib: 24 }), &command) else {
        return;
    };
    assert_eq!(
        (plain.status, paged.status),
        (Some(0), Some(0)),
        "{}",
        paged.errors
    );
}

#[test]
fn java_with_a_heap_larger_than_the_budget() {
    let Some(folder) = common::java_program("Heap", include_str!("../programs/Heap.java")) else {
        return;
    };
    let place = folder.path().to_str().expect("text");
    same_answer(
        Budget { mib: 64 },
        &["java", "-Xmx400m", "-cp", place, "Heap"],
    );
}

#[test]
fn redis() {
    let Some([plain, paged]) = common::redis(&Case::new(Budget { mib: 24 })) else {
        return;
    };
    assert_eq!(plain.answer, paged.answer, "digests differ");
    let stats = paged.stats.expect("a report");
    assert!(stats.managed && stats.faults.pool > 100, "{stats:?}");
}

/// It reserves addresses that it insists on, and what it keeps there is shared memory, which is not paged.
#[test]
fn java_with_a_collector_that_insists_on_addresses() {
    let Some(folder) = common::java_program("Heap", include_str!("../programs/Heap.java")) else {
        return;
    };
    let place = folder.path().to_str().expect("text");
    let command = ["java", "-XX:+UseZGC", "-Xmx400m", "-cp", place, "Heap"];
    if let Some((plain, paged)) = run(&Case::new(Budget { mib: 64 }), &command) {
        assert_eq!(paged.answer, plain.answer, "{}", paged.errors);
    }
}
