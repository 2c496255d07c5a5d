//! The application's state as the daemon tells it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warmswap_protocol::{Follower, Phase};

use crate::error::HeapError;
use crate::heap::Inner;

/// Between two looks at whether the heap is still there.
const LOOK: Duration = Duration::from_secs(1);

/// A launch is over after so long, unless the program says so before: the paper's T_F.
const LAUNCH: Duration = Duration::from_secs(3);

/// Follows from a thread of its own, until the heap is dropped.
pub fn start(inner: &Arc<Inner>, mut follower: Follower) -> Result<(), HeapError> {
    let heap = Arc::downgrade(inner);
    let follow = move || {
        let mut launched: Option<Instant> = None;
        loop {
            let told = follower.wait(LOOK);
            let Some(inner) = heap.upgrade() else {
                return;
            };
            match told {
                Some(Phase::Background) => {
                    launched = None;
                    inner.background();
                }
                Some(_) => {
                    launched = Some(Instant::now());
                    inner.foreground();
                }
                None => {}
            }
            if launched.is_some_and(|at| at.elapsed() >= LAUNCH) {
                launched = None;
                if inner.launch.is_under_way() {
                    inner.launch_done();
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("follow".to_owned());
    thread.spawn(follow).map_err(HeapError::Thread)?;
    Ok(())
}
