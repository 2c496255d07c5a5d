//! Files that are installed with the command: the recorded sample, and definitions of applications.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use warmswap_output::{BadInput, Output};

/// Where a file is: a relative path that is not in the working directory is looked for in `share/warmswap` beside the folder
/// of the program. As it is given where it is at neither place, so that messages name that.
pub fn shipped(path: &Path) -> Cow<'_, Path> {
    installed(path).map_or(Cow::Borrowed(path), Cow::Owned)
}

/// Where a file is that a command reads and does not write.
///
/// # Errors
/// [`BadInput`] where the result is to go to it.
pub fn input<'a>(path: &'a Path, output: &Output) -> Result<Cow<'a, Path>, BadInput> {
    let path = shipped(path);
    output.check_input(&path)?;
    Ok(path)
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
