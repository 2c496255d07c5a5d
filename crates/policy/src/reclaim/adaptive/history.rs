//! What is expected of a page, from the sessions in which it was touched.
//!
//! A session of an application begins with its launch and ends with the next launch of any. Of each page the last three
//! sessions are known, two bits each: not touched, touched, touched in the launch window. For each such pattern the
//! application counts how often the next session touched the page. What a page is worth is that, by the time until the
//! next session is expected.

/// Patterns of three sessions.
pub const PATTERNS: usize = 64;

/// What a session did with a page.
pub const UNTOUCHED: u8 = 0;
pub const TOUCHED: u8 = 1;
pub const IN_WINDOW: u8 = 2;

/// A touch in a launch window is worth as many others.
const WINDOW_WEIGHT: f32 = 4.0;
/// Worth of a page that the session under way touched.
const IN_USE: f32 = 0.5;
/// Sessions until the next touch of an application in the foreground.
const WAIT_IN_FOREGROUND: f32 = 0.5;
/// Pages that the guess without experience counts for.
const PRIOR_PAGES: f32 = 4.0;
/// What is kept of the counts from session to session.
const KEPT: f32 = 0.9;

/// The pattern after one more session.
pub fn after(pattern: u8, session: u8) -> u8 {
    (pattern << 2 | session) & (PATTERNS as u8 - 1)
}

/// How often pages of a pattern were touched next.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    pages: f32,
    touched: f32,
    in_window: f32,
}

/// The counts of one application.
#[derive(Debug)]
pub struct History {
    known: [Known; PATTERNS],
    /// Pages that have the pattern now, and those of them that the session under way touched, in its window or at all.
    pages: [u32; PATTERNS],
    touched: [u32; PATTERNS],
    in_window: [u32; PATTERNS],
    /// The launch that began the last session, on a clock of launches, and launches from one to the next.
    launched_at: u32,
    gap: f32,
}

impl Default for History {
    fn default() -> Self {
        Self {
            known: [Known::default(); PATTERNS],
            pages: [0; PATTERNS],
            touched: [0; PATTERNS],
            in_window: [0; PATTERNS],
            launched_at: 0,
            gap: 0.0,
        }
    }
}

impl History {
    /// A page without a past.
    pub fn add(&mut self) {
        self.pages[0] += 1;
    }

    /// A page with this pattern, that the session under way touched so, is no more.
    pub fn remove(&mut self, pattern: u8, now: u8) {
        let pattern = usize::from(pattern);
        self.pages[pattern] -= 1;
        self.touched[pattern] -= u32::from(now != UNTOUCHED);
        self.in_window[pattern] -= u32::from(now == IN_WINDOW);
    }

    /// A page of that pattern is touched for the first time in the session, or in its window.
    pub fn touch(&mut self, pattern: u8, before: u8, now: u8) {
        let pattern = usize::from(pattern);
        self.touched[pattern] += u32::from(before == UNTOUCHED);
        self.in_window[pattern] += u32::from(now == IN_WINDOW && before != IN_WINDOW);
    }

    /// The session ends.
    pub fn end_session(&mut self) {
        let mut pages = [0; PATTERNS];
        for pattern in 0..PATTERNS {
            let (all, touched) = (self.pages[pattern], self.touched[pattern]);
            let in_window = self.in_window[pattern];
            let known = &mut self.known[pattern];
            known.pages = known.pages * KEPT + all as f32;
            known.touched = known.touched * KEPT + touched as f32;
            known.in_window = known.in_window * KEPT + in_window as f32;
            let parts = [all - touched, touched - in_window, in_window];
            for (session, part) in (0..).zip(parts) {
                pages[usize::from(after(pattern as u8, session))] += part;
            }
        }
        self.pages = pages;
        self.touched = [0; PATTERNS];
        self.in_window = [0; PATTERNS];
    }

    /// What was learned is void; the pages stay.
    pub fn forget_experience(&mut self) {
        *self = Self {
            pages: self.pages,
            touched: self.touched,
            in_window: self.in_window,
            ..Self::default()
        };
    }

    /// A launch begins.
    pub fn launch(&mut self, at: u32) {
        if self.launched_at > 0 {
            let gap = (at - self.launched_at) as f32;
            self.gap = if self.gap > 0.0 {
                (self.gap + gap) / 2.0
            } else {
                gap
            };
        }
        self.launched_at = at;
    }

    /// Launches until the next session.
    fn wait(&self, now: u32) -> f32 {
        let gap = if self.gap > 0.0 { self.gap } else { 6.0 };
        let elapsed = (now - self.launched_at) as f32;
        if elapsed <= gap {
            (gap - elapsed).max(1.0)
        } else {
            (gap / 2.0).max(1.0)
        }
    }

    /// How often a page of that pattern is expected to be touched in the next session: at all, and in its window.
    fn expected(&self, pattern: u8) -> (f32, f32) {
        let known = self.known[usize::from(pattern)];
        let guess = |wanted: fn(u8) -> bool| {
            let sessions = [pattern & 3, pattern >> 2 & 3, pattern >> 4];
            let count = sessions.iter().filter(|&&it| wanted(it)).count() as f32;
            let last = f32::from(u8::from(wanted(sessions[0])));
            (count + last + 0.15) / 4.5
        };
        let pages = known.pages + PRIOR_PAGES;
        let touched = known.touched + PRIOR_PAGES * guess(|it| it != UNTOUCHED);
        let in_window = known.in_window + PRIOR_PAGES * guess(|it| it == IN_WINDOW);
        (touched / pages, in_window / pages)
    }

    /// What a page is worth: expected use by expected wait.
    pub fn value(&self, pattern: u8, now: u8, time: u32, foreground: Option<bool>) -> f32 {
        let next = |pattern| {
            let (touched, in_window) = self.expected(pattern);
            touched + WINDOW_WEIGHT * in_window
        };
        match (foreground, now) {
            (Some(true), UNTOUCHED) => next(pattern) / WAIT_IN_FOREGROUND,
            (Some(false), UNTOUCHED) => self.expected(pattern).0 / WAIT_IN_FOREGROUND,
            (Some(_), _) => IN_USE.max(next(after(pattern, now)) / self.wait(self.launched_at)),
            (None, UNTOUCHED) => next(pattern) / self.wait(time),
            (None, _) => next(after(pattern, now)) / self.wait(time),
        }
    }
}
