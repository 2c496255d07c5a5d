//! What the pool costs beside the compressor: 4 KiB pages of a real process by lz4, compressed
//! and decompressed alone, and the same through `store`, `load` and `free`.
//!
//! Prints both throughputs and their ratio, for a pool that is empty at first (memory fresh from
//! the kernel) and for one in use (old objects are replaced).

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use warmswap_codec::{Codec, Scratch, same_filled};
use warmswap_page::PAGE_BYTES;
use warmswap_pool::{Content, Handle, Pool, PoolConfig};

const PYTHON: &str = "
import decimal, email, http.client, json, random, re, sys
random.seed(1)
data = [{'i': i, 's': 'item %d' % i, 'f': random.random(), 'l': list(range(i % 17))}
        for i in range(40000)]
print('ready', flush=True)
sys.stdin.read()
";
const SAMPLE_PAGES: usize = 4096;

type Page = [u8; PAGE_BYTES];

/// Writable pages of a process that are not same-filled.
fn pages_of(pid: u32) -> std::io::Result<Vec<Page>> {
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut pages = Vec::new();
    for line in BufReader::new(File::open(format!("/proc/{pid}/maps"))?).lines() {
        let line = line?;
        let Some((range, rest)) = line.split_once(' ') else {
            continue;
        };
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let bounds = range
            .split_once('-')
            .and_then(|(start, end)| Some(number(start)?..number(end)?));
        let Some(bounds) = bounds.filter(|_| rest.starts_with("rw")) else {
            continue;
        };
        for address in bounds.step_by(PAGE_BYTES) {
            let mut page = [0; PAGE_BYTES];
            let is_read = memory.read_exact_at(&mut page, address).is_ok();
            if is_read && same_filled(&page).is_none() && pages.len() < SAMPLE_PAGES {
                pages.push(page);
            }
        }
    }
    Ok(pages)
}

fn python_pages() -> std::io::Result<Vec<Page>> {
    let mut python = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(out) = python.stdout.take() {
        BufReader::new(out).read_line(&mut String::new())?;
    }
    let pages = pages_of(python.id());
    drop(python.stdin.take());
    python.wait()?;
    pages
}

fn sample() -> Vec<Page> {
    match python_pages() {
        Ok(pages) if pages.len() == SAMPLE_PAGES => {
            println!("pages: {SAMPLE_PAGES} of a Python process");
            pages
        }
        result => {
            println!(
                "pages: text with pointers, for lack of Python ({:?})",
                result.err()
            );
            (0..SAMPLE_PAGES as u64).map(synthetic_page).collect()
        }
    }
}

/// Half text, half pointers and small integers.
fn synthetic_page(seed: u64) -> Page {
    let mut page = [0; PAGE_BYTES];
    let (text, words) = page.split_at_mut(PAGE_BYTES / 2);
    for (i, byte) in text.iter_mut().enumerate() {
        *byte = b"the quick brown fox jumps over the lazy dog "[(i * 7 + seed as usize) / 7 % 44];
    }
    for (i, word) in words.as_chunks_mut().0.iter_mut().enumerate() {
        let value = 0x7f00_0000_0000 + (seed * 31 + i as u64 * i as u64) % 4096 * 16;
        *word = if i % 3 == 0 { seed % 100 } else { value }.to_ne_bytes();
    }
    page
}

/// The work memory of the benchmarks.
struct Bench {
    pages: Vec<Page>,
    scratch: Scratch,
    out: Vec<u8>,
    page: Page,
}

impl Bench {
    fn compress(&mut self, nth: usize) -> usize {
        let page = black_box(&self.pages[nth]);
        match self.scratch.compress(Codec::Lz4, page, &mut self.out) {
            Some(len) if len < PAGE_BYTES => len,
            _ => {
                self.out[..PAGE_BYTES].copy_from_slice(page);
                PAGE_BYTES
            }
        }
    }

    fn decompress(scratch: &mut Scratch, bytes: &[u8], page: &mut Page) {
        if bytes.len() == PAGE_BYTES {
            page.copy_from_slice(bytes);
        } else {
            scratch
                .decompress(Codec::Lz4, bytes, page)
                .expect("just compressed");
        }
        black_box(page);
    }

    /// Every page compressed and decompressed at once, without a pool.
    fn bare(&mut self) {
        for nth in 0..self.pages.len() {
            let len = self.compress(nth);
            Self::decompress(&mut self.scratch, &self.out[..len], &mut self.page);
        }
    }

    /// Every page compressed, stored, loaded and decompressed; `old` handles are freed and
    /// replaced one by one.
    fn pooled(&mut self, pool: &Pool, old: &mut Vec<Handle>) {
        for nth in 0..self.pages.len() {
            let len = self.compress(nth);
            if let Some(&handle) = old.get(nth) {
                pool.free(handle).expect("stored");
            }
            let handle = pool.store(&self.out[..len], 1).expect("room");
            match old.get_mut(nth) {
                Some(old) => *old = handle,
                None => old.push(handle),
            }
            let (scratch, page) = (&mut self.scratch, &mut self.page);
            let loaded = pool.load(handle, |content| match content {
                Content::Bytes(bytes) => Self::decompress(scratch, bytes, page),
                Content::Filled(_) => unreachable!("no page is same-filled"),
            });
            loaded.expect("stored");
        }
    }
}

fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn store_load(criterion: &mut Criterion) {
    let config = PoolConfig {
        verify: false,
        ..PoolConfig::default()
    };
    let new_pool = || Pool::new(config.clone()).expect("valid");
    let mut bench = Bench {
        pages: sample(),
        scratch: Scratch::new(),
        out: vec![0; Codec::Lz4.bound_bytes(PAGE_BYTES)],
        page: [0; PAGE_BYTES],
    };
    let bytes = (bench.pages.len() * PAGE_BYTES) as u64;
    let (pool, mut handles) = (new_pool(), Vec::new());
    bench.pooled(&pool, &mut handles);
    let stats = pool.stats();
    println!(
        "data ratio {:.2}, memory ratio {:.2}, waste {:.1} %",
        stats.data_ratio().unwrap_or(0.0),
        stats.memory_ratio().unwrap_or(0.0),
        stats.waste() * 100.0,
    );

    // The least time of each is what it takes when nothing else runs; taking turns lets a busy
    // machine disturb all three alike.
    let mut least = [Duration::MAX; 3];
    for _ in 0..30 {
        let times = [
            time(|| bench.bare()),
            time(|| bench.pooled(&pool, &mut handles)),
            time(|| bench.pooled(&new_pool(), &mut Vec::new())),
        ];
        least = std::array::from_fn(|i| least[i].min(times[i]));
    }
    let [bare, used, fresh] = least;
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e6;
    println!("compressor alone: {:.0} MB/s", rate(bare));
    for (name, time) in [("in use", used), ("fresh", fresh)] {
        let ratio = rate(time) / rate(bare);
        println!(
            "through a pool {name}: {:.0} MB/s, {ratio:.3} of that",
            rate(time)
        );
    }

    let mut group = criterion.benchmark_group("4 KiB pages by lz4");
    group.throughput(Throughput::Bytes(bytes)).sample_size(20);
    group.bench_function("compressor alone", |bencher| bencher.iter(|| bench.bare()));
    group.bench_function("pool in use", |bencher| {
        bencher.iter(|| bench.pooled(&pool, &mut handles));
    });
    group.bench_function("pool fresh", |bencher| {
        bencher.iter(|| bench.pooled(&new_pool(), &mut Vec::new()));
    });
    group.finish();
}

criterion_group!(benches, store_load);
criterion_main!(benches);
