//! What was learned about a program in one run is known in the next.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use warmswap_protocol::{Client, Request};

use crate::common::{Budget, Case, program_while};

const NAME: &str = "used";
/// Pages that the program uses at each launch.
const USED: u64 = 256;
/// Launches in which something happens that may fail to in one of them, on a machine that does other things too.
const MOST_LAUNCHES: usize = 20;
/// How often it is asked whether pages came back, in a launch.
const LOOKS: usize = 400;

/// The program while it runs.
struct Running {
    socket: UnixStream,
    client: Client,
}

impl Running {
    fn use_pages(&mut self, which: u8) {
        self.socket.write_all(&[which]).expect("it listens");
        let mut answer = [0];
        self.socket.read_exact(&mut answer).expect("it answers");
    }

    fn tell(&mut self, request: &Request) {
        self.client.tell(request).expect("it does");
    }

    /// Pages that came back so far.
    fn pages_in(&mut self) -> u64 {
        self.client.stats().expect("it answers").swapped_in_pages
    }

    /// It goes to the background, and what it uses at launches leaves for others.
    fn leave(&mut self) {
        self.tell(&Request::Background);
        self.use_pages(b'o');
    }

    fn launch(&mut self) {
        self.tell(&Request::Foreground);
        self.use_pages(b'u');
        self.tell(&Request::LaunchDone);
    }

    /// A launch in which it uses nothing; pages that came back.
    fn launch_idly(&mut self) -> u64 {
        let before = self.pages_in();
        self.tell(&Request::Foreground);
        let mut came = 0;
        for _ in 0..LOOKS {
            came = self.pages_in() - before;
            if came >= USED / 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.tell(&Request::LaunchDone);
        came
    }
}

/// Runs it; false where it cannot run.
fn run(learned: Option<&Path>, meanwhile: impl FnOnce(&mut Running)) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let control = folder.path().join("control");
    let case = Case {
        scheme: "asap",
        learned: learned.map(Path::to_owned),
        control: Some(control.clone()),
        ..Case::new(Budget { mib: 7 })
    };
    let (mut socket, end) = UnixStream::pair().expect("two ends");
    let stats = program_while(NAME, &case, OwnedFd::from(end), || {
        // It has written all its pages by then.
        socket.write_all(b"o").expect("it listens");
        socket.read_exact(&mut [0]).expect("it answers");
        let client = Client::connect(&control, Duration::from_secs(60)).expect("it listens");
        let mut running = Running { socket, client };
        meanwhile(&mut running);
    });
    stats.is_some_and(|stats| {
        assert!(stats.managed, "it was never paged");
        true
    })
}

/// Pages that are known to be used at launches.
fn known(folder: &Path) -> usize {
    let learned = warmswap_learned::load(folder, NAME).expect("a whole file");
    learned.map_or(0, |learned| learned.anon_targets.len())
}

#[test]
fn a_footprint_is_known_in_the_next_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let could_run = run(Some(folder), |program| {
        for _ in 0..MOST_LAUNCHES {
            program.leave();
            if known(folder) >= USED as usize {
                break;
            }
            program.launch();
        }
        assert!(known(folder) >= USED as usize, "it is saved meanwhile");
        std::fs::remove_file(warmswap_learned::path_of(folder, NAME)).expect("it is there");
        program.launch();
    });
    if !could_run {
        return;
    }
    assert!(known(folder) >= USED as usize, "it is saved at the end");

    let comes_back = |program: &mut Running, launches: usize| {
        (0..launches).any(|_| {
            program.leave();
            program.launch_idly() >= USED / 2
        })
    };
    // On a machine that does other things too, a window may close before anything has come.
    run(Some(folder), |program| {
        assert!(comes_back(program, 4), "it is used");
    });
    run(None, |program| {
        assert!(!comes_back(program, 2), "nothing else brings pages back");
    });
}
