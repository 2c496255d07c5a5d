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
use warmswap_sys::undo::UndoError;
use warmswap_sys::{FileError, Root};

use crate::devices::Devices;
use crate::event::{Event, Events};

/// The list of swap areas. What changes from its opening on is seen: it is opened before the first look at swap.
#[derive(Debug)]
pub struct SwapList(File);

impl SwapList {
    /// Opens it.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(root: &Root) -> Result<Self, FileError> {
        let path = root.path("/proc/swaps");
        let list = File::open(&path).map_err(|error| FileError::new("open", &path, error))?;
        Ok(Self(list))
    }

    /// Has `devices` follow what changes, from a thread of its own, which tells the daemon what it did.
    ///
    /// # Errors
    /// The system's, for a thread or descriptors. All is taken back then.
    pub fn follow(self, devices: Devices, events: Events) -> std::io::Result<Following> {
        let (end, ended) = UnixStream::pair()?;
        let thread = std::thread::Builder::new().name("swap".to_owned());
        let thread = thread.spawn(move || self.run(devices, &ended, &events))?;
        Ok(Following(Some((thread, end))))
    }

    fn run(self, mut devices: Devices, ended: &UnixStream, events: &Events) -> Devices {
        loop {
            let mut fds = [
                PollFd::new(&self.0, PollFlags::PRI | PollFlags::ERR),
                PollFd::new(ended, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                // For want of memory: what is there stays as it is.
                Err(_) => return devices,
            }
            // The other end is closed.
            if !fds[1].revents().is_empty() {
                return devices;
            }
            // The kernel counts a change as seen once it was polled.
            let mut notices = Vec::new();
            devices.follow(&mut notices);
            let told = events.tell(Event::Swap {
                own_devices: devices.paths(),
                notices,
            });
            if !told {
                return devices;
            }
        }
    }
}

/// The thread that follows swap. Dropping it ends the thread and takes all back.
#[derive(Debug)]
pub struct Following(Option<(JoinHandle<Devices>, UnixStream)>);

impl Following {
    fn devices(&mut self) -> Option<Devices> {
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
        let devices = self.devices();
        devices.map_or(Ok(()), |devices| devices.remove(notices))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.devices());
    }
}
