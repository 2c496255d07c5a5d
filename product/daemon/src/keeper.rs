//! Devices of the daemon's own while swap of the machine comes and goes.
//!
//! A thread of its own sleeps until the kernel says that the list of swap areas changed, and then looks again: a device that is
//! to be there only without other swap is made or removed. Switching a device off takes as long as its pages take to come
//! back, which the thread that answers does not wait for.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use warmswap_sys::undo::{Inherited, Undo, UndoError};

use crate::config::Config;
use crate::devices::{DeviceError, Devices};
use crate::event::{Event, Events};

/// What the daemon set up for swap. Dropping it takes all of it back.
#[derive(Debug)]
pub struct SwapKeeper {
    devices: Devices,
    undo: Undo,
}

impl SwapKeeper {
    /// Makes what is configured; `inherited` is what a killed daemon left. Says in `notices` what it did.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn set_up(
        config: &Config,
        undo: &Undo,
        inherited: Vec<Inherited>,
        notices: &mut Vec<String>,
    ) -> Result<Self, DeviceError> {
        let devices = Devices::set_up(&config.zram, undo, inherited, notices)?;
        Ok(Self {
            devices,
            undo: undo.clone(),
        })
    }

    /// The devices that are its own, by path.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.devices.paths()
    }

    /// Swap of the machine changed. Returns what was done.
    pub fn look_again(&mut self) -> Vec<String> {
        let mut notices = Vec::new();
        self.devices.follow(&mut notices);
        notices
    }

    /// Follows swap from a thread of its own, and tells the daemon what it did.
    ///
    /// # Errors
    /// The system's, for a thread or descriptors. All is taken back then.
    pub fn follow(self, events: Events) -> std::io::Result<Following> {
        let (end, ended) = UnixStream::pair()?;
        let list = File::open(self.undo.root().path("/proc/swaps"))?;
        let thread = std::thread::Builder::new().name("swap".to_owned());
        let thread = thread.spawn(move || self.run(&list, &ended, &events))?;
        Ok(Following(Some((thread, end))))
    }

    fn run(mut self, list: &File, ended: &UnixStream, events: &Events) -> Self {
        loop {
            let mut fds = [
                PollFd::new(list, PollFlags::PRI | PollFlags::ERR),
                PollFd::new(ended, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                // For want of memory: what is there stays as it is.
                Err(_) => return self,
            }
            // The other end is closed.
            if !fds[1].revents().is_empty() {
                return self;
            }
            // The kernel counts a change as seen once it was polled.
            let notices = self.look_again();
            let own_devices = self.paths();
            let told = events.tell(Event::Swap {
                own_devices,
                notices,
            });
            if !told {
                return self;
            }
        }
    }
}

/// The thread that follows swap. Dropping it ends the thread and takes all back.
#[derive(Debug)]
pub struct Following(Option<(JoinHandle<SwapKeeper>, UnixStream)>);

impl Following {
    fn keeper(&mut self) -> Option<SwapKeeper> {
        let (thread, end) = self.0.take()?;
        drop(end);
        // After a panic all was taken back when the thread ended.
        thread.join().ok()
    }

    /// Ends the thread and takes all back; see [`Devices::remove`].
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn end(mut self, notices: &mut Vec<String>) -> Result<(), UndoError> {
        let Some(keeper) = self.keeper() else {
            return Ok(());
        };
        keeper.devices.remove(notices)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.keeper());
    }
}
