//! At a switch: what the program is going to use is asked for in bulk, beside it.

use warmswap_page::PAGE_BYTES;
use warmswap_sys::Root;
use warmswap_sys::advise::{Advice, PageRange, advise};
use warmswap_sys::memcg::bounds_of;

use super::Target;
use super::brake::Brake;
use super::bring::{Opened, TargetError, batches};
use crate::decide::State;
use crate::decide::order::{count, pages};
use crate::decide::reserve::least_bytes;
use crate::decide::switch::{Cost, Fetch, fetch};
use crate::see::bounds;
use crate::see::pages::swapped;
use crate::see::swap::Kinds;

const PAGE: u64 = PAGE_BYTES as u64;

/// One switch to a program, whose processes share what is free.
#[derive(Debug)]
pub struct Ahead<'a> {
    /// The machine.
    pub root: &'a Root,
    /// When to stop.
    pub brake: Brake<'a>,
    /// The machine's state.
    pub state: State,
    /// What may still be asked for before the reserve is touched.
    pub room_bytes: u64,
    /// What may still be asked for before the kernel reclaims.
    pub free_bytes: u64,
    /// What pages of a disk cost.
    pub disk: Cost,
}

impl Ahead<'_> {
    /// A session begins: notes what is away of a process, and asks for what is worth it. Pages that were asked for.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn begin(&mut self, target: &Target, may_fetch: bool) -> Result<u64, TargetError> {
        let Some(opened) = Opened::open(self.root, target)? else {
            return Ok(0);
        };
        let away = swapped(&opened.pagemap, &opened.areas.readable)?;
        target.memory.lock().begin(away.clone());
        if !may_fetch {
            return Ok(0);
        }
        let mut wanted = pages(&away, &target.memory.lock());
        let mut files = opened.unmapped(target)?;
        let bounds = bounds_of(self.root, target.id.pid);
        let (mut room, mut free) = (self.room_bytes, self.free_bytes);
        for (group, bound) in &bounds {
            let seen = bounds::group(group, *bound)?;
            room = room.min(seen.room_bytes(least_bytes(seen.total_bytes)));
            free = free.min(seen.room_bytes(0));
        }
        let asked = count(&wanted.hot) + count(&wanted.warm) + count(&files);
        let disk = Kinds::in_use(self.root).disk.then_some(self.disk);
        let fetch = fetch(self.state, room, free, asked * PAGE, disk);
        match fetch {
            Fetch::Nothing => return Ok(0),
            Fetch::All => wanted.hot.append(&mut wanted.warm),
            Fetch::Footprint(bytes) => {
                files.clear();
                wanted.hot = first(&wanted.hot, bytes / PAGE);
            }
        }
        let mut asked = 0;
        for (list, is_private) in [(&wanted.hot, true), (&files, false)] {
            for batch in batches(list) {
                let is_over = match fetch {
                    Fetch::All => self.brake.halt(&bounds).is_some(),
                    _ => self.brake.is_exhausted(),
                };
                if is_over {
                    return Ok(asked);
                }
                let accepted = advise(&opened.process, Advice::WillNeed, &batch)?.pages;
                // Before Linux 5.15 the kernel takes no such request.
                if accepted == 0 {
                    continue;
                }
                if is_private {
                    // They stay in the swap cache until they are touched, so that the page table tells whether they were.
                    target.memory.lock().note_asked(&batch);
                }
                self.took(accepted);
                asked += accepted;
            }
        }
        Ok(asked)
    }

    fn took(&mut self, pages: u64) {
        self.brake.beat();
        self.brake.brought(pages);
        self.room_bytes = self.room_bytes.saturating_sub(pages * PAGE);
        self.free_bytes = self.free_bytes.saturating_sub(pages * PAGE);
    }
}

/// The first pages of a list.
fn first(list: &[PageRange], mut pages: u64) -> Vec<PageRange> {
    let mut taken = Vec::new();
    for range in list {
        let count = range.count.min(pages);
        if count == 0 {
            break;
        }
        let first = range.first;
        taken.push(PageRange { first, count });
        pages -= count;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pages_of_a_list_are_no_more_than_asked_for() {
        let range = |first, count| PageRange { first, count };
        let list = [range(10, 5), range(20, 5)];
        assert_eq!(first(&list, 7), [range(10, 5), range(20, 2)]);
        assert_eq!(first(&list, 99), list);
        assert_eq!(first(&list, 0), []);
    }
}
