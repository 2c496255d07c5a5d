//! How traces are replayed: the options that `replay`, `compare` and `study` share.

use crate::host::Host;
use crate::shipped::input;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use warmswap_apps::bad_toml;
use warmswap_engine::MINIMUM_BUDGET_BYTES;
use warmswap_output::BadInput;
use warmswap_output::SizeExpr;
use warmswap_output::units::Quantity;
use warmswap_policy::SchemeSpec;
use warmswap_replay::{DeviceModel, Pressure, Sight};
use warmswap_study::compare::as_in_its_paper;
use warmswap_study::{Amount, Options, Subject};

/// Memory, device and what counts.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Memory for resident pages and pool together: a size, or a share of the trace's footprint
    #[arg(long, default_value = "50%", value_name = "SIZE")]
    budget: SizeExpr,
    /// Of it, at most this for the pool: a size, or a share of the budget; default: all of it, and 10% for ezswap
    #[arg(long, value_name = "SIZE")]
    pool: Option<SizeExpr>,
    /// The backing file: a size, or a share of the footprint; default: 100% where a scheme uses one
    #[arg(long, value_name = "SIZE")]
    backing: Option<SizeExpr>,
    /// Flash and memory costs that are not measured: a preset of `warmswap-lab schemes`, or a TOML file
    #[arg(long, default_value = "ufs-3.1", value_name = "NAME|FILE")]
    device: String,
    /// What makes pages leave
    #[arg(long, value_enum, default_value = "budget")]
    pressure: PressureArg,
    /// Replay accesses to pages of files, too, as for ezswap where --pool is not given either
    #[arg(long)]
    files: bool,
    /// Touches that the scheme sees: all, or faults only, as in live memory
    #[arg(long, value_enum, default_value = "all")]
    touches: TouchesArg,
    /// Assume sizes and codec times in place of compressing the recorded contents
    #[arg(long)]
    no_contents: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PressureArg {
    /// The budget alone
    Budget,
    /// Besides, an application in the background gives up all that its scheme lets go
    Full,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TouchesArg {
    /// All that the trace has
    All,
    /// Those of pages that are not in memory: others are presumed, as a live host presumes them
    Faults,
}

fn amount(size: SizeExpr) -> Amount {
    match size {
        SizeExpr::Bytes(bytes) => Amount::Bytes(bytes),
        SizeExpr::Percent(percent) => Amount::Percent(percent),
    }
}

/// A preset, or a file in its format.
///
/// # Errors
/// It is neither.
pub fn device(text: &str) -> Result<DeviceModel> {
    if let Some(preset) = DeviceModel::preset(text) {
        return Ok(preset);
    }
    let known = DeviceModel::presets().collect::<Vec<_>>().join(", ");
    let file = std::fs::read_to_string(text).map_err(|error| {
        BadInput(format!(
            "device '{text}' is neither one of {known} nor a file: {error}"
        ))
    })?;
    let device = toml::from_str(&file);
    Ok(device.map_err(|error| BadInput(bad_toml(text.as_ref(), &file, &error)))?)
}

impl ReplayArgs {
    /// The options of a replay.
    ///
    /// # Errors
    /// A budget of less than a page, or a device that is none.
    pub fn options(&self) -> Result<Options> {
        if let Some(asks) = self.budget.meant() {
            let why = format!("--budget {}: less than a page; {asks}", self.budget);
            return Err(BadInput(why).into());
        }
        Ok(Options {
            budget: amount(self.budget),
            pool_limit: self.pool.map_or(Amount::Percent(100.0), amount),
            backing: self.backing.map(amount),
            device: device(&self.device)?,
            pressure: match self.pressure {
                PressureArg::Budget => Pressure::Budget,
                PressureArg::Full => Pressure::Full,
            },
            file_pages: self.files,
            contents: !self.no_contents,
            sight: match self.touches {
                TouchesArg::All => Sight::All,
                TouchesArg::Faults => Sight::Faults,
            },
            reclaim: None,
        })
    }

    /// The options for one scheme: the memory that it has in its paper, unless other is asked for.
    pub fn options_of(&self, scheme: &SchemeSpec, options: Options) -> Options {
        if self.pool.is_some() || self.files {
            return options;
        }
        as_in_its_paper(scheme, options)
    }

    /// Opens the traces, and checks that each can be replayed with so much memory.
    ///
    /// # Errors
    /// A trace cannot be read, or the memory makes no sense for it.
    pub fn open(&self, host: &dyn Host, traces: &[PathBuf]) -> Result<Vec<Subject>> {
        let subjects = open(host, traces, !self.no_contents)?;
        subjects
            .iter()
            .try_for_each(|subject| self.check(subject))?;
        Ok(subjects)
    }

    /// Checks the limits of a trace, whose errors name no options.
    fn check(&self, subject: &Subject) -> Result<(), BadInput> {
        let human = |bytes| Quantity::Bytes(bytes).human();
        let budget_bytes = amount(self.budget).of(subject.footprint.bytes(self.files));
        if budget_bytes < MINIMUM_BUDGET_BYTES {
            return Err(BadInput(format!(
                "--budget {} is {} for {}: at least {} are needed",
                self.budget,
                human(budget_bytes),
                subject.name,
                human(MINIMUM_BUDGET_BYTES),
            )));
        }
        let pool_bytes = self.pool.map(|pool| amount(pool).of(budget_bytes));
        if let (Some(pool), Some(pool_bytes)) = (self.pool, pool_bytes)
            && pool_bytes > budget_bytes
        {
            return Err(BadInput(format!(
                "--pool {pool} is more than the budget of {} for {}: the pool is a part of it",
                human(budget_bytes),
                subject.name,
            )));
        }
        Ok(())
    }
}

/// A percentage, with its sign or without.
///
/// # Errors
/// It is none.
pub fn percent<T: FromStr>(text: &str) -> Result<T, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let parsed = number.parse();
    parsed.map_err(|_| format!("'{text}' is no percentage (examples: 60, 60%)"))
}

/// Opens traces, with their contents or without.
///
/// # Errors
/// A trace cannot be read, or is named twice.
pub fn open(host: &dyn Host, traces: &[PathBuf], contents: bool) -> Result<Vec<Subject>> {
    let names = distinct_names(traces)?;
    let open = |(path, name): (&PathBuf, Option<String>)| {
        let mut subject = host.subject(&input(path, host.output())?, contents)?;
        subject.name = name.unwrap_or(subject.name);
        Ok(subject)
    };
    traces.iter().zip(names).map(open).collect()
}

/// Names for traces whose files are called alike: their paths. `None` where the file's name tells a trace apart.
///
/// # Errors
/// [`BadInput`] for a trace that is named twice: its relaunches would count twice.
fn distinct_names(traces: &[PathBuf]) -> Result<Vec<Option<String>>, BadInput> {
    let files: Vec<PathBuf> = traces
        .iter()
        .map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()))
        .collect();
    for (index, file) in files.iter().enumerate() {
        if files[..index].contains(file) {
            let path = traces[index].display();
            return Err(BadInput(format!(
                "the trace {path} is named twice: leave one out"
            )));
        }
    }
    let name = |path: &PathBuf| {
        let alike = traces
            .iter()
            .filter(|other| other.file_stem() == path.file_stem());
        (alike.count() > 1).then(|| path.display().to_string())
    };
    Ok(traces.iter().map(name).collect())
}

/// Schemes by name, with slots exchanged: each of `text` may carry changes of its own (`zram+codec=zstd`),
/// and all of them get those of `changes`.
///
/// # Errors
/// A scheme or a slot that does not exist, or a scheme that is named twice.
pub fn schemes(text: &[String], changes: &[String]) -> Result<Vec<SchemeSpec>> {
    let parse = |text: &String| {
        let mut spec = SchemeSpec::parse(text)?;
        changes.iter().try_for_each(|change| spec.set(change))?;
        Ok(spec)
    };
    let specs: Vec<SchemeSpec> = text.iter().map(parse).collect::<Result<_>>()?;
    for (index, spec) in specs.iter().enumerate() {
        if specs[..index].iter().any(|other| other.name == spec.name) {
            let why = format!("the scheme {} is named twice: leave one out", spec.name);
            return Err(BadInput(why).into());
        }
    }
    Ok(specs)
}
