//! Compression time, decompression time and ratio of each application under each scheme, beside zram
//! (Ariadne Figures 11, 12, 13 and 15).
//!
//! Meant for [`Options::full_pressure`](crate::Options::full_pressure): the paper compresses all the data
//! of its traces. The paper uses LZO for Figure 12; give the schemes as `zram+codec=lzo` and so on to do
//! the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_policy::{PolicyError, SchemeSpec};

use crate::error::StudyError;
use crate::mean::mean;
use crate::options::Options;
use crate::paper::Published;
use crate::run::{OnProgress, Run, replay_all};
use crate::subject::Subject;
use crate::volume::Volume;
use warmswap_columns::Described;

/// The configurations of Figures 10 to 13, zram first.
pub const SCHEMES: [&str; 9] = [
    "zram",
    "ariadne-ehl-1k-2k-16k",
    "ariadne-al-1k-2k-16k",
    "ariadne-ehl-1k-4k-16k",
    "ariadne-al-1k-4k-16k",
    "ariadne-ehl-512-2k-16k",
    "ariadne-al-512-2k-16k",
    "ariadne-ehl-256-2k-32k",
    "ariadne-al-256-2k-32k",
];

/// CPU time of compression and decompression, zram's being 1: mean of all configurations.
pub const PAPER_CPU: Published = Published::new(0.85, "Ariadne, Figure 11 and section 6.1");

/// Decompression time with 1K-2K-16K, zram's being 1: YouTube and Twitter.
pub const PAPER_DECOMPRESS: Published =
    Published::new(0.40, "Ariadne, Figure 12 and section 6.2: YouTube, Twitter");

/// Compression time with EHL-1K-2K-16K, zram's being 1: YouTube and Twitter.
pub const PAPER_COMPRESS: Published =
    Published::new(0.80, "Ariadne, Figure 12 and section 6.2: YouTube, Twitter");

/// One application under one scheme.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(original_bytes = self.volume.original_bytes, "compressed")]
#[column(data_ratio = self.volume.data_ratio(), ratio)]
pub struct CompressionRow {
    /// The trace.
    pub trace: String,
    /// The application.
    #[column]
    pub app: String,
    /// The scheme.
    #[column]
    pub scheme: String,
    /// CPU time of compression of its pages, for whatever reason, measured.
    #[column("compression")]
    pub compress_ns: u64,
    /// CPU time of decompression of its pages, for whatever reason, measured.
    #[column("decompression")]
    pub decompress_ns: u64,
    /// What was compressed, and to how much.
    pub volume: Volume,
    /// Compression time, divided by the first scheme's; `None` where that is 0, here and below.
    pub compress_vs_first: Option<f64>,
    /// Decompression time, divided by the first scheme's.
    pub decompress_vs_first: Option<f64>,
    /// Both times together by those of the first scheme.
    #[column(ratio, "CPU vs first")]
    pub cpu_vs_first: Option<f64>,
}

/// All applications of some traces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompressionStudy {
    /// The schemes; the first is what the others are compared with.
    pub schemes: Vec<String>,
    /// Trace by trace, application by application, schemes in their order.
    pub rows: Vec<CompressionRow>,
    /// False when times and sizes were assumed.
    pub with_contents: bool,
}

impl CompressionStudy {
    /// Of finished runs, where the first scheme of each trace is what the others are compared with.
    pub fn of(runs: &[Run]) -> Self {
        let mut schemes: Vec<String> = Vec::new();
        let mut rows = Vec::new();
        for of_trace in runs.chunk_by(|a, b| a.trace == b.trace) {
            for app in 0..of_trace[0].result.apps.len() {
                let first = row(&of_trace[0], app);
                for run in of_trace {
                    rows.push(row(run, app).compared(&first));
                }
            }
            for run in of_trace {
                if !schemes.contains(&run.result.scheme) {
                    schemes.push(run.result.scheme.clone());
                }
            }
        }
        Self {
            schemes,
            rows,
            with_contents: runs.iter().all(|run| run.result.with_contents),
        }
    }

    /// The mean over the applications of one of a scheme's ratios.
    pub fn mean_of(
        &self,
        scheme: &str,
        ratio: impl Fn(&CompressionRow) -> Option<f64>,
    ) -> Option<f64> {
        let own = self.rows.iter().filter(|row| row.scheme == scheme);
        mean(own.filter_map(ratio))
    }
}

impl CompressionRow {
    fn compared(self, first: &Self) -> Self {
        let ratio = |own: u64, other: u64| (other > 0).then(|| own as f64 / other as f64);
        Self {
            compress_vs_first: ratio(self.compress_ns, first.compress_ns),
            decompress_vs_first: ratio(self.decompress_ns, first.decompress_ns),
            cpu_vs_first: ratio(
                self.compress_ns + self.decompress_ns,
                first.compress_ns + first.decompress_ns,
            ),
            ..self
        }
    }
}

fn row(run: &Run, app: usize) -> CompressionRow {
    let found = &run.result.apps[app];
    CompressionRow {
        trace: run.trace.clone(),
        app: found.name.clone(),
        scheme: run.result.scheme.clone(),
        compress_ns: found.cpu.compress_ns(),
        decompress_ns: found.cpu.decompress_ns(),
        volume: run.volumes.get(app).copied().unwrap_or_default(),
        compress_vs_first: None,
        decompress_vs_first: None,
        cpu_vs_first: None,
    }
}

/// Replays the traces under `schemes`; the others are compared with the first.
///
/// # Errors
/// The first replay that stops.
pub fn compression(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    on_progress: OnProgress<'_>,
) -> Result<CompressionStudy, StudyError> {
    let runs = replay_all(subjects, schemes, options, on_progress)?;
    Ok(CompressionStudy::of(&runs))
}

/// Schemes by name, each with the same changes behind it (`codec=lzo`).
///
/// # Errors
/// A scheme or change that does not exist.
pub fn parse_schemes(names: &[&str], changes: &[&str]) -> Result<Vec<SchemeSpec>, PolicyError> {
    let parse = |name: &&str| {
        let mut spec = SchemeSpec::parse(name)?;
        changes.iter().try_for_each(|change| spec.set(change))?;
        Ok(spec)
    };
    names.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::synthetic;

    #[test]
    fn zram_is_its_own_measure_and_larger_chunks_pack_better() {
        let schemes = parse_schemes(
            &["zram", "ariadne-al-4k-8k-64k", "ariadne-al-128-128-128"],
            &["codec=lzo"],
        )
        .unwrap();
        let subjects = [synthetic(1500)];
        let study = compression(&subjects, &schemes, &Options::full_pressure(), &|_| {}).unwrap();
        assert_eq!(study.schemes[0], "zram+codec=lzo");
        assert_eq!(study.rows.len(), 15);
        for app in study.rows.chunks(3) {
            assert_eq!(app[0].cpu_vs_first, Some(1.0));
            let ratios: Vec<_> = app.iter().map(|row| row.volume.data_ratio()).collect();
            assert!(ratios[1] > ratios[0] && ratios[0] > ratios[2], "{ratios:?}");
        }
        assert_eq!(
            study.mean_of("zram+codec=lzo", |row| row.compress_vs_first),
            Some(1.0)
        );
        assert!(parse_schemes(&["zram"], &["codec=gzip"]).is_err());
    }
}
