use std::path::Path;

use warmswap_page::{FileId, PageAddr};
use warmswap_policy::learned::{Learned, LearnedFile, path_of};
use warmswap_policy::prefetch::footprint::Extent;
use warmswap_policy::reclaim::Arrival;
use warmswap_sys::process::Stat;

use super::app::addr;
use super::core::Sight;
use super::*;
use crate::application::Members;
use crate::goal::Goal;
use crate::upkeep::Upkeep;

/// A host on a machine without processes and devices.
fn host() -> (tempfile::TempDir, Host) {
    let place = tempfile::tempdir().unwrap();
    let config = HostConfig {
        prepage_threads: 0,
        ..HostConfig::default()
    };
    let host = Host::new(config, &Root::at(place.path())).unwrap();
    (place, host)
}

#[test]
fn idle_pages_are_worked_on_a_while_after_a_switch() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("proc/swaps", "F T S U P\n/dev/zram0 partition 9 9 5\n");
    write("sys/block/zram0/recomp_algorithm", "#1: [zstd]\n");
    write("sys/block/zram0/idle", "");
    write("sys/block/zram0/recompress", "");
    let config = HostConfig {
        prepage_threads: 0,
        upkeep: Upkeep {
            recompress_after_s: Some(60),
            ..Upkeep::default()
        },
        ..HostConfig::default()
    };
    let mut host = Host::new(config, &Root::at(place.path())).unwrap();
    let is_done = || {
        let path = place.path().join("sys/block/zram0/recompress");
        !std::fs::read(path).unwrap().is_empty()
    };

    host.switched_ns = Some(monotonic_ns());
    host.keep_up(monotonic_ns());
    assert_eq!(host.upkept_ns, None, "programs wait for what comes back");
    assert!(!is_done());
    host.switched_ns = None;
    // The thread may not wait for a round yet.
    for _ in 0..10_000 {
        (host.found_ns, host.upkept_ns) = (None, None);
        host.tick();
        if is_done() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is_done());
    let counters = host.status().counters;
    assert_eq!(counters.upkeep_refused, 0);
}

fn application(name: &str) -> Application {
    Application {
        name: name.to_owned(),
        members: Members::Executable(name.to_owned()),
    }
}

#[test]
fn more_applications_come_and_go_than_there_are_numbers() {
    let (_place, mut host) = host();
    let stays = host.add(application("stays")).unwrap();
    for turn in 0..2 * u32::from(u16::MAX) {
        let id = host.add(application("comes")).unwrap();
        assert_ne!(id, stays, "turn {turn}");
        host.remove(id).unwrap();
        assert!(host.remove(id).is_err(), "turn {turn}");
    }
    assert_eq!(host.id("stays"), Some(stays));
    assert_eq!(host.status().apps.len(), 1);
}

#[test]
fn all_numbers_can_be_in_use_and_one_that_is_given_back_is_given_again() {
    let (_place, mut host) = host();
    // Checking the names of all others for each would take long.
    for at in 0..u16::MAX {
        host.apps.push(Some(App::new(AppId(at), application("x"))));
        host.order.push(usize::from(at));
    }
    let error = host.add(application("late")).unwrap_err();
    assert!(matches!(error, HostError::TooManyApps), "{error}");
    host.remove(AppId(40_000)).unwrap();
    assert_eq!(host.add(application("late")).unwrap(), AppId(40_000));
}

#[test]
fn nothing_of_the_application_before_comes_with_a_number() {
    let (_place, mut host) = host();
    let first = host.add(application("first")).unwrap();
    let mut learned = Learned {
        anon_targets: vec![4, 5],
        is_profiled: true,
        ..Learned::default()
    };
    learned.files.push(LearnedFile {
        file: FileId(7),
        // The host's scheme goes without.
        profile: Vec::new(),
        targets: vec![Extent::page(3)],
    });
    host.core.engine.teach(first, &learned);
    assert_eq!(host.core.engine.learned(first), learned);
    host.switch_to(first).unwrap();

    host.remove(first).unwrap();
    let second = host.add(application("second")).unwrap();

    assert_eq!(second, first, "the number is given again");
    assert!(host.core.engine.learned(second).is_empty());
    assert_eq!(host.foreground(), None);
    let status = host.status();
    assert_eq!(status.apps[0].hot_bytes, 0);
    assert!(!status.apps[0].is_foreground);
}

#[test]
fn an_application_with_a_number_given_again_is_behind_those_that_were_there() {
    let (_place, mut host) = host();
    let [a, _] = ["a", "b"].map(|name| host.add(application(name)).unwrap());
    host.remove(a).unwrap();
    assert_eq!(host.add(application("c")).unwrap(), a);

    let names: Vec<&str> = host
        .applications()
        .map(|(_, application)| application.name.as_str())
        .collect();
    assert_eq!(names, ["b", "c"]);
    let apps = host.status().apps;
    assert_eq!(apps[0].name, "b");
}

/// What leaves in vain now can leave when another application is in the foreground, or a launch is over.
#[test]
fn rounds_in_vain_are_forgotten_at_every_event() {
    type Event = fn(&mut Host, AppId) -> Result<(), HostError>;
    let (_place, mut host) = host();
    let app = host.add(application("a")).unwrap();
    let events: [Event; 3] = [Host::switch_to, Host::launch_done, Host::background];
    for event in events {
        host.patience.ended(false);
        event(&mut host, app).unwrap();
        assert!(!host.patience.pauses());
    }
    host.patience.ended(false);
    assert!(host.patience.pauses(), "nothing happened");
}

/// The applications whose tables were written since the last call.
fn written(folder: &Path) -> Vec<&'static str> {
    let is_written = |name: &&str| std::fs::remove_file(path_of(folder, name)).is_ok();
    ["a", "b", "c"].into_iter().filter(is_written).collect()
}

#[test]
fn tables_are_written_when_something_was_learned_since() {
    let (place, mut host) = host();
    let folder = place.path().join("learned");
    host.config.learned_folder = Some(folder.clone());
    let learned = Learned {
        anon_targets: vec![4, 5],
        ..Learned::default()
    };
    let [a, b, _] = ["a", "b", "c"].map(|name| {
        let id = host.add(application(name)).unwrap();
        host.core.engine.teach(id, &learned);
        id
    });
    host.save_learned().unwrap();
    assert_eq!(written(&folder), [""; 0], "of this run nothing is known");

    host.switch_to(a).unwrap();
    host.save_learned().unwrap();
    assert_eq!(written(&folder), ["a"], "its window is open");
    host.switch_to(b).unwrap();
    host.save_learned_of(b).unwrap();
    assert_eq!(written(&folder), ["b"], "the others wait for their turn");
    host.background(b).unwrap();
    host.save_learned().unwrap();
    assert_eq!(written(&folder), ["a", "b"]);
    host.save_learned().unwrap();
    host.save_learned_of(a).unwrap();
    assert_eq!(written(&folder), [""; 0], "they are there already");

    host.switch_to(a).unwrap();
    host.background(a).unwrap();
    std::fs::remove_dir(&folder).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    assert!(host.save_learned().is_err());
    std::fs::remove_file(&folder).unwrap();
    host.save_learned().unwrap();
    assert_eq!(written(&folder), ["a"], "what failed is tried again");
}

/// This process, as one of an application's that has this slice.
fn watch_own(core: &mut Core, app: &mut App, slice: u64) {
    core.root = Root::machine();
    let pid = std::process::id();
    let start_ticks = Stat::read(&core.root, pid).unwrap().start_ticks;
    let watched = Watched::open(&core.root, ProcessId { pid, start_ticks }, slice).unwrap();
    let at = app.processes.push(watched);
    core.look_at(app, at, Sight::First);
    core.mark_taught(app, at);
}

#[test]
fn processes_that_end_leave_no_memory_behind() {
    let (_place, mut host) = host();
    let id = host.add(application("make")).unwrap();
    let Host { core, apps, .. } = &mut host;
    let app = apps[usize::from(id.0)].as_mut().unwrap();
    let memory = std::hint::black_box(vec![1u8; 8 << 20]);
    let mut bytes = Vec::new();
    for slice in 0..60 {
        watch_own(core, app, slice);
        assert!(core.engine.usage().frames >= memory.len() as u64 / 4096);
        core.forget_gone(app, |_| false);
        bytes.push(core.engine.state_bytes());
        assert_eq!(core.engine.usage().frames, 0);
        assert!(app.processes.is_empty());
    }
    core.engine.check().unwrap();
    assert!(
        bytes[59] <= bytes[9] + bytes[9] / 2,
        "{} bytes after 10 processes, {} after 60",
        bytes[9],
        bytes[59]
    );
}

#[test]
fn what_was_hot_in_an_earlier_run_is_evidence_for_the_process_that_it_was_of() {
    let (_place, mut host) = host();
    let id = host.add(application("a")).unwrap();
    let memory = vec![1u8; 64 << 12];
    let first = memory.as_ptr() as u64 / 4096 + 1;
    let hot = |slice| {
        let pages = (first..first + 8).map(move |page| addr(slice, page));
        pages.map(|page| match page {
            PageAddr::Anon { number } => number,
            PageAddr::File { .. } => 0,
        })
    };
    let learned = Learned {
        hot: hot(3).collect(),
        ..Learned::default()
    };
    host.core.engine.teach(id, &learned);
    let Host { core, apps, .. } = &mut host;
    let app = apps[usize::from(id.0)].as_mut().unwrap();
    app.is_taught = true;
    for slice in [2, 3] {
        watch_own(core, app, slice);
    }
    let needed = |slice| {
        let at = app.by_slice(slice).unwrap();
        let pages = &app.processes[at].pages;
        let needed = |page: &u64| pages.is_needed(*page, app.launch, 40);
        (first..first + 16).filter(needed).count()
    };
    assert_eq!((needed(2), needed(3)), (0, 8));
}

/// Has programs wait so long for memory, as the kernel tells it.
fn set_waited_ms(place: &Path, waited_ms: u64) {
    let path = place.join("proc/pressure/memory");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let line = |kind| {
        format!(
            "{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={}\n",
            waited_ms * 1000
        )
    };
    std::fs::write(&path, line("some") + &line("full")).unwrap();
}

/// A host of the machine at that place with this goal; it may stand aside or not.
fn host_with(goal: Goal, may: bool, place: &Path) -> Host {
    let config = HostConfig {
        goal,
        may_stand_aside: may,
        prepage_threads: 0,
        ..HostConfig::default()
    };
    Host::new(config, &Root::at(place)).unwrap()
}

/// A host with this goal, after so many switches, after each of which programs wait for memory for so many milliseconds while it
/// takes part, and so many while it does not.
fn switched(goal: Goal, may: bool, switches: u64, with_ms: u64, without_ms: u64) -> Host {
    let (place, _) = host();
    let mut host = host_with(goal, may, place.path());
    let mut waited_ms = 0;
    for switch in 0..switches {
        set_waited_ms(place.path(), waited_ms);
        host.weigh_switch(switch * 5_000_000_000);
        waited_ms += match host.core.stands_aside {
            true => without_ms,
            false => with_ms,
        };
        assert_eq!(host.core.stands_aside, host.trial.is_aside());
    }
    host
}

fn is_aside(host: &Host) -> bool {
    host.status().worth.turn == Turn::Kernel
}

fn held_by_kernel() -> Goal {
    Goal {
        ahead_of_kernel: true,
        ..Goal::default()
    }
}

#[test]
fn it_stands_aside_until_programs_wait() {
    let host = switched(held_by_kernel(), true, 50, 0, 0);
    assert!(is_aside(&host));
    assert!(host.counters().switches_aside >= 49);
    let host = switched(held_by_kernel(), true, 60, 20, 200);
    assert!(!is_aside(&host), "{:?}", host.trial);
    assert!(is_aside(&switched(held_by_kernel(), true, 60, 200, 200)));
}

#[test]
fn it_stands_aside_as_long_as_it_hears_of_no_switch() {
    let (place, _) = host();
    std::fs::create_dir_all(place.path().join("proc")).unwrap();
    let ticked = |goal, may| {
        let mut host = host_with(goal, may, place.path());
        host.tick();
        assert_eq!(host.core.stands_aside, host.trial.is_aside());
        host
    };
    assert!(
        !is_aside(&ticked(held_by_kernel(), true)),
        "the kernel does not tell what programs wait"
    );
    set_waited_ms(place.path(), 7);
    assert!(!is_aside(&ticked(Goal::default(), true)));
    assert!(!is_aside(&ticked(held_by_kernel(), false)));
    let mut host = ticked(held_by_kernel(), true);
    assert!(is_aside(&host));
    // Switches are counted and measured from the first one on.
    let mut waited_ms = 7;
    for switch in 0..60 {
        set_waited_ms(place.path(), waited_ms);
        host.weigh_switch(switch * 5_000_000_000);
        waited_ms += if host.core.stands_aside { 200 } else { 20 };
    }
    assert!(!is_aside(&host), "{:?}", host.trial);
    assert!(host.counters().switches_aside > 10);
}

#[test]
fn it_takes_part_where_the_goal_is_its_own_to_hold() {
    let own = [
        Goal {
            free_bytes: Some(1),
            ..held_by_kernel()
        },
        Goal {
            pressure_percent: Some(1.0),
            ..held_by_kernel()
        },
        Goal {
            budget_bytes: Some(1),
            ..held_by_kernel()
        },
        Goal::default(),
    ];
    for goal in own {
        let host = switched(goal.clone(), true, 50, 0, 0);
        assert!(!is_aside(&host), "{goal:?}");
        assert_eq!(host.counters().switches_aside, 0);
    }
    assert!(
        !is_aside(&switched(held_by_kernel(), false, 50, 0, 0)),
        "it must not"
    );
}

#[test]
fn what_was_learned_outlasts_the_time_in_which_it_stands_aside() {
    let (place, _) = host();
    let config = HostConfig {
        goal: held_by_kernel(),
        ..HostConfig::default()
    };
    let mut host = Host::new(config, &Root::at(place.path())).unwrap();
    let app = host.add(application("a")).unwrap();
    // Without a process no launch is a relaunch, and nothing would be learned anyway.
    watch_own(&mut host.core, host.apps[0].as_mut().unwrap(), 0);
    let mut learned = Learned {
        anon_targets: vec![4, 5],
        ..Learned::default()
    };
    host.core.engine.teach(app, &learned);
    learned = host.core.engine.learned(app);
    assert_eq!(learned.anon_targets, [4, 5]);
    set_waited_ms(place.path(), 0);
    for _ in 0..20 {
        host.switch_to(app).unwrap();
        host.launch_done(app).unwrap();
        host.background(app).unwrap();
    }
    assert!(is_aside(&host));
    assert_eq!(host.core.engine.learned(app), learned);
    let status = &host.status().apps[0];
    assert!(!status.is_launching && !status.is_foreground);
}

#[test]
fn it_knows_no_pages_while_it_stands_aside_and_all_when_it_takes_part() {
    let (_place, mut host) = host();
    let app = host.add(application("a")).unwrap();
    watch_own(&mut host.core, host.apps[0].as_mut().unwrap(), 0);
    // Something is hot, and stays so in what is kept of it.
    host.switch_to(app).unwrap();
    let page = host.apps[0].as_ref().unwrap().processes[0]
        .pages
        .numbers()
        .next();
    let page = addr(0, page.unwrap());
    host.core.engine.served(app, page, Arrival::Touched);
    host.launch_done(app).unwrap();
    host.background(app).unwrap();
    let hot = host.core.engine.learned(app).hot;
    let frames = |host: &Host| host.core.engine.usage().frames;
    let known = frames(&host);
    assert!(known > 0);
    host.trial.stand_aside(1);
    host.take_turn(1);
    assert_eq!(frames(&host), 0);
    assert!(host.apps[0].as_ref().unwrap().processes[0].pages.is_empty());
    assert!(!hot.is_empty());
    let kept = host.apps[0].as_ref().unwrap().forgotten.clone();
    assert_eq!(kept.unwrap().hot, hot);
    // The kernel tells how much there is.
    let status = &host.status().apps[0];
    assert!(status.cold_bytes > 0 && status.hot_bytes == 0, "{status:?}");
    // No look is taken in the meantime, and the next one is the first.
    host.core.look(host.apps[0].as_mut().unwrap());
    assert_eq!(frames(&host), 0);

    assert!(host.trial.reset());
    host.take_turn(2);
    host.core.look(host.apps[0].as_mut().unwrap());
    assert!(frames(&host) > known / 2, "{} of {known}", frames(&host));
}
