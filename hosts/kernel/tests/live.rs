//! A host over real processes, on a zram device and in a control group of our own.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    Machine, Program, bytes, program_with_a_file, reclaim_file, relaunch, settle,
    wait_for_prepaging, wait_until, with_hot_pages_leaving, within,
};
use rustix::fs::{self, fadvise};
use warmswap_kernel::{AppId, Application, Counters, Goal, Host, HostConfig, Members, PrepageBy};
use warmswap_sys::Root;
use warmswap_sys::residency::page_cache;
use warmswap_testkit::skip;

/// Sets the machine up, or skips the test.
macro_rules! machine {
    ($name:expr, $swap_pages:expr) => {
        match Machine::set_up($name, $swap_pages) {
            Ok(machine) => machine,
            Err(reason) => skip!($name, "{reason}"),
        }
    };
}

/// Memory of an interpreter that does nothing, generously.
const INTERPRETER: u64 = 6 << 20;

fn host(config: HostConfig) -> Host {
    Host::new(config, &Root::machine()).expect("a host")
}

/// Major faults that the program may take for pages beside those that are touched: numbers that it has not used.
const OTHER_FAULTS: u64 = 8;

/// Touches pages as [`Program::touch`], when what the interpreter itself needs for that (its code, its stack, its
/// tables) is in memory: pages that no footprint has are touched before.
fn touch_alone(program: &mut Program, pages: std::ops::Range<u64>) -> (u64, u64) {
    program.touch(0, 32);
    program.touch(pages.start, pages.end)
}

/// Anonymous memory of a program that is there, its interpreter's included.
fn anonymous_bytes(program: &Program) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap();
    kib.parse::<u64>().unwrap() << 10
}

#[test]
fn without_a_goal_nothing_is_paged_out() {
    let machine = machine!("without_a_goal_nothing_is_paged_out", 8192);
    let program = machine.program(2000);
    let mut host = host(HostConfig::default());
    host.add(program.application("a")).unwrap();

    for _ in 0..5 {
        assert_eq!(host.tick().paged_out, 0);
    }

    assert_eq!(host.counters().page_out_asked, 0);
    assert!(host.status().apps[0].cold_bytes >= bytes(2000));
}

#[test]
fn what_others_have_leaves_while_an_application_is_launched() {
    let machine = machine!(
        "what_others_have_leaves_while_an_application_is_launched",
        32768
    );
    let (a, b) = (machine.program(3000), machine.program(3000));
    let mut host = host(HostConfig {
        // Whatever was seen first leaves first.
        scheme: "asap".to_owned(),
        ..within(anonymous_bytes(&a) + anonymous_bytes(&b) - bytes(1200))
    });
    let app_a = host.add(a.application("a")).unwrap();
    host.tick();
    host.switch_to(app_a).unwrap();
    host.add(b.application("b")).unwrap();
    settle(&mut host);

    let status = host.status();
    assert_eq!(status.missing_bytes, 0, "{:?}", status.counters);
    assert_eq!(status.apps[0].swapped_bytes, 0, "it is being launched");
    assert!(status.apps[1].swapped_bytes > bytes(1000), "{status:?}");
}

/// All that is left of others is hot, and most that is left is the launching application's own.
#[test]
fn what_others_keep_leaves_before_a_launch_has_to_wait() {
    let machine = machine!("what_others_keep_leaves_before_a_launch_has_to_wait", 32768);
    let (launching, hot) = (machine.program(3000), machine.program(1500));
    let before = machine.memcg.stats().unwrap().usage_bytes;
    let config = within(before + bytes(500));
    let mut host = host(HostConfig {
        goal: Goal {
            group: Some(machine.memcg.path().to_owned()),
            ..config.goal
        },
        ..config
    });
    let app_hot = host.add(hot.application("hot")).unwrap();
    // Its first launch: what it has is on its hot list.
    host.switch_to(app_hot).unwrap();
    settle(&mut host);
    host.launch_done(app_hot).unwrap();
    let app = host.add(launching.application("launching")).unwrap();
    settle(&mut host);
    assert_eq!(host.counters().page_out_asked, 0, "there is room for both");
    host.switch_to(app).unwrap();
    // Something else takes what is left of the budget.
    let _other = machine.program(1000);

    settle(&mut host);

    let status = host.status();
    let [hot, launching] = &status.apps[..] else {
        panic!("{status:?}")
    };
    assert!(launching.is_launching, "it did not begin to work");
    assert_eq!(launching.swapped_bytes, 0, "{status:?}");
    assert!(hot.swapped_bytes > bytes(500), "{status:?}");
}

/// Nobody says when a launch is over: it is when the application rests.
#[test]
fn a_launch_ends_when_its_application_rests() {
    let machine = machine!("a_launch_ends_when_its_application_rests", 16384);
    let mut program = machine.program(2000);
    let mut host = host(HostConfig {
        launch_window_ms: u64::from(u32::MAX),
        ..short_with_room()
    });
    let app = host.add(program.application("a")).unwrap();
    settle(&mut host);
    host.switch_to(app).unwrap();
    for _ in 0..20 {
        host.tick();
        std::thread::sleep(warmswap_kernel::host::AFTER_SWITCH / 10);
    }
    assert!(host.status().apps[0].is_launching, "it did nothing yet");

    program.touch(100, 500);
    while host.status().apps[0].is_launching {
        let tick = host.tick();
        assert!(tick.wait <= warmswap_kernel::host::AFTER_SWITCH, "{tick:?}");
        std::thread::sleep(tick.wait);
    }

    let status = host.status();
    let last = status.apps[0].relaunches.last().unwrap();
    assert!(!last.is_answered && last.faults >= 390, "{last:?}");
    // Where one answer is told, late or not, all are waited for.
    host.launch_done(app).unwrap();
    host.switch_to(app).unwrap();
    program.touch(500, 900);
    for _ in 0..20 {
        host.tick();
        std::thread::sleep(warmswap_kernel::host::AFTER_SWITCH / 2);
    }
    assert!(host.status().apps[0].is_launching);
}

#[test]
fn the_hot_set_stays_when_others_need_memory() {
    let machine = machine!("the_hot_set_stays_when_others_need_memory", 32768);
    let (mut a, mut b) = (machine.program(3000), machine.program(3000));
    let mut host = host(within(2 * INTERPRETER + bytes(3600)));
    let app_a = host.add(a.application("a")).unwrap();
    let app_b = host.add(b.application("b")).unwrap();
    settle(&mut host);
    assert!(
        host.counters().page_out_done > 1000,
        "{:?}",
        host.counters()
    );
    let Counters {
        page_out_cpu_ns,
        host_cpu_ns,
        ..
    } = host.counters();
    assert!(0 < page_out_cpu_ns && page_out_cpu_ns <= host_cpu_ns);
    // It learns that A needs these pages: each must have been away once to be seen.
    for round in 0..4 {
        relaunch(&mut host, app_a, &mut a, 100..500);
        relaunch(&mut host, app_b, &mut b, round * 500..round * 500 + 500);
    }

    // All of B comes in, and something of A must go.
    relaunch(&mut host, app_b, &mut b, 0..3000);
    let status = host.status();
    host.switch_to(app_a).unwrap();
    let (major, _) = a.touch(100, 500);

    assert!(
        major <= 40,
        "{major} of 400 pages had left: {:?}",
        status.apps[0]
    );
    assert!(
        status.apps[0].swapped_bytes >= bytes(1000),
        "its cold pages left: {status:?}"
    );
    assert_eq!((a.damaged(), b.damaged()), (0, 0));
}

/// Memory is short, so that all leaves that may, and there is room for a footprint once it is wanted.
fn short_with_room() -> HostConfig {
    let config = within(64 << 20);
    HostConfig {
        goal: Goal {
            headroom_bytes: Some(63 << 20),
            ..config.goal
        },
        ..config
    }
}

/// Has a host learn that launches of the program touch pages 100 to 499.
fn learn(host: &mut Host, program: &mut Program) -> AppId {
    let app = host.add(program.application("a")).unwrap();
    settle(host);
    // A page that comes back in two of them is known. Now and then the kernel leaves one where it is, though it was
    // asked to page it out.
    for _ in 0..5 {
        relaunch(host, app, program, 100..500);
    }
    app
}

/// What a relaunch of 400 pages finds that were all away, after they were learned.
fn prepaged(name: &str, by: PrepageBy) -> Option<((u64, u64), Host)> {
    let machine = match Machine::set_up(name, 16384) {
        Ok(machine) => machine,
        Err(reason) => skip!(name, "{reason}"; None),
    };
    let mut program = machine.program(2000);
    let mut host = host(with_hot_pages_leaving(HostConfig {
        prepage_by: by,
        ..short_with_room()
    }));
    let app = learn(&mut host, &mut program);
    host.switch_to(app).unwrap();
    wait_for_prepaging(&host);
    let faults = touch_alone(&mut program, 100..500);
    host.launch_done(app).unwrap();
    assert_eq!(program.damaged(), 0);
    Some((faults, host))
}

#[test]
fn pages_prepaged_by_reading_are_mapped() {
    let Some((faults, host)) = prepaged("pages_prepaged_by_reading_are_mapped", PrepageBy::Read)
    else {
        return;
    };
    let last = *host.status().apps[0].relaunches.last().unwrap();
    assert!(last.prefetched >= 400, "{last:?}");
    assert!(
        faults.0 <= OTHER_FAULTS && faults.1 <= 40,
        "{faults:?} of 400 pages"
    );
}

#[test]
fn pages_prepaged_into_the_swap_cache_cost_no_major_fault_and_tell_their_use() {
    let Some((faults, host)) = prepaged(
        "pages_prepaged_into_the_swap_cache_cost_no_major_fault_and_tell_their_use",
        PrepageBy::WillNeed,
    ) else {
        return;
    };
    let last = *host.status().apps[0].relaunches.last().unwrap();
    assert!(last.prefetched >= 400, "{last:?}");
    assert!(last.prefetch_used >= 390, "{last:?}");
    assert!(faults.0 <= OTHER_FAULTS, "{faults:?} of 400 pages");
    assert!(last.faults_avoided >= 390 && last.is_answered, "{last:?}");
}

#[test]
fn pages_that_were_prepaged_in_vain_leave_the_swap_cache_where_memory_is_short() {
    let name = "pages_that_were_prepaged_in_vain_leave_the_swap_cache_where_memory_is_short";
    let machine = machine!(name, 16384);
    let mut program = machine.program(2000);
    let mut host = host(with_hot_pages_leaving(short_with_room()));
    let app = learn(&mut host, &mut program);
    host.switch_to(app).unwrap();
    wait_for_prepaging(&host);
    touch_alone(&mut program, 100..200);
    let used = || machine.memcg.stats().unwrap().usage_bytes;
    let before = used();

    host.launch_done(app).unwrap();

    // Up to 31 pages that came last wait with each processor, where the kernel cannot page them out: some of the 300 never
    // left.
    let wasted = host.counters().prepage_wasted;
    assert!(wasted >= 250, "{wasted} of 300 pages");
    // A thread does it that nothing waits for.
    wait_until(|| host.counters().prepage_put_back + 20 >= wasted);
    assert!(used() + bytes(200) <= before, "{} of {before}", used());
    // They are where they were, and are not written again.
    let (major, _) = touch_alone(&mut program, 200..500);
    // Others that came in vain are the interpreter's.
    assert!(major + 20 >= wasted.min(300), "{major} of {wasted} pages");
    assert_eq!(program.damaged(), 0);
}

#[test]
fn what_was_learned_survives_a_restart() {
    let machine = machine!("what_was_learned_survives_a_restart", 16384);
    let mut program = machine.program(2000);
    let tight = with_hot_pages_leaving(HostConfig {
        learned_folder: Some(machine.folder.path().join("learned")),
        ..short_with_room()
    });
    let mut first = host(tight.clone());
    learn(&mut first, &mut program);
    first.save_learned().unwrap();
    drop(first);

    let mut second = host(tight);
    let app = second.add(program.application("a")).unwrap();
    second.load_learned(app).unwrap();
    settle(&mut second);
    second.switch_to(app).unwrap();
    wait_for_prepaging(&second);
    let (major, _) = touch_alone(&mut program, 100..500);
    second.launch_done(app).unwrap();

    let status = &second.status().apps[0];
    assert!(status.prefetched >= 390, "{status:?}");
    assert!(major <= OTHER_FAULTS, "{major} of 400 pages: {status:?}");
}

#[test]
fn processes_fork_exec_drop_memory_and_exit_meanwhile() {
    let machine = machine!("processes_fork_exec_drop_memory_and_exit_meanwhile", 32768);
    let (mut a, mut b) = (machine.program(1500), machine.program(1500));
    let mut host = host(within(1 << 20));
    host.add(a.application("a")).unwrap();
    let app_b = host.add(b.application("b")).unwrap();
    settle(&mut host);
    assert!(
        host.counters().page_out_done >= 2500,
        "{:?}",
        host.counters()
    );

    // Pages that are freed are forgotten; pages shared with a child are not paged out.
    assert_eq!(a.ask("drop 0 700"), "dropped");
    a.touch(700, 1500);
    let child: u32 = a.ask("fork").parse().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    settle(&mut host);
    let apps = host.status().apps;
    assert_eq!(apps[0].processes, 2, "the child is found");
    assert_eq!(a.damaged(), 0);

    // Another program in the same process: what was known of the old one is dropped.
    assert_eq!(b.ask("exec"), "ready");
    // It is in the background, where it is looked at every five seconds.
    std::thread::sleep(std::time::Duration::from_millis(5100));
    host.tick();
    settle(&mut host);
    assert!(host.counters().process_executed >= 1);
    assert_eq!(b.damaged(), 0);

    b.kill();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    host.tick();
    let status = host.status();
    assert_eq!(
        (status.apps[1].processes, status.apps[1].swapped_bytes),
        (0, 0)
    );
    assert_eq!(status.apps[1].cold_bytes + status.apps[1].warm_bytes, 0);
    host.switch_to(app_b).unwrap();
    host.launch_done(app_b).unwrap();
    let _ = Command::new("kill")
        .args(["-9", &child.to_string()])
        .status();
}

#[test]
fn locked_memory_is_left_alone_and_counted() {
    let machine = machine!("locked_memory_is_left_alone_and_counted", 8192);
    let mut program = machine.program(1000);
    assert_eq!(program.ask("lock"), "0");
    let mut host = host(within(1 << 20));
    host.add(program.application("a")).unwrap();

    settle(&mut host);

    let counters = host.counters();
    assert!(counters.refused_unsuitable > 0, "{counters:?}");
    assert!(counters.page_out_kept > 0, "{counters:?}");
    // The interpreter's own pages are not locked.
    assert!(program.touch(0, 1000).0 < 100);
}

/// The kernel pages out nothing on request that several processes have. If such pages were asked for again, no others
/// would leave.
#[test]
fn pages_that_a_child_has_too_are_asked_for_twice_and_again_when_it_has_ended() {
    const PAGES: u64 = 2000;
    let machine = machine!(
        "pages_that_a_child_has_too_are_asked_for_twice_and_again_when_it_has_ended",
        16384
    );
    let mut program = machine.program(PAGES);
    let child: u32 = program.ask("fork").parse().unwrap();
    let mut host = host(within(1 << 20));
    host.add(program.application("a")).unwrap();
    settle(&mut host);
    assert_eq!(host.status().apps[0].processes, 2);
    let kept = host.counters().page_out_kept;
    assert!(kept >= 2 * PAGES, "{:?}", host.counters());

    settle(&mut host);
    // But for a few that are under way.
    let again = host.counters().page_out_kept - kept;
    assert!(again < PAGES / 10, "{again}, {:?}", host.counters());

    let pid = rustix::process::Pid::from_raw(child as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // So long after the last time they are tried again.
    std::thread::sleep(std::time::Duration::from_millis(12_100));
    settle(&mut host);
    let status = host.status();
    assert_eq!(status.apps[0].processes, 1);
    assert!(status.apps[0].swapped_bytes >= bytes(PAGES), "{status:?}");
    assert_eq!(program.damaged(), 0);
}

#[test]
fn a_full_swap_ends_page_outs_and_harms_nobody() {
    let machine = machine!("a_full_swap_ends_page_outs_and_harms_nobody", 1000);
    let mut program = machine.program(3000);
    let mut host = host(HostConfig {
        swap_reserve_bytes: bytes(100),
        ..within(1 << 20)
    });
    host.add(program.application("a")).unwrap();

    settle(&mut host);

    let counters = host.counters();
    // Other swap areas of the machine may have room; then they take the rest.
    let total = host.status().swap.total_bytes;
    if total <= bytes(1001) {
        assert!(counters.put_off_no_swap > 0, "{counters:?}");
        assert!(host.status().swap.free_bytes >= bytes(60));
    }
    assert_eq!(program.damaged(), 0);
}

#[test]
fn a_device_that_is_removed_gives_its_pages_back() {
    let mut machine = machine!("a_device_that_is_removed_gives_its_pages_back", 8192);
    let mut program = machine.program(2000);
    let mut host = host(within(1 << 20));
    let app = host.add(program.application("a")).unwrap();
    settle(&mut host);
    assert!(host.status().swap.pool_bytes > 0);

    machine.zram.take().unwrap().remove().unwrap();

    let paged_out = host.counters().page_out_done;
    settle(&mut host);
    host.switch_to(app).unwrap();
    let (major_faults, ..) = program.touch(0, 2000);
    host.launch_done(app).unwrap();
    // Where the machine has other swap, the host goes on with that.
    if host.status().swap.total_bytes == 0 {
        assert_eq!(major_faults, 0);
        assert_eq!(host.counters().page_out_done, paged_out);
    }
    assert_eq!(program.damaged(), 0);
}

#[test]
fn two_hundred_processes_are_watched() {
    let machine = machine!("two_hundred_processes_are_watched", 32768);
    let many = "read go; i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done; wait";
    let mut shell = Command::new("sh")
        .args(["-c", many])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    machine.memcg.add(shell.id()).unwrap();
    std::io::Write::write_all(shell.stdin.as_mut().unwrap(), b"go\n").unwrap();
    let mut host = host(within(1 << 20));
    let app = host
        .add(Application {
            name: "many".to_owned(),
            members: Members::Group {
                path: machine.memcg.path().to_owned(),
                without: Vec::new(),
            },
        })
        .unwrap();
    let mut found = 0;
    while found < 201 {
        found = machine.memcg.group().pids().unwrap().len();
        std::thread::yield_now();
    }

    settle(&mut host);
    host.switch_to(app).unwrap();
    host.launch_done(app).unwrap();

    let status = host.status();
    assert_eq!(status.apps[0].processes, 201);
    assert!(status.apps[0].swapped_bytes > 0, "{:?}", status.counters);
    for pid in machine.memcg.group().pids().unwrap() {
        let _ = warmswap_sys::process::Process::open(pid).and_then(|p| p.kill());
    }
    shell.wait().unwrap();
}

/// Attaches to a process as a debugger does, and lets go after a line on standard input.
const TRACER: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
ATTACH, DETACH = 16, 17
assert libc.ptrace(ATTACH, pid, None, None) == 0
os.waitpid(pid, 0)
print("attached", flush=True)
sys.stdin.readline()
libc.ptrace(DETACH, pid, None, None)
"#;

#[test]
fn a_process_under_a_tracer_is_paged_out_as_any_other() {
    let machine = machine!("a_process_under_a_tracer_is_paged_out_as_any_other", 8192);
    let mut program = machine.program(1500);
    let mut tracer = Command::new("python3")
        .args(["-c", TRACER, &program.pid().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0u8; 9];
    let output = tracer.stdout.as_mut().unwrap();
    std::io::Read::read_exact(output, &mut line).unwrap();
    assert_eq!(&line, b"attached\n");
    let mut host = host(within(1 << 20));
    host.add(program.application("a")).unwrap();

    settle(&mut host);

    assert!(
        host.counters().page_out_done >= 1200,
        "{:?}",
        host.counters()
    );
    drop(tracer.stdin.take());
    tracer.wait().unwrap();
    assert_eq!(program.damaged(), 0);
}

/// Set for a process that watches on behalf of a test, without rights.
const WATCH: &str = "WARMSWAP_TEST_WATCH_PID";

#[test]
fn a_process_that_may_not_be_touched_is_counted() {
    use std::os::unix::process::CommandExt as _;
    let name = "a_process_that_may_not_be_touched_is_counted";
    if let Ok(pid) = std::env::var(WATCH) {
        let mut host = host(within(1 << 20));
        host.add(Application {
            name: "a".to_owned(),
            members: Members::Tree {
                pid: pid.parse().unwrap(),
                start_ticks: 0,
                with_root: true,
            },
        })
        .unwrap();
        settle(&mut host);
        let status = host.status();
        assert_eq!(
            (
                status.apps[0].processes,
                status.apps[0].unreadable_processes
            ),
            (0, 1)
        );
        assert!(status.counters.refused_permission > 0);
        assert_eq!(status.counters.page_out_asked, 0);
        return;
    }
    if !warmswap_sys::is_root() {
        skip!(name, "needs root, to give it up");
    }
    // A copy that everybody may run, wherever this one lies.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    for path in [folder.path(), &copy] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
    }
    let mut target = Command::new("sleep").arg("600").spawn().unwrap();
    let output = Command::new(&copy)
        .args([name, "--exact"])
        .env(WATCH, target.id().to_string())
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    target.kill().unwrap();
    target.wait().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn pages_of_files_are_read_ahead_and_their_use_is_seen() {
    let name = "pages_of_files_are_read_ahead_and_their_use_is_seen";
    let machine = machine!(name, 16384);
    let Some((mut program, path)) = program_with_a_file(&machine) else {
        skip!(name, "{FILES_IN_MEMORY}");
    };
    let short = HostConfig {
        scheme: "asap+prefetch=footprint:profile=2".to_owned(),
        learned_folder: Some(machine.folder.path().join("learned")),
        ..short_with_room()
    };
    let mut first = host(short.clone());
    let app = first.add(program.application("a")).unwrap();
    settle(&mut first);
    // The first two launches make the profile; what misses in the third is the footprint.
    let mut major = Vec::new();
    for _ in 0..5 {
        evict(&program, &path);
        major.push(read_in_a_launch(&mut first, app, &mut program, FILE_PAGES));
    }
    let last = *first.status().apps[0].relaunches.last().unwrap();
    assert!(major[0] >= 190 && major[4] <= OTHER_FAULTS, "{major:?}");
    assert!(
        last.prefetch_used >= FILE_PAGES.end - FILE_PAGES.start,
        "{last:?}"
    );
    first.save_learned().unwrap();
    drop(first);

    // It outlasts a restart, and a launch of which nothing is learned, since memory is ample.
    let mut ample = host(HostConfig {
        goal: within(8 << 30).goal,
        ..short.clone()
    });
    let app = ample.add(program.application("a")).unwrap();
    ample.load_learned(app).unwrap();
    ample.tick();
    ample.switch_to(app).unwrap();
    ample.launch_done(app).unwrap();
    assert_eq!(ample.counters().prepage_asked, 0);
    ample.save_learned().unwrap();
    drop(ample);
    let mut last = host(short);
    let app = last.add(program.application("a")).unwrap();
    last.load_learned(app).unwrap();
    settle(&mut last);
    evict(&program, &path);
    let major = read_in_a_launch(&mut last, app, &mut program, FILE_PAGES);
    assert!(major <= OTHER_FAULTS, "{major} of 200 pages");
}

#[test]
fn pages_of_files_that_were_dropped_since_a_launch_read_them_are_read_ahead() {
    let name = "pages_of_files_that_were_dropped_since_a_launch_read_them_are_read_ahead";
    let machine = machine!(name, 16384);
    let Some((mut program, path)) = program_with_a_file(&machine) else {
        skip!(name, "{FILES_IN_MEMORY}");
    };
    let mut host = host(HostConfig {
        scheme: "asap+prefetch=footprint:profile=0,likely=60".to_owned(),
        ..short_with_room()
    });
    let app = host.add(program.application("a")).unwrap();
    settle(&mut host);
    // More than the interpreter has of its own files.
    let pages = 0..3000;
    evict(&program, &path);
    let first = read_in_a_launch(&mut host, app, &mut program, pages.clone());
    assert!(first >= 2900, "{first} of 3000 pages");
    evict(&program, &path);
    let second = read_in_a_launch(&mut host, app, &mut program, pages.clone());
    assert!(second <= OTHER_FAULTS, "{second} of 3000 pages");
    let last = *host.status().apps[0].relaunches.last().unwrap();
    assert!(last.prefetch_used >= 2900, "{last:?}");

    // Nothing was dropped, and nothing is read.
    let asked = host.counters().prepage_asked;
    let third = read_in_a_launch(&mut host, app, &mut program, pages.clone());
    assert!(third <= OTHER_FAULTS, "{third} of 3000 pages");
    assert_eq!(host.counters().prepage_asked, asked);
    evict(&program, &path);
    let fourth = read_in_a_launch(&mut host, app, &mut program, pages);
    assert!(fourth <= OTHER_FAULTS, "{fourth} of 3000 pages");
}

const FILES_IN_MEMORY: &str = "temporary files are in memory here, and are never evicted";

/// The pages that a launch reads of a file.
const FILE_PAGES: std::ops::Range<u64> = 1000..1200;

/// One launch that reads these pages of its file; major faults.
fn read_in_a_launch(
    host: &mut Host,
    app: AppId,
    program: &mut Program,
    pages: std::ops::Range<u64>,
) -> u64 {
    host.switch_to(app).unwrap();
    wait_for_prepaging(host);
    // What the interpreter itself needs for that is in memory afterwards.
    program.ask("read 0 8");
    let answer = program.ask(&format!("read {} {}", pages.start, pages.end));
    let (faults, sum) = answer.split_once(' ').unwrap();
    let expected: u64 = pages.map(|number| number % 251).sum();
    assert_eq!(sum, expected.to_string());
    host.launch_done(app).unwrap();
    host.background(app).unwrap();
    faults.parse().unwrap()
}

/// Has the kernel drop what is cached of a file that the program has mapped.
fn evict(program: &Program, path: &Path) {
    reclaim_file(program, path);
    // That takes what is mapped; this takes the others.
    let file = std::fs::File::open(path).unwrap();
    fadvise(&file, 0, None, fs::Advice::DontNeed).unwrap();
    let cached = page_cache(path).unwrap();
    let left = cached.iter().filter(|&&is_cached| is_cached).count();
    assert!(left < cached.len() / 2, "{left} pages are still cached");
}

/// Which half of a program's pages is used shows in no fault: all of them are in memory.
#[test]
fn what_is_used_without_a_fault_stays_and_what_is_not_leaves() {
    let name = "what_is_used_without_a_fault_stays_and_what_is_not_leaves";
    let machine = machine!(name, 32768);
    let (mut a, b) = (machine.program(4000), machine.program(500));
    let used = machine.memcg.stats().unwrap().usage_bytes;
    let config = within(used + bytes(500));
    let mut host = host(HostConfig {
        goal: Goal {
            group: Some(machine.memcg.path().to_owned()),
            ..config.goal
        },
        ..config
    });
    if let Some(reason) = host.status().accesses_unseen {
        skip!(name, "{reason}");
    }
    let (app_a, app_b) = (
        host.add(a.application("a")).unwrap(),
        host.add(b.application("b")).unwrap(),
    );
    settle(&mut host);
    for _ in 0..4 {
        host.switch_to(app_a).unwrap();
        a.touch(0, 2000);
        host.launch_done(app_a).unwrap();
        host.switch_to(app_b).unwrap();
        host.launch_done(app_b).unwrap();
    }
    assert_eq!(host.counters().page_out_asked, 0, "there is room for all");

    let _other = machine.program(1500);
    settle(&mut host);

    let status = host.status();
    assert!(status.apps[0].swapped_bytes > bytes(500), "{status:?}");
    let (major, _) = a.touch(0, 2000);
    // A processor that has the entry of a page at hand does not set its bit again.
    assert!(major <= 200, "{major} of 2000 pages: {:?}", host.status());
}
