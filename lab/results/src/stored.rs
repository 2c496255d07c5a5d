//! Stored results: read, and told apart by their schema.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use warmswap_bench::fleet::FleetReport;
use warmswap_bench::program::ProgramReport;
use warmswap_bench::relaunch::{Arm, ArmResult};
use warmswap_bench::{RelaunchReport, ReturnReport};
use warmswap_columns::schema::Document;
use warmswap_output::{Envelope, Machine};
use warmswap_page::quantile::Sorted;
use warmswap_replay::{Pressure, ReplayResult};
use warmswap_study::chunk_size::ChunkSizes;
use warmswap_study::compare::{Comparison, TraceRow};
use warmswap_study::compression::CompressionStudy;
use warmswap_study::coverage::CoverageRow;
use warmswap_study::entropy::EntropyStudy;
use warmswap_study::ezswap::EzswapStudy;
use warmswap_study::heap_graph::HeapStudy;
use warmswap_study::hotness_order::HotnessOrder;
use warmswap_study::launches::LaunchRow;
use warmswap_study::locality::Locality;
use warmswap_study::misses::MissRow;
use warmswap_study::parts::PartsStudy;
use warmswap_study::prepaging::PrepagingRow;
use warmswap_study::similarity::Similarity;
use warmswap_study::switches::SwitchFootprint;
use warmswap_trace::stats::TraceStats;

use crate::claims::Ours;
use crate::error::ResultError;

/// What a file holds besides its data.
#[derive(Clone, Debug, Deserialize)]
struct Head {
    schema: String,
    schema_version: u32,
    machine: Machine,
    command: Vec<String>,
}

#[derive(Deserialize)]
struct Body<T> {
    data: T,
}

/// One file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its schema.
    pub schema: String,
    /// What it was measured on.
    pub machine: Machine,
    /// The command, program first.
    pub command: Vec<String>,
}

/// Declares every schema that is read: name, version, field of [`Results`], type of its data.
macro_rules! schemas {
    ($($schema:literal $version:literal $field:ident: $data:ty, $doc:literal;)*) => {
        /// All results, by kind; those of one kind in the order of the files.
        #[derive(Debug, Default)]
        pub struct Results {
            /// The files.
            pub sources: Vec<Source>,
            $(#[doc = $doc] pub $field: Vec<$data>,)*
        }

        impl Results {
            /// The JSON Schema of these kinds.
            #[must_use]
            pub fn schema() -> Document {
                Document::of::<Envelope<Value>>()$(.with::<$data>($schema, $doc))*
            }

            /// What `data` of a kind is once it was read and written again; `None` for a kind that is not here.
            ///
            /// # Errors
            /// `data` is not what a result of its kind is.
            #[must_use]
            pub fn again(schema: &str, data: &Value) -> Option<serde_json::Result<Value>> {
                match schema {
                    $($schema => Some(<$data>::deserialize(data).and_then(serde_json::to_value)),)*
                    _ => None,
                }
            }

            /// Adds the result that `text` is; `path` is for messages.
            ///
            /// # Errors
            /// [`ResultError::Field`] and [`ResultError::Unknown`].
            pub fn add(&mut self, path: &Path, text: &str) -> Result<(), ResultError> {
                let head: Head = parse(path, text)?;
                match (head.schema.as_str(), head.schema_version) {
                    $(($schema, $version) => {
                        self.$field.push(parse::<Body<$data>>(path, text)?.data);
                    })*
                    _ => {
                        return Err(ResultError::Unknown {
                            path: path.to_path_buf(),
                            schema: head.schema,
                            version: head.schema_version,
                        });
                    }
                }
                self.sources.push(Source {
                    schema: head.schema,
                    machine: head.machine,
                    command: head.command,
                });
                Ok(())
            }
        }
    };
}

schemas! {
    "warmswap.bench.relaunch" 1 relaunch: RelaunchReport, "Live relaunches, arm beside arm.";
    "warmswap.bench.return" 1 returns: ReturnReport, "Returns after something else took the memory.";
    "warmswap.bench.fleet" 1 fleet: FleetReport, "The managed heap.";
    "warmswap.bench.program" 1 program: ProgramReport, "One program in less memory.";
    "warmswap.compare" 2 compare: Comparison, "Schemes side by side.";
    "warmswap.replay" 2 replay: ReplayResult, "One scheme, relaunch by relaunch.";
    "warmswap.study.hotness_order" 1 hotness_order: Vec<HotnessOrder>, "How hot what leaves first is.";
    "warmswap.study.similarity" 1 similarity: Vec<Similarity>, "Consecutive relaunches.";
    "warmswap.study.chunk_size" 1 chunk_size: ChunkSizes, "Codecs by chunk size.";
    "warmswap.study.locality" 1 locality: Vec<Locality>, "Neighbours in the pool.";
    "warmswap.study.compression" 1 compression: CompressionStudy, "Time and ratio of compression.";
    "warmswap.study.coverage" 1 coverage: Vec<CoverageRow>, "The hot list's prediction.";
    "warmswap.study.sensitivity" 1 sensitivity: CompressionStudy, "Unsuitable chunk sizes.";
    "warmswap.study.entropy" 1 entropy: EntropyStudy, "Entropy and compressed size.";
    "warmswap.study.ezswap" 1 ezswap: EzswapStudy, "The parts of ezswap.";
    "warmswap.study.parts" 1 parts: PartsStudy, "Parts of the papers, together and alone.";
    "warmswap.study.switches" 1 switches: Vec<SwitchFootprint>, "Footprints of ten switches.";
    "warmswap.study.prepaging" 1 prepaging: Vec<PrepagingRow>, "The footprint's prediction.";
    "warmswap.study.launches" 1 launches: Vec<LaunchRow>, "Cold launches and memory that grows.";
    "warmswap.study.misses" 1 misses: Vec<MissRow>, "Misses of reclaim policies.";
    "warmswap.study.heap" 1 heap: Vec<HeapStudy>, "Objects of heap dumps.";
    "warmswap.trace_info" 1 trace_info: TraceStats, "What is in a trace.";
}

impl Results {
    /// Reads files.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn load<P: AsRef<Path>>(paths: &[P]) -> Result<Self, ResultError> {
        let mut results = Self::default();
        for path in paths {
            let path = path.as_ref();
            let bytes = std::fs::read(path).map_err(|source| ResultError::Read {
                path: path.to_path_buf(),
                source,
            })?;
            // What is no text is no JSON either, and is refused as such.
            results.add(path, &String::from_utf8_lossy(&bytes))?;
        }
        Ok(results)
    }

    /// Whether there is a result of a command line, whatever it read: of the same command, with all of its options.
    #[must_use]
    pub fn has_run(&self, line: &str) -> bool {
        let is_name = |word: &&str| !word.starts_with('-') && !word.contains(char::is_uppercase);
        let words = || line.split(' ');
        let name: Vec<&str> = words().take_while(is_name).collect();
        let schema = name.join(".").replace("warmswap-lab", "warmswap");
        let schema = schema.replace('-', "_");
        let has = |source: &Source, option: &str| source.command.iter().any(|word| word == option);
        let mut of_command = self.sources.iter().filter(|source| source.schema == schema);
        of_command.any(|source| {
            let mut options = words().filter(|word| word.starts_with("--"));
            options.all(|option| has(source, option))
        })
    }

    /// What an arm has of something by what another has in the same run: mean over the runs that have both.
    #[must_use]
    pub(crate) fn live_ratio(
        &self,
        of: impl Fn(&ArmResult) -> Option<f64>,
        arm: Arm,
        other: Arm,
    ) -> Option<f64> {
        let ratio = |run: &RelaunchReport| Some(of(run.arm(arm)?)? / of(run.arm(other)?)?);
        let ratios: Vec<f64> = self.relaunch.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }

    /// Live relaunches of an arm by those of another in the same run: for each application of each run the ratio of medians.
    #[must_use]
    pub(crate) fn live_by(&self, arm: Arm, other: Arm) -> Option<Ours> {
        let median = |run: &RelaunchReport, arm, app: &String| {
            Sorted::by(run.latencies(arm, app), f64::total_cmp).median()
        };
        let ratios = self.relaunch.iter().flat_map(|run| {
            let ratio = move |app: &String| Some(median(run, arm, app)? / median(run, other, app)?);
            run.apps.iter().filter_map(ratio)
        });
        Ours::over(ratios)
    }

    /// The comparison in which every application that leaves gives everything up, as in the papers: its memory suffices.
    #[must_use]
    pub fn full_pressure(&self) -> Option<&Comparison> {
        self.comparison(|of| is_as_in_papers(of) && !has_files(of))
    }

    /// The same with pages of files.
    #[must_use]
    pub fn with_files(&self) -> Option<&Comparison> {
        self.comparison(|of| is_as_in_papers(of) && has_files(of))
    }

    /// The comparison with less memory than all takes.
    #[must_use]
    pub fn under_budget(&self) -> Option<&Comparison> {
        self.comparison(|of| !has_memory_for_all(of))
    }

    fn comparison(&self, is_wanted: impl Fn(&Comparison) -> bool) -> Option<&Comparison> {
        self.compare.iter().find(|of| is_wanted(of))
    }
}

fn is_as_in_papers(of: &Comparison) -> bool {
    of.pressure == Some(Pressure::Full) && has_memory_for_all(of)
}

fn has_memory_for_all(of: &Comparison) -> bool {
    let suffices = |row: &TraceRow| row.budget_bytes >= row.footprint_bytes;
    !of.traces.is_empty() && of.traces.iter().all(suffices)
}

/// Whether pages of files were replayed under every scheme, and not only under one whose paper has them.
fn has_files(of: &Comparison) -> bool {
    of.schemes.iter().all(|row| row.memory.file_pages)
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ResultError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        if error.inner().is_syntax() || error.inner().is_eof() {
            return ResultError::NoJson {
                path: path.to_path_buf(),
                reason: error.inner().to_string(),
            };
        }
        let field = error.path().to_string();
        ResultError::Field {
            path: path.to_path_buf(),
            // The whole file, where it is no JSON at all.
            field: if field == "." {
                "(top)".to_owned()
            } else {
                field
            },
            reason: error.inner().to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(schema: &str, version: u32, data: &str) -> String {
        format!(
            r#"{{"schema": "{schema}", "schema_version": {version}, "warmswap": "0.1.0",
                "machine": {{"cpu": "c", "cores": 2, "kernel": "k", "memory_bytes": 1}},
                "command": ["/usr/bin/warmswap-lab", "study", "it's"], "data": {data}}}"#
        )
    }

    fn error(text: &str) -> String {
        let error = Results::default()
            .add(Path::new("x.json"), text)
            .unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_result_is_told_by_its_schema() {
        let mut results = Results::default();
        let row = r#"[{"trace": "t", "app": "a", "pairs": 1, "hot_pages": 4.0,
                       "similarity": 0.5, "reused": 1.0}]"#;
        results
            .add(
                Path::new("x.json"),
                &result("warmswap.study.similarity", 1, row),
            )
            .unwrap();
        assert_eq!(results.similarity[0][0].similarity, 0.5);
    }

    #[test]
    fn bad_input_is_named_by_file_and_field() {
        let row = r#"[{"trace": "t", "app": 7}]"#;
        let said = error(&result("warmswap.study.similarity", 1, row));
        assert!(
            said.starts_with("x.json: data[0].app: invalid type"),
            "{said}"
        );
        let said = error(&result(
            "warmswap.study.similarity",
            1,
            r#"[{"trace": "t"}]"#,
        ));
        assert!(
            said.starts_with("x.json: data[0]: missing field `app`"),
            "{said}"
        );
        let said = error("{\"schema\": 3}");
        assert!(said.starts_with("x.json: schema: invalid type"), "{said}");
        let said = error("no JSON");
        assert!(
            said.starts_with("x.json: it is no result of --json: expected"),
            "{said}"
        );
        for (schema, version) in [("warmswap.study.similarity", 9), ("warmswap.doctor", 1)] {
            let said = error(&result(schema, version, "[]"));
            assert!(
                said.contains(&format!("{schema} version {version}")),
                "{said}"
            );
        }
    }
}
