//! The terminal while it is ours.

use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The terminal, taken over: raw, and on its other screen. Dropping it gives it back as it was; so does a
/// panic, before it is reported. Signals that end a program end the session in order.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
    ended: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal over.
    pub fn open() -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&ended))?;
        }
        // Its panic hook restores the terminal first; a start that fails half-way is taken back here.
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Self { terminal, ended })
    }

    /// Whether a signal came that ends programs.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Draws one picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.terminal.draw(picture).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
