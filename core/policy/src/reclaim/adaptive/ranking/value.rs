//! What pages are worth to rules that know classes.

use super::{Ranking, Window};
use crate::page::{PageId, PageTable};
use crate::reclaim::adaptive::history::{CLASSES, UNTOUCHED, after};

/// Launches until an application in the foreground touches a page that its session is expected to touch.
const WAIT_IN_FOREGROUND: f32 = 0.5;

impl Ranking {
    /// Takes pages from the list whose oldest one is worth least, while it is.
    pub(super) fn least_valued(
        &mut self,
        table: &mut PageTable,
        enough: usize,
        out: &mut Vec<PageId>,
    ) {
        let mut least = (f32::INFINITY, 0, 0);
        let mut second = f32::INFINITY;
        for (app, of_app) in self.apps.iter().enumerate() {
            for list in of_app.lists.occupied() {
                let value = self.value(app, list);
                if value < least.0 {
                    second = least.0;
                    least = (value, app, list);
                } else {
                    second = second.min(value);
                }
            }
        }
        let (_, app, list) = least;
        loop {
            out.extend(self.apps[app].lists.pop_front(table, list));
            let is_empty = self.apps[app].lists.front(list).is_none();
            if out.len() >= enough || is_empty || self.value(app, list) > second {
                return;
            }
        }
    }

    /// What the oldest page of a list is worth.
    fn value(&self, app: usize, list: usize) -> f32 {
        let of_app = &self.apps[app];
        let oldest = of_app.lists.front(list).map_or(0, PageId::index);
        let age = (self.clock - self.info[oldest].last + 1) as f32;
        let (now, class) = ((list / CLASSES) as u8, (list % CLASSES) as u8);
        let is_foreground = app == self.foreground;
        let history = &of_app.history;
        let (weight, recent) = self.rule.weights();
        let next = if now == UNTOUCHED {
            history.expected(class)
        } else {
            history.expected(after(class, now))
        };
        let foreseen = match (is_foreground, now, self.window != Window::Closed) {
            (true, UNTOUCHED, true) => {
                (next.touched + weight * next.in_window) / WAIT_IN_FOREGROUND
            }
            (true, UNTOUCHED, false) => next.after_window() / WAIT_IN_FOREGROUND,
            _ => (next.touched + weight * next.in_window) / history.wait(self.launches),
        };
        let touches_a_launch = self.clock as f32 / self.launches.max(1) as f32;
        foreseen.max(recent * touches_a_launch / age)
    }
}
