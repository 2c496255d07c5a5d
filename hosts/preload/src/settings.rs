//! What the command asked for, and the space that it asked for.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

use libmimalloc_sys as mi;
use warmswap_arena::ArenaConfig;
use warmswap_policy::SchemeSpec;
use warmswap_program::Space;
use warmswap_protocol::{Mechanism, RUN_VARIABLE, RunSettings};

use crate::{filters, go, handles, keeper, limits, pins, report};

/// Where the space is, if nothing else is there: low enough for runtimes that like addresses of 35 bits.
const SPACE_ADDRESS: usize = 4 << 30;
/// Addresses of the space.
const SPACE_BYTES: usize = 64 << 30;

/// Options of mimalloc that its crate has no names for.
const ARENA_EAGER_COMMIT: mi::mi_option_t = 4;
const PURGE_DELAY: mi::mi_option_t = 15;

/// What was asked for, and what came of it.
#[derive(Debug)]
pub struct Program {
    pub settings: RunSettings,
    pub space: Space,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// The program's settings and space. `None` before the start, and for a program that is not paged.
pub fn program() -> Option<&'static Program> {
    PROGRAM.get()
}

/// The program's space.
pub fn space() -> Option<&'static Space> {
    PROGRAM.get().map(|program| &program.space)
}

/// Says something about the program on standard error.
pub fn say(line: &str) {
    let line = format!("warmswap: {line}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}

/// Reads the settings and makes the space. A program that cannot be paged runs as it would otherwise, after a
/// line that says so.
pub fn start() {
    let Some(value) = std::env::var_os(RUN_VARIABLE) else {
        return;
    };
    // Commit memory as it is used, so that what is mapped says what may be used.
    // SAFETY: options may be set at any time.
    unsafe {
        mi::mi_option_set(ARENA_EAGER_COMMIT, 0);
        mi::mi_option_set(PURGE_DELAY, 100);
    }
    let made = RunSettings::from_variable(&value)
        .map_err(|error| error.to_string())
        .and_then(|settings| {
            report::writes_as(&settings);
            make(settings)
        });
    match made {
        Ok(program) => {
            // A client may want to talk to it before it is paged.
            let needs_keeper = program.settings.control.is_some();
            let Ok(()) = PROGRAM.set(program) else { return };
            report::start();
            if needs_keeper {
                keeper::start();
            }
        }
        Err(error) => {
            say(&format!("this program runs without paging: {error}"));
            report::says_unpaged(error.as_bytes());
        }
    }
}

fn make(settings: RunSettings) -> Result<Program, String> {
    if limits::are_addresses_limited() {
        return Err("its address space or its data is limited (ulimit -v, ulimit -d)".to_owned());
    }
    if !filters::let_paging_through() {
        return Err("a filter of system calls (seccomp) ends what pages programs".to_owned());
    }
    if go::is_loaded_at_start() {
        return Err(go::REASON.to_owned());
    }
    if handles::is_preceded() {
        return Err("it maps memory by functions of its own (a sanitizer does)".to_owned());
    }
    let scheme = SchemeSpec::parse(&settings.scheme).map_err(|error| error.to_string())?;
    let config = ArenaConfig {
        backing: settings.backing.clone(),
        backing_limit_bytes: settings.backing_limit_bytes,
        learned_folder: settings.learned.clone(),
        mechanism: settings.mechanism,
        handler_threads: settings.fault_threads,
        address_space_bytes: SPACE_BYTES,
        ..ArenaConfig::new(settings.budget_bytes, scheme)
    };
    let space = limits::reserve(|| Space::new(config, &name(), SPACE_ADDRESS));
    let space = space.map_err(|error| error.to_string())?;
    if settings.mechanism == Mechanism::Copy {
        let refused = pins::refuse();
        refused.map_err(|error| format!("cannot refuse it io_uring and O_DIRECT: {error}"))?;
    }
    Ok(Program { settings, space })
}

/// The name that the program was started by, as of its first call: what comes last in `argv[0]`, or in the path of the
/// program's file.
pub fn name() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        let started_by = command.split(|&byte| byte == 0).next().unwrap_or_default();
        let file = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let started_by = Path::new(OsStr::from_bytes(started_by)).file_name();
        let name = started_by.or(file.file_name()).unwrap_or(OsStr::new("?"));
        // A login shell is started as `-sh`.
        name.to_string_lossy().trim_start_matches('-').to_owned()
    });
    name.clone()
}
