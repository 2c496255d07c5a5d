//! Under which conditions arms over a whole machine ran.

use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{ArmResult, Scope, Setting};
use warmswap_columns::{Described, Table};

/// What the arms with a daemon are, in a footnote.
pub(super) const DAEMONS: &str = "the daemon runs as shipped, and finds the kernel's own settings; told means of launches and \
                                  switches, and it finds everything else out.";

/// Whether there is an arm over the whole machine.
pub(super) fn is_measured(report: &RelaunchReport) -> bool {
    let mut arms = report.arms.iter();
    arms.any(|result| result.arm.scope() == Scope::Machine)
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(usable_bytes = self.0.conditions.usable_bytes, "machine", measured)]
#[column(available_bytes = self.0.conditions.available_bytes, measured)]
#[column(least_available_bytes = self.0.conditions.least_available_bytes, "at least", measured)]
#[column(most_stall = self.0.conditions.most_stall_percent.map(|percent| percent / 100.0), percent, "stalled", measured)]
#[column(oom_kills = self.0.oom_kills, count, "killed", measured)]
#[column(settings = values(&self.0.conditions.settings), text)]
struct ConditionsRow<'a>(&'a ArmResult);

/// What was left of the machine in each arm, and the kernel's settings.
pub(super) fn conditions(report: &RelaunchReport) -> Table {
    let title = "The machine, with what was taken away";
    let set = report.arms.iter().map(|result| &result.conditions.settings);
    let mut set = set.filter(|settings| !settings.is_empty());
    let features = report.features.iter();
    let features: Vec<_> = features
        .map(|Setting { name, value }| format!("{name} {value}"))
        .collect();
    Table::of(title, report.arms.iter().map(ConditionsRow))
        .note(format!(
            "Machine: memory of kernel and all programs. Available: of it, before the applications began, and at least while \
             they ran. Stalled: all tasks waited for memory, in the worst 10 s. Killed: processes, for want of memory. \
             Settings: {}.",
            set.next().map_or_else(|| "none".to_owned(), |settings| names_of(settings)),
        ))
        .note(format!("The kernel has: {}.", features.join(", ")))
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
