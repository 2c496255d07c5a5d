mod users;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};

use warmswap_kernel::application::ProcessId;
use warmswap_kernel::host::Tick;
use warmswap_kernel::status::Unanswering;
use warmswap_kernel::{Application, HostError, Members};
use warmswap_protocol::{Access, Follower, Phase};

use super::*;
use crate::config::size::Facts;

/// What a host was told, in order.
#[derive(Debug, Default)]
struct Told {
    events: Vec<String>,
    apps: Vec<Option<Application>>,
    /// Processes by application.
    processes: Vec<Vec<ProcessId>>,
    /// The application in the foreground.
    front: Option<AppId>,
    tick: Tick,
    /// The machine, if it is made up.
    place: Option<tempfile::TempDir>,
    unanswering: Vec<Unanswering>,
}

/// A host that writes down what it is told.
#[derive(Clone, Debug, Default)]
struct Fake(Rc<RefCell<Told>>);

impl Fake {
    fn note(&self, event: &str, app: AppId) -> Result<(), HostError> {
        let mut told = self.0.borrow_mut();
        let app = told.apps[usize::from(app.0)].as_ref();
        let name = app.map(|app| app.name.clone());
        let name = name.ok_or(HostError::NoSuchApp(String::new()))?;
        told.events.push(format!("{event} {name}"));
        Ok(())
    }

    fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut().events)
    }

    /// The application has this process from now on.
    fn runs(&self, name: &str, pid: u32) {
        let mut told = self.0.borrow_mut();
        let is_it = |app: &Option<Application>| app.as_ref().is_some_and(|app| app.name == name);
        let at = told.apps.iter().position(is_it).unwrap();
        told.processes[at].push(ProcessId {
            pid,
            start_ticks: 1,
        });
    }
}

impl Host for Fake {
    fn add(&mut self, application: Application) -> Result<(AppId, Option<String>), HostError> {
        let mut told = self.0.borrow_mut();
        let is_taken =
            |app: &Option<Application>| app.as_ref().is_some_and(|a| a.name == application.name);
        if told.apps.iter().any(is_taken) {
            return Err(HostError::NameTaken(application.name));
        }
        let id = AppId(told.apps.len() as u16);
        told.apps.push(Some(application));
        told.processes.push(Vec::new());
        Ok((id, None))
    }

    fn remove(&mut self, app: AppId) -> Result<(), HostError> {
        self.note("remove", app)?;
        self.0.borrow_mut().apps[usize::from(app.0)] = None;
        Ok(())
    }

    fn switch_to(&mut self, app: AppId) -> Result<(), HostError> {
        self.note("switch", app)?;
        self.0.borrow_mut().front = Some(app);
        Ok(())
    }

    fn launch_done(&mut self, app: AppId) -> Result<(), HostError> {
        self.note("done", app)
    }

    fn background(&mut self, app: AppId) -> Result<(), HostError> {
        self.note("background", app)
    }

    fn tick(&mut self) -> Tick {
        self.0.borrow().tick
    }

    fn processes(&self, app: AppId) -> Result<Vec<ProcessId>, HostError> {
        Ok(self.0.borrow().processes[usize::from(app.0)].clone())
    }

    fn leave_to_itself(&mut self, id: ProcessId) {
        let mut told = self.0.borrow_mut();
        told.events.push(format!("leave process {}", id.pid));
    }

    fn save(&mut self) -> Result<(), String> {
        self.0.borrow_mut().events.push("save".to_owned());
        Ok(())
    }

    fn save_app(&mut self, app: AppId) -> Result<(), String> {
        self.note("save", app).map_err(|error| error.to_string())
    }

    fn status(&self) -> HostStatus {
        let told = self.0.borrow();
        let apps = told.apps.iter().enumerate();
        let described = apps.filter_map(|(at, app)| {
            Some(warmswap_kernel::AppStatus {
                name: app.as_ref()?.name.clone(),
                is_foreground: told.front == Some(AppId(at as u16)),
                ..Default::default()
            })
        });
        HostStatus {
            apps: described.collect(),
            unanswering: told.unanswering.clone(),
            ..HostStatus::default()
        }
    }
}

/// A daemon over a fake host with the applications `a` and `b`, whose processes are 10 and 20.
fn daemon(text: &str) -> (Daemon<Fake>, Fake, Sender<Event>) {
    // This one, without its sessions.
    let place = tempfile::tempdir().unwrap();
    for folder in ["proc", "sys"] {
        let link = place.path().join(folder);
        std::os::unix::fs::symlink(Path::new("/").join(folder), link).unwrap();
    }
    let made = daemon_on(Root::at(place.path()), text);
    made.1.0.borrow_mut().place = Some(place);
    made
}

fn daemon_on(root: Root, text: &str) -> (Daemon<Fake>, Fake, Sender<Event>) {
    let facts = Facts { ram_bytes: 1 << 30 };
    let mut config = Config::defaults(facts);
    let apps =
        "[app.a]\nexecutable = \"a\"\n[app.b]\nexecutable = \"b\"\n[discover]\nenable = false\n";
    config.merge(apps, Path::new("/apps")).unwrap();
    config.merge(text, Path::new("/test")).unwrap();
    let fake = Fake::default();
    let (events, heard) = channel();
    let daemon = Daemon::new(config, root, fake.clone(), heard);
    fake.runs("a", 10);
    fake.runs("b", 20);
    (daemon, fake, events)
}

fn windows(system: WindowSystem, event: WindowEvent) -> Request {
    Request::Window { system, event }
}

/// An agent of root's says that a window of this process is looked at.
fn focus(daemon: &mut Daemon<Fake>, pid: u32) {
    let event = WindowEvent::Focus { pid };
    let reply = daemon.carry_out(Peer::ROOT, windows(WindowSystem::X11, event));
    assert_eq!(reply, Ok(Answer::Done));
}

fn app(name: &str, event: AppEvent) -> Request {
    Request::App {
        name: name.to_owned(),
        event,
    }
}

fn phases(daemon: &Daemon<Fake>) -> Vec<(String, Phase)> {
    let apps = daemon.status().apps;
    apps.into_iter().map(|app| (app.name, app.phase)).collect()
}

#[test]
fn a_window_switches_to_its_application_once() {
    let (mut daemon, fake, _events) = daemon("");

    focus(&mut daemon, 10);
    focus(&mut daemon, 10);
    assert_eq!(fake.events(), ["switch a"]);
    let (a, b) = ("a".to_owned(), "b".to_owned());
    assert_eq!(
        phases(&daemon),
        [
            (a.clone(), Phase::Foreground),
            (b.clone(), Phase::Background)
        ]
    );
    focus(&mut daemon, 20);
    assert_eq!(fake.events(), ["switch b"]);
    assert_eq!(
        phases(&daemon),
        [(a, Phase::Background), (b, Phase::Foreground)]
    );
    let x11 = daemon.status().signals;
    assert!(
        x11.iter()
            .any(|signal| signal.name == "x11" && signal.switches == 2)
    );
}

#[test]
fn a_window_of_nobody_sends_the_foreground_away_until_it_is_known() {
    let (mut daemon, fake, _events) = daemon("");
    focus(&mut daemon, 10);
    fake.events();

    focus(&mut daemon, 99);
    assert_eq!(fake.events(), ["background a"]);
    daemon.tick();
    assert_eq!(fake.events(), [""; 0]);
    fake.runs("b", 99);
    daemon.tick();
    assert_eq!(fake.events(), ["switch b"], "found since");
}

#[test]
fn requests_are_carried_out_or_refused_by_name() {
    let (mut daemon, fake, _events) = daemon("");
    let mut tell = |name: &str, event| daemon.carry_out(Peer::ROOT, app(name, event));

    assert_eq!(tell("a", AppEvent::Switch), Ok(Answer::Done));
    assert_eq!(tell("a", AppEvent::LaunchDone), Ok(Answer::Done));
    assert_eq!(tell("a", AppEvent::Background), Ok(Answer::Done));
    assert_eq!(fake.events(), ["switch a", "done a", "background a"]);

    let unknown = tell("c", AppEvent::Switch).unwrap_err();
    assert!(unknown.message.contains("there are: a, b"), "{unknown}");
    let malformed = tell("x/y", AppEvent::Switch).unwrap_err();
    assert_eq!(malformed.kind, RefusalKind::Malformed);
    let gone = tell("c", AppEvent::Launch { pid: u32::MAX }).unwrap_err();
    assert_eq!(gone.kind, RefusalKind::Failed);
    let other = daemon.carry_out(Peer::ROOT, Request::Stats).unwrap_err();
    assert_eq!(other.kind, RefusalKind::Unknown);
}

#[test]
fn a_launched_process_becomes_an_application() {
    let (mut daemon, fake, _events) = daemon("");
    let own = std::process::id();

    for _ in 0..2 {
        daemon
            .carry_out(Peer::ROOT, app("new", AppEvent::Launch { pid: own }))
            .unwrap();
    }

    assert_eq!(
        fake.events(),
        ["switch new", "save new", "remove new", "switch new"]
    );
    let told = fake.0.borrow();
    let launched = told.apps.iter().flatten().last().unwrap();
    let Members::Tree { pid, with_root, .. } = launched.members else {
        panic!("{launched:?}");
    };
    assert_eq!((pid, with_root), (own, true));
    drop(told);
    daemon
        .carry_out(Peer::ROOT, app("a", AppEvent::Launch { pid: own }))
        .unwrap();
    assert_eq!(
        fake.events(),
        ["switch a"],
        "configured: found by its section"
    );
}

#[test]
fn executables_are_found_behind_links_and_others_are_told() {
    let place = tempfile::tempdir().unwrap();
    let bin = place.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("vim.basic"), "\u{7f}ELF").unwrap();
    std::fs::write(bin.join("tool"), "#!/usr/bin/python3\n").unwrap();
    std::os::unix::fs::symlink("vim.basic", bin.join("vi")).unwrap();
    let text = "[app.vi]\nexecutable = \"/bin/vi\"\n[app.tool]\nexecutable = \"/bin/tool\"\n\
                [app.later]\nexecutable = \"/bin/later\"\n[app.any]\nexecutable = \"/bin/*\"\n";

    let (daemon, fake, _events) = daemon_on(Root::at(place.path()), text);

    let told = fake.0.borrow();
    let members = |name: &str| {
        let app = told.apps.iter().flatten().find(|app| app.name == name);
        app.unwrap().members.clone()
    };
    assert_eq!(members("vi"), Members::Path("/bin/vim.basic".into()));
    assert_eq!(members("any"), Members::Executable("/bin/*".to_owned()));
    let warnings = &daemon.warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("there is no /bin/later yet"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("/bin/tool is a script"),
        "{warnings:?}"
    );
}

#[test]
fn a_program_that_comes_back_under_another_path_keeps_its_name() {
    let place = tempfile::tempdir().unwrap();
    let starts = |pid: u32, executable: &str| {
        let folder = place.path().join(format!("proc/{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        let stat = format!("{pid} (p) S 1 1 5 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 1 0 0 0\n");
        std::fs::write(folder.join("stat"), stat).unwrap();
        std::fs::write(folder.join("status"), "RssAnon:\t99999 kB\n").unwrap();
        std::os::unix::fs::symlink(executable, folder.join("exe")).unwrap();
    };
    let (mut daemon, _fake, _events) = daemon_on(Root::at(place.path()), "");
    daemon.config.discover.enable = true;
    let names = |daemon: &Daemon<Fake>| daemon.apps.names().map(str::to_owned).collect::<Vec<_>>();
    starts(70, "/opt/1.0/edit");
    daemon.discover();
    assert_eq!(names(&daemon), ["a", "b", "edit"]);

    std::fs::remove_dir_all(place.path().join("proc/70")).unwrap();
    starts(71, "/opt/1.1/edit");
    daemon.discover();
    assert_eq!(names(&daemon), ["a", "b", "edit"]);
    starts(72, "/opt/other/edit");
    daemon.discover();
    assert_eq!(names(&daemon), ["a", "b", "edit", "edit 2"], "both run");
}

#[test]
fn launched_applications_are_known_to_the_next_daemon_while_they_run() {
    let place = tempfile::tempdir().unwrap();
    let note = place.path().join("launched");
    let mut other = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let (mut first, _fake, _events) = daemon("");
    first.resume_launched(note.clone());
    for (name, pid) in [("own", std::process::id()), ("other", other.id())] {
        first
            .carry_out(Peer::ROOT, app(name, AppEvent::Launch { pid }))
            .unwrap();
    }
    drop(first);
    other.kill().unwrap();
    other.wait().unwrap();

    let (mut second, fake, _events) = daemon("");
    second.resume_launched(note.clone());

    let names: Vec<String> = second
        .status()
        .apps
        .into_iter()
        .map(|app| app.name)
        .collect();
    assert_eq!(names, ["a", "b", "own"]);
    assert_eq!(fake.events(), [""; 0]);
    std::fs::write(&note, "no note").unwrap();
    let (mut third, _fake, _events) = daemon("");
    third.resume_launched(note);
    assert_eq!(third.status().apps.len(), 2);
}

#[test]
fn it_stops_when_it_is_told_and_keeps_what_was_learned() {
    let (mut daemon, fake, events) = daemon("");
    let (answer, _answered) = std::sync::mpsc::sync_channel(1);
    let switch = Event::Request {
        peer: Peer::ROOT,
        request: app("b", AppEvent::Switch),
        answer,
    };
    events.send(switch).unwrap();
    events.send(Event::Stop).unwrap();

    daemon.run().unwrap();

    assert_eq!(fake.events(), ["switch b", "save"]);
}

#[test]
fn the_host_says_when_it_is_called_again() {
    let (mut daemon, fake, _events) = daemon("");
    for wait in [1, 50, 2000].map(Duration::from_millis) {
        fake.0.borrow_mut().tick.wait = wait;
        let before = Instant::now();
        daemon.tick();
        let after = Instant::now();
        assert!((before + wait..=after + wait).contains(&daemon.due.tick));
    }
}

#[test]
fn what_the_host_warns_of_is_told_once() {
    let (mut daemon, fake, _events) = daemon("");
    daemon.warnings.clear();
    fake.0.borrow_mut().tick.warning = Some("odd");
    daemon.tick();
    daemon.tick();
    assert_eq!(daemon.status().warnings, ["odd"]);
    fake.0.borrow_mut().tick.warning = None;
    daemon.tick();
    assert_eq!(daemon.status().warnings, [""; 0], "it holds no more");
}

#[test]
fn activity_counts_where_no_window_system_is_followed() {
    let (mut daemon, _fake, _events) = daemon("");
    let mut looks = |event| {
        daemon
            .carry_out(Peer::ROOT, windows(WindowSystem::I3, event))
            .unwrap();
        let due = Instant::now();
        daemon.due.activity = due;
        daemon.tick();
        daemon.due.activity != due
    };
    let (place, why) = (String::new(), String::new());
    assert!(!looks(WindowEvent::Live { place }));
    assert!(looks(WindowEvent::Absent { why }));
}

#[test]
fn what_is_learned_is_saved_soon_after_a_switch() {
    let (mut daemon, _fake, _events) = daemon("");
    let idle = daemon.due.save;
    daemon.work();
    assert_eq!(daemon.due.save, idle);
    focus(&mut daemon, 10);
    let after = daemon.due.save;
    assert!(after < idle);
    focus(&mut daemon, 20);
    assert_eq!(daemon.due.save, after, "no later by another switch");
}

#[test]
fn what_only_the_daemon_knows_is_in_its_status() {
    let (mut daemon, _fake, _events) = daemon("");
    daemon.set_own_devices(vec!["/dev/zram7".to_owned()]);
    let why = "no socket".to_owned();
    let absent = windows(WindowSystem::Sway, WindowEvent::Absent { why });
    daemon.carry_out(Peer::ROOT, absent).unwrap();
    for number in 0..MAX_WARNINGS + 5 {
        daemon.warn(format!("warning {number}"));
        daemon.warn(format!("warning {number}"));
    }

    let status = daemon.status();

    assert_eq!(status.pid, std::process::id());
    assert_eq!(status.swap.own_devices, ["/dev/zram7"]);
    assert!(status.memory.available_bytes > 0);
    let sway = status.signals.iter().find(|signal| signal.name == "sway");
    assert_eq!(sway.unwrap().state, "no socket");
    assert_eq!(status.warnings.len(), MAX_WARNINGS);
    assert_eq!(status.warnings.last().unwrap(), "warning 24");
}

#[test]
fn a_program_that_follows_hears_when_it_comes_and_goes() {
    let (mut daemon, fake, _events) = daemon("");
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("daemon.sock");
    daemon.set_switches(Switches::make(&socket, Access::Owner).unwrap());
    // This process is one of the application `b`.
    let pid = std::process::id();
    let start_ticks = Stat::read(&Root::machine(), pid).unwrap().start_ticks;
    let own = ProcessId { pid, start_ticks };
    fake.0.borrow_mut().processes[1].push(own);
    let mut follower = Follower::new(&socket).unwrap();
    daemon.work();
    assert_eq!(follower.look(), None, "nothing was switched to");
    focus(&mut daemon, 10);
    daemon.work();
    assert_eq!(follower.look(), Some(Phase::Background));
    focus(&mut daemon, 20);
    daemon.work();
    assert_eq!(follower.look(), Some(Phase::Foreground));
    let away = app("b", AppEvent::Background);
    daemon.carry_out(Peer::ROOT, away).unwrap();
    daemon.work();
    assert_eq!(follower.look(), Some(Phase::Background));
}

#[test]
fn a_process_that_pages_itself_is_left_to_itself() {
    let (mut daemon, fake, _events) = daemon("");
    let pid = std::process::id();
    let itself = |pid| Request::PagesItself { pid };
    assert_eq!(daemon.carry_out(Peer::ROOT, itself(pid)), Ok(Answer::Done));
    assert_eq!(fake.events(), [format!("leave process {pid}")]);
    let nobody = Peer { user: 65_534 };
    let others = daemon.carry_out(nobody, itself(1)).unwrap_err();
    assert_eq!(others.kind, RefusalKind::Denied);
    let none = daemon.carry_out(Peer::ROOT, itself(u32::MAX)).unwrap_err();
    assert_eq!(none.kind, RefusalKind::Failed);
    assert!(fake.events().is_empty());
}
