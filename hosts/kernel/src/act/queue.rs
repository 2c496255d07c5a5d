//! Jobs that wait for a thread, and what is left of the one under way.
//!
//! They belong to the worker: when a thread is abandoned, the next one goes on with them. One lock protects all of it, and is
//! never held over a call about another process.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use super::Target;
use super::job::{Job, Task};
use super::worker::Beat;

/// So many jobs wait at most: of more, the oldest are dropped, whose switches are long over.
const MOST_JOBS: usize = 64;

/// So many processes wait for their bits to be cleared at most; of the oldest less is learned then.
const MOST_CLEARS: usize = 4096;

/// The queue of one worker, whose threads share it.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// What is left of the job under way.
    current: Option<Job>,
    /// Jobs that go first.
    jobs: VecDeque<Job>,
    /// Processes whose accessed bits are to be cleared when there is nothing else to do.
    clears: VecDeque<Target>,
}

impl Queue {
    /// One more job, behind its like. Clearing accessed bits comes after all else, but for processes of the job: what it
    /// looks at would tell of the host's own reads. Does not wait.
    pub fn push(&self, job: Job) {
        let mut waiting = self.waiting.lock();
        if job.task == Task::Clear {
            waiting.push_clears(job.targets);
        } else {
            waiting.push(job);
        }
        self.filled.notify_all();
    }

    /// Begins the next job; waits for one. None once the thread of this beat is abandoned.
    pub fn begin(&self, beat: &Beat) -> Option<Task> {
        let mut waiting = self.waiting.lock();
        while beat.stop().is_none() {
            if let Some(job) = waiting.pop() {
                let task = job.task;
                waiting.current = Some(job);
                return Some(task);
            }
            self.filled.wait(&mut waiting);
        }
        None
    }

    /// The next process of the job under way, with which the thread of this beat begins now.
    pub fn next(&self, beat: &Beat) -> Option<Target> {
        let mut waiting = self.waiting.lock();
        if beat.stop().is_some() {
            return None;
        }
        let target = waiting.current.as_mut()?.targets.pop_front()?;
        beat.begin(&target);
        Some(target)
    }

    /// The job under way is over; what is left of it is dropped.
    pub fn end(&self, beat: &Beat) {
        let mut waiting = self.waiting.lock();
        if beat.stop().is_none() {
            waiting.current = None;
            beat.end();
        }
    }

    /// Abandons the thread of this beat if it did not go on since it had beaten so often and another can be begun: that one
    /// goes on with all that is left of what it may touch. None if nothing changed.
    pub fn abandon<R>(
        &self,
        (beat, count): (&Beat, u64),
        may_touch: impl Fn(&Target) -> bool,
        begin_other: impl FnOnce() -> Option<R>,
    ) -> Option<R> {
        let mut waiting = self.waiting.lock();
        if beat.count() != count {
            return None;
        }
        let other = begin_other()?;
        beat.abandon();
        if let Some(rest) = waiting.current.take() {
            waiting.jobs.push_front(rest);
        }
        waiting.keep_only(may_touch);
        Some(other)
    }

    /// Ends the thread of this beat after the batch that is under way.
    pub fn close(&self, beat: &Beat) {
        let _waiting = self.waiting.lock();
        beat.abandon();
        self.filled.notify_all();
    }
}

impl Waiting {
    fn push(&mut self, job: Job) {
        let is_of_job = |target: &Target| job.targets.iter().any(|other| other.id == target.id);
        let clears = std::mem::take(&mut self.clears);
        let (first, others): (VecDeque<_>, _) = clears.into_iter().partition(is_of_job);
        self.clears = others;
        self.jobs.extend(first.into_iter().map(clear));
        self.jobs.push_back(job);
        let excess = self.jobs.len().saturating_sub(MOST_JOBS);
        self.jobs.drain(..excess);
    }

    fn pop(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front();
        job.or_else(|| self.clears.pop_front().map(clear))
    }

    fn push_clears(&mut self, targets: VecDeque<Target>) {
        for target in targets {
            self.clears.retain(|other| other.id != target.id);
            self.clears.push_back(target);
        }
        let excess = self.clears.len().saturating_sub(MOST_CLEARS);
        self.clears.drain(..excess);
    }

    fn keep_only(&mut self, may_touch: impl Fn(&Target) -> bool) {
        for job in &mut self.jobs {
            job.targets.retain(&may_touch);
        }
        self.clears.retain(may_touch);
    }
}

fn clear(target: Target) -> Job {
    Job::new(Task::Clear, vec![target])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::look::End;
    use crate::testing;

    fn target(pid: u32) -> Target {
        testing::target(pid, 1)
    }

    /// Does the next job; its processes.
    fn next_job(queue: &Queue, beat: &Beat) -> (Task, Vec<u32>) {
        let task = queue.begin(beat).unwrap();
        let targets = std::iter::from_fn(|| queue.next(beat));
        let pids = targets.map(|target| target.id.pid).collect();
        queue.end(beat);
        (task, pids)
    }

    #[test]
    fn a_switch_goes_before_bits_of_other_processes_are_cleared() {
        let (queue, beat) = (Queue::default(), Beat::default());
        for pid in [1, 2] {
            queue.push(clear(target(pid)));
        }
        let (launch, session) = (Task::End(End::Launch), Task::End(End::Session));
        queue.push(Job::new(launch, vec![target(2), target(3)]));
        queue.push(Job::new(session, vec![target(3)]));
        let done: Vec<_> = (0..4).map(|_| next_job(&queue, &beat)).collect();
        let expected = [
            (Task::Clear, vec![2]),
            (launch, vec![2, 3]),
            (session, vec![3]),
            (Task::Clear, vec![1]),
        ];
        assert_eq!(done, expected);
    }

    #[test]
    fn a_thread_that_does_nothing_has_no_endless_queue() {
        let (queue, beat) = (Queue::default(), Beat::default());
        let session = Task::End(End::Session);
        for pid in 1..10_000 {
            queue.push(Job::new(session, vec![target(pid)]));
            queue.push(clear(target(pid)));
            queue.push(clear(target(7)));
        }
        let waiting = queue.waiting.lock();
        let (jobs, clears) = (waiting.jobs.len(), waiting.clears.len());
        assert_eq!((jobs, clears), (MOST_JOBS, MOST_CLEARS));
        drop(waiting);
        let (task, last) = (0..jobs).map(|_| next_job(&queue, &beat)).last().unwrap();
        assert_eq!((task, last), (session, vec![9_999]), "the newest are kept");
    }

    #[test]
    fn bits_of_a_process_are_cleared_once() {
        let (queue, beat) = (Queue::default(), Beat::default());
        for pid in [1, 2, 1] {
            queue.push(clear(target(pid)));
        }
        let done = [next_job(&queue, &beat).1, next_job(&queue, &beat).1];
        assert_eq!(done, [[2], [1]]);
        assert!(queue.waiting.lock().clears.is_empty());
    }
}
