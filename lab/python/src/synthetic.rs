//! Synthetic traces, for devices of a population.

use std::path::PathBuf;

use pyo3::prelude::*;
use warmswap_output::BadInput;
use warmswap_trace::synth::{self, AppProfile, SynthConfig};

use crate::errors::{bad_trace, failed};

/// The applications whose statistics are known, by name.
#[pyfunction]
pub fn profiles() -> Vec<String> {
    let apps = SynthConfig::default().apps;
    apps.into_iter().map(|app| app.name).collect()
}

/// Writes a trace of synthetic applications without contents. `apps` names the statistics of each, and one name may stand
/// there more than once; `scale` is a factor of all volumes.
#[pyfunction]
pub fn synthesize(
    py: Python<'_>,
    path: PathBuf,
    apps: Vec<String>,
    seed: u64,
    scale: f64,
    relaunches: u32,
) -> PyResult<()> {
    let defaults = SynthConfig::default();
    let profile = |(place, name): (usize, &String)| {
        let found = defaults.apps.iter().find(|app| &app.name == name);
        let unknown = || {
            format!(
                "there is no application '{name}': it is one of {}",
                profiles().join(", ")
            )
        };
        let found = found.ok_or_else(unknown)?;
        Ok(AppProfile {
            name: format!("{name}-{}", place + 1),
            ..found.clone()
        })
    };
    let apps: Result<_, String> = apps.iter().enumerate().map(profile).collect();
    let apps = apps.map_err(|why| failed(&BadInput(why).into()))?;
    let config = SynthConfig {
        seed,
        apps,
        scale,
        relaunches,
        ..defaults
    };
    let written = py.detach(|| synth::synthesize(path, &config, None));
    written.map(drop).map_err(bad_trace)
}
