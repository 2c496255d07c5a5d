//! Learned tables, kept over a restart of the host. Pages of files are not prepaged by this host: theirs are
//! neither kept nor taught.

use std::path::Path;

use warmswap_engine::Engine;
use warmswap_learned::{LoadError, SaveError, load, save};
use warmswap_trace::AppId;

/// Teaches the engine what is kept of an application. Page numbers hold the identity of the process, so that
/// tables of processes that ended fit no page, and are forgotten in a few launches.
///
/// # Errors
/// [`LoadError`]: a warning, since all that is lost is what was learned.
pub(crate) fn teach(
    engine: &mut Engine,
    folder: &Path,
    name: &str,
    app: AppId,
) -> Result<(), LoadError> {
    let Some(learned) = load(folder, name)? else {
        return Ok(());
    };
    engine.teach(app, &learned.rename(|_| None));
    Ok(())
}

/// Keeps what was learned of an application.
///
/// # Errors
/// [`SaveError`]; what was kept before is still there.
pub(crate) fn keep(
    engine: &Engine,
    folder: &Path,
    name: &str,
    app: AppId,
) -> Result<(), SaveError> {
    let learned = engine.learned(app).rename(|_| None::<String>);
    if learned.is_empty() {
        return Ok(());
    }
    save(folder, name, &learned)
}
