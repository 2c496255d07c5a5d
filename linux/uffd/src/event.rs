//! Events that are read from a userfaultfd.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::{abi, errno};

/// Something happened to registered memory.
#[derive(Debug)]
pub enum Event {
    /// A thread waits for a page.
    Fault {
        /// Where: the page, or the exact address with the feature for it.
        address: usize,
        /// It wants to write.
        write: bool,
        /// The page is there, but write-protected.
        protected: bool,
        /// The thread, with the feature for it; else 0.
        thread: u32,
    },
    /// The process forked; the child's memory is on this descriptor.
    Fork(OwnedFd),
    /// Memory was moved by `mremap`.
    Remap {
        /// From where.
        from: usize,
        /// To where.
        to: usize,
        /// Bytes.
        len: usize,
    },
    /// The pages of a range were given up: they read as zeros unless they are brought.
    Remove {
        /// First address.
        start: usize,
        /// First address behind.
        end: usize,
    },
    /// A range was unmapped.
    Unmap {
        /// First address.
        start: usize,
        /// First address behind.
        end: usize,
    },
    /// One that this crate does not know.
    Unknown(u8),
}

/// How often descriptors are looked at that the kernel refuses to wait for.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// One of several threads that wait for events: an event wakes one of those that wait, and no other.
#[derive(Debug)]
pub struct Waiter {
    epoll: OwnedFd,
}

impl Waiter {
    pub(super) fn new(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&epoll, descriptor, epoll::EventData::new_u64(0), flags)?;
        Ok(Self { epoll })
    }

    /// Waits until there may be an event, or `timeout_ms` milliseconds have passed.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait(&self, timeout_ms: u32) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: i64::from(timeout_ms / 1000),
            tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000,
        };
        let none = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        match epoll::wait(&self.epoll, &mut [none], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Waits until one of the descriptors has an event, or `timeout_ms` milliseconds have passed; whether there may
/// be an event. At most two descriptors.
pub(super) fn wait(descriptors: &[BorrowedFd<'_>], timeout_ms: i32) -> io::Result<bool> {
    let mut fds = [libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }; 2];
    for (place, descriptor) in fds.iter_mut().zip(descriptors) {
        place.fd = descriptor.as_raw_fd();
    }
    // SAFETY: the array is live and its length is given; a negative descriptor is passed over.
    let count = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
    match count {
        0.. => Ok(count > 0),
        _ if errno() == libc::EINTR => Ok(false),
        // More descriptors than a process may have that lowered its limit: they are looked at without being asked.
        _ if errno() == libc::EINVAL => {
            std::thread::sleep(LOOK_EVERY);
            Ok(true)
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads one event from a descriptor that does not block.
pub(super) fn read(fd: BorrowedFd<'_>) -> io::Result<Option<Event>> {
    let mut message = abi::Message::default();
    loop {
        // SAFETY: the buffer is a structure of plain numbers, and its own length is given.
        let count = unsafe {
            libc::read(
                fd.as_raw_fd(),
                (&raw mut message).cast(),
                size_of::<abi::Message>(),
            )
        };
        if count == size_of::<abi::Message>() as isize {
            return Ok(Some(decode(&message)));
        }
        match errno() {
            _ if count >= 0 => return Ok(None),
            libc::EAGAIN => return Ok(None),
            libc::EINTR => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn decode(message: &abi::Message) -> Event {
    let [a, b, c] = message.words;
    match message.event {
        abi::EVENT_PAGEFAULT => Event::Fault {
            address: b as usize,
            write: a & abi::PAGEFAULT_WRITE != 0,
            protected: a & abi::PAGEFAULT_WP != 0,
            thread: c as u32,
        },
        // SAFETY: the kernel made this descriptor for the reader of the event, its only owner.
        abi::EVENT_FORK => Event::Fork(unsafe { OwnedFd::from_raw_fd(a as u32 as i32) }),
        abi::EVENT_REMAP => Event::Remap {
            from: a as usize,
            to: b as usize,
            len: c as usize,
        },
        abi::EVENT_REMOVE => Event::Remove {
            start: a as usize,
            end: b as usize,
        },
        abi::EVENT_UNMAP => Event::Unmap {
            start: a as usize,
            end: b as usize,
        },
        other => Event::Unknown(other),
    }
}
