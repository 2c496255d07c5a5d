//! Files that are installed with the command: the recorded sample, and definitions of applications.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Where a file is: a relative path that is not in the working directory is looked for in `share/warmswap` beside the folder
/// of the program. As it is given where it is at neither place, so that messages name that.
pub fn shipped(path: &Path) -> Cow<'_, Path> {
    installed(path).map_or(Cow::Borrowed(path), Cow::Owned)
}

fn installed(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    let program = std::env::current_exe().ok()?;
    // An absolute path replaces all before it.
    let installed = program
        .parent()?
        .parent()?
        .join("share/warmswap")
        .join(path);
    installed.exists().then_some(installed)
}
