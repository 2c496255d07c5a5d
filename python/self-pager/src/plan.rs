//! Which resident pages stay when the process goes to the background.

use crate::pages::PageSet;

/// What speaks for staying, the strongest first.
#[derive(Debug, Clone, Default)]
pub struct Reasons {
    /// Where threads stand on their stacks. These stay whatever the budget is.
    pub stacks: PageSet,
    /// What earlier returns touched, the surest first.
    pub learned: Vec<u64>,
    /// Pages that hold objects of the young generations (Fleet's FYO).
    pub young: PageSet,
    /// Pages that hold objects near roots (Fleet's NRO).
    pub near: PageSet,
    /// Pages of data that was used shortly before, as far as the program says.
    pub data: PageSet,
}

/// Pages that stay, by the first reason that holds for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Stacks of threads.
    pub stack_pages: u64,
    /// Touched at earlier returns.
    pub learned_pages: u64,
    /// With young objects.
    pub young_pages: u64,
    /// With objects near roots.
    pub near_pages: u64,
    /// With data that was used shortly before.
    pub data_pages: u64,
    /// With a reason to stay, and beyond the budget.
    pub over_budget_pages: u64,
}

/// Chooses of `resident` what leaves; at most `budget_pages` stay, stacks aside. Returns what leaves, and what
/// stays why.
#[must_use]
pub fn plan(resident: &PageSet, reasons: &Reasons, budget_pages: u64) -> (PageSet, Kept) {
    let stacks = reasons.stacks.and(resident);
    let mut stay = stacks.clone();
    let mut kept = Kept {
        stack_pages: stacks.len(),
        ..Kept::default()
    };
    let mut room = budget_pages;
    let resident_learned: Vec<u64> = reasons
        .learned
        .iter()
        .copied()
        .filter(|page| resident.contains(*page))
        .collect();
    let young = reasons.young.and(resident);
    let near = reasons.near.and(resident);
    let data = reasons.data.and(resident);
    let wanted = PageSet::of_numbers(resident_learned.clone())
        .or(&young)
        .or(&near)
        .or(&data);
    let in_order: [(&mut u64, Vec<u64>); 4] = [
        (&mut kept.learned_pages, resident_learned),
        (&mut kept.young_pages, young.numbers().collect()),
        (&mut kept.near_pages, near.numbers().collect()),
        (&mut kept.data_pages, data.numbers().collect()),
    ];
    for (count, mut pages) in in_order {
        pages.retain(|page| !stay.contains(*page));
        pages.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        *count = pages.len() as u64;
        room -= *count;
        stay = stay.or(&PageSet::of_numbers(pages));
    }
    kept.over_budget_pages = wanted.without(&stay).len();
    (resident.without(&stay), kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u64]) -> PageSet {
        PageSet::of_numbers(numbers.to_vec())
    }

    fn reasons() -> Reasons {
        Reasons {
            stacks: set(&[1]),
            learned: vec![30, 10, 99],
            young: set(&[10, 20]),
            near: set(&[1, 20, 40, 41]),
            data: set(&[41, 60, 61]),
        }
    }

    #[test]
    fn each_page_that_stays_counts_once() {
        let resident = set(&[1, 2, 10, 20, 30, 40, 41, 50, 60]);
        let (leaves, kept) = plan(&resident, &reasons(), 100);
        assert_eq!(leaves, set(&[2, 50]));
        let expected = Kept {
            stack_pages: 1,
            learned_pages: 2,
            young_pages: 1,
            near_pages: 2,
            data_pages: 1,
            over_budget_pages: 0,
        };
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_budget_cuts_the_weakest_reasons_first() {
        let resident = set(&[1, 10, 20, 30, 40, 41]);
        let (leaves, kept) = plan(&resident, &reasons(), 1);
        assert_eq!(leaves, set(&[10, 20, 40, 41]));
        assert_eq!((kept.learned_pages, kept.over_budget_pages), (1, 4));
        let (leaves, kept) = plan(&resident, &reasons(), 0);
        assert_eq!(leaves, set(&[10, 20, 30, 40, 41]));
        assert_eq!(kept.stack_pages, 1);
    }
}
