//! Compressing and decompressing allocate nothing, in Rust or in C.
//!
//! This program stands before the C library's `malloc` and its like, which Rust uses too, and counts the calls of
//! each thread: the one that started the test allocates when it likes.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use warmswap_codec::{ChunkPlan, Codec, Scratch, decode, encode};
use warmswap_page::PAGE_BYTES;
use zstd::zstd_safe::CCtx;

thread_local! {
    /// Times that this thread asked for memory.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(times: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

#[unsafe(no_mangle)]
extern "C" fn malloc(bytes: usize) -> *mut c_void {
    count();
    // SAFETY: the C library's own, which takes any size.
    unsafe { __libc_malloc(bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn calloc(times: usize, bytes: usize) -> *mut c_void {
    count();
    // SAFETY: the C library's own, which takes any size.
    unsafe { __libc_calloc(times, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    count();
    // SAFETY: passed on to the caller; all that is handed out here comes from the C library.
    unsafe { __libc_realloc(old, bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    count();
    // SAFETY: the C library's own, which refuses what is no alignment.
    unsafe { __libc_memalign(align, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
    let memory = aligned_alloc(align, bytes);
    if memory.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller has room for the answer there.
    unsafe { out.write(memory) };
    0
}

/// Calls of this thread while `work` is done.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn what_allocates_is_counted() {
    let rust = allocations(|| drop(std::hint::black_box(vec![1_u8; 100])));
    let c = allocations(|| drop(CCtx::create()));
    assert!(rust == 1 && c > 0, "{rust}, {c}");
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

    // Long runs of one size are what makes zstd shrink its memory.
    let mut round_trips = |page: &[u8; PAGE_BYTES], plan: ChunkPlan| {
        for _ in 0..200 {
            let pages = [page; 32];
            let pages = &pages[..plan.max_pages()];
            let encoded = encode(&mut scratch, plan, pages, &mut out).expect("enough room");
            let back = &mut back[..pages.len() * PAGE_BYTES];
            decode(&mut scratch, plan, &out[..encoded.bytes], back).expect("just encoded");
        }
    };
    for page in [&page, &random] {
        for &plan in plans.iter().chain(plans.iter().rev()) {
            assert_eq!(allocations(|| round_trips(page, plan)), 0, "{plan}");
        }
    }

    // What zstd needs to compress is made when it is needed, and what decompresses is there.
    let mut lean = Scratch::lean();
    for plan in plans {
        let pages = [&page; 32];
        let pages = &pages[..plan.max_pages()];
        let encoded = encode(&mut scratch, plan, pages, &mut out).expect("enough room");
        let back = &mut back[..pages.len() * PAGE_BYTES];
        let decompress = || decode(&mut lean, plan, &out[..encoded.bytes], back).expect("encoded");
        assert_eq!(allocations(decompress), 0, "{plan}");
        let compress = || {
            encode(&mut lean, plan, pages, &mut out).expect("enough room");
        };
        assert!(
            plan.codec() == Codec::Zstd || allocations(compress) == 0,
            "{plan}"
        );
    }
}
