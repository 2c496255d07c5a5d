//! The part of `cargo metadata` (format version 1) that the checks read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// What `cargo metadata` says about the workspace.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The workspace's own packages.
    pub packages: Vec<Package>,
}

/// One package of the workspace.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Name as in `Cargo.toml`.
    pub name: String,
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

impl Metadata {
    /// Asks cargo about the workspace at `root`; needs no registry.
    ///
    /// # Errors
    /// When cargo cannot be run, fails, or answers in another format.
    pub fn load(root: &Path) -> Result<Self> {
        let output = crate::suite::cargo(root)
            .args(["metadata", "--format-version", "1", "--no-deps"])
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
