//! Where the library is that `warmswap run` preloads.

use std::path::{Path, PathBuf};

use warmswap_protocol::{PRELOAD_LIBRARY, PRELOAD_VARIABLE};

use crate::Machine;

/// The library cannot be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The environment names a file that is not there.
    #[error("{PRELOAD_VARIABLE} names {}, which is not there", path.display())]
    Named {
        /// What it names.
        path: PathBuf,
    },
    /// It is at none of its places.
    #[error("{PRELOAD_LIBRARY} is neither {}", list(places))]
    Nowhere {
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
}

fn list(places: &[PathBuf]) -> String {
    let places: Vec<_> = places
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    places.join(" nor ")
}

/// The library: the one that `WARMSWAP_PRELOAD` names, else beside the command, else in `../lib/warmswap/` of
/// it.
///
/// # Errors
/// [`LibraryError`], with the places.
pub fn preload_library(machine: &Machine) -> Result<PathBuf, LibraryError> {
    if let Some(path) = &machine.named_library {
        return if machine.root.path(path).is_file() {
            Ok(path.clone())
        } else {
            Err(LibraryError::Named { path: path.clone() })
        };
    }
    let folder = machine.executable.as_deref().and_then(Path::parent);
    let folder = folder.unwrap_or(Path::new("/usr/bin"));
    let above = folder.parent().unwrap_or(folder);
    let places = vec![
        folder.join(PRELOAD_LIBRARY),
        above.join("lib/warmswap").join(PRELOAD_LIBRARY),
    ];
    let found = places.iter().find(|path| machine.root.path(path).is_file());
    found.cloned().ok_or(LibraryError::Nowhere { places })
}
