use std::path::PathBuf;

use super::*;
use crate::testing::{Machine, target};

fn worker_on(root: &Root) -> Worker {
    Worker::start(root, Priority::Low, &Arc::default()).unwrap()
}

fn worker() -> Worker {
    worker_on(&Root::machine())
}

/// A machine on which this process does not answer before it is let go: nothing has written to the pipe that is its status.
struct Stuck {
    machine: Machine,
    pipe: PathBuf,
}

impl Stuck {
    fn new() -> Self {
        let machine = free_machine();
        let folder = machine.path(&format!("proc/{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let pipe = folder.join("stat");
        let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        Self { machine, pipe }
    }

    fn worker(&self) -> Worker {
        worker_on(&self.machine.root())
    }

    /// The next thread that waits for the process goes on.
    fn let_go(&self) {
        std::fs::write(&self.pipe, "x").unwrap();
    }
}

/// A machine with control groups and much free memory.
fn free_machine() -> Machine {
    let machine = Machine::with_groups();
    machine.set_memory(2048, 0);
    machine
}

/// This process as one that began then.
fn stuck_target(start_ticks: u64) -> Target {
    target(std::process::id(), start_ticks)
}

/// A process that has ended.
fn gone_target(number: u32) -> Target {
    target(u32::MAX / 2 + number, 1)
}

fn bring(targets: Vec<Target>) -> Job {
    bring_at(Costs::default(), targets)
}

fn bring_at(costs: Costs, targets: Vec<Target>) -> Job {
    let task = Task::Bring {
        machine: Seen::default(),
        reserve_bytes: 0,
        may_ask: true,
        costs,
    };
    Job::new(task, targets)
}

/// Waits until the thread waits for a process, and gives it up if it may.
fn give_up(worker: &mut Worker) -> Option<ProcessId> {
    let waits = |beat: &Beat| {
        let thread = beat.thread.load(Ordering::Relaxed);
        beat.process().is_some() && thread != 0 && sleeps(thread)
    };
    while !waits(&worker.beat) {
        std::thread::yield_now();
    }
    let begin = Instant::now();
    assert_eq!(worker.unstick_at(begin), None, "it began just now");
    worker.unstick_at(begin + worker.priority.deadline())
}

/// What a worker tells.
#[derive(Default)]
struct Told {
    brought: u32,
    gone: u32,
    held: Vec<Target>,
    costs: Costs,
}

/// Takes in what a worker tells until it did so many jobs.
fn told(worker: &Worker, jobs: u32) -> Told {
    let (mut told, mut done) = (Told::default(), 0);
    while done < jobs {
        match worker.reports.recv().unwrap() {
            Report::Brought { .. } => told.brought += 1,
            Report::Failed { is_gone } => told.gone += u32::from(is_gone),
            Report::Held(target) => told.held.push(target),
            Report::Finished { stop, costs, .. } => {
                assert_eq!(stop, None);
                told.costs = costs;
            }
            Report::Spent(_) => done += 1,
            _ => {}
        }
    }
    told
}

#[test]
fn a_process_does_not_answer_when_a_thread_sleeps_too_long_for_it() {
    let mut worker = worker();
    let begin = Instant::now();
    let late = begin + BRING_DEADLINE;
    assert_eq!(worker.stuck(begin), None);
    assert_eq!(worker.stuck(late), None, "it has no process");
    // The thread waits for a job: that sleep looks like any other.
    worker.beat.begin(&gone_target(0));
    while worker.beat.thread.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(worker.stuck(begin), None, "it began just now");
    while !sleeps(worker.beat.thread.load(Ordering::Relaxed)) {
        std::thread::yield_now();
    }
    assert_eq!(worker.stuck(begin + LOOK_DEADLINE), None, "a disk is slow");
    assert_eq!(worker.stuck(late), Some(gone_target(0).id));
    worker.beat.beat();
    assert_eq!(worker.stuck(late), None, "it went on");
}

#[test]
fn a_stuck_process_does_not_take_other_jobs_with_it() {
    let stuck = Stuck::new();
    let mut looker =
        Worker::start(&stuck.machine.root(), Priority::Normal, &Arc::default()).unwrap();
    let end = |end, targets| Job::new(Task::End(end), targets);
    let targets = vec![gone_target(0), stuck_target(1), gone_target(1)];
    looker.push(end(End::Launch, targets));
    looker.push(end(End::Session, vec![stuck_target(1), gone_target(2)]));

    let id = give_up(&mut looker);

    assert_eq!(id, Some(stuck_target(1).id));
    // Of the first job one is left; the second is without the process.
    assert_eq!(told(&looker, 2).gone, 2);
}

#[test]
fn a_turn_goes_on_without_the_process_that_is_stuck() {
    let stuck = Stuck::new();
    let mut bringer = stuck.worker();
    let gone_targets = (0..2).map(gone_target);
    bringer.push(bring(
        [stuck_target(1)].into_iter().chain(gone_targets).collect(),
    ));
    give_up(&mut bringer);
    let turn = told(&bringer, 1);
    assert_eq!(turn.gone, 2, "one that has ended stops nothing");
}

#[test]
fn a_thread_that_goes_on_just_now_is_not_given_up() {
    let queue = Queue::default();
    let beat = Beat::default();
    queue.push(bring(vec![gone_target(0), gone_target(1)]));
    queue.begin(&beat).unwrap();
    let first = queue.next(&beat).unwrap();
    let count = beat.count();
    queue.next(&beat).unwrap();
    assert_eq!(
        queue.abandon((&beat, count), |target| target.id != first.id, || Some(())),
        None
    );
    assert_eq!(beat.stop(), None);
}

#[test]
fn costs_outlive_a_thread() {
    let stuck = Stuck::new();
    let mut bringer = stuck.worker();
    bringer.push(bring(vec![stuck_target(1)]));
    give_up(&mut bringer);
    let mut measured = Costs::default();
    measured.disk.fault_ns = 77;
    bringer.push(bring_at(measured, Vec::new()));
    assert_eq!(told(&bringer, 2).costs, measured);
}

#[test]
fn a_thread_that_was_given_up_tells_nothing_more() {
    let stuck = Stuck::new();
    let mut worker = stuck.worker();
    worker.push(bring(vec![stuck_target(1)]));
    assert!(give_up(&mut worker).is_some());
    told(&worker, 1);
    stuck.let_go();
    while Arc::strong_count(&worker.abandoned[0]) > 1 {
        std::thread::yield_now();
    }
    assert!(worker.report().is_none());
}

#[test]
fn so_many_threads_are_given_up_at_one_time_and_one_that_ends_makes_room() {
    let stuck = Stuck::new();
    let mut worker = stuck.worker();
    let targets = (0..=MOST_ABANDONED as u64).map(stuck_target);
    worker.push(bring(targets.collect()));
    for _ in 0..MOST_ABANDONED {
        assert!(give_up(&mut worker).is_some());
        assert!(!worker.is_exhausted());
    }
    assert_eq!(give_up(&mut worker), None);
    assert!(worker.is_exhausted());
    stuck.let_go();
    let has_ended = |beat: &Arc<Beat>| Arc::strong_count(beat) == 1;
    while !worker.abandoned.iter().any(has_ended) {
        std::thread::yield_now();
    }
    worker.unstick_at(Instant::now() + 2 * BRING_DEADLINE);
    assert!(!worker.is_exhausted());
}

#[test]
fn a_user_whose_processes_do_not_answer_holds_up_no_other() {
    let stuck = Stuck::new();
    let mut worker = stuck.worker();
    let of_user = |user, target| Target {
        user: Some(user),
        ..target
    };
    let bad = |number| of_user(1000, stuck_target(number));
    let mut targets: Vec<Target> = (0..MOST_ABANDONED as u64).map(bad).collect();
    targets.push(of_user(1001, gone_target(0)));
    worker.push(bring(targets));
    for _ in 0..MOST_OF_USER {
        assert!(!worker.is_crowded());
        assert!(give_up(&mut worker).is_some());
    }
    assert!(worker.is_crowded() && !worker.is_exhausted());
    assert_eq!(told(&worker, 1).gone, 1, "the other user's");
    worker.push(bring(vec![bad(99), of_user(1001, gone_target(1))]));
    assert_eq!(told(&worker, 1).gone, 1, "of later jobs as well");
    stuck.let_go();
    while worker.is_crowded() {
        worker.unstick();
    }
    worker.push(bring(vec![of_user(1000, gone_target(2))]));
    assert_eq!(told(&worker, 1).gone, 1);
}

#[test]
fn a_thread_that_waits_for_a_processor_is_not_stuck() {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    assert!(!sleeps(own.cast_unsigned()), "it runs");
    assert!(!sleeps(u32::MAX), "there is none");
}

#[test]
fn the_thread_that_brings_back_has_the_least_share_and_is_not_held_up() {
    let worker = worker();
    worker.push(Job::new(Task::End(End::Launch), Vec::new()));
    told(&worker, 1);
    let thread = worker.beat.thread.load(Ordering::Relaxed);
    let path = format!("/proc/self/task/{thread}/stat");
    let text = std::fs::read_to_string(path).unwrap();
    // Field 19 is the nice value, field 41 the policy (SCHED_BATCH is 3); the name, field 2, has no blank.
    let fields: Vec<&str> = text.split(' ').collect();
    assert_eq!((fields[18], fields[40]), ("19", "3"), "{text}");
}

#[test]
fn processes_below_a_full_group_are_held_and_others_come_back() {
    let machine = free_machine();
    for (group, used_mib) in [("full", 100), ("free", 0)] {
        machine.set_group(group, used_mib, 0);
        machine.write(&format!("cg/{group}/memory.max"), "104857600\n");
    }
    let target = |number: u32, group: &str| {
        let target = gone_target(number);
        let file = format!("proc/{}/cgroup", target.id.pid);
        machine.write(&file, format!("0::/{group}\n"));
        target
    };
    let mut targets = vec![target(0, "full"), target(1, "full"), target(2, "free")];
    let worker = worker_on(&machine.root());
    for looked_at in [3, 1] {
        worker.push(bring(targets));
        let turn = told(&worker, 1);
        assert_eq!(turn.brought, looked_at, "one tells of its group");
        assert_eq!(turn.gone, looked_at / 3, "the one that has room");
        targets = turn.held;
        let by = Some(machine.path("cg/full"));
        assert_eq!(targets.len(), 2);
        assert!(targets.iter().all(|target| target.held_by == by));
    }
}

#[test]
fn while_something_else_is_waited_for_no_process_is_late() {
    let (beat, target) = (Beat::default(), gone_target(1));
    beat.begin(&target);
    let during = beat.aside(|| beat.process());
    assert_eq!((during, beat.process()), (None, Some(target.id)));
}
