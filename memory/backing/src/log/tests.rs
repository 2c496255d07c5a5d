use super::*;
use warmswap_testkit::Random;

const SEGMENT: u32 = 1000;

fn append(log: &mut Log, head: Head, bytes: u32) -> Option<RecordId> {
    let extent = log.reserve(head, bytes)?;
    let id = log.new_id()?;
    log.publish(id, extent);
    Some(id)
}

#[test]
fn an_index_entry_takes_16_bytes() {
    assert_eq!(size_of::<RecordEntry>(), 16);
}

#[test]
fn the_last_free_segment_is_the_cleaners() {
    let mut log = Log::new(4, SEGMENT);
    let stored = std::iter::from_fn(|| append(&mut log, Head::Caller, 400)).count();
    assert_eq!(stored, 6, "two in each of three segments");
    assert_eq!(log.free_segments(), 1);
    assert!(append(&mut log, Head::Cleaner, 400).is_some());
}

#[test]
fn a_segment_is_free_again_when_its_last_record_is() {
    let mut log = Log::new(4, SEGMENT);
    let ids: Vec<_> = std::iter::from_fn(|| append(&mut log, Head::Caller, 500)).collect();
    assert_eq!((ids.len(), log.free_segments()), (6, 1));
    assert!(log.free(ids[0]));
    assert_eq!(log.free_segments(), 1);
    assert!(log.free(ids[1]));
    assert_eq!(log.free_segments(), 2);
    assert!(!log.free(ids[1]), "its id is not valid any more");
    let again = append(&mut log, Head::Caller, 500).expect("room");
    assert_eq!(again.number, ids[1].number);
    assert_ne!(again, ids[1]);
}

#[test]
fn segments_without_freed_bytes_are_no_victims() {
    let mut log = Log::new(8, SEGMENT);
    let ids: Vec<_> = std::iter::from_fn(|| append(&mut log, Head::Caller, 250)).collect();
    assert_eq!(log.victim(), None);
    log.free(ids[5]);
    assert_eq!(
        log.victim(),
        log.lookup(ids[4]).map(|extent| extent.segment)
    );
    let two_dead = log.lookup(ids[12]).expect("live").segment;
    log.free(ids[13]);
    log.free(ids[14]);
    log.free(ids[15]);
    assert_eq!(log.victim(), Some(two_dead), "more room for less copying");
    log.set_damaged(two_dead);
    assert_eq!(
        log.victim(),
        log.lookup(ids[4]).map(|extent| extent.segment)
    );
}

#[test]
fn segments_that_were_closed_early_are_not_appended_to_and_come_back_by_cleaning() {
    let mut log = Log::new(8, SEGMENT);
    let first = append(&mut log, Head::Caller, 300).expect("room");
    log.close_open();
    log.close_open();
    let second = append(&mut log, Head::Caller, 300).expect("room");
    let [first, second] = [first, second].map(|id| log.lookup(id).expect("live").segment);
    assert_ne!(first, second);
    assert_eq!(log.victim(), Some(first));
}

#[test]
fn a_segment_being_written_is_neither_victim_nor_freed() {
    let mut log = Log::new(4, SEGMENT);
    let written = log.reserve(Head::Caller, 300).expect("room");
    let id = append(&mut log, Head::Caller, 300).expect("room");
    while append(&mut log, Head::Caller, 900).is_some() {}
    log.free(id);
    assert_eq!((log.victim(), log.free_segments()), (None, 1));
    log.abandon(written);
    assert_eq!(log.free_segments(), 2);
}

#[test]
fn a_record_freed_while_it_is_copied_stays_freed() {
    let mut log = Log::new(4, SEGMENT);
    let id = append(&mut log, Head::Caller, 300).expect("room");
    let from = log.lookup(id).expect("live");
    let to = log.reserve(Head::Cleaner, 300).expect("room");
    log.free(id);
    assert!(!log.relocate(id, from, to));
    assert_eq!(log.lookup(id), None);
    assert_eq!(log.live_bytes(), 0);
}

#[test]
fn bytes_are_counted_as_the_segments_have_them_whatever_is_done() {
    let mut log = Log::new(8, SEGMENT);
    let (mut live, mut written) = (Vec::new(), Vec::new());
    let mut random = Random(1);
    let mut next = |below| random.below(below);
    for step in 0..20_000 {
        match next(8) {
            0..=2 => {
                let extent = log.reserve(Head::Caller, 1 + next(400) as u32);
                if let Some(extent) = extent {
                    written.push((log.new_id().expect("a number"), extent));
                }
            }
            3 | 4 if !written.is_empty() => {
                let (id, extent) = written.swap_remove(next(written.len()));
                log.publish(id, extent);
                live.push(id);
            }
            5 if !written.is_empty() && next(4) == 0 => {
                let (id, extent) = written.swap_remove(next(written.len()));
                log.abandon(extent);
                log.retire_id(id);
            }
            6 if !live.is_empty() => {
                let at = next(live.len());
                let id = live[at];
                let from = log.lookup(id).expect("live");
                let Some(to) = log.reserve(Head::Cleaner, from.bytes) else {
                    continue;
                };
                let is_freed = next(3) == 0;
                if is_freed {
                    live.swap_remove(at);
                    assert!(log.free(id));
                }
                assert_eq!(log.relocate(id, from, to), !is_freed);
            }
            7 if !live.is_empty() => {
                let id = live.swap_remove(next(live.len()));
                assert!(log.free(id) && !log.free(id));
            }
            _ if next(20) == 0 => log.close_open(),
            _ => {}
        }
        let counted = (log.live_bytes(), log.dead_bytes());
        assert_eq!(counted, log.recount(), "step {step}");
    }
    assert!(log.closings > 100);
}
