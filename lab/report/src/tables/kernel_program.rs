//! A program that ran in a control group under the kernel host.

use std::fmt::Write as _;

use warmswap_control::ProgramStats;
use warmswap_kernel::program::ProgramUsage;

use super::programs::ended;
use crate::units::{Quantity, Style};

/// How much of a program's time went to paging.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PagingShare {
    /// Of its time, in percent: one of its threads waited for memory (PSI).
    Stalled(f64),
    /// Of its CPU time, in percent, at most: the kernel worked on its behalf. Faults are in it, and all other calls.
    System(f64),
}

/// The summary of a program that has ended, some lines of text with a newline at the end of each.
#[must_use]
pub fn kernel_summary(
    stats: &ProgramStats,
    usage: &ProgramUsage,
    share: Option<PagingShare>,
    style: Style,
) -> String {
    let show = |quantity: Quantity| quantity.show(style);
    let bytes = |value| show(Quantity::Bytes(value));
    let count = |value| show(Quantity::Count(value));
    let mut out = format!("{}\n", ended(stats, style));
    if usage.pool_peak_bytes == 0 {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "  it stayed within {} of memory, so that nothing was paged (kernel host)",
            bytes(usage.budget_bytes),
        );
        return out;
    }
    let _ = writeln!(
        out,
        "  needed {}, ran in {} (kernel host over {}): {} pages out, {} in{}",
        bytes(usage.needed_peak_bytes),
        bytes(usage.used_peak_bytes),
        usage.device,
        count(usage.out_pages),
        count(usage.in_pages),
        match share {
            Some(PagingShare::Stalled(percent)) =>
                format!("; {percent:.0} % of its time went to paging"),
            Some(PagingShare::System(percent)) =>
                format!("; at most {percent:.0} % of its CPU time went to paging"),
            None => String::new(),
        },
    );
    let _ = writeln!(
        out,
        "  budget {}: at most {} for the group and {} for the compressed pool",
        bytes(usage.budget_bytes),
        bytes(usage.resident_peak_bytes),
        bytes(usage.pool_peak_bytes),
    );
    let _ = writeln!(
        out,
        "  the limit was met {} times; memory was made free ahead of need {} times, with {} of CPU time",
        count(usage.limit_hits),
        count(usage.ahead_rounds),
        show(Quantity::nanoseconds(usage.steering_cpu_ns)),
    );
    if usage.lifted_limits > 0 {
        let _ = writeln!(
            out,
            "  the budget was not kept: swap was nearly full {} times, and the limit was lifted meanwhile",
            count(usage.lifted_limits),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_control::ExitState;

    fn stats() -> ProgramStats {
        ProgramStats {
            pid: 4711,
            name: "python3".to_owned(),
            exit: ExitState::Exited { status: Some(0) },
            elapsed_seconds: 12.5,
            ..ProgramStats::default()
        }
    }

    #[test]
    fn the_summary_says_what_a_person_can_use() {
        let usage = ProgramUsage {
            device: "zram0".to_owned(),
            budget_bytes: 59 << 20,
            needed_peak_bytes: 118 << 20,
            used_peak_bytes: 59 << 20,
            resident_peak_bytes: 58 << 20,
            pool_peak_bytes: 24 << 20,
            out_pages: 12_345,
            in_pages: 9_876,
            limit_hits: 7,
            ahead_rounds: 1_100,
            steering_cpu_ns: 1_500_000_000,
            ..ProgramUsage::default()
        };
        let share = Some(PagingShare::System(31.4));
        let text = kernel_summary(&stats(), &usage, share, Style::PLAIN);
        assert_eq!(
            text,
            "\
warmswap: python3 (4711) exited with 0 after 12.5 s
  needed 118 MiB, ran in 59.0 MiB (kernel host over zram0): 12,345 pages out, 9,876 in; at most 31 % of its CPU time went to paging
  budget 59.0 MiB: at most 58.0 MiB for the group and 24.0 MiB for the compressed pool
  the limit was met 7 times; memory was made free ahead of need 1,100 times, with 1.50 s of CPU time
"
        );
        let share = Some(PagingShare::Stalled(12.0));
        let text = kernel_summary(&stats(), &usage, share, Style::PLAIN);
        assert!(
            text.contains("; 12 % of its time went to paging\n"),
            "{text}"
        );
    }

    #[test]
    fn a_program_within_its_budget_has_two_lines() {
        let usage = ProgramUsage {
            budget_bytes: 59 << 20,
            ..ProgramUsage::default()
        };
        let text = kernel_summary(&stats(), &usage, None, Style::PLAIN);
        let last = "  it stayed within 59.0 MiB of memory, so that nothing was paged (kernel host)";
        assert_eq!(text.lines().last(), Some(last));
    }
}
