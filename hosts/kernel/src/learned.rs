//! Learned tables, kept over a restart of the host; files by their paths.

use std::path::Path;

use warmswap_engine::Engine;
use warmswap_page::{AppId, FileId};
use warmswap_policy::learned::{Learned, LoadError, SaveError, load, replace};

use crate::files::FileNames;

/// Teaches the engine what is kept of an application. Page numbers hold the identity of the process, so that
/// tables of processes that ended fit no page, and are forgotten in a few launches. Whether there are hot pages among it.
///
/// # Errors
/// [`LoadError`]: a warning, since all that is lost is what was learned.
pub(crate) fn teach(
    engine: &mut Engine,
    names: &mut FileNames,
    folder: &Path,
    name: &str,
    app: AppId,
) -> Result<bool, LoadError> {
    let Some(learned) = load(folder, name)? else {
        return Ok(false);
    };
    let learned = learned.rename(|path: String| names.number(path.as_ref()));
    engine.teach(app, &learned);
    Ok(!learned.hot.is_empty())
}

/// Keeps what was learned of an application. Whether something was written: it outlasts a crash once the folder is
/// [synced](warmswap_policy::learned::sync).
///
/// # Errors
/// [`SaveError`]; what was kept before is still there.
pub(crate) fn keep(
    learned: Learned<FileId>,
    names: &FileNames,
    folder: &Path,
    name: &str,
) -> Result<bool, SaveError> {
    let learned = learned.rename(|file| Some(names.path(file)?.to_str()?.to_owned()));
    if learned.is_empty() {
        return Ok(false);
    }
    replace(folder, name, &learned)?;
    Ok(true)
}
