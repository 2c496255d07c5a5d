//! `warmswap-lab schemes`: what can be named on the command line.

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use warmswap_output::Output;
use warmswap_output::table::{Column, Table};
use warmswap_output::units::{Kind, Quantity};
use warmswap_page::Layout;
use warmswap_policy::SchemeSpec;
use warmswap_policy::scheme::{PolicyRow, policies};
use warmswap_replay::DeviceModel;

/// Examples.
pub const HELP: &str = "\
Examples:
  warmswap-lab schemes
      what --scheme, --set and --device take";

/// What can be named.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listing {
    /// Schemes, slot by slot.
    #[schemars(with = "Vec<schemars::Schema>")]
    schemes: Vec<SchemeSpec>,
    /// Policies of each slot.
    #[schemars(with = "Vec<schemars::Schema>")]
    policies: Vec<PolicyRow>,
    /// Presets of devices.
    devices: Vec<DeviceModel>,
}

fn columns(titles: &[(&str, &str)]) -> Vec<Column> {
    titles
        .iter()
        .map(|(key, title)| Column::new(key, title, Kind::Text))
        .collect()
}

fn texts<const N: usize>(cells: [&str; N]) -> [Quantity; N] {
    cells.map(Quantity::text)
}

/// Prints the tables.
///
/// # Errors
/// They cannot be written.
pub fn run(output: &Output) -> Result<()> {
    let names = SchemeSpec::all_names();
    let listing = Listing {
        schemes: names
            .iter()
            .map(|(name, _)| SchemeSpec::named(name))
            .collect::<Result<_, _>>()?,
        policies: policies(),
        devices: DeviceModel::presets()
            .filter_map(DeviceModel::preset)
            .collect(),
    };
    let titles = [
        ("scheme", "scheme"),
        ("slots", "reclaim, sizing, admission, eviction, prefetch"),
    ];
    let mut schemes = Table::new("Schemes", columns(&titles));
    for spec in &listing.schemes {
        let slots = [
            &spec.reclaim,
            &spec.sizing,
            &spec.admission,
            &spec.eviction,
            &spec.prefetch,
        ];
        let mut slots = slots.map(|slot| slot.to_string()).join(", ");
        slots += if spec.keep_copies {
            "; copies kept"
        } else {
            ""
        };
        slots += if spec.file_pages {
            "; pages of files too"
        } else {
            ""
        };
        if spec.layout != Layout::default() {
            slots += "; ";
            slots += spec.layout.name();
        }
        schemes.row(texts([&spec.name, &slots]));
    }
    let titles = [
        ("slot", "slot"),
        ("policy", "policy"),
        ("summary", "what it does"),
        ("source", "follows"),
    ];
    let mut table = Table::new("Policies (--set SLOT=POLICY)", columns(&titles)).note(
        "--set also takes codec=lz4|lzo|zstd|bdi, keep-copies=on|off, file-pages=on|off and \
         layout=size-classes|zbud|z3fold.",
    );
    for row in &listing.policies {
        table.row(texts([row.slot, row.name, row.summary, row.source]));
    }
    let mut devices = Table::new("Devices (--device)", columns(&[("device", "preset")]));
    for device in &listing.devices {
        devices.row(texts([device.name.as_str()]));
    }
    output.emit("warmswap.schemes", listing, &[schemes, table, devices])
}
