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
use crate::decide::reserve::least_bytes;
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
        if is_all_here(self.root, target, &handles.1)? {
            target.memory.lock().begin(Vec::new());
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
        let bounds = bounds_of(self.root, target.id.pid);
        let (mut room, mut free) = (self.room_bytes, self.free_bytes);
        let mut begins = Vec::new();
        for (group, bound) in &bounds {
            let seen = bounds::group(group, *bound)?;
            room = room.min(seen.room_bytes(least_bytes(seen.total_bytes)));
            free = free.min(seen.room_bytes(0));
            begins.push(seen);
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
                    Fetch::All => self.brake.halt(&[]).is_some() || is_full(&bounds, &begins),
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
                }
                self.took(count(&accepted));
                asked += count(&accepted);
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

/// Whether nothing of a process is away, as far as its swap and the files that it had mapped tell. Its mappings are not read then:
/// the kernel holds the lock of its address space meanwhile, while the program comes back.
fn is_all_here(root: &Root, target: &Target, pagemap: &Pagemap) -> Result<bool, TargetError> {
    let swapped_bytes = MemoryUse::read(root, target.id.pid)?.swapped_bytes;
    if swapped_bytes > 0 || !pagemap.can_scan() {
        return Ok(false);
    }
    let known = target.memory.lock().mapped().to_vec();
    let mut mapped = 0;
    for range in &known {
        let (start, end) = (range.first * PAGE, (range.first + range.count) * PAGE);
        pagemap.scan_files(start, end, |region| mapped += region.count)?;
    }
    Ok(mapped == count(&known))
}

/// Whether one of the groups reclaimed since the switch began, when they were as in `begins`, or has only its reserve left. What
/// it did before does not matter: a switch is not tried again.
fn is_full(bounds: &[(Group, u64)], begins: &[Seen]) -> bool {
    bounds.iter().zip(begins).any(|((group, bound), begin)| {
        // One that cannot be read is gone.
        bounds::group(group, *bound).map_or(true, |now| {
            stop(begin, &now, least_bytes(now.total_bytes)).is_some()
        })
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
    use warmswap_testkit::skip;

    use super::*;
    use crate::act::tests::target;

    #[test]
    fn all_of_a_process_is_here_while_it_has_mapped_what_it_had() {
        let name = "all_of_a_process_is_here_while_it_has_mapped_what_it_had";
        let root = Root::machine();
        let pid = std::process::id();
        let target = target(pid);
        let pagemap = Pagemap::open(&root, pid).unwrap();
        if !pagemap.can_scan() || MemoryUse::read(&root, pid).unwrap().swapped_bytes > 0 {
            skip!(
                name,
                "the kernel scans no page tables, or this test is in swap"
            );
        }
        let is_all_here = |mapped: &[PageRange]| {
            target.memory.lock().set_mapped(mapped.to_vec());
            super::is_all_here(&root, &target, &pagemap).unwrap()
        };
        // Of the test's own program, and where nothing is ever mapped.
        let own = name.as_ptr().addr() as u64 / PAGE;
        let range = |first| PageRange { first, count: 1 };
        assert!(is_all_here(&[]));
        assert!(is_all_here(&[range(own)]));
        assert!(!is_all_here(&[range(0), range(own)]));
    }

    #[test]
    fn a_group_that_reclaimed_before_the_switch_is_not_full() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let set = |used_mib: u64, hits: u64| {
            write("cg/app/memory.current", &(used_mib << 20).to_string());
            write("cg/app/memory.events", &format!("max {hits}\n"));
        };
        write("proc/self/mounts", "none /cg cgroup2 rw 0 0\n");
        write("cg/cgroup.controllers", "memory\n");
        set(100, 7);
        let group = Group::open(&Root::at(dir.path()), "/app".as_ref()).unwrap();
        let bounds = [(group, 400u64 << 20)];
        for hits in [8, 9] {
            // Between two switches it was at its limit.
            set(100, hits);
            let begins = [bounds::group(&bounds[0].0, bounds[0].1).unwrap()];
            assert!(!is_full(&bounds, &begins), "{hits}");
            set(399, hits);
            assert!(is_full(&bounds, &begins), "only its reserve is left");
            set(100, hits + 1);
            assert!(is_full(&bounds, &begins), "it reclaims now");
        }
        std::fs::remove_dir_all(dir.path().join("cg")).unwrap();
        assert!(is_full(&bounds, &[Seen::default()]), "it is gone");
    }

    #[test]
    fn the_first_pages_of_a_list_are_no_more_than_asked_for() {
        let range = |first, count| PageRange { first, count };
        let list = [range(10, 5), range(20, 5)];
        assert_eq!(first(&list, 7), [range(10, 5), range(20, 2)]);
        assert_eq!(first(&list, 99), list);
        assert_eq!(first(&list, 0), []);
    }
}
