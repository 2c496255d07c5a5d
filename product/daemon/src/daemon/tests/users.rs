//! Requests of users other than root.

use super::*;

const ALICE: Peer = Peer { user: 1000 };
const BOB: Peer = Peer { user: 1001 };

/// A machine with these processes: number and user.
fn machine(processes: &[(u32, u32)]) -> (tempfile::TempDir, Root) {
    let place = tempfile::tempdir().unwrap();
    for &(pid, user) in processes {
        process(place.path(), pid, [user; 3], 1);
    }
    let root = Root::at(place.path());
    (place, root)
}

fn process(place: &Path, pid: u32, [real, effective, saved]: [u32; 3], start_ticks: u64) {
    let folder = place.join(format!("proc/{pid}"));
    std::fs::create_dir_all(&folder).unwrap();
    let stat = format!("{pid} (p) S 1 1 5 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {start_ticks} 0 0 0\n");
    std::fs::write(folder.join("stat"), stat).unwrap();
    let status = format!("Name:\tp\nUid:\t{real}\t{effective}\t{saved}\t{effective}\n");
    std::fs::write(folder.join("status"), status).unwrap();
}

fn names(daemon: &mut Daemon<Fake>, peer: Peer) -> Vec<String> {
    let Ok(Answer::Daemon(status)) = daemon.carry_out(peer, Request::Daemon) else {
        panic!("a status");
    };
    status.apps.into_iter().map(|app| app.name).collect()
}

#[test]
fn each_user_steers_own_applications_and_root_all() {
    let (_place, root) = machine(&[(10, 1000), (20, 1001)]);
    let (mut daemon, fake, _events) = daemon_on(root, "");
    for event in [AppEvent::Switch, AppEvent::LaunchDone, AppEvent::Background] {
        assert_eq!(daemon.carry_out(ALICE, app("a", event)), Ok(Answer::Done));
        fake.events();
        let refused = daemon.carry_out(ALICE, app("b", event)).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Denied);
        assert_eq!(fake.events(), [""; 0], "{event:?}");
        let root = daemon.carry_out(Peer::ROOT, app("b", event));
        assert_eq!(root, Ok(Answer::Done));
        fake.events();
    }
}

#[test]
fn one_process_of_another_user_makes_an_application_roots() {
    let (place, root) = machine(&[(10, 1000), (20, 1001), (30, 1000)]);
    let (mut daemon, fake, _events) = daemon_on(root, "");
    let mut switch = || daemon.carry_out(ALICE, app("a", AppEvent::Switch));
    fake.runs("a", 30);
    assert_eq!(switch(), Ok(Answer::Done));
    // It has a set-user-ID program among its processes.
    process(place.path(), 30, [1000, 0, 0], 1);
    assert_eq!(switch().unwrap_err().kind, RefusalKind::Denied);
    // That one ended, and another process of root's has its number.
    process(place.path(), 30, [0; 3], 2);
    assert_eq!(switch(), Ok(Answer::Done));
    // No process is left: there is nothing of the user's to act on.
    std::fs::remove_dir_all(place.path().join("proc")).unwrap();
    assert_eq!(switch().unwrap_err().kind, RefusalKind::Denied);
}

#[test]
fn users_hear_of_own_applications_only() {
    let (_place, root) = machine(&[(10, 1000), (20, 1001)]);
    let (mut daemon, _fake, _events) = daemon_on(root, "");
    daemon.warn("b cannot be read".to_owned());

    assert_eq!(names(&mut daemon, ALICE), ["a"]);
    assert_eq!(names(&mut daemon, BOB), ["b"]);
    assert_eq!(names(&mut daemon, Peer::ROOT), ["a", "b"]);
    assert_eq!(names(&mut daemon, Peer { user: 7 }), [""; 0]);
    let Ok(Answer::Daemon(status)) = daemon.carry_out(ALICE, Request::Daemon) else {
        panic!("a status");
    };
    assert_eq!(
        status.warnings,
        ["applications that are not this user's alone are not shown: 1"]
    );
    let unknown = daemon.carry_out(ALICE, app("c", AppEvent::Switch));
    let unknown = unknown.unwrap_err().message;
    assert!(unknown.ends_with("there are: a"), "{unknown}");
}

#[test]
fn users_hear_of_own_processes_that_do_not_answer() {
    let (_place, root) = machine(&[(10, 1000), (20, 1001)]);
    let (mut daemon, fake, _events) = daemon_on(root, "");
    // The last one was alice's before another process got its number.
    let stuck = [("edit", 10, 1), ("bank", 20, 1), ("mail", 10, 7)];
    fake.0.borrow_mut().unanswering = stuck
        .map(|(name, pid, start_ticks)| Unanswering {
            name: name.to_owned(),
            pid,
            start_ticks,
        })
        .into();
    let mut unanswering = |peer| match daemon.carry_out(peer, Request::Daemon) {
        Ok(Answer::Daemon(status)) => status.unanswering,
        other => panic!("{other:?}"),
    };
    assert_eq!(unanswering(ALICE), ["edit (10)"]);
    assert_eq!(unanswering(BOB), ["bank (20)"]);
    let all = ["edit (10)", "bank (20)", "mail (10)"];
    assert_eq!(unanswering(Peer::ROOT), all);
}

#[test]
fn the_user_in_front_is_followed_and_the_other_when_that_one_comes_back() {
    let (place, root) = machine(&[(10, 1000), (20, 1001)]);
    let in_front = |user: u32| {
        let folder = place.path().join("run/systemd/seats");
        std::fs::create_dir_all(&folder).unwrap();
        let seat = format!("ACTIVE_UID={user}\nUIDS=1000 1001\n");
        std::fs::write(folder.join("seat0"), seat).unwrap();
    };
    in_front(1000);
    let (mut daemon, fake, _events) = daemon_on(root, "");
    for (peer, pid) in [(ALICE, 10), (BOB, 20)] {
        let place = String::new();
        for event in [WindowEvent::Live { place }, WindowEvent::Focus { pid }] {
            let told = daemon.carry_out(peer, windows(WindowSystem::X11, event));
            assert_eq!(told, Ok(Answer::Done));
        }
    }
    daemon.tick();
    assert_eq!(fake.events(), ["switch a"], "bob is away");
    in_front(1001);
    daemon.tick();
    daemon.tick();
    assert_eq!(fake.events(), ["switch b"]);
    in_front(1000);
    daemon.tick();
    assert_eq!(fake.events(), ["switch a"]);

    // The agent of an absent user does not say what is in front.
    let looks = |daemon: &mut Daemon<Fake>, user| {
        in_front(user);
        let due = Instant::now();
        daemon.due.activity = due;
        daemon.tick();
        daemon.due.activity != due
    };
    assert!(!looks(&mut daemon, 1000));
    let why = String::new();
    let absent = windows(WindowSystem::X11, WindowEvent::Absent { why });
    daemon.carry_out(ALICE, absent).unwrap();
    assert!(looks(&mut daemon, 1000) && !looks(&mut daemon, 1001));
}

#[test]
fn a_user_without_a_seat_does_not_speak_for_the_one_in_front() {
    let (place, root) = machine(&[(10, 1000), (20, 1001)]);
    let folder = place.path().join("run/systemd/seats");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("seat0"), "ACTIVE_UID=1000\nUIDS=1000\n").unwrap();
    let (mut daemon, fake, _events) = daemon_on(root, "");
    let mut tell = |peer, event| {
        let told = daemon.carry_out(peer, windows(WindowSystem::X11, event));
        assert_eq!(told, Ok(Answer::Done));
        daemon.tick();
    };
    tell(ALICE, WindowEvent::Focus { pid: 10 });
    tell(BOB, WindowEvent::Focus { pid: 20 });
    tell(Peer::ROOT, WindowEvent::Elsewhere);
    assert_eq!(fake.events(), ["switch a"]);
}

#[test]
fn the_window_of_an_agent_that_died_is_forgotten() {
    let (_place, root) = machine(&[(10, 1000), (20, 1001)]);
    let (mut daemon, fake, _events) = daemon_on(root, "");
    let focus = windows(WindowSystem::X11, WindowEvent::Focus { pid: 77 });
    daemon.carry_out(Peer::ROOT, focus).unwrap();
    let later = Instant::now() + WINDOWS_HEARD_FOR / 2;
    daemon.forget_unheard(later);
    assert_eq!(daemon.windows.len(), 1, "it may tell nothing for a while");

    daemon.forget_unheard(later + WINDOWS_HEARD_FOR);

    fake.runs("a", 77);
    daemon.tick();
    assert_eq!(fake.events(), [""; 0]);
}

#[test]
fn users_launch_own_processes_under_names_that_are_free() {
    let (place, root) = machine(&[(10, 1000), (20, 1001), (30, 1000), (40, 1001)]);
    let (mut daemon, fake, _events) = daemon_on(root, "");
    let launch = |pid| AppEvent::Launch { pid };

    let refused = daemon.carry_out(ALICE, app("new", launch(40))).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Denied);
    // It is about to have other rights than the user's.
    process(place.path(), 30, [1000, 0, 0], 1);
    let refused = daemon.carry_out(ALICE, app("new", launch(30))).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Denied);
    process(place.path(), 30, [1000; 3], 1);
    let refused = daemon.carry_out(ALICE, app("b", launch(30))).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Denied);
    assert_eq!(fake.events(), [""; 0]);

    daemon.carry_out(ALICE, app("new", launch(30))).unwrap();
    // The host has not looked for its processes yet.
    let done = daemon.carry_out(ALICE, app("new", AppEvent::LaunchDone));
    assert_eq!(done, Ok(Answer::Done));
    let taken = daemon.carry_out(BOB, app("new", launch(40))).unwrap_err();
    assert_eq!(taken.kind, RefusalKind::Denied);
    // The name is free again once its processes ended.
    std::fs::remove_dir_all(place.path().join("proc/30")).unwrap();
    daemon.carry_out(BOB, app("new", launch(40))).unwrap();
    assert_eq!(names(&mut daemon, BOB), ["b", "new"]);
}

#[test]
fn a_window_system_speaks_for_its_user() {
    let (_place, root) = machine(&[(10, 1000), (20, 1001)]);
    let (mut daemon, fake, _events) = daemon_on(root, "");
    let mut hear = |peer, event| daemon.carry_out(peer, windows(WindowSystem::Sway, event));
    let refused = |reply: Reply| reply.unwrap_err().kind;
    let foreign = hear(BOB, WindowEvent::Focus { pid: 10 });
    assert_eq!(refused(foreign), RefusalKind::Denied);
    assert_eq!(fake.events(), [""; 0], "a program of another user");
    hear(ALICE, WindowEvent::Focus { pid: 10 }).unwrap();
    assert_eq!(fake.events(), ["switch a"]);
    hear(BOB, WindowEvent::Elsewhere).unwrap();
    let gone = hear(ALICE, WindowEvent::Focus { pid: 77 });
    assert_eq!(refused(gone), RefusalKind::Failed);
    assert_eq!(fake.events(), [""; 0], "it is not sent away by another");
    hear(ALICE, WindowEvent::Elsewhere).unwrap();
    assert_eq!(fake.events(), ["background a"]);
}

#[test]
fn launched_applications_that_ended_are_forgotten() {
    let (place, root) = machine(&[(30, 0), (40, 0)]);
    let (mut daemon, fake, _events) = daemon_on(root, "");
    for (name, pid) in [("short", 30), ("long", 40)] {
        let launch = AppEvent::Launch { pid };
        daemon.carry_out(Peer::ROOT, app(name, launch)).unwrap();
    }
    std::fs::remove_dir_all(place.path().join("proc/30")).unwrap();
    fake.events();

    for _ in 0..50 {
        daemon.discover();
    }

    assert_eq!(fake.events(), ["save short", "remove short"]);
    assert_eq!(names(&mut daemon, Peer::ROOT), ["a", "b", "long"]);
}
