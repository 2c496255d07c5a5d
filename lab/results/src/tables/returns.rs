//! How fast programs come back after a hog took their memory.

use std::collections::BTreeSet;

use warmswap_bench::returns::{ReturnArm, ReturnReport, ReturnRow};
use warmswap_page::PAGE_BYTES;

use warmswap_columns::units::{Quantity, counted};
use warmswap_columns::{Described, Table};

/// Returns, what they take, and traffic, by swap, arm and wait.
#[must_use]
pub fn returns(report: &ReturnReport) -> Vec<Table> {
    vec![latencies(report), costs(report), traffic(report)]
}

#[derive(Described)]
#[column(swap = self.0.swap.map_or("–", |swap| swap.name()), text)]
#[column(arm = self.0.arm.name(), text)]
#[column(wait_ns = self.0.wait_ms * 1_000_000, "after", measured)]
#[column(p50_ns = self.0.answer.p50, "median", measured)]
#[column(p90_ns = self.0.answer.p90, measured)]
#[column(mean_ns = self.0.answer.mean, measured)]
#[column(use_mean_ns = self.0.use_time.mean, "use", measured)]
#[column(added_ns = Some(self.0.added_ns).filter(|_| self.0.arm != ReturnArm::NoLimit), measured)]
#[column(added_ratio = self.0.added_ratio, ratio, "to kernel", measured)]
#[column(major_faults = self.0.major_faults, count, "faults", measured)]
struct LatencyRow<'a>(&'a ReturnRow);

fn latencies(report: &ReturnReport) -> Table {
    let title = format!(
        "Returns to {} programs after a hog ({}) that {}",
        report.apps.len(),
        report.hog.name(),
        if report.hog_stays { "stays" } else { "ended" }
    );
    let bytes = |bytes| Quantity::Bytes(bytes).human();
    let mut table = Table::of(title, report.rows.iter().map(LatencyRow)).note(format!(
        "Median, p90 and mean: from the switch to the program's own answer, at the first return after a hog. Use: what follows, \
         mean. Added: to both, beyond the same programs without a limit, mean; then as a part of what the kernel alone adds. \
         Faults: major ones of both. Programs take {}, the limited arms have {} with the compressed pool, the hog wanted {}. \
         {}{}; the measuring thread got {} of a processor before.",
        bytes(report.footprint_bytes),
        bytes(report.total_bytes),
        bytes(report.hog_bytes),
        counted(report.blocks.into(), "block", "blocks"),
        if is_balanced(report) {
            ""
        } else {
            ", in which the arms were not first equally often"
        },
        Quantity::Fraction(report.cpu_share).human(),
    ));
    for of in &report.failures {
        let over = of
            .swap
            .map_or(String::new(), |swap| format!(" over {}", swap.name()));
        let (block, arm) = (of.block + 1, of.arm.name());
        table = table.note(format!(
            "Block {block}: {arm}{over} was not measured: {}.",
            of.why
        ));
    }
    table
}

/// Whether each limited arm was first in as many blocks.
fn is_balanced(report: &ReturnReport) -> bool {
    let arms: BTreeSet<_> = report.rows.iter().map(|row| row.arm).collect();
    let limited = arms
        .iter()
        .filter(|&&arm| arm != ReturnArm::NoLimit)
        .count();
    (report.blocks as usize).is_multiple_of(limited.max(1))
}

#[derive(Described)]
#[column(swap = self.0.swap.map_or("–", |swap| swap.name()), text)]
#[column(arm = self.0.arm.name(), text)]
#[column(wait_ns = self.0.wait_ms * 1_000_000, "after", measured)]
#[column(swapped_bytes = self.0.swapped_bytes, measured)]
#[column(back_ns = self.0.back_ns, "all back", measured)]
#[column(left_bytes = self.0.left_bytes, measured)]
#[column(cpu_ns = self.0.cpu_ns, "CPU time", measured)]
#[column(added_cpu_ns = self.0.added_cpu_ns, "added", measured)]
#[column(daemon_cpu_ns = self.0.daemon_cpu_ns, "of it daemon", measured)]
#[column(hog_ns = self.0.hog_ns, measured)]
struct CostRow<'a>(&'a ReturnRow);

fn costs(report: &ReturnReport) -> Table {
    let title = "What a hog and the returns after it take";
    let table = Table::of(title, report.rows.iter().map(CostRow)).note(
        "Swapped: anonymous memory of the programs when the hog ended, after how long 19 of 20 bytes of each program were back, \
         and what was left in swap after the last return. CPU time: of all processors from before the hog to after the last \
         return, other programs' included; then what is beyond the arm without a limit. Hog: until it had all that it wanted.",
    );
    let killed: u64 = report.hogs.iter().map(|hog| hog.oom_kills).sum();
    if killed == 0 {
        return table;
    }
    table.note(format!(
        "The kernel killed {killed} processes for want of memory: what they held did not come back."
    ))
}

#[derive(Described)]
#[column(swap = self.0.swap.map_or("–", |swap| swap.name()), text)]
#[column(arm = self.0.arm.name(), text)]
#[column(wait_ns = self.0.wait_ms * 1_000_000, "after", measured)]
#[column(in_bytes = self.0.in_pages * PAGE_BYTES as f64, "from swap", measured)]
#[column(out_bytes = self.0.out_pages * PAGE_BYTES as f64, "to swap", measured)]
#[column(read_bytes = self.0.read_bytes, "files read", measured)]
#[column(written_bytes = self.0.written_bytes, "files written", measured)]
struct TrafficRow<'a>(&'a ReturnRow);

fn traffic(report: &ReturnReport) -> Table {
    Table::of("Traffic in that time", report.rows.iter().map(TrafficRow))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_bench::relaunch::{Quantiles, SwapKind};
    use warmswap_bench::returns::{HogKind, ReturnFailure};
    use warmswap_columns::units::Style;

    fn row(arm: ReturnArm, added_ratio: Option<f64>) -> ReturnRow {
        ReturnRow {
            arm,
            swap: (arm != ReturnArm::NoLimit).then_some(SwapKind::Zswap),
            wait_ms: 10_000,
            answer: Quantiles::of([151_000_000, 1_250_000_000, 2_345_000_000]),
            use_time: Quantiles::of([98_700_000]),
            again_ns: Some(45_600_000.0),
            added_ns: 123_456_789.0,
            added_p90_ns: 223_456_789.0,
            added_ratio,
            major_faults: 12_345.6,
            hog_ns: 4.56e9,
            swapped_bytes: 770.0 * 1_048_576.0,
            back_ns: added_ratio.map(|_| 3.21e9),
            left_bytes: 12.0 * 1_048_576.0,
            cpu_ns: Some(12.3e9),
            added_cpu_ns: Some(3.1e9),
            daemon_cpu_ns: added_ratio.filter(|&ratio| ratio < 1.0).map(|_| 2.1e9),
            in_pages: 200_000.0,
            out_pages: 200_000.0,
            read_bytes: 1e9,
            written_bytes: 1e6,
        }
    }

    #[test]
    fn arms_stand_beside_each_other_within_a_hundred_columns() {
        let report = ReturnReport {
            apps: vec!["redis".to_owned(), "vi".to_owned()],
            hog: HogKind::Compiler,
            hog_bytes: 1 << 30,
            hog_ms: 20_000,
            hog_stays: false,
            pause_ms: 1000,
            blocks: 1,
            seed: 1,
            algorithm: "lz4".to_owned(),
            is_machine: false,
            processors: 2,
            cpu_share: 0.99,
            footprint_bytes: 1 << 30,
            total_bytes: 3 << 29,
            rows: vec![
                row(ReturnArm::NoLimit, None),
                row(ReturnArm::Kernel, Some(1.0)),
                row(ReturnArm::Daemon, Some(0.09)),
            ],
            failures: vec![ReturnFailure {
                arm: ReturnArm::Daemon,
                swap: Some(SwapKind::File),
                block: 0,
                why: "the kernel killed it".to_owned(),
            }],
            hogs: Vec::new(),
            values: Vec::new(),
        };

        let tables = returns(&report);

        for table in &tables {
            let text = table.text(Style::PLAIN);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(100), "{text}");
        }
        let text = tables[0].text(Style::PLAIN);
        for said in [
            "not first equally often",
            "Block 1: daemon over file was not measured: the kernel killed it.",
        ] {
            assert!(text.contains(said), "{text}");
        }
        let returns = tables[0].json()["rows"].clone();
        assert!(returns[0]["added_ns"].is_null() && returns[0]["added_ratio"].is_null());
        assert_eq!(returns[2]["added_ratio"], 0.09);
        assert_eq!(
            (&returns[1]["swap"], &returns[0]["swap"]),
            (&"zswap".into(), &"–".into())
        );
        let costs = tables[1].json()["rows"].clone();
        assert!(costs[0]["back_ns"].is_null() && costs[1]["daemon_cpu_ns"].is_null());
        assert_eq!(costs[2]["daemon_cpu_ns"], 2.1e9);
    }
}
