//! The processes that read window systems for the daemon: what they may do, and what they cannot do to the daemon.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, sync_channel};
use std::time::Duration;

use crate::manager::{Of, USER, change, server};
use warmswap_control::Peer;
use warmswap_daemon::signals::Heard;
use warmswap_daemon::signals::helper::{Account, Helper, HelperError, System};
use warmswap_sys::{Root, is_root, tree};
use warmswap_testkit::skip;

/// How long a message may take that will come.
const PATIENCE: Duration = Duration::from_secs(60);

fn ipc(socket: PathBuf) -> System {
    System::Ipc {
        socket,
        display: None,
    }
}

/// The helper of this process whose program was started with these arguments.
fn child(arguments: &str) -> Option<u32> {
    let own = std::process::id();
    let children = tree::all(&Root::machine()).unwrap();
    let is_it = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .replace('\0', " ")
            .ends_with(arguments)
    };
    children
        .into_iter()
        .filter(|stat| stat.parent == own && is_it(stat.pid))
        .map(|stat| stat.pid)
        .next()
}

#[test]
fn a_helper_has_no_rights_and_dies_with_the_thread_that_follows() {
    let name = "a_helper_has_no_rights_and_dies_with_the_thread_that_follows";
    if !is_root() {
        skip!(name, "needs root");
    }
    let (_place, path, sender) = server(Of::Process(11));
    let account = Account::of_socket(&path).unwrap();
    assert_eq!((account.user, account.peer), (USER, Peer { user: USER }));
    let (heard, told) = channel();
    let mut how = crate::manager::helper();
    // So that it is told from those of other tests.
    how.arguments.push("--test-threads=1".into());
    let follower = std::thread::spawn(move || {
        how.follow(&ipc(path), account, |what| heard.send(what).is_ok())
    });
    let next = || told.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(next(), Heard::Live(_)));
    assert_eq!(next(), Heard::Window(11));

    let pid = child("--exact serve_as_helper --test-threads=1 ").expect("it runs");
    // The thread of the test harness that the helper's test runs in; the command has one thread.
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap())
        .max_by_key(|status| status.starts_with("Name:\tserve_as_helper\n"))
        .unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {status}"))
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    let user = USER.to_string();
    assert_eq!(field("Uid:"), [user.as_str(); 4]);
    assert_eq!(field("Gid:"), [user.as_str(); 4]);
    assert_eq!(field("Groups:"), [""; 0]);
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    for limit in ["Max file size", "Max processes", "Max core file size"] {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit));
        let words: Vec<_> = line.unwrap().split_whitespace().collect();
        assert_eq!(words[..2], ["0", "0"], "{limit}");
    }
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let link = std::fs::read_link(entry.unwrap().path()).unwrap();
        let link = link.to_string_lossy().into_owned();
        let known = [
            "socket:",
            "/dev/null",
            "/memfd:xauthority",
            "pipe:",
            "anon_inode:",
        ];
        assert!(known.iter().any(|known| link.starts_with(known)), "{link}");
    }

    drop(told);
    sender.send(change("focus", Of::Process(12))).unwrap();
    follower.join().unwrap().unwrap();
    assert!(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "it is ended and waited for"
    );
}

#[test]
fn nobody_reads_the_window_systems_of_root() {
    if !is_root() {
        skip!("nobody_reads_the_window_systems_of_root", "needs root");
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("X7");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let account = Account::of_socket(&path).unwrap();
    assert_eq!((account.user, account.group), (65_534, 65_534));
    assert_eq!(account.peer, Peer::ROOT);
    for display in [":7", ":7.0", "unix:7"] {
        assert_eq!(Account::of_display(place.path(), display).unwrap(), account);
    }
    std::os::unix::fs::chown(&path, Some(USER), Some(USER)).unwrap();
    let own = Account::of_display(place.path(), ":7").unwrap();
    assert_eq!((own.user, own.group, own.peer.user), (USER, USER, USER));
    // Of these nothing is known: what is heard counts for no user's programs.
    for display in [":8", "elsewhere:7", "nonsense"] {
        let nobody = Account::of_display(place.path(), display).unwrap();
        assert_eq!(
            (nobody.user, nobody.peer.user),
            (65_534, 65_534),
            "{display}"
        );
    }
}

#[test]
fn a_link_speaks_for_its_owner_only() {
    let place = tempfile::tempdir().unwrap();
    let [socket, link, file] = ["socket", "link", "file"].map(|name| place.path().join(name));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    std::fs::write(&file, "").unwrap();
    for path in [link, file] {
        let error = Account::of_socket(&path).unwrap_err();
        assert!(matches!(error, HelperError::NotASocket { .. }), "{error}");
    }
}

/// Runs a shell script as a helper, and gives what was heard and how it ended.
fn with_script(script: &str) -> (Vec<Heard>, Result<(), HelperError>) {
    let helper = Helper {
        program: PathBuf::from("/bin/sh"),
        arguments: ["-c", script].map(Into::into).to_vec(),
        environment: Vec::new(),
    };
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let account = Account::of_socket(&path).unwrap();
    let (heard, told) = sync_channel(10);
    let ended = helper.follow(&ipc(path), account, |what| heard.try_send(what).is_ok());
    drop(heard);
    (told.iter().collect(), ended)
}

#[test]
fn a_helper_that_crashes_ends_or_talks_nonsense_is_an_error_and_nothing_else() {
    type Check = fn(&HelperError) -> bool;
    let nonsense: [(&str, Check); 7] = [
        ("exit 0", |error| matches!(error, HelperError::Ended)),
        ("kill -SEGV $$", |error| matches!(error, HelperError::Ended)),
        ("printf '\\377\\377xxx' >&0", |error| {
            matches!(error, HelperError::Nonsense(_))
        }),
        ("printf '\\5\\0\\4x' >&0", |error| {
            // It may be gone before it is read; within a message both mean the same.
            matches!(error, HelperError::Nonsense(_) | HelperError::Ended)
        }),
        ("printf '\\2\\0\\77x' >&0", |error| {
            matches!(error, HelperError::Nonsense(_))
        }),
        ("printf '\\3\\0\\1:0' >&0", |error| {
            matches!(error, HelperError::Orders)
        }),
        (
            "printf '\\3\\0\\6no' >&0; sleep 1000",
            |error| matches!(error, HelperError::Failed(why) if why == "no"),
        ),
    ];
    for (script, is_expected) in nonsense {
        let (heard, ended) = with_script(script);
        assert_eq!(heard, [], "{script}");
        let error = ended.unwrap_err();
        assert!(is_expected(&error), "{script}: {error}");
    }
}

#[test]
fn a_helper_that_floods_is_read_no_faster_than_it_is_heard() {
    let flood = "while :; do printf '\\5\\0\\5\\1\\0\\0\\0' >&0; done";
    let (heard, ended) = with_script(flood);
    assert!(ended.is_ok(), "the listener had enough: {ended:?}");
    assert_eq!(heard, vec![Heard::Window(1); 10]);
}

#[test]
fn nothing_but_the_daemon_starts_a_helper() {
    let run = |daemon: Option<String>| {
        let mut command = std::process::Command::new("/proc/self/exe");
        command
            .args(["--exact", "serve_as_helper"])
            .env(crate::manager::HELPER, "1");
        command.env_remove("WARMSWAP_DAEMON");
        command.envs(daemon.map(|daemon| ("WARMSWAP_DAEMON", daemon)));
        command.stdin(std::process::Stdio::null());
        command.status().unwrap().code()
    };
    assert_eq!(run(None), Some(1));
    if is_root() {
        // One that is root still reads nothing.
        assert_eq!(run(Some(std::process::id().to_string())), Some(1));
    } else {
        assert_eq!(run(Some("1".to_owned())), Some(1));
    }
}
