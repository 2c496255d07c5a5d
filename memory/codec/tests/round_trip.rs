//! Every codec and chunk size gives back what it was given, and survives damaged input.

use proptest::prelude::*;
use warmswap_codec::{
    ChunkError, ChunkPlan, Codec, EncodedKind, InvalidChunkSize, MAX_CHUNK_BYTES, Scratch, decode,
    encode, encode_contiguous,
};
use warmswap_page::PAGE_BYTES;

type Page = [u8; PAGE_BYTES];

/// The kinds of content that memory holds.
#[derive(Clone, Copy, Debug)]
enum Class {
    Zeros,
    Text,
    Pointers,
    Random,
    /// Records of pointers, lengths, flags and padding, as heaps hold them.
    Structures,
    /// Machine words that count, as arrays of numbers do.
    Counters,
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![
        Just(Class::Zeros),
        Just(Class::Text),
        Just(Class::Pointers),
        Just(Class::Random),
        Just(Class::Structures),
        Just(Class::Counters),
    ]
}

fn mix(seed: u64) -> u64 {
    let x = (seed ^ seed >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let x = (x ^ x >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    x ^ x >> 33
}

fn page(class: Class, seed: u64) -> Page {
    let mut page = [0; PAGE_BYTES];
    const WORDS: [&str; 8] = [
        "page ", "memory ", "a ", "of ", "swap ", "cold ", "the ", "hot\n",
    ];
    let text = (0..).flat_map(|i| WORDS[(mix(seed ^ i) % 8) as usize].bytes());
    match class {
        Class::Zeros => {}
        Class::Text => page.iter_mut().zip(text).for_each(|(to, byte)| *to = byte),
        _ => {
            for (i, word) in (0..).zip(page.as_chunks_mut::<8>().0) {
                let random = mix(seed.wrapping_mul(0x9e37_79b9) ^ i);
                let pointer = 0x7f12_3400_0000 + random % 65_536 * 16;
                let value = match (class, i % 6) {
                    (Class::Pointers, _) | (Class::Structures, 0 | 3) => pointer,
                    (Class::Structures, 1) => random % 64,
                    (Class::Structures, 4) => random % 2,
                    (Class::Structures, _) => 0,
                    (Class::Counters, _) => seed % 1000 + i,
                    _ => random,
                };
                *word = value.to_ne_bytes();
            }
        }
    }
    page
}

fn codec() -> impl Strategy<Value = Codec> {
    (0..Codec::ALL.len()).prop_map(|i| Codec::ALL[i])
}

fn plan() -> impl Strategy<Value = ChunkPlan> {
    (codec(), 7..=17_u32).prop_map(|(codec, shift)| ChunkPlan::new(codec, 1 << shift).unwrap())
}

fn pages() -> impl Strategy<Value = Vec<Page>> {
    prop::collection::vec(
        (class(), any::<u64>()).prop_map(|(c, seed)| page(c, seed)),
        1..=32,
    )
}

/// Encodes as many of `pages` as one object holds.
fn encoded(scratch: &mut Scratch, plan: ChunkPlan, pages: &[Page]) -> (Vec<u8>, EncodedKind) {
    let mut out = vec![0xaa; plan.max_encoded_bytes(pages.len())];
    let pages: Vec<&Page> = pages.iter().collect();
    let encoded = encode(scratch, plan, &pages, &mut out).expect("whole pages, enough room");
    out.truncate(encoded.bytes);
    (out, encoded.kind)
}

/// A scratch is expensive, and sharing one between cases tests that they do not disturb each other.
fn with_scratch<R>(f: impl FnOnce(&mut Scratch) -> R) -> R {
    thread_local!(static SCRATCH: std::cell::RefCell<Scratch> = Scratch::new().into());
    SCRATCH.with_borrow_mut(f)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn objects_decode_to_their_pages(plan in plan(), mut pages in pages()) {
        pages.truncate(plan.max_pages());
        with_scratch(|scratch| {
            let (object, kind) = encoded(scratch, plan, &pages);
            let bytes = pages.concat();
            prop_assert_eq!(object.len() < bytes.len(), kind == EncodedKind::Compressed);
            let mut back = vec![0; bytes.len()];
            prop_assert_eq!(decode(scratch, plan, &object, &mut back), Ok(()));
            prop_assert_eq!(&back, &bytes);

            let mut out = vec![0; plan.max_encoded_bytes(pages.len())];
            let encoded = encode_contiguous(scratch, plan, &bytes, &mut out).unwrap();
            prop_assert_eq!(&out[..encoded.bytes], &object[..]);
            Ok(())
        })?;
    }

    #[test]
    fn slices_of_any_length_survive(codec in codec(), class in class(), seed: u64, len in 1..4096_usize) {
        let page = page(class, seed);
        with_scratch(|scratch| {
            let mut out = vec![0; codec.bound_bytes(len)];
            let encoded = scratch.compress(codec, &page[..len], &mut out);
            let encoded = encoded.expect("the bound is enough");
            let mut back = vec![0; len];
            prop_assert_eq!(scratch.decompress(codec, &out[..encoded], &mut back), Ok(()));
            prop_assert_eq!(&back, &page[..len]);

            // With any smaller room it still fits, or there is none; never something else.
            for room in [0, 1, encoded / 2, encoded.saturating_sub(1), encoded] {
                let mut small = vec![0; room];
                if let Some(n) = scratch.compress(codec, &page[..len], &mut small) {
                    back.fill(0);
                    prop_assert_eq!(scratch.decompress(codec, &small[..n], &mut back), Ok(()));
                    prop_assert_eq!(&back, &page[..len]);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn damaged_objects_are_errors_or_wrong_bytes_but_never_worse(
        plan in plan(),
        pages in pages(),
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6),
    ) {
        let pages = &pages[..plan.max_pages().min(pages.len())];
        with_scratch(|scratch| {
            let (mut object, _) = encoded(scratch, plan, pages);
            for (at, with) in &flips {
                *at.get_mut(&mut object) = *with;
            }
            let mut back = vec![0; pages.len() * PAGE_BYTES];
            let _ = decode(scratch, plan, &object, &mut back);
            let cut = cut.index(object.len());
            if cut != back.len() {
                let _ = decode(scratch, plan, &object[..cut], &mut back);
            }
            // The scratch is as good as new after whatever it was fed.
            let (object, _) = encoded(scratch, plan, pages);
            prop_assert_eq!(decode(scratch, plan, &object, &mut back), Ok(()));
            prop_assert_eq!(back, pages.concat());
            Ok(())
        })?;
    }

    #[test]
    fn noise_is_an_error_or_wrong_bytes(
        codec in codec(),
        noise in prop::collection::vec(any::<u8>(), 0..600),
        len in 0..5000_usize,
    ) {
        let mut back = vec![0; len];
        let _ = with_scratch(|scratch| scratch.decompress(codec, &noise, &mut back));
    }
}

#[test]
fn wrong_sizes_are_typed_errors() {
    let mut scratch = Scratch::new();
    let page = page(Class::Text, 1);
    let plan = ChunkPlan::page(Codec::Lz4);
    let mut out = vec![0; plan.max_encoded_bytes(1)];
    for chunk_bytes in [0, 1, 64, 127, 4095, 262_144] {
        assert_eq!(
            ChunkPlan::new(Codec::Lz4, chunk_bytes),
            Err(InvalidChunkSize { chunk_bytes })
        );
    }
    for pages in [&[][..], &[&page, &page][..]] {
        let result = encode(&mut scratch, plan, pages, &mut out);
        assert!(matches!(result, Err(ChunkError::PageCount { .. })));
    }
    let odd = encode_contiguous(&mut scratch, plan, &page[1..], &mut out);
    assert!(matches!(
        odd,
        Err(ChunkError::PageCount { bytes: 4095, .. })
    ));
    let short = encode(&mut scratch, plan, &[&page], &mut out[1..]);
    assert!(matches!(short, Err(ChunkError::OutputTooSmall { .. })));
    let too_long = scratch.decompress(Codec::Lz4, &page, &mut vec![0; MAX_CHUNK_BYTES + 1]);
    assert!(too_long.is_err());
    let mut sink = vec![0; 4 * MAX_CHUNK_BYTES];
    let too_long = vec![0; MAX_CHUNK_BYTES + 1];
    assert_eq!(scratch.compress(Codec::Zstd, &too_long, &mut sink), None);
}

#[test]
fn a_shorter_original_is_told_from_a_malformed_one() {
    let mut scratch = Scratch::new();
    for codec in Codec::ALL {
        let mut out = vec![0; codec.bound_bytes(2048)];
        let len = scratch
            .compress(codec, &page(Class::Text, 3)[..2048], &mut out)
            .unwrap();
        let result = scratch.decompress(codec, &out[..len], &mut [0; 4096]);
        assert!(result.is_err(), "{codec}");
    }
}

#[test]
fn names_and_plans_survive_text() {
    for codec in Codec::ALL {
        assert_eq!(codec.to_string().parse(), Ok(codec));
        assert_eq!(Codec::from_u8(codec as u8), Some(codec));
        let json = serde_json::to_string(&codec).unwrap();
        assert_eq!(json, format!("\"{codec}\""));
    }
    assert!("LZ4".parse::<Codec>().is_err());
    assert_eq!(Codec::from_u8(4), None);
    let plan = ChunkPlan::new(Codec::Zstd, 16_384).unwrap();
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<ChunkPlan>(&json).unwrap(), plan);
    let odd = json.replace("16384", "16385");
    assert!(serde_json::from_str::<ChunkPlan>(&odd).is_err());
}

/// Streams of eight bytes as the formats' own documents write them, and what each codec makes ends as its format does.
#[test]
fn every_codec_speaks_the_format_of_its_name() {
    let text = b"abcdefgh";
    let stream = |before: &[u8], after: &[u8]| [before, text, after].concat();
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 8, 0x41, 0, 0];
    let streams = [
        (Codec::Lz4, stream(&[0x80], &[])),
        (Codec::Lzo, stream(&[17 + 8], &[0x11, 0, 0])),
        (Codec::Zstd, stream(&zstd, &[])),
        (Codec::Bdi, stream(&[], &[])),
    ];
    let mut scratch = Scratch::new();
    for (codec, stream) in &streams {
        let mut decoded = [0; 8];
        let read = scratch.decompress(*codec, stream, &mut decoded);
        assert_eq!((read, &decoded), (Ok(()), text), "{codec:?}");
    }
    let page = [7; PAGE_BYTES];
    let mut room = [0; PAGE_BYTES];
    for (codec, begin, end) in [
        (Codec::Lzo, &[][..], &[0x11, 0, 0][..]),
        (Codec::Zstd, &zstd[..4], &[]),
    ] {
        let bytes = scratch
            .compress(codec, &page, &mut room)
            .expect("it shrinks");
        let made = &room[..bytes];
        assert!(
            made.starts_with(begin) && made.ends_with(end),
            "{codec:?}: {made:?}"
        );
    }
}
