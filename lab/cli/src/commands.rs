//! The subcommands.

pub mod bench;
pub mod record;
pub mod report;
pub mod schema;

use anyhow::Result;
use warmswap_sys::{Root, undo::Undo};

/// Keeps what is changed on the machine, and undoes it at a signal.
fn undo(root: &Root) -> Result<Undo> {
    let undo = Undo::open(root, &Undo::default_folder(root))?;
    undo.on_signals()?;
    Ok(undo)
}
