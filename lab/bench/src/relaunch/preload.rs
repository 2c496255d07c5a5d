//! The arm `preload`: applications under the preloaded library, told of switches by their control sockets as
//! `warmswap switch` tells them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use warmswap_apps::RunningApp;
use warmswap_protocol::{Client, ClientError, ProgramStats, RUN_VARIABLE, Request, RunSettings};
use warmswap_sys::{Root, file};

use super::options::{Arm, Preload};
use crate::BenchError;
use crate::clock::thread_cpu_ns;

/// How long a program has to answer: it may be swapped out.
const PATIENCE: Duration = Duration::from_secs(30);
/// An arena with less holds not even its own state; as `warmswap run`.
const LEAST_BUDGET_BYTES: u64 = 8 << 20;
/// Where programs look for the folder of their sockets, and the folder.
const SOCKETS_VARIABLE: &str = "XDG_RUNTIME_DIR";
const SOCKETS_FOLDER: &str = "warmswap";

/// What the applications took of memory before any limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprints {
    /// Anonymous memory of each application, without its driver.
    pub anonymous_bytes: Vec<u64>,
    /// All that their group was charged: files, drivers and the kernel's tables as well.
    pub all_bytes: u64,
}

impl Footprints {
    /// The budget of an application's arena: the part of the total that the program's anonymous memory had of
    /// what all took. Files, drivers, and programs that are not preloaded keep theirs in proportion.
    pub fn budget_bytes(&self, app: usize, total_bytes: u64) -> u64 {
        let part = self.anonymous_bytes[app] as f64 / self.all_bytes.max(1) as f64;
        ((total_bytes as f64 * part) as u64).max(LEAST_BUDGET_BYTES)
    }
}

/// The settings of an arena, as its program finds them in [`RUN_VARIABLE`].
/// A published scheme has what it needs: ezswap pages of files, and a file on disk, here in `folder`.
pub fn settings(
    arm: Arm,
    preload: &Preload,
    (budget_bytes, folder): (u64, &Path),
) -> Result<String, BenchError> {
    let scheme = arm
        .published_scheme()
        .map(|scheme| preload.with_codec(scheme));
    let scheme = scheme.as_deref().unwrap_or(&preload.scheme);
    let is_ezswap = arm == Arm::Ezswap;
    let settings = RunSettings {
        files: is_ezswap,
        backing: is_ezswap.then(|| folder.to_owned()),
        ..RunSettings::new(scheme, budget_bytes)
    };
    Ok(settings.to_variable()?)
}

/// What an application with this folder is started with, beside its own environment: its sockets are in the
/// folder, and go with it.
pub fn environment(preload: &Preload, settings: String, folder: &Path) -> Vec<(String, OsString)> {
    vec![
        ("LD_PRELOAD".to_owned(), preload.library.clone().into()),
        (RUN_VARIABLE.to_owned(), settings.into()),
        (SOCKETS_VARIABLE.to_owned(), folder.into()),
    ]
}

/// Checks that the library is in one of the application's processes at least.
pub fn check_is_loaded(root: &Root, app: &RunningApp, preload: &Preload) -> Result<(), BenchError> {
    let library = preload.library.to_string_lossy();
    let has_it = |pid: u32| {
        let maps = file::read(&root.proc_file(pid, "maps"));
        maps.is_ok_and(|text| text.contains(&*library))
    };
    if app.pids()?.into_iter().any(has_it) {
        return Ok(());
    }
    Err(BenchError::NotPreloaded {
        app: app.spec().name.clone(),
        library: preload.library.clone(),
    })
}

/// What the arenas of an application did since their programs began, and hold now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArenaCounts {
    /// Faults that brought a page from the pool.
    pub pool_faults: u64,
    /// Pages that came back ahead of use.
    pub prefetched: u64,
    /// All pages that came back.
    pub in_pages: u64,
    /// Pages that left.
    pub out_pages: u64,
    /// CPU time of the arenas' threads.
    pub cpu_ns: u64,
    /// Programs that are paged; one within its budget is not.
    pub paged_programs: u64,
    /// Frames now.
    pub resident_bytes: u64,
    /// Memory of the pools now.
    pub pool_bytes: u64,
    /// All that counts against the budgets now.
    pub used_bytes: u64,
}

impl ArenaCounts {
    fn add(&mut self, stats: &ProgramStats) {
        self.pool_faults += stats.faults.pool + stats.faults.backing;
        self.prefetched += stats.prefetched_pages;
        self.in_pages += stats.swapped_in_pages;
        self.out_pages += stats.swapped_out_pages;
        self.cpu_ns += (stats.pager_cpu_seconds * 1e9) as u64;
        if stats.managed {
            self.paged_programs += 1;
            self.resident_bytes += stats.resident_bytes;
            self.pool_bytes += stats.pool_bytes;
            self.used_bytes += stats.used_bytes;
        }
    }

    /// What was done since `before`, and is held now.
    pub fn since(self, before: Self) -> Self {
        Self {
            pool_faults: self.pool_faults.saturating_sub(before.pool_faults),
            prefetched: self.prefetched.saturating_sub(before.prefetched),
            in_pages: self.in_pages.saturating_sub(before.in_pages),
            out_pages: self.out_pages.saturating_sub(before.out_pages),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            ..self
        }
    }
}

enum Event {
    Switch(usize),
    Done(usize),
    Replace(usize, PathBuf),
    Counts(usize, Sender<Result<ArenaCounts, ClientError>>),
}

/// The thread that tells the arenas.
#[derive(Debug)]
pub struct Arenas {
    events: Option<Sender<Event>>,
    thread: Option<JoinHandle<()>>,
    told_ns: Arc<AtomicU64>,
}

impl Arenas {
    /// For these applications; `None` for those that are not preloaded.
    pub fn start(folders: Vec<Option<PathBuf>>) -> Self {
        let (events, receiver) = channel();
        let told_ns = Arc::new(AtomicU64::new(0));
        let mut teller = Teller {
            folders,
            clients: HashMap::new(),
            foreground: None,
            failed: None,
            told_ns: Arc::clone(&told_ns),
        };
        let thread = std::thread::spawn(move || teller.run(&receiver));
        Self {
            events: Some(events),
            thread: Some(thread),
            told_ns,
        }
    }

    fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            // The thread lives as long as the sender.
            let _ = events.send(event);
        }
    }

    /// An application comes to the foreground, and the one that was there leaves it. Does not wait: the
    /// application does not either.
    pub fn switch(&self, app: usize) {
        self.tell(Event::Switch(app));
    }

    /// It has answered.
    pub fn done(&self, app: usize) {
        self.tell(Event::Done(app));
    }

    /// It was killed, and runs again in this folder.
    pub fn replace(&self, app: usize, folder: PathBuf) {
        self.tell(Event::Replace(app, folder));
    }

    /// What the arenas of an application did, once they have heard all that they were told; nothing for one that
    /// is not preloaded.
    ///
    /// # Errors
    /// [`BenchError::Control`], also when something that was told before was not heard.
    pub fn counts(&self, app: usize) -> Result<ArenaCounts, BenchError> {
        let (sender, receiver) = channel();
        self.tell(Event::Counts(app, sender));
        let counts = receiver.recv().map_err(|_| BenchError::Thread)?;
        Ok(counts?)
    }

    /// CPU time of telling.
    pub fn told_ns(&self) -> u64 {
        self.told_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Arenas {
    fn drop(&mut self) {
        drop(self.events.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Teller {
    folders: Vec<Option<PathBuf>>,
    clients: HashMap<PathBuf, Client>,
    foreground: Option<usize>,
    /// The first program that did not hear.
    failed: Option<ClientError>,
    told_ns: Arc<AtomicU64>,
}

impl Teller {
    fn run(&mut self, events: &Receiver<Event>) {
        while let Ok(event) = events.recv() {
            let cpu = thread_cpu_ns();
            match event {
                Event::Switch(app) => {
                    self.tell(app, &Request::Foreground);
                    let left = self.foreground.replace(app).filter(|&left| left != app);
                    if let Some(left) = left {
                        self.tell(left, &Request::Background);
                    }
                }
                Event::Done(app) => self.tell(app, &Request::LaunchDone),
                Event::Replace(app, folder) => {
                    if let Some(old) = &mut self.folders[app] {
                        *old = folder;
                    }
                }
                // It is only measured for: that is no cost of the arm.
                Event::Counts(app, to) => {
                    let _ = to.send(self.counts(app));
                    continue;
                }
            }
            let told = thread_cpu_ns() - cpu;
            self.told_ns.fetch_add(told, Ordering::Relaxed);
        }
    }

    fn tell(&mut self, app: usize, request: &Request) {
        let told = self.each(app, |client| client.tell(request));
        if let Err(error) = told {
            self.failed.get_or_insert(error);
        }
    }

    fn counts(&mut self, app: usize) -> Result<ArenaCounts, ClientError> {
        let mut counts = ArenaCounts::default();
        self.each(app, |client| {
            counts.add(&client.stats()?);
            Ok(())
        })?;
        self.failed.take().map_or(Ok(counts), Err)
    }

    /// Does something with all programs of an application that listen.
    fn each(
        &mut self,
        app: usize,
        mut ask: impl FnMut(&mut Client) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        let Some(folder) = &self.folders[app] else {
            return Ok(());
        };
        for socket in sockets(folder) {
            let client = self.clients.remove(&socket);
            let client = client.map_or_else(|| Client::connect(&socket, PATIENCE), Ok);
            let asked = client.and_then(|mut client| ask(&mut client).map(|()| client));
            match asked {
                Ok(client) => _ = self.clients.insert(socket, client),
                Err(error) if has_ended(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether the program is just gone.
fn has_ended(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Missing { .. } | ClientError::Dead { .. } | ClientError::Closed { .. }
    )
}

/// Where the programs of an application with this folder listen.
fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(SOCKETS_FOLDER));
    let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use warmswap_protocol::{Answer, FaultCounts, Server};

    #[test]
    fn a_budget_is_the_programs_part_of_the_total() {
        let footprints = Footprints {
            anonymous_bytes: vec![100 << 20, 50 << 20, 1 << 20],
            all_bytes: 200 << 20,
        };
        let budgets = [0, 1, 2].map(|app| footprints.budget_bytes(app, 100 << 20));
        assert_eq!(budgets, [50 << 20, 25 << 20, LEAST_BUDGET_BYTES]);
    }

    /// Two programs that listen, in folders of their own, and what they heard together.
    fn told(work: impl FnOnce(&Arenas)) -> Vec<(u32, Request)> {
        let places = [1, 2].map(|_| tempfile::tempdir().unwrap());
        let heard = Mutex::new(Vec::new());
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (number, place) in (1..).zip(&places) {
                let folder = place.path().join(SOCKETS_FOLDER);
                std::fs::create_dir(&folder).unwrap();
                let mut server = Server::bind(&folder.join("7.sock")).unwrap();
                let (heard, is_over) = (&heard, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let timeout = Some(Duration::from_millis(1));
                        let answer = |request: Request| {
                            let is_stats = request == Request::Stats;
                            heard.lock().unwrap().push((number, request));
                            Ok(if is_stats {
                                Answer::Stats(Box::new(stats(number)))
                            } else {
                                Answer::Done
                            })
                        };
                        server.poll_once(timeout, answer).unwrap();
                    }
                });
            }
            // The third is not preloaded.
            let folders = places.iter().map(|place| Some(place.path().to_owned()));
            let arenas = Arenas::start(folders.chain([None]).collect());
            work(&arenas);
            drop(arenas);
            is_over.store(true, Ordering::Relaxed);
        });
        heard.into_inner().unwrap()
    }

    fn stats(number: u32) -> ProgramStats {
        ProgramStats {
            faults: FaultCounts {
                total: 10,
                pool: 4,
                backing: 1,
                ..FaultCounts::default()
            },
            prefetched_pages: number.into(),
            ..ProgramStats::default()
        }
    }

    #[test]
    fn who_comes_hears_it_before_who_leaves() {
        let heard = told(|arenas| {
            arenas.switch(0);
            arenas.done(0);
            arenas.switch(2);
            arenas.switch(1);
            let counts = arenas.counts(1).unwrap();
            assert_eq!((counts.pool_faults, counts.prefetched), (5, 2));
            assert_eq!(arenas.counts(2).unwrap(), ArenaCounts::default());
            assert!(arenas.told_ns() > 0);
        });
        let expected = [
            (1, Request::Foreground),
            (1, Request::LaunchDone),
            (1, Request::Background),
            (2, Request::Foreground),
            (2, Request::Stats),
        ];
        assert_eq!(heard, expected);
    }

    #[test]
    fn a_program_that_ended_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(SOCKETS_FOLDER);
        std::fs::create_dir(&folder).unwrap();
        drop(std::os::unix::net::UnixListener::bind(folder.join("9.sock")).unwrap());
        let arenas = Arenas::start(vec![Some(place.path().to_owned())]);

        arenas.switch(0);

        assert_eq!(arenas.counts(0).unwrap(), ArenaCounts::default());
    }
}
