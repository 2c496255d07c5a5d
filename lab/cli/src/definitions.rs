//! Definitions of applications: from the paths that are given, or installed with the command.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use warmswap_apps::{AppError, AppSpec, Directories, Set, check, load_all};
use warmswap_commands::shipped;
use warmswap_output::BadInput;

/// What is recorded and measured where nothing else is asked for.
const DEFAULT: [&str; 6] = ["chromium", "cpython", "h2", "node", "redis", "sqlite"];

/// Which applications.
#[derive(Debug, Args)]
pub struct Applications {
    /// Application definitions (TOML), or folders of them; separated by commas [default: chromium, cpython, h2, node,
    /// redis and sqlite of the folder apps, as far as they are installed; all of the folder with --set]
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    apps: Vec<PathBuf>,
    /// Only installed programs of this set
    #[arg(long, value_enum)]
    set: Option<Set>,
    /// Leave out applications that are not installed, in place of stopping
    #[arg(long)]
    installed_only: bool,
}

impl Applications {
    /// Their definitions, at least one.
    pub fn load(&self) -> Result<Vec<AppSpec>> {
        let mut specs = match (&self.apps[..], self.set) {
            ([], Some(_)) => load(&["apps".into()])?,
            (paths, _) => load_or_default(paths)?,
        };
        if let Some(set) = self.set {
            specs.retain(|spec| spec.set == set);
        }
        if self.installed_only || self.apps.is_empty() || self.set.is_some() {
            retain_installed(&mut specs, &Directories::default().cache);
        }
        if specs.is_empty() {
            let why = "none of the applications is installed: apps/install brings them";
            return Err(BadInput(why.to_owned()).into());
        }
        Ok(specs)
    }
}

/// The definitions at these paths; of the default programs where there are none.
fn load_or_default(paths: &[PathBuf]) -> Result<Vec<AppSpec>> {
    let default = || DEFAULT.map(|name| Path::new("apps").join(format!("{name}.toml")));
    match paths {
        [] => load(&default()),
        _ => load(paths),
    }
}

/// Why there are no definitions in this file or folder.
fn refused(path: &Path, error: &AppError) -> String {
    if path.exists() {
        return format!("no definition of an application: {error}");
    }
    let place = path.display();
    format!(
        "there is no {place} here or in share/warmswap: --apps names definitions, as those in apps/ of a checkout"
    )
}

/// Leaves out the applications that are not installed, and says which. Their files are looked for in `cache`, too.
fn retain_installed(specs: &mut Vec<AppSpec>, cache: &Path) {
    specs.retain(|spec| match check(spec, cache) {
        Some(missing) => {
            warmswap_output::tell!("{}: left out: {missing}", spec.name);
            false
        }
        None => true,
    });
}

/// All applications that files, or the files of folders, define, [`shipped`] ones included.
fn load(paths: &[PathBuf]) -> Result<Vec<AppSpec>> {
    let mut specs = Vec::new();
    for path in paths {
        let path = shipped(path);
        let loaded = if path.is_dir() {
            load_all(&path)
        } else {
            AppSpec::load(&path).map(|spec| vec![spec])
        };
        specs.extend(loaded.map_err(|error| BadInput(refused(&path, &error)))?);
    }
    Ok(specs)
}
