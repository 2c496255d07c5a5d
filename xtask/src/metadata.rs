//! The part of `cargo metadata` (format version 1) that the checks read.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// What `cargo metadata` says about the workspace.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// All packages; with [`Scope::Members`] only the workspace's own.
    pub packages: Vec<Package>,
}

/// One package, of the workspace or of a registry.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Name as in `Cargo.toml`.
    pub name: String,
    /// Version as in `Cargo.toml`.
    pub version: String,
    /// SPDX licence expression, if the package states one.
    pub license: Option<String>,
    /// Where the package comes from; `None` for path packages, which are the workspace's own.
    pub source: Option<String>,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Direct dependencies as declared, optional ones included.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
}

/// One declared dependency.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// Package name of the dependency.
    pub name: String,
    /// `None` is a normal dependency.
    pub kind: Option<Kind>,
}

/// Kinds other than normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `[dev-dependencies]`
    Dev,
    /// `[build-dependencies]`
    Build,
}

/// Which packages to ask for.
#[derive(Debug, Clone, Copy)]
pub enum Scope {
    /// The workspace's own packages; needs no registry.
    Members,
    /// The members and everything that they use on any platform.
    All,
}

impl Metadata {
    /// Asks cargo about the workspace at `root`.
    ///
    /// # Errors
    /// When cargo cannot be run, fails, or answers in another format.
    pub fn load(root: &Path, scope: Scope) -> Result<Self> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .current_dir(root)
            .args(["metadata", "--format-version", "1"]);
        match scope {
            Scope::Members => command.arg("--no-deps"),
            Scope::All => command.arg("--all-features"),
        };
        let output = command
            .output()
            .context("cargo metadata could not be run")?;
        ensure!(
            output.status.success(),
            "cargo metadata failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).context("cargo metadata answered in another format")
    }
}
