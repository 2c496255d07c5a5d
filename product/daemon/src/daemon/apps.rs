//! The applications: those that are configured, launched, and found.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use warmswap_kernel::application::{self, ProcessId};
use warmswap_kernel::{AppId, Application, Members};
use warmswap_protocol::Standing;
use warmswap_sys::Root;
use warmswap_sys::process::Stat;

use crate::config::Config;
use crate::config::sections::DiscoverSection;
use crate::discover::{Found, scan};
use crate::host::Host;

/// Looks in which an application that was found or launched may be without processes before it is forgotten.
const MAX_EMPTY_LOOKS: u32 = 20;

/// Launched applications at most: any user of the socket can name more and more of them.
const MAX_LAUNCHED: usize = 1024;

/// Found applications at most; the largest count.
const MAX_FOUND: usize = 128;

/// How an application came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Configured,
    Launched { empty_looks: u32 },
    Found { empty_looks: u32 },
}

#[derive(Debug)]
struct KnownApp {
    id: AppId,
    application: Application,
    known: Known,
}

/// All applications, in the order in which the host knows them: a process belongs to the first that fits.
#[derive(Debug, Default)]
pub(super) struct Apps {
    list: Vec<KnownApp>,
    /// Where those that were launched are noted for the next daemon.
    note: Option<PathBuf>,
    /// The one that is looked at.
    front: Option<AppId>,
    /// One was looked at.
    has_switched: bool,
    /// Numbers that were given back since they were last asked for.
    removed: Vec<AppId>,
}

/// Whether the process that an application was launched as is still there.
fn runs(application: &Application, root: &Root) -> bool {
    let Members::Tree {
        pid, start_ticks, ..
    } = application.members
    else {
        return false;
    };
    Stat::read(root, pid).is_ok_and(|stat| stat.start_ticks == start_ticks)
}

/// The processes of an executable that is configured, and a warning where there will be none. A process has the path that a
/// symbolic link leads to.
fn of_executable(pattern: &str, root: &Root) -> (Members, Option<String>) {
    let as_written = Members::Executable(pattern.to_owned());
    if !pattern.starts_with('/') || pattern.contains('*') {
        return (as_written, None);
    }
    let path = root.path(pattern);
    let begin = |path: &Path| {
        let mut begin = [0; 2];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
        read.map(|()| begin)
    };
    let warning = match begin(&path) {
        Ok([b'#', b'!']) => Some(format!(
            "{pattern} is a script, whose processes run its interpreter: start it by `warmswap launch`"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("there is no {pattern} yet"))
        }
        _ => None,
    };
    let resolved = path.canonicalize().ok();
    let top = root.path("/").canonicalize().unwrap_or_default();
    let resolved = resolved
        .as_deref()
        .and_then(|path| path.strip_prefix(&top).ok());
    match resolved {
        Some(path) => (Members::Path(Path::new("/").join(path)), warning),
        None => (as_written, warning),
    }
}

impl Apps {
    /// Adds those that are configured. Returns warnings.
    pub fn configure(&mut self, config: &Config, root: &Root, host: &mut impl Host) -> Vec<String> {
        let mut warnings = Vec::new();
        for (name, section) in &config.apps {
            if section.executable.is_some() && section.cgroup.is_some() {
                warnings.push(format!("[app.{name}] has both keys; executable counts"));
            }
            let members = match (&section.executable, &section.cgroup) {
                (Some(pattern), _) => {
                    let (members, warning) = of_executable(pattern, root);
                    warnings.extend(warning.map(|why| format!("[app.{name}]: {why}")));
                    members
                }
                (None, Some(group)) => Members::Group {
                    path: group.into(),
                    without: Vec::new(),
                },
                (None, None) => continue,
            };
            let application = Application {
                name: name.clone(),
                members,
            };
            if let Err(warning) = self.add(application, Known::Configured, host) {
                warnings.push(warning);
            }
        }
        warnings
    }

    /// A program is being started as the application `name`, by the process of `stat`.
    pub fn launch(
        &mut self,
        name: &str,
        stat: &Stat,
        host: &mut impl Host,
    ) -> Result<AppId, String> {
        if let Some(app) = self.list.iter().find(|app| app.application.name == name) {
            if app.known == Known::Configured {
                // Its processes are found as its section says.
                return Ok(app.id);
            }
            let id = app.id;
            self.remove(id, host);
        }
        if self.launched().count() >= MAX_LAUNCHED {
            return Err(format!("{MAX_LAUNCHED} launched applications run already"));
        }
        let members = Members::Tree {
            pid: stat.pid,
            start_ticks: stat.start_ticks,
            with_root: true,
        };
        let application = Application {
            name: name.to_owned(),
            members,
        };
        let app = self.add(application, Known::Launched { empty_looks: 0 }, host)?;
        self.note_launched()?;
        Ok(app)
    }

    /// Goes on with the applications whose launch an earlier daemon noted at `path`, as far as they run, and
    /// notes launches there from now on. Returns warnings.
    pub fn resume(&mut self, path: PathBuf, root: &Root, host: &mut impl Host) -> Vec<String> {
        // A note that cannot be read loses names, and nothing else.
        let noted = std::fs::read_to_string(&path).unwrap_or_default();
        let noted: Vec<Application> = serde_json::from_str(&noted).unwrap_or_default();
        self.note = Some(path);
        noted
            .into_iter()
            .filter(|application| runs(application, root))
            .filter_map(|application| {
                let known = Known::Launched { empty_looks: 0 };
                self.add(application, known, host).err()
            })
            .collect()
    }

    /// Notes the applications that were launched.
    fn note_launched(&self) -> Result<(), String> {
        let Some(path) = &self.note else {
            return Ok(());
        };
        let launched: Vec<&Application> = self.launched().collect();
        let text = serde_json::to_string(&launched).map_err(|error| error.to_string())?;
        std::fs::write(path, text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    fn launched(&self) -> impl Iterator<Item = &Application> {
        let launched = |app: &&KnownApp| matches!(app.known, Known::Launched { .. });
        self.list
            .iter()
            .filter(launched)
            .map(|app| &app.application)
    }

    /// Forgets launched applications that ended long ago, so that their numbers can be used again. What was learned of
    /// them is kept under their names.
    pub fn forget_ended(&mut self, root: &Root, host: &mut impl Host) -> Result<(), String> {
        let mut gone = Vec::new();
        for app in &mut self.list {
            let Known::Launched { empty_looks } = &mut app.known else {
                continue;
            };
            let is_there = runs(&app.application, root)
                || host
                    .processes(app.id)
                    .is_ok_and(|processes| !processes.is_empty());
            *empty_looks = if is_there { 0 } else { *empty_looks + 1 };
            if *empty_looks > MAX_EMPTY_LOOKS {
                gone.push(app.id);
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        for id in gone {
            self.remove(id, host);
        }
        self.note_launched()
    }

    /// Looks for applications without a configuration, and forgets those that have been gone for long. Returns
    /// warnings.
    pub fn discover(
        &mut self,
        config: &DiscoverSection,
        root: &Root,
        host: &mut impl Host,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        let taken = self.taken(root);
        let mut found = match scan(root, config, &taken) {
            Ok(found) => found,
            Err(error) => return vec![error.to_string()],
        };
        self.put_behind(&taken, host, &mut warnings);
        self.forget_gone(&found, host);
        found.retain(|found| {
            self.list
                .iter()
                .all(|app| app.application.members != found.members)
        });
        found.sort_by_key(|found| std::cmp::Reverse(found.bytes));
        let is_found = |app: &&KnownApp| matches!(app.known, Known::Found { .. });
        let room = MAX_FOUND.saturating_sub(self.list.iter().filter(is_found).count());
        for found in found.into_iter().take(room) {
            self.give_way(&found.name, host);
            let application = Application {
                name: self.free_name(&found.name),
                members: found.members,
            };
            if let Err(warning) = self.add(application, Known::Found { empty_looks: 0 }, host) {
                warnings.push(warning);
            }
        }
        warnings
    }

    /// The processes of applications that were not found but described.
    fn taken(&self, root: &Root) -> BTreeSet<u32> {
        let described = self
            .list
            .iter()
            .filter(|app| !matches!(app.known, Known::Found { .. }))
            .map(|app| &app.application)
            .collect::<Vec<_>>();
        let processes = application::find(root, &described).unwrap_or_default();
        processes.into_iter().flatten().map(|id| id.pid).collect()
    }

    /// Found applications that hold a process of a described one were known before it: they go behind it.
    fn put_behind(
        &mut self,
        taken: &BTreeSet<u32>,
        host: &mut impl Host,
        warnings: &mut Vec<String>,
    ) {
        let holds_taken = |app: &KnownApp| {
            let processes = host.processes(app.id).unwrap_or_default();
            let is_found = matches!(app.known, Known::Found { .. });
            is_found && processes.iter().any(|id| taken.contains(&id.pid))
        };
        let before: Vec<AppId> = self
            .list
            .iter()
            .filter(|app| holds_taken(app))
            .map(|app| app.id)
            .collect();
        for id in before {
            if let Some(app) = self.remove(id, host)
                && let Err(warning) = self.add(app.application, app.known, host)
            {
                warnings.push(warning);
            }
        }
    }

    fn forget_gone(&mut self, found: &[Found], host: &mut impl Host) {
        let mut gone = Vec::new();
        for app in &mut self.list {
            let Known::Found { empty_looks } = &mut app.known else {
                continue;
            };
            let is_there = found
                .iter()
                .any(|found| found.members == app.application.members)
                || host
                    .processes(app.id)
                    .is_ok_and(|processes| !processes.is_empty());
            *empty_looks = if is_there { 0 } else { *empty_looks + 1 };
            if *empty_looks > MAX_EMPTY_LOOKS {
                gone.push(app.id);
            }
        }
        for id in gone {
            self.remove(id, host);
        }
    }

    /// A found application without processes leaves its name to one that was found now: a program that was exchanged comes
    /// back under another path, and goes on with what was learned.
    fn give_way(&mut self, name: &str, host: &mut impl Host) {
        let is_gone = |app: &&KnownApp| {
            // One that was just added has no processes until the host has looked.
            let is_empty = matches!(app.known, Known::Found { empty_looks } if empty_looks > 0);
            is_empty && app.application.name == name
        };
        let gone = self.list.iter().find(is_gone).map(|app| app.id);
        if let Some(id) = gone {
            self.remove(id, host);
        }
    }

    fn free_name(&self, name: &str) -> String {
        let is_free = |name: &String| self.list.iter().all(|app| app.application.name != *name);
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        names.find(is_free).unwrap_or_default()
    }

    /// Adds one; the message says which, and why not.
    fn add(
        &mut self,
        application: Application,
        known: Known,
        host: &mut impl Host,
    ) -> Result<AppId, String> {
        let (id, warning) = host
            .add(application.clone())
            .map_err(|error| format!("application {}: {error}", application.name))?;
        if let Some(warning) = warning {
            warmswap_sys::tell!("warmswap daemon: {warning}");
        }
        self.list.push(KnownApp {
            id,
            application,
            known,
        });
        Ok(id)
    }

    fn remove(&mut self, id: AppId, host: &mut impl Host) -> Option<KnownApp> {
        let at = self.list.iter().position(|app| app.id == id)?;
        // What was learned of it outlives it.
        if let Err(error) = host.save_app(id) {
            warmswap_sys::tell!("warmswap daemon: {error}");
        }
        let _ = host.remove(id);
        self.leave(id);
        self.removed.push(id);
        Some(self.list.remove(at))
    }

    /// The numbers of applications that were removed since the last call. Others may have them by now.
    pub fn take_removed(&mut self) -> Vec<AppId> {
        std::mem::take(&mut self.removed)
    }

    // ---- what is looked at ----

    /// It is looked at.
    pub fn enter(&mut self, app: AppId) {
        self.front = Some(app);
        self.has_switched = true;
    }

    /// It is not looked at any more.
    pub fn leave(&mut self, app: AppId) {
        self.front = self.front.filter(|&front| front != app);
    }

    /// The one that is looked at.
    pub fn foreground(&self) -> Option<AppId> {
        self.front
    }

    // ---- questions ----

    pub fn ids(&self) -> impl Iterator<Item = AppId> + '_ {
        self.list.iter().map(|app| app.id)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|app| app.application.name.as_str())
    }

    pub fn by_name(&self, name: &str) -> Option<AppId> {
        let mut apps = self.list.iter();
        apps.find(|app| app.application.name == name)
            .map(|app| app.id)
    }

    /// The application that a process belongs to, as the host last found it.
    pub fn owner(&self, host: &impl Host, pid: u32) -> Option<AppId> {
        self.ids().find(|&app| {
            let processes = host.processes(app).unwrap_or_default();
            processes.iter().any(|id| id.pid == pid)
        })
    }

    /// The processes of an application: as the host last found them, and the one that it was launched as.
    pub fn processes(&self, host: &impl Host, app: AppId) -> Vec<ProcessId> {
        let mut processes = host.processes(app).unwrap_or_default();
        let known = self.list.iter().find(|known| known.id == app);
        if let Some(Members::Tree {
            pid, start_ticks, ..
        }) = known.map(|known| &known.application.members)
        {
            processes.push(ProcessId {
                pid: *pid,
                start_ticks: *start_ticks,
            });
        }
        processes
    }

    /// Where the processes of all applications stand; none before the first switch.
    pub fn standings(&self, host: &impl Host) -> Option<Vec<Standing>> {
        let of_app = |app: AppId| {
            let processes = self.processes(host, app).into_iter();
            processes.map(move |id| Standing {
                pid: id.pid,
                start_ticks: id.start_ticks,
                is_foreground: self.front == Some(app),
            })
        };
        self.has_switched
            .then(|| self.ids().flat_map(of_app).collect())
    }

    /// Whether the application of that name was found, and not configured or launched.
    pub fn is_discovered(&self, name: &str) -> bool {
        let app = self.list.iter().find(|app| app.application.name == name);
        app.is_some_and(|app| matches!(app.known, Known::Found { .. }))
    }
}
