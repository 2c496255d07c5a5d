//! One JSON Schema (draft 2020-12) of several kinds of results, from the structs that they are written from.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

/// Collects kinds of results.
#[derive(Debug)]
pub struct Document {
    generator: SchemaGenerator,
    kinds: Map<String, Value>,
}

impl Default for Document {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        Self {
            generator: settings.into_generator(),
            kinds: Map::new(),
        }
    }
}

impl Document {
    /// Adds a kind: the name in `schema`, what it is, and the type of `data`.
    #[must_use]
    pub fn with<T: JsonSchema>(mut self, name: &str, about: &str) -> Self {
        let mut kind = self.generator.subschema_for::<T>().to_value();
        kind["description"] = about.into();
        self.kinds.insert(name.to_owned(), kind);
        self
    }

    /// The schema as text: one line a definition, so that a change of a struct changes a line.
    #[must_use]
    pub fn text(mut self) -> String {
        let names: Vec<&String> = self.kinds.keys().collect();
        let head = json!({
            "schema": { "type": "string", "enum": names, "description": "Name of the shape of data." },
            "schema_version": { "type": "integer", "minimum": 1, "description": "Version of that shape, from 1 on." },
            "warmswap": { "type": "string", "description": "Version of warmswap that wrote it." },
            "machine": {
                "type": "object",
                "description": "The machine: processor, processors that are online, release of the kernel, memory.",
                "properties": {
                    "cpu": { "type": "string" },
                    "cores": { "type": "integer" },
                    "kernel": { "type": "string" },
                    "memory_bytes": { "type": "integer" },
                },
                "required": ["cpu", "cores", "kernel", "memory_bytes"],
            },
            "command": {
                "type": "array",
                "items": { "type": "string" },
                "description": "The command line, program first.",
            },
            "data": { "description": "The result; its shape is named by schema." },
        });
        let required: Vec<&String> = head.as_object().into_iter().flat_map(Map::keys).collect();
        let choices = names.iter().map(|name| {
            json!({
                "if": { "properties": { "schema": { "const": name } } },
                "then": { "properties": { "data": { "$ref": format!("#/$defs/{name}") } } },
            })
        });
        let top = [
            (
                "$schema",
                json!("https://json-schema.org/draft/2020-12/schema"),
            ),
            ("title", json!("Results of warmswap")),
            ("type", json!("object")),
            ("required", json!(required)),
        ];
        let choices: Vec<String> = choices.map(|choice| choice.to_string()).collect();
        let mut definitions = self.generator.take_definitions(true);
        definitions.append(&mut self.kinds.clone());
        definitions.values_mut().for_each(plain);
        let mut parts: Vec<String> = top.map(|(key, value)| format!("{key:?}: {value}")).into();
        parts.push(format!("\"properties\": {}", lines(&head)));
        parts.push(format!("\"allOf\": [\n{}\n]", choices.join(",\n")));
        parts.push(format!("\"$defs\": {}", lines(&Value::Object(definitions))));
        format!("{{\n{}\n}}\n", parts.join(",\n"))
    }
}

/// An object with a line for each of its fields.
fn lines(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten();
    let fields: Vec<String> = fields
        .map(|(key, value)| format!("{key:?}: {value}"))
        .collect();
    format!("{{\n{}\n}}", fields.join(",\n"))
}

/// Leaves out defaults, which results never depend on, and the marks of links within descriptions.
fn plain(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text
                    .replace("[`", "`")
                    .replace("`]", "`")
                    .replace('\n', " ");
            }
            if fields
                .get("default")
                .is_some_and(|default| !default.is_object() || !default["type"].is_string())
            {
                fields.remove("default");
            }
            fields.values_mut().for_each(plain);
        }
        Value::Array(all) => all.iter_mut().for_each(plain),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Row {
        /// Bytes, as [`u64`].
        data_bytes: Option<u64>,
    }

    #[test]
    fn a_kind_is_described_by_its_struct() {
        let text = Document::default()
            .with::<Vec<Row>>("warmswap.test", "Rows.")
            .text();
        let schema: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            schema["properties"]["schema"]["enum"],
            json!(["warmswap.test"])
        );
        let kind = &schema["$defs"]["warmswap.test"];
        assert_eq!(kind["description"], "Rows.");
        assert_eq!(kind["items"]["$ref"], "#/$defs/Row");
        let field = &schema["$defs"]["Row"]["properties"]["data_bytes"];
        assert_eq!(field["description"], "Bytes, as `u64`.");
        assert_eq!(field["type"], json!(["integer", "null"]));
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("\"Row\""))
                .count(),
            1
        );
    }
}
