//! Threads that are tasks: of `std::thread`, and what `rustix::thread` has.

use std::any::Any;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use std::thread::available_parallelism;

pub use crate::machine::yield_now;
use crate::machine::{Wait, block, machine};

pub mod futex {
    //! Futexes.

    use crate::atomic::AtomicU32;
    use crate::machine::{Wait, block, machine, step};
    use rustix::io::Errno;
    pub use rustix::thread::futex::{Flags, Timespec};

    /// Sleeps while the word has that value, until it is woken or the time is over.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn wait(
        word: &AtomicU32,
        _: Flags,
        value: u32,
        timeout: Option<&Timespec>,
    ) -> Result<(), Errno> {
        step();
        if word.peek() != value {
            return Err(Errno::AGAIN);
        }
        let address = (&raw const *word).expose_provenance();
        let timeout_ns =
            timeout.map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
        if block(Wait::Futex(address, value), timeout_ns) {
            return Err(Errno::TIMEDOUT);
        }
        Ok(())
    }

    /// Wakes at most so many sleepers.
    ///
    /// # Errors
    /// Never.
    pub fn wake(word: &AtomicU32, _: Flags, most: u32) -> Result<usize, Errno> {
        step();
        let address = (&raw const *word).addr();
        let is_it = |wait| matches!(wait, Wait::Futex(at, _) if at == address);
        Ok(machine(|m| m.wake(most as usize, is_it)))
    }
}

/// The number of the running task, from 1.
#[must_use]
pub fn gettid() -> rustix::thread::Pid {
    let number = machine(|m| m.current()) as i32 + 1;
    rustix::thread::Pid::from_raw(number).unwrap_or(rustix::thread::Pid::INIT)
}

/// Never: a task that panics ends the simulation at once.
#[must_use]
pub fn panicking() -> bool {
    false
}

/// Sleeps.
pub fn sleep(time: Duration) {
    block(Wait::Time, Some(time.as_nanos() as u64));
}

/// Waits for `unpark`.
pub fn park() {
    if !machine(|m| m.take_token()) {
        let own = machine(|m| m.current());
        block(Wait::Token(own), None);
        machine(|m| m.take_token());
    }
}

/// The running task.
#[must_use]
pub fn current() -> Thread {
    Thread(machine(|m| m.current()))
}

/// A task.
#[derive(Clone, Debug)]
pub struct Thread(usize);

impl Thread {
    /// Gives it a token, which `park` takes.
    pub fn unpark(&self) {
        crate::machine::step();
        machine(|m| m.give_token(self.0));
    }
}

/// As the one of `std`.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// A thread without a name.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With that name.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self { name: Some(name) }
    }

    /// Starts it.
    ///
    /// # Errors
    /// Never.
    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let body = move || {
            let value = body();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        };
        let name = self.name.unwrap_or_default();
        let task = machine(|m| m.spawn(name, Box::new(body)));
        crate::machine::step();
        Ok(JoinHandle { task, result })
    }
}

/// Starts a thread.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match Builder::new().spawn(body) {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}

/// As the one of `std`.
#[derive(Debug)]
pub struct JoinHandle<T> {
    task: usize,
    result: Arc<Mutex<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    /// Never: a task that panics ends the simulation.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        crate::machine::step();
        while !machine(|m| m.has_ended(self.task)) {
            block(Wait::Task(self.task), None);
        }
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        result.take().ok_or_else(|| Box::new("no result") as _)
    }
}
