//! Cold pages of one process go from compressed memory to the disk that their device has for it (Ariadne 4.1): coldest first, by
//! their places in swap. What launches touch, and what sessions use, stays in memory.

use std::ops::Range;

use warmswap_page::PAGE_BYTES;
use warmswap_sys::Root;
use warmswap_sys::advise::PageRange;
use warmswap_sys::pagemap::{Pagemap, Slot};
use warmswap_sys::swap::{Area, areas};
use warmswap_sys::zram::Device;

use super::Target;
use super::bring::{Opened, TargetError, batches, open};
use super::worker::Beat;
use crate::see::pages::swapped;

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages that the kernel writes at one request.
const WRITE_PAGES: u64 = 64;

/// What was written back of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Pages, as the devices count them.
    pub pages: u64,
    /// A device refused: its disk is full, or its budget of writes is used up.
    pub is_refused: bool,
}

/// Writes back what is cold of a process. Costs what reading its mappings does, and the disk's time.
///
/// # Errors
/// [`TargetError`].
pub fn write_back(root: &Root, target: &Target, beat: &Beat) -> Result<Written, TargetError> {
    let mut written = Written::default();
    let areas = Areas::read(root)?;
    let Some(handles) = open(root, target)?.filter(|_| areas.write_back()) else {
        return Ok(written);
    };
    let opened = Opened::with(root, target, handles)?;
    beat.beat();
    let away = swapped(&opened.pagemap, &opened.areas.readable)?;
    let cold = target.memory.lock().to_write_back(&away);
    let before = areas.written_pages();
    for batch in batches(&cold) {
        beat.wait_for_launch();
        let wanted = runs(slots(&opened.pagemap, &batch)?);
        written.is_refused = !areas.write(&wanted, beat);
        if written.is_refused || beat.stop().is_some() {
            break;
        }
        target.memory.lock().note_written(&batch);
    }
    written.pages = areas.written_pages().saturating_sub(before);
    Ok(written)
}

/// Whether any device that is swapped on has a disk for cold pages.
#[must_use]
pub fn is_possible(root: &Root) -> bool {
    Areas::read(root).is_ok_and(|areas| areas.write_back())
}

/// Swap areas as the kernel lists them, with the devices that write back.
struct Areas(Vec<(Area, Option<Device>)>);

impl Areas {
    fn read(root: &Root) -> Result<Self, warmswap_sys::FileError> {
        let with_device = |area: Area| {
            let device = area.zram_id().map(|id| Device::new(root, id));
            (area, device.filter(|device| device.upkeep().writes_back))
        };
        Ok(Self(areas(root)?.into_iter().map(with_device).collect()))
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        self.0.iter().filter_map(|(_, device)| device.as_ref())
    }

    fn write_back(&self) -> bool {
        self.devices().next().is_some()
    }

    fn written_pages(&self) -> u64 {
        self.devices()
            .map(|device| device.written_pages().unwrap_or(0))
            .sum()
    }

    /// The device of an area by the kernel's number. Numbers are those of lines as long as no area was switched off before others
    /// were; one that is too large tells of that, and a page of another area would be written then, which costs time alone.
    fn device(&self, number: u8, page: u64) -> Option<&Device> {
        let (area, device) = match self.0.as_slice() {
            [only] => only,
            areas => areas.get(usize::from(number))?,
        };
        device.as_ref().filter(|_| page < area.size_bytes / PAGE)
    }

    /// Whether no device refused.
    fn write(&self, runs: &[(u8, Range<u64>)], beat: &Beat) -> bool {
        runs.iter().all(|(number, pages)| {
            let device = self.device(*number, pages.end - 1);
            // A disk may sleep for longer than a process takes to answer.
            let write = |device: &Device| beat.aside(|| device.write_back(pages.clone()));
            device.is_none_or(|device| write(device).is_ok())
        })
    }
}

/// Where pages are in swap, ascending.
fn slots(pagemap: &Pagemap, pages: &[PageRange]) -> Result<Vec<Slot>, TargetError> {
    let mut slots = Vec::new();
    for range in pages {
        let (start, end) = (range.first * PAGE, (range.first + range.count) * PAGE);
        pagemap.scan(start, end, |_, entry| slots.extend(entry.slot()))?;
    }
    slots.sort_unstable();
    Ok(slots)
}

/// Neighbours together, with the number of their area.
fn runs(slots: Vec<Slot>) -> Vec<(u8, Range<u64>)> {
    let mut runs: Vec<(u8, Range<u64>)> = Vec::new();
    for Slot { area, page } in slots {
        match runs.last_mut() {
            Some((last, pages))
                if *last == area && pages.end == page && page - pages.start < WRITE_PAGES =>
            {
                pages.end += 1;
            }
            _ => runs.push((area, page..page + 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;

    const SWAPS: &str = "F T S U P\n/dev/sda2 partition 400 0 5\n/dev/zram3 partition 400 9 100\n";

    /// Swaps to a disk and to a zram device that has one.
    fn machine(swaps: &str) -> (Machine, Areas) {
        let machine = Machine::new();
        machine.write("proc/swaps", swaps);
        let folder = "sys/block/zram3";
        std::fs::create_dir_all(machine.path(folder)).unwrap();
        for (name, text) in [("backing_dev", "/dev/vdb\n"), ("writeback", "")] {
            machine.write(&format!("{folder}/{name}"), text);
        }
        let areas = Areas::read(&machine.root()).unwrap();
        (machine, areas)
    }

    #[test]
    fn neighbours_are_one_request_of_bounded_size() {
        let slot = |area, page| Slot { area, page };
        let slots = [slot(0, 5), slot(0, 6), slot(1, 7), slot(1, 9)];
        assert_eq!(runs(slots.to_vec()), [(0, 5..7), (1, 7..8), (1, 9..10)]);
        let many = (1..=130).map(|page| slot(0, page)).collect();
        assert_eq!(runs(many), [(0, 1..65), (0, 65..129), (0, 129..131)]);
    }

    #[test]
    fn areas_are_known_by_their_lines_and_an_only_one_by_any_number() {
        let (_machine, areas) = machine(SWAPS);
        assert!(areas.device(1, 99).is_some());
        assert!(areas.device(0, 1).is_none(), "a disk");
        assert!(areas.device(1, 100).is_none(), "beyond its end");
        assert!(areas.device(2, 1).is_none(), "one was switched off");

        let (_machine, areas) = machine("F T S U P\n/dev/zram3 partition 400 9 100\n");
        assert!(areas.device(4, 7).is_some());
    }

    #[test]
    fn without_a_disk_behind_a_device_nothing_is_possible() {
        let (machine, _) = machine(SWAPS);
        assert!(is_possible(&machine.root()));
        machine.write("sys/block/zram3/backing_dev", "none\n");
        assert!(!is_possible(&machine.root()));
        std::fs::remove_file(machine.path("proc/swaps")).unwrap();
        assert!(!is_possible(&machine.root()));
    }
}
