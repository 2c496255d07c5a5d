//! The records in a perf buffer (perf_event_open(2), "Overflow events").

use perf_event_open_sys::bindings as abi;

use super::{Fault, Losses};

/// What each sample holds: IP, then PID and TID, then TIME, then ADDR.
pub(super) const SAMPLE_TYPE: u64 =
    (abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_ADDR)
        as u64;

/// Bytes of a record's header: type, flags, size.
const HEADER_BYTES: usize = 8;
/// Bytes of one sample's fields.
const SAMPLE_BYTES: usize = 32;

/// Parses `bytes`, which hold whole records.
pub(super) fn parse_all(mut bytes: &[u8], out: &mut Vec<Fault>, losses: &mut Losses) {
    while bytes.len() >= HEADER_BYTES {
        let kind = u32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"));
        let size = usize::from(u16::from_ne_bytes(
            bytes[6..8].try_into().expect("two bytes"),
        ));
        if size < HEADER_BYTES || size > bytes.len() {
            losses.unknown += 1;
            return;
        }
        let (record, rest) = bytes.split_at(size);
        parse_one(kind, &record[HEADER_BYTES..], out, losses);
        bytes = rest;
    }
}

fn parse_one(kind: u32, body: &[u8], out: &mut Vec<Fault>, losses: &mut Losses) {
    match kind {
        abi::PERF_RECORD_SAMPLE if body.len() >= SAMPLE_BYTES => out.push(Fault {
            instruction: word(body, 0),
            pid: half(body, 8),
            tid: half(body, 12),
            time_ns: word(body, 16),
            address: word(body, 24),
        }),
        // The id of the event, then how many were lost.
        abi::PERF_RECORD_LOST if body.len() >= 16 => losses.lost += word(body, 8),
        abi::PERF_RECORD_LOST_SAMPLES if body.len() >= 8 => losses.lost += word(body, 0),
        abi::PERF_RECORD_THROTTLE => losses.throttled += 1,
        abi::PERF_RECORD_UNTHROTTLE => {}
        _ => losses.unknown += 1,
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(((HEADER_BYTES + body.len()) as u16).to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn parse(bytes: &[u8]) -> (Vec<Fault>, Losses) {
        let (mut out, mut losses) = (Vec::new(), Losses::default());
        parse_all(bytes, &mut out, &mut losses);
        (out, losses)
    }

    #[test]
    fn a_sample_and_a_loss() {
        let mut sample = 0xabc_u64.to_ne_bytes().to_vec();
        sample.extend(7u32.to_ne_bytes());
        sample.extend(8u32.to_ne_bytes());
        sample.extend(99u64.to_ne_bytes());
        sample.extend(0x1234_u64.to_ne_bytes());
        let mut bytes = record(abi::PERF_RECORD_SAMPLE, &sample);
        bytes.extend(record(
            abi::PERF_RECORD_LOST,
            &[1u64.to_ne_bytes(), 5u64.to_ne_bytes()].concat(),
        ));
        bytes.extend(record(abi::PERF_RECORD_THROTTLE, &[0; 24]));
        bytes.extend(record(12345, &[]));

        let (faults, losses) = parse(&bytes);

        assert_eq!(
            faults,
            [Fault {
                time_ns: 99,
                pid: 7,
                tid: 8,
                address: 0x1234,
                instruction: 0xabc
            }]
        );
        assert_eq!(
            losses,
            Losses {
                lost: 5,
                throttled: 1,
                unknown: 1
            }
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (faults, _) = parse(&bytes);
            prop_assert!(faults.len() <= bytes.len() / (HEADER_BYTES + SAMPLE_BYTES));
        }
    }
}
