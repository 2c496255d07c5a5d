//! Compressing and decompressing allocate nothing, in Rust or in C.
//!
//! One test in a program of its own, so that nothing else allocates meanwhile.
#![allow(unsafe_code)]

use warmswap_codec::{ChunkPlan, Codec, PAGE_BYTES, Scratch, decode, encode};

/// Bytes that the C library's allocator, which Rust uses too, has handed out.
fn allocated_bytes() -> usize {
    // SAFETY: mallinfo2 has no preconditions; it reads the allocator's own counters.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

#[test]
fn no_codec_allocates_at_any_size() {
    let mut scratch = Scratch::new();
    let mut noise = 1_u32;
    let page: [u8; PAGE_BYTES] = std::array::from_fn(|i| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if i % 4 == 0 {
            (noise >> 24) as u8
        } else {
            (i / 64) as u8
        }
    });
    let random: [u8; PAGE_BYTES] = std::array::from_fn(|_| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 24) as u8
    });
    let plans: Vec<ChunkPlan> = Codec::ALL
        .into_iter()
        .flat_map(|codec| (7..=17).map(move |shift| ChunkPlan::new(codec, 1 << shift)))
        .collect::<Result<_, _>>()
        .expect("all in range");
    let mut out = vec![0; 512 * 1024];
    let mut back = vec![0; 128 * 1024];

    // Bytes more than before. Long runs of one size are what makes zstd shrink its memory.
    let mut allocates = |page: &[u8; PAGE_BYTES], plan: ChunkPlan| {
        let before = allocated_bytes();
        for _ in 0..200 {
            let pages = [page; 32];
            let pages = &pages[..plan.max_pages()];
            let encoded = encode(&mut scratch, plan, pages, &mut out).expect("enough room");
            let back = &mut back[..pages.len() * PAGE_BYTES];
            decode(&mut scratch, plan, &out[..encoded.bytes], back).expect("just encoded");
        }
        allocated_bytes().abs_diff(before)
    };
    for page in [&page, &random] {
        for &plan in plans.iter().chain(plans.iter().rev()) {
            // The thread that started this test may allocate once in a while; the codecs would do so every time.
            let bytes = (0..3).map(|_| allocates(page, plan)).min();
            assert_eq!(bytes, Some(0), "{plan}");
        }
    }
}
