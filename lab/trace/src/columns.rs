//! Events to columns of numbers and back.
//!
//! A block of `n` events is stored column by column: `n` kinds, `n` flags, `n` applications and so on.
//! Times, page numbers and arguments are differences to the event before, so that regular behaviour
//! becomes runs of equal bytes, which LZ4 packs well and unpacks fast.

use crate::event::{ContentId, Event, EventKind};
use crate::format::{EVENT_BYTES, PAGE_NUMBERS};
use warmswap_page::{AppId, FileId, LaunchKind, PageAddr};

const ACCESS: u8 = 0;
const CONTENT: u8 = 1;
const LAUNCH_BEGIN: u8 = 2;
const LAUNCH_END: u8 = 3;
const BACKGROUND: u8 = 4;
const FREE: u8 = 5;
const EXIT: u8 = 6;

const WRITE: u8 = 1;
const HAS_CONTENT: u8 = 2;
const IN_FILE: u8 = 4;
const RELAUNCH: u8 = 8;

/// What ids may be in an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) apps: u32,
    pub(crate) files: u32,
    pub(crate) contents: u64,
}

/// The field that is out of range, and its event in the block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadField {
    pub(crate) index: usize,
    pub(crate) field: &'static str,
    pub(crate) found: u64,
    pub(crate) expected: String,
}

/// One event as numbers, differences not yet taken.
#[derive(Clone, Copy, Default)]
struct Record {
    kind: u8,
    flags: u8,
    page: u64,
    file: u32,
    arg: u32,
}

impl Record {
    fn of(kind: &EventKind) -> Self {
        let bare = |kind| Self {
            kind,
            ..Self::default()
        };
        match *kind {
            EventKind::Access {
                page,
                write,
                content,
            } => {
                let mut record = bare(ACCESS).at(page);
                if write {
                    record.flags |= WRITE;
                }
                if let Some(content) = content {
                    record.flags |= HAS_CONTENT;
                    record.arg = content.0;
                }
                record
            }
            EventKind::Content { page, content } => Self {
                arg: content.0,
                ..bare(CONTENT).at(page)
            },
            EventKind::LaunchBegin(LaunchKind::Cold) => bare(LAUNCH_BEGIN),
            EventKind::LaunchBegin(LaunchKind::Relaunch) => Self {
                flags: RELAUNCH,
                ..bare(LAUNCH_BEGIN)
            },
            EventKind::LaunchEnd => bare(LAUNCH_END),
            EventKind::Background => bare(BACKGROUND),
            EventKind::Free { page, pages } => Self {
                arg: pages,
                ..bare(FREE).at(page)
            },
            EventKind::Exit => bare(EXIT),
        }
    }

    fn at(mut self, page: PageAddr) -> Self {
        match page {
            PageAddr::Anon { number } => self.page = number,
            PageAddr::File { file, number } => {
                self.page = number;
                self.file = file.0;
                self.flags |= IN_FILE;
            }
        }
        self
    }
}

/// A block of events being collected by a writer.
#[derive(Default)]
pub(crate) struct Columns {
    kinds: Vec<u8>,
    flags: Vec<u8>,
    apps: Vec<u8>,
    times: Vec<u8>,
    pages: Vec<u8>,
    files: Vec<u8>,
    args: Vec<u8>,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    page: u64,
    arg: u32,
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Appends an event. False, and nothing done, when it is too long after the event before; it then
    /// begins the next block.
    pub(crate) fn push(&mut self, event: &Event) -> bool {
        if self.len() == 0 {
            self.first_ns = event.time_ns;
            self.last_ns = event.time_ns;
            self.page = 0;
            self.arg = 0;
        }
        let Ok(delta) = u32::try_from(event.time_ns - self.last_ns) else {
            return false;
        };
        let mut record = Record::of(&event.kind);
        // A number that the event does not have repeats the one before: its difference packs to nothing.
        if !matches!(record.kind, ACCESS | CONTENT | FREE) {
            record.page = self.page;
        }
        if !matches!(record.kind, CONTENT | FREE) && record.flags & HAS_CONTENT == 0 {
            record.arg = self.arg;
        }
        self.kinds.push(record.kind);
        self.flags.push(record.flags);
        self.apps.extend_from_slice(&event.app.0.to_le_bytes());
        self.times.extend_from_slice(&delta.to_le_bytes());
        self.pages
            .extend_from_slice(&record.page.wrapping_sub(self.page).to_le_bytes());
        self.files.extend_from_slice(&record.file.to_le_bytes());
        self.args
            .extend_from_slice(&record.arg.wrapping_sub(self.arg).to_le_bytes());
        self.last_ns = event.time_ns;
        self.page = record.page;
        self.arg = record.arg;
        true
    }

    /// The block's bytes before compression; the block is empty afterwards.
    pub(crate) fn drain_into(&mut self, out: &mut Vec<u8>) {
        out.clear();
        out.reserve(self.len() * EVENT_BYTES);
        for column in [
            &mut self.kinds,
            &mut self.flags,
            &mut self.apps,
            &mut self.times,
            &mut self.pages,
            &mut self.files,
            &mut self.args,
        ] {
            out.append(column);
        }
    }
}

/// Checks an event before it is written.
pub(crate) fn check(event: &Event, limits: Limits) -> Result<(), BadField> {
    if u32::from(event.app.0) >= limits.apps {
        return Err(bad(
            0,
            "application",
            event.app.0.into(),
            below(limits.apps.into()),
        ));
    }
    match event.kind {
        EventKind::Access { page, content, .. } => {
            check_page(page, 1, limits)?;
            content.map_or(Ok(()), |c| check_content(c, limits))
        }
        EventKind::Content { page, content } => {
            check_page(page, 1, limits)?;
            check_content(content, limits)
        }
        EventKind::Free { page, pages } => {
            if pages == 0 {
                return Err(bad(0, "pages", 0, "at least 1".to_owned()));
            }
            check_page(page, pages, limits)
        }
        EventKind::LaunchBegin(_)
        | EventKind::LaunchEnd
        | EventKind::Background
        | EventKind::Exit => Ok(()),
    }
}

fn check_page(page: PageAddr, pages: u32, limits: Limits) -> Result<(), BadField> {
    let number = match page {
        PageAddr::Anon { number } => number,
        PageAddr::File { file, number } => {
            if file.0 >= limits.files {
                return Err(bad(0, "file", file.0.into(), below(limits.files.into())));
            }
            number
        }
    };
    if number > PAGE_NUMBERS - u64::from(pages) {
        return Err(bad(
            0,
            "page number",
            number,
            below(PAGE_NUMBERS - u64::from(pages) + 1),
        ));
    }
    Ok(())
}

fn check_content(content: ContentId, limits: Limits) -> Result<(), BadField> {
    if u64::from(content.0) >= limits.contents {
        return Err(bad(0, "content", content.0.into(), below(limits.contents)));
    }
    Ok(())
}

fn bad(index: usize, field: &'static str, found: u64, expected: String) -> BadField {
    BadField {
        index,
        field,
        found,
        expected,
    }
}

fn below(limit: u64) -> String {
    format!("less than {limit}")
}

/// Turns the columns of `count` events back into events, which replace those in `out`, and returns the
/// time of the last. `raw` has `count * EVENT_BYTES` bytes.
pub(crate) fn decode(
    raw: &[u8],
    count: usize,
    first_ns: u64,
    limits: Limits,
    out: &mut Vec<Event>,
) -> Result<u64, BadField> {
    debug_assert_eq!(raw.len(), count * EVENT_BYTES);
    let (kinds, raw) = raw.split_at(count);
    let (flags, raw) = raw.split_at(count);
    let (apps, raw) = raw.split_at(count * 2);
    let (times, raw) = raw.split_at(count * 4);
    let (pages, raw) = raw.split_at(count * 8);
    let (files, args) = raw.split_at(count * 4);
    let numbers = apps
        .as_chunks::<2>()
        .0
        .iter()
        .zip(times.as_chunks::<4>().0)
        .zip(pages.as_chunks::<8>().0);
    let numbers = numbers
        .zip(files.as_chunks::<4>().0)
        .zip(args.as_chunks::<4>().0);

    let (mut time_ns, mut page, mut arg) = (first_ns, 0u64, 0u32);
    let mut wrong = None;
    let records = kinds.iter().zip(flags).zip(numbers).enumerate();
    let events = records.map(
        |(index, ((&kind, &flags), ((((app, time), page_delta), file), arg_delta)))| {
            time_ns = time_ns.wrapping_add(u32::from_le_bytes(*time).into());
            page = page.wrapping_add(u64::from_le_bytes(*page_delta));
            arg = arg.wrapping_add(u32::from_le_bytes(*arg_delta));
            let file = u32::from_le_bytes(*file);
            let app = u16::from_le_bytes(*app);
            let record = Record {
                kind,
                flags,
                page,
                file,
                arg,
            };
            let kind = record.event(app, limits).unwrap_or_else(|| {
                wrong.get_or_insert((index, app, record));
                EventKind::Exit
            });
            Event {
                time_ns,
                app: AppId(app),
                kind,
            }
        },
    );
    // An iterator of known length fills the block without a look at its capacity for every event.
    out.clear();
    out.extend(events);
    match wrong {
        None => Ok(time_ns),
        Some((index, app, record)) => {
            out.clear();
            Err(BadField {
                index,
                ..record.explain(app, limits)
            })
        }
    }
}

impl Record {
    /// The event that these numbers stand for; `None` when they stand for none.
    #[inline(always)]
    fn event(&self, app: u16, limits: Limits) -> Option<EventKind> {
        // Nearly all events are accesses: they take one branch, everything else is arithmetic.
        let of_access = self.flags & !(WRITE | HAS_CONTENT | IN_FILE) == 0;
        let in_range = (u32::from(app) < limits.apps) & (self.page < PAGE_NUMBERS);
        let file = (self.flags & IN_FILE == 0) | (self.file < limits.files);
        let content = (self.flags & HAS_CONTENT == 0) | (u64::from(self.arg) < limits.contents);
        if (self.kind == ACCESS) & of_access & in_range & file & content {
            return Some(EventKind::Access {
                page: self.page(),
                write: self.flags & WRITE != 0,
                content: (self.flags & HAS_CONTENT != 0).then_some(ContentId(self.arg)),
            });
        }
        if self.kind == ACCESS || !in_range || !file {
            return None;
        }
        self.rare_event(limits)
    }

    #[inline(always)]
    fn page(&self) -> PageAddr {
        if self.flags & IN_FILE == 0 {
            PageAddr::Anon { number: self.page }
        } else {
            PageAddr::File {
                file: FileId(self.file),
                number: self.page,
            }
        }
    }

    /// An event that is not an access; application, page and file are in range.
    fn rare_event(&self, limits: Limits) -> Option<EventKind> {
        let allowed = match self.kind {
            CONTENT | FREE => IN_FILE,
            LAUNCH_BEGIN => RELAUNCH,
            _ => 0,
        };
        if self.flags & !allowed != 0 {
            return None;
        }
        let page = self.page();
        let has_content = u64::from(self.arg) < limits.contents;
        Some(match self.kind {
            CONTENT if has_content => EventKind::Content {
                page,
                content: ContentId(self.arg),
            },
            FREE if self.arg > 0 && self.page <= PAGE_NUMBERS - u64::from(self.arg) => {
                EventKind::Free {
                    page,
                    pages: self.arg,
                }
            }
            LAUNCH_BEGIN if self.flags == RELAUNCH => EventKind::LaunchBegin(LaunchKind::Relaunch),
            LAUNCH_BEGIN => EventKind::LaunchBegin(LaunchKind::Cold),
            LAUNCH_END => EventKind::LaunchEnd,
            BACKGROUND => EventKind::Background,
            EXIT => EventKind::Exit,
            _ => return None,
        })
    }

    /// Why these numbers stand for no event.
    #[cold]
    fn explain(&self, app: u16, limits: Limits) -> BadField {
        if u32::from(app) >= limits.apps {
            return bad(0, "application", app.into(), below(limits.apps.into()));
        }
        if self.kind > EXIT {
            return bad(0, "kind", self.kind.into(), below(u64::from(EXIT) + 1));
        }
        if self.page >= PAGE_NUMBERS {
            return bad(0, "page number", self.page, below(PAGE_NUMBERS));
        }
        if self.flags & IN_FILE != 0 && self.file >= limits.files {
            return bad(0, "file", self.file.into(), below(limits.files.into()));
        }
        match self.kind {
            ACCESS | CONTENT if u64::from(self.arg) >= limits.contents => {
                bad(0, "content", self.arg.into(), below(limits.contents))
            }
            FREE if self.flags & !IN_FILE == 0 => bad(
                0,
                "pages",
                self.arg.into(),
                format!("1 to {}", PAGE_NUMBERS - self.page),
            ),
            _ => bad(
                0,
                "flags",
                self.flags.into(),
                format!("flags of kind {}", self.kind),
            ),
        }
    }
}
