//! Programs that share one budget.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use warmswap_protocol::{
    Client, Group, Member, ProgramStats, RUN_VARIABLE, Request, RunSettings, Shares,
};
use warmswap_testkit::{preload_library, skip};

use crate::common::{Budget, Case, compile, program, why_not};

const MIB: u64 = 1 << 20;
const BUDGET_MIB: u64 = 32;
/// What the pager and the library have of a share, and what may be there for the next step.
const SLACK_BYTES: u64 = 4 * MIB;

/// A group and the program that is to be its members.
struct Place {
    budget_bytes: u64,
    folder: TempDir,
    program: PathBuf,
    _compiled: TempDir,
    group: Group,
}

impl Place {
    /// `None` where programs cannot be paged.
    fn new(name: &str) -> Option<Self> {
        Self::with_budget(name, BUDGET_MIB)
    }

    fn with_budget(name: &str, mib: u64) -> Option<Self> {
        if let Some(reason) = why_not(&Case::new(Budget { mib })) {
            skip!(name, "{reason}"; None);
        }
        let (compiled, program) = compile("member")?;
        let folder = tempfile::tempdir().expect("a folder");
        let group = Group::open(&group_of(folder.path()), mib * MIB).expect("a group");
        Some(Self {
            budget_bytes: mib * MIB,
            folder,
            program,
            _compiled: compiled,
            group,
        })
    }

    fn start(&self, name: &str) -> Running {
        let control = self.folder.path().join(name);
        let settings = RunSettings {
            group: Some(group_of(self.folder.path())),
            control: Some(control.clone()),
            ..RunSettings::new("warmswap", self.budget_bytes)
        };
        let (socket, end) = UnixStream::pair().expect("two ends");
        let mut command = Command::new(&self.program);
        command
            .env("LD_PRELOAD", preload_library())
            .env(RUN_VARIABLE, settings.to_variable().expect("text"))
            .stdin(OwnedFd::from(end));
        let child = command.spawn().expect("the program is there");
        wait_until(&format!("{name} is a member"), || {
            control.exists() && self.member(child.id()).is_some()
        });
        Running {
            client: Client::connect(&control, Duration::from_secs(600)).expect("it listens"),
            child,
            socket,
        }
    }

    /// What the members have, which is the budget at most.
    fn shares(&self) -> Shares {
        let shares = self.group.shares().expect("a whole table");
        let all: u64 = shares.members.iter().map(|member| member.share_bytes).sum();
        assert!(all <= self.budget_bytes, "{shares:?}");
        shares
    }

    fn member(&self, pid: u32) -> Option<Member> {
        let members = self.shares().members;
        members.into_iter().find(|member| member.pid == pid)
    }

    fn share_of(&self, running: &Running) -> u64 {
        self.member(running.child.id())
            .expect("a member")
            .share_bytes
    }
}

fn group_of(folder: &Path) -> PathBuf {
    folder.join("test.group")
}

/// Waits, but not for ever.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}: never");
}

/// A member.
struct Running {
    child: Child,
    socket: UnixStream,
    client: Client,
}

impl Running {
    fn ask(&mut self, pages: u64) {
        self.socket
            .write_all(&pages.to_ne_bytes())
            .expect("it listens");
        self.socket.read_exact(&mut [0]).expect("it answers");
    }

    /// Writes so much more memory.
    fn fill(&mut self, mib: u64) {
        self.ask(mib * MIB / 4096);
    }

    /// Has it read all of it.
    fn check(&mut self) {
        self.ask(0);
    }

    fn tell(&mut self, request: &Request) {
        self.client.tell(request).expect("it does");
    }

    fn stats(&mut self) -> ProgramStats {
        self.client.stats().expect("it answers")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("our own child");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that failed has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn one_may_have_more_than_half() {
    let Some(place) = Place::new("one_may_have_more_than_half") else {
        return;
    };
    let (mut large, mut small) = (place.start("large"), place.start("small"));
    large.fill(22);
    small.fill(4);
    wait_until("their shares are what they have", || {
        place.share_of(&large) >= 22 * MIB && place.share_of(&small) >= 4 * MIB
    });
    let stats = [large.stats(), small.stats()];
    assert!(
        stats.iter().all(|stats| stats.swapped_out_pages == 0),
        "{stats:?}"
    );
    assert!(
        stats
            .iter()
            .all(|stats| stats.group.as_deref() == Some("test"))
    );
    assert!(stats[0].budget_bytes >= 22 * MIB, "{stats:?}");
}

#[test]
fn one_in_the_background_gives_and_gets_it_back() {
    let Some(place) = Place::new("one_in_the_background_gives_and_gets_it_back") else {
        return;
    };
    let mut first = place.start("first");
    first.fill(60);
    assert!(first.stats().managed, "it has more than there is");
    assert!(place.share_of(&first) > (BUDGET_MIB - 4) * MIB);
    first.tell(&Request::Background);

    let mut second = place.start("second");
    second.fill(60);
    second.check();
    let half = BUDGET_MIB * MIB / 2;
    wait_until("the second has more than the first", || {
        place.share_of(&first) < half && place.share_of(&second) > half
    });
    for _ in 0..3 {
        second.tell(&Request::Background);
        first.tell(&Request::Foreground);
        first.check();
        first.tell(&Request::LaunchDone);
        wait_until("the first has more again", || {
            place.share_of(&second) < half && place.share_of(&first) > half
        });
        first.tell(&Request::Background);
        second.tell(&Request::Foreground);
        second.check();
        second.tell(&Request::LaunchDone);
    }
    let used = [&mut first, &mut second].map(|program| program.stats().used_bytes);
    let used: u64 = used.iter().sum();
    assert!(used <= BUDGET_MIB * MIB + SLACK_BYTES, "{used}");
}

#[test]
fn those_in_the_background_give_ahead_of_the_next_launch() {
    let name = "those_in_the_background_give_ahead_of_the_next_launch";
    let Some(place) = Place::with_budget(name, 64) else {
        return;
    };
    let mut programs = ["first", "second", "third"].map(|name| place.start(name));
    for program in &mut programs {
        program.fill(24);
        program.tell(&Request::Background);
    }
    for at in [0, 1, 2, 0, 1, 2] {
        let program = &mut programs[at];
        program.tell(&Request::Foreground);
        program.check();
        program.tell(&Request::LaunchDone);
        wait_until("the next launch has room", || {
            let shares = place.shares();
            shares.unassigned_bytes() >= shares.reserve_bytes
        });
        programs[at].tell(&Request::Background);
    }
    assert!(place.shares().reserve_bytes > 0, "a launch takes something");
}

#[test]
fn what_a_killed_one_had_is_there_for_the_others() {
    let Some(place) = Place::new("what_a_killed_one_had_is_there_for_the_others") else {
        return;
    };
    let mut first = place.start("first");
    first.fill(60);
    let mut second = place.start("second");
    second.fill(2);
    first.signal(Signal::KILL);
    first.child.wait().expect("our child");
    second.fill(24);
    // A paged program asks when it faults.
    let has_all = |second: &mut Running| {
        second.check();
        place.share_of(second) >= 24 * MIB && place.member(first.child.id()).is_none()
    };
    let has_taken = (0..1000).any(|_| has_all(&mut second));
    assert!(has_taken, "{:?}", place.shares());
}

#[test]
fn a_stopped_one_holds_no_other_up_and_gives_when_it_goes_on() {
    let Some(place) = Place::new("a_stopped_one_holds_no_other_up") else {
        return;
    };
    let mut first = place.start("first");
    first.fill(60);
    first.tell(&Request::Background);
    first.signal(Signal::STOP);
    let had_bytes = place.share_of(&first);

    let mut second = place.start("second");
    second.fill(40);
    second.check();
    assert_eq!(place.share_of(&first), had_bytes);
    assert!(
        second.stats().swapped_out_pages > 0,
        "it had to do with less"
    );

    first.signal(Signal::CONT);
    let gave = |second: &mut Running| {
        second.check();
        place.share_of(&first) < BUDGET_MIB * MIB / 2
    };
    assert!((0..1000).any(|_| gave(&mut second)), "{:?}", place.shares());
    first.check();
}

#[test]
fn a_group_of_one_is_as_a_budget_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = Case {
        group: Some(group_of(folder.path())),
        ..Case::new(Budget { mib: 12 })
    };
    let Some(stats) = program("touch", &case) else {
        return;
    };
    assert!(stats.managed && stats.faults.pool > 1000, "{stats:?}");
    let has_all = (11 * MIB..=12 * MIB).contains(&stats.budget_bytes);
    assert!(has_all && stats.used_bytes <= 13 * MIB, "{stats:?}");
}

/// A forked child goes on with what its parent had, and takes what it needs beyond that as any member.
#[test]
fn forked_children_in_a_group() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["fork", "nested"] {
        let case = Case {
            group: Some(group_of(folder.path())),
            ..Case::new(Budget { mib: 12 })
        };
        let Some(stats) = program(name, &case) else {
            return;
        };
        assert!(stats.managed, "{name}: {stats:?}");
    }
}
