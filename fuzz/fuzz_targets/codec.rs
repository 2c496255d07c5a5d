//! Decompresses what no codec wrote, and compresses and decompresses what is given.
//!
//! Byte 0 of the input chooses the codec, byte 1 what is done, byte 2 the size of a chunk, bytes 3 and 4 a length.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use warmswap_codec::{
    ChunkPlan, Codec, EncodedKind, MAX_CHUNK_BYTES, Scratch, decode, encode_contiguous,
};
use warmswap_page::PAGE_BYTES;

/// Stands around every destination, and is still there afterwards.
const CANARY: [u8; 64] = [0xc5; 64];

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Runs `write` on `bytes` bytes between two canaries; returns them with its result.
fn guarded<R>(bytes: usize, write: impl FnOnce(&mut [u8]) -> R) -> (R, Vec<u8>) {
    let mut room = vec![0xc5; bytes + 2 * CANARY.len()];
    let result = write(&mut room[CANARY.len()..][..bytes]);
    assert_eq!(room[..CANARY.len()], CANARY, "written before the room");
    assert_eq!(
        room[CANARY.len() + bytes..],
        CANARY,
        "written behind the room"
    );
    (result, room[CANARY.len()..][..bytes].to_vec())
}

/// The bytes again and again until they are as many.
fn repeated(data: &[u8], bytes: usize) -> Vec<u8> {
    data.iter()
        .copied()
        .chain([0])
        .cycle()
        .take(bytes)
        .collect()
}

/// Decompresses an object with one byte changed, and cut short: it may come to anything, but only within its room.
fn damaged(scratch: &mut Scratch, codec: Codec, object: &[u8], bytes: usize, at: usize) {
    let mut changed = object.to_vec();
    let at = at % changed.len();
    changed[at] ^= 1 << (at % 8);
    let _ = guarded(bytes, |out| scratch.decompress(codec, &changed, out));
    let _ = guarded(bytes, |out| scratch.decompress(codec, &object[..at], out));
}

fn bytes_round_trip(scratch: &mut Scratch, codec: Codec, source: &[u8], room: usize) {
    let (whole, object) = guarded(codec.bound_bytes(source.len()), |out| {
        scratch.compress(codec, source, out)
    });
    let Some(len) = whole else {
        assert!(source.is_empty() || source.len() > MAX_CHUNK_BYTES);
        return;
    };
    let (result, back) = guarded(source.len(), |out| {
        scratch.decompress(codec, &object[..len], out)
    });
    result.expect("what was compressed");
    assert_eq!(back, source);
    damaged(scratch, codec, &object[..len], source.len(), room);
    // With little room it gives up, or it fits.
    let (some, object) = guarded(room, |out| scratch.compress(codec, source, out));
    if let Some(len) = some {
        assert!(len <= room);
        let (result, back) = guarded(source.len(), |out| {
            scratch.decompress(codec, &object[..len], out)
        });
        result.expect("what was compressed");
        assert_eq!(back, source);
    }
}

fn chunk_round_trip(scratch: &mut Scratch, plan: ChunkPlan, pages: &[u8]) {
    let n_pages = pages.len() / PAGE_BYTES;
    let (encoded, object) = guarded(plan.max_encoded_bytes(n_pages), |out| {
        encode_contiguous(scratch, plan, pages, out)
    });
    let encoded = encoded.expect("whole pages, and room");
    assert!(encoded.bytes <= pages.len());
    assert_eq!(
        encoded.kind == EncodedKind::Raw,
        encoded.bytes == pages.len()
    );
    let object = &object[..encoded.bytes];
    let (result, back) = guarded(pages.len(), |out| decode(scratch, plan, object, out));
    result.expect("what was encoded");
    assert_eq!(back, pages);
}

fuzz_target!(|data: &[u8]| {
    let Some((&[codec, mode, size, low, high], rest)) = data.split_first_chunk() else {
        return;
    };
    let codec = Codec::ALL[usize::from(codec) % Codec::ALL.len()];
    let length = usize::from(u16::from_le_bytes([low, high]));
    let plan = ChunkPlan::new(codec, 128 << (size % 11)).expect("128 B to 128 KiB");
    SCRATCH.with_borrow_mut(|scratch| match mode % 4 {
        0 => {
            // Destinations up to twice the largest chunk, so that too long ones are among them.
            let room = if size & 0x80 == 0 { length } else { length * 4 };
            let _ = guarded(room, |out| scratch.decompress(codec, rest, out));
        }
        1 => bytes_round_trip(scratch, codec, rest, length),
        2 => {
            let pages = 1 + length % plan.max_pages();
            chunk_round_trip(scratch, plan, &repeated(rest, pages * PAGE_BYTES));
        }
        _ => {
            let pages = 1 + length % plan.max_pages();
            let _ = guarded(pages * PAGE_BYTES, |out| decode(scratch, plan, rest, out));
        }
    });
});
