//! A program that ran in a control group under the kernel host.

use std::fmt::Write as _;

use warmswap_kernel::program::ProgramUsage;
use warmswap_protocol::ProgramStats;

use super::programs::ended;
use warmswap_output::{Quantity, Style};

/// How much of a program's time went to paging.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    let pages = match share {
        Some(PagingShare::Stalled(percent)) => {
            format!("; {percent:.0} % of its time went to paging")
        }
        Some(PagingShare::System(percent)) => {
            format!("; at most {percent:.0} % of its CPU time went to paging")
        }
        None => String::new(),
    };
    // Pages of zeros leave and take nothing in the pool.
    let is_paged = usage.pool_peak_bytes > 0 || usage.needed_peak_bytes > usage.used_peak_bytes;
    // What it ran in holds pages of files and memory of the kernel, too, and what it needed does not.
    let needed = match usage.needed_peak_bytes > usage.used_peak_bytes {
        true => format!("needed {}, ran", bytes(usage.needed_peak_bytes)),
        false => "ran".to_owned(),
    };
    // Writing to a string does not fail.
    let _ = if !is_paged {
        writeln!(
            out,
            "  ran in {} of memory at most, and nothing of it was paged (kernel host)",
            bytes(usage.used_peak_bytes),
        )
    } else {
        writeln!(
            out,
            "  {needed} in {} (kernel host over {}): {} pages out, {} in{pages}",
            bytes(usage.used_peak_bytes),
            usage.device,
            count(usage.out_pages),
            count(usage.in_pages),
        )
    };
    let more = usage.used_peak_bytes.saturating_sub(usage.budget_bytes);
    let exceeded = match more {
        0 => String::new(),
        more => format!(", exceeded by {}", bytes(more)),
    };
    let _ = writeln!(
        out,
        "  budget {}{exceeded}: at most {} for the group and {} for the compressed pool",
        bytes(usage.budget_bytes),
        bytes(usage.resident_peak_bytes),
        bytes(usage.pool_peak_bytes),
    );
    if is_paged {
        let _ = writeln!(
            out,
            "  the limit was met {} times; to keep it took {} of CPU time",
            count(usage.limit_hits),
            show(Quantity::nanoseconds(usage.steering_cpu_ns)),
        );
    }
    for line in findings(usage, style) {
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// What did not go as asked for, a line each.
fn findings(usage: &ProgramUsage, style: Style) -> Vec<String> {
    let count = |value| Quantity::Count(value).show(style);
    let mut lines = Vec::new();
    match usage.oom_kills {
        None | Some(0) => {}
        Some(1) => lines.push("the kernel's OOM killer ended a process of it".to_owned()),
        Some(kills) => lines.push(format!(
            "the kernel's OOM killer ended {} processes of it",
            count(kills)
        )),
    }
    match usage.left_processes {
        0 => {}
        1 => lines.push("one of its processes goes on, without the budget".to_owned()),
        left => lines.push(format!(
            "{} of its processes go on, without the budget",
            count(left)
        )),
    }
    if usage.floor_bytes > 0 && usage.used_peak_bytes > usage.budget_bytes {
        lines.push(format!(
            "the group kept {} beside the pool: a part of the budget, what cannot be reclaimed, and room to go on",
            Quantity::Bytes(usage.floor_bytes).show(style),
        ));
    }
    if usage.raised_limits > 0 {
        lines.push(format!(
            "the limit was raised {} times, when nothing more could be reclaimed",
            count(usage.raised_limits)
        ));
    }
    if usage.lifted_limits > 0 {
        lines.push(format!(
            "swap was nearly full {} times, and the limit was lifted meanwhile",
            count(usage.lifted_limits)
        ));
    }
    if usage.has_left_group {
        lines.push(
            "a process of it left its group: what it used afterwards is neither bounded nor counted"
                .to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_protocol::ExitState;

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
            used_peak_bytes: 60 << 20,
            resident_peak_bytes: 58 << 20,
            pool_peak_bytes: 24 << 20,
            out_pages: 12_345,
            in_pages: 9_876,
            limit_hits: 7,
            steering_cpu_ns: 1_500_000_000,
            ..ProgramUsage::default()
        };
        let share = Some(PagingShare::System(31.4));
        let text = kernel_summary(&stats(), &usage, share, Style::PLAIN);
        assert_eq!(
            text,
            "\
warmswap: python3 (4711) exited with 0 after 12.5 s
  needed 118 MiB, ran in 60.0 MiB (kernel host over zram0): 12,345 pages out, 9,876 in; at most 31 % of its CPU time went to paging
  budget 59.0 MiB, exceeded by 1.00 MiB: at most 58.0 MiB for the group and 24.0 MiB for the compressed pool
  the limit was met 7 times; to keep it took 1.50 s of CPU time
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
    fn a_program_that_was_not_paged_is_told_by_what_it_used() {
        let usage = ProgramUsage {
            budget_bytes: 59 << 20,
            resident_peak_bytes: 12 << 20,
            used_peak_bytes: 12 << 20,
            oom_kills: Some(0),
            ..ProgramUsage::default()
        };
        let text = kernel_summary(&stats(), &usage, None, Style::PLAIN);
        assert_eq!(
            text,
            "\
warmswap: python3 (4711) exited with 0 after 12.5 s
  ran in 12.0 MiB of memory at most, and nothing of it was paged (kernel host)
  budget 59.0 MiB: at most 12.0 MiB for the group and 0 B for the compressed pool
"
        );
    }

    #[test]
    fn what_was_needed_is_told_only_where_it_is_more_than_what_it_ran_in() {
        let usage = ProgramUsage {
            needed_peak_bytes: 60 << 20,
            used_peak_bytes: 62 << 20,
            pool_peak_bytes: 40 << 20,
            ..ProgramUsage::default()
        };
        let text = kernel_summary(&stats(), &usage, None, Style::PLAIN);
        assert!(
            text.contains("\n  ran in 62.0 MiB (kernel host over"),
            "{text}"
        );
        assert!(!text.contains("needed"), "{text}");
    }

    #[test]
    fn a_program_of_zeros_was_paged_though_the_pool_is_empty() {
        let usage = ProgramUsage {
            needed_peak_bytes: 200 << 20,
            used_peak_bytes: 30 << 20,
            ..ProgramUsage::default()
        };
        let text = kernel_summary(&stats(), &usage, None, Style::PLAIN);
        assert!(
            text.contains("\n  needed 200 MiB, ran in 30.0 MiB"),
            "{text}"
        );
        assert!(!text.contains("nothing of it was paged"), "{text}");
    }

    #[test]
    fn what_did_not_go_as_asked_has_a_line_each() {
        let usage = ProgramUsage {
            used_peak_bytes: 20 << 20,
            floor_bytes: 14 << 20,
            raised_limits: 2,
            lifted_limits: 3,
            oom_kills: Some(1),
            has_left_group: true,
            left_processes: 2,
            ..ProgramUsage::default()
        };
        let text = kernel_summary(&stats(), &usage, None, Style::PLAIN);
        for line in [
            "2 of its processes go on, without the budget",
            "OOM killer ended a process",
            "the group kept 14.0 MiB beside the pool",
            "the limit was raised 2 times",
            "swap was nearly full 3 times",
            "a process of it left its group",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
