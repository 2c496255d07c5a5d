//! `cargo xtask licences`: every dependency may be used under a permissive licence.

use std::path::Path;

use anyhow::Result;

use crate::metadata::{Metadata, Package, Scope};

/// The licence of the workspace's own crates.
const OURS: &str = "MIT OR Apache-2.0";

/// SPDX identifiers that a dependency may choose from.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Exceptions that only add permissions.
const ALLOWED_EXCEPTIONS: &[&str] = &["LLVM-exception"];

/// Checks all packages and prints what may not be used; `Ok(false)` when there is any.
///
/// # Errors
/// When `cargo metadata` cannot be read.
pub fn check(root: &Path) -> Result<bool> {
    let metadata = Metadata::load(root, Scope::All)?;
    let failures: Vec<String> = metadata.packages.iter().filter_map(refusal).collect();
    for line in &failures {
        println!("error: {line}");
    }
    if failures.is_empty() {
        println!(
            "licences: {} packages, all permissive",
            metadata.packages.len()
        );
    }
    Ok(failures.is_empty())
}

/// Why `package` may not be used, if so.
fn refusal(package: &Package) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(expression) = package.license.as_deref() else {
        return Some(format!("{name} {version} states no licence"));
    };
    if package.source.is_none() {
        return (expression != OURS)
            .then(|| format!("{name} is ours and must be {OURS}, not {expression}"));
    }
    match is_allowed(expression) {
        Some(true) => None,
        Some(false) => Some(format!("{name} {version}: {expression} is not on the list")),
        None => Some(format!(
            "{name} {version}: {expression} is not a licence expression"
        )),
    }
}

/// Whether an SPDX expression can be met with allowed licences alone; `None` when it cannot be
/// read.
///
/// `/` between names, as old packages write, means `OR`.
fn is_allowed(expression: &str) -> Option<bool> {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = any_of(&mut words)?;
    words.next().is_none().then_some(verdict)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>) -> Option<bool> {
    let mut verdict = all_of(words)?;
    while words.next_if_eq(&"OR").is_some() {
        verdict |= all_of(words)?;
    }
    Some(verdict)
}

fn all_of(words: &mut Words<'_>) -> Option<bool> {
    let mut verdict = single(words)?;
    while words.next_if_eq(&"AND").is_some() {
        verdict &= single(words)?;
    }
    Some(verdict)
}

fn single(words: &mut Words<'_>) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let verdict = any_of(words)?;
        return (words.next()? == ")").then_some(verdict);
    }
    if matches!(word, ")" | "OR" | "AND" | "WITH") {
        return None;
    }
    let mut verdict = ALLOWED.contains(&word);
    if words.next_if_eq(&"WITH").is_some() {
        verdict &= ALLOWED_EXCEPTIONS.contains(&words.next()?);
    }
    Some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: "a".to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
            manifest_path: "/a/Cargo.toml".into(),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn permissive_expressions_pass() {
        for expression in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT OR GPL-2.0-only",
            "BSD-3-Clause",
        ] {
            assert_eq!(is_allowed(expression), Some(true), "{expression}");
        }
    }

    #[test]
    fn others_do_not() {
        for expression in [
            "GPL-2.0-only",
            "MIT AND GPL-3.0-or-later",
            "MPL-2.0",
            "(MIT OR Apache-2.0) AND LGPL-2.1",
            "MIT WITH Strange-exception",
            "AGPL-3.0 OR (MIT AND SSPL-1.0)",
        ] {
            assert_eq!(is_allowed(expression), Some(false), "{expression}");
        }
    }

    #[test]
    fn broken_expressions_are_told_apart() {
        for expression in [
            "",
            "MIT OR",
            "(MIT",
            "MIT)",
            "AND MIT",
            "MIT Apache-2.0",
            "MIT WITH",
        ] {
            assert_eq!(is_allowed(expression), None, "{expression:?}");
        }
    }

    #[test]
    fn packages_without_a_licence_are_refused() {
        assert!(refusal(&package(None, Some("registry"))).is_some());
        assert!(refusal(&package(Some("GPL-3.0"), Some("registry"))).is_some());
        assert!(refusal(&package(Some("MIT"), Some("registry"))).is_none());
    }

    #[test]
    fn our_own_crates_carry_both_licences() {
        assert!(refusal(&package(Some(OURS), None)).is_none());
        assert!(refusal(&package(Some("MIT"), None)).is_some());
        assert!(refusal(&package(None, None)).is_some());
    }
}
