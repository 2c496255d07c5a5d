//! Events that a thread of their own unpacks ahead of use.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use crate::error::{Result, TraceError};
use crate::event::Event;
use crate::events::Events;

/// Blocks that are unpacked ahead at most.
const BLOCKS: usize = 2;

/// The events of a trace in order, unpacked by another thread: see [`Events::ahead`].
pub struct Ahead {
    full: Receiver<Result<Vec<Event>>>,
    empty: Sender<Vec<Event>>,
    /// The end of the events, or an error, was given.
    is_over: bool,
}

impl Events {
    /// The same events, block by block. A thread of their own unpacks them, up to two blocks ahead; it ends with them, or soon
    /// after they are dropped.
    ///
    /// # Errors
    ///
    /// There can be no more threads.
    pub fn ahead(mut self) -> Result<Ahead> {
        let path = self.path().to_owned();
        let (give, full) = channel();
        let (empty, take) = channel::<Vec<Event>>();
        (0..BLOCKS).for_each(|_| empty.send(Vec::new()).expect("the receiver is here"));
        let unpack = move || {
            for mut block in take {
                let next = self.next_block(&mut block);
                let is_last = !matches!(next, Ok(true));
                if give.send(next.map(|_| block)).is_err() || is_last {
                    return;
                }
            }
        };
        match Builder::new().name("events".to_owned()).spawn(unpack) {
            Ok(_) => Ok(Ahead {
                full,
                empty,
                is_over: false,
            }),
            Err(source) => Err(TraceError::Io {
                path,
                action: "start a thread to read",
                source,
            }),
        }
    }
}

impl Ahead {
    /// Replaces what is in `events` by the next ones, as [`Events::next_block`] does.
    ///
    /// # Errors
    ///
    /// As of [`Events::next_block`].
    ///
    /// # Panics
    ///
    /// The thread that unpacks did.
    pub fn next_block(&mut self, events: &mut Vec<Event>) -> Result<bool> {
        events.clear();
        if self.is_over {
            return Ok(false);
        }
        // A thread that has ended takes no more, and is noticed below.
        let _ = self.empty.send(std::mem::take(events));
        let next = self
            .full
            .recv()
            .expect("the thread that unpacks events panicked");
        self.is_over = !matches!(&next, Ok(block) if !block.is_empty());
        *events = next?;
        Ok(!self.is_over)
    }
}

#[cfg(test)]
mod tests {
    use crate::reader::TraceReader;
    use crate::stop::Stop;
    use crate::testing::{sample_trace, scratch};

    #[test]
    fn another_thread_unpacks_the_same_events() {
        let dir = scratch();
        let (path, events, _) = sample_trace(dir.path());
        let reader = TraceReader::open(path).expect("a trace");
        let mut ahead = reader.events().ahead().expect("a thread");
        let (mut all, mut block) = (Vec::new(), Vec::new());
        while ahead.next_block(&mut block).expect("whole blocks") {
            all.extend_from_slice(&block);
        }
        assert_eq!(all, events);
        assert!(matches!(ahead.next_block(&mut block), Ok(false)));
    }

    #[test]
    fn an_error_comes_in_its_place_and_ends_the_events() {
        let dir = scratch();
        let (path, ..) = sample_trace(dir.path());
        let stop = Stop::default();
        let reader = TraceReader::open(path)
            .expect("a trace")
            .with_stop(stop.clone());
        stop.set();
        let mut ahead = reader.events().ahead().expect("a thread");
        let mut block = Vec::new();
        assert!(ahead.next_block(&mut block).is_err());
        assert!(matches!(ahead.next_block(&mut block), Ok(false)));
        assert!(block.is_empty());
    }
}
