//! The traces that the authors of Ariadne published with their paper: swap-outs with page contents, and
//! the swap-ins of one relaunch, recorded on a phone.
//!
//! A directory holds these files; all but the first may be missing:
//!
//! | file | what it is |
//! |---|---|
//! | `swapout_trace.txt` | records of a 50-byte header `TEST^^^#uid,pfn,sector#^^^`, padded, and a page of 4096 bytes |
//! | or `swapout_trace.txt.meta` and `.data` | the same apart: lines `uid,pfn,sector`, and the pages in the same order |
//! | `ttid_swapin_trace.txt` | swap-ins until the first frame ("time to initial display"): lines whose first comma field ends in the uid, a decimal number behind `=`, `:` or white space, and whose last is the sector |
//! | or `ttid_swapin_trace.txt.meta` | the same as pairs of little-endian 64-bit numbers, uid and sector |
//! | `swapin_trace.txt`, or `.meta` | all swap-ins of the recording, in the same forms |
//! | `lru_list.txt` | lines `uid,pfn` of pages on the kernel's lists |
//!
//! A folder with two forms of the same is refused: nothing says which one is meant.
//!
//! There are no times and no virtual addresses in the data. The mapping to events is therefore this:
//!
//! - An application is a uid. Times count up by 1 µs an event: only the order means something.
//! - A page is anonymous, and its number is its pfn. When a frame of an application is swapped out
//!   again, to another sector, while the earlier sector still holds its page, these are two pages that
//!   used one frame one after the other. The later gets a generation, which stands in bits 40 and up
//!   of the page number, so that every page that is in the swap at one time has a number of its own.
//! - The trace begins with a `Content` event for each swap-out, in their order.
//! - Then the pages of `lru_list.txt` are read, in the order of the list, and all applications go to the
//!   background.
//! - The relaunch window of the target holds one reading access for each line of `ttid_swapin_trace`;
//!   the target is the uid that most of these lines name. A sector stands for the page that was swapped
//!   out to it last.
//! - The swap-ins of `swapin_trace` that are not among those of the window follow after its end, as
//!   accesses of the execution.
//! - A swap-in from a sector to which nothing was swapped out says nothing about a known page; it is
//!   left out and counted.

mod files;

use std::path::Path;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::describe::{Description, Summary};
use crate::error::{Result, TraceError};
use crate::event::{ContentId, Event, EventKind};
use crate::import::text::Input;
use crate::writer::TraceWriter;
use files::{SwapIns, SwapOut, SwapOuts, fault};
use warmswap_page::{AppId, LaunchKind, PAGE_BYTES, PageAddr};

/// Bytes of the header of a record in `swapout_trace.txt`.
pub const HEADER_BYTES: usize = 50;
/// Sectors of 512 bytes in a page.
pub const SECTORS_PER_PAGE: u64 = 8;

/// Bits of a page number that hold the pfn; the generation stands above.
const PFN_BITS: u32 = 40;
/// Generations that fit above a pfn in a page number of 52 bits.
const GENERATIONS: u64 = 1 << 12;
/// From one event to the next.
const STEP_NS: u64 = 1000;

/// What an import found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// Swap-outs.
    pub swap_outs: u64,
    /// Swap-ins within the relaunch window that became accesses.
    pub launch_swap_ins: u64,
    /// Swap-ins after the window that became accesses.
    pub execution_swap_ins: u64,
    /// Swap-ins from sectors to which nothing was swapped out; left out.
    pub unknown_swap_ins: u64,
    /// Pages of the LRU list.
    pub resident_pages: u64,
    /// The uid that was relaunched; `None` without `ttid_swapin_trace`.
    pub target_uid: Option<u64>,
}

/// Reads the directory `dir` of the artifact and writes a trace to `path`.
///
/// Memory: some 50 bytes per sector in use and per page; the contents are streamed.
///
/// # Errors
///
/// A file is missing, cannot be read, or is not as described above, with the line or byte; or the trace
/// cannot be written. No trace is left behind then.
pub fn import(dir: &Path, path: &Path) -> Result<(Imported, Summary)> {
    let mut description = Description::new("import of an Ariadne artifact directory");
    description
        .extra
        .insert("import.directory".to_owned(), dir.display().to_string());
    let writer = TraceWriter::create(path, description)?;
    let mut import = Import {
        writer,
        time_ns: 0,
        apps: FxHashMap::default(),
        swap: Swap::default(),
    };
    let mut found = Imported::default();

    let mut swap_outs = SwapOuts::open(dir)?;
    let mut page = [0; PAGE_BYTES];
    while let Some(record) = swap_outs.next(&mut page)? {
        import.swap_out(record, &page)?;
        found.swap_outs += 1;
    }
    if let Some(mut list) = Input::open(&dir.join("lru_list.txt"))? {
        while let Some([uid, pfn]) = list.numbers("uid,pfn")? {
            if let Some((found, expected)) = fault(uid, pfn, 0) {
                return Err(list.bad_line(found, expected));
            }
            import.resident(uid, pfn)?;
            found.resident_pages += 1;
        }
    }
    if found.swap_outs + found.resident_pages == 0 {
        return Err(TraceError::NoPages(dir.to_owned()));
    }
    import.relaunch(dir, &mut found)?;
    Ok((found, import.writer.finish()?))
}

/// What the swap holds, as far as swap-outs tell.
#[derive(Default)]
struct Swap {
    sectors: FxHashMap<u64, Slot>,
    frames: FxHashMap<(AppId, u64), Frame>,
}

impl Swap {
    /// Whether a page with this number is in another sector. Looks at all of them.
    fn holds_elsewhere(&self, app: AppId, number: u64, sector: u64) -> bool {
        let mut slots = self.sectors.iter();
        slots.any(|(&at, slot)| at != sector && slot.app == app && slot.number == number)
    }
}

/// The page that was swapped out to a sector last.
#[derive(Clone, Copy)]
struct Slot {
    number: u64,
    content: ContentId,
    app: AppId,
}

/// The last swap-out from a frame.
#[derive(Clone, Copy)]
struct Frame {
    sector: u64,
    generation: u64,
}

struct Import {
    writer: TraceWriter,
    time_ns: u64,
    apps: FxHashMap<u64, AppId>,
    swap: Swap,
}

impl Import {
    fn app(&mut self, uid: u64) -> Result<AppId> {
        if let Some(&app) = self.apps.get(&uid) {
            return Ok(app);
        }
        let app = self.writer.add_app(format!("uid {uid}"), "")?;
        self.apps.insert(uid, app);
        Ok(app)
    }

    fn event(&mut self, app: AppId, kind: EventKind) -> Result<()> {
        self.writer.event(&Event {
            time_ns: self.time_ns,
            app,
            kind,
        })?;
        self.time_ns += STEP_NS;
        Ok(())
    }

    fn swap_out(&mut self, record: SwapOut, page: &[u8; PAGE_BYTES]) -> Result<()> {
        let app = self.app(record.uid)?;
        let content = self.writer.content(page)?;
        let generation = match self.swap.frames.get(&(app, record.pfn)) {
            None => 0,
            Some(frame) => {
                let number = page_number(record.pfn, frame.generation);
                let holds = |slot: &Slot| slot.app == app && slot.number == number;
                let elsewhere = frame.sector != record.sector;
                let held = elsewhere && self.swap.sectors.get(&frame.sector).is_some_and(holds);
                frame.generation + u64::from(held)
            }
        };
        let number = page_number(record.pfn, generation);
        // From here on numbers are used again, and the page that had one before may be in swap still.
        let is_again = generation >= GENERATIONS;
        if is_again && self.swap.holds_elsewhere(app, number, record.sector) {
            return Err(TraceError::TooManyPages {
                uid: record.uid,
                pfn: record.pfn,
                most: GENERATIONS,
            });
        }
        self.swap.frames.insert(
            (app, record.pfn),
            Frame {
                sector: record.sector,
                generation,
            },
        );
        self.swap.sectors.insert(
            record.sector,
            Slot {
                number,
                content,
                app,
            },
        );
        self.event(
            app,
            EventKind::Content {
                page: PageAddr::Anon { number },
                content,
            },
        )
    }

    fn resident(&mut self, uid: u64, pfn: u64) -> Result<()> {
        let app = self.app(uid)?;
        let generation = self
            .swap
            .frames
            .get(&(app, pfn))
            .map_or(0, |frame| frame.generation);
        let page = PageAddr::Anon {
            number: page_number(pfn, generation),
        };
        self.event(
            app,
            EventKind::Access {
                page,
                write: false,
                content: None,
            },
        )
    }

    /// Writes an access for a swap-in; false when its sector is not known.
    fn swap_in(&mut self, sector: u64) -> Result<bool> {
        let Some(&Slot {
            number,
            content,
            app,
        }) = self.swap.sectors.get(&sector)
        else {
            return Ok(false);
        };
        let page = PageAddr::Anon { number };
        self.event(
            app,
            EventKind::Access {
                page,
                write: false,
                content: Some(content),
            },
        )?;
        Ok(true)
    }

    fn relaunch(&mut self, dir: &Path, found: &mut Imported) -> Result<()> {
        const WINDOW: &str = "ttid_swapin_trace.txt";
        let mut window: FxHashMap<(u64, u64), u64> = FxHashMap::default();
        let mut uids: FxHashMap<u64, u64> = FxHashMap::default();
        if let Some(mut swap_ins) = SwapIns::open(dir, WINDOW)? {
            while let Some((uid, sector)) = swap_ins.next()? {
                *window.entry((uid, sector)).or_default() += 1;
                *uids.entry(uid).or_default() += 1;
            }
        }
        found.target_uid = uids
            .iter()
            .max_by_key(|&(uid, count)| (count, std::cmp::Reverse(uid)))
            .map(|(uid, _)| *uid);
        let target = found.target_uid.map(|uid| self.app(uid)).transpose()?;
        for app in 0..self.apps.len() {
            self.event(AppId(app as u16), EventKind::Background)?;
        }
        if let Some((target, mut swap_ins)) = target.zip(SwapIns::open(dir, WINDOW)?) {
            self.event(target, EventKind::LaunchBegin(LaunchKind::Relaunch))?;
            while let Some((_, sector)) = swap_ins.next()? {
                match self.swap_in(sector)? {
                    true => found.launch_swap_ins += 1,
                    false => found.unknown_swap_ins += 1,
                }
            }
            self.event(target, EventKind::LaunchEnd)?;
        }
        let Some(mut swap_ins) = SwapIns::open(dir, "swapin_trace.txt")? else {
            return Ok(());
        };
        while let Some(swap_in) = swap_ins.next()? {
            if let Some(left) = window.get_mut(&swap_in).filter(|left| **left > 0) {
                *left -= 1;
                continue;
            }
            match self.swap_in(swap_in.1)? {
                true => found.execution_swap_ins += 1,
                false => found.unknown_swap_ins += 1,
            }
        }
        Ok(())
    }
}

fn page_number(pfn: u64, generation: u64) -> u64 {
    pfn | (generation % GENERATIONS) << PFN_BITS
}

#[cfg(test)]
mod tests;
