//! What applications do, and how to draw it at random.

use super::memory::Shape;
use proptest::prelude::*;
use std::fmt;
use warmswap_engine::Limits;
use warmswap_page::{AppId, FileId, LaunchKind, PageAddr};

/// One thing that happens. Its debug form is one line, for the lists of failed runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Pages are touched, one after another.
    Touch {
        app: u16,
        from: PageAddr,
        pages: u64,
        write: bool,
    },
    /// Pages are written unseen.
    Changed {
        app: u16,
        from: PageAddr,
        pages: u64,
    },
    /// Pages of a file are written in their file.
    FileWritten {
        from: PageAddr,
        pages: u64,
    },
    LaunchBegin(u16, LaunchKind),
    LaunchEnd(u16),
    Background(u16),
    Shrink(u16),
    Free {
        app: u16,
        from: PageAddr,
        pages: u32,
    },
    /// A part of an application's address space ends: so many blocks of pages from this one on.
    FreeBlocks {
        app: u16,
        first: u64,
        blocks: u64,
    },
    Exit(u16),
    /// No thread waits for a while: background decisions are taken.
    Idle,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Touch {
                app,
                from,
                pages,
                write,
            } => {
                write!(f, "Touch app {app} {from:?} +{pages} write {write}")
            }
            Self::Changed { app, from, pages } => write!(f, "Changed app {app} {from:?} +{pages}"),
            Self::FileWritten { from, pages } => write!(f, "FileWritten {from:?} +{pages}"),
            Self::LaunchBegin(app, kind) => write!(f, "LaunchBegin app {app} {kind:?}"),
            Self::LaunchEnd(app) => write!(f, "LaunchEnd app {app}"),
            Self::Background(app) => write!(f, "Background app {app}"),
            Self::Shrink(app) => write!(f, "Shrink app {app}"),
            Self::Free { app, from, pages } => write!(f, "Free app {app} {from:?} +{pages}"),
            Self::FreeBlocks { app, first, blocks } => {
                write!(f, "FreeBlocks app {app} {first} +{blocks}")
            }
            Self::Exit(app) => write!(f, "Exit app {app}"),
            Self::Idle => write!(f, "Idle"),
        }
    }
}

/// The address `n` pages further.
pub fn nth(from: PageAddr, n: u64) -> PageAddr {
    match from {
        PageAddr::Anon { number } => PageAddr::Anon { number: number + n },
        PageAddr::File { file, number } => PageAddr::File {
            file,
            number: number + n,
        },
    }
}

/// The application of an event.
pub fn app_of(app: u16) -> AppId {
    AppId(app)
}

/// Limits, page sizes and failures of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub limits: Limits,
    pub shape: Shape,
    pub fail_every: u32,
    /// Seed of the order in which work under way is finished.
    pub seed: u64,
}

/// Budgets from the least to one that holds everything; pools and backing files from none to large ones;
/// backing files that fail sometimes, or always.
pub fn setup() -> impl Strategy<Value = Setup> {
    let budget = prop_oneof![3 => 64..130_u64, 2 => 130..400_u64, 1 => 2000..2001_u64];
    let pool_percent = prop_oneof![1 => Just(0), 3 => 1..60_u64, 2 => Just(100)];
    let backing = prop_oneof![2 => Just(0), 2 => 1..60_u64, 2 => Just(5000)];
    let fail_every = prop_oneof![3 => Just(0), 1 => 1..8_u32];
    let shape = prop_oneof![
        3 => Just(Shape::Mixed),
        1 => prop_oneof![Just(0), Just(1300), Just(4096)].prop_map(|bytes| Shape::Even { bytes }),
    ];
    (
        budget,
        pool_percent,
        backing,
        fail_every,
        shape,
        any::<u64>(),
    )
        .prop_map(
            |(budget, percent, backing, fail_every, shape, seed)| Setup {
                limits: super::pages(budget, budget * percent / 100, backing),
                shape,
                fail_every,
                seed,
            },
        )
}

fn file_address() -> impl Strategy<Value = PageAddr> {
    (0..2_u32, 0..60_u64).prop_map(|(file, number)| PageAddr::File {
        file: FileId(file),
        number,
    })
}

fn address() -> impl Strategy<Value = PageAddr> {
    prop_oneof![
        3 => (0..120_u64).prop_map(|number| PageAddr::Anon { number }),
        1 => file_address(),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let app = 0..4_u16;
    let run = prop_oneof![2 => 1..4_u64, 3 => 4..60_u64];
    let kind = prop_oneof![Just(LaunchKind::Cold), Just(LaunchKind::Relaunch)];
    prop_oneof![
        12 => (app.clone(), address(), run.clone(), any::<bool>())
            .prop_map(|(app, from, pages, write)| Event::Touch { app, from, pages, write }),
        1 => (app.clone(), address(), run.clone())
            .prop_map(|(app, from, pages)| Event::Changed { app, from, pages }),
        1 => (file_address(), 1..8_u64)
            .prop_map(|(from, pages)| Event::FileWritten { from, pages }),
        2 => (app.clone(), kind).prop_map(|(app, kind)| Event::LaunchBegin(app, kind)),
        2 => app.clone().prop_map(Event::LaunchEnd),
        2 => app.clone().prop_map(Event::Background),
        1 => app.clone().prop_map(Event::Shrink),
        1 => (app.clone(), address(), run)
            .prop_map(|(app, from, pages)| Event::Free { app, from, pages: pages as u32 }),
        1 => app.prop_map(Event::Exit),
        2 => Just(Event::Idle),
    ]
}

/// A sequence of events in which parts of address spaces end, and others begin.
pub fn events_with_parts(len: usize) -> impl Strategy<Value = Vec<Event>> {
    let ends = (0..4_u16, 0..3_u64, 1..3_u64).prop_map(|(app, first, blocks)| Event::FreeBlocks {
        app,
        first,
        blocks,
    });
    prop::collection::vec(prop_oneof![8 => event(), 1 => ends], 1..len)
}

/// A sequence of events.
pub fn events(len: usize) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 1..len)
}
