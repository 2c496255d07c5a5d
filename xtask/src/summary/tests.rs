use super::*;

fn read(text: &str, success: bool) -> Tally {
    let mut output = TestOutput::default();
    for line in text.lines() {
        output.line(line);
    }
    output.finish(success)
}

const TWO_BINARIES: &str = "\
   Compiling warmswap-pool v0.1.0
     Running unittests src/lib.rs (target/debug/deps/warmswap_pool-0123456789abcdef)

running 3 tests
test size_class::fits ... ok
test arena::ok - should panic ... ok
test arena::full ... ignored, needs 4 GiB

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests warmswap_pool

running 1 test
test crates/pool/src/lib.rs - (line 5) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
";

#[test]
fn results_of_all_binaries_add_up() {
    let tally = read(TWO_BINARIES, true);
    assert_eq!((tally.passed, tally.failed), (3, 0));
    assert_eq!(
        tally.skips,
        [Skip {
            name: "warmswap_pool: arena::full".to_owned(),
            reason: "needs 4 GiB".to_owned(),
            excused: false,
        }]
    );
    assert_eq!(tally.line(), "3 passed, 0 failed, 1 skipped");
}

#[test]
fn failures_are_counted_and_named() {
    let text = "\
     Running tests/live.rs (target/debug/deps/live-0123456789abcdef)
test pages ... FAILED
test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";
    let tally = read(text, false);
    assert_eq!((tally.passed, tally.failed), (4, 1));
    assert_eq!(tally.failures, ["live: pages"]);
}

#[test]
fn a_crashed_binary_counts() {
    let crashed = "     Running unittests src/lib.rs (target/debug/deps/warmswap_sys-0123456789abcdef)\nrunning 2 tests\n";
    let tally = read(&format!("{crashed}{TWO_BINARIES}"), false);
    assert_eq!((tally.passed, tally.failed), (3, 1));
    assert_eq!(tally.failures, ["warmswap_sys: ended without a result"]);
    assert_eq!(read(&format!("{TWO_BINARIES}{crashed}"), false).failed, 1);
}

#[test]
fn a_build_failure_counts() {
    let tally = read("error[E0425]: cannot find value\n", false);
    assert_eq!((tally.passed, tally.failed), (0, 1));
}

#[test]
fn several_results_of_one_header_add_up() {
    let text = "   Doc-tests a\ntest result: ok. 1 passed; 0 failed\ntest result: ok. 2 passed; 0 failed\n";
    assert_eq!(
        read(text, true),
        Tally {
            passed: 3,
            ..Tally::default()
        }
    );
}

#[test]
fn noted_skips_are_not_passes() {
    let mut tally = read(TWO_BINARIES, true);
    tally.add_skip_log("skipped: zram: needs root: really\nskipped: uffd: needs Linux 5.11\n");
    assert_eq!(tally.line(), "1 passed, 0 failed, 3 skipped");
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
