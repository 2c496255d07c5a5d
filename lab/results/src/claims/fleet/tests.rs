use super::super::{Finding, Paper, Verdict, findings};
use super::*;
use warmswap_bench::fleet::FleetReport;
use warmswap_bench::fleet::depth::DepthReport;

fn of(report: FleetReport, figure: &str) -> Finding {
    let results = Results {
        fleet: vec![report],
        ..Results::default()
    };
    let mut all = findings(Paper::Fleet, &results).into_iter();
    all.find(|finding| finding.claim.figure == figure)
        .expect("a claim")
}

fn working_set(row: WorkingSetRow, lifetimes: Lifetimes) -> FleetReport {
    FleetReport {
        working_set: Some(WorkingSetReport {
            background_bytes: 1,
            rows: vec![row],
            lifetimes: vec![lifetimes],
        }),
        ..FleetReport::default()
    }
}

fn measured(bgc_objects: u64, alive_per_mille: u64) -> FleetReport {
    let row = WorkingSetRow {
        program: "index".into(),
        old_changes: 10_000,
        live_objects: 1000,
        native_objects: 1000,
        native_pages: 10,
        bgc_objects,
        bgc_pages: 1,
    };
    let lifetimes = Lifetimes {
        program: "index".into(),
        objects: [1000, 10],
        foreground_per_mille: vec![900, alive_per_mille],
        background_per_mille: vec![0, 0],
    };
    working_set(row, lifetimes)
}

#[test]
fn background_collections_are_judged_with_many_changes_too() {
    let verdict = |bgc| of(measured(bgc, 500), "Figure 12a").verdict;
    assert_eq!(verdict(100), Verdict::Holds);
    assert_eq!(verdict(300), Verdict::InPart);
    assert_eq!(verdict(900), Verdict::DoesNot);
}

#[test]
fn lifetimes_are_judged_where_foreground_objects_die() {
    let verdict = |alive| of(measured(100, alive), "Figure 5a").verdict;
    assert_eq!(verdict(600), Verdict::Holds);
    assert_eq!(verdict(100), Verdict::DoesNot);
    assert_eq!(verdict(1000), Verdict::NotEvaluated);
}

fn depth(program: &str, covered_objects: u64) -> DepthRow {
    DepthRow {
        program: program.into(),
        choice: Choice::Nro,
        depth: 2,
        accessed_objects: 1000,
        covered_per_mille: covered_objects,
        footprint_per_mille: 0,
        covered_objects,
        launch_bytes: 3,
        all_bytes: 10_000,
    }
}

#[test]
fn objects_near_the_roots_are_judged_by_programs_that_were_not_made_for_it() {
    let of_rows = |rows: Vec<DepthRow>| {
        let report = FleetReport {
            depth: Some(DepthReport { rows }),
            ..FleetReport::default()
        };
        of(report, "Figure 6b").ours.map(|ours| ours.value)
    };
    assert_eq!(of_rows(vec![depth("synthetic-512", 500)]), None);
    let both = of_rows(vec![depth("synthetic-512", 500), depth("index", 9)]);
    assert!(
        both.is_some_and(|ratio| (ratio - 30.0).abs() < 1e-6),
        "{both:?}"
    );
}
