use super::*;
use crate::act::Done;
use crate::act::job::{Report, Task};
use crate::act::look::Looked;
use crate::decide::{State, Stop};
use crate::see::application::Members;
use crate::testing::{Machine, target};

/// The machine has so much free memory and swap in use, in MiB.
fn set(machine: &Machine, free_mib: u64, swapped_mib: u64) {
    let kib = |mib: u64| mib << 10;
    let memory = format!(
        "MemTotal: {} kB\nMemFree: {} kB\nSwapTotal: {} kB\nSwapFree: {} kB\n",
        kib(4096),
        kib(free_mib),
        kib(1024),
        kib(1024 - swapped_mib)
    );
    machine.write("proc/meminfo", memory);
}

fn host(free_mib: u64, swapped_mib: u64) -> (Machine, Host) {
    let machine = Machine::new();
    set(&machine, free_mib, swapped_mib);
    machine.write("proc/vmstat", "pgsteal_kswapd 0\npgsteal_direct 0\n");
    let zones = "low 10\nmanaged 1000\nprotection: (0)\n";
    machine.write("proc/zoneinfo", zones);
    machine.write("proc/swaps", "Filename Type Size Used Priority\n");
    let host = Host::new(HostConfig::default(), &machine.root()).unwrap();
    (machine, host)
}

fn application(name: &str) -> Application {
    Application {
        name: name.to_owned(),
        members: Members::Executable(name.to_owned()),
    }
}

/// A program with a process of this number on a made-up machine; on this one there is none.
fn program(machine: &Machine, host: &mut Host, name: &str, id: ProcessId) {
    machine.add_process(id, 1, &format!("/bin/{name}"));
    host.add(application(name)).unwrap();
}

/// Goes on until a turn is over.
fn tick_to_the_end(host: &mut Host) {
    host.tick();
    while host.turn.is_running {
        std::thread::yield_now();
        host.tick();
    }
}

/// No process of this machine has them.
const IDS: [ProcessId; 2] = [id(0), id(1)];

const fn id(number: u32) -> ProcessId {
    ProcessId {
        pid: u32::MAX / 2 + number,
        start_ticks: 70,
    }
}

/// The process belongs to the program.
fn watch(host: &mut Host, app: usize, id: ProcessId) {
    let app = host.apps[app].as_mut().unwrap();
    app.processes.insert(id, app::Watched::default());
}

#[test]
fn numbers_are_given_out_again_and_names_are_taken_once() {
    let (_machine, mut host) = host(100, 0);
    let a = host.add(application("a")).unwrap();
    let b = host.add(application("b")).unwrap();
    assert!(matches!(
        host.add(application("a")),
        Err(HostError::NameTaken(_))
    ));
    host.switch_to(a).unwrap();
    host.remove(a).unwrap();
    assert_eq!(host.foreground, None);
    assert!(matches!(host.switch_to(a), Err(HostError::NoSuchApp(_))));
    let c = host.add(application("c")).unwrap();
    assert_eq!(c, a);
    let ids: Vec<_> = host.in_order().map(|app| app.id).collect();
    assert_eq!(ids, [b, c], "in the order in which they were added");
}

#[test]
fn what_can_wait_does_so_until_the_program_has_answered() {
    let (_machine, mut host) = host(3000, 0);
    let [a, b] = ["a", "b"].map(|name| host.add(application(name)).unwrap());
    host.tick();
    assert!(!host.pace.is_launch(), "nothing was switched to");
    host.switch_to(a).unwrap();
    assert!(host.pace.is_launch());
    host.launch_done(a).unwrap();
    assert!(!host.pace.is_launch(), "it answered");
    host.switch_to(b).unwrap();
    host.background(b).unwrap();
    assert!(!host.pace.is_launch(), "it went");
    // One that never answers and never rests is not waited for.
    host.switch_to(b).unwrap();
    let at = usize::from(b.0);
    let window = host.apps[at].as_mut().unwrap().window.as_mut().unwrap();
    window.begin_ns -= 1_000_000_000;
    host.launch_done(a).unwrap();
    assert!(host.apps[at].as_ref().unwrap().window.is_some());
    assert!(!host.pace.is_launch());
}

#[test]
fn it_is_watchful_while_there_is_something_to_bring_back() {
    let (machine, mut host) = host(3000, 0);
    host.tick();
    let at_rest = host.tick();
    assert_eq!(host.status().state, State::Rest);
    // Swap is used: nothing is known to be away of no programs.
    set(&machine, 10, 500);
    let busy = host.tick();
    assert!(busy.wait < at_rest.wait, "{busy:?} {at_rest:?}");
    assert!(host.turn.is_due);
    assert_eq!(host.status().state, State::Rest, "nothing is free");
    set(&machine, 3000, 500);
    host.tick();
    assert_eq!(host.status().state, State::Calm);
    assert!(!host.turn.is_due, "there is no program");
}

#[test]
fn a_host_that_must_not_bring_back_has_nothing_to_do() {
    let (machine, mut host) = host(3000, 500);
    host.config.bring_back = false;
    program(&machine, &mut host, "a", IDS[0]);
    for _ in 0..2 {
        let tick = host.tick();
        assert_eq!(tick.wait, step::AT_REST);
    }
    assert_eq!(host.status().state, State::Rest);
    assert_eq!(host.counters().turns, 0);
}

#[test]
fn a_turn_that_was_stopped_is_tried_again_later() {
    let (machine, mut host) = host(3000, 500);
    program(&machine, &mut host, "a", IDS[0]);
    host.turn.is_running = true;
    host.finished(Some(Stop::Pressure), Costs::default(), None);
    assert!(host.turn.is_due && !host.turn.is_running);
    host.tick();
    assert_eq!(host.counters().turns, 0, "not at once");
    assert_eq!(host.counters().stopped_short, 1);
    host.turn.stopped_ns = Some(0);
    host.tick();
    assert_eq!(host.counters().turns, 1);
    host.finished(None, Costs::default(), None);
    assert!(host.turn.stopped_ns.is_none());
}

#[test]
fn processes_of_a_full_group_are_tried_again_later_and_alone() {
    let (machine, mut host) = host(3000, 500);
    program(&machine, &mut host, "a", IDS[0]);
    program(&machine, &mut host, "b", IDS[1]);
    tick_to_the_end(&mut host);
    assert_eq!(host.counters().turns, 1);
    let held = host.apps[1].as_ref().unwrap().targets().remove(0);
    host.take_in(Report::Held(held));
    host.finished(None, Costs::default(), Some(500 << 20));
    assert!(!host.turn.is_due, "the others are done");
    host.tick();
    assert_eq!(host.turn.waiting.len(), 1, "not at once");
    assert_eq!(host.status().state, State::Calm);

    host.turn.stopped_ns = Some(0);
    host.tick();

    assert!(host.turn.is_running && host.turn.waiting.is_empty());
    assert_eq!(host.counters().turns, 1, "nothing else is looked at");
}

#[test]
fn a_process_that_ended_or_is_another_programs_does_not_wait() {
    let (machine, mut host) = host(3000, 500);
    program(&machine, &mut host, "a", IDS[0]);
    program(&machine, &mut host, "b", IDS[1]);
    tick_to_the_end(&mut host);
    let [a, b] = [0, 1].map(|at| host.apps[at].as_ref().unwrap().targets().remove(0));
    // The number of a program that was removed is given out again.
    let other = crate::act::Target {
        memory: Arc::default(),
        ..a.clone()
    };
    host.turn.waiting = vec![a.clone(), b, other];
    host.apps[1] = None;
    host.forget_gone();
    let left: Vec<_> = host.turn.waiting.iter().map(|target| target.id).collect();
    assert_eq!(left, [a.id]);
    assert!(Arc::ptr_eq(&host.turn.waiting[0].memory, &a.memory));
}

#[test]
fn what_the_host_takes_itself_does_not_raise_its_reserve() {
    const MIB: u64 = 1 << 20;
    let (machine, mut host) = host(3000, 500);
    host.tick();
    let least = host.machine.reserve_bytes();
    // It goes on with one process, and told of none.
    host.pace.brought(200 * MIB);
    set(&machine, 2800, 300);
    host.tick();
    assert_eq!(host.machine.reserve_bytes(), least);
    set(&machine, 2600, 300);
    host.tick();
    assert_eq!(
        host.machine.reserve_bytes(),
        200 * MIB,
        "programs took that"
    );
}

#[test]
fn a_new_process_is_looked_at_alone() {
    let (machine, mut host) = host(3000, 500);
    program(&machine, &mut host, "a", IDS[0]);
    tick_to_the_end(&mut host);
    assert_eq!(host.counters().turns, 1);
    let gone = host.counters().process_gone;
    program(&machine, &mut host, "b", IDS[1]);

    tick_to_the_end(&mut host);

    assert_eq!(host.counters().process_gone, gone + 1, "one was looked at");
    assert_eq!(host.counters().turns, 1);
}

#[test]
fn pages_of_a_process_that_pages_itself_are_left_to_it() {
    let (machine, mut host) = host(3000, 500);
    program(&machine, &mut host, "a", IDS[0]);
    program(&machine, &mut host, "b", IDS[1]);
    // Before it was found, and after that.
    host.leave_to_itself(IDS[0]);
    for _ in 0..2 {
        tick_to_the_end(&mut host);
        host.turn.is_due = true;
    }
    assert_eq!(host.processes(AppId(0)).unwrap(), [IDS[0]], "it is known");
    let looked_at = host.counters().process_gone;
    host.leave_to_itself(IDS[1]);
    tick_to_the_end(&mut host);
    assert_eq!(
        host.counters().process_gone,
        looked_at,
        "neither was looked at"
    );
}

#[test]
fn what_came_back_is_told_in_one_line_of_numbers() {
    let (_machine, mut host) = host(3000, 0);
    host.add(application("a")).unwrap();
    for _ in 0..2 {
        let done = Done {
            private_pages: 100,
            file_pages: 28,
            ..Done::default()
        };
        let elapsed = Duration::from_millis(3);
        host.take_in(Report::Brought {
            target: target(IDS[0].pid, IDS[0].start_ticks),
            done,
            elapsed,
        });
    }
    let judged = crate::learn::Judged {
        used: 90,
        wasted: 10,
    };
    let looked = Looked {
        judged,
        ..Looked::default()
    };
    host.take_in(Report::Judged { app: 0, looked });

    let expected = GivenBack {
        bytes: 256 * 4096,
        programs: 1,
        idle_ns: 6_000_000,
        judged_pages: 100,
        used_pages: 90,
        opened_bytes: 0,
    };
    let status = host.status();
    assert_eq!(status.given_back, expected);
    let app = &status.apps[0];
    assert_eq!(
        (app.prefetched, app.prefetch_used, app.prefetch_wasted),
        (256, 90, 10)
    );
    assert_eq!(status.counters.brought_file_pages, 56);
}

#[test]
fn a_process_that_does_not_answer_is_named_once_and_left_alone() {
    let (machine, mut host) = host(3000, 0);
    let app = usize::from(host.add(application("a")).unwrap().0);
    let id = IDS[0];
    watch(&mut host, app, id);

    host.leave_alone(id);

    let folder = machine.path(&format!("proc/{}", id.pid));
    assert!(!folder.exists(), "this machine does not know it");
    let status = host.status();
    assert_eq!(status.unanswering[0].name, "?");
    assert_eq!(status.unanswering[0].pid, id.pid);
    assert_eq!(status.counters.process_unanswering, 1);
    let app = &status.apps[0];
    assert_eq!((app.processes, app.unreadable_processes), (0, 1));
}

#[test]
fn a_later_process_of_its_number_answers() {
    let (machine, mut host) = host(3000, 0);
    let id = IDS[0];
    host.leave_alone(id);
    let folder = machine.path(&format!("proc/{}", id.pid));
    std::fs::create_dir_all(&folder).unwrap();
    for (start_ticks, unanswering) in [(id.start_ticks, 1), (id.start_ticks + 1, 0)] {
        let line = format!("1 (p) S 1 1 5 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {start_ticks} 0 0 0\n");
        std::fs::write(folder.join("stat"), line).unwrap();
        host.find_processes(0);
        assert_eq!(host.status().unanswering.len(), unanswering);
    }
}

#[test]
fn a_process_that_is_left_alone_is_so_in_another_program() {
    let (machine, mut host) = host(3000, 0);
    program(&machine, &mut host, "a", IDS[0]);
    host.tick();
    let id = host.processes(AppId(0)).unwrap()[0];
    host.leave_alone(id);
    host.remove(AppId(0)).unwrap();
    host.add(application("a")).unwrap();

    host.tick();

    let app = &host.status().apps[0];
    assert_eq!((app.processes, app.unreadable_processes), (0, 1));
    assert_eq!(host.status().unanswering.len(), 1);
}

#[test]
fn relaunches_are_remembered_and_a_first_start_is_none() {
    let (_machine, mut host) = host(3000, 0);
    let app = host.add(application("a")).unwrap();
    host.switch_to(app).unwrap();
    host.launch_done(app).unwrap();
    assert_eq!(host.status().apps[0].relaunch_count, 0, "it did not run");
    watch(&mut host, usize::from(app.0), IDS[0]);
    for _ in 0..20 {
        host.switch_to(app).unwrap();
        host.launch_done(app).unwrap();
        host.background(app).unwrap();
    }
    let status = &host.status().apps[0];
    assert_eq!((status.relaunch_count, status.relaunches.len()), (20, 16));
    assert!(
        status
            .relaunches
            .iter()
            .all(|relaunch| relaunch.is_answered)
    );
    assert!(!status.is_launching && !status.is_foreground);
}

#[test]
fn the_end_of_a_session_is_looked_at_when_the_switch_is_over() {
    let (_machine, mut host) = host(3000, 0);
    let [first, second] = ["a", "b"].map(|name| host.add(application(name)).unwrap());
    host.switch_to(first).unwrap();
    host.switch_to(second).unwrap();
    host.launch_done(second).unwrap();
    host.tick();
    assert_eq!(host.ended, [0], "the program in front has the processors");
    host.switch_to(first).unwrap();
    assert_eq!(host.ended, [1], "a session that goes on has not ended");
    host.launch_done(first).unwrap();
    host.switched_ns = host.switched_ns.map(|at| at - 2_000_000_000);
    host.tick();
    assert!(host.ended.is_empty());
}

#[test]
fn nothing_is_asked_of_a_kernel_that_reads_nothing_ahead() {
    let (_machine, mut host) = host(3000, 0);
    host.tick();
    for refused in [None, Some("an old kernel".to_owned())] {
        let may = refused.is_none();
        host.read_ahead_refused.clone_from(&refused);
        let begin = host.begin_task().unwrap();
        assert!(matches!(begin, Task::Begin { may_fetch, .. } if may_fetch == may));
        let bring = host.bring_task().unwrap();
        assert!(matches!(bring, Task::Bring { may_ask, .. } if may_ask == may));
        assert_eq!(host.status().read_ahead_refused, refused);
    }
}

#[test]
fn what_leaves_after_more_came_back_is_looked_for() {
    let (machine, mut host) = host(3000, 500);
    program(&machine, &mut host, "a", IDS[0]);
    for (swapped_mib, turns) in [(500, 1), (100, 1), (200, 2)] {
        set(&machine, 3000, swapped_mib);
        tick_to_the_end(&mut host);
        assert_eq!(host.counters().turns, turns, "{swapped_mib} MiB");
    }
}

#[test]
fn a_step_does_not_wait_for_the_threads() {
    let (machine, mut host) = host(3000, 500);
    program(&machine, &mut host, "a", IDS[0]);
    // A turn that never ends.
    host.turn.is_running = true;
    host.tick();
    assert!(!host.turn.is_due, "it is about what is in swap");
    host.turn.is_due = true;
    for _ in 0..100 {
        host.tick();
    }
    assert_eq!(host.counters().turns, 0, "one at a time");
    host.turn.is_running = false;
    host.tick();
    assert_eq!(host.counters().turns, 1);
}
