//! Applications: the users of the arena, and when they use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warmswap_page::{AppId, PAGE_BYTES};

use crate::address_map::AddressMap;
use crate::error::ArenaError;
use crate::lock::Mutex;
use crate::region::Region;
use crate::regions::Regions;
use crate::restore::Job;
use crate::shared::Shared;

/// A user of the arena whose launches and pauses the scheme is told of.
#[derive(Debug)]
pub struct Application<M: AddressMap = Regions> {
    pub(crate) inner: Arc<AppInner<M>>,
}

impl<M: AddressMap> Clone for Application<M> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

#[derive(Debug)]
pub struct AppInner<M: AddressMap> {
    pub shared: Arc<Shared<M>>,
    pub id: AppId,
    pub name: String,
    pub job: Mutex<Option<Arc<Job>>>,
    /// There was a launch since what is learned was last saved.
    pub is_unsaved: AtomicBool,
}

impl<M: AddressMap> Application<M> {
    /// Adds an application to an arena; what an earlier run learned about one of that name is known again.
    ///
    /// # Errors
    /// [`ArenaError::Applications`], when there are too many.
    pub fn new(shared: Arc<Shared<M>>, name: String) -> Result<Self, ArenaError> {
        let id = shared.pager().add_app()?;
        let inner = AppInner {
            shared,
            id,
            name,
            job: Mutex::new(None),
            is_unsaved: AtomicBool::new(false),
        };
        inner.recall_learned();
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The name that it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The application comes to the foreground: its launch window opens, and its hot set and its footprint,
    /// as far as the scheme predicts one, begin to come back on idle processor time.
    pub fn foreground(&self) {
        let shared = &self.inner.shared;
        let pages = {
            let mut pager = shared.pager();
            pager.drain_arrivals(&shared.core);
            let pages = pager.hot_set(self.inner.id);
            pager.launch_begin(self.inner.id);
            pages
        };
        let job = Arc::new(Job::new(pages));
        if let Some(earlier) = self.inner.swap_job(Some(Arc::clone(&job))) {
            earlier.cancel();
        }
        let jobs = Arc::clone(&shared.workers().jobs);
        jobs.push(job);
        // It begins with the footprint.
        shared.core.frames.call_pager();
    }

    /// The application was launched before the arena knew of it: its next launch is a relaunch. One that was in the
    /// background is known to have been.
    pub fn was_launched(&self) {
        self.inner.shared.pager().was_launched(self.inner.id);
    }

    /// The application has answered: the launch window closes. What is left of its hot set is brought back
    /// first, with the help of the calling thread; what is left of its footprint, no more.
    pub fn launch_done(&self) {
        let shared = &self.inner.shared;
        if let Some(job) = self.inner.swap_job(None) {
            job.finish(&shared.core);
        }
        let mut pager = shared.pager();
        shared.settle(&mut pager);
        pager.launch_end(self.inner.id);
        self.inner.is_unsaved.store(true, Ordering::Release);
    }

    /// The application goes to the background. What it holds leaves when others need room.
    pub fn background(&self) {
        let shared = &self.inner.shared;
        if let Some(job) = self.inner.swap_job(None) {
            job.cancel();
        }
        let mut pager = shared.pager();
        shared.settle(&mut pager);
        pager.background(self.inner.id);
        drop(pager);
        self.inner.keep_learned();
    }

    /// Saves what was learned if there is a folder for it, and a launch since it was last saved.
    pub fn keep_learned(&self) {
        self.inner.keep_learned();
    }

    /// In the child of a `fork`: the threads that bring pages back are the parent's, and so are its launches.
    pub fn forget_job(&self) {
        std::mem::forget(self.inner.job.lock().take());
        self.inner.is_unsaved.store(false, Ordering::Release);
    }

    /// Pages that are held to be hot.
    #[must_use]
    pub fn hot_pages(&self) -> u64 {
        let shared = &self.inner.shared;
        let mut pager = shared.pager();
        pager.drain_arrivals(&shared.core);
        pager.engine.hot_pages(self.inner.id)
    }
}

impl Application {
    /// Maps a region of at least `bytes` bytes, rounded up to whole pages; it reads as zeros.
    ///
    /// # Errors
    /// [`ArenaError::AddressSpace`], and what the kernel refuses.
    pub fn region(&self, bytes: usize) -> Result<Region, ArenaError> {
        let pages = bytes.div_ceil(PAGE_BYTES).max(1);
        let shared = &self.inner.shared;
        let first = shared
            .pager()
            .add_region(&shared.core, self.inner.id, pages)?;
        Ok(Region {
            app: Arc::clone(&self.inner),
            first,
            pages,
        })
    }
}

impl<M: AddressMap> AppInner<M> {
    /// Puts a job, or none, in place of the one that there is.
    fn swap_job(&self, job: Option<Arc<Job>>) -> Option<Arc<Job>> {
        let _inside = self.shared.core.gate.enter();
        std::mem::replace(&mut *self.job.lock(), job)
    }
}

impl<M: AddressMap> Drop for AppInner<M> {
    fn drop(&mut self) {
        if !self.shared.is_in_child() {
            self.shared.pager().remove_app(self.id);
        }
    }
}
