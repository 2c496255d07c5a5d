//! A scheme: one policy in each slot, by name.

use crate::admission::{self, Admission};
use crate::entry::{PolicyEntry, PolicyError, SLOTS, build};
use crate::eviction::{self, Eviction};
use crate::prefetch::{self, Prefetch};
use crate::reclaim::{self, Reclaim};
use crate::sizing::{self, Sizing};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use warmswap_page::Layout;

/// The text of a scheme: what stands in each slot, as on the command line and in a config file.
///
/// ```
/// # use warmswap_policy::SchemeSpec;
/// let mut spec = SchemeSpec::named("ariadne")?;
/// spec.set("prefetch=none")?;
/// let scheme = spec.build()?;
/// assert_eq!(scheme.prefetch.buffer_pages(), 0);
/// # Ok::<(), warmswap_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeSpec {
    /// What it is called in results; a changed slot is appended.
    pub name: String,
    /// Which resident pages leave.
    pub reclaim: Cow<'static, str>,
    /// How they are cut into chunks.
    pub sizing: Cow<'static, str>,
    /// Which enter the pool.
    pub admission: Cow<'static, str>,
    /// Which leave the pool.
    pub eviction: Cow<'static, str>,
    /// Which come back early.
    pub prefetch: Cow<'static, str>,
    /// True: the stored copy of a page that came back is kept while it is clean and there is room.
    pub keep_copies: bool,
    /// True: clean pages of files enter the pool, too (ezswap section III-A).
    #[serde(default)]
    pub file_pages: bool,
    /// How the pool lays its objects out.
    #[serde(default)]
    pub layout: Layout,
}

/// A scheme that can run.
#[derive(Debug)]
pub struct Scheme {
    /// Which resident pages leave.
    pub reclaim: Box<dyn Reclaim>,
    /// How they are cut into chunks.
    pub sizing: Box<dyn Sizing>,
    /// Which enter the pool.
    pub admission: Box<dyn Admission>,
    /// Which leave the pool.
    pub eviction: Box<dyn Eviction>,
    /// Which come back early.
    pub prefetch: Box<dyn Prefetch>,
    /// True: the stored copy of a page that came back is kept while it is clean and there is room.
    pub keep_copies: bool,
    /// True: clean pages of files enter the pool, too.
    pub file_pages: bool,
    /// How the host's pool lays its objects out.
    pub layout: Layout,
}

/// One line of the table of schemes.
struct Named {
    name: &'static str,
    slots: [&'static str; 5],
    keep_copies: bool,
    file_pages: bool,
    layout: Layout,
    summary: &'static str,
}

/// The configuration that plain `ariadne` stands for.
const ARIADNE_DEFAULT: &str = "ariadne-ehl-1k-2k-16k";

/// The table of schemes, a line each.
macro_rules! schemes {
    (@yes) => { true };
    (@no) => { false };
    ($($name:literal | $reclaim:literal $sizing:literal $admission:literal $eviction:literal
        $prefetch:literal | $kept:ident $files:ident $layout:ident | $summary:literal;)+) => {
        &[$(Named {
            name: $name,
            slots: [$reclaim, $sizing, $admission, $eviction, $prefetch],
            keep_copies: schemes!(@$kept),
            file_pages: schemes!(@$files),
            layout: Layout::$layout,
            summary: $summary,
        },)+]
    };
}

/// The schemes with a name of their own; `ariadne-{al,ehl}-SMALL-MEDIUM-LARGE` is a pattern beside them.
/// The parts of ezswap are over the pool of its paper, three objects a page.
const SCHEMES: &[Named] = schemes! {
    // name           | reclaim            sizing      admission    eviction     prefetch              | keeps copies, takes file pages, layout | what it is
    "dram" |         "never"             "page"      "all"        "none"       "none"                 | no   no   SizeClasses | "memory without pressure";
    "swap" |         "kernel-lru"        "page"      "nothing"    "none"       "none"                 | yes  no   SizeClasses | "swap on flash only";
    "zram" |         "kernel-lru"        "page"      "all"        "none"       "none"                 | no   no   SizeClasses | "the kernel's zram";
    "zswap" |        "kernel-lru"        "page"      "all"        "lru"        "none"                 | no   no   SizeClasses | "the kernel's zswap before flash swap";
    "ezswap" |       "kernel-lru"        "page"      "selective"  "lottery"    "none"                 | no   yes  Z3fold      | "ezswap: all three of its parts";
    "ezswap-zswap" | "kernel-lru"        "page"      "all"        "lru-pages"  "none"                 | no   no   Z3fold      | "ezswap's baseline: zswap over z3fold";
    "ezswap-apa" |   "kernel-lru"        "page"      "all"        "lru-pages"  "none"                 | no   yes  Z3fold      | "the same, and clean pages of files";
    "ezswap-apa-ca" |"kernel-lru"        "page"      "all"        "lottery"    "none"                 | no   yes  Z3fold      | "ezswap without its admission";
    "ezswap-apa-sa" |"kernel-lru"        "page"      "selective"  "lru-pages"  "none"                 | no   yes  Z3fold      | "ezswap without its eviction";
    "ezswap-ca-sa" | "kernel-lru"        "page"      "selective"  "lottery"    "none"                 | no   no   Z3fold      | "ezswap without pages of files";
    "asap" |         "kernel-lru"        "page"      "all"        "none"       "footprint"            | no   no   SizeClasses | "ASAP: zram, and each launch brings its footprint back";
    "asap-anon" |    "kernel-lru"        "page"      "all"        "none"       "footprint:only=anon"  | no   no   SizeClasses | "ASAP, anonymous pages only";
    "asap-file" |    "kernel-lru"        "page"      "all"        "none"       "footprint:only=file"  | no   no   SizeClasses | "ASAP, pages of files only";
    "all-four" |     "hotness:hot=keep"  "adaptive:1k-2k-16k" "selective" "coldest-lottery" "both"     | no   yes  SizeClasses | "Ariadne, ezswap and ASAP at once; Fleet's part is the heap's";
    "lru" |          "lru"               "page"      "all"        "lru"        "none"                 | yes  no   SizeClasses | "exact LRU: what the way to the optimum is measured from";
    "optimal-windows" | "optimal:for=windows" "page" "all"        "lru"        "none"                 | yes  no   SizeClasses | "clairvoyant about launch windows: a limit, in replay only";
    "optimal" |      "optimal"           "page"      "all"        "lru"        "none"                 | yes  no   SizeClasses | "clairvoyant: the limit of reclaim, in replay only";
    "warmswap" |     "adaptive"           "page"      "all"        "coldest"    "next:least=25"        | yes  no   SizeClasses | "ours";
};

/// The size configurations of the paper's section 6.
pub const ARIADNE_SIZES: [&str; 6] = [
    "256-2k-32k",
    "512-2k-16k",
    "1k-2k-16k",
    "1k-4k-16k",
    "1k-4k-64k",
    "256-1k-4k",
];

impl SchemeSpec {
    /// The names of all schemes with what each is, those of Ariadne spelt out.
    pub fn all_names() -> Vec<(String, &'static str)> {
        let mut names: Vec<_> = SCHEMES
            .iter()
            .map(|s| (s.name.to_owned(), s.summary))
            .collect();
        let ours = names.pop();
        names.push(("ariadne".to_owned(), "short for ariadne-ehl-1k-2k-16k"));
        for (mode, summary) in [
            ("al", "Ariadne, all lists compressed"),
            ("ehl", "Ariadne, hot list excluded"),
        ] {
            names.extend(ARIADNE_SIZES.map(|sizes| (format!("ariadne-{mode}-{sizes}"), summary)));
        }
        names.extend(ours);
        names
    }

    /// The scheme of that name.
    ///
    /// # Errors
    /// [`PolicyError::UnknownScheme`].
    pub fn named(name: &str) -> Result<Self, PolicyError> {
        let unknown = || PolicyError::UnknownScheme {
            name: name.to_owned(),
            known: SCHEMES
                .iter()
                .map(|s| s.name)
                .chain(["ariadne", "ariadne-{al,ehl}-SMALL-MEDIUM-LARGE"])
                .collect::<Vec<_>>()
                .join(", "),
        };
        if let Some(found) = SCHEMES.iter().find(|scheme| scheme.name == name) {
            let [reclaim, sizing, admission, eviction, prefetch] = found.slots.map(Cow::Borrowed);
            return Ok(Self {
                name: name.to_owned(),
                reclaim,
                sizing,
                admission,
                eviction,
                prefetch,
                keep_copies: found.keep_copies,
                file_pages: found.file_pages,
                layout: found.layout,
            });
        }
        let full = if name == "ariadne" {
            ARIADNE_DEFAULT
        } else {
            name
        };
        let (mode, sizes) = full
            .strip_prefix("ariadne-")
            .and_then(|rest| rest.split_once('-'))
            .ok_or_else(unknown)?;
        let hot = match mode {
            "al" => "last",
            "ehl" => "keep",
            _ => return Err(unknown()),
        };
        let spec = Self {
            name: name.to_owned(),
            reclaim: format!("hotness:hot={hot}").into(),
            sizing: format!("adaptive:{sizes}").into(),
            admission: "all".into(),
            eviction: "coldest".into(),
            prefetch: "next".into(),
            keep_copies: false,
            file_pages: false,
            layout: Layout::SizeClasses,
        };
        spec.build().map(|_| spec).map_err(|_| unknown())
    }

    /// Exchanges one slot: `prefetch=none`, `sizing=adaptive:1k-4k-16k`, `codec=zstd`, `keep-copies=on`,
    /// `file-pages=on`, `layout=z3fold`.
    /// The name says so afterwards.
    ///
    /// # Errors
    /// A slot, policy or argument that does not exist; the spec is unchanged then.
    pub fn set(&mut self, change: &str) -> Result<(), PolicyError> {
        let mut next = self.clone();
        let Some((slot, value)) = change.split_once('=') else {
            let change = change.to_owned();
            return Err(if SLOTS.split(", ").any(|slot| slot == change) {
                PolicyError::NoPolicy(change)
            } else {
                PolicyError::UnknownSlot(change)
            });
        };
        let owned = || Cow::Owned(value.to_owned());
        match slot {
            "reclaim" => next.reclaim = owned(),
            "sizing" => next.sizing = owned(),
            "admission" => next.admission = owned(),
            "eviction" => next.eviction = owned(),
            "prefetch" => next.prefetch = owned(),
            "codec" => {
                let joint = if next.sizing.contains(':') { ',' } else { ':' };
                next.sizing = format!("{}{joint}codec={value}", next.sizing).into();
            }
            "keep-copies" => next.keep_copies = on_or_off("keep-copies", value)?,
            "file-pages" => next.file_pages = on_or_off("file-pages", value)?,
            "layout" => {
                let found = Layout::ALL
                    .into_iter()
                    .find(|layout| layout.name() == value);
                next.layout = found.ok_or_else(|| PolicyError::BadSetting {
                    setting: "layout",
                    value: value.to_owned(),
                    reason: format!("it is one of {}", Layout::ALL.map(Layout::name).join(", ")),
                })?;
            }
            _ => return Err(PolicyError::UnknownSlot(slot.to_owned())),
        }
        next.name = format!("{}+{change}", self.name);
        next.build()?;
        *self = next;
        Ok(())
    }

    /// The scheme of a name with changes behind plus signs: `ariadne+prefetch=none+codec=zstd`.
    ///
    /// # Errors
    /// Those of [`Self::named`] and [`Self::set`].
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut parts = text.split('+');
        let mut spec = Self::named(parts.next().unwrap_or_default())?;
        parts.try_for_each(|change| spec.set(change))?;
        Ok(spec)
    }

    /// Builds the policies.
    ///
    /// # Errors
    /// A policy or argument that does not exist.
    pub fn build(&self) -> Result<Scheme, PolicyError> {
        Ok(Scheme {
            reclaim: build("reclaim", reclaim::ENTRIES, &self.reclaim)?,
            sizing: build("sizing", sizing::ENTRIES, &self.sizing)?,
            admission: build("admission", admission::ENTRIES, &self.admission)?,
            eviction: build("eviction", eviction::ENTRIES, &self.eviction)?,
            prefetch: build("prefetch", prefetch::ENTRIES, &self.prefetch)?,
            keep_copies: self.keep_copies,
            file_pages: self.file_pages,
            layout: self.layout,
        })
    }
}

/// The value of a setting that is a switch.
fn on_or_off(setting: &'static str, value: &str) -> Result<bool, PolicyError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(PolicyError::BadSetting {
            setting,
            value: value.to_owned(),
            reason: "it is on or off".to_owned(),
        }),
    }
}

/// One row of the table of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyRow {
    /// The slot.
    pub slot: &'static str,
    /// The policy's name.
    pub name: &'static str,
    /// What it does and takes.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// Every policy of every slot: what the command line and the docs show.
pub fn policies() -> Vec<PolicyRow> {
    fn rows<P: ?Sized>(
        slot: &'static str,
        entries: &'static [PolicyEntry<P>],
    ) -> impl Iterator<Item = PolicyRow> {
        entries.iter().map(move |e| PolicyRow {
            slot,
            name: e.name,
            summary: e.summary,
            source: e.source,
        })
    }
    rows("reclaim", reclaim::ENTRIES)
        .chain(rows("sizing", sizing::ENTRIES))
        .chain(rows("admission", admission::ENTRIES))
        .chain(rows("eviction", eviction::ENTRIES))
        .chain(rows("prefetch", prefetch::ENTRIES))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Hotness;

    #[test]
    fn every_named_scheme_builds() {
        for (name, _) in SchemeSpec::all_names() {
            SchemeSpec::named(&name)
                .and_then(|spec| spec.build())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn ariadne_reads_sizes_and_modes() {
        let scheme = SchemeSpec::named("ariadne-al-256-2k-32k")
            .unwrap()
            .build()
            .unwrap();
        assert_eq!(scheme.sizing.plan(Hotness::Cold).chunk_bytes(), 32 << 10);
        for bad in [
            "ariadne-xl-1k-2k-16k",
            "ariadne-al",
            "ariadne-al-1k-2k",
            "ariadne-",
            "zramm",
            "",
        ] {
            assert!(
                matches!(
                    SchemeSpec::named(bad),
                    Err(PolicyError::UnknownScheme { .. })
                ),
                "{bad}"
            );
        }
    }

    #[test]
    fn what_was_probably_meant_is_asked() {
        for (text, asked) in [
            ("zrm", "did you mean zram? "),
            ("arriadne", "did you mean ariadne? "),
            ("zram+prefech=none", "did you mean prefetch? "),
            ("zram+prefetch=nxt", "did you mean next? "),
            ("zram+prefetch", "write prefetch=POLICY"),
        ] {
            let error = SchemeSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(asked), "{text}: {error}");
        }
        let error = SchemeSpec::parse("quux").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn a_slot_can_be_exchanged_and_a_bad_change_leaves_the_spec_alone() {
        let mut spec = SchemeSpec::parse("zram+codec=zstd+prefetch=next:buffer=8").unwrap();
        assert_eq!(spec.name, "zram+codec=zstd+prefetch=next:buffer=8");
        assert_eq!(spec.build().unwrap().prefetch.buffer_pages(), 8);
        let before = spec.clone();
        for bad in [
            "prefetch=psychic",
            "colour=red",
            "prefetch",
            "keep-copies=maybe",
            "file-pages=",
            "layout=zsmalloc",
            "eviction=lottery:seed=x",
            "codec=gzip",
            "eviction=none:x",
        ] {
            assert!(spec.set(bad).is_err(), "{bad}");
            assert_eq!(spec, before);
        }
    }

    #[test]
    fn ezswap_is_its_three_parts_and_each_can_be_switched_off() {
        let ezswap = SchemeSpec::named("ezswap").unwrap();
        assert_eq!(ezswap.layout, Layout::Z3fold);
        for (name, change) in [
            ("ezswap-apa-ca", "admission=all"),
            ("ezswap-apa-sa", "eviction=lru-pages"),
            ("ezswap-ca-sa", "file-pages=off"),
        ] {
            let mut without = ezswap.clone();
            without.set(change).unwrap();
            without.name = name.to_owned();
            assert_eq!(without, SchemeSpec::named(name).unwrap());
        }
    }

    #[test]
    fn all_four_has_the_parts_of_the_papers() {
        let named = |name| SchemeSpec::named(name).unwrap();
        let [all, ariadne, ezswap] = ["all-four", "ariadne", "ezswap"].map(named);
        assert_eq!(
            (&all.reclaim, &all.sizing),
            (&ariadne.reclaim, &ariadne.sizing)
        );
        assert_eq!(
            (&all.admission, all.file_pages),
            (&ezswap.admission, ezswap.file_pages)
        );
        let is_joint =
            |joint: &str, slots: [&str; 2]| slots.iter().all(|slot| joint.contains(slot));
        assert!(is_joint(
            &all.eviction,
            [&ariadne.eviction, &ezswap.eviction]
        ));
        let prefetch = all.build().unwrap().prefetch;
        assert!(prefetch.buffer_pages() > 0 && prefetch.watches_launches());
    }

    #[test]
    fn policy_names_are_unique_within_a_slot() {
        let rows = policies();
        for (i, row) in rows.iter().enumerate() {
            assert!(
                !rows[..i]
                    .iter()
                    .any(|other| (other.slot, other.name) == (row.slot, row.name)),
                "{row:?}"
            );
        }
    }
}
