//! Chunk size x codec on the memory of a real process: data ratio, and MB/s both ways
//! (Ariadne, Fig. 6, measures the same for lz4 and lzo).
//!
//! The ratios are printed before criterion measures the throughput. The pages are the writable
//! memory of a Python interpreter, or this process's own when there is no Python.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use warmswap_codec::{ChunkPlan, Codec, MAX_CHUNK_BYTES, Scratch, same_filled};
use warmswap_page::PAGE_BYTES;

/// A Python program with varied data, which waits until its input ends.
const PYTHON: &str = "
import decimal, email, http.client, json, random, re, sys
random.seed(1)
data = [{'i': i, 's': 'item %d' % i, 'f': random.random(), 'l': list(range(i % 17))}
        for i in range(40000)]
text = json.dumps(data)
print('ready', flush=True)
sys.stdin.read()
";

/// At most this much memory is measured.
const SAMPLE_BYTES: usize = 16 << 20;

/// The writable pages of a process that are not same-filled.
fn pages_of(pid: u32) -> std::io::Result<Vec<u8>> {
    let maps = BufReader::new(File::open(format!("/proc/{pid}/maps"))?);
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut pages = Vec::new();
    for line in maps.lines() {
        let line = line?;
        let mut fields = line.split_whitespace();
        let (Some(range), Some(protection)) = (fields.next(), fields.next()) else {
            continue;
        };
        let bounds = range.split_once('-').and_then(|(start, end)| {
            let number = |digits| u64::from_str_radix(digits, 16).ok();
            Some(number(start)?..number(end)?)
        });
        let Some(bounds) = bounds.filter(|_| protection.starts_with("rw")) else {
            continue;
        };
        let mut page = [0; PAGE_BYTES];
        for address in bounds.step_by(PAGE_BYTES) {
            let is_read = memory.read_exact_at(&mut page, address).is_ok();
            if is_read && same_filled(&page).is_none() && pages.len() < SAMPLE_BYTES {
                pages.extend_from_slice(&page);
            }
        }
    }
    pages.truncate(pages.len() / MAX_CHUNK_BYTES * MAX_CHUNK_BYTES);
    Ok(pages)
}

fn python_pages() -> std::io::Result<Vec<u8>> {
    let mut python = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let ready = python.stdout.as_mut().map(|out| out.read(&mut [0; 8]));
    let pages = pages_of(python.id());
    drop(python.stdin.take());
    python.wait()?;
    ready.transpose()?;
    pages
}

fn sample() -> Vec<u8> {
    match python_pages() {
        Ok(pages) if !pages.is_empty() => {
            println!("pages: {} MiB of a Python process", pages.len() >> 20);
            pages
        }
        result => {
            println!(
                "pages: this process's own memory, for lack of Python ({:?})",
                result.err()
            );
            pages_of(std::process::id()).expect("own memory is readable")
        }
    }
}

fn chunk_sizes(criterion: &mut Criterion) {
    let sample = sample();
    let mut scratch = Scratch::new();
    for codec in Codec::ALL {
        for shift in [7, 9, 10, 11, 12, 13, 14, 15, 16, 17] {
            let plan = ChunkPlan::new(codec, 1 << shift).expect("in range");
            measure(criterion, &mut scratch, plan, &sample);
        }
    }
}

fn measure(criterion: &mut Criterion, scratch: &mut Scratch, plan: ChunkPlan, sample: &[u8]) {
    let object_pages = plan.max_pages();
    let object_bytes = object_pages * PAGE_BYTES;
    let mut out = vec![0; plan.max_encoded_bytes(object_pages)];
    let objects: Vec<Vec<u8>> = sample
        .chunks_exact(object_bytes)
        .map(|pages| {
            let encoded = warmswap_codec::encode_contiguous(scratch, plan, pages, &mut out);
            out[..encoded.expect("whole pages").bytes].to_vec()
        })
        .collect();
    let encoded_bytes: usize = objects.iter().map(Vec::len).sum();
    let ratio = sample.len() as f64 / encoded_bytes as f64;
    println!("{plan}: data ratio {ratio:.2}");

    // Enough for stable numbers, little enough for all sizes to take a bearable time.
    let part_bytes = (4 << 20).min(sample.len());
    let part = &sample[..part_bytes];
    let mut group = criterion.benchmark_group(plan.codec().name());
    group.throughput(Throughput::Bytes(part_bytes as u64));
    let id = |direction| BenchmarkId::new(direction, plan.chunk_bytes());
    group.bench_function(id("compress"), |bencher| {
        bencher.iter(|| {
            for pages in part.chunks_exact(object_bytes) {
                let encoded =
                    warmswap_codec::encode_contiguous(scratch, plan, black_box(pages), &mut out);
                let _ = black_box(encoded);
            }
        });
    });
    let mut pages = vec![0; object_bytes];
    group.bench_function(id("decompress"), |bencher| {
        bencher.iter(|| {
            for object in &objects[..part_bytes / object_bytes] {
                warmswap_codec::decode(scratch, plan, black_box(object), &mut pages)
                    .expect("just encoded");
                black_box(&pages);
            }
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(100))
        .measurement_time(std::time::Duration::from_millis(500));
    targets = chunk_sizes
}
criterion_main!(benches);
