use super::*;
use warmswap_sys::process::Stat;

/// An application made of a shell script that speaks the protocol.
fn script(text: &str) -> AppSpec {
    let quoted = toml::Value::String(text.to_owned());
    let definition = format!(
        "name = \"script\"\nsummary = \"\"\n[start]\ncommand = [\"sh\", \"-c\", {quoted}]\n\
         measured = \"tree\"\nready_limit_s = 20\nenvironment = {{ EXTRA = \"yes\" }}\n\
         [requests]\nrelaunch = \"\"\nuse = \"\"\nlimit_s = 1\n\
         [amount]\nunit = \"\"\nsmall = 1\nnormal = 2\n[needs]\nprograms = [\"sh\"]\n"
    );
    AppSpec::parse(&definition, Path::new("/nowhere/script.toml")).unwrap()
}

struct Fixture {
    dir: tempfile::TempDir,
    undo: Undo,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Root::machine(), &dir.path().join("state")).unwrap();
        Self { dir, undo }
    }

    fn start(&self, spec: &AppSpec) -> Result<RunningApp, AppError> {
        let directories = Directories {
            cache: self.dir.path().to_owned(),
            temporary: self.dir.path().to_owned(),
        };
        RunningApp::start(spec, Size::Small, &directories, &self.undo)
    }

    fn leftovers(&self) -> usize {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        entries
            .flatten()
            .filter(|e| e.file_name() != "state")
            .count()
    }
}

#[test]
fn requests_are_answered_and_the_end_leaves_nothing() {
    let fixture = Fixture::new();
    let spec =
        script("sleep 60 & echo ready; while read kind seed; do echo done $kind-$seed; done");
    let mut app = fixture.start(&spec).unwrap();
    let pids = app.pids().unwrap();
    assert_eq!(pids.len(), 2, "the shell and its sleeping child");

    let response = app.request(Request::Relaunch, 7).unwrap();
    assert_eq!(response.digest, "relaunch-7");
    assert_eq!(app.request(Request::Use, 8).unwrap().digest, "use-8");
    app.stop().unwrap();

    for pid in pids {
        assert!(
            Stat::read(&Root::machine(), pid).map_or(true, |s| s.state == 'Z'),
            "{pid} lives"
        );
    }
    assert_eq!(fixture.leftovers(), 0);
}

#[test]
fn the_environment_is_scrubbed() {
    let fixture = Fixture::new();
    let spec = script("echo ready; read line; echo done $(env | cut -d= -f1 | sort | tr '\\n' ,)");
    let mut app = fixture.start(&spec).unwrap();

    let digest = app.request(Request::Use, 0).unwrap().digest;

    // The shell itself adds PWD, OLDPWD, SHLVL and _.
    let own = ["", "PWD", "OLDPWD", "SHLVL", "_"];
    let names: Vec<&str> = digest.split(',').filter(|n| !own.contains(n)).collect();
    assert_eq!(names, ["EXTRA", "HOME", "LANG", "PATH", "TMPDIR", "TZ"]);
}

#[test]
fn an_application_that_does_not_answer_is_late_and_is_ended() {
    let fixture = Fixture::new();
    let mut app = fixture
        .start(&script("echo ready; read line; sleep 60"))
        .unwrap();

    let error = app.request(Request::Use, 0).unwrap_err();

    assert!(
        matches!(error, AppError::Late { limit_s: 1, .. }),
        "{error}"
    );
    drop(app);
    assert_eq!(fixture.leftovers(), 0);
}

#[test]
fn an_application_that_ends_tells_why() {
    let fixture = Fixture::new();

    let error = fixture
        .start(&script("echo it hurts >&2; exit 3"))
        .unwrap_err();

    assert!(matches!(error, AppError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("it hurts"), "{error}");
    assert_eq!(fixture.leftovers(), 0);
}

#[test]
fn an_error_of_the_driver_is_handed_on() {
    let fixture = Fixture::new();
    let mut app = fixture
        .start(&script("echo ready; read line; echo error no such page"))
        .unwrap();

    let error = app.request(Request::Relaunch, 3).unwrap_err();

    assert!(
        error.to_string().contains("no such page") && error.to_string().contains("relaunch 3"),
        "{error}"
    );
}

#[test]
fn a_panic_ends_the_processes() {
    let fixture = Fixture::new();
    let spec = script("echo ready; sleep 60");
    let pid = std::sync::Mutex::new(0);

    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let app = fixture.start(&spec).unwrap();
        *pid.lock().unwrap() = app.pids().unwrap()[0];
        std::panic::panic_any("on purpose");
    }));

    assert!(outcome.is_err());
    assert!(Stat::read(&Root::machine(), pid.into_inner().unwrap()).is_err());
    assert_eq!(fixture.leftovers(), 0);
}
