//! `cargo xtask layers`: the rules of `layers.toml`, checked against what crates declare and
//! contain.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::metadata::{Kind, Metadata, Package};
use crate::source::{self, UnsafeAllowed};

/// Files with more lines than this, tests not counted, are listed.
const LONG_FILE_LINES: usize = 600;

/// `layers.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Rows from top to bottom.
    layer: Vec<Layer>,
    beside: Beside,
    dev_dependencies: DevDependencies,
    /// By package name.
    unsafe_allowed: BTreeMap<String, UnsafeAllowed>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    name: String,
    crates: Vec<String>,
}

/// Packages that do not belong to the stack.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    test_helpers: Vec<String>,
    tools: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DevDependencies {
    allowed: bool,
}

/// Where a package stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place<'a> {
    /// Row of the stack; 0 is the top.
    Row(usize, &'a str),
    TestHelper,
    Tool,
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Row(_, name) => write!(f, "layer \"{name}\""),
            Self::TestHelper => f.write_str("test helper"),
            Self::Tool => f.write_str("tool"),
        }
    }
}

impl Rules {
    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("layers.toml")
    }

    fn place_of(&self, package: &str) -> Option<Place<'_>> {
        let holds = |names: &[String]| names.iter().any(|name| name == package);
        if holds(&self.beside.test_helpers) {
            return Some(Place::TestHelper);
        }
        if holds(&self.beside.tools) {
            return Some(Place::Tool);
        }
        let row = self.layer.iter().position(|layer| holds(&layer.crates))?;
        Some(Place::Row(row, &self.layer[row].name))
    }

    fn all_names(&self) -> impl Iterator<Item = &String> {
        let stack = self.layer.iter().flat_map(|layer| &layer.crates);
        stack
            .chain(&self.beside.test_helpers)
            .chain(&self.beside.tools)
    }
}

/// Runs all checks and prints what they found; `Ok(false)` when something must change.
///
/// # Errors
/// When `layers.toml`, `cargo metadata` or a source file cannot be read.
pub fn check(root: &Path) -> Result<bool> {
    let path = root.join("layers.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rules = Rules::parse(&text)?;
    let metadata = Metadata::load(root)?;

    let mut failures = names_of_both(&rules, &metadata.packages);
    failures.extend(dependencies(&rules, &metadata.packages));
    let mut long_files = Vec::new();
    for package in &metadata.packages {
        let manifest = fs::read_to_string(&package.manifest_path)
            .with_context(|| format!("cannot read {}", package.manifest_path.display()))?;
        failures.extend(lints(&package.name, &manifest));
        let directory = package.manifest_path.parent().unwrap_or(root);
        let files = source::read_package(directory)?;
        let allowed = rules.unsafe_allowed.get(&package.name);
        failures.extend(source::misplaced_unsafe(&package.name, &files, allowed));
        for file in files.iter().filter(|file| file.path.starts_with("src")) {
            let lines = source::lines_without_tests(file);
            if lines > LONG_FILE_LINES {
                let path = file.path.display();
                long_files.push(format!(
                    "{}: {path}: {lines} lines without tests",
                    package.name
                ));
            }
        }
    }

    for line in &long_files {
        println!("warning: {line} (at most {LONG_FILE_LINES}; one subject a file)");
    }
    for line in &failures {
        println!("error: {line}");
    }
    if failures.is_empty() {
        println!(
            "layers: {} crates in {} layers, all dependencies point down",
            metadata.packages.len(),
            rules.layer.len()
        );
    }
    Ok(failures.is_empty())
}

/// Packages without a place, places without a package, and names that stand twice.
fn names_of_both(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        match rules
            .all_names()
            .filter(|name| **name == package.name)
            .count()
        {
            0 => found.push(format!("{} is missing in layers.toml", package.name)),
            1 => {}
            times => found.push(format!(
                "{} stands {times} times in layers.toml",
                package.name
            )),
        }
    }
    for name in rules.all_names().chain(rules.unsafe_allowed.keys()) {
        if !packages.iter().any(|package| package.name == *name) {
            found.push(format!(
                "layers.toml names {name}, which the workspace does not have"
            ));
        }
    }
    found
}

/// One line for each dependency inside the workspace that does not point where it may.
fn dependencies(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        let Some(user) = rules.place_of(&package.name) else {
            continue;
        };
        for dependency in &package.dependencies {
            let Some(used) = rules.place_of(&dependency.name) else {
                continue;
            };
            if let Err(why) = may_use(user, used, dependency.kind, rules.dev_dependencies.allowed) {
                let kind = match dependency.kind {
                    None => "",
                    Some(Kind::Dev) => " under [dev-dependencies]",
                    Some(Kind::Build) => " under [build-dependencies]",
                };
                found.push(format!(
                    "{} ({user}) must not use {} ({used}){kind}: {why}",
                    package.name, dependency.name
                ));
            }
        }
    }
    found
}

/// Whether a package at `user` may depend on one at `used`; the error says why not.
fn may_use(
    user: Place<'_>,
    used: Place<'_>,
    kind: Option<Kind>,
    dev_allowed: bool,
) -> Result<(), &'static str> {
    let is_dev = kind == Some(Kind::Dev);
    match (user, used) {
        (_, Place::Tool) => Err("nothing uses a tool"),
        (Place::Tool, _) => Err("tools use no crate of the workspace"),
        (Place::TestHelper, _) => Err("test helpers use no crate of the workspace"),
        _ if is_dev && !dev_allowed => Err("layers.toml allows no dev-dependencies between crates"),
        (Place::Row(..), Place::TestHelper) if is_dev => Ok(()),
        (Place::Row(..), Place::TestHelper) => Err("test helpers serve tests only"),
        (Place::Row(upper, _), Place::Row(lower, _)) if upper < lower => Ok(()),
        (Place::Row(..), Place::Row(..)) => Err("dependencies point down only"),
    }
}

/// A line when the manifest does not say `[lints] workspace = true`, or says more than that.
fn lints(package: &str, manifest: &str) -> Option<String> {
    let parsed: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(error) => return Some(format!("{package}: Cargo.toml: {error}")),
    };
    let inherits = parsed
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool);
    (inherits != Some(true))
        .then(|| format!("{package}: Cargo.toml lacks `[lints] workspace = true`"))
}

#[cfg(test)]
mod tests;
