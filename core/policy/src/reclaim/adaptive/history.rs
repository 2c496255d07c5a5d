//! What is expected of a page, from the sessions in which it was touched.
//!
//! A session of an application begins with its launch and ends with the next launch of any. What is known of a page is its
//! class: what each of the last three sessions did with it, or for how many sessions it was not touched. For each class
//! the application counts how often the next session touched such a page, and how often its launch window did. What a page
//! is worth is that, by the launches until the application's next session is expected.

/// What a session did with a page.
pub const UNTOUCHED: u8 = 0;
pub const TOUCHED: u8 = 1;
pub const IN_WINDOW: u8 = 2;
/// How many things a session can do with a page.
pub const SESSION_USES: usize = 3;

/// Classes below are three sessions, two bits each, the latest lowest. 0 is a page without a past.
const OLD: u8 = 64;
/// Sessions that a page was not touched in, in classes from [`OLD`]: from three on, up to this.
const OLDEST: u8 = 12;
/// Of each age there are two classes: touched last outside of a window, and in one.
pub const CLASSES: usize = OLD as usize + 2 * (OLDEST as usize - 2);

/// Pages that the guess without experience counts for, and those of other applications at most.
const PRIOR_PAGES: f32 = 4.0;
const OTHERS_PAGES: f32 = 16.0;
/// What is kept of the counts from session to session.
const KEPT: f32 = 0.9;
/// Gaps between launches that are remembered.
const GAPS: usize = 8;

/// The class after one more session.
pub fn after(class: u8, session: u8) -> u8 {
    let recent = class << 2 & (OLD - 1);
    match session {
        UNTOUCHED if class == 0 => 0,
        UNTOUCHED if class >= OLD => (class + 2).min(CLASSES as u8 - 2 + class % 2),
        UNTOUCHED if recent == 0 => OLD + u8::from(class >> 4 == IN_WINDOW),
        UNTOUCHED => recent,
        _ if class >= OLD => session,
        _ => recent | session,
    }
}

/// Whether the last session touched a page of that class in its window.
pub fn was_in_window(class: u8) -> bool {
    class < OLD && class & 3 == IN_WINDOW
}

/// Whether none of the last three sessions touched a page of that class.
pub fn is_long_ago(class: u8) -> bool {
    class == 0 || class >= OLD
}

/// How often pages of a class were touched next.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    pages: f32,
    touched: f32,
    in_window: f32,
}

/// How likely the next session touches a page: at all, and in its window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    pub touched: f32,
    pub in_window: f32,
}

impl Expected {
    /// How likely the rest of a session touches it, when its window is over and did not.
    pub fn after_window(self) -> f32 {
        (self.touched - self.in_window).max(0.0) / (1.0 - self.in_window).max(0.05)
    }
}

/// The counts of one application, or of all.
#[derive(Debug)]
pub struct Experience([Known; CLASSES]);

impl Default for Experience {
    fn default() -> Self {
        Self([Known::default(); CLASSES])
    }
}

impl Experience {
    /// Without experience: like the last three sessions, and the less the longer nothing touched it.
    fn guess(class: u8) -> Expected {
        if class >= OLD {
            let age = 3 + (class - OLD) / 2;
            let touched = 0.1 / f32::from(age);
            let in_window = if class % 2 == 1 { touched / 2.0 } else { 0.0 };
            return Expected { touched, in_window };
        }
        let sessions = [class & 3, class >> 2 & 3, class >> 4];
        let part = |wanted: fn(u8) -> bool| {
            let count = sessions.iter().filter(|&&it| wanted(it)).count() as f32;
            let last = f32::from(u8::from(wanted(sessions[0])));
            (count + last + 0.15) / 4.5
        };
        Expected {
            touched: part(|it| it != UNTOUCHED),
            in_window: part(|it| it == IN_WINDOW),
        }
    }

    fn expected(&self, others: &Self, class: u8) -> Expected {
        let (own, others) = (self.0[usize::from(class)], others.0[usize::from(class)]);
        let guess = Self::guess(class);
        let share = (OTHERS_PAGES / others.pages.max(OTHERS_PAGES)).min(1.0);
        let pages = own.pages + share * others.pages + PRIOR_PAGES;
        let part = |own, others, guess| (own + share * others + PRIOR_PAGES * guess) / pages;
        Expected {
            touched: part(own.touched, others.touched, guess.touched),
            in_window: part(own.in_window, others.in_window, guess.in_window),
        }
    }
}

/// What is known of one application.
#[derive(Debug)]
pub struct History {
    experience: Experience,
    expected: [Expected; CLASSES],
    /// Pages that have the class now, and those of them that the session under way touched, in its window or at all.
    pages: [u32; CLASSES],
    touched: [u32; CLASSES],
    in_window: [u32; CLASSES],
    /// The launch that began the last session, on a clock of launches, and launches from one to the next, the latest last.
    launched_at: u32,
    gaps: Vec<u32>,
}

impl Default for History {
    fn default() -> Self {
        let mut new = Self {
            experience: Experience::default(),
            expected: [Expected::default(); CLASSES],
            pages: [0; CLASSES],
            touched: [0; CLASSES],
            in_window: [0; CLASSES],
            launched_at: 0,
            gaps: Vec::new(),
        };
        new.expect(&Experience::default());
        new
    }
}

impl History {
    /// A page of that class.
    pub fn add(&mut self, class: u8) {
        self.pages[usize::from(class)] += 1;
    }

    /// A page of this class, that the session under way touched so, is no more.
    pub fn remove(&mut self, class: u8, now: u8) {
        let class = usize::from(class);
        self.pages[class] -= 1;
        self.touched[class] -= u32::from(now != UNTOUCHED);
        self.in_window[class] -= u32::from(now == IN_WINDOW);
    }

    /// A page of that class is touched for the first time in the session, or in its window.
    pub fn touch(&mut self, class: u8, before: u8, now: u8) {
        let class = usize::from(class);
        self.touched[class] += u32::from(before == UNTOUCHED);
        self.in_window[class] += u32::from(now == IN_WINDOW && before != IN_WINDOW);
    }

    /// Pages that the last launch window touched, in the session under way or in the one before.
    pub fn hot_pages(&self, is_under_way: bool) -> u64 {
        let in_window: u32 = if is_under_way {
            self.in_window.iter().sum()
        } else {
            let classes = (0..CLASSES).filter(|&class| was_in_window(class as u8));
            classes.map(|class| self.pages[class]).sum()
        };
        u64::from(in_window)
    }

    /// The session ends; `all` counts those of all applications.
    pub fn end_session(&mut self, all: &mut Experience) {
        let mut pages = [0; CLASSES];
        for class in 0..CLASSES {
            let (count, touched) = (self.pages[class], self.touched[class]);
            let in_window = self.in_window[class];
            for known in [&mut self.experience.0[class], &mut all.0[class]] {
                known.pages = known.pages * KEPT + count as f32;
                known.touched = known.touched * KEPT + touched as f32;
                known.in_window = known.in_window * KEPT + in_window as f32;
            }
            let parts = [count - touched, touched - in_window, in_window];
            for (session, part) in (0..).zip(parts) {
                pages[usize::from(after(class as u8, session))] += part;
            }
        }
        self.pages = pages;
        self.touched = [0; CLASSES];
        self.in_window = [0; CLASSES];
        self.expect(all);
    }

    fn expect(&mut self, all: &Experience) {
        for class in 0..CLASSES {
            self.expected[class] = self.experience.expected(all, class as u8);
        }
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
            if self.gaps.len() == GAPS {
                self.gaps.remove(0);
            }
            self.gaps.push(at - self.launched_at);
        }
        self.launched_at = at;
    }

    /// Launches until the next session: from the gaps so far that were longer than the one under way, and as if it were half
    /// over.
    pub fn wait(&self, now: u32) -> f32 {
        let elapsed = now - self.launched_at;
        let longer = self.gaps.iter().filter(|&&gap| gap > elapsed);
        let (count, sum) = longer.fold((0.0, 0.0), |(count, sum), &gap| {
            (count + 1.0, sum + (gap - elapsed) as f32)
        });
        (sum + elapsed.max(1) as f32) / (count + 1.0)
    }

    /// What the next session does with a page of that class.
    pub fn expected(&self, class: u8) -> Expected {
        self.expected[usize::from(class)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_three_sessions_and_then_an_age() {
        let mut class = after(after(0, TOUCHED), IN_WINDOW);
        assert!(was_in_window(class) && !is_long_ago(class));
        class = after(class, UNTOUCHED);
        assert!(!was_in_window(class) && !is_long_ago(class));
        let mut ages = Vec::new();
        for _ in 0..20 {
            class = after(class, UNTOUCHED);
            ages.push(class);
        }
        assert!(!is_long_ago(ages[0]) && ages[1..].iter().all(|&class| is_long_ago(class)));
        let distinct: std::collections::BTreeSet<_> = ages.iter().collect();
        assert_eq!(distinct.len(), 11, "ages from 3 to 12 sessions: {ages:?}");
        assert!(ages.iter().all(|&class| usize::from(class) < CLASSES));
        let other = (0..30).fold(after(0, TOUCHED), |class, _| after(class, UNTOUCHED));
        assert_ne!(class, other, "one was touched in a window last");
        assert_eq!(after(class, TOUCHED), after(0, TOUCHED));
        assert_eq!(after(0, UNTOUCHED), 0);
    }

    #[test]
    fn what_pages_of_a_class_did_is_expected_of_others() {
        let (mut history, mut all) = (History::default(), Experience::default());
        for _ in 0..100 {
            history.add(0);
        }
        let class = after(0, TOUCHED);
        let before = history.expected(class);
        for page in 0..100 {
            history.touch(0, UNTOUCHED, if page < 50 { IN_WINDOW } else { TOUCHED });
        }
        history.end_session(&mut all);
        // Of those that were touched outside of the window, nearly none is touched again; of the others all are.
        let hot = after(0, IN_WINDOW);
        for _ in 0..50 {
            history.touch(hot, UNTOUCHED, IN_WINDOW);
        }
        history.end_session(&mut all);
        assert!(history.expected(hot).in_window > 0.9);
        assert!(history.expected(class).touched < before.touched / 2.0);
        let mut other = History::default();
        other.end_session(&mut all);
        assert!(
            other.expected(hot).in_window > 0.7,
            "of another application"
        );
        assert_eq!(history.hot_pages(false), 50);
    }

    #[test]
    fn the_wait_is_learned_from_the_gaps_between_launches() {
        let mut history = History::default();
        for at in [1, 7, 13, 19, 25] {
            history.launch(at);
        }
        assert!(history.wait(26) > 3.0 && history.wait(26) < 5.0);
        assert!(history.wait(30) < 2.0);
        assert!(history.wait(90) > 20.0, "it is overdue, and may not come");
    }
}
