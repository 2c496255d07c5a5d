//! What launches and sessions touched: a look at the page tables of a program's processes.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use warmswap_sys::accessed::{self, Accessed, TABLE_PAGES};
use warmswap_sys::opened::FileHandle;
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::process::MemoryUse;

use super::Target;
use super::bring::{Opened, TargetError, open};
use crate::learn::{Judged, REGION_PAGES};
use crate::see::areas::Readable;
use crate::see::held;
use crate::see::pages::{mapped, swapped};
use warmswap_sys::Root;

/// What ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A launch: what it touched is hot.
    Launch,
    /// A session: what came back and was not touched was brought in vain.
    Session,
}

/// What a look found.
#[derive(Debug, Default)]
pub struct Looked {
    /// What came of pages that came back.
    pub judged: Judged,
    /// The files that the process holds at a session's end.
    pub held: BTreeSet<FileHandle>,
}

/// Looks at one process at the end of a launch or of a session.
///
/// # Errors
/// [`TargetError`].
pub fn look(
    root: &Root,
    target: &Target,
    end: End,
    mut accessed: Option<&mut Accessed>,
) -> Result<Looked, TargetError> {
    let Some(handles) = open(root, target)? else {
        return Ok(Looked::default());
    };
    let is_judged = match end {
        End::Launch => {
            is_judged_without_mappings(root, target, &handles.1, accessed.as_deref_mut())?
        }
        End::Session => !target.memory.lock().learns_of_session(),
    };
    if is_judged {
        return Ok(Looked::default());
    }
    let opened = Opened::with(root, target, handles)?;
    let areas = &opened.areas.readable;
    let away = swapped(&opened.pagemap, areas)?;
    let unjudged = target.memory.lock().unjudged();
    let bits = match accessed {
        Some(accessed) => bits(accessed, &opened.pagemap, &unjudged),
        None => None,
    };
    let bits = bits.unwrap_or_else(|| bits_by_area(&unjudged, areas));
    let touched = |region: u64| bits.get(&region).copied().unwrap_or(0);
    let mut looked = Looked::default();
    match end {
        End::Launch => target.memory.lock().judge_launch(&away, touched),
        End::Session => {
            let mapped = mapped(&opened.pagemap, areas)?;
            // Without the right to see them nothing is known of them.
            looked.held = held::files(root, target.id.pid, areas).unwrap_or_default();
            let mut memory = target.memory.lock();
            looked.judged = memory.judge_session(&away, touched);
            memory.set_mapped(mapped);
        }
    }
    Ok(looked)
}

/// Judges the end of a launch where there is nothing to learn of it, or where nothing is in swap and the bits of single pages
/// are seen: whether it could. The mappings of a program that is used just now are not read then.
fn is_judged_without_mappings(
    root: &Root,
    target: &Target,
    pagemap: &Pagemap,
    accessed: Option<&mut Accessed>,
) -> Result<bool, TargetError> {
    if !target.memory.lock().learns_of_launch() {
        return Ok(true);
    }
    if MemoryUse::read(root, target.id.pid)?.swapped_bytes > 0 {
        return Ok(false);
    }
    let unjudged = target.memory.lock().unjudged();
    let Some(bits) = accessed.and_then(|accessed| bits(accessed, pagemap, &unjudged)) else {
        return Ok(false);
    };
    let touched = |region: u64| bits.get(&region).copied().unwrap_or(0);
    target.memory.lock().judge_launch(&[], touched);
    Ok(true)
}

/// Clears the accessed bits of a process to which pages came back, and takes in before what they tell of pages that came earlier.
/// Where bits of single pages are not seen that is nothing: the host's own reads set those of whole mappings.
///
/// The kernel holds the lock of the process's address space for writing meanwhile, so that this is for a thread that need not wait
/// for a processor.
///
/// # Errors
/// [`TargetError`].
pub fn clear(
    root: &Root,
    target: &Target,
    accessed: Option<&mut Accessed>,
) -> Result<(), TargetError> {
    let Some((_process, pagemap)) = open(root, target)? else {
        return Ok(());
    };
    let unjudged = target.memory.lock().unjudged();
    let found = accessed.and_then(|accessed| bits(accessed, &pagemap, &unjudged));
    let found = found.unwrap_or_default();
    let touched = |region: u64| found.get(&region).copied().unwrap_or(0);
    target.memory.lock().note_used(touched);
    Ok(accessed::clear(root, target.id.pid)?)
}

/// Accessed bits of regions, which ascend; none where they cannot be read now.
fn bits(
    accessed: &mut Accessed,
    pagemap: &Pagemap,
    regions: &[u64],
) -> Option<FxHashMap<u64, u64>> {
    let mut bits = FxHashMap::default();
    if regions.is_empty() {
        return Some(bits);
    }
    let words = TABLE_PAGES / REGION_PAGES;
    let mut tables: Vec<u64> = regions.iter().map(|region| region / words).collect();
    tables.dedup();
    let page_table = accessed.page_table(pagemap).ok()?;
    let read = accessed.read(page_table, &tables, |table, found| {
        for (at, &word) in found.iter().enumerate() {
            bits.insert(table * words + at as u64, word);
        }
    });
    read.ok().map(|()| bits)
}

/// The same by mapping, where bits of single pages are not seen: all of a mapping where anything was accessed.
fn bits_by_area(regions: &[u64], areas: &[Readable]) -> FxHashMap<u64, u64> {
    let region_bytes = REGION_PAGES * warmswap_page::PAGE_BYTES as u64;
    let is_touched = |region: u64| {
        let (start, end) = (region * region_bytes, (region + 1) * region_bytes);
        let at = areas.partition_point(|readable| readable.area.mapping.end <= start);
        let touching = areas[at..].iter().map(|readable| &readable.area);
        touching
            .take_while(|area| area.mapping.start < end)
            .any(|area| area.referenced_bytes > 0)
    };
    let touched = regions.iter().filter(|&&region| is_touched(region));
    touched.map(|&region| (region, u64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use warmswap_sys::smaps::MemoryArea;

    use super::*;
    use crate::see::areas::Kind;
    use crate::testing;

    #[test]
    fn without_bits_of_pages_a_mapping_counts_as_a_whole() {
        let area = |line: &str, referenced_bytes| Readable {
            area: MemoryArea {
                referenced_bytes,
                ..testing::area(line)
            },
            kind: Kind::Private,
        };
        let areas = [
            area("40000-80000 rw-p 0 00:00 0 ", 0),
            area("80000-90000 rw-p 0 00:00 0 ", 4096),
        ];
        let bits = bits_by_area(&[1, 2, 3], &areas);
        assert_eq!(bits, FxHashMap::from_iter([(2, u64::MAX)]));
    }
}
