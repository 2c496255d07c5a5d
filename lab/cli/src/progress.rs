//! Progress bars on standard error, for what takes longer than a moment.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;
use warmswap_study::Progress;

/// A bar that appears when the work has taken two seconds, and goes when it is dropped. Hidden where
/// standard error is no terminal.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar for work of unknown size so far.
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}%  {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what);
        Self(bar)
    }

    /// So much is done.
    pub fn set(&self, Progress { done, total }: Progress) {
        if self.0.is_hidden() && self.0.elapsed() > Duration::from_secs(2) {
            self.0.set_draw_target(ProgressDrawTarget::stderr());
        }
        if self.0.length() != Some(total) {
            self.0.set_length(total);
        }
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
