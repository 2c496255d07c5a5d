//! What the engine itself needs, and keeps.

use super::common::{anon, app, host, pages};
use super::engine;
use crate::{Action, Place};

/// Bytes for each page after two passes over `count` pages at a budget of half of them.
fn state_bytes_per_page(scheme: &str, count: u64) -> f64 {
    let mut e = engine(scheme, pages(count / 2, count / 2, 0));
    let mut pool_bytes = 0;
    for n in (0..count).chain(0..count) {
        e.touch(app(0), anon(n), true);
        while let Some(decision) = e.next_decision() {
            match decision.action {
                Action::Store { chunk, .. } => {
                    e.stored(chunk, Place::Pool, 1000);
                    pool_bytes += 1000;
                }
                Action::Load { chunk, .. } => e.loaded(chunk),
                Action::Free { .. } => pool_bytes -= 1000,
                other => panic!("{other:?}"),
            }
            e.set_pool_bytes(pool_bytes);
        }
    }
    e.state_bytes() as f64 / count as f64
}

#[test]
fn the_state_of_a_page_takes_at_most_32_bytes() {
    let bytes = state_bytes_per_page("zram", 200_000);
    assert!((16.0..=32.0).contains(&bytes), "{bytes:.1} bytes a page");
}

#[test]
fn queues_do_not_grow_with_time() {
    let mut h = host("warmswap+prefetch=next:buffer=64", 256);
    (0..64).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    for _ in 0..300 {
        h.shrink(0);
        (0..64).for_each(|n| {
            h.touch(0, anon(n), false);
        });
        h.log.clear();
    }
    let e = &h.engine;
    assert!(e.counters().buffer_hits > 1000, "{:?}", e.counters());
    assert!(e.counters().dropped > 1000);
    assert!(e.kept.iter().all(|queue| queue.len() <= 2 * 64 + 65));
    assert!(
        e.buffer.queue_len() <= 2 * 64 + 65,
        "{}",
        e.buffer.queue_len()
    );
    h.check();
}
