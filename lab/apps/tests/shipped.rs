//! The definitions that are shipped: all valid, with their drivers, known to `apps/install`, in the set of their coin.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use warmswap_apps::{AppSpec, Folders, Set, Size, load_all};
use warmswap_testkit::skip;

/// Shipped before there was a coin; they served for tuning from the beginning.
const FIRST: [&str; 6] = ["chromium", "cpython", "h2", "node", "redis", "sqlite"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps")
}

fn shipped() -> Vec<AppSpec> {
    load_all(&folder()).expect("definitions that are valid")
}

#[test]
fn each_definition_has_its_name_its_driver_and_what_it_needs() {
    let specs = shipped();
    assert!(
        specs.len() >= FIRST.len() + 12,
        "{} definitions",
        specs.len()
    );
    let folders = Folders {
        drivers: folder().join("drivers"),
        cache: "/cache".into(),
    };
    for spec in specs {
        let name = &spec.name;
        assert_eq!(spec.path.file_stem().unwrap().to_str(), Some(name.as_str()));
        for size in [Size::Small, Size::Normal] {
            for word in spec.command(size, &folders) {
                if let Some(at) = word.find(folders.drivers.to_str().unwrap()) {
                    assert!(Path::new(&word[at..]).is_file(), "{name}: no driver {word}");
                }
            }
        }
        assert!(
            spec.needs.programs.contains(&spec.start.command[0]),
            "{name} needs its own program"
        );
        assert!(!spec.needs.debian.is_empty(), "{name} cannot be installed");
        assert!(
            spec.amount.small < spec.amount.normal,
            "{name} has one size"
        );
    }
}

/// The first digit of the SHA-256 of `warmswap NAME`: 0 to 7 is tuning, 8 to f judging.
fn coin(name: &str) -> Set {
    let mut sum = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum");
    let mut stdin = sum.stdin.take().expect("piped");
    write!(stdin, "warmswap {name}").expect("a pipe");
    drop(stdin);
    let said = sum.wait_with_output().expect("a sum").stdout;
    match said[0] {
        b'0'..=b'7' => Set::Tuning,
        _ => Set::Judging,
    }
}

#[test]
fn the_coin_decides_what_a_definition_is_for() {
    let specs = shipped();
    for spec in &specs {
        let expected = match FIRST.contains(&spec.name.as_str()) {
            true => Set::Tuning,
            false => coin(&spec.name),
        };
        assert_eq!(spec.set, expected, "{}", spec.name);
    }
    let judging = specs.iter().filter(|spec| spec.set == Set::Judging);
    assert!(judging.count() >= 4);
}

#[test]
fn the_script_knows_how_to_install_each() {
    let names: Vec<_> = shipped().into_iter().map(|spec| spec.name).collect();
    let check = |names: &[String]| {
        let script = folder().join("install");
        Command::new("bash")
            .arg(script)
            .arg("--check")
            .args(names)
            .output()
            .expect("bash")
    };

    let known = check(&names);
    // What is missing is said, and by the status too.
    let is_missing = String::from_utf8_lossy(&known.stdout).contains(": missing: ");
    let code = known.status.code();
    assert_eq!(code, Some(i32::from(is_missing)), "{known:?}");

    let unknown = check(&["no-such-program".to_owned()]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no-such-program"));
}

#[test]
fn the_python_drivers_are_python() {
    let name = "the_python_drivers_are_python";
    let script = "import sys\nfor path in sys.argv[1:]: compile(open(path).read(), path, 'exec')";
    let entries = std::fs::read_dir(folder().join("drivers"))
        .unwrap()
        .flatten();
    let drivers: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "py"))
        .collect();
    let Ok(done) = Command::new("python3")
        .args(["-c", script])
        .args(&drivers)
        .output()
    else {
        skip!(name, "python3 is not installed");
    };
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(drivers.len() > 10);
}
