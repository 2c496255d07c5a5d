//! One JSON Schema (draft 2020-12) of several kinds of results, from the structs that they are written from.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

/// Collects kinds of results.
#[derive(Debug)]
pub struct Document {
    generator: SchemaGenerator,
    envelope: Value,
    kinds: Map<String, Value>,
}

impl Document {
    /// Without kinds. `E` is what a result is written in: its field `schema` names the kind of its field `data`.
    #[must_use]
    pub fn of<E: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut generator = settings.into_generator();
        Self {
            envelope: E::json_schema(&mut generator).to_value(),
            generator,
            kinds: Map::new(),
        }
    }

    /// Adds a kind: the name in `schema`, what it is, and the type of `data`.
    #[must_use]
    pub fn with<T: JsonSchema>(mut self, name: &str, about: &str) -> Self {
        let mut kind = self.generator.subschema_for::<T>().to_value();
        kind["description"] = about.into();
        self.kinds.insert(name.to_owned(), kind);
        self
    }

    /// The schema as text, keys in the order of the alphabet.
    #[must_use]
    pub fn text(mut self) -> String {
        let names: Vec<&String> = self.kinds.keys().collect();
        let choices = names.iter().map(|name| {
            json!({
                "if": { "properties": { "schema": { "const": name } } },
                "then": { "properties": { "data": { "$ref": format!("#/$defs/{name}") } } },
            })
        });
        let mut schema = self.envelope;
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        schema["title"] = "Results of warmswap".into();
        schema["allOf"] = choices.collect();
        schema["properties"]["schema"]["enum"] = json!(names);
        let mut definitions = self.generator.take_definitions(true);
        definitions.append(&mut self.kinds);
        schema["$defs"] = definitions.into();
        plain(&mut schema);
        format!("{schema:#}\n")
    }
}

/// Leaves out defaults, which results never depend on. Descriptions lose the marks of links, and say how JSON writes `None`.
fn plain(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text
                    .replace("[`", "`")
                    .replace("`]", "`")
                    .replace("`None`", "null")
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

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Wrapped {
        /// Its kind.
        schema: String,
        data: Value,
    }

    /// A row.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Row {
        /// Bytes, as [`u64`]; `None` where there are none.
        data_bytes: Option<u64>,
    }

    #[test]
    fn a_kind_is_described_by_its_struct() {
        let document = Document::of::<Wrapped>().with::<Vec<Row>>("warmswap.test", "Rows.");
        let schema: Value = serde_json::from_str(&document.text()).unwrap();
        assert_eq!(schema["required"], json!(["schema", "data"]));
        let name = &schema["properties"]["schema"];
        assert_eq!(name["enum"], json!(["warmswap.test"]));
        assert_eq!(name["description"], "Its kind.");
        let data = &schema["allOf"][0]["then"]["properties"]["data"];
        assert_eq!(data["$ref"], "#/$defs/warmswap.test");
        let kind = &schema["$defs"]["warmswap.test"];
        assert_eq!(kind["description"], "Rows.");
        assert_eq!(kind["items"]["$ref"], "#/$defs/Row");
        let field = &schema["$defs"]["Row"]["properties"]["data_bytes"];
        let said = "Bytes, as `u64`; null where there are none.";
        assert_eq!(field["description"], said);
        assert_eq!(field["type"], json!(["integer", "null"]));
    }
}
