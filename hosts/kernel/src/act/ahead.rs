//! At a switch: what the program is going to use is asked for in bulk, beside it.

use warmswap_page::PAGE_BYTES;
use warmswap_sys::Root;
use warmswap_sys::advise::{Advice, PageRange, advise_telling};
use warmswap_sys::memcg::{Group, bounds_of};
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::process::MemoryUse;

use super::Target;
use super::brake::Brake;
use super::bring::{Opened, TargetError, batches, open};
use crate::decide::order::{count, pages};
use crate::decide::switch::{Cost, Fetch, fetch};
use crate::decide::{Seen, State, stop};
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
    /// Cold pages are written back, so that what is away has to be known wherever it is.
    pub writes_back: bool,
}

impl Ahead<'_> {
    /// A session begins: notes what is away of a process, and asks for what is worth it. Pages that were asked for.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn begin(&mut self, target: &Target, may_fetch: bool) -> Result<u64, TargetError> {
        let Some(handles) = open(self.root, target)? else {
            return Ok(0);
        };
        // Its mappings are read only if that may be worth it: the kernel holds the lock of its address space meanwhile, while the
        // program comes back.
        let away_bytes = away_bytes(self.root, target, &handles.1)?;
        if away_bytes == Some(0) {
            target.memory.lock().begin(Vec::new());
            return Ok(0);
        }
        let bounds = bounds_of(self.root, target.id.pid);
        let begins = self.brake.look(&bounds)?;
        let is_in_vain = |bytes| self.fetch(&begins, bytes) == Fetch::Nothing;
        // What launches touch on a disk may be worth it the next time.
        if !self.has_disk() && !self.writes_back && away_bytes.is_some_and(is_in_vain) {
            target.memory.lock().begin_unseen();
            return Ok(0);
        }
        let opened = Opened::with(self.root, target, handles)?;
        let away = swapped(&opened.pagemap, &opened.areas.readable)?;
        target.memory.lock().begin(away.clone());
        if !may_fetch {
            return Ok(0);
        }
        let mut wanted = pages(&away, &target.memory.lock());
        let mut files = opened.unmapped(target)?;
        let asked = count(&wanted.hot) + count(&wanted.warm) + count(&files);
        let fetch = self.fetch(&begins, asked * PAGE);
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
                    Fetch::All => {
                        self.brake.halt(&[]).is_some() || is_full(&bounds, &begins, self.has_disk())
                    }
                    _ => self.brake.is_exhausted(),
                };
                if is_over {
                    return Ok(asked);
                }
                let mut accepted = Vec::new();
                let note = |range| accepted.push(range);
                advise_telling(&opened.process, Advice::WillNeed, &batch, note)?;
                if is_private {
                    // They stay in the swap cache until they are touched, so that the page table tells whether they were.
                    target.memory.lock().note_asked(&accepted);
                } else {
                    target.memory.lock().note_asked_of_files(&batch);
                }
                self.took(count(&accepted));
                asked += count(&accepted);
            }
        }
        Ok(asked)
    }

    /// What is worth it of so many bytes that are away, below groups that were just looked at.
    fn fetch(&self, groups: &[(Seen, u64)], away_bytes: u64) -> Fetch {
        let (mut room, mut free) = (self.room_bytes, self.free_bytes);
        for (seen, reserve_bytes) in groups {
            room = room.min(seen.room_bytes(*reserve_bytes));
            free = free.min(seen.room_bytes(0));
        }
        let disk = self.has_disk().then_some(self.disk);
        fetch(self.state, room, free, away_bytes, disk)
    }

    fn has_disk(&self) -> bool {
        Kinds::in_use(self.root).disk
    }

    fn took(&mut self, pages: u64) {
        self.brake.beat();
        self.brake.brought(pages);
        self.room_bytes = self.room_bytes.saturating_sub(pages * PAGE);
        self.free_bytes = self.free_bytes.saturating_sub(pages * PAGE);
    }
}

/// What is away of a process: in swap, and of the files that it had mapped. None where the kernel scans no page tables.
fn away_bytes(root: &Root, target: &Target, pagemap: &Pagemap) -> Result<Option<u64>, TargetError> {
    if !pagemap.can_scan() {
        return Ok(None);
    }
    let known = target.memory.lock().mapped().to_vec();
    let mut mapped = 0;
    for range in &known {
        let (start, end) = (range.first * PAGE, (range.first + range.count) * PAGE);
        pagemap.scan_files(start, end, |region| mapped += region.count)?;
    }
    let swapped_bytes = MemoryUse::read(root, target.id.pid)?.swapped_bytes;
    Ok(Some(swapped_bytes + (count(&known) - mapped) * PAGE))
}

/// Whether one of the groups reclaimed since the switch began, when they were as in `begins`, or has only its reserve left. What
/// it did before does not matter: a switch is not tried again.
fn is_full(bounds: &[(Group, u64)], begins: &[(Seen, u64)], counts_cache: bool) -> bool {
    bounds.iter().zip(begins).any(|((group, bound), begin)| {
        let (begin, reserve_bytes) = begin;
        // One that cannot be read is gone.
        let now = bounds::group(group, *bound, counts_cache);
        now.map_or(true, |now| stop(begin, &now, *reserve_bytes).is_some())
    })
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
    use warmswap_sys::process::Stat;
    use warmswap_testkit::skip;

    use super::*;
    use crate::act::brake::Groups;
    use crate::act::worker::Beat;
    use crate::decide::order::append;
    use crate::see::areas::{self, Kind};
    use crate::testing::{Machine, range, target};

    #[test]
    fn what_was_mapped_and_is_not_is_away() {
        let name = "what_was_mapped_and_is_not_is_away";
        let root = Root::machine();
        let pid = std::process::id();
        let target = target(pid, 1);
        let pagemap = Pagemap::open(&root, pid).unwrap();
        if !pagemap.can_scan() || MemoryUse::read(&root, pid).unwrap().swapped_bytes > 0 {
            skip!(
                name,
                "the kernel scans no page tables, or this test is in swap"
            );
        }
        let away_pages = |mapped: &[PageRange]| {
            target.memory.lock().set_mapped(mapped.to_vec());
            let bytes = away_bytes(&root, &target, &pagemap).unwrap();
            bytes.unwrap() / PAGE
        };
        // Of the test's own program, and where nothing is ever mapped.
        let own = name.as_ptr().addr() as u64 / PAGE;
        assert_eq!(away_pages(&[]), 0);
        assert_eq!(away_pages(&[range(own, 1)]), 0);
        assert_eq!(away_pages(&[range(0, 2), range(own, 1)]), 2);
    }

    #[test]
    fn a_program_whose_pages_have_no_room_is_not_looked_at() {
        let name = "a_program_whose_pages_have_no_room_is_not_looked_at";
        let pid = std::process::id();
        // This process on a machine without swap.
        let machine = Machine::with_groups();
        let of_process = format!("proc/{pid}");
        std::os::unix::fs::symlink(format!("/{of_process}"), machine.path(&of_process)).unwrap();
        machine.write("proc/swaps", "F T S U P\n");
        let root = machine.root();
        let target = target(pid, Stat::read(&root, pid).unwrap().start_ticks);
        if !Pagemap::open(&root, pid).unwrap().can_scan() {
            skip!(name, "the kernel scans no page tables");
        }
        // Nothing is ever mapped there.
        target.memory.lock().set_mapped(vec![range(0, 1)]);
        let (beat, mut groups) = (Beat::default(), Groups::default());
        for (room_bytes, writes_back, is_seen) in
            [(0, false, false), (0, true, true), (1 << 40, false, true)]
        {
            let brake = Brake::new(&root, &beat, &mut groups, Seen::default(), 0);
            let mut ahead = Ahead {
                root: &root,
                brake,
                state: State::Rest,
                room_bytes,
                free_bytes: room_bytes,
                disk: Cost::DISK,
                writes_back,
            };
            assert_eq!(ahead.begin(&target, false).unwrap(), 0);
            let learns = target.memory.lock().learns_of_session();
            assert_eq!(learns, is_seen, "{room_bytes}");
        }
    }

    #[test]
    fn pages_of_files_are_asked_for_once_until_it_is_seen_whether_they_were_used() {
        let name = "pages_of_files_are_asked_for_once_until_it_is_seen_whether_they_were_used";
        let root = Root::machine();
        let pid = std::process::id();
        let target = target(pid, Stat::read(&root, pid).unwrap().start_ticks);
        if !Pagemap::open(&root, pid).unwrap().can_scan()
            || MemoryUse::read(&root, pid).unwrap().swapped_bytes > 0
        {
            skip!(
                name,
                "the kernel scans no page tables, or this test is in swap"
            );
        }
        // Of the libraries that the test maps most was never touched.
        let areas = areas::read(&root, pid).unwrap().readable;
        let mut libraries = Vec::new();
        for readable in areas.iter().filter(|readable| readable.kind == Kind::File) {
            let mapping = &readable.area.mapping;
            let pages = (mapping.end - mapping.start) / PAGE;
            append(&mut libraries, mapping.start / PAGE, pages);
        }
        let pages = count(&libraries);
        target.memory.lock().set_mapped(libraries);
        let (beat, mut groups) = (Beat::default(), Groups::default());
        let mut switch = || {
            let brake = Brake::new(&root, &beat, &mut groups, bounds::brief(&root).unwrap(), 0);
            let mut ahead = Ahead {
                root: &root,
                brake,
                state: State::Rest,
                room_bytes: 1 << 40,
                free_bytes: 1 << 40,
                disk: Cost::DISK,
                writes_back: false,
            };
            ahead.begin(&target, true).unwrap()
        };

        // Where the machine reclaims just then, nothing is asked for.
        let asked = (0..100).map(|_| switch()).find(|&asked| asked > 0);

        assert!(asked.is_some_and(|asked| asked < pages), "{asked:?}");
        assert_eq!(switch(), 0, "they are in memory, and not needed");
        assert!(!target.memory.lock().mapped().is_empty(), "the others are");
    }

    #[test]
    fn a_group_that_reclaimed_before_the_switch_is_not_full() {
        let machine = Machine::with_groups();
        let set = |used_mib, hits| machine.set_group("app", used_mib, hits);
        set(100, 7);
        let bounds = [(machine.group("/app"), 400u64 << 20)];
        for hits in [8, 9] {
            // Between two switches it was at its limit.
            set(100, hits);
            let begins = [(
                bounds::group(&bounds[0].0, bounds[0].1, false).unwrap(),
                4 << 20,
            )];
            assert!(!is_full(&bounds, &begins, false), "{hits}");
            set(399, hits);
            assert!(is_full(&bounds, &begins, false), "only its reserve is left");
            set(100, hits + 1);
            assert!(is_full(&bounds, &begins, false), "it reclaims now");
        }
        std::fs::remove_dir_all(machine.path("cg")).unwrap();
        assert!(is_full(&bounds, &[Default::default()], false), "it is gone");
    }

    #[test]
    fn the_first_pages_of_a_list_are_no_more_than_asked_for() {
        let list = [range(10, 5), range(20, 5)];
        assert_eq!(first(&list, 7), [range(10, 5), range(20, 2)]);
        assert_eq!(first(&list, 99), list);
        assert_eq!(first(&list, 0), []);
    }
}
