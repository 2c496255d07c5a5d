//! The manual page warmswap-json(5) and the page of the book about results as JSON, from their JSON Schema.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::Write as _;
use warmswap_output::manual::roff::{Roff, bold, italic, roman};

/// The schemas, which are installed beside the definitions of applications.
const SCHEMAS: [&str; 2] = [
    include_str!("../../../docs/results.schema.json"),
    include_str!("../../../docs/lab-results.schema.json"),
];

/// The manual page.
pub fn roff() -> Result<String> {
    let schema: Value = serde_json::from_str(SCHEMAS[0])?;
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
        "/usr/share/warmswap/results.schema.json, lab-results.schema.json",
        "All of this as JSON Schemas (draft 2020-12).",
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

/// The page of the book.
pub fn markdown() -> Result<String> {
    let mut text = String::from(
        "# Results as JSON\n\nCommands with results write them with `--json FILE`. `docs/results.schema.json` and \
         `docs/lab-results.schema.json` are all of this as JSON Schemas.\n\n",
    );
    for (name, what, fields) in described()? {
        writeln!(text, "## {name}\n\n{}\n", escape(&what))?;
        for (field, what) in fields {
            writeln!(text, "- `{field}`: {}", escape(&what))?;
        }
        text.push('\n');
    }
    Ok(text)
}

fn entry(roff: &mut Roff, term: &str, text: &str) {
    roff.control("TP", []);
    roff.text([bold(term)]);
    roff.text([roman(text)]);
}

/// A kind of result: its name, what it is, and its fields, each with what it is.
type Described = (String, String, Vec<(String, String)>);

/// All kinds of results that the schemas describe.
fn described() -> Result<Vec<Described>> {
    let each = SCHEMAS.map(described_by).into_iter();
    let all: Vec<_> = each.collect::<Result<_>>()?;
    Ok(all.concat())
}

fn described_by(schema: &str) -> Result<Vec<Described>> {
    let schema: Value = serde_json::from_str(schema)?;
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

/// Text in which nothing is taken for Markdown or HTML but code between backticks.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut is_code = false;
    for c in text.chars() {
        is_code ^= c == '`';
        if !is_code && matches!(c, '<' | '>' | '*' | '_' | '|' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left_as_it_is() {
        assert_eq!(escape("a <B> `c_<d>` e*"), "a \\<B\\> `c_<d>` e\\*");
    }
}
