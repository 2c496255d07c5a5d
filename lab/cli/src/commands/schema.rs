//! `warmswap-lab schema`: the JSON Schema of the laboratory's results.

use anyhow::Result;
use warmswap_commands::{schemes, trace};
use warmswap_output::Output;
use warmswap_results::Results;
use warmswap_results::difference::Comparison;
use warmswap_results::evidence::EvidenceRow;

/// Prints it. What is printed is docs/lab-results.schema.json.
pub fn run(output: &Output) -> Result<()> {
    output.refuse_result("warmswap-lab schema")?;
    output.say(text().trim_end())
}

fn text() -> String {
    let document = Results::schema()
        .with::<Vec<EvidenceRow>>(
            "warmswap.report",
            "The papers' claims, and ours beside them.",
        )
        .with::<Comparison>(
            "warmswap.report_compare",
            "What changed between two results.",
        )
        .with::<schemes::Listing>("warmswap.schemes", "What can be named on the command line.")
        .with::<trace::Exported>(
            "warmswap.trace_export",
            "A trace written in another format.",
        )
        .with::<Vec<trace::Shown<'_>>>("warmswap.trace_head", "Events of a trace.");
    document.text()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_in_the_tree_follows_from_the_results() {
        let in_tree = include_str!("../../../../docs/lab-results.schema.json");
        let is_alike = in_tree == super::text();
        assert!(
            is_alike,
            "warmswap-lab schema > docs/lab-results.schema.json"
        );
    }
}
