//! What was learned about an application survives a restart: a file for each application, by its name.

use std::path::Path;
use std::sync::atomic::Ordering;

use warmswap_learned::{LoadError, SaveError, load, save};

use crate::address_map::AddressMap;
use crate::application::{AppInner, Application};
use crate::error::say;

impl<M: AddressMap> Application<M> {
    /// Writes what the scheme learned about the application, its hot list and its footprint, to its file in
    /// `folder`. Nothing is written while nothing is known.
    ///
    /// Pages are known by their places in the arena: they mean something to a program that maps its regions in
    /// the same order, and are forgotten in a few launches by others.
    ///
    /// # Errors
    /// [`SaveError`].
    pub fn save_learned(&self, folder: &Path) -> Result<(), SaveError> {
        self.inner.save_learned(folder)
    }

    /// Takes what was saved in `folder` under the application's name in place of what is known of it: before its
    /// first launch. False if nothing was saved.
    ///
    /// # Errors
    /// [`LoadError`]: to be shown as a warning. Nothing has changed then.
    pub fn load_learned(&self, folder: &Path) -> Result<bool, LoadError> {
        self.inner.load_learned(folder)
    }
}

impl<M: AddressMap> AppInner<M> {
    fn save_learned(&self, folder: &Path) -> Result<(), SaveError> {
        let learned = {
            let mut pager = self.shared.pager();
            pager.drain_arrivals(&self.shared.core);
            pager.learned(self.id)
        };
        if learned.is_empty() {
            return Ok(());
        }
        save(folder, &self.name, &learned)
    }

    fn load_learned(&self, folder: &Path) -> Result<bool, LoadError> {
        let Some(learned) = load(folder, &self.name)? else {
            return Ok(false);
        };
        self.shared.pager().teach(self.id, learned);
        Ok(true)
    }

    /// Saves what was learned if there is a folder for it, and a launch since it was last saved.
    pub fn keep_learned(&self) {
        let Some(folder) = &self.shared.learned_folder else {
            return;
        };
        if self.is_unsaved.swap(false, Ordering::AcqRel)
            && let Err(error) = self.save_learned(folder)
        {
            say(&format!("warmswap: {error}\n"));
        }
    }

    /// Takes what an earlier run kept, if there is a folder for it and the file is whole.
    pub fn recall_learned(&self) {
        if let Some(folder) = &self.shared.learned_folder
            && let Err(error) = self.load_learned(folder)
        {
            say(&format!("warmswap: {error}\n"));
        }
    }
}
