//! Under which conditions arms over a whole machine ran.

use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{Conditions, Scope, Setting};

use super::super::cells::{names, text};
use super::{arm, measured};
use warmswap_result::table::{Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// What the arms with a daemon are, in a footnote.
pub(super) const DAEMONS: &str = "the daemon runs as shipped, and finds the kernel's own settings; told means of launches and \
                                  switches, and it finds everything else out.";

/// Whether there is an arm over the whole machine.
pub(super) fn is_measured(report: &RelaunchReport) -> bool {
    let mut arms = report.arms.iter();
    arms.any(|result| result.arm.scope() == Scope::Machine)
}

/// What was left of the machine in each arm, and the kernel's settings.
pub(super) fn conditions(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        measured("usable_bytes", "machine", Kind::Bytes),
        measured("available_bytes", "available", Kind::Bytes),
        measured("least_available_bytes", "at least", Kind::Bytes),
        measured("most_stall", "stalled", Kind::Percent),
        measured("oom_kills", "killed", Kind::Count),
    ]);
    columns.extend(names(["settings"]));
    let mut table = Table::new("The machine, with what was taken away", columns);
    for result in &report.arms {
        let conditions = &result.conditions;
        let Conditions {
            usable_bytes,
            available_bytes,
            least_available_bytes,
            most_stall_percent,
            settings,
            ..
        } = conditions;
        let bytes = |bytes: &Option<u64>| bytes.map_or(Quantity::Missing, Quantity::Bytes);
        let stall = most_stall_percent.map_or(Quantity::Missing, |percent| {
            Quantity::Fraction(percent / 100.0)
        });
        table.row([
            arm(result.arm),
            bytes(usable_bytes),
            bytes(available_bytes),
            bytes(least_available_bytes),
            stall,
            Quantity::Count(result.oom_kills),
            text(&values(settings)),
        ])?;
    }
    table.footnote(format!(
        "Machine: memory of kernel and all programs. Available: of it, before the applications began, and at least while \
         they ran. Stalled: all tasks waited for memory, in the worst 10 s. Killed: processes, for want of memory. \
         Settings: {}.",
        report
            .arms
            .iter()
            .find(|result| !result.conditions.settings.is_empty())
            .map_or_else(|| "none".to_owned(), |result| names_of(&result.conditions.settings)),
    ));
    let features = report.features.iter();
    let features: Vec<_> = features
        .map(|Setting { name, value }| format!("{name} {value}"))
        .collect();
    table.footnote(format!("The kernel has: {}.", features.join(", ")));
    Ok(table)
}

fn values(settings: &[Setting]) -> String {
    let values: Vec<_> = settings.iter().map(|s| s.value.as_str()).collect();
    if values.is_empty() {
        "–".to_owned()
    } else {
        values.join(" ")
    }
}

fn names_of(settings: &[Setting]) -> String {
    let names: Vec<_> = settings.iter().map(|s| s.name.as_str()).collect();
    names.join(", ")
}
