//! The JSON Schema of the product's results, which docs/results.schema.json holds. Only tests make it: the command does not
//! grow by it.

use crate::commands::{config::Effective, run::RunResult, status::Listing};
use serde_json::Value;
use warmswap_columns::schema::Document;
use warmswap_doctor::Diagnosis;
use warmswap_output::Envelope;
use warmswap_protocol::{AppStatus, ProgramStatus};

fn text() -> String {
    Document::of::<Envelope<Value>>()
        .with::<Effective>(
            "warmswap.config",
            "The daemon's configuration: `warmswap config --effective`.",
        )
        .with::<Diagnosis>(
            "warmswap.doctor",
            "What of this machine each part needs: `warmswap doctor`.",
        )
        .with::<RunResult>(
            "warmswap.run",
            "A paged program after its end: `warmswap run`.",
        )
        .with::<Listing>(
            "warmswap.status",
            "The daemon and the paged programs: `warmswap status`.",
        )
        .with::<ProgramStatus>(
            "warmswap.switch",
            "A paged program after it was told: `warmswap switch PID`.",
        )
        .with::<Option<AppStatus>>(
            "warmswap.switch.app",
            "The application after the daemon was told: `warmswap switch APP`; null where the daemon is gone meanwhile.",
        )
        .text()
}

#[test]
fn the_schema_in_the_tree_follows_from_the_results() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/results.schema.json"
    );
    if std::env::var_os("WARMSWAP_BLESS").is_some() {
        std::fs::write(path, text()).expect("the tree can be written");
    }
    let in_tree = std::fs::read_to_string(path).expect("it is in the tree");
    let is_alike = in_tree == text();
    assert!(
        is_alike,
        "WARMSWAP_BLESS=1 cargo test --package warmswap the_schema_in_the_tree"
    );
}
