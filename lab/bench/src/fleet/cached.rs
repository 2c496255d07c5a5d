//! A cached program: a heap of its own in memory that all share, and a thread that runs it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warmswap_heap::{Checked, Heap, HeapStats, Kind, Mutator};
use warmswap_page::latency::Latencies;
use warmswap_sys::cpu_time::CpuClock;

use super::FleetError;
use super::program::{Program, ProgramError};
use super::programs::with_room;

/// What a program's thread is to do.
type Task = Box<dyn FnOnce(&mut Mutator, &mut dyn Program) + Send>;

/// A program on a heap, with a thread of its own, which rests while it has nothing to do.
#[derive(Debug)]
pub struct Cached {
    name: String,
    kind: String,
    heap: Option<Heap>,
    tasks: Option<SyncSender<Task>>,
    thread: Option<JoinHandle<()>>,
}

/// What a hot launch took.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// From the switch to the end of the launch.
    pub time: Duration,
    /// CPU time of the program's thread.
    pub cpu: Duration,
    /// Checksum of what was shown.
    pub shown: u64,
}

impl Cached {
    /// Starts the thread of a program on its heap; its data is not loaded yet.
    pub fn new(
        name: String,
        heap: Heap,
        mut program: Box<dyn Program>,
    ) -> Result<Self, FleetError> {
        let kind = program.name().to_owned();
        let (tasks, todo) = sync_channel::<Task>(0);
        let (ready, attached) = sync_channel(1);
        let thread = std::thread::Builder::new().name(name.clone());
        let heap = std::sync::Arc::new(heap);
        let shared = std::sync::Arc::clone(&heap);
        let thread = thread.spawn(move || {
            let mutator = shared.mutator();
            drop(shared);
            let _ = ready.send(());
            if let Ok(mut mutator) = mutator {
                work(&mut mutator, &mut *program, &todo);
            }
        });
        let thread = thread.map_err(FleetError::Thread)?;
        // The thread has let go of the heap then.
        let _ = attached.recv();
        let heap = std::sync::Arc::into_inner(heap);
        Ok(Self {
            name,
            kind,
            heap,
            tasks: Some(tasks),
            thread: Some(thread),
        })
    }

    /// Its name, with its number.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What program it is.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Lets the program's thread do something, and waits for it.
    fn run<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Mutator, &mut dyn Program) -> R + Send + 'static,
    ) -> Result<R, FleetError> {
        let (answer, result) = sync_channel(1);
        let task: Task = Box::new(move |mutator, program| {
            let _ = answer.send(task(mutator, program));
        });
        let sent = self
            .tasks
            .as_ref()
            .is_some_and(|tasks| tasks.send(task).is_ok());
        match result.recv() {
            Ok(result) if sent => Ok(result),
            _ => Err(FleetError::Ended {
                program: self.name.clone(),
            }),
        }
    }

    fn heap(&self) -> Result<&Heap, FleetError> {
        self.heap.as_ref().ok_or_else(|| FleetError::Ended {
            program: self.name.clone(),
        })
    }

    /// The cold start.
    pub fn start(&self) -> Result<(), FleetError> {
        self.heap()?.foreground();
        self.run(|mutator, program| program.start(mutator))??;
        self.heap()?.launch_done();
        Ok(())
    }

    /// A hot launch, which first makes so many bytes of objects of its own.
    pub fn launch(&self, new_bytes: usize) -> Result<Launch, FleetError> {
        let begin = Instant::now();
        self.heap()?.foreground();
        let launched = self.run(move |mutator, program| {
            let clock = CpuClock::of_this_thread();
            let before = clock.read_ns().unwrap_or(0);
            make_views(mutator, new_bytes)?;
            let shown = program.launch(mutator)?;
            Ok::<_, ProgramError>(Launch {
                time: begin.elapsed(),
                cpu: Duration::from_nanos(clock.read_ns().unwrap_or(0) - before),
                shown,
            })
        })??;
        self.heap()?.launch_done();
        // Else the next step would begin while the collector still takes in what the launch accessed.
        self.heap()?.settle();
        Ok(launched)
    }

    /// Use in the foreground: the time of each action, and a checksum.
    pub fn use_it(&self, actions: usize) -> Result<(Vec<Duration>, u64), FleetError> {
        let used = self.run(move |mutator, program| {
            let mut times = Vec::with_capacity(actions);
            let mut sum = 0u64;
            for _ in 0..actions {
                let begin = Instant::now();
                let seen = program.use_it(mutator, 1)?;
                sum = sum.rotate_left(1) ^ seen;
                times.push(begin.elapsed());
            }
            Ok::<_, ProgramError>((times, sum))
        })?;
        Ok(used?)
    }

    /// T_F is over: the collector settles in the foreground.
    pub fn settle_in_foreground(&self) -> Result<(), FleetError> {
        self.heap()?.expire_timer();
        Ok(())
    }

    /// The user leaves, and T_B is over.
    pub fn background(&self) -> Result<(), FleetError> {
        let heap = self.heap()?;
        heap.background();
        heap.expire_timer();
        Ok(())
    }

    /// A period in the background is over: advice is repeated, or objects are swapped out.
    pub fn background_period(&self) -> Result<(), FleetError> {
        self.heap()?.expire_timer();
        Ok(())
    }

    /// Work in the background.
    pub fn work(&self, bytes: usize, old_changes: usize) -> Result<(), FleetError> {
        self.run(move |mutator, program| program.work_in_background(mutator, bytes, old_changes))??;
        self.heap()?.settle();
        Ok(())
    }

    /// Collects.
    pub fn collect(&self, kind: Kind) -> Result<(), FleetError> {
        Ok(self.heap()?.collect(kind)?)
    }

    /// How long the program waited at safepoints, for whatever reason.
    pub fn pauses(&self) -> Result<Latencies, FleetError> {
        let heap = self.heap()?;
        let mut pauses = heap.pauses();
        pauses.merge(&heap.stalls());
        Ok(pauses)
    }

    /// Checks the heap; what it holds.
    pub fn check(&self) -> Result<Checked, FleetError> {
        let checked = self.run(|mutator, _| mutator.check())?;
        checked.map_err(|what| FleetError::Damaged {
            program: self.name.clone(),
            what,
        })
    }

    /// What the heap holds and did.
    pub fn stats(&self) -> Result<HeapStats, FleetError> {
        Ok(self.heap()?.stats())
    }
}

/// What a launch makes to show, and drops: so many bytes, rounded up to whole objects.
fn make_views(mutator: &mut Mutator, bytes: usize) -> Result<(), ProgramError> {
    const VIEW: [u8; 504] = [0; 504];
    for _ in 0..bytes.div_ceil(VIEW.len()) {
        mutator.safepoint();
        with_room(mutator, |mutator| mutator.alloc_bytes(&VIEW).map(drop))?;
    }
    Ok(())
}

/// The program's thread: rests between two tasks.
fn work(mutator: &mut Mutator, program: &mut dyn Program, todo: &Receiver<Task>) {
    while let Ok(task) = mutator.blocking(|| todo.recv()) {
        task(mutator, program);
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
        // The collector ends with the heap; the program's roots ended with its thread.
        drop(self.heap.take());
    }
}
