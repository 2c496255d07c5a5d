//! The study on small traces.

use super::*;
use crate::testing::synthetic;

#[test]
fn every_set_is_replayed_once() {
    let sets = sets();
    // All and none, 12 rows twice, 28 pairs, of which two are rows.
    assert_eq!(sets.len(), 2 + 2 * 12 + 28 - 2);
    let names: std::collections::BTreeSet<_> = sets.iter().map(|set| set.scheme_name()).collect();
    assert_eq!(names.len(), sets.len());
}

#[test]
fn gains_follow_from_the_schemes_of_the_rows() {
    let study = parts(&[synthetic(2000)], (50.0, 20.0), &|_| {}).unwrap();
    assert_eq!(study.parts.len(), rows().len());
    assert_eq!(study.pairs.len(), 28);
    let scheme = |name: &str| {
        let found = study.schemes.iter().find(|row| row.scheme == name);
        found.unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(scheme(PLAIN).gain, Some(1.0));
    assert_eq!(
        (scheme(PLAIN).buffer_hits, scheme(PLAIN).prepaged_used),
        (0, 0)
    );
    assert!(scheme(ALL).buffer_hits > 0 && scheme(ALL).written_back_chunks > 0);
    let alone = study.parts.iter().map(|row| row.gain_alone.unwrap());
    let alone: Vec<_> = alone.collect();
    for (pair, row) in pairs().zip(&study.pairs) {
        let [first, second] = pair.map(|part| alone[part as usize]);
        let product = first * second * row.gain_interaction.unwrap();
        assert!((product - row.gain_both.unwrap()).abs() < 1e-9, "{row:?}");
    }
    let both = &study.parts[Part::ALL.len()];
    assert_eq!(both.part, "PreDecomp + footprints");
    assert_eq!(both.paper, "Ariadne, ASAP");
}
