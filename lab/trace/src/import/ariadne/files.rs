//! The files of a folder, in either of their forms.

use std::fmt::Display;
use std::path::Path;

use crate::error::{Position, Result, TraceError};
use crate::import::text::{Input, number, numbers, shown};
use warmswap_page::PAGE_BYTES;

use super::{HEADER_BYTES, PFN_BITS, SECTORS_PER_PAGE};

const PREFIX: &[u8] = b"TEST^^^#";
const SUFFIX: &[u8] = b"#^^^";

/// One swap-out.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwapOut {
    pub uid: u64,
    pub pfn: u64,
    pub sector: u64,
}

/// The swap-outs in either form.
pub(super) enum SwapOuts {
    Joined(Input),
    Split { meta: Input, data: Input },
}

impl SwapOuts {
    pub fn open(dir: &Path) -> Result<Self> {
        const JOINED: &str = "swapout_trace.txt";
        let (meta, data) = (format!("{JOINED}.meta"), format!("{JOINED}.data"));
        if let Some(input) = Input::open(&dir.join(JOINED))? {
            one_form(dir, JOINED, &[meta, data])?;
            return Ok(Self::Joined(input));
        }
        let missing = |name: &str| TraceError::NothingToImport {
            path: dir.join(name),
        };
        let opened = Input::open(&dir.join(&meta))?;
        let meta = opened.ok_or_else(|| missing(JOINED))?;
        let opened = Input::open(&dir.join(&data))?;
        let data = opened.ok_or_else(|| missing(&data))?;
        Ok(Self::Split { meta, data })
    }

    pub fn next(&mut self, page: &mut [u8; PAGE_BYTES]) -> Result<Option<SwapOut>> {
        const EXPECTED: &str = "TEST^^^#uid,pfn,sector#^^^";
        let ([uid, pfn, sector], input, position) = match self {
            Self::Joined(input) => {
                let position = Position::Byte(input.byte());
                let mut record = [0; HEADER_BYTES + PAGE_BYTES];
                if !input.fill(&mut record, "a record")? {
                    return Ok(None);
                }
                let (header, content) = record.split_at(HEADER_BYTES);
                let Some(fields) = header_fields(header) else {
                    return Err(input.bad(position, shown(header), EXPECTED));
                };
                page.copy_from_slice(content);
                (fields, input, position)
            }
            Self::Split { meta, data } => {
                let Some(fields) = meta.numbers("uid,pfn,sector")? else {
                    return match data.fill(&mut page[..1], "nothing more")? {
                        true => Err(data.bad(
                            Position::Byte(data.byte() - 1),
                            "a page",
                            "the end, as in the .meta file",
                        )),
                        false => Ok(None),
                    };
                };
                let position = Position::Byte(data.byte());
                if !data.fill(page, "a page")? {
                    return Err(data.bad(
                        position,
                        "the end",
                        "a page for each line of the .meta file",
                    ));
                }
                let position = Position::Line(meta.line_number());
                (fields, meta, position)
            }
        };
        match fault(uid, pfn, sector) {
            Some((found, expected)) => Err(input.bad(position, found, expected)),
            None => Ok(Some(SwapOut { uid, pfn, sector })),
        }
    }
}

/// What of these numbers cannot be, and what it has to be.
pub(super) fn fault<U: Copy + Display>(
    uid: U,
    pfn: u64,
    sector: u64,
) -> Option<(String, &'static str)>
where
    u32: TryFrom<U>,
{
    if u32::try_from(uid).is_err() {
        return Some((format!("uid {uid}"), "a uid of at most 32 bits"));
    }
    if pfn >> PFN_BITS != 0 {
        return Some((format!("pfn {pfn}"), "a pfn of at most 40 bits"));
    }
    let is_page = sector.is_multiple_of(SECTORS_PER_PAGE);
    (!is_page).then(|| (format!("sector {sector}"), "a multiple of 8"))
}

/// The three numbers of a record's header.
fn header_fields(header: &[u8]) -> Option<[u64; 3]> {
    let rest = header.strip_prefix(PREFIX)?;
    let end = rest.windows(SUFFIX.len()).position(|w| w == SUFFIX)?;
    numbers(&rest[..end])
}

/// Refuses a folder that has the file `name` and one of another form of it.
fn one_form(dir: &Path, name: &str, others: &[String]) -> Result<()> {
    match others.iter().find(|other| dir.join(other).exists()) {
        None => Ok(()),
        Some(other) => Err(TraceError::TwoForms {
            path: dir.join(name),
            other: other.clone(),
        }),
    }
}

/// The swap-ins in either form: uid and sector.
pub(super) enum SwapIns {
    Text(Input),
    Binary(Input),
}

impl SwapIns {
    pub fn open(dir: &Path, name: &str) -> Result<Option<Self>> {
        let meta = format!("{name}.meta");
        if let Some(input) = Input::open(&dir.join(name))? {
            one_form(dir, name, &[meta])?;
            return Ok(Some(Self::Text(input)));
        }
        Ok(Input::open(&dir.join(meta))?.map(Self::Binary))
    }

    pub fn next(&mut self) -> Result<Option<(u64, u64)>> {
        match self {
            Self::Text(input) => {
                let Some(line) = input.line()? else {
                    return Ok(None);
                };
                let Some((uid, sector)) = swap_in_fields(line) else {
                    let found = shown(line);
                    return Err(input.bad_line(found, SWAP_IN_LINE));
                };
                match fault(uid, 0, sector) {
                    Some((found, expected)) => Err(input.bad_line(found, expected)),
                    None => Ok(Some((uid, sector))),
                }
            }
            Self::Binary(input) => {
                let position = Position::Byte(input.byte());
                let mut pair = [0; 16];
                if !input.fill(&mut pair, "a pair of uid and sector")? {
                    return Ok(None);
                }
                let pair = u128::from_le_bytes(pair);
                let (uid, sector) = (pair as u64, (pair >> 64) as u64);
                // Signed numbers are what most of these are.
                match fault(uid.cast_signed(), 0, sector) {
                    Some((found, expected)) => Err(input.bad(position, found, expected)),
                    None => Ok(Some((uid, sector))),
                }
            }
        }
    }
}

/// What a swap-in looks like as text.
pub(super) const SWAP_IN_LINE: &str = "a line \"...uid,...,sector\" with a decimal uid";

/// The number at the end of the first field, and the last field. Digits that belong to a longer word are no uid: a negative,
/// hexadecimal or fractional number, or a name.
pub(super) fn swap_in_fields(line: &[u8]) -> Option<(u64, u64)> {
    let first = line.split(|&b| b == b',').next()?.trim_ascii();
    let digits = first
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let (before, uid) = first.split_at(first.len() - digits);
    let is_alone = |&last: &u8| matches!(last, b'=' | b':') || last.is_ascii_whitespace();
    let is_signed = matches!(before.trim_ascii_end().last(), Some(b'-' | b'+'));
    if digits == 0 || !before.last().is_none_or(is_alone) || is_signed {
        return None;
    }
    let last = line
        .rsplitn(2, |&b| b == b',')
        .next()
        .filter(|last| last.len() < line.len())?;
    if last.trim_ascii().is_empty() {
        return None;
    }
    Some((number(uid)?, number(last)?))
}
