use super::*;

fn worker_on(root: &Root) -> Worker {
    Worker::start(root, Priority::Low, &Arc::default()).unwrap()
}

fn worker() -> Worker {
    worker_on(&Root::machine())
}

const ID: ProcessId = ProcessId {
    pid: 7,
    start_ticks: 9,
};

#[test]
fn a_process_does_not_answer_when_a_thread_sleeps_too_long_for_it() {
    let mut worker = worker();
    let begin = Instant::now();
    let late = begin + DEADLINE;
    assert_eq!(worker.stuck(begin, DEADLINE), None);
    assert_eq!(worker.stuck(late, DEADLINE), None, "it has no process");
    // The thread waits for a job: that sleep looks like any other.
    worker.beat.begin(ID);
    while worker.beat.thread.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(worker.stuck(begin, DEADLINE), None, "it began just now");
    while !sleeps(worker.beat.thread.load(Ordering::Relaxed)) {
        std::thread::yield_now();
    }
    assert_eq!(worker.stuck(late, DEADLINE), Some(ID));
    worker.beat.beat();
    assert_eq!(worker.stuck(late, DEADLINE), None, "it went on");
}

/// Has a worker wait too long for a process; the sender keeps its thread waiting for a job for as long as it lives.
fn get_stuck(worker: &mut Worker) -> (Option<ProcessId>, Sender<Job>) {
    let jobs = worker.jobs.clone();
    worker.beat.begin(ID);
    while worker.beat.thread.load(Ordering::Relaxed) == 0
        || !sleeps(worker.beat.thread.load(Ordering::Relaxed))
    {
        std::thread::yield_now();
    }
    let begin = Instant::now();
    assert_eq!(worker.unstick_at(begin), None);
    (worker.unstick_at(begin + DEADLINE), jobs)
}

#[test]
fn a_thread_that_was_given_up_tells_nothing_more() {
    let mut worker = worker();
    let (id, jobs) = get_stuck(&mut worker);
    assert_eq!(id, Some(ID));
    let job = Job::Bring {
        targets: Vec::new(),
        machine: Seen::default(),
        reserve_bytes: 0,
    };
    jobs.send(job).unwrap();
    // It does that, and ends.
    while Arc::strong_count(&worker.threads) > 2 {
        std::thread::yield_now();
    }
    assert!(worker.report().is_none());
}

#[test]
fn so_many_threads_are_given_up_at_one_time_and_one_that_ends_makes_room() {
    let mut worker = worker();
    let mut stuck = Vec::new();
    for _ in 0..MOST_ABANDONED {
        let (id, jobs) = get_stuck(&mut worker);
        assert_eq!(id, Some(ID));
        assert!(!worker.is_exhausted());
        stuck.push(jobs);
    }
    let (id, _jobs) = get_stuck(&mut worker);
    assert_eq!(id, None);
    assert!(worker.is_exhausted());
    stuck.pop();
    while Arc::strong_count(&worker.threads) == MOST_ABANDONED + 2 {
        std::thread::yield_now();
    }
    assert_eq!(worker.unstick_at(Instant::now() + 2 * DEADLINE), Some(ID));
    assert!(!worker.is_exhausted());
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
    worker.push(Job::End {
        targets: Vec::new(),
        end: End::Launch,
    });
    while !matches!(worker.reports.recv().unwrap(), Report::Spent(_)) {}
    let thread = worker.beat.thread.load(Ordering::Relaxed);
    let path = format!("/proc/self/task/{thread}/stat");
    let text = std::fs::read_to_string(path).unwrap();
    // Field 19 is the nice value, field 41 the policy (SCHED_BATCH is 3); the name, field 2, has no blank.
    let fields: Vec<&str> = text.split(' ').collect();
    assert_eq!((fields[18], fields[40]), ("19", "3"), "{text}");
}

#[test]
fn processes_below_a_full_group_are_held_and_others_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "proc/meminfo",
        "MemTotal: 4194304 kB\nMemFree: 2097152 kB\n",
    );
    write("proc/vmstat", "pgsteal_direct 0\n");
    write("proc/self/mounts", "none /cg cgroup2 rw 0 0\n");
    write("cg/cgroup.controllers", "memory\n");
    for (group, used) in [("full", 100), ("free", 0)] {
        write(&format!("cg/{group}/memory.max"), "104857600\n");
        write(
            &format!("cg/{group}/memory.current"),
            &format!("{}\n", used << 20),
        );
        write(&format!("cg/{group}/memory.events"), "max 0\n");
    }
    let target = |number: u32, group: &str| {
        let pid = u32::MAX / 2 + number;
        write(&format!("proc/{pid}/cgroup"), &format!("0::/{group}\n"));
        let memory = Arc::default();
        Target {
            app: 3,
            id: ProcessId {
                pid,
                start_ticks: 1,
            },
            memory,
            held_by: None,
        }
    };
    let mut targets = vec![target(0, "full"), target(1, "full"), target(2, "free")];
    let worker = worker_on(&Root::at(dir.path()));
    for looked_at in [3, 1] {
        worker.push(Job::Bring {
            targets,
            machine: Seen::default(),
            reserve_bytes: 0,
        });
        let (mut brought, mut gone) = (0, 0);
        targets = loop {
            match worker.reports.recv().unwrap() {
                Report::Brought { .. } => brought += 1,
                Report::Failed { is_gone } => gone += u32::from(is_gone),
                Report::Finished { stop, held, .. } => {
                    assert_eq!(stop, None);
                    break held;
                }
                _ => {}
            }
        };
        assert_eq!(brought, looked_at, "one tells of its group");
        assert_eq!(gone, looked_at / 3, "the one that has room");
        let by = Some(dir.path().join("cg/full"));
        assert_eq!(targets.len(), 2);
        assert!(targets.iter().all(|target| target.held_by == by));
    }
}

#[test]
fn a_job_goes_on_with_other_processes_when_one_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("proc")).unwrap();
    let memory = "MemTotal: 4194304 kB\nMemFree: 2097152 kB\n";
    std::fs::write(dir.path().join("proc/meminfo"), memory).unwrap();
    std::fs::write(dir.path().join("proc/vmstat"), "pgsteal_direct 0\n").unwrap();
    let worker = worker_on(&Root::at(dir.path()));
    let target = Target {
        app: 3,
        id: ProcessId {
            pid: u32::MAX / 2,
            start_ticks: 1,
        },
        memory: Arc::default(),
        held_by: None,
    };
    worker.push(Job::Bring {
        targets: vec![target.clone(), target],
        machine: Seen::default(),
        reserve_bytes: 0,
    });
    let mut gone = 0;
    loop {
        match worker.reports.recv().unwrap() {
            Report::Failed { is_gone } => gone += u32::from(is_gone),
            Report::Finished { stop, .. } => {
                assert_eq!(stop, None);
                break;
            }
            _ => {}
        }
    }
    assert_eq!(gone, 2);
}
