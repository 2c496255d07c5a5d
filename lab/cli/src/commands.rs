//! The subcommands.

pub mod bench;
pub mod compare;
pub mod record;
pub mod replay;
pub mod report;
pub mod schema;
pub mod schemes;
pub mod study;
pub mod trace;

use anyhow::Result;
use warmswap_sys::{Root, undo::Undo};

/// Keeps what is changed on the machine, and undoes it at a signal.
fn undo(root: &Root) -> Result<Undo> {
    let undo = Undo::open(root, &Undo::default_folder(root))?;
    undo.on_signals()?;
    Ok(undo)
}
