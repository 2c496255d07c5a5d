//! A host over real processes, on swap and in a control group of our own.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{
    Machine, Program, Room, Swap, WRITES_NOTHING_BACK, machine_with, program_with_a_file,
    reclaim_file, tick_for, tick_until,
};
use warmswap_kernel::act::Target;
use warmswap_kernel::act::ahead::Ahead;
use warmswap_kernel::act::brake::{Brake, Groups};
use warmswap_kernel::act::worker::Beat;
use warmswap_kernel::application::ProcessId;
use warmswap_kernel::decide::switch::Cost;
use warmswap_kernel::decide::{Seen, State};
use warmswap_kernel::see::bounds;
use warmswap_kernel::{AppId, Application, Host, HostConfig, Members};
use warmswap_sys::Root;
use warmswap_sys::process::{Process, Stat};
use warmswap_sys::smaps;
use warmswap_testkit::{excuse, skip};

/// Sets the machine up, or skips the test.
macro_rules! machine {
    ($name:expr, $swap:expr) => {
        match Machine::set_up($name, $swap, SWAP_PAGES) {
            Ok(machine) => machine,
            Err(reason) if reason == WRITES_NOTHING_BACK => excuse!($name, "{reason}"),
            Err(reason) => skip!($name, "{reason}"),
        }
    };
}

const SWAP_PAGES: u64 = 65536;

/// Pages of a program, and of what pushes it out; the group has room for half of that.
const PAGES: u64 = 6000;
const HOG_PAGES: u64 = 16000;
const ROOM: u64 = 8000;

/// Major faults that a program may take beside those that are counted: pages of its files.
const OTHER_FAULTS: u64 = 16;

fn host(config: HostConfig) -> Host {
    Host::new(config, &Root::machine()).expect("a host")
}

/// Reads ahead at switches alone.
fn not_bringing_back() -> HostConfig {
    HostConfig {
        bring_back: false,
        ..HostConfig::default()
    }
}

fn add(host: &mut Host, program: &Program, name: &str) -> AppId {
    host.add(program.application(name)).expect("a name")
}

/// Pushes a program out by a hog that stays.
fn push_out(machine: &Machine, program: &Program) -> Program {
    let hog = machine.hog(HOG_PAGES, ROOM);
    let swapped = program.swapped_pages();
    assert!(swapped > PAGES / 4, "{swapped} of {PAGES} pages left");
    hog
}

fn comes_back(name: &str, swap: Swap) {
    let machine = machine!(name, swap);
    let mut program = machine.program(PAGES);
    let hog = push_out(&machine, &program);
    let mut host = host(HostConfig::default());
    add(&mut host, &program, "a");
    let away = program.swapped_pages();

    tick_for(&mut host, 50);
    let counters = host.counters();
    assert_eq!(counters.brought_pages, 0, "the hog stays: {counters:?}");
    assert!(program.swapped_pages() + 100 >= away);
    drop(hog);
    tick_until(&mut host, "all pages come back", |host| {
        program.swapped_pages() == 0 && host.status().given_back.programs == 1
    });

    let major = program.touch(0, PAGES);
    assert!(major <= OTHER_FAULTS, "{major} major faults");
    assert_eq!(program.damaged(), 0);
    let status = host.status();
    let given = status.given_back;
    assert!(
        given.bytes >= PAGES / 4 * 4096 && given.programs == 1,
        "{given:?}"
    );
    assert!(given.idle_ns > 0 && status.counters.bring_cpu_ns > 0);
    assert_eq!(status.apps[0].swapped_bytes, 0);
}

#[test]
fn all_pages_come_back_from_zram_when_a_hog_has_ended_and_none_before() {
    comes_back(
        "all_pages_come_back_from_zram_when_a_hog_has_ended_and_none_before",
        Swap::Zram,
    );
}

#[test]
fn all_pages_come_back_from_a_swap_file_when_a_hog_has_ended_and_none_before() {
    comes_back(
        "all_pages_come_back_from_a_swap_file_when_a_hog_has_ended_and_none_before",
        Swap::File,
    );
}

#[test]
fn pages_come_back_where_cache_that_nothing_uses_fills_the_memory() {
    let name = "pages_come_back_where_cache_that_nothing_uses_fills_the_memory";
    let machine = machine!(name, Swap::Zram);
    let mut program = machine.program(PAGES);
    drop(push_out(&machine, &program));
    for (idle_file_kib, is_back) in [(1024, false), (256 << 10, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let room = Room {
            idle_file_kib,
            ..Room::default()
        };
        let root = machine_with(folder.path(), room);
        let mut host = Host::new(HostConfig::default(), &root).expect("a host");
        add(&mut host, &program, "a");
        if is_back {
            tick_until(&mut host, "it comes back", |_| program.swapped_pages() == 0);
        } else {
            tick_for(&mut host, 100);
            assert_eq!(host.counters().brought_pages, 0);
        }
    }
    assert_eq!(program.damaged(), 0);
}

#[test]
fn pages_come_back_where_cache_that_nothing_uses_fills_a_group() {
    let name = "pages_come_back_where_cache_that_nothing_uses_fills_a_group";
    let machine = machine!(name, Swap::File);
    let mut program = machine.program(PAGES);
    drop(machine.hog(2 * HOG_PAGES, 3 * ROOM));
    let away = program.swapped_pages();
    assert!(away > PAGES / 4, "{away} of {PAGES} pages left");
    if !machine.fill_with_cache() {
        skip!(name, "temporary files are in memory here");
    }
    let mut host = host(HostConfig::default());
    add(&mut host, &program, "a");

    tick_until(&mut host, "it comes back", |_| program.swapped_pages() == 0);

    assert_eq!(program.damaged(), 0);
}

#[test]
fn shared_memory_comes_back() {
    let machine = machine!("shared_memory_comes_back", Swap::Zram);
    let mut program = machine.program(500);
    assert_eq!(program.ask("share"), "shared");
    let mut other = machine.program(PAGES);
    drop(machine.hog(HOG_PAGES, ROOM / 2));
    let swapped = |program: &Program| {
        let areas = smaps::read(&Root::machine(), program.pid()).expect("it runs");
        let shared = areas.iter().filter(|area| area.mapping.shared);
        shared.map(|area| area.swapped_bytes / 4096).sum::<u64>()
    };
    assert!(swapped(&program) > 100, "{}", swapped(&program));
    let mut host = host(HostConfig::default());
    add(&mut host, &program, "a");

    tick_until(&mut host, "shared memory comes back", |host| {
        swapped(&program) == 0 && host.counters().brought_shared_pages > 100
    });

    let major = program.number("touch-shared");
    assert!(major <= OTHER_FAULTS, "{major} major faults");
    assert_eq!(program.ask("check-shared"), "True");
    assert_eq!(other.damaged(), 0);
}

#[test]
fn a_stopped_program_is_left_alone_and_others_come_back() {
    let name = "a_stopped_program_is_left_alone_and_others_come_back";
    let machine = machine!(name, Swap::Zram);
    let (mut stopped, other) = (machine.program(PAGES), machine.program(PAGES));
    drop(machine.hog(HOG_PAGES, ROOM / 2));
    let process = Process::open(stopped.pid()).expect("it runs");
    process.stop().expect("it stops");
    // On a busy machine it takes the signal later.
    while Stat::read(&Root::machine(), stopped.pid())
        .expect("it runs")
        .state
        != 'T'
    {
        std::thread::yield_now();
    }
    let away = stopped.swapped_pages();
    assert!(away > 100 && other.swapped_pages() > 100);
    let mut host = host(HostConfig::default());
    add(&mut host, &stopped, "stopped");
    add(&mut host, &other, "other");

    tick_until(&mut host, "the other comes back", |_| {
        other.swapped_pages() == 0
    });

    assert_eq!(stopped.swapped_pages(), away);
    process.resume().expect("it goes on");
    assert_eq!(stopped.damaged(), 0);
}

#[test]
fn memory_whose_faults_a_program_resolves_is_left_alone() {
    let name = "memory_whose_faults_a_program_resolves_is_left_alone";
    let machine = machine!(name, Swap::Zram);
    let mut program = machine.program(PAGES);
    if program.ask("uffd") != "registered" {
        skip!(name, "userfaultfd is not to be had");
    }
    let mut other = machine.program(PAGES);
    drop(machine.hog(HOG_PAGES, ROOM / 2));
    let away = program.swapped_pages();
    assert!(away > PAGES / 4, "{away}");
    let mut host = host(HostConfig::default());
    add(&mut host, &program, "a");
    add(&mut host, &other, "b");

    tick_until(&mut host, "the other comes back", |host| {
        other.swapped_pages() == 0 && host.counters().skipped_regions > 0
    });

    assert!(
        program.swapped_pages() > PAGES / 8,
        "only what is its interpreter's came back"
    );
    assert_eq!((program.damaged(), other.damaged()), (0, 0));
}

/// One session of a program that touches nothing, and whose end was judged.
fn idle_session(host: &mut Host, app: AppId) {
    let judged = |host: &Host| host.counters().used_pages + host.counters().wasted_pages;
    let before = judged(host);
    host.switch_to(app).expect("it is known");
    host.background(app).expect("it is known");
    tick_until(host, "the session is judged", |host| judged(host) > before);
}

#[test]
fn what_came_back_in_vain_twice_stays_away() {
    let machine = machine!("what_came_back_in_vain_twice_stays_away", Swap::Zram);
    let mut program = machine.program(PAGES);
    let mut host = host(HostConfig::default());
    let app = add(&mut host, &program, "a");
    let mut away = 0;
    for _ in 0..2 {
        drop(push_out(&machine, &program));
        away += program.swapped_pages();
        // What came back is told at the end of a process's turn, and only then looked for in the next session.
        tick_until(&mut host, "it comes back", |host| {
            let brought = host.counters().brought_pages;
            program.swapped_pages() == 0 && brought + PAGES / 16 >= away
        });
        idle_session(&mut host, app);
    }
    let counters = host.counters();
    assert!(counters.wasted_pages > away / 2, "{away}: {counters:?}");

    drop(push_out(&machine, &program));
    // A turn counts what it leaves away; other pages than before left, of which some were never judged.
    tick_until(&mut host, "it is cold", |host| {
        host.counters().cold_pages > PAGES / 8
    });

    assert!(program.swapped_pages() > PAGES / 8);
    assert!(host.status().apps[0].cold_bytes > 0);
    assert_eq!(program.damaged(), 0);
}

#[test]
fn what_launches_touch_is_learned_and_survives_a_restart() {
    let name = "what_launches_touch_is_learned_and_survives_a_restart";
    let machine = machine!(name, Swap::Zram);
    let mut program = machine.program(PAGES);
    let config = HostConfig {
        bring_back: false,
        prefetch: false,
        learned_folder: Some(machine.folder.path().join("learned")),
        ..HostConfig::default()
    };
    let mut first = host(config.clone());
    let app = add(&mut first, &program, "a");
    drop(push_out(&machine, &program));
    first.tick();
    first.switch_to(app).expect("it is known");
    // The look at what is away is over when the next job is.
    let spent = |host: &Host| host.counters().bring_cpu_ns;
    tick_until(&mut first, "what is away is noted", |host| spent(host) > 0);
    program.touch(0, PAGES);
    first.launch_done(app).expect("it is known");
    tick_until(&mut first, "the launch is learned", |host| {
        host.status().apps[0].hot_bytes > 0
    });
    let hot = first.status().apps[0].hot_bytes;
    first.save_learned().expect("a folder");
    drop(first);

    let mut second = host(config);
    let app = add(&mut second, &program, "a");
    second.load_learned(app).expect("what was saved");
    second.tick();

    assert!(hot >= 100 * 4096, "{hot}");
    let again = second.status().apps[0].hot_bytes;
    assert!(again >= hot.min(100 * 4096), "{again} of {hot}");
}

#[test]
fn cold_pages_go_from_zram_to_its_disk_and_what_launches_touch_stays() {
    let name = "cold_pages_go_from_zram_to_its_disk_and_what_launches_touch_stays";
    let machine = machine!(name, Swap::ZramAndDisk);
    let mut program = machine.program(PAGES);
    let mut host = host(HostConfig {
        prefetch: false,
        ..not_bringing_back()
    });
    let app = add(&mut host, &program, "a");
    let hog = push_out(&machine, &program);
    host.tick();
    for _ in 0..2 {
        host.switch_to(app).expect("it is known");
        looked(&mut host, "what is away is noted");
        program.touch(0, USED_PAGES);
        host.launch_done(app).expect("it is known");
        host.background(app).expect("it is known");
        // The end of a session is looked at a second later, or not at all where the program comes back before.
        tick_for(&mut host, 60);
    }
    drop(hog);
    let _hog = push_out(&machine, &program);

    tick_until(&mut host, "cold pages are written back", |host| {
        host.counters().written_back_pages > 0
    });
    let counters = host.counters();
    let written = counters.written_back_pages;
    assert!(written > PAGES / 8, "{written} of {PAGES}");
    assert_eq!(counters.write_back_refused, 0);

    let major = program.touch(0, USED_PAGES);
    assert!(major > USED_PAGES / 4, "{major} major faults");
    assert_eq!(machine.disk_reads(), 0, "what launches touch is in memory");
    assert_eq!(program.damaged(), 0);
    let read = machine.disk_reads();
    assert!(read > written / 2, "{read} of {written}");
}

/// Pages that each session of a program uses.
const USED_PAGES: u64 = 600;

#[test]
fn a_switch_reads_ahead_from_a_disk_where_memory_is_free() {
    let name = "a_switch_reads_ahead_from_a_disk_where_memory_is_free";
    let machine = machine!(name, Swap::File);
    let mut program = machine.program(PAGES);
    let mut host = host(not_bringing_back());
    let app = add(&mut host, &program, "a");
    let hog = push_out(&machine, &program);
    host.tick();
    drop(hog);
    let away = program.swapped_pages();
    // The machine is looked at anew.
    tick_for(&mut host, 1);

    host.switch_to(app).expect("it is known");

    tick_until(&mut host, "it is asked for", |host| {
        host.counters().switch_pages > 0
    });
    assert!(host.counters().switch_pages >= away / 2, "{away}");
    // The reads are asynchronous: those under way are waited for in a fault, and are no reads of its own.
    tick_for(&mut host, 25);
    let major = program.touch(0, PAGES);
    assert!(major <= away / 4, "{major} major faults of {away}");
    assert_eq!(program.damaged(), 0);
}

/// Waits until a thread of the host has looked at a process.
fn looked(host: &mut Host, what: &str) {
    let before = host.counters().bring_cpu_ns;
    tick_until(host, what, |host| host.counters().bring_cpu_ns > before);
    tick_for(host, 10);
}

/// Has a host know the launch of a program, and switches to it when its group has room for few pages; how many were asked for.
fn switch_while_short(machine: &Machine) -> u64 {
    let mut program = machine.program(PAGES);
    let mut host = host(not_bringing_back());
    let app = add(&mut host, &program, "a");
    host.tick();
    drop(push_out(machine, &program));
    host.switch_to(app).expect("it is known");
    looked(&mut host, "what is away is noted");
    program.touch(0, PAGES);
    host.launch_done(app).expect("it is known");
    tick_until(&mut host, "the launch is learned", |host| {
        host.status().apps[0].hot_bytes > 0
    });
    host.background(app).expect("it is known");
    looked(&mut host, "the session is judged");
    let _hog = push_out(machine, &program);
    // Less than a 64th of the limit, which is kept.
    let group = machine.memcg.group();
    let limit = group.usage_bytes().expect("a group") + FEW_PAGES * 4096;
    machine.memcg.limit(Some(limit)).expect("a limit");
    let before = host.counters().switch_pages;

    host.switch_to(app).expect("it is known");
    looked(&mut host, "the switch is looked at");

    host.counters().switch_pages - before
}

const FEW_PAGES: u64 = 100;

#[test]
fn a_switch_reads_nothing_from_zram_while_memory_is_short() {
    let name = "a_switch_reads_nothing_from_zram_while_memory_is_short";
    let machine = machine!(name, Swap::Zram);
    assert_eq!(switch_while_short(&machine), 0);
}

#[test]
fn a_switch_reads_from_a_disk_what_launches_touch_while_memory_is_short() {
    let name = "a_switch_reads_from_a_disk_what_launches_touch_while_memory_is_short";
    let machine = machine!(name, Swap::File);
    let pages = switch_while_short(&machine);
    assert!((1..=FEW_PAGES).contains(&pages), "{pages}");
}

#[test]
fn processes_of_one_program_share_what_is_free_at_a_switch() {
    let name = "processes_of_one_program_share_what_is_free_at_a_switch";
    let machine = machine!(name, Swap::File);
    let programs = [machine.program(PAGES), machine.program(PAGES)];
    drop(machine.hog(HOG_PAGES, ROOM / 2));
    let away = programs.each_ref().map(Program::swapped_pages);
    assert!(away.iter().all(|&pages| pages > PAGES / 8), "{away:?}");
    // A machine that has room for the pages of one beyond its reserve, by what it says.
    let room_kib = away[0].max(away[1]) * 4 + 1024;
    let folder = tempfile::tempdir().expect("a folder");
    let room = Room {
        free_kib: room_kib,
        ..Room::default()
    };
    let root = machine_with(folder.path(), room);
    let mut host = Host::new(not_bringing_back(), &root).expect("a host");
    let group = machine.memcg.path().file_name().expect("a name");
    let application = Application {
        name: "a".to_owned(),
        members: Members::Group {
            path: Path::new("/").join(group),
            without: Vec::new(),
        },
    };
    let app = host.add(application).expect("a name");
    tick_until(&mut host, "they are found", |host| {
        host.processes(app).is_ok_and(|found| found.len() == 2)
    });

    host.switch_to(app).expect("it is known");

    tick_until(&mut host, "it is asked for", |host| {
        host.counters().switch_pages > 0
    });
    tick_for(&mut host, 25);
    let asked = host.counters().switch_pages;
    assert!(asked <= room_kib / 4, "{asked} of {away:?}");
}

#[test]
fn a_switch_stops_at_the_first_sign_of_pressure() {
    let name = "a_switch_stops_at_the_first_sign_of_pressure";
    let machine = machine!(name, Swap::File);
    let program = machine.program(PAGES);
    drop(push_out(&machine, &program));
    let root = Root::machine();
    let pid = program.pid();
    let start_ticks = Stat::read(&root, pid).expect("it runs").start_ticks;
    let target = Target {
        app: 0,
        id: ProcessId { pid, start_ticks },
        user: None,
        memory: Arc::default(),
        held_by: None,
    };
    let now = bounds::brief(&root).expect("a machine");
    let ask = |begin: Seen| {
        let (beat, mut groups) = (Beat::default(), Groups::default());
        let mut ahead = Ahead {
            root: &root,
            brake: Brake::new(&root, &beat, &mut groups, begin, 0),
            state: State::Rest,
            room_bytes: begin.room_bytes(0),
            free_bytes: begin.room_bytes(0),
            disk: Cost::DISK,
            writes_back: false,
        };
        ahead.begin(&target, true).expect("it runs")
    };
    let reclaimed = Seen {
        reclaims: now.reclaims.wrapping_sub(1),
        losses: now.losses.wrapping_sub(1),
        ..now
    };
    assert_eq!(ask(reclaimed), 0);
    let asked = ask(now);
    assert!(asked > PAGES / 8, "{asked}");
}

#[test]
fn dropped_pages_of_files_come_back() {
    let machine = machine!("dropped_pages_of_files_come_back", Swap::Zram);
    let Some((mut program, path)) = program_with_a_file(&machine) else {
        skip!(
            "dropped_pages_of_files_come_back",
            "temporary files are in memory here"
        );
    };
    let mut host = host(HostConfig::default());
    let app = add(&mut host, &program, "a");
    host.switch_to(app).expect("it is known");
    program.ask("read 0 2000");
    host.background(app).expect("it is known");
    // A second after the switch the session is looked at.
    tick_for(&mut host, 100);
    reclaim_file(&program, &path);
    let file = std::fs::File::open(&path).expect("it is there");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it is a file");

    // More in swap makes it look again.
    let other = machine.program(PAGES);
    drop(push_out(&machine, &other));
    tick_until(&mut host, "its pages come back", |host| {
        host.counters().brought_file_pages >= 1900
    });
    // What was in memory of the file and not mapped comes back without being mapped.
    if host.status().openings_unseen.is_none() {
        tick_until(&mut host, "the others come back", |host| {
            host.counters().brought_opened_pages >= 2000
        });
    }

    let major = program.number("read 0 2000");
    assert!(major <= 50, "{major} major faults");
}

#[test]
fn files_that_no_process_has_mapped_come_back_when_they_were_opened_again() {
    let name = "files_that_no_process_has_mapped_come_back_when_they_were_opened_again";
    let machine = machine!(name, Swap::Zram);
    let program = machine.program(PAGES);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("it is there");
    let path = folder.path().join("file");
    std::fs::write(&path, vec![7; 2000 * 4096]).expect("it can be written");
    let file = std::fs::File::open(&path).expect("it is there");
    file.sync_all().expect("it can be written");
    let mut host = host(HostConfig::default());
    if let Some(why) = host.status().openings_unseen {
        skip!(
            name,
            "the kernel does not tell which files are opened: {why}"
        );
    }
    let app = add(&mut host, &program, "a");
    for _ in 0..3 {
        host.switch_to(app).expect("it is known");
        let mut command = std::process::Command::new("cat");
        let status = command
            .arg(&path)
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.expect("cat is there").success());
        host.background(app).expect("it is known");
        // A second after the switch the files are looked at.
        tick_for(&mut host, 100);
    }
    drop(push_out(&machine, &program));
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it is a file");
    tick_until(&mut host, "its pages come back", |host| {
        host.counters().brought_opened_pages >= 2000
    });
}

#[test]
fn programs_that_end_or_execute_another_meanwhile_do_no_harm() {
    let name = "programs_that_end_or_execute_another_meanwhile_do_no_harm";
    let machine = machine!(name, Swap::Zram);
    let (mut ends, mut executes) = (machine.program(PAGES), machine.program(PAGES));
    let (mut forks, other) = (machine.program(PAGES), machine.program(PAGES));
    drop(machine.hog(HOG_PAGES, ROOM / 2));
    let mut host = host(HostConfig::default());
    for (program, name) in [(&ends, "a"), (&executes, "b"), (&forks, "c"), (&other, "d")] {
        add(&mut host, program, name);
    }
    host.tick();
    ends.kill();
    assert_eq!(executes.ask("exec"), "ready");
    let child = forks.number("fork") as u32;

    tick_until(&mut host, "the others come back", |_| {
        [&executes, &forks, &other]
            .iter()
            .all(|program| program.swapped_pages() == 0)
    });

    assert_eq!((executes.damaged(), forks.damaged()), (0, 0));
    let process = Process::open(child).expect("it runs");
    process.kill().expect("it runs");
}
