//! Results against the JSON Schemas in the tree: that their kind is there, and that it has these fields. The schemas follow
//! from the structs that are written, so that types need no check.

use serde_json::Value;

const SCHEMAS: [&str; 2] = [
    include_str!("../../../docs/results.schema.json"),
    include_str!("../../../docs/lab-results.schema.json"),
];

/// Checks that a result is of a kind that a schema describes, and has the fields that it names.
///
/// # Panics
/// When it is not.
#[track_caller]
pub fn assert_described(result: &Value) {
    let name = result["schema"].as_str().expect("a kind has a name");
    assert!(result["schema_version"].is_u64(), "{name}");
    let schemas = SCHEMAS.map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
    let schema = schemas
        .iter()
        .find(|schema| schema["$defs"].get(name).is_some());
    let schema = schema.unwrap_or_else(|| panic!("no schema describes {name}"));
    let kind = &schema["$defs"][name];
    let (shape, value) = match &kind["items"] {
        Value::Null => (kind, &result["data"]),
        items => (items, &result["data"][0]),
    };
    let reference = [&shape["$ref"], &shape["anyOf"][0]["$ref"]];
    let reference = reference.into_iter().find_map(Value::as_str);
    let shape = reference.map_or(shape, |name| &schema["$defs"][&name["#/$defs/".len()..]]);
    let (Some(fields), Some(known)) = (value.as_object(), shape["properties"].as_object()) else {
        let is_nothing = value.is_null() && result.get("data").is_some();
        assert!(is_nothing, "{name}: {value}");
        return;
    };
    for field in fields.keys() {
        assert!(known.contains_key(field), "{name}: {field}");
    }
    let required = shape["required"].as_array().into_iter().flatten();
    for field in required.filter_map(Value::as_str) {
        assert!(fields.contains_key(field), "{name}: {field}");
    }
}
