//! Frames: how many there are, how many there may be, and where the free ones are.
//!
//! A frame is in a page's place, in a staging slot with a page's content, or free in a staging slot. All of
//! them together are `held`. Only the pager makes `limit` smaller, and only when the pool grew.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

use rustix::thread::futex;
use warmswap_uffd::{PagedError, PagedMemory, SlotBag, Slots};

/// Counts and bags of frames, for any number of threads.
#[derive(Debug)]
pub struct Frames {
    /// Staging slots with a free frame.
    free: SlotBag,
    /// Staging slots without a frame.
    empty: SlotBag,
    /// Frames in the whole arena.
    held: AtomicUsize,
    /// New frames are taken only below this.
    limit: AtomicUsize,
    /// Below this many available frames the pager is called.
    low: AtomicUsize,
    /// Threads that wait for a frame.
    waiting: AtomicU32,
    /// Changes whenever frames come free.
    freed: AtomicU32,
    /// 1 while the pager sleeps.
    pager_sleeps: AtomicU32,
    /// Times that a thread had to wait.
    pub waits: AtomicU64,
    /// Slots that are not used any more.
    pub lost: AtomicU64,
    /// Where the frames of pages that come back are from.
    source: FrameSource,
}

/// Where the frames of pages that come back are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSource {
    /// Free frames in staging slots, which held other pages before. For regions whose user pins what a system call
    /// keeps a reference to.
    Recycled,
    /// The kernel. A frame that was freed is never written to again, but goes back to the kernel.
    ///
    /// A program may have given the kernel a reference to the frame (`vmsplice`, `MSG_ZEROCOPY`), which neither
    /// UFFDIO_MOVE nor anything else that a process can ask reports: another page's content in it would leave through
    /// the pipe or the socket. It is faster, too, where faults are resolved on other processors than the program runs
    /// on: moving a frame interrupts all of these to flush their address caches, mapping a new one interrupts none.
    Fresh,
}

/// Leave to take so many new frames from the kernel, which count as held already. Dropping it gives the leave back.
#[derive(Debug)]
#[must_use = "dropping it gives the frames back"]
pub struct NewFrames<'a> {
    frames: &'a Frames,
    count: usize,
}

impl NewFrames<'_> {
    /// How many, at least one.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps the first `count` of them, and gives the others back.
    pub fn truncate(&mut self, count: usize) {
        let kept = self.count.min(count);
        if kept < self.count {
            self.frames.released(self.count - kept);
            self.count = kept;
        }
    }

    /// The frames are in the places of pages, or free in slots.
    pub fn taken(self) {
        std::mem::forget(self);
    }
}

impl Drop for NewFrames<'_> {
    fn drop(&mut self) {
        self.frames.released(self.count);
    }
}

/// Where the frames of pages come from.
#[derive(Debug)]
#[must_use = "slots that are not used are to be given back"]
pub enum Frame<'a> {
    /// Free frames in neighbouring slots: as many as were asked for in a row, else one.
    Free(Slots),
    /// New ones of the kernel's.
    New(NewFrames<'a>),
}

impl Frame<'_> {
    /// How many frames these are, at least one.
    pub fn count(&self) -> usize {
        match self {
            Self::Free(slots) => slots.len(),
            Self::New(frames) => frames.count(),
        }
    }
}

impl Frames {
    /// No frames at all; `slots` are the empty slots.
    pub fn new(memory: &PagedMemory, slots: Slots, source: FrameSource) -> Self {
        let (free, empty) = (memory.bag(), memory.bag());
        empty.put(slots);
        Self {
            free,
            empty,
            held: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            low: AtomicUsize::new(0),
            waiting: AtomicU32::new(0),
            freed: AtomicU32::new(0),
            pager_sleeps: AtomicU32::new(0),
            waits: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            source,
        }
    }

    /// Whether free frames are used for other pages.
    pub fn is_recycling(&self) -> bool {
        self.source == FrameSource::Recycled
    }

    /// Frames of the arena, free ones included.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Bytes of the two bags.
    pub fn state_bytes(&self) -> usize {
        self.free.state_bytes() + self.empty.state_bytes()
    }

    /// Free frames in staging.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Frames that can be had at once.
    pub fn available(&self) -> usize {
        let limit = self.limit.load(Ordering::Acquire);
        limit.saturating_sub(self.held()) + self.free.len()
    }

    /// Threads that wait for a frame.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire) as usize
    }

    /// What the pager last found: how many frames there may be, and when it wants to be called.
    pub fn set_limits(&self, limit: usize, low: usize) {
        self.low.store(low, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Release);
        if self.waiting() > 0 && self.available() > 0 {
            self.wake_waiting();
        }
    }

    /// One frame, if one can be had.
    pub fn try_take(&self) -> Option<Frame<'_>> {
        let frame = self.try_take_up_to(1);
        self.call_pager_when_low();
        frame
    }

    /// One to `most` frames, in a row if they are free ones. With [`FrameSource::Fresh`] the free ones are to be given
    /// back before as many new ones are taken.
    pub fn try_take_up_to(&self, most: usize) -> Option<Frame<'_>> {
        let free = || self.free.take(most).map(Frame::Free);
        let new = || self.try_new(most).map(Frame::New);
        match self.source {
            FrameSource::Recycled => free().or_else(new),
            FrameSource::Fresh => new().or_else(free),
        }
    }

    /// `count` free frames in a row (at most 64), if there are so many beyond `reserve`, and pages come back in them.
    pub fn take_run(&self, count: usize, reserve: usize) -> Option<Slots> {
        if !self.is_recycling() || self.available() < count + reserve {
            return None;
        }
        let run = self.free.take_run(count)?;
        self.call_pager_when_low();
        Some(run)
    }

    /// Up to `most` free frames in a row to be used for other pages, as long as more than `reserve` others can be had.
    pub fn take_spare(&self, most: usize, reserve: usize) -> Option<Slots> {
        if !self.is_recycling() {
            return None;
        }
        let spare = self.available().saturating_sub(reserve).min(most);
        if spare == 0 {
            None
        } else {
            self.free.take(spare)
        }
    }

    /// Leave to take 1 to `most` new frames from the kernel.
    pub fn try_new(&self, most: usize) -> Option<NewFrames<'_>> {
        let limit = self.limit.load(Ordering::Acquire);
        let room = |held: usize| limit.saturating_sub(held).min(most);
        self.held
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |held| {
                (room(held) > 0).then(|| held + room(held))
            })
            .ok()
            .map(|held| NewFrames {
                frames: self,
                count: room(held),
            })
    }

    /// So many frames are in pages' places already.
    pub fn adopted(&self, count: usize) {
        self.held.fetch_add(count, Ordering::AcqRel);
        self.call_pager();
    }

    /// A new frame beyond the limit, where nothing else helps: the caller needs a second one for a moment.
    pub fn force_new(&self) -> NewFrames<'_> {
        self.held.fetch_add(1, Ordering::AcqRel);
        NewFrames {
            frames: self,
            count: 1,
        }
    }

    /// Leave for as many frames as just went back to the kernel, and still count as held.
    pub fn exchanged(&self, count: usize) -> NewFrames<'_> {
        NewFrames {
            frames: self,
            count,
        }
    }

    /// Gives frames back that were not used.
    pub fn give_back(&self, frame: Frame<'_>) {
        match frame {
            Frame::Free(slots) => self.put_free(slots),
            Frame::New(frames) => drop(frames),
        }
    }

    /// Free frames.
    pub fn put_free(&self, slots: Slots) {
        self.free.put(slots);
        self.wake_waiting();
    }

    /// Slots whose frames were moved away; they are still held.
    pub fn put_empty(&self, slots: Slots) {
        self.empty.put(slots);
    }

    /// Slots that hold frames that are not accounted for: never used again.
    pub fn lose(&self, slots: Slots) {
        self.lost.fetch_add(slots.len() as u64, Ordering::Relaxed);
    }

    /// Empty slots in a row, at most `most`.
    pub fn take_empty(&self, most: usize) -> Option<Slots> {
        self.empty.take(most)
    }

    /// So many frames went back to the kernel.
    pub fn released(&self, count: usize) {
        self.held.fetch_sub(count, Ordering::AcqRel);
        self.wake_waiting();
    }

    /// Gives free frames back to the kernel that no page comes back in, at most `most`: as long as more are held than
    /// there may be, or all.
    pub fn trim(&self, memory: &PagedMemory, most: usize) -> Result<(), PagedError> {
        let limit = self.limit.load(Ordering::Acquire);
        let spare = match self.source {
            FrameSource::Recycled => self.held().saturating_sub(limit),
            FrameSource::Fresh => self.free(),
        };
        let mut left = spare.min(most);
        while left > 0 {
            let Some(mut slots) = self.free.take(left) else {
                break;
            };
            self.drop_frames(memory, &mut slots)?;
            left -= slots.len();
            self.empty.put(slots);
        }
        Ok(())
    }

    /// A frame came free; it goes back to the kernel when more are held than there may be, or later with others.
    pub fn put_free_or_trim(
        &self,
        memory: &PagedMemory,
        mut slot: Slots,
    ) -> Result<(), PagedError> {
        if self.is_recycling() && self.held() > self.limit.load(Ordering::Acquire) {
            self.drop_frames(memory, &mut slot)?;
            self.empty.put(slot);
        } else {
            self.put_free(slot);
        }
        Ok(())
    }

    /// Gives up to `most` free frames back to the kernel for the sake of their slots.
    pub fn drop_free(&self, memory: &PagedMemory, most: usize) -> Result<(), PagedError> {
        if let Some(mut slots) = self.free.take(most) {
            self.drop_frames(memory, &mut slots)?;
            self.empty.put(slots);
        }
        Ok(())
    }

    fn drop_frames(&self, memory: &PagedMemory, slots: &mut Slots) -> Result<(), PagedError> {
        memory.discard_slots(slots)?;
        self.released(slots.len());
        Ok(())
    }

    /// Waits until frames may have come free, but not for long: the caller looks again. `seen` is what
    /// [`Self::generation`] was before it last looked.
    pub fn wait(&self, seen: u32) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.call_pager();
        let _ = futex::wait(
            &self.freed,
            futex::Flags::PRIVATE,
            seen,
            Some(&timespec(Duration::from_millis(20))),
        );
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }

    /// Changes whenever frames come free.
    pub fn generation(&self) -> u32 {
        self.freed.load(Ordering::Acquire)
    }

    fn wake_waiting(&self) {
        self.freed.fetch_add(1, Ordering::AcqRel);
        if self.waiting() > 0 {
            let _ = futex::wake(&self.freed, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    fn call_pager_when_low(&self) {
        if self.available() < self.low.load(Ordering::Relaxed) {
            self.call_pager();
        }
    }

    /// Wakes the pager if it sleeps. One look if it does not.
    pub fn call_pager(&self) {
        // What the pager is called for is seen by it before it sleeps, or its sleep is seen here.
        fence(Ordering::SeqCst);
        if self.pager_sleeps.load(Ordering::Relaxed) == 1
            && self.pager_sleeps.swap(0, Ordering::AcqRel) == 1
        {
            let _ = futex::wake(&self.pager_sleeps, futex::Flags::PRIVATE, 1);
        }
    }

    /// The pager sleeps until it is called, or for `timeout`; not while frames are few, unless it found nothing
    /// `in_vain`. `has_work` is asked after the pager can be called, so that nothing falls between.
    pub fn sleep(&self, timeout: Duration, in_vain: bool, has_work: impl FnOnce() -> bool) {
        self.pager_sleeps.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let low = self.low.load(Ordering::Relaxed);
        if !has_work() && self.waiting() == 0 && (in_vain || self.available() >= low) {
            let timeout = Some(timespec(timeout));
            let _ = futex::wait(
                &self.pager_sleeps,
                futex::Flags::PRIVATE,
                1,
                timeout.as_ref(),
            );
        }
        self.pager_sleeps.store(0, Ordering::SeqCst);
    }

    /// The pager found nothing for the threads that wait: it lets other threads run, which may have something, until it is called
    /// or for `timeout`.
    pub fn sleep_while_stuck(&self, timeout: Duration) {
        self.pager_sleeps.store(1, Ordering::SeqCst);
        let timeout = Some(timespec(timeout));
        let _ = futex::wait(
            &self.pager_sleeps,
            futex::Flags::PRIVATE,
            1,
            timeout.as_ref(),
        );
        self.pager_sleeps.store(0, Ordering::SeqCst);
    }
}

/// A futex's timeout.
pub fn timespec(duration: Duration) -> futex::Timespec {
    futex::Timespec {
        tv_sec: duration.as_secs() as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
