use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile {
        path: path.into(),
        text: text.to_owned(),
    }
}

#[test]
fn unsafe_needs_a_line_in_the_list() {
    let files = [
        file("src/lib.rs", "//! unsafe only in words\nfn f() {}\n"),
        file("src/map.rs", "fn f() {\n    unsafe { g() }\n}\n"),
    ];
    let found = misplaced_unsafe("pool", &files, None);
    assert_eq!(
        found,
        ["pool: src/map.rs:2: `unsafe`, but layers.toml does not allow it there"]
    );
    let elsewhere = UnsafeAllowed::Files(vec!["src/lib.rs".into()]);
    assert_eq!(misplaced_unsafe("pool", &files, Some(&elsewhere)), found);
    assert_eq!(
        misplaced_unsafe("pool", &files, Some(&UnsafeAllowed::Everywhere(false))),
        found
    );
}

#[test]
fn listed_unsafe_passes() {
    let files = [file(
        "src/map.rs",
        "#![allow(unsafe_code)]\nunsafe impl Send for T {}\n",
    )];
    let here = UnsafeAllowed::Files(vec!["src/map.rs".into()]);
    assert!(misplaced_unsafe("pool", &files, Some(&here)).is_empty());
    assert!(misplaced_unsafe("pool", &files, Some(&UnsafeAllowed::Everywhere(true))).is_empty());
}

#[test]
fn a_lifted_lint_counts_and_a_strict_one_does_not() {
    for lifted in [
        "#![allow(unsafe_code)]",
        "#[expect(unsafe_code)]",
        "#[allow(\n    unsafe_code\n)]",
    ] {
        let found = misplaced_unsafe("pool", &[file("src/lib.rs", lifted)], None);
        assert_eq!(found.len(), 1, "{lifted}");
    }
    let strict = "#![forbid(unsafe_code)]\n#![deny(unsafe_op_in_unsafe_fn)]";
    assert!(misplaced_unsafe("pool", &[file("src/lib.rs", strict)], None).is_empty());
}

#[test]
fn tests_do_not_count_as_lines() {
    let body = "fn a() {}\nfn b() {}\n";
    assert_eq!(lines_without_tests(&file("src/a.rs", body)), 2);
    let inline = format!("{body}#[cfg(test)]\nmod tests {{\n    fn t() {{}}\n}}\n");
    assert_eq!(lines_without_tests(&file("src/a.rs", &inline)), 2);
    let apart = format!("{body}#[cfg(test)]\nmod tests;\n");
    assert_eq!(lines_without_tests(&file("src/a.rs", &apart)), 4);
    assert_eq!(lines_without_tests(&file("src/a/tests.rs", body)), 0);
    assert_eq!(lines_without_tests(&file("src/a/tests/b.rs", body)), 0);
}
