//! Programs that are paged: those that run, and one that has ended.

use std::fmt::Write as _;

use warmswap_protocol::{ExitState, LatencySummary, Phase, ProgramStats};

use warmswap_columns::{Described, Value as _};
use warmswap_output::{Kind, Quantity, Style, Table};

/// What a program is doing, in a word.
#[must_use]
pub fn phase(stats: &ProgramStats) -> &'static str {
    match (stats.managed, stats.phase) {
        (false, _) => "not paged",
        (true, Phase::Foreground) => "foreground",
        (true, Phase::Launch) => "launch",
        (true, Phase::Background) => "background",
    }
}

/// A row of the running programs.
#[derive(Described)]
#[column(pid = self.0.pid, text, "PID")]
#[column(name = self.0.name, text, "program")]
#[column(phase = phase(self.0), text)]
#[column(budget_bytes = self.0.budget_bytes)]
#[column(resident_bytes = self.0.resident_bytes, measured)]
#[column(pool_bytes = self.0.pool_bytes, measured)]
#[column(memory_ratio = self.0.memory_ratio, ratio, measured)]
#[column(faults = self.0.faults.total, count, measured)]
#[column(fault_p50_ns = quantile(&self.0.fault_latency, self.0.fault_latency.p50_ns), "p50", measured)]
#[column(fault_p99_ns = quantile(&self.0.fault_latency, self.0.fault_latency.p99_ns), "p99", measured)]
#[column(pager_cpu_ns = self.0.pager_cpu_seconds * 1e9, "pager CPU", measured)]
struct ProgramRow<'a>(&'a ProgramStats);

/// Running programs, one a row.
#[must_use]
pub fn programs(programs: &[ProgramStats]) -> Table {
    Table::of("Paged programs", programs.iter().map(ProgramRow))
}

/// The summary of a program that has ended, some lines of text with a newline at the end of each. `unpaged` is why it was
/// not paged, where that is known.
#[must_use]
pub fn summary(stats: &ProgramStats, unpaged: Option<&str>, style: Style) -> String {
    let show = |quantity: Quantity| quantity.show(style);
    let bytes = |value| show(Quantity::Bytes(value));
    let count = |value| show(Quantity::Count(value));
    let mut out = format!("{}; scheme {}\n", ended(stats, style), stats.scheme);
    if !stats.managed {
        let why = unpaged.map_or_else(String::new, |why| format!(": {why}"));
        // Writing to a string does not fail.
        let _ = writeln!(out, "  it was not paged{why}");
        return out;
    }
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "  memory  at most {} virtual, {} resident, {} pool; budget {}",
        bytes(stats.virtual_peak_bytes),
        bytes(stats.resident_peak_bytes),
        bytes(stats.pool_peak_bytes),
        bytes(stats.budget_bytes),
    );
    let _ = writeln!(
        out,
        "  ratio   data {}, memory {}",
        show(stats.data_ratio.quantity(Kind::Ratio)),
        show(stats.memory_ratio.quantity(Kind::Ratio)),
    );
    let (faults, latency) = (&stats.faults, &stats.fault_latency);
    let at = |latency, value| show(quantile(latency, value).quantity(Kind::Duration));
    let _ = writeln!(
        out,
        "  faults  {}: {} first touches, {} staged, {} pool, {} backing\n\
         \x20 latency p50 {}, p99 {}, p99.9 {}, longest {}",
        count(faults.total),
        count(faults.first_touches),
        count(faults.staged),
        count(faults.pool),
        count(faults.backing),
        at(latency, latency.p50_ns),
        at(latency, latency.p99_ns),
        at(latency, latency.p999_ns),
        at(latency, latency.max_ns),
    );
    let _ = writeln!(
        out,
        "  pages   {} out, {} in",
        count(stats.swapped_out_pages),
        count(stats.swapped_in_pages),
    );
    if stats.backing_failures > 0 {
        let _ = writeln!(
            out,
            "  backing could not be written {} times: its disk may be full",
            count(stats.backing_failures),
        );
    }
    let files = &stats.files;
    if files.mapped_peak_bytes > 0 {
        let _ = writeln!(
            out,
            "  files   at most {} mapped; {} faults read {} pages, {} pages to the pool, {} dropped",
            bytes(files.mapped_peak_bytes),
            count(faults.file),
            count(files.read_pages),
            count(files.pooled_pages),
            count(files.discarded_pages),
        );
    }
    if let Some(last_ns) = stats.last_launch_ns {
        let _ = writeln!(
            out,
            "  launch  {} times, median {}, last {}",
            count(stats.launches.count),
            at(&stats.launches, stats.launches.p50_ns),
            show(Quantity::nanoseconds(last_ns)),
        );
    }
    let _ = writeln!(
        out,
        "  CPU     {} of the program's {} spent by the pager",
        show(seconds(stats.pager_cpu_seconds)),
        show(seconds(stats.program_cpu_seconds)),
    );
    out
}

/// Which program ended, how, and when: how a summary begins.
pub(super) fn ended(stats: &ProgramStats, style: Style) -> String {
    let how = match stats.exit {
        ExitState::Running => "runs".to_owned(),
        ExitState::Exited { status: None } => "ended".to_owned(),
        ExitState::Exited { status: Some(code) } => format!("exited with {code}"),
        ExitState::Killed { signal } => format!("was killed by signal {signal}"),
    };
    let time = seconds(stats.elapsed_seconds).show(style);
    let (name, pid) = (&stats.name, stats.pid);
    format!("warmswap: {name} ({pid}) {how} after {time}")
}

/// A time out of a program's statistics.
#[must_use]
pub fn seconds(value: f64) -> Quantity {
    Quantity::Nanoseconds(value * 1e9)
}

/// A quantile; `None` where nothing was counted.
fn quantile(summary: &LatencySummary, ns: u64) -> Option<u64> {
    (summary.count > 0).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_protocol::{FaultCounts, FileStats};

    fn stats() -> ProgramStats {
        ProgramStats {
            pid: 4711,
            name: "redis-server".to_owned(),
            scheme: "warmswap".to_owned(),
            managed: true,
            exit: ExitState::Exited { status: Some(0) },
            elapsed_seconds: 12.5,
            budget_bytes: 300 << 20,
            virtual_peak_bytes: 512 << 20,
            resident_bytes: 200 << 20,
            resident_peak_bytes: 240 << 20,
            pool_bytes: 50 << 20,
            pool_peak_bytes: 56 << 20,
            data_ratio: Some(3.25),
            memory_ratio: Some(3.0),
            faults: FaultCounts {
                total: 12_345,
                first_touches: 8_000,
                staged: 45,
                pool: 4_000,
                backing: 300,
                file: 0,
            },
            fault_latency: LatencySummary {
                count: 12_345,
                p50_ns: 3_100,
                p99_ns: 9_900,
                p999_ns: 41_000,
                max_ns: 1_000_000,
            },
            pager_cpu_seconds: 0.52,
            program_cpu_seconds: 11.9,
            ..ProgramStats::default()
        }
    }

    #[test]
    fn the_summary_says_it_all_and_fits() {
        let text = summary(&stats(), None, Style::PLAIN);
        assert_eq!(
            text,
            "\
warmswap: redis-server (4711) exited with 0 after 12.5 s; scheme warmswap
  memory  at most 512 MiB virtual, 240 MiB resident, 56.0 MiB pool; budget 300 MiB
  ratio   data 3.25×, memory 3.00×
  faults  12,345: 8,000 first touches, 45 staged, 4,000 pool, 300 backing
  latency p50 3.10 µs, p99 9.90 µs, p99.9 41.0 µs, longest 1.00 ms
  pages   0 out, 0 in
  CPU     520 ms of the program's 11.9 s spent by the pager
"
        );
    }

    #[test]
    fn a_backing_file_that_could_not_be_written_has_a_line() {
        let stats = ProgramStats {
            backing_failures: 1200,
            ..stats()
        };
        let text = summary(&stats, None, Style::PLAIN);
        let line = "\n  backing could not be written 1,200 times: its disk may be full\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn files_have_a_line_where_some_were_paged() {
        let mut stats = stats();
        stats.faults.file = 120;
        stats.files = FileStats {
            mapped_bytes: 0,
            mapped_peak_bytes: 48 << 20,
            read_pages: 12_288,
            pooled_pages: 9_000,
            discarded_pages: 3_000,
        };
        let text = summary(&stats, None, Style::PLAIN);
        let line = text.lines().find(|line| line.starts_with("  files"));
        let expected = "  files   at most 48.0 MiB mapped; 120 faults read 12,288 pages, \
            9,000 pages to the pool, 3,000 dropped";
        assert_eq!(line, Some(expected));
    }

    #[test]
    fn a_program_without_paging_has_no_numbers() {
        let stats = ProgramStats {
            managed: false,
            exit: ExitState::Killed { signal: 9 },
            ..stats()
        };
        let text = summary(&stats, None, Style::PLAIN);
        assert!(text.contains("killed by signal 9"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
        let text = summary(&stats, Some("no userfaultfd"), Style::PLAIN);
        assert!(text.ends_with("not paged: no userfaultfd\n"), "{text}");
    }

    #[test]
    fn nothing_counted_has_no_quantile() {
        let idle = ProgramStats {
            fault_latency: LatencySummary::default(),
            ..stats()
        };
        let table = programs(&[stats(), idle]).json();
        assert_eq!(table["rows"][0]["fault_p50_ns"], 3100.0);
        assert!(table["rows"][1]["fault_p50_ns"].is_null());
    }
}
