//! Counting what passed, failed and was skipped.

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

    /// The last line of a run.
    pub fn line(&self) -> String {
        let skipped = self.skips.len();
        format!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed, self.failed
        )
    }
}

/// Reads what `cargo test` prints, line by line.
#[derive(Debug, Default)]
pub struct TestOutput {
    tally: Tally,
    /// What cargo runs now, and whether it gave a result.
    binary: Option<(String, bool)>,
    unfinished: Vec<String>,
}

impl TestOutput {
    /// Takes one line, without colours and without its line break.
    pub fn line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        if let Some(name) = trimmed
            .strip_prefix("Running ")
            .or_else(|| trimmed.strip_prefix("Doc-tests "))
        {
            self.close_binary();
            self.binary = Some((binary_name(name), false));
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            self.result(rest);
        } else if let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        {
            self.test(name, outcome);
        }
    }

    /// The counts, once cargo ended with success or not.
    ///
    /// A run that failed without a single failed test counts as one failure, and so does each
    /// binary that ended without a result.
    pub fn finish(mut self, success: bool) -> Tally {
        self.close_binary();
        if !success {
            for binary in std::mem::take(&mut self.unfinished) {
                self.tally.fail(format!("{binary}: ended without a result"));
            }
            if self.tally.failed == 0 {
                self.tally.fail("cargo test");
            }
        }
        self.tally
    }

    fn close_binary(&mut self) {
        if let Some((name, false)) = self.binary.take() {
            self.unfinished.push(name);
        }
    }

    /// `ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
    fn result(&mut self, rest: &str) {
        let count = |what: &str| {
            let words: Vec<&str> = rest
                .split([' ', ';', '.'])
                .filter(|word| !word.is_empty())
                .collect();
            words
                .windows(2)
                .find(|pair| pair[1] == what)
                .and_then(|pair| pair[0].parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.tally.passed += count("passed");
        self.tally.failed += count("failed");
        if let Some((_, finished)) = &mut self.binary {
            *finished = true;
        }
    }

    fn test(&mut self, name: &str, outcome: &str) {
        let within = self.binary.as_ref().map_or("?", |(binary, _)| binary);
        let name = format!("{within}: {}", name.trim_end_matches(" - should panic"));
        if outcome == "FAILED" {
            self.tally.failures.push(name);
        } else if let Some(reason) = outcome.strip_prefix("ignored") {
            let reason = reason.trim_start_matches([',', ' ']);
            self.tally.skips.push(Skip {
                name,
                reason: if reason.is_empty() {
                    "ignored".to_owned()
                } else {
                    reason.to_owned()
                },
                excused: false,
            });
        }
    }
}

/// `unittests src/lib.rs (target/debug/deps/warmswap_pool-0123456789abcdef)` → `warmswap_pool`;
/// a name without a path stays.
fn binary_name(text: &str) -> String {
    let path = text
        .split_once('(')
        .map_or(text, |(_, rest)| rest.trim_end_matches(')'));
    let file = path.rsplit('/').next().unwrap_or(path);
    file.rsplit_once('-')
        .map_or(file, |(name, _)| name)
        .to_owned()
}

#[cfg(test)]
mod tests;
