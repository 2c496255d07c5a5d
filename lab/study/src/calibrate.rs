//! The cost table of the `measured` sizing, for this machine and these pages.

use serde::{Deserialize, Serialize};
use warmswap_codec::{ChunkPlan, Codec};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::sizing::{ClassAssumptions, CodecCost, CostTable};
use warmswap_policy::{Hotness, SchemeSpec};
use warmswap_pool::{Pool, PoolConfig};
use warmswap_replay::DeviceModel;

use crate::chunk_size::plans;
use crate::class_use::{ClassUse, assumptions, class_use};
use crate::codec_bench::{CodecBench, Object};
use crate::error::StudyError;
use crate::mean::share;
use crate::options::Options;
use crate::run::{OnProgress, replay_all};
use crate::sample::Sample;
use crate::subject::Subject;

/// The smallest chunk that is measured: smaller ones have longer length tables than they win.
const MIN_CHUNK_BYTES: usize = 512;

/// The sample is stored as often as it takes to fill a pool with so many bytes of pages: spans that are
/// filled in part, of which a pool has at most one for each size class, then count little.
const POOLED_BYTES: u64 = 64 << 20;

/// What is replayed to see how many pages that come along in a chunk are touched before they leave again, and how many
/// pages its chunks have: larger ones bring so much for nothing that memory is full of it.
const NEIGHBOUR_SCHEME: &str = "warmswap+sizing=adaptive:16k-16k-16k+prefetch=none";

/// How a machine is calibrated.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrateOptions {
    /// The codecs that are measured.
    pub codecs: Vec<Codec>,
    /// Bytes of pages that are measured on, at most.
    pub sample_bytes: u64,
    /// Passes of which the median counts.
    pub passes: u32,
    /// Costs of faults and frames.
    pub device: DeviceModel,
}

impl Default for CalibrateOptions {
    /// All codecs, 16 MiB, five passes, the default device.
    fn default() -> Self {
        Self {
            codecs: Codec::ALL.to_vec(),
            sample_bytes: 16 << 20,
            passes: 5,
            device: DeviceModel::default(),
        }
    }
}

/// A cost table, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The trace whose pages were measured.
    pub trace: String,
    /// Bytes of pages that were measured on.
    pub sample_bytes: u64,
    /// Passes of which the median counts.
    pub passes: u32,
    /// The device model that gave the costs of faults and frames.
    pub device: String,
    /// How the trace used hot, warm and cold pages again.
    pub class_use: [ClassUse; 3],
    /// For which classes the trace said nothing, so that the default assumptions stand.
    pub class_is_default: [bool; 3],
    /// Of the pages that came along in chunks of 16 KiB in a replay with half of the trace's memory, the share that was
    /// touched before it left again; none where nothing came along.
    #[serde(default)]
    pub neighbours_used: Option<f64>,
    /// The table.
    pub table: CostTable,
}

impl Calibration {
    /// The plan that the table chooses for a class; `None` for an empty table.
    pub fn plan(&self, hotness: Hotness) -> Option<ChunkPlan> {
        self.table.best(hotness, None)
    }

    /// The table as the TOML file that `measured:costs=FILE` reads.
    pub fn toml(&self) -> String {
        let table = toml::to_string(&self.table).expect("numbers and names are always TOML");
        let mut head = format!(
            "# Costs of codecs on {} MiB of pages of {}, medians of {} passes.\n\
             # Costs of faults and frames: device model {}.\n",
            self.sample_bytes >> 20,
            self.trace.escape_default(),
            self.passes,
            self.device.escape_default(),
        );
        for hotness in Hotness::ALL {
            let class = format!("{hotness:?}").to_lowercase();
            let source = match self.class_is_default[hotness.index()] {
                true => "default assumptions",
                false => "assumptions from the trace",
            };
            let plan = self
                .plan(hotness)
                .map_or("nothing".to_owned(), |p| p.to_string());
            head += &format!("# {class}: {source}; chooses {plan}\n");
        }
        format!("{head}\n{table}")
    }
}

/// Measures codecs at 512 B to 128 KiB on a sample of the trace's pages, one thread, and what the objects
/// take in a pool; estimates from its relaunches how pages are used again. `on_progress` counts passes of
/// plans, then the events of a replay.
///
/// That a trace uses two pages in the same phase does not say that both stay for it: with half of the memory, a replay
/// tells how many of those that come along are touched in time, and no class is taken for better than that.
///
/// Time: some seconds for each pass over 16 MiB with all codecs, and a replay.
///
/// # Errors
/// [`StudyError::NoContents`], the trace cannot be read, or codec or pool failed.
pub fn calibrate(
    subject: &Subject,
    options: &CalibrateOptions,
    on_progress: OnProgress<'_>,
) -> Result<Calibration, StudyError> {
    let sample = Sample::of(subject, options.sample_bytes)?;
    let mut bench = CodecBench::new(&sample, true);
    let plans = plans(&options.codecs, MIN_CHUNK_BYTES);
    let costs = bench.measure(&plans, options.passes, on_progress)?;
    let pages = (sample.bytes() / PAGE_BYTES as u64) as f64;
    let mut codecs = Vec::with_capacity(costs.len());
    for cost in costs {
        bench.compress(cost.plan)?;
        codecs.push(CodecCost {
            plan: cost.plan,
            compress_ns_per_page: tenths(cost.compress_ns as f64 / pages),
            decompress_ns_per_page: tenths(cost.decompress_ns as f64 / pages),
            stored_bytes_per_page: tenths(stored_bytes_per_page(
                &bench,
                cost.plan,
                sample.bytes(),
            )?),
        });
    }
    let class_use = class_use(&subject.reader)?;
    let neighbours_used = neighbours_used(subject, on_progress)?;
    let classes = assumptions(class_use).map(|(class, from_trace)| {
        let together = neighbours_used.map_or(class.together, |used| used.min(class.together));
        (ClassAssumptions { together, ..class }, from_trace)
    });
    let device = &options.device;
    Ok(Calibration {
        trace: subject.name.clone(),
        sample_bytes: sample.bytes(),
        passes: options.passes.max(1),
        device: device.name.clone(),
        class_use,
        class_is_default: classes.map(|(_, from_trace)| !from_trace),
        neighbours_used,
        table: CostTable {
            fault_ns: device.fault_ns as f64,
            install_ns_per_page: device.install_ns as f64,
            evict_ns_per_page: device.remove_ns as f64,
            classes: classes.map(|(assumptions, _)| assumptions),
            codecs,
        },
    })
}

/// Of the pages that come along in chunks of 16 KiB, the share that is touched before it leaves again, where memory is for
/// half of the pages.
fn neighbours_used(
    subject: &Subject,
    on_progress: OnProgress<'_>,
) -> Result<Option<f64>, StudyError> {
    let scheme = SchemeSpec::parse(NEIGHBOUR_SCHEME)?;
    let subjects = std::slice::from_ref(subject);
    let runs = replay_all(subjects, &[scheme], &Options::default(), on_progress)?;
    let counters = runs.first().map(|run| &run.result.counters);
    Ok(counters.and_then(|c| share(c.neighbours_used, c.neighbours_loaded)))
}

/// Rounded to tenths: more digits would only be noise in the file.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// What the objects that the bench just made take in a pool, for each page.
fn stored_bytes_per_page(
    bench: &CodecBench<'_>,
    plan: ChunkPlan,
    sample_bytes: u64,
) -> Result<f64, StudyError> {
    let failed = |reason: String| StudyError::Pool {
        plan: plan.to_string(),
        reason,
    };
    let rounds = POOLED_BYTES.div_ceil(sample_bytes.max(1));
    let config = PoolConfig {
        limit_bytes: 2 * rounds * sample_bytes + (64 << 20),
        cache_bytes: 0,
        verify: false,
        ..PoolConfig::default()
    };
    let pool = Pool::new(config).map_err(|error| failed(error.to_string()))?;
    let empty_bytes = pool.stats().memory_bytes;
    for _ in 0..rounds {
        for (object, pages) in bench.objects(plan) {
            match object {
                Object::Bytes(bytes) => pool.store(bytes, pages),
                Object::Filled(word) => pool.store_filled(word, pages),
            }
            .map_err(|error| failed(error.to_string()))?;
        }
    }
    let stats = pool.stats();
    Ok((stats.memory_bytes - empty_bytes) as f64 / stats.stored_pages as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::synthetic;
    use warmswap_policy::SchemeSpec;

    #[test]
    fn a_calibration_is_a_file_that_the_measured_sizing_reads() {
        let options = CalibrateOptions {
            codecs: vec![Codec::Lz4],
            sample_bytes: 1 << 20,
            passes: 1,
            ..CalibrateOptions::default()
        };
        let calibration = calibrate(&synthetic(1000), &options, &|_| {}).unwrap();
        assert_eq!(calibration.table.problem(), None);
        assert_eq!(calibration.table.codecs.len(), 9);
        assert!(!calibration.class_is_default[0]);
        let used = calibration
            .neighbours_used
            .expect("chunks brought neighbours");
        assert!((0.0..=1.0).contains(&used), "{used}");
        let classes = calibration.table.classes;
        assert!(classes.iter().all(|class| class.together <= used));
        let page = calibration.table.codecs[3];
        assert_eq!(page.plan, ChunkPlan::page(Codec::Lz4));
        // The made-up pages compress to some 1300 bytes; the pool adds a little.
        assert!(
            (1100.0..1700.0).contains(&page.stored_bytes_per_page),
            "{page:?}"
        );

        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), calibration.toml()).unwrap();
        let sizing = format!("zram+sizing=measured:costs={}", file.path().display());
        let scheme = SchemeSpec::parse(&sizing).unwrap().build().unwrap();
        assert_eq!(
            Some(scheme.sizing.plan(Hotness::Hot)),
            calibration.plan(Hotness::Hot)
        );
    }
}
