//! What arms are to reach beside others.

use serde::Serialize;

use super::arm_result::ArmResult;
use super::options::Arm;
use super::result::RelaunchReport;

/// A target, and whether it is reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// The arms, as `kernel / zram`.
    pub arms: String,
    /// What of them.
    pub what: &'static str,
    /// The ratio.
    pub ratio: f64,
    /// It is to be at most this.
    pub at_most: f64,
}

impl Target {
    /// Whether it is reached.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.ratio <= self.at_most
    }
}

/// The plain arms over the whole machine, and what the daemon may add to memory without a limit of what they add.
const PLAIN: [Arm; 2] = [Arm::ZramDefault, Arm::ZramTuned];
const DAEMONS: [(Arm, f64); 2] = [(Arm::Daemon, 0.35), (Arm::DaemonUntold, 0.6)];

/// The targets of all pairs of arms that were measured.
pub(super) fn all(report: &RelaunchReport) -> Vec<Target> {
    let mut targets = in_a_group(report);
    for (daemon, at_most) in DAEMONS {
        for plain in PLAIN {
            targets.extend(on_the_machine(report, daemon, plain, at_most));
        }
    }
    targets
}

fn target(arms: (Arm, Arm), what: &'static str, ratio: f64, at_most: f64) -> Target {
    Target {
        arms: format!("{} / {}", arms.0.name(), arms.1.name()),
        what,
        ratio,
        at_most,
    }
}

/// The kernel host against plain zram.
fn in_a_group(report: &RelaunchReport) -> Vec<Target> {
    let arms = (Arm::Kernel, Arm::Zram);
    let (Some(kernel), Some(zram)) = (report.arm(arms.0), report.arm(arms.1)) else {
        return Vec::new();
    };
    let cpu = |arm: &ArmResult| arm.cpu.total_ns() as f64;
    let (ours, theirs) = (&kernel.latency, &zram.latency);
    let faults = (kernel.major_faults.mean, zram.major_faults.mean);
    let mut targets = vec![
        target(arms, "median relaunch latency", ours.p50 / theirs.p50, 0.5),
        target(arms, "p90 relaunch latency", ours.p90 / theirs.p90, 0.5),
        target(arms, "p99 relaunch latency", ours.p99 / theirs.p99, 0.6),
        target(arms, "major faults per relaunch", faults.0 / faults.1, 0.3),
        target(arms, "CPU time", cpu(kernel) / cpu(zram), 0.9),
    ];
    targets.extend(added(report, arms, 0.25));
    targets
}

/// What one arm adds to a mean relaunch without a limit, by what the other adds; none where that was not measured.
fn added(report: &RelaunchReport, arms: (Arm, Arm), at_most: f64) -> Option<Target> {
    let mean = |arm| report.arm(arm).map(|result| result.latency.mean);
    let dram = mean(Arm::Dram)?;
    let ratio = (mean(arms.0)? - dram) / (mean(arms.1)? - dram);
    Some(target(arms, "added to a mean relaunch", ratio, at_most))
}

/// The daemon against plain zram on the whole machine: what it adds to memory without a limit of what zram adds, in the
/// mean relaunch; and the CPU time of everything.
fn on_the_machine(report: &RelaunchReport, daemon: Arm, plain: Arm, at_most: f64) -> Vec<Target> {
    let arms = (daemon, plain);
    let (Some(ours), Some(theirs)) = (report.arm(daemon), report.arm(plain)) else {
        return Vec::new();
    };
    let mut targets = Vec::from_iter(added(report, arms, at_most));
    let cpu = ours.cpu.machine_ns as f64 / theirs.cpu.machine_ns as f64;
    targets.push(target(arms, "CPU time of everything", cpu, 1.0));
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relaunch::Quantiles;

    #[test]
    fn a_target_is_reached_at_its_bound() {
        let target = |ratio| Target {
            arms: String::new(),
            what: "x",
            ratio,
            at_most: 0.5,
        };
        assert!(target(0.5).is_reached() && !target(0.51).is_reached());
        assert!(!target(f64::NAN).is_reached(), "nothing was measured");
    }

    #[test]
    fn the_kernel_host_is_held_against_zram_by_what_it_adds_where_that_is_known() {
        let result = |arm, mean| {
            let mut result = ArmResult::none(arm);
            result.latency = Quantiles::of([mean]);
            result
        };
        let (kernel, zram) = (result(Arm::Kernel, 75), result(Arm::Zram, 150));
        let mut report = RelaunchReport {
            arms: vec![kernel, zram],
            ..RelaunchReport::default()
        };
        assert_eq!(all(&report).len(), 5);
        report.arms.push(result(Arm::Dram, 50));

        let found = all(&report);

        let last = found.last().expect("six targets");
        assert_eq!((last.what, last.ratio), ("added to a mean relaunch", 0.25));
        assert!(last.is_reached());
    }

    #[test]
    fn the_daemon_is_held_against_either_zram_by_what_it_adds() {
        let mut report = RelaunchReport::default();
        for (arm, mean, machine_ns) in [
            (Arm::Dram, 50, 1),
            (Arm::ZramDefault, 150, 100),
            (Arm::ZramTuned, 100, 50),
            (Arm::Daemon, 70, 60),
        ] {
            let mut result = ArmResult::none(arm);
            result.latency = Quantiles::of([mean]);
            result.cpu.machine_ns = machine_ns;
            report.arms.push(result);
        }

        let found = all(&report);

        let found: Vec<_> = found
            .iter()
            .map(|target| (target.arms.as_str(), target.ratio, target.is_reached()))
            .collect();
        let expected = [
            ("daemon / zram-default", 0.2, true),
            ("daemon / zram-default", 0.6, true),
            ("daemon / zram-tuned", 0.4, false),
            ("daemon / zram-tuned", 1.2, false),
        ];
        assert_eq!(found, expected);
    }
}
