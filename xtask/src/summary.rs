//! Counting what passed, failed and was skipped.

use std::cmp::Reverse;
use std::time::Duration;

/// A test or check that did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// Name of the test or check.
    pub name: String,
    /// Why it did not run.
    pub reason: String,
    /// Allowed even where skips are failures.
    pub excused: bool,
}

/// The counts of one step, or of all of them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Tests and checks that passed.
    pub passed: u64,
    /// Tests and checks that failed.
    pub failed: u64,
    /// One line for each failure that has a name.
    pub failures: Vec<String>,
    /// What did not run.
    pub skips: Vec<Skip>,
    /// How long single tests took.
    pub times: Vec<(Duration, String)>,
}

impl Tally {
    /// One check without tests of its own.
    pub fn check(name: &str, passed: bool) -> Self {
        let mut tally = Self::default();
        if passed {
            tally.passed = 1;
        } else {
            tally.fail(name);
        }
        tally
    }

    /// Counts one failure.
    pub fn fail(&mut self, name: impl Into<String>) {
        self.failed += 1;
        self.failures.push(name.into());
    }

    /// Adds the counts of another step.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
        self.times.extend(other.times);
    }

    /// Makes a failure of every skip that is not excused.
    pub fn forbid_skips(&mut self) {
        let (excused, forbidden) = self.skips.drain(..).partition(|skip| skip.excused);
        self.skips = excused;
        for Skip { name, reason, .. } in forbidden {
            self.fail(format!(
                "{name}: skipped ({reason}), and WARMSWAP_NO_SKIP is set"
            ));
        }
    }

    /// Adds the skips that tests noted in the log, one `skipped: NAME: REASON` a line.
    ///
    /// Their test functions returned early, so libtest took them for passed.
    pub fn add_skip_log(&mut self, log: &str) {
        for line in log.lines() {
            let Some((name, reason)) = line
                .strip_prefix("skipped: ")
                .and_then(|rest| rest.split_once(": "))
            else {
                self.fail(format!("a line of the skip log is no skip: {line}"));
                continue;
            };
            self.passed = self.passed.saturating_sub(1);
            self.skips.push(Skip {
                name: name.to_owned(),
                reason: reason.to_owned(),
                excused: false,
            });
        }
    }

    /// The tests that took longest, at most `most` of them, the longest first.
    pub fn slowest(&self, most: usize) -> Vec<&(Duration, String)> {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by_key(|(time, _)| Reverse(*time));
        times.truncate(most);
        times
    }

    /// The last line of a run.
    pub fn line(&self) -> String {
        let skipped = self.skips.len();
        format!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed, self.failed
        )
    }
}

/// Reads what the test runners print, line by line, without colours.
#[derive(Debug, Default)]
pub struct TestOutput {
    tally: Tally,
    /// Whether nextest has summed up; what failed is listed again behind that.
    is_summed_up: bool,
}

impl TestOutput {
    /// Takes a line of `cargo nextest run`.
    pub fn nextest_line(&mut self, line: &str) {
        self.is_summed_up |= line.trim_start().starts_with("Summary [");
        if self.is_summed_up {
            return;
        }
        let Some(Line { status, time, name }) = Line::parse(line) else {
            return;
        };
        match (status, time) {
            ("SKIP", _) => self.ignored(name, ""),
            ("PASS" | "LEAK", Some(_)) => self.tally.passed += 1,
            (_, Some(_)) => self.tally.fail(name),
            (_, None) => {}
        }
        let took = time.map(|time| (time, name.to_owned()));
        self.tally.times.extend(took);
    }

    /// Takes a line of `cargo test --doc`: `test NAME ... OUTCOME`.
    pub fn doc_line(&mut self, line: &str) {
        let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        else {
            return;
        };
        match outcome {
            "ok" => self.tally.passed += 1,
            "FAILED" => self.tally.fail(name),
            other => {
                if let Some(reason) = other.strip_prefix("ignored") {
                    self.ignored(name, reason.trim_start_matches([',', ' ']));
                }
            }
        }
    }

    /// The counts, once `command` ended with success or not. A run that failed without a failed test counts as
    /// one failure.
    pub fn finish(mut self, command: &str, success: bool) -> Tally {
        if !success && self.tally.failed == 0 {
            self.tally.fail(command);
        }
        self.tally
    }

    fn ignored(&mut self, name: &str, reason: &str) {
        let reason = if reason.is_empty() { "ignored" } else { reason };
        self.tally.skips.push(Skip {
            name: name.to_owned(),
            reason: reason.to_owned(),
            excused: false,
        });
    }
}

/// A line of nextest about one test: `PASS [   0.005s] (  1/123) warmswap-pool tests::fits`.
struct Line<'a> {
    status: &'a str,
    /// `None` unless the test ended.
    time: Option<Duration>,
    name: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (status, rest) = line.trim_start().split_once(" [")?;
        let (time, rest) = rest.split_once("] (")?;
        let (_, name) = rest.split_once(") ")?;
        let seconds = time.trim().strip_suffix('s');
        Some(Self {
            status,
            time: seconds.and_then(|s| Some(Duration::from_secs_f64(s.parse().ok()?))),
            name,
        })
    }
}

#[cfg(test)]
mod tests;
