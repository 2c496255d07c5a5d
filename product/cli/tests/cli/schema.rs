//! Results against the JSON Schema that is shipped, by the keywords that it uses; any other keyword is a fault of the
//! schema. A crate for all of JSON Schema would bring thirty others.

use serde_json::{Map, Value};
use std::sync::OnceLock;

/// The schema.
fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = include_str!("../../../../docs/results.schema.json");
        serde_json::from_str(text).expect("the schema is JSON")
    })
}

/// Checks that a result is what the schema says of it.
#[track_caller]
pub fn assert_described(result: &Value) {
    let mut faults = Vec::new();
    check(schema(), result, "", &mut faults);
    assert!(faults.is_empty(), "docs/results.schema.json: {faults:#?}");
}

/// What has one of the names that `type` gives.
fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the schema speaks of a type {other}"),
    }
}

fn fits(schema: &Value, value: &Value) -> bool {
    let mut faults = Vec::new();
    check(schema, value, "", &mut faults);
    faults.is_empty()
}

/// Adds to `faults` what of `value`, which stands at `place`, is not as the schema says.
fn check(schema: &Value, value: &Value, place: &str, faults: &mut Vec<String>) {
    let keywords = schema.as_object().expect("a schema is an object");
    for (keyword, says) in keywords {
        let list = || says.as_array().expect("a list").iter();
        let is_right = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "then" => true,
            "$ref" => {
                check(definition(says), value, place, faults);
                true
            }
            "allOf" => {
                list().for_each(|all| check(all, value, place, faults));
                true
            }
            "anyOf" => list().any(|any| fits(any, value)),
            "oneOf" => list().filter(|one| fits(one, value)).count() == 1,
            "if" => !fits(says, value) || fits_then(keywords, value, place, faults),
            "type" => match says {
                Value::String(kind) => is_of(value, kind),
                _ => list().any(|kind| is_of(value, kind.as_str().expect("a type"))),
            },
            "enum" => list().any(|one| one == value),
            "const" => says == value,
            "minimum" => value.as_f64() >= says.as_f64(),
            "required" => list().all(|name| value.get(name.as_str().expect("a name")).is_some()),
            "properties" | "additionalProperties" | "items" | "prefixItems" => {
                check_within(keyword, says, value, place, faults);
                true
            }
            other => panic!("the schema uses {other}, which this test does not know"),
        };
        if !is_right {
            faults.push(format!("{place}: {keyword} {says}: {value}"));
        }
    }
}

fn fits_then(
    keywords: &Map<String, Value>,
    value: &Value,
    place: &str,
    faults: &mut Vec<String>,
) -> bool {
    check(&keywords["then"], value, place, faults);
    true
}

fn check_within(keyword: &str, says: &Value, value: &Value, place: &str, faults: &mut Vec<String>) {
    match (keyword, value) {
        ("properties", Value::Object(fields)) => {
            for (name, schema) in says.as_object().expect("properties") {
                if let Some(field) = fields.get(name) {
                    check(schema, field, &format!("{place}/{name}"), faults);
                }
            }
        }
        ("additionalProperties", Value::Object(fields)) => {
            for (name, field) in fields {
                check(says, field, &format!("{place}/{name}"), faults);
            }
        }
        ("items", Value::Array(all)) => {
            for (at, item) in all.iter().enumerate() {
                check(says, item, &format!("{place}/{at}"), faults);
            }
        }
        ("prefixItems", Value::Array(all)) => {
            for ((at, item), schema) in all.iter().enumerate().zip(says.as_array().expect("a list"))
            {
                check(schema, item, &format!("{place}/{at}"), faults);
            }
        }
        _ => {}
    }
}

/// What a reference names.
fn definition(reference: &Value) -> &'static Value {
    let name = reference
        .as_str()
        .and_then(|text| text.strip_prefix("#/$defs/"));
    let found = name.and_then(|name| schema()["$defs"].get(name));
    found.unwrap_or_else(|| panic!("the schema has no {reference}"))
}
