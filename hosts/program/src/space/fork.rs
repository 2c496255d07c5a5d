//! Forks of a program: what parent and child do before and after.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use warmswap_arena::ArenaError;
use warmswap_sys::fork::MostFiles;

use super::Space;
use crate::error::SpaceError;
use crate::fork::Link;

impl Space {
    /// Before a `fork`: waits until all work has ended and lets none begin. The thread that calls this must
    /// not use the space until [`Self::after_fork_in_parent`] or [`Self::after_fork_in_child`].
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn before_fork(&self) -> Result<(), SpaceError> {
        self.shared.core.gate.close();
        if self.is_adopted_at_rest() {
            self.prepare_child();
        }
        self.hooks.binding.hold_off();
        self.hooks.binding.release();
        let mut pager = self.shared.pager.lock();
        Ok(self.addresses(&mut pager).inherit(true)?)
    }

    /// What a child needs of this process. A child that lacks some of it ends, and says so.
    fn prepare_child(&self) {
        let link = Link::new().ok();
        *self.link.lock() = link.clone();
        let core = &self.shared.core;
        self.hooks.fork.load().begin(link, self.file.as_ref());
        if let (Some(file), Some(backing)) = (&self.file, &core.store.backing) {
            backing.close_segments();
            let is_full =
                |error: &io::Error| error.raw_os_error() == Some(Errno::MFILE.raw_os_error());
            *self.lent.lock() = file.lend().or_else(|error| {
                let _most_files = is_full(&error).then(MostFiles::allow);
                file.lend()
            });
        }
    }

    /// The descriptors of this process that its child needs, in the child, ascending.
    #[must_use]
    pub fn descriptors_for_child(&self) -> Vec<i32> {
        let lent = self.lent.lock();
        let files = lent.iter().flatten();
        let mut numbers: Vec<_> = files.map(AsRawFd::as_raw_fd).collect();
        numbers.sort_unstable();
        numbers
    }

    /// After a `fork`, in the process that called it: waits until the child needs it no more. A child that makes no
    /// progress, since it is stopped, is left to a copy of this process, which waits for it.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn after_fork_in_parent(&self) -> Result<(), SpaceError> {
        *self.lent.lock() = Ok(Vec::new());
        let result = {
            let mut pager = self.shared.pager.lock();
            self.addresses(&mut pager).inherit(false)
        };
        let forked = self.hooks.fork.load();
        forked.wait();
        forked.end();
        self.shared.core.gate.open();
        Ok(result?)
    }

    /// After a `fork`, in the child, by the thread that called it: true when the child's memory has to be taken
    /// over at once, by a thread that calls [`Self::attach_in_child`]. Until then the space must not be used.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn after_fork_in_child(&self) -> Result<bool, SpaceError> {
        let shared = &self.shared;
        shared.process.store(std::process::id(), Relaxed);
        shared.pager.forget_waiting();
        std::mem::forget(std::mem::take(&mut *shared.threads.lock()));
        self.app.forget_job();
        shared.core.gate.forget_waiting();
        // The descriptors that the parent's may hold mean nothing here.
        self.hooks.fork.renew();
        self.hooks.home.call_others();
        if shared.pager.lock().map.is_adopted() {
            return Ok(true);
        }
        self.after_fork_in_parent()?;
        Ok(false)
    }

    /// After a `fork`, in the child, by a thread whose descriptors the program must not see, but for
    /// [`Self::descriptors_for_child`]: the child's memory is a space of its own, with all its pages, its own threads and
    /// the same budget.
    ///
    /// The parent, or its copy, resolves the child's faults until then. Nothing of the backing file is copied: both read
    /// what was in it at the fork, and each writes to a file of its own.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn attach_in_child(&self) -> Result<(), ArenaError> {
        let shared = &self.shared;
        // The limit that the program has set is below what the descriptors take, at worst.
        let _most_files = MostFiles::allow();
        let link = self.link.lock().take();
        let link = link.ok_or_else(|| {
            let source = std::io::ErrorKind::OutOfMemory.into();
            ArenaError::system("share a page with the parent")(source)
        })?;
        if let Some(file) = &self.file {
            let lent = std::mem::replace(&mut *self.lent.lock(), Ok(Vec::new()));
            lent.and_then(|lent| file.take_over(lent))
                .map_err(ArenaError::system("read the backing file of the parent"))?;
        }
        self.hooks.fork.load().keep_spare();
        shared.core.memory.reopen()?;
        // While the parent still resolves the child's faults: to make a thread the C library allocates, which may be memory
        // of the program's own allocator.
        shared.start_threads(&self.config)?;
        // No thread of the child uses the space from here until it is adopted.
        link.can_do();
        let mut pager = shared.pager.lock();
        self.keep_accessed(&mut pager);
        let mut addresses = self.addresses(&mut pager);
        let adopted = addresses
            .adopt_in_child(&link)
            .and_then(|()| addresses.inherit(false));
        adopted.map_err(|error| ArenaError::Adopt(error.to_string()))?;
        drop(pager);
        let _inside = shared.core.gate.open_and_stay();
        shared.threads.lock().begin();
        Ok(())
    }

    /// As [`Self::is_adopted`], asked between [`Self::before_fork`] and what follows it.
    #[must_use]
    pub fn is_adopted_at_rest(&self) -> bool {
        self.shared.pager.lock().map.is_adopted()
    }
}
