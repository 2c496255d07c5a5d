//! The gate that work goes through, so that a `fork` can wait until none is under way.
//!
//! Whoever works on the arena's memory or tables is inside. A closing gate lets the work that is inside come to
//! its end, and for that the pager, since what is inside may wait for it; nobody else. A closed gate has nobody
//! inside: all tables are whole, and no lock is held.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex;

/// Nobody but the pager enters.
const CLOSING: u32 = 1 << 30;
/// Nobody enters.
const CLOSED: u32 = 1 << 31;
const COUNT: u32 = CLOSING - 1;

/// Counts who is inside. All of it is one word.
#[derive(Debug, Default)]
pub struct Gate {
    word: AtomicU32,
}

/// Somebody is inside.
#[derive(Debug)]
#[must_use = "who is not held inside is outside"]
pub struct Inside<'a>(&'a Gate);

impl Gate {
    /// Goes inside; waits while the gate is closing or closed.
    pub fn enter(&self) -> Inside<'_> {
        self.enter_unless(CLOSING | CLOSED)
    }

    /// Goes inside as the pager, for whose work others inside may wait.
    pub fn enter_as_pager(&self) -> Inside<'_> {
        self.enter_unless(CLOSED)
    }

    /// Goes inside, unless the gate is closed; waits while it is closing.
    pub fn enter_unless_closed(&self) -> Option<Inside<'_>> {
        loop {
            match self.try_enter(CLOSING | CLOSED) {
                Ok(inside) => return Some(inside),
                Err(word) if word & CLOSED != 0 => return None,
                Err(word) => self.wait(word),
            }
        }
    }

    /// Whether nobody is inside, and nobody enters.
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    fn enter_unless(&self, shut: u32) -> Inside<'_> {
        loop {
            match self.try_enter(shut) {
                Ok(inside) => return inside,
                Err(word) => self.wait(word),
            }
        }
    }

    /// Goes inside unless the word has one of the bits `shut`; else the word.
    fn try_enter(&self, shut: u32) -> Result<Inside<'_>, u32> {
        let enter = |word| (word & shut == 0).then_some(word + 1);
        self.word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, enter)
            .map(|_| Inside(self))
    }

    /// Closes the gate and waits until nobody is inside. One thread at a time closes it; others wait for their
    /// turn. Not to be called from inside.
    pub fn close(&self) {
        loop {
            let begin = |word| (word & (CLOSING | CLOSED) == 0).then_some(word | CLOSING);
            let begun = self
                .word
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, begin);
            match begun {
                Ok(_) => break,
                Err(word) => self.wait(word),
            }
        }
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word & COUNT > 0 {
                self.wait(word);
                continue;
            }
            let closed =
                self.word
                    .compare_exchange(word, CLOSED, Ordering::AcqRel, Ordering::Acquire);
            if closed.is_ok() {
                // Those who wait can do without now.
                self.wake();
                return;
            }
        }
    }

    /// Opens a closed gate.
    pub fn open(&self) {
        self.word.store(0, Ordering::Release);
        self.wake();
    }

    /// Opens a closed gate and is inside, before anybody can close it again.
    pub fn open_and_stay(&self) -> Inside<'_> {
        self.word.store(1, Ordering::Release);
        self.wake();
        Inside(self)
    }

    /// Waits until the word may have changed from `seen`, but not for long.
    fn wait(&self, seen: u32) {
        let timeout = futex::Timespec {
            tv_sec: 0,
            tv_nsec: Duration::from_millis(20).as_nanos() as i64,
        };
        let _ = futex::wait(&self.word, futex::Flags::PRIVATE, seen, Some(&timeout));
    }

    fn wake(&self) {
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, i32::MAX as u32);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let before = self.0.word.fetch_sub(1, Ordering::AcqRel);
        if before & CLOSING != 0 && before & COUNT == 1 {
            self.0.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn closing_waits_for_work_and_lets_only_the_pager_in() {
        let gate = Gate::default();
        let (is_closed, was_open_again) = (AtomicBool::new(false), AtomicBool::new(false));
        let inside = gate.enter();
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| {
                gate.close();
                is_closed.store(true, Ordering::SeqCst);
            });
            while gate.word.load(Ordering::SeqCst) & CLOSING == 0 {
                std::thread::yield_now();
            }
            scope.spawn(|| {
                let _inside = gate.enter();
                assert!(was_open_again.load(Ordering::SeqCst));
            });
            drop(gate.enter_as_pager());
            assert!(!is_closed.load(Ordering::SeqCst));
            drop(inside);
            closer.join().expect("it closes");
            assert_eq!(gate.word.load(Ordering::SeqCst), CLOSED);
            was_open_again.store(true, Ordering::SeqCst);
            gate.open();
        });
        assert_eq!(gate.word.load(Ordering::SeqCst), 0);
    }
}
