//! One client of a server.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::protocol::{MAX_REQUEST_BYTES, read_request, reply_line};
use crate::{Peer, Refusal, RefusalKind, Reply, Request};

/// How a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There may be more.
    Open,
    /// The client is gone, or has all that it will get.
    Close,
}

/// A client. It holds back one client only: requests are taken one by one, each after the answer before it
/// has left, so that what waits here is at most one answer and the lines of one read.
#[derive(Debug)]
pub(super) struct Connection {
    fd: OwnedFd,
    peer: Peer,
    /// What was read and not yet taken: less than a line, or lines behind an answer that waits.
    input: Vec<u8>,
    /// Of `input`, so much has no newline.
    searched: usize,
    /// An answer on its way; the first `sent` bytes have left.
    output: Vec<u8>,
    sent: usize,
    /// The client sends no more, or nothing that could be understood.
    deaf: bool,
    /// When it last did something, on the server's own count.
    pub(super) last_active: u64,
}

impl Connection {
    /// A client behind `fd`, which does not block.
    pub(super) fn new(fd: OwnedFd, peer: Peer, now: u64) -> Self {
        Self {
            fd,
            peer,
            input: Vec::new(),
            searched: 0,
            output: Vec::new(),
            sent: 0,
            deaf: false,
            last_active: now,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What it waits for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.output.is_empty() {
            PollFlags::IN
        } else {
            PollFlags::OUT
        }
    }

    /// Reads, answers and writes as far as it goes without blocking. Returns the number of requests that the
    /// handler was given.
    pub(super) fn serve(
        &mut self,
        handler: &mut dyn FnMut(Peer, Request) -> Reply,
    ) -> (Next, usize) {
        if self.output.is_empty() && self.read().is_err() {
            return (Next::Close, 0);
        }
        let mut served = 0;
        loop {
            if self.flush().is_err() {
                return (Next::Close, served);
            }
            if !self.output.is_empty() {
                return (Next::Open, served);
            }
            match self.next_line() {
                Some(Ok(line)) => {
                    let reply = read_request(&line).and_then(|request| {
                        served += 1;
                        handler(self.peer, request)
                    });
                    self.output = reply_line(reply);
                }
                Some(Err(refusal)) => self.output = reply_line(Err(refusal)),
                None if self.deaf => return (Next::Close, served),
                None => return (Next::Open, served),
            }
        }
    }

    fn read(&mut self) -> io::Result<()> {
        if self.deaf {
            return Ok(());
        }
        let mut buffer = [0u8; 4096];
        match recv(&self.fd, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => self.deaf = true,
            Ok((_, len)) => self.input.extend_from_slice(&buffer[..len]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Takes the next line that is complete, without its newline; or the reason why there will be none.
    fn next_line(&mut self) -> Option<Result<Vec<u8>, Refusal>> {
        let found = self.input[self.searched..].iter().position(|&b| b == b'\n');
        let len = found.map_or(self.input.len(), |at| self.searched + at);
        if len >= MAX_REQUEST_BYTES {
            self.deaf = true;
            self.input = Vec::new();
            self.searched = 0;
            let message = format!("the line is longer than {MAX_REQUEST_BYTES} bytes");
            return Some(Err(Refusal::new(RefusalKind::Malformed, message)));
        }
        if found.is_none() {
            self.searched = len;
            return None;
        }
        let mut line: Vec<u8> = self.input.drain(..=len).collect();
        line.pop();
        self.searched = 0;
        Some(Ok(line))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while self.sent < self.output.len() {
            match send(&self.fd, &self.output[self.sent..], flags) {
                Ok(len) => self.sent += len,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }
}
