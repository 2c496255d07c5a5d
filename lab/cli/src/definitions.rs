//! Definitions of applications: from the paths that are given, or installed with the command.

use std::path::{Path, PathBuf};

use anyhow::Result;
use warmswap_apps::{AppError, AppSpec, check, load_all};
use warmswap_commands::shipped;
use warmswap_output::BadInput;

/// What is recorded and measured where nothing else is asked for.
const DEFAULT: [&str; 6] = ["chromium", "cpython", "h2", "node", "redis", "sqlite"];

/// The definitions at these paths; of the default programs where there are none.
pub fn load_or_default(paths: &[PathBuf]) -> Result<Vec<AppSpec>> {
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
pub fn retain_installed(specs: &mut Vec<AppSpec>, cache: &Path) {
    specs.retain(|spec| match check(spec, cache) {
        Some(missing) => {
            warmswap_output::tell!("{}: left out: {missing}", spec.name);
            false
        }
        None => true,
    });
}

/// All applications that files, or the files of folders, define, [`shipped`] ones included.
pub fn load(paths: &[PathBuf]) -> Result<Vec<AppSpec>> {
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
