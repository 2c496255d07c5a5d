//! How fast a trace is read from the page cache and written, on one core.
//!
//! Throughput of events is in bytes of the uncompressed record (24 bytes an event).

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use warmswap_page::{PAGE_BYTES, PageAddr};
use warmswap_trace::format::EVENT_BYTES;
use warmswap_trace::synth::{SynthConfig, SynthEvents};
use warmswap_trace::{ContentId, Description, Event, EventKind, TraceReader, TraceWriter};

const EVENTS: u64 = 4_000_000;
const CONTENTS: u32 = 8192;

/// Short runs of neighbouring pages at random places, at random gaps in time, applications and contents
/// mixed at random: worse than any program.
fn scattered() -> impl Iterator<Item = Event> {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let (mut time_ns, mut number, mut left) = (0, 0, 0);
    (0..EVENTS).map(move |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if left == 0 {
            left = random % 16;
            number = random >> 34;
        }
        left -= u64::from(left > 0);
        number += 1;
        time_ns += random >> 50;
        let page = PageAddr::Anon { number };
        let content = random
            .is_multiple_of(8)
            .then_some(ContentId((random >> 20) as u32 % CONTENTS));
        let kind = EventKind::Access {
            page,
            write: content.is_some(),
            content,
        };
        Event {
            time_ns,
            app: warmswap_page::AppId((random >> 9) as u16 % 4),
            kind,
        }
    })
}

fn page(n: u32) -> [u8; PAGE_BYTES] {
    std::array::from_fn(|i| match i % 16 {
        0..4 => n.to_le_bytes()[i % 4],
        4..8 => (n.wrapping_mul(i as u32) >> 7) as u8,
        _ => 0,
    })
}

fn write(path: &Path, events: impl Iterator<Item = Event>) {
    let mut writer = TraceWriter::create(path, Description::new("benchmark")).expect("create");
    for n in 0..5 {
        writer.add_app(format!("app{n}"), "").expect("application");
    }
    for n in 0..CONTENTS {
        writer.content(&page(n)).expect("content");
    }
    events.for_each(|e| writer.event(&e).expect("event"));
    writer.finish().expect("finish");
}

/// What the mobile applications of the Ariadne paper do.
fn mobile() -> impl Iterator<Item = Event> {
    let config = SynthConfig::default().with_pages(400_000);
    let config = SynthConfig {
        relaunches: 40,
        ..config
    };
    SynthEvents::new(&config, CONTENTS)
        .expect("a good configuration")
        .take(EVENTS as usize)
}

fn read(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let scattered: Vec<Event> = scattered().collect();
    let mobile: Vec<Event> = mobile().collect();
    assert_eq!(mobile.len(), EVENTS as usize);
    for (name, events) in [("mobile", &mobile), ("scattered", &scattered)] {
        let path = dir.path().join(name);
        write(&path, events.iter().copied());
        let reader = TraceReader::open(&path).expect("open");
        let bytes = EVENTS * EVENT_BYTES as u64;
        println!(
            "{name}: {} bytes of file, {bytes} of events",
            reader.summary().file_bytes
        );
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes)).sample_size(20);
        group.bench_function("read blocks", |b| {
            let mut block = Vec::new();
            b.iter(|| {
                let mut stream = reader.events();
                let mut sum = 0;
                while stream.next_block(&mut block).expect("block") {
                    sum += block.iter().map(|e| e.time_ns).fold(0, u64::wrapping_add);
                }
                black_box(sum)
            });
        });
        group.bench_function("read one by one", |b| {
            b.iter(|| {
                reader
                    .events()
                    .map(|e| e.expect("event").time_ns)
                    .fold(0, u64::wrapping_add)
            });
        });
        group.bench_function("write", |b| {
            b.iter_batched(
                || dir.path().join("w.wst"),
                |path| write(&path, events.iter().copied()),
                BatchSize::PerIteration,
            );
        });
        group.finish();
    }
    let reader = TraceReader::open(dir.path().join("mobile")).expect("open");
    let mut group = c.benchmark_group("contents");
    group
        .throughput(Throughput::Bytes(u64::from(CONTENTS) * PAGE_BYTES as u64))
        .sample_size(20);
    group.bench_function("in order", |b| {
        let mut page = [0; PAGE_BYTES];
        b.iter(|| {
            (0..CONTENTS).for_each(|n| reader.content(ContentId(n), &mut page).expect("content"));
        });
    });
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
