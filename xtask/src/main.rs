//! Checks on the house: `cargo xtask layers`, `cargo xtask book` and `cargo xtask test`.
//!
//! `make test` and CI run the same `cargo xtask test`; there is no second definition of "the tests".

mod book;
mod fuzz;
mod layers;
mod lexer;
mod metadata;
mod python;
mod source;
mod stream;
mod suite;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

const HELP: &str = "\
Checks on the house.

Usage: cargo xtask COMMAND

Commands:
  layers             dependencies point down only, unsafe stays where layers.toml allows it,
                     every crate inherits the workspace lints; long files are listed
  book FOLDER        the sources of the book with their links, beside the reference in FOLDER
                     (scripts/book builds it)
  test [STEP...]     all checks and tests, with a summary line at the end
                     steps: fmt spelling clippy layers licences doc book tests python fuzz
                     (default: all)

Environment of `test`:
  WARMSWAP_NO_SKIP=1        a skipped test is a failure (the fuzz run without a nightly is not)
  WARMSWAP_PYTHONS=LIST     interpreters of the step python (default python3); all is every one from
                            3.9 on in the PATH, and those that pyenv has
  WARMSWAP_FUZZ_SECONDS=N   seconds for each fuzz target (default 20)
  CI=true                   install mdbook when it is missing
";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command; `Ok(false)` says that the checks ran and something was found.
fn run(args: Vec<String>) -> Result<bool> {
    let root = workspace_root()?;
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["layers"] => layers::check(&root),
        ["book", folder] => book::sources(&root, &root.join(folder)),
        ["test", steps @ ..] => suite::run(&root, steps),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(true)
        }
        other => anyhow::bail!("unknown command: {}\n\n{HELP}", other.join(" ")),
    }
}

/// The directory of the workspace: the parent of this package.
///
/// `cargo run` says at run time where the package is; what was true at compile time is stale when
/// several checkouts share a target directory.
fn workspace_root() -> Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = package
        .parent()
        .context("the xtask package has no parent directory")?;
    Ok(root.to_path_buf())
}
