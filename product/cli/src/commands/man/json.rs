//! The manual page warmswap-json(5), from the JSON Schema of the results.

use anyhow::{Context as _, Result};
use clap_mangen::roff::{Roff, bold, italic, roman};
use serde_json::Value;

use super::entry;

/// The schema, which is installed beside the definitions of applications.
const SCHEMA: &str = include_str!("../../../../../docs/results.schema.json");

/// The page.
pub fn page() -> Result<String> {
    let schema: Value = serde_json::from_str(SCHEMA)?;
    let mut roff = Roff::new();
    let source = concat!("warmswap ", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["warmswap-json", "5", "", source, "warmswap"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("warmswap-json - results of warmswap as JSON")]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([
        bold("warmswap"),
        roman(" "),
        italic("COMMAND"),
        roman(" "),
        bold("--json"),
        roman(" "),
        italic("FILE"),
    ]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "A result is written as one object, which says what it is and where it comes from. A file is replaced as a whole \
         or not at all. With - in place of a file the result goes to standard output, and tables are left out.",
    )]);
    properties(&mut roff, &schema)?;
    roff.control("SH", ["STABILITY"]);
    roff.text([roman(
        "schema_version of a result grows when a field of it changes its meaning or goes away, not when one is added: \
         ignore what you do not know. Sizes are in bytes, times in nanoseconds or seconds, as the names say; null stands \
         for what is not known.",
    )]);
    roff.control("SH", ["SCHEMAS"]);
    for (name, what, fields) in described()? {
        entry(&mut roff, &name, &what);
        for (field, what) in fields {
            roff.control("RS", []);
            entry(&mut roff, &field, &what);
            roff.control("RE", []);
        }
    }
    roff.control("SH", ["FILES"]);
    entry(
        &mut roff,
        "/usr/share/warmswap/results.schema.json",
        "All of this as a JSON Schema (draft 2020-12).",
    );
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("warmswap"),
        roman("(1), "),
        bold("warmswap-status"),
        roman("(1)"),
    ]);
    Ok(roff.to_roff())
}

/// A kind of result: its name, what it is, and its fields, each with what it is.
pub type Described = (String, String, Vec<(String, String)>);

/// All kinds of results that the schema describes.
pub fn described() -> Result<Vec<Described>> {
    let schema: Value = serde_json::from_str(SCHEMA)?;
    let definitions = schema["$defs"].as_object().context("no definitions")?;
    let results = definitions
        .iter()
        .filter(|(name, _)| name.starts_with("warmswap."));
    let described = results.filter_map(|(name, definition)| {
        let what = definition["description"].as_str()?.to_owned();
        let fields = shape(&schema, definition)["properties"].as_object();
        let fields = fields.into_iter().flatten().filter_map(|(field, value)| {
            let what = value["description"].as_str()?;
            Some((field.clone(), what.to_owned()))
        });
        Some((name.clone(), what, fields.collect()))
    });
    Ok(described.collect())
}

/// The object that a definition speaks of: itself, what it refers to, or what its list or its choices begin with.
fn shape<'a>(schema: &'a Value, definition: &'a Value) -> &'a Value {
    let reference = [
        &definition["$ref"],
        &definition["items"]["$ref"],
        &definition["anyOf"][0]["$ref"],
    ];
    let mut names = reference.iter().filter_map(|reference| reference.as_str());
    let name = names.find_map(|reference| reference.strip_prefix("#/$defs/"));
    name.map_or(definition, |name| &schema["$defs"][name])
}

fn properties(roff: &mut Roff, schema: &Value) -> Result<()> {
    let properties = schema["properties"].as_object();
    for (name, value) in properties.context("no properties")? {
        entry(
            roff,
            name,
            value["description"].as_str().unwrap_or_default(),
        );
    }
    Ok(())
}
