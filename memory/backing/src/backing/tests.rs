use std::collections::HashMap;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::testing::{Faults, FaultyStorage};

const SEGMENT_BYTES: u32 = 4096;
const LARGEST: usize = SEGMENT_BYTES as usize - TRAILER_BYTES;
/// Four records of it fill a segment.
const QUARTER: usize = SEGMENT_BYTES as usize / 4 - TRAILER_BYTES;

fn config(segments: u64) -> BackingConfig {
    BackingConfig {
        capacity_bytes: segments * u64::from(SEGMENT_BYTES),
        segment_bytes: SEGMENT_BYTES,
        ..BackingConfig::default()
    }
}

fn faulty(segments: u64, seed: u64) -> (Backing, FaultyStorage) {
    let storage = FaultyStorage::new(seed);
    let backing = Backing::on(Box::new(storage.clone()), config(segments)).expect("valid");
    (backing, storage)
}

fn payload(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn read(backing: &Backing, id: RecordId) -> Result<Vec<u8>, BackingError> {
    let mut payload = Vec::new();
    backing.read(id, &mut payload).map(|()| payload)
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Read(usize),
    Free(usize),
    Clean(u64),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop_oneof![1..200_usize, 1..1500_usize, 1..=LARGEST].prop_map(Step::Append),
        3 => any::<usize>().prop_map(Step::Read),
        4 => any::<usize>().prop_map(Step::Free),
        1 => (0..4_u64).prop_map(Step::Clean),
        1 => Just(Step::Sync),
    ]
}

fn faults() -> impl Strategy<Value = Faults> {
    let some = || prop_oneof![3 => Just(0_u8), 1 => 1..30_u8];
    let loud = (some(), some(), some(), some(), some(), some());
    (loud, some(), some(), some()).prop_map(|(loud, torn, flipped, sync_eio)| Faults {
        short: loud.0,
        interrupted: loud.1,
        transient_eio: loud.2,
        permanent_write_eio: loud.3,
        permanent_read_eio: loud.4,
        no_space: loud.5,
        torn,
        flipped,
        sync_eio,
    })
}

/// Applies steps under faults. Whatever happens, a read gives what was written, or an error; and
/// an error that speaks of damage needs a write that was damaged.
fn run(steps: Vec<Step>, faults: Faults, seed: u64) -> Result<(), TestCaseError> {
    let (backing, storage) = faulty(8, seed);
    let mut oracle: HashMap<RecordId, Vec<u8>> = HashMap::new();
    let nth = |oracle: &HashMap<RecordId, Vec<u8>>, n: usize| {
        let mut ids: Vec<_> = oracle.keys().copied().collect();
        ids.sort();
        (!ids.is_empty()).then(|| ids[n % ids.len()])
    };
    let expected_error = |error: &BackingError, storage: &FaultyStorage| match error {
        BackingError::Corrupt { .. } => storage.damaged_writes() > 0,
        BackingError::Io { .. } => faults != Faults::default(),
        BackingError::Full { .. } => true,
        _ => false,
    };
    storage.set_faults(faults);
    for (i, step) in steps.into_iter().enumerate() {
        match step {
            Step::Append(len) => match backing.append(&payload(i as u64, len)) {
                Ok(id) => prop_assert!(oracle.insert(id, payload(i as u64, len)).is_none()),
                Err(error) => prop_assert!(expected_error(&error, &storage), "{error}"),
            },
            Step::Read(n) => {
                if let Some(id) = nth(&oracle, n) {
                    match read(&backing, id) {
                        Ok(found) => prop_assert_eq!(&found, &oracle[&id]),
                        Err(error) => prop_assert!(expected_error(&error, &storage), "{error}"),
                    }
                }
            }
            Step::Free(n) => {
                if let Some(id) = nth(&oracle, n) {
                    prop_assert!(backing.free(id).is_ok());
                    prop_assert!(matches!(
                        backing.free(id),
                        Err(BackingError::UnknownRecord(_))
                    ));
                    prop_assert!(matches!(
                        read(&backing, id),
                        Err(BackingError::UnknownRecord(_))
                    ));
                    oracle.remove(&id);
                }
            }
            Step::Clean(max_segments) => {
                if let Err(error) = backing.clean(max_segments) {
                    prop_assert!(expected_error(&error, &storage), "{error}");
                }
            }
            Step::Sync => prop_assert!(backing.sync().is_ok() || faults.sync_eio > 0),
        }
        let stats = backing.stats();
        prop_assert!(storage.len() <= stats.capacity_bytes);
        prop_assert!(stats.live_bytes + stats.dead_bytes <= stats.capacity_bytes);
        prop_assert_eq!(stats.live_records, oracle.len() as u64);
        prop_assert_eq!(backing.live_bytes(), stats.live_bytes);
        let recounted = backing.log.lock().recount();
        prop_assert_eq!((stats.live_bytes, stats.dead_bytes), recounted);
    }
    // Without further faults everything is there, but for the damage of earlier ones.
    storage.set_faults(Faults::default());
    for (id, written) in &oracle {
        match read(&backing, *id) {
            Ok(found) => prop_assert_eq!(&found, written),
            Err(error) => {
                let damaged = matches!(error, BackingError::Corrupt { .. });
                prop_assert!(damaged && storage.damaged_writes() > 0, "{error}");
            }
        }
    }
    let trailers = oracle.len() * TRAILER_BYTES;
    let live_bytes: usize = oracle.values().map(Vec::len).sum::<usize>() + trailers;
    prop_assert_eq!(backing.stats().live_bytes, live_bytes as u64);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_read_was_written_or_there_is_an_error(
        steps in prop::collection::vec(step(), 1..150),
        faults in faults(),
        seed: u64,
    ) {
        run(steps, faults, seed)?;
    }

    #[test]
    fn without_faults_there_are_no_errors(
        steps in prop::collection::vec(step(), 1..150),
        seed: u64,
    ) {
        run(steps, Faults::default(), seed)?;
    }
}

#[test]
fn every_flipped_bit_of_the_file_is_noticed() {
    let (backing, storage) = faulty(4, 1);
    let id = backing.append(&payload(1, 100)).expect("room");
    for bit in 0..storage.len() * 8 {
        assert!(storage.flip_bit(bit));
        let error = read(&backing, id).expect_err("a flipped bit");
        assert!(
            matches!(error, BackingError::Corrupt { offset: 0, .. }),
            "{error}"
        );
        assert!(storage.flip_bit(bit));
    }
    assert_eq!(read(&backing, id).expect("as written"), payload(1, 100));
    assert_eq!(backing.stats().corrupt_reads, storage.len() * 8);
}

#[test]
fn cleaning_reclaims_under_churn_and_ids_stay_valid() {
    let (backing, _) = faulty(64, 1);
    let mut live: Vec<(RecordId, u64)> = Vec::new();
    let mut seed = 0_u64;
    let mut appended_bytes = 0;
    // Two thirds of the capacity live, many times the capacity written.
    while appended_bytes < 20 * 64 * u64::from(SEGMENT_BYTES) {
        let len = 200 + (seed * 37 % 900) as usize;
        live.push((backing.append(&payload(seed, len)).expect("room"), seed));
        appended_bytes += len as u64;
        seed += 1;
        if backing.stats().live_bytes > 64 * u64::from(SEGMENT_BYTES) * 2 / 3 {
            let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            let victim = random as usize % live.len();
            backing.free(live.swap_remove(victim).0).expect("live");
        }
    }
    let stats = backing.stats();
    assert!(stats.cleaned_segments > 100, "{stats:?}");
    let copies = stats.cleaned_bytes as f64 / stats.written_bytes as f64;
    assert!(
        copies < 3.0,
        "{copies} bytes copied for each that is written"
    );
    for (id, seed) in live {
        let len = 200 + (seed * 37 % 900) as usize;
        assert_eq!(read(&backing, id).expect("live"), payload(seed, len));
    }
}

#[test]
fn a_full_store_says_so_and_takes_records_again_after_frees() {
    let (backing, storage) = faulty(8, 1);
    let mut ids = Vec::new();
    let full = loop {
        match backing.append(&payload(1, QUARTER)) {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, BackingError::Full { .. }), "{full}");
    assert_eq!(ids.len(), 28, "four in each of seven segments");
    for id in ids.iter().step_by(2) {
        backing.free(*id).expect("live");
    }
    for _ in 0..10 {
        backing
            .append(&payload(2, QUARTER))
            .expect("cleaning makes room");
    }
    assert!(storage.len() <= backing.stats().capacity_bytes);
}

#[test]
fn failed_appends_and_failed_cleaning_lose_nothing() {
    let (backing, storage) = faulty(8, 1);
    let kept: Vec<_> = (0..20_u64)
        .map(|seed| (backing.append(&payload(seed, 900)).expect("room"), seed))
        .collect();
    for (id, _) in kept.iter().skip(1).step_by(2) {
        backing.free(*id).expect("live");
    }
    for faults in [
        Faults {
            no_space: 100,
            ..Faults::default()
        },
        Faults {
            permanent_write_eio: 100,
            ..Faults::default()
        },
    ] {
        storage.set_faults(faults);
        let appended = backing.append(&payload(99, 900));
        assert!(matches!(
            appended,
            Err(BackingError::Io {
                operation: Operation::Write,
                ..
            })
        ));
        assert!(matches!(backing.clean(1), Err(BackingError::Io { .. })));
    }
    storage.set_faults(Faults {
        permanent_read_eio: 100,
        ..Faults::default()
    });
    assert!(matches!(
        backing.clean(1),
        Err(BackingError::Io {
            operation: Operation::Read,
            ..
        })
    ));
    storage.set_faults(Faults::default());
    for (id, seed) in kept.iter().step_by(2) {
        assert_eq!(read(&backing, *id).expect("kept"), payload(*seed, 900));
    }
    assert_eq!(backing.stats().failed_appends, 2);
}

#[test]
fn transient_errors_are_retried_a_bounded_number_of_times() {
    let (backing, storage) = faulty(8, 7);
    storage.set_faults(Faults {
        transient_eio: 20,
        interrupted: 30,
        short: 50,
        ..Faults::default()
    });
    let ids: Vec<_> = (0..16_u64)
        .map(|seed| backing.append(&payload(seed, 800)))
        .collect();
    let ids: Vec<_> = ids.into_iter().flatten().collect();
    assert!(ids.len() > 10, "only {} succeeded", ids.len());
    assert!(backing.stats().io_retries > 0);
    storage.set_faults(Faults {
        permanent_read_eio: 100,
        ..Faults::default()
    });
    let error = read(&backing, ids[0]).expect_err("the disk is gone");
    assert!(
        matches!(
            error,
            BackingError::Io {
                operation: Operation::Read,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(backing.stats().failed_reads, 1);
}

#[test]
fn sizes_out_of_range_are_refused() {
    let (backing, _) = faulty(4, 1);
    for len in [0, LARGEST + 1] {
        let error = backing.append(&vec![1; len]).expect_err("out of range");
        assert!(matches!(error, BackingError::RecordSize { .. }), "{error}");
    }
    let largest = payload(1, LARGEST);
    let id = backing.append(&largest).expect("just fits");
    assert_eq!(read(&backing, id).expect("live"), largest);
    assert_eq!(backing.payload_bytes(id).expect("live"), largest.len());
    for (capacity_bytes, segment_bytes) in [(1 << 20, 4095), (16_383, 4096), (1 << 40, 2 << 30)] {
        let config = BackingConfig {
            capacity_bytes,
            segment_bytes,
            ..BackingConfig::default()
        };
        let error = Backing::on(Box::new(FaultyStorage::new(1)), config).expect_err("no store");
        assert!(matches!(error, BackingError::Config { .. }), "{error}");
    }
}

#[test]
fn threads_share_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("swap");
    let backing = Backing::create(&path, config(64)).expect("new");
    thread::scope(|scope| {
        for worker in 0..4_u64 {
            let backing = &backing;
            scope.spawn(move || {
                let mut live: Vec<(RecordId, u64)> = Vec::new();
                for round in 0..2000_u64 {
                    let seed = worker << 32 | round;
                    let id = backing.append(&payload(seed, 100 + round as usize % 700));
                    live.push((id.expect("a quarter of the capacity at most"), seed));
                    let nth = (round * 31) as usize % live.len();
                    let (id, seed) = live[nth];
                    let len = 100 + (seed & 0xffff_ffff) as usize % 700;
                    assert_eq!(read(backing, id).expect("live"), payload(seed, len));
                    if live.len() > 60 {
                        backing.free(live.swap_remove(nth).0).expect("live");
                    }
                    if round % 100 == 0 {
                        backing.clean(1).expect("no faults");
                    }
                }
            });
        }
    });
    let stats = backing.stats();
    assert!(stats.cleaned_segments > 0);
    assert!(path.metadata().expect("exists").len() <= stats.capacity_bytes);
    backing.sync().expect("a real file");
    drop(backing);
    assert!(!path.exists(), "removed on drop");
}
