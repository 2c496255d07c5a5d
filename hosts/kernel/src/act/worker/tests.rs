use super::*;

fn worker_on(root: &Root) -> (Worker, Receiver<Report>) {
    let (reports, receiver) = channel();
    let worker = Worker::start(root, Priority::Idle, reports).unwrap();
    (worker, receiver)
}

fn worker() -> (Worker, Receiver<Report>) {
    worker_on(&Root::machine())
}

const ID: ProcessId = ProcessId {
    pid: 7,
    start_ticks: 9,
};

#[test]
fn a_process_does_not_answer_when_a_thread_sleeps_too_long_for_it() {
    let (mut worker, _reports) = worker();
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

#[test]
fn a_thread_that_waits_for_a_processor_is_not_stuck() {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    assert!(!sleeps(own.cast_unsigned()), "it runs");
    assert!(!sleeps(u32::MAX), "there is none");
}

#[test]
fn the_thread_has_idle_priority() {
    let (worker, reports) = worker();
    worker.push(Job::End {
        targets: Vec::new(),
        end: End::Launch,
    });
    while !matches!(reports.recv().unwrap(), Report::Spent(_)) {}
    let thread = worker.beat.thread.load(Ordering::Relaxed);
    let path = format!("/proc/self/task/{thread}/stat");
    let text = std::fs::read_to_string(path).unwrap();
    // Field 41 is the policy (SCHED_IDLE is 5); the name, field 2, has no blank.
    assert_eq!(text.split(' ').nth(40), Some("5"), "{text}");
}

#[test]
fn a_job_goes_on_with_other_processes_when_one_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("proc")).unwrap();
    let memory = "MemTotal: 4194304 kB\nMemFree: 2097152 kB\n";
    std::fs::write(dir.path().join("proc/meminfo"), memory).unwrap();
    std::fs::write(dir.path().join("proc/vmstat"), "pgsteal_direct 0\n").unwrap();
    let (worker, reports) = worker_on(&Root::at(dir.path()));
    let target = Target {
        app: 3,
        id: ProcessId {
            pid: u32::MAX / 2,
            start_ticks: 1,
        },
        memory: Arc::default(),
        bound: None,
    };
    worker.push(Job::Bring {
        targets: vec![target.clone(), target],
        machine: Seen::default(),
        reserve_bytes: 0,
    });
    let mut gone = 0;
    loop {
        match reports.recv().unwrap() {
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
