//! `measured`: codec and chunk size for each hotness class by the cost model of [`super::cost`].

use super::cost::CostTable;
use super::{Sizing, parse_codec};
use crate::entry::{Entry, arguments};
use crate::page::Hotness;
use warmswap_page::ChunkPlan;

pub(super) const ENTRY: Entry<dyn Sizing> = Entry {
    name: "measured",
    summary: "sizes and codecs with the least expected time for the memory won; measured:costs=FILE,codec=NAME",
    source: "ours; the cost model stands in core/policy/src/sizing/cost.rs",
    build: |text| {
        let (mut table, mut only) = (reference(), None);
        for (key, value) in arguments(text) {
            match key {
                "costs" => table = read(value)?,
                "codec" => only = Some(parse_codec(value)?),
                _ => return Err(format!("'{key}' is neither costs=FILE nor codec=NAME")),
            }
        }
        let plans = Hotness::ALL.map(|hotness| table.best(hotness, only));
        let [Some(hot), Some(warm), Some(cold)] = plans else {
            return Err("the cost table has no entry for that codec".to_owned());
        };
        Ok(Box::new(Measured {
            plans: [hot, warm, cold],
        }))
    },
};

/// The table that `warmswap calibrate` measured on the reference machine of BENCHMARKS.md, so that a
/// scheme means the same everywhere unless it is told other costs.
fn reference() -> CostTable {
    toml::from_str(include_str!("reference-costs.toml"))
        .expect("the built-in table is valid; a test reads it")
}

fn read(path: &str) -> Result<CostTable, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read costs {path}: {error}"))?;
    let table: CostTable =
        toml::from_str(&text).map_err(|error| format!("{path}: {}", error.message()))?;
    match table.problem() {
        Some(problem) => Err(format!("{path}: {problem}")),
        None => Ok(table),
    }
}

/// The plans that the cost model chose.
#[derive(Debug)]
pub struct Measured {
    /// For hot, warm and cold pages.
    pub plans: [ChunkPlan; 3],
}

impl Sizing for Measured {
    fn plan(&self, hotness: Hotness) -> ChunkPlan {
        self.plans[hotness.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_page::Codec;

    #[test]
    fn the_built_in_table_is_valid_and_gives_plans() {
        assert_eq!(reference().problem(), None);
        let policy = (ENTRY.build)("codec=lz4").unwrap();
        assert!(
            Hotness::ALL
                .iter()
                .all(|&h| policy.plan(h).codec() == Codec::Lz4)
        );
        assert!((ENTRY.build)("").is_ok());
    }

    #[test]
    fn a_table_from_a_file_is_checked() {
        let file = std::env::temp_dir().join(format!("warmswap-costs-{}.toml", std::process::id()));
        std::fs::write(&file, "fault_ns = 'many'").unwrap();
        let message = (ENTRY.build)(&format!("costs={}", file.display())).unwrap_err();
        assert!(message.contains("costs-"), "{message}");
        std::fs::remove_file(&file).unwrap();
        assert!(
            (ENTRY.build)("costs=/nonexistent")
                .unwrap_err()
                .contains("/nonexistent")
        );
    }
}
