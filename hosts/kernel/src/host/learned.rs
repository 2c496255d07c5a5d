//! What was learned, kept over a restart.

use std::ops::Range;

use warmswap_page::AppId;
use warmswap_sys::FileError;

use super::Host;
use crate::learn::store;

impl Host {
    /// Teaches what the folder of learned pages keeps of a program, before its processes are found.
    ///
    /// # Errors
    /// [`FileError`]: a warning, since all that is lost is what was learned.
    pub fn load_learned(&mut self, app: AppId) -> Result<(), FileError> {
        if let (Some(folder), Some(Some(watched))) = (
            &self.config.learned_folder,
            self.apps.get_mut(usize::from(app.0)),
        ) {
            let name = &watched.application.name;
            watched.taught = store::load(&self.root, folder, name)?;
        }
        Ok(())
    }

    /// Keeps what was learned of all programs since it was kept last, in the folder of learned pages.
    ///
    /// # Errors
    /// The first [`FileError`]; the others are kept all the same, and this one the next time.
    pub fn save_learned(&mut self) -> Result<(), FileError> {
        self.save_those(0..self.apps.len())
    }

    /// The same of one program.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn save_learned_of(&mut self, app: AppId) -> Result<(), FileError> {
        let at = usize::from(app.0);
        self.save_those(at..at + 1)
    }

    fn save_those(&mut self, numbers: Range<usize>) -> Result<(), FileError> {
        let Some(folder) = &self.config.learned_folder else {
            return Ok(());
        };
        let mut result = Ok(());
        for app in self.apps.get_mut(numbers).into_iter().flatten().flatten() {
            if !app.has_learned {
                continue;
            }
            let memories: Vec<_> = app
                .processes
                .iter()
                .map(|(&id, watched)| (id, watched.memory.lock().clone()))
                .collect();
            let saved = store::save(&self.root, folder, &app.application.name, &memories);
            app.has_learned = saved.is_err();
            result = result.and(saved);
        }
        result
    }
}
