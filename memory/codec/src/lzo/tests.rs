use lzokay::compress::{Dict, compress_no_alloc, compress_worst_size};

use super::*;

fn samples() -> Vec<Vec<u8>> {
    let text: Vec<u8> = "a page of text, and another page of text; "
        .bytes()
        .cycle()
        .take(70_000)
        .collect();
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(60_000)
    .collect();
    // A match at every distance class, with literals of every length class in front.
    let mut far = noise[..20_000].to_vec();
    for (i, distance) in [1, 2, 3, 7, 16, 2048, 2049, 16_384, 16_385, 16_386, 19_000]
        .iter()
        .enumerate()
    {
        for bytes in [3, 4, 8, 9, 10, 33, 34, 300, 800] {
            let from = far.len() - distance;
            (0..bytes).for_each(|k| far.push(far[from + k]));
            far.extend(&noise[i * 977..][..bytes % 21]);
        }
    }
    let mut all = vec![text, noise.clone(), far, vec![0; 131_072]];
    // The furthest match, around the largest distance.
    for gap in [49_150, 49_151, 49_152] {
        let mut data = noise[..gap].to_vec();
        data.extend_from_within(..64);
        all.push(data);
    }
    all.extend((1..300).map(|n| noise[..n].to_vec()));
    all
}

#[test]
fn an_independent_decoder_reads_our_streams() {
    let mut table = Table::new();
    for sample in samples() {
        let mut encoded = vec![0; crate::Codec::Lzo.bound_bytes(sample.len())];
        let len = compress(&mut table, &sample, &mut encoded).expect("within the bound");
        let mut theirs = vec![0; sample.len()];
        assert_eq!(
            lzokay::decompress::decompress(&encoded[..len], &mut theirs),
            Ok(sample.len())
        );
        assert_eq!(theirs, sample);
        let mut ours = vec![0; sample.len()];
        assert_eq!(decompress(&encoded[..len], &mut ours), Some(sample.len()));
        assert_eq!(ours, sample);
    }
}

#[test]
fn we_read_streams_of_an_independent_encoder() {
    let mut dict = Dict::new();
    for sample in samples() {
        let mut encoded = vec![0; compress_worst_size(sample.len())];
        let len = compress_no_alloc(&sample, &mut encoded, &mut dict).expect("within the bound");
        let mut ours = vec![0; sample.len()];
        assert_eq!(decompress(&encoded[..len], &mut ours), Some(sample.len()));
        assert_eq!(ours, sample);
    }
}

#[test]
fn positions_of_earlier_calls_are_never_matched() {
    let mut table = Table::new();
    table.base = u32::MAX - 10_000;
    for round in 0..4_u8 {
        let sample: Vec<u8> = (0..6000).map(|i| (i / 7) as u8 ^ round).collect();
        let mut encoded = vec![0; crate::Codec::Lzo.bound_bytes(sample.len())];
        let len = compress(&mut table, &sample, &mut encoded).expect("within the bound");
        let mut back = vec![0; sample.len()];
        assert_eq!(decompress(&encoded[..len], &mut back), Some(sample.len()));
        assert_eq!(back, sample);
    }
    assert!(table.base < 30_000, "the base started over");
}

#[test]
fn streams_without_an_end_or_with_a_tail_are_refused() {
    let mut table = Table::new();
    let sample = vec![9; 1000];
    let mut encoded = vec![0; crate::Codec::Lzo.bound_bytes(sample.len())];
    let len = compress(&mut table, &sample, &mut encoded).expect("within the bound");
    let mut back = vec![0; sample.len()];
    for cut in 0..len {
        assert_eq!(decompress(&encoded[..cut], &mut back), None, "cut at {cut}");
    }
    assert_eq!(decompress(&encoded[..len + 1], &mut back), None);
    assert_eq!(decompress(&encoded[..len], &mut back[..999]), None);
}
