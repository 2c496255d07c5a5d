use super::*;

fn read(text: &str, line: fn(&mut TestOutput, &str), success: bool) -> Tally {
    let mut output = TestOutput::default();
    text.lines().for_each(|text| line(&mut output, text));
    output.finish("the tests", success)
}

const NEXTEST: &str = "\
   Compiling warmswap-pool v0.1.0
    Starting 5 tests across 2 binaries
        PASS [   0.004s] (1/4) warmswap-pool size_class::fits
        SLOW [> 60.000s] (─────) warmswap-pool pages
        LEAK [  61.500s] (2/4) warmswap-pool pages
        FAIL [   0.204s] (3/4) warmswap-kernel::live tree::ends
     SIGSEGV [   1.000s] (4/4) warmswap-kernel::live maps
        SKIP [         ] (─────) warmswap-pool arena::full
────────────
     Summary [   1.504s] 4 tests run: 2 passed (1 slow, 1 leaky), 2 failed, 1 skipped
        FAIL [   0.204s] (3/4) warmswap-kernel::live tree::ends
";

#[test]
fn tests_of_nextest_are_counted_named_and_timed() {
    let tally = read(NEXTEST, TestOutput::nextest_line, false);
    assert_eq!(tally.line(), "2 passed, 2 failed, 1 skipped");
    let failed = [
        "warmswap-kernel::live tree::ends",
        "warmswap-kernel::live maps",
    ];
    assert_eq!(tally.failures, failed);
    assert_eq!(tally.skips[0].name, "warmswap-pool arena::full");
    let slowest: Vec<_> = tally.slowest(2).into_iter().map(|(_, name)| name).collect();
    assert_eq!(
        slowest,
        ["warmswap-pool pages", "warmswap-kernel::live maps"]
    );
}

const DOCS: &str = "\
   Doc-tests warmswap_pool

running 3 tests
test memory/pool/src/lib.rs - (line 5) ... ok
test memory/pool/src/lib.rs - (line 9) - compile fail ... FAILED
test memory/pool/src/lib.rs - (line 20) ... ignored, needs 4 GiB

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.20s
";

#[test]
fn documentation_tests_are_counted_and_named() {
    let tally = read(DOCS, TestOutput::doc_line, false);
    assert_eq!(tally.line(), "1 passed, 1 failed, 1 skipped");
    assert_eq!(
        tally.failures,
        ["memory/pool/src/lib.rs - (line 9) - compile fail"]
    );
    assert_eq!(tally.skips[0].reason, "needs 4 GiB");
}

#[test]
fn a_run_that_fails_without_a_failed_test_counts() {
    let tally = read("error[E0425]: no value\n", TestOutput::nextest_line, false);
    assert_eq!(tally.failures, ["the tests"]);
}

#[test]
fn noted_skips_are_not_passes() {
    let mut tally = read(NEXTEST, TestOutput::nextest_line, false);
    tally.add_skip_log("skipped: zram: needs root: really\n");
    assert_eq!(tally.line(), "1 passed, 2 failed, 2 skipped");
    assert_eq!(tally.skips[1].name, "zram");
    assert_eq!(tally.skips[1].reason, "needs root: really");
}

#[test]
fn a_torn_skip_line_is_a_failure() {
    let mut tally = Tally::check("fmt", true);
    tally.add_skip_log("skip");
    assert_eq!(tally.line(), "1 passed, 1 failed, 0 skipped");
}

#[test]
fn forbidden_skips_are_failures() {
    let mut tally = Tally::check("fmt", true);
    for excused in [true, false] {
        tally.skips.push(Skip {
            name: format!("excused-{excused}"),
            reason: "why".to_owned(),
            excused,
        });
    }
    tally.forbid_skips();
    assert_eq!(tally.line(), "1 passed, 1 failed, 1 skipped");
    assert_eq!(tally.skips[0].name, "excused-true");
    assert_eq!(
        tally.failures,
        ["excused-false: skipped (why), and WARMSWAP_NO_SKIP is set"]
    );
}

#[test]
fn checks_count_as_one() {
    assert_eq!(
        Tally::check("doc", true).line(),
        "1 passed, 0 failed, 0 skipped"
    );
    let mut all = Tally::check("doc", false);
    all.add(Tally::check("fmt", true));
    assert_eq!(all.line(), "1 passed, 1 failed, 0 skipped");
    assert_eq!(all.failures, ["doc"]);
}
