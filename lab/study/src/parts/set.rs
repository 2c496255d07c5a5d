//! Sets of the papers' parts, each of which is a scheme.

use std::borrow::Cow;

use warmswap_policy::{PolicyError, SchemeSpec};

/// The scheme of all parts.
pub const ALL: &str = "all-four";

/// The scheme without parts: what the papers add to, with the same backing file.
pub const PLAIN: &str = "zswap";

/// What a paper adds to compressed swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Lists of pages by hotness (Ariadne section 4.2).
    HotnessOrg,
    /// Chunk sizes by hotness (Ariadne section 4.3).
    AdaptiveComp,
    /// The next chunk comes along (Ariadne section 4.4).
    PreDecomp,
    /// Cold chunks are written back first (Ariadne section 4.2).
    Coldest,
    /// Only pages of some benefit enter the pool (ezswap section III-B).
    Admission,
    /// What leaves the pool is drawn by its cost (ezswap section III-C).
    Lottery,
    /// Clean pages of files enter the pool (ezswap section III-A).
    FilePages,
    /// A launch brings its footprint back (ASAP).
    Footprints,
}

impl Part {
    /// All parts, paper by paper.
    pub const ALL: [Self; 8] = [
        Self::HotnessOrg,
        Self::AdaptiveComp,
        Self::PreDecomp,
        Self::Coldest,
        Self::Admission,
        Self::Lottery,
        Self::FilePages,
        Self::Footprints,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::HotnessOrg => "HotnessOrg",
            Self::AdaptiveComp => "AdaptiveComp",
            Self::PreDecomp => "PreDecomp",
            Self::Coldest => "coldest first",
            Self::Admission => "selective admission",
            Self::Lottery => "lottery",
            Self::FilePages => "pages of files",
            Self::Footprints => "footprints",
        }
    }

    /// The paper that it is of.
    pub fn paper(self) -> &'static str {
        match self {
            Self::HotnessOrg | Self::AdaptiveComp | Self::PreDecomp | Self::Coldest => "Ariadne",
            Self::Admission | Self::Lottery | Self::FilePages => "ezswap",
            Self::Footprints => "ASAP",
        }
    }
}

/// A set of parts, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts(u8);

impl Parts {
    /// No part.
    pub const NONE: Self = Self(0);
    /// Each of [`Part::ALL`].
    pub const ALL: Self = Self(u8::MAX);

    /// These parts.
    pub fn of(parts: &[Part]) -> Self {
        Self(parts.iter().fold(0, |bits, &part| bits | 1 << part as u8))
    }

    /// The parts of a paper.
    pub fn of_paper(paper: &str) -> Self {
        let of_paper = Part::ALL.into_iter().filter(|part| part.paper() == paper);
        Self::of(&of_paper.collect::<Vec<_>>())
    }

    /// All other parts.
    #[must_use]
    pub fn others(self) -> Self {
        Self(!self.0)
    }

    /// Whether the part is in the set.
    pub fn has(self, part: Part) -> bool {
        self.0 & 1 << part as u8 != 0
    }

    /// The names of its parts.
    pub fn names(self) -> String {
        let parts = Part::ALL.into_iter().filter(|&part| self.has(part));
        parts.map(Part::name).collect::<Vec<_>>().join(" + ")
    }

    /// The papers that its parts are of.
    pub fn papers(self) -> String {
        let parts = Part::ALL.into_iter().filter(|&part| self.has(part));
        let mut papers: Vec<&str> = parts.map(Part::paper).collect();
        papers.dedup();
        papers.join(", ")
    }

    /// The scheme: a slot has what [`ALL`] has in it if the set has the part, and what [`PLAIN`] has otherwise.
    ///
    /// # Errors
    /// None in practice: the names are those of schemes.
    pub fn scheme(self) -> Result<SchemeSpec, PolicyError> {
        let (all, plain) = (SchemeSpec::named(ALL)?, SchemeSpec::named(PLAIN)?);
        let pick = |part, ours, others| if self.has(part) { ours } else { others };
        Ok(SchemeSpec {
            name: self.scheme_name(),
            reclaim: pick(Part::HotnessOrg, all.reclaim, plain.reclaim),
            sizing: pick(Part::AdaptiveComp, all.sizing, plain.sizing),
            admission: pick(Part::Admission, all.admission, plain.admission),
            eviction: self.eviction(),
            prefetch: self.prefetch(),
            file_pages: self.has(Part::FilePages),
            ..plain
        })
    }

    pub(super) fn scheme_name(self) -> String {
        match self {
            Self::ALL => ALL.to_owned(),
            Self::NONE => PLAIN.to_owned(),
            _ if self.0.count_ones() > 4 => format!("{ALL} without {}", self.others().names()),
            _ => format!("{PLAIN} with {}", self.names()),
        }
    }

    fn eviction(self) -> Cow<'static, str> {
        let policy = match (self.has(Part::Coldest), self.has(Part::Lottery)) {
            (true, true) => "coldest-lottery",
            (true, false) => "coldest",
            (false, true) => "lottery",
            (false, false) => "lru",
        };
        policy.into()
    }

    fn prefetch(self) -> Cow<'static, str> {
        let policy = match (self.has(Part::PreDecomp), self.has(Part::Footprints)) {
            (true, true) => "both",
            (true, false) => "next",
            (false, true) => "footprint",
            (false, false) => "none",
        };
        policy.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_and_none_are_the_schemes_of_these_names() {
        for (set, name) in [(Parts::ALL, ALL), (Parts::NONE, PLAIN)] {
            assert_eq!(set.scheme().unwrap(), SchemeSpec::named(name).unwrap());
        }
    }

    #[test]
    fn each_part_changes_one_thing_of_either_scheme() {
        for part in Part::ALL {
            let set = Parts::of(&[part]);
            for (with, without) in [(set, Parts::NONE), (Parts::ALL, set.others())] {
                let specs = [with, without].map(|set| set.scheme().unwrap());
                let [with, without] = specs.each_ref().map(choices);
                let changed = with.iter().zip(&without).filter(|(a, b)| a != b);
                assert_eq!(changed.count(), 1, "{}: {with:?} {without:?}", part.name());
                specs.iter().for_each(|spec| drop(spec.build().unwrap()));
            }
        }
    }

    fn choices(spec: &SchemeSpec) -> [String; 8] {
        let file_pages = spec.file_pages.to_string();
        let keep_copies = spec.keep_copies.to_string();
        let slots = [
            &spec.reclaim,
            &spec.sizing,
            &spec.admission,
            &spec.eviction,
            &spec.prefetch,
        ];
        let [a, b, c, d, e] = slots.map(|slot| slot.to_string());
        let layout = spec.layout.name().to_owned();
        [a, b, c, d, e, file_pages, keep_copies, layout]
    }

    #[test]
    fn sets_are_named_by_what_they_have_or_lack() {
        let of_ezswap = Parts::of_paper("ezswap");
        assert_eq!(
            of_ezswap.names(),
            "selective admission + lottery + pages of files"
        );
        assert_eq!(of_ezswap.others().papers(), "Ariadne, ASAP");
        let without = Parts::of(&[Part::Lottery]).others();
        assert_eq!(without.scheme().unwrap().name, "all-four without lottery");
    }
}
