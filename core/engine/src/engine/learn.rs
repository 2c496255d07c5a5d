//! What the scheme learned about an application, taken out and given back, so that it survives a restart.

use super::{AppState, Engine};
use warmswap_page::{AppId, FileId, PageAddr};
use warmswap_policy::Learned;

impl Engine {
    /// What the scheme learned about the application: hot list and footprint. Files have the numbers that the
    /// host gave them; between two runs they are named by their paths ([`Learned::rename`]). To be asked for
    /// before [`exit`](Self::exit). Linear in the application's pages.
    pub fn learned(&self, app: AppId) -> Learned<FileId> {
        let hot = self
            .hot_set(app)
            .filter_map(|page| match self.table.addr(page) {
                PageAddr::Anon { number } => Some(number),
                PageAddr::File { .. } => None,
            });
        let mut learned = Learned {
            hot: hot.collect(),
            ..Learned::default()
        };
        self.scheme.prefetch.learned(app, &mut learned);
        learned
    }

    /// The application ended for good, and its number may be another's from now on. As [`exit`](Self::exit), and what
    /// the scheme learned about it is forgotten, too. Linear in the application's pages.
    pub fn retire(&mut self, app: AppId) {
        self.exit(app);
        self.scheme.reclaim.retire(app);
        self.scheme.prefetch.retire(app);
        if let Some(evidence) = &mut self.evidence {
            evidence.retire(app);
        }
        *self.app(app) = AppState::default();
    }

    /// Gives back what was learned in an earlier run, before the application's first launch. What does not fit
    /// is forgotten in a few launches; no page and no frame comes into being.
    pub fn teach(&mut self, app: AppId, learned: &Learned<FileId>) {
        self.scheme
            .reclaim
            .teach(&mut self.table, app, &learned.hot);
        if let Some(evidence) = &mut self.evidence {
            for &number in &learned.hot {
                let page = self.table.find(app, PageAddr::Anon { number });
                page.into_iter()
                    .for_each(|page| evidence.note_taught(app, page));
            }
        }
        self.scheme.prefetch.teach(app, learned);
    }
}
