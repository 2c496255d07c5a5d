//! Chunks in, out and elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};

use warmswap_backing::testing::{Faults, FaultyStorage};
use warmswap_backing::{Backing, BackingConfig, BackingError};
use warmswap_codec::{ChunkPlan, Codec, Scratch};
use warmswap_engine::Refusal;
use warmswap_page::PAGE_BYTES;
use warmswap_policy::ChunkId;
use warmswap_pool::{Pool, PoolConfig};
use warmswap_store::{ChunkStore, Encoder, StoreError};

const CHUNKS: usize = 1000;

fn pool(limit_bytes: u64) -> Pool {
    let config = PoolConfig {
        limit_bytes,
        resume_percent: 100,
        verify: true,
        ..PoolConfig::default()
    };
    Pool::new(config).expect("a pool")
}

fn backing() -> (Backing, FaultyStorage) {
    let storage = FaultyStorage::new(1);
    let config = BackingConfig {
        capacity_bytes: 64 << 20,
        segment_bytes: 1 << 20,
        ..BackingConfig::default()
    };
    let backing = Backing::on(Box::new(storage.clone()), config).expect("a backing file");
    (backing, storage)
}

fn store() -> (ChunkStore, FaultyStorage) {
    let (backing, storage) = backing();
    let store = ChunkStore::new(pool(64 << 20), Some(backing), CHUNKS).expect("addresses");
    (store, storage)
}

/// Pages that compress to about half.
fn pages(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..count * PAGE_BYTES / 8).flat_map(|i| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = if i % 2 == 0 { state } else { seed };
        word.to_le_bytes()
    });
    words.collect()
}

fn plan(pages: usize) -> ChunkPlan {
    let bytes = (pages * PAGE_BYTES).next_power_of_two() as u32;
    ChunkPlan::new(Codec::Lz4, bytes).expect("a plan")
}

fn put(store: &ChunkStore, chunk: u32, plain: &[u8], members: &[u32]) -> Result<u32, Refusal> {
    let mut encoder = Encoder::new(Scratch::lean());
    let plan = plan(plain.len() / PAGE_BYTES);
    let encoded = encoder.encode(plan, plain, members).expect("whole pages");
    let stored = store.put(ChunkId(chunk), encoded, encoder.content(encoded))?;
    assert_eq!(
        store.bytes(ChunkId(chunk)).ok(),
        Some(stored.bytes as usize)
    );
    Ok(stored.bytes)
}

fn get(store: &ChunkStore, chunk: u32) -> Result<(Vec<u8>, Vec<u32>), StoreError> {
    let (mut record, mut scratch) = (Vec::new(), Scratch::lean());
    store.read(ChunkId(chunk), &mut record, |content| {
        let mut plain = vec![0; content.pages * PAGE_BYTES];
        content.decode(&mut scratch, &mut plain)?;
        Ok((plain, content.members().collect()))
    })?
}

#[test]
fn chunks_come_back_from_the_pool_and_from_the_backing_file() {
    let (store, _) = store();
    let filled = vec![7; 4 * PAGE_BYTES];
    let cases = [
        (pages(1, 1), vec![9]),
        (pages(8, 2), (100..108).collect()),
        (pages(8, 3), vec![]),
        (filled, vec![1, 2, 3, 4]),
    ];
    for (chunk, (plain, members)) in (0..).zip(&cases) {
        put(&store, chunk, plain, members).expect("room");
    }
    for is_back in [false, true] {
        for (chunk, (plain, members)) in (0..).zip(&cases) {
            let id = ChunkId(chunk);
            if is_back {
                let before = store.bytes(id).expect("stored");
                let bytes = store.write_back(id).expect("room");
                assert!(bytes == before || (before == 0 && bytes == 8));
            }
            assert_eq!(store.is_in_backing(id).ok(), Some(is_back));
            assert_eq!(store.pages(id), plain.len() / PAGE_BYTES);
            let (got, numbers) = get(&store, chunk).expect("whole");
            assert!(got == *plain);
            // One page alone, and pages that are all the same, have no numbers with them.
            if plain.len() > PAGE_BYTES && chunk != 3 {
                assert_eq!(numbers, *members);
            }
        }
    }
    for chunk in 0..cases.len() as u32 {
        store.free(ChunkId(chunk)).expect("stored");
        assert!(matches!(get(&store, chunk), Err(StoreError::NotStored(n)) if n == chunk));
        let freed = store.free(ChunkId(chunk));
        assert!(matches!(freed, Err(StoreError::NotStored(_))));
    }
    assert_eq!(store.pool.stats().stored_pages, 0);
    assert_eq!(store.backing_bytes(), 0);
}

#[test]
fn a_page_goes_to_the_backing_file_as_it_is() {
    let (store, _) = store();
    let page = pages(1, 5);
    store.put_raw(ChunkId(3), 9, &page).expect("room");
    assert_eq!(get(&store, 3).expect("whole").0, page);
    assert!(store.write_back(ChunkId(3)).is_err(), "it is there already");
    assert_eq!(get(&store, 3).expect("whole").0, page);
    store.free(ChunkId(3)).expect("stored");
}

#[test]
fn a_chunk_tells_a_page_of_its_own_from_another() {
    let (store, _) = store();
    put(&store, 1, &pages(1, 1), &[7]).expect("room");
    put(&store, 2, &pages(2, 2), &[7, 9]).expect("room");
    store.put_raw(ChunkId(3), 7, &pages(1, 3)).expect("room");
    put(&store, 4, &vec![5; PAGE_BYTES], &[7]).expect("room");
    put(&store, 5, &pages(1, 5), &[]).expect("room");
    let holds = |chunk, number, index| {
        let read = store.read(ChunkId(chunk), &mut Vec::new(), |chunk| {
            chunk.holds(number, index)
        });
        read.expect("it is stored")
    };
    for chunk in 1..=4 {
        assert!(holds(chunk, 7, 0));
        assert!(!holds(chunk, 8, 0), "chunk {chunk} holds another page");
        assert!(!holds(chunk, 7, 2), "chunk {chunk} is shorter");
    }
    assert!(holds(2, 9, 1) && !holds(2, 7, 1));
    assert!(holds(5, 8, 0), "its page was not told");
}

#[test]
fn room_is_made_in_a_full_pool_by_closing_its_gaps() {
    let store = ChunkStore::<Backing>::new(pool(1 << 20), None, CHUNKS).expect("addresses");
    let mut stored = 0;
    while put(&store, stored, &pages(1, stored.into()), &[]).is_ok() {
        stored += 1;
    }
    assert!(stored > 100);
    // Gaps everywhere, but no span that is empty.
    for chunk in (0..stored).filter(|chunk| chunk % 4 != 0) {
        store.free(ChunkId(chunk)).expect("stored");
    }
    let moved = store.pool.stats().moved_objects;
    let big = pages(32, 77);
    for chunk in stored..stored + 4 {
        put(&store, chunk, &big, &[]).expect("gaps were closed");
    }
    assert!(store.pool.stats().moved_objects > moved);
    for chunk in (0..stored).step_by(4) {
        assert!(get(&store, chunk).expect("whole").0 == pages(1, chunk.into()));
    }
}

#[test]
fn what_is_damaged_or_does_not_fit_is_an_error_of_its_own() {
    let (store, storage) = store();
    put(&store, 1, &pages(4, 4), &[1, 2, 3, 4]).expect("room");
    let mut short = vec![0; 3 * PAGE_BYTES];
    let room = (&mut Scratch::lean(), &mut Vec::new());
    let decoded = store.decode(ChunkId(1), room, &mut short);
    assert!(matches!(decoded, Err(StoreError::Decode { chunk: 1, .. })));
    store.write_back(ChunkId(1)).expect("room");
    storage.set_faults(Faults {
        permanent_read_eio: 100,
        ..Faults::default()
    });
    let read = get(&store, 1);
    assert!(matches!(
        read,
        Err(StoreError::Backing(BackingError::Io { .. }))
    ));
    storage.set_faults(Faults::default());
    assert!(get(&store, 1).expect("whole").0 == pages(4, 4));
    assert!(matches!(
        get(&store, CHUNKS as u32 + 5),
        Err(StoreError::NotStored(_))
    ));
}

#[test]
fn after_failed_output_a_chunk_is_where_it_was() {
    let (store, storage) = store();
    put(&store, 1, &pages(4, 4), &[]).expect("room");
    storage.set_faults(Faults {
        permanent_write_eio: 100,
        ..Faults::default()
    });
    assert!(store.write_back(ChunkId(1)).is_err());
    assert!(store.put_raw(ChunkId(2), 9, &pages(1, 1)).is_err());
    assert_eq!(store.is_in_backing(ChunkId(1)).ok(), Some(false));
    assert!(get(&store, 1).expect("whole").0 == pages(4, 4));
    assert!(matches!(get(&store, 2), Err(StoreError::NotStored(2))));
}

#[test]
fn chunks_can_be_read_while_they_are_moved() {
    let (store, _) = store();
    let plain: Vec<_> = (0..100).map(|chunk| pages(2, chunk)).collect();
    for (chunk, plain) in (0..).zip(&plain) {
        put(&store, chunk, plain, &[chunk, chunk + 1]).expect("room");
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for start in [0, 50] {
            let (store, plain, is_done) = (&store, &plain, &is_done);
            threads.spawn(move || {
                let mut chunk = start;
                while !is_done.load(Ordering::Relaxed) {
                    let (got, members) = get(store, chunk as u32).expect("whole");
                    assert!(got == plain[chunk]);
                    assert_eq!(members, [chunk as u32, chunk as u32 + 1]);
                    chunk = (chunk * 7 + 1) % plain.len();
                }
            });
        }
        for chunk in 0..plain.len() as u32 {
            store.write_back(ChunkId(chunk)).expect("room");
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.pool.stats().stored_pages, 0);
}
