//! What the collector's thread is asked to do, and the threads that wait for it.

use std::collections::VecDeque;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Kind;
use crate::clock::Clock;

/// A thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Collect: what is due by the limits, or this.
    Collect(Option<Kind>),
    /// The application changed between foreground (true) and background.
    Foreground(bool),
    /// The launch has ended.
    LaunchDone,
    /// As if the timer had expired.
    ExpireTimer,
    /// Nothing: the timers were looked at before.
    LookAtClock,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Command>,
    /// Commands that were ever asked for.
    asked: u64,
    /// Of them, those that are done.
    done: u64,
    has_ended: bool,
    /// The thread that does it.
    collector: Option<ThreadId>,
}

/// The commands of one heap, in order.
#[derive(Debug, Default)]
pub struct Control {
    state: Mutex<State>,
    is_asked: Condvar,
    is_done: Condvar,
}

impl Control {
    fn ask(&self, command: Command) -> u64 {
        let mut state = self.state.lock();
        state.queue.push_back(command);
        state.asked += 1;
        self.is_asked.notify_one();
        state.asked
    }

    fn wait_for(&self, number: u64) {
        let mut state = self.state.lock();
        if state.collector == Some(std::thread::current().id()) {
            // A finaliser asks. What it asks for is done after it.
            return;
        }
        while state.done < number && !state.has_ended {
            self.is_done.wait(&mut state);
        }
    }

    /// Asks for a collection: this kind, or what is due.
    pub fn request(&self, kind: Option<Kind>) {
        self.ask(Command::Collect(kind));
    }

    /// Asks for a collection and waits for its end. By a thread without a running mutator.
    pub fn collect(&self, kind: Kind) {
        let number = self.ask(Command::Collect(Some(kind)));
        self.wait_for(number);
    }

    /// Lets the collector choose the kind, and waits for the end. By a thread without a running mutator.
    pub fn collect_next(&self) {
        let number = self.ask(Command::Collect(None));
        self.wait_for(number);
    }

    /// The application came to the foreground, or went to the background.
    pub fn set_foreground(&self, is_foreground: bool) {
        self.ask(Command::Foreground(is_foreground));
    }

    /// The launch has ended.
    pub fn launch_done(&self) {
        self.ask(Command::LaunchDone);
    }

    /// Lets the timer expire, and waits for what follows from it.
    pub fn expire_timer(&self) {
        let number = self.ask(Command::ExpireTimer);
        self.wait_for(number);
    }

    /// Lets the collector look at the clock, and waits for what follows from timers that have expired.
    pub fn look_at_clock(&self) {
        let number = self.ask(Command::LookAtClock);
        self.wait_for(number);
    }

    /// Waits until all that was asked for so far is done.
    pub fn settle(&self) {
        let asked = self.state.lock().asked;
        self.wait_for(asked);
    }

    /// Waits for what is being done, if anything is.
    pub fn wait_for_end(&self) {
        let number = {
            let state = self.state.lock();
            (state.done + 1).min(state.asked)
        };
        self.wait_for(number);
    }

    /// Ends the collector once it has finished what it does.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
        self.is_asked.notify_one();
        self.is_done.notify_all();
    }

    /// Whether the calling thread is the collector's, where finalisers run.
    pub fn is_collector(&self) -> bool {
        self.state.lock().collector == Some(std::thread::current().id())
    }

    // ---- the collector's side ----

    /// The calling thread does what is asked for.
    pub fn begin(&self) {
        self.state.lock().collector = Some(std::thread::current().id());
    }

    /// The next command, waiting for one until `deadline` by a clock: `Ok(None)` when that is over, `Err` at the end.
    pub fn next(
        &self,
        deadline: Option<Duration>,
        clock: &dyn Clock,
    ) -> Result<Option<Command>, Ended> {
        let mut state = self.state.lock();
        loop {
            if state.has_ended {
                return Err(Ended);
            }
            let left = deadline.map(|at| at.saturating_sub(clock.now()));
            if left == Some(Duration::ZERO) {
                // Before further commands: there may always be one.
                return Ok(None);
            }
            if let Some(command) = state.queue.pop_front() {
                return Ok(Some(command));
            }
            match left {
                None => self.is_asked.wait(&mut state),
                Some(left) => {
                    self.is_asked.wait_for(&mut state, left);
                }
            }
        }
    }

    /// The command that was taken last is done.
    pub fn done(&self) {
        self.state.lock().done += 1;
        self.is_done.notify_all();
    }
}

/// The heap is gone.
#[derive(Debug)]
pub struct Ended;
