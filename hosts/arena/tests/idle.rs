//! The class of the threads that restore pages. Alone in its process: it looks at all threads there are.

mod common;

use common::*;
use warmswap_arena::{Arena, Mechanism};

/// Threads of this process in the idle scheduling class.
fn idle_threads() -> usize {
    const SCHED_IDLE: &str = "5";
    let is_idle = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        // The policy is the 41st field, and the first behind the name is the third.
        let (_, fields) = stat.rsplit_once(')')?;
        Some(fields.split_whitespace().nth(41 - 3)? == SCHED_IDLE)
    };
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let tasks = tasks.flatten();
    tasks.filter_map(is_idle).filter(|&is_idle| is_idle).count()
}

/// A thread of that class takes long to end on a busy machine, and with it the process that waits for this one.
#[test]
fn threads_take_the_idle_class_with_their_first_work() {
    let name = "threads_take_the_idle_class_with_their_first_work";
    if !can_run(name, Mechanism::Auto) {
        return;
    }
    let arena = Arena::new(config(4 * MIB, "ariadne-al-1k-2k-16k")).expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(2 * MIB).expect("a region");
    let memory = words(&region);
    app.foreground();
    (0..512).for_each(|page| write_page(memory, page, 1));
    app.launch_done();
    leave(&region);
    assert_eq!(idle_threads(), 0, "nothing was restored so far");
    app.foreground();
    let begin = std::time::Instant::now();
    while idle_threads() == 0 {
        assert!(begin.elapsed().as_secs() < 60, "no thread restores");
        std::thread::yield_now();
    }
    app.launch_done();
    (0..512).for_each(|page| check_page(memory, page, 1));
}
