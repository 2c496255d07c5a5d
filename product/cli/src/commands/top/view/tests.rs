use super::super::model::Look;
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use warmswap_control::{FaultCounts, LatencySummary, Phase};

fn redis(faults: u64) -> ProgramStats {
    ProgramStats {
        pid: 4711,
        name: "redis-server".to_owned(),
        command: ["redis-server", "--port", "0"].map(str::to_owned).into(),
        managed: true,
        budget_bytes: 300 << 20,
        used_bytes: 150 << 20,
        resident_bytes: 100 << 20,
        pool_bytes: 50 << 20,
        virtual_bytes: 400 << 20,
        memory_ratio: Some(3.0),
        faults: FaultCounts {
            total: faults,
            pool: faults,
            ..FaultCounts::default()
        },
        fault_latency: LatencySummary {
            count: faults,
            p50_ns: 3_100,
            p99_ns: 9_900,
            ..LatencySummary::default()
        },
        ..ProgramStats::default()
    }
}

fn look(at: Instant, programs: Vec<ProgramStats>) -> Look {
    let answer = |stats: ProgramStats| (PathBuf::from(format!("/{}", stats.pid)), Ok(stats));
    Look {
        at,
        answers: programs.into_iter().map(answer).collect(),
    }
}

fn picture(top: &Top, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(top, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn two_programs_look_like_this() {
    let mut top = Top::default();
    let at = Instant::now();
    let node = ProgramStats {
        pid: 52,
        name: "node".to_owned(),
        managed: true,
        phase: Phase::Background,
        resident_bytes: 10 << 20,
        ..ProgramStats::default()
    };
    top.update(look(at, vec![redis(1000), node.clone()]));
    top.update(look(at + Duration::from_secs(1), vec![redis(3500), node]));
    top.select_next();

    assert_eq!(
        picture(&top, 100, 12),
        [
            "warmswap top  2 programs by PID: 110 MiB resident, 50.0 MiB pool",
            "PID     PROGRAM            PHASE      RESIDENT  POOL      RATIO  FAULTS/s  p50      p99      PAGER",
            "52      node               background 10.0 MiB  0 B       –      0         –        –        0.0 %",
            "4711    redis-server       foreground 100 MiB   50.0 MiB  3.00×  2,500     3.10 µs  9.90 µs  0.0 %",
            "",
            "┌ redis-server (4711) ─────────────────────────────────────────────────────────────────────────────┐",
            "│████████████████████████████████████150 MiB of 300 MiB budget                                     │",
            "│faults  3,500: 0 first touches, 0 staged, 3,500 pool, 0 backing                                   │",
            "│pages   0 out, 0 in; 400 MiB virtual; launches 0, last –                                          │",
            "│runs    redis-server --port 0                                                                     │",
            "└──────────────────────────────────────────────────────────────────────────────────────────────────┘",
            "q quit  ↑↓ select  s sort  b background  f foreground",
        ]
    );
}

#[test]
fn narrow_terminals_have_fewer_columns_and_whole_numbers() {
    let mut top = Top::default();
    let large = ProgramStats {
        resident_bytes: 1000 << 20,
        pool_bytes: 1001 << 20,
        ..redis(1_234_567)
    };
    top.update(look(Instant::now(), vec![large]));
    let lines = picture(&top, 80, 12);
    assert!(
        lines[0].starts_with("warmswap top  1 program by"),
        "{lines:#?}"
    );
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(words[..4], ["4711", "redis-server", "foreground", "1,000"]);
    assert!(
        lines[2].contains("1,001 MiB") && !lines[1].contains("RATIO"),
        "{lines:#?}"
    );
    for width in 40..100 {
        for line in picture(&top, width, 12) {
            let is_cut = |word: &str| ["Mi", "M", "1,00", "1,234", "1,234,5"].contains(&word);
            assert!(!line.split_whitespace().any(is_cut), "{width}: {line}");
        }
    }
}

#[test]
fn nothing_runs() {
    let mut top = Top::default();
    assert!(picture(&top, 80, 24)[1].starts_with("Looking"));
    top.update(look(Instant::now(), Vec::new()));
    assert!(picture(&top, 80, 24)[1].starts_with("No paged program runs."));
}

#[test]
fn what_happened_stands_at_the_bottom() {
    let mut top = Top {
        message: "redis-server was told".to_owned(),
        ..Top::default()
    };
    assert_eq!(picture(&top, 80, 24)[23], "redis-server was told");
    let silent = (PathBuf::from("/9"), Err("no answer from /9".to_owned()));
    top.update(Look {
        at: Instant::now(),
        answers: vec![silent],
    });
    assert_eq!(picture(&top, 80, 24)[23], "no answer from /9");
}

#[test]
fn any_size_can_be_drawn() {
    let mut top = Top::default();
    let over = ProgramStats {
        budget_bytes: 0,
        ..redis(u64::MAX)
    };
    top.update(look(Instant::now(), vec![over; 50]));
    for (width, height) in [(1, 1), (3, 40), (200, 2), (20, 9), (500, 100)] {
        assert_eq!(picture(&top, width, height).len(), usize::from(height));
    }
}
