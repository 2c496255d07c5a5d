//! Memory taken away from the whole machine: huge pages that are reserved and never used.
//!
//! What is reserved nothing else can have, so that the kernel reclaims as on a machine with less memory. The
//! reservation is given back when it is dropped, at a signal, and by the next command after a SIGKILL
//! ([`crate::undo`]). A thread watches meanwhile, and gives everything back when memory runs out ([`guard`]), before the
//! kernel has to kill a program.
//!
//! Kernel documentation: admin-guide/mm/hugetlbpage.rst.

pub mod guard;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::mm::{MlockAllFlags, mlockall, munlockall};

use crate::meminfo::Meminfo;
use crate::undo::{Action, Pending, Undo, UndoError};
use crate::zones::Zones;
use crate::{FileError, Root, file};

use guard::{Bounds, RanOut, Seen};

/// Memory is taken in steps of so much, between which the machine is looked at.
const STEP_BYTES: u64 = 128 << 20;
/// So often the kernel is asked again when it finds no huge page, after it was asked to compact memory.
const TRIES: u32 = 3;
/// Programs that have just ended free their memory late: so many looks in a row must find the same.
const STEADY_LOOKS: u32 = 5;
/// Time between two of them.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// After so many the memory of this machine does not settle.
const MOST_LOOKS: u32 = 300;

/// Memory cannot be taken away from the machine.
#[derive(Debug, thiserror::Error)]
pub enum HugePagesError {
    /// The kernel has no huge pages.
    #[error("this kernel has no huge pages: {} is missing; it must be built with CONFIG_HUGETLBFS", path.display())]
    Missing {
        /// The setting that was looked for.
        path: PathBuf,
    },
    /// Less is there than is to be left.
    #[error(
        "{} MiB are to be left, but only {} MiB are available: end what else runs here, or leave less",
        left_bytes >> 20, available_bytes >> 20
    )]
    TooLittle {
        /// What was to be left, in bytes.
        left_bytes: u64,
        /// What is available, in bytes.
        available_bytes: u64,
    },
    /// The kernel finds no more huge pages.
    #[error(
        "the kernel finds no more huge pages with {} MiB available, and {} MiB were to be left: its memory is \
         fragmented, or others take it; try again, or leave more",
        available_bytes >> 20, left_bytes >> 20
    )]
    Stuck {
        /// What was to be left, in bytes.
        left_bytes: u64,
        /// What is available, in bytes.
        available_bytes: u64,
    },
    /// Others take memory and give it back all the time.
    #[error(
        "what is available does not stay at {} MiB (now {} MiB): other programs take memory and give it back; end them, \
         or leave more",
        left_bytes >> 20, available_bytes >> 20
    )]
    Unsteady {
        /// What was to be left, in bytes.
        left_bytes: u64,
        /// What is available, in bytes.
        available_bytes: u64,
    },
    /// Memory ran out, and everything was given back.
    #[error("memory ran out, and what was taken away was given back: {0}; leave more memory")]
    RanOut(RanOut),
    /// A file of the kernel cannot be used; often root is missing.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change could not be registered.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// The watching thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// What is to be left of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// So many bytes that programs can still take (`MemAvailable`, and what processors hold for themselves), within a
    /// hundredth or a huge page.
    Available(u64),
    /// So many bytes for programs and kernel together, whatever they hold of it now; within a huge page.
    Machine(u64),
}

impl Left {
    fn bytes(self) -> u64 {
        match self {
            Self::Available(bytes) | Self::Machine(bytes) => bytes,
        }
    }

    /// The same of a machine as it is.
    fn of(self, root: &Root) -> Result<u64, FileError> {
        match self {
            Self::Available(_) => available_bytes(root),
            Self::Machine(_) => Ok(Meminfo::read(root)?.usable_bytes()),
        }
    }

    /// By how much it may be missed with huge pages of that size.
    fn tolerance_bytes(self, page_bytes: u64) -> u64 {
        match self {
            Self::Available(bytes) => page_bytes.max(bytes / 100),
            Self::Machine(_) => page_bytes,
        }
    }
}

/// What programs can still take.
fn available_bytes(root: &Root) -> Result<u64, FileError> {
    Ok(Meminfo::read(root)?.available_bytes + Zones::read(root)?.on_processors_bytes)
}

/// Memory that nothing else can have. Dropping it gives it back.
#[derive(Debug)]
pub struct Reservation {
    shared: Arc<Shared>,
    guard: Option<JoinHandle<()>>,
    available_bytes: u64,
    taken_bytes: u64,
}

/// What the owner and the watching thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    root: Root,
    /// The reservation's entry in the undo list; `None` once it was given back. Huge pages are reserved under this lock
    /// only, so that none are after that.
    pending: Mutex<Option<Pending>>,
    ran_out: Mutex<Option<RanOut>>,
    seen: Mutex<Seen>,
    ended: std::sync::atomic::AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Gives everything back; does nothing if that was done.
    fn give_back(&self) {
        // An error stays in the undo list, for the end of the program and the next one.
        drop(lock(&self.pending).take());
    }
}

impl Reservation {
    /// Takes memory away in steps until so much is left, and stays so for half a second: what programs that have ended
    /// free late is taken too. Takes some milliseconds for each GiB of free memory, and longer where memory is fragmented.
    ///
    /// # Errors
    /// [`HugePagesError`]; everything is given back then.
    pub fn take(undo: &Undo, left: Left, bounds: Bounds) -> Result<Self, HugePagesError> {
        Self::take_from(undo, left, bounds, |files| files)
    }

    /// The same, with a kernel made of its files.
    fn take_from<K: Kernel>(
        undo: &Undo,
        left: Left,
        bounds: Bounds,
        kernel: impl FnOnce(Files) -> K,
    ) -> Result<Self, HugePagesError> {
        let root = undo.root().clone();
        let path = setting(&root);
        let memory = Meminfo::read(&root)?;
        if memory.huge_page_bytes == 0 || !path.exists() {
            return Err(HugePagesError::Missing { path });
        }
        let available_bytes = left.of(&root)?;
        if available_bytes < left.bytes() {
            return Err(HugePagesError::TooLittle {
                left_bytes: left.bytes(),
                available_bytes,
            });
        }
        let before = file::read_u64(&path)?;
        let pending = undo.register(Action::Restore {
            path,
            value: before.to_string(),
            changed: None,
        })?;
        let mut reservation = Self {
            shared: Arc::new(Shared {
                root: root.clone(),
                pending: Mutex::new(Some(pending)),
                ran_out: Mutex::new(None),
                seen: Mutex::new(Seen::default()),
                ended: false.into(),
            }),
            guard: None,
            available_bytes: 0,
            taken_bytes: 0,
        };
        // The watching thread must not wait for memory of its own. Where that is not allowed it may have to.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
        let guard = guard::start(&reservation.shared, bounds).map_err(HugePagesError::Thread)?;
        reservation.guard = Some(guard);
        let plan = Plan {
            page_bytes: memory.huge_page_bytes,
            left,
        };
        let mut kernel = kernel(Files {
            shared: Arc::clone(&reservation.shared),
            before,
        });
        let taken = plan.carry_out(&mut kernel)?;
        reservation.taken_bytes = taken * memory.huge_page_bytes;
        reservation.available_bytes = self::available_bytes(&root)?;
        // The looks of before say nothing of what is left.
        *lock(&reservation.shared.seen) = Seen::default();
        Ok(reservation)
    }

    /// What was taken away, in bytes.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// What was available once it was taken, in bytes.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        self.available_bytes
    }

    /// What was seen of memory since the last time.
    #[must_use]
    pub fn take_seen(&self) -> Seen {
        std::mem::take(&mut lock(&self.shared.seen))
    }

    /// Whether memory lasted until now.
    ///
    /// # Errors
    /// [`HugePagesError::RanOut`] when it did not: everything was given back then.
    pub fn check(&self) -> Result<(), HugePagesError> {
        lock(&self.shared.ran_out).map_or(Ok(()), |why| Err(HugePagesError::RanOut(why)))
    }

    /// Gives everything back now.
    ///
    /// # Errors
    /// [`HugePagesError::Undo`]; the next run tries again.
    pub fn give_back(self) -> Result<(), HugePagesError> {
        let pending = lock(&self.shared.pending).take();
        Ok(pending.map_or(Ok(()), Pending::finish)?)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.give_back();
        self.shared
            .ended
            .store(true, std::sync::atomic::Ordering::Release);
        if let Some(guard) = self.guard.take() {
            guard.thread().unpark();
            let _ = guard.join();
        }
        let _ = munlockall();
    }
}

/// How many huge pages of the default size there are to be.
fn setting(root: &Root) -> PathBuf {
    root.path("/proc/sys/vm/nr_hugepages")
}

/// What is to be taken.
#[derive(Debug, Clone, Copy)]
struct Plan {
    page_bytes: u64,
    left: Left,
}

/// What a plan is carried out on.
trait Kernel {
    /// How much is left now.
    fn left_bytes(&mut self, of: Left) -> Result<u64, HugePagesError>;

    /// Reserves so many huge pages in all, or as many as there are, and says how many there are then.
    fn reserve(&mut self, pages: u64) -> Result<u64, HugePagesError>;

    /// Moves pages together, so that huge pages become free.
    fn compact(&mut self);

    /// Lets time pass until the next look.
    fn wait(&mut self);
}

impl Plan {
    /// Reserves and gives back step by step until what is left stays at what is to be left. Says how many huge
    /// pages it reserved.
    fn carry_out(self, kernel: &mut impl Kernel) -> Result<u64, HugePagesError> {
        let Self { left, .. } = self;
        let (mut taken, mut tries, mut steady) = (0, 0, 0);
        for _ in 0..MOST_LOOKS {
            taken = self.approach(kernel, taken, &mut tries)?;
            kernel.wait();
            let is_steady = self.pages_off(kernel.left_bytes(left)?) == 0;
            steady = if is_steady { steady + 1 } else { 0 };
            if steady == STEADY_LOOKS {
                return Ok(taken);
            }
        }
        Err(HugePagesError::Unsteady {
            left_bytes: left.bytes(),
            available_bytes: kernel.left_bytes(left)?,
        })
    }

    /// Reserves until no more than what is to be left is there, or gives back once if it is less.
    fn approach(
        self,
        kernel: &mut impl Kernel,
        mut taken: u64,
        tries: &mut u32,
    ) -> Result<u64, HugePagesError> {
        let Self { left, .. } = self;
        let step = (STEP_BYTES / self.page_bytes).max(1);
        loop {
            let available_bytes = kernel.left_bytes(left)?;
            let off = self.pages_off(available_bytes);
            if off == 0 {
                return Ok(taken);
            }
            if off < 0 {
                if taken == 0 {
                    return Err(HugePagesError::TooLittle {
                        left_bytes: left.bytes(),
                        available_bytes,
                    });
                }
                return kernel.reserve(taken.saturating_sub(off.unsigned_abs()));
            }
            let now = kernel.reserve(taken + off.unsigned_abs().min(step))?;
            if now > taken {
                (taken, *tries) = (now, 0);
                continue;
            }
            *tries += 1;
            if *tries > TRIES {
                return Err(HugePagesError::Stuck {
                    left_bytes: left.bytes(),
                    available_bytes,
                });
            }
            kernel.compact();
        }
    }

    /// How many huge pages more than what is to be left are there, or fewer; none within what it may be missed by.
    fn pages_off(self, now_bytes: u64) -> i64 {
        let off = now_bytes.cast_signed() - self.left.bytes().cast_signed();
        if off.unsigned_abs() < self.left.tolerance_bytes(self.page_bytes) {
            return 0;
        }
        off / self.page_bytes.cast_signed()
    }
}

/// The kernel's files.
struct Files {
    shared: Arc<Shared>,
    /// Huge pages that were reserved before.
    before: u64,
}

impl Kernel for Files {
    fn left_bytes(&mut self, of: Left) -> Result<u64, HugePagesError> {
        Ok(of.of(&self.shared.root)?)
    }

    fn reserve(&mut self, pages: u64) -> Result<u64, HugePagesError> {
        let path = setting(&self.shared.root);
        let pending = lock(&self.shared.pending);
        let Some(pending) = &*pending else {
            let why = *lock(&self.shared.ran_out);
            return Err(why.map_or(UndoError::Interrupted.into(), HugePagesError::RanOut));
        };
        let value = (self.before + pages).to_string();
        pending.change(|| file::write(&path, &value))??;
        Ok(file::read_u64(&path)?.saturating_sub(self.before))
    }

    fn compact(&mut self) {
        // Kernels without it find fewer huge pages.
        let _ = file::write(&self.shared.root.path("/proc/sys/vm/compact_memory"), "1");
    }

    fn wait(&mut self) {
        std::thread::sleep(LOOK_INTERVAL);
    }
}
