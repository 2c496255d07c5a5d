use super::*;

#[test]
fn rules_have_a_whole_and_a_half() {
    let near = |ours| judge(Rule::Near(0.1), Some(2.0), ours);
    assert_eq!(near(2.19), Verdict::Holds);
    assert_eq!(near(1.65), Verdict::InPart);
    assert_eq!(near(2.5), Verdict::DoesNot);
    let most = |ours| judge(Rule::AtMost(0.5, 1.0), Some(0.5), ours);
    assert_eq!(
        [0.4, 0.9, 1.1].map(most),
        [Verdict::Holds, Verdict::InPart, Verdict::DoesNot]
    );
    let least = |ours| judge(Rule::AtLeast(2.0, 1.0), None, ours);
    assert_eq!(
        [3.0, 1.5, 0.9].map(least),
        [Verdict::Holds, Verdict::InPart, Verdict::DoesNot]
    );
}

#[test]
fn results_in_the_tree_speak_of_every_claim() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results");
    let files = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let results = Results::load(&paths).unwrap();
    for claim in Paper::ALL.into_iter().flat_map(Paper::claims) {
        let name = format!("{} {}", claim.figure, claim.says);
        let verdict = Finding::of(claim, &results).verdict;
        assert_ne!(verdict, Verdict::NotRun, "{name}");
        assert_ne!(verdict, Verdict::NotEvaluated, "{name}");
    }
}

#[test]
fn every_claim_says_what_it_is_and_how_ours_is_made() {
    for paper in Paper::ALL {
        for claim in paper.claims() {
            let name = format!("{paper:?} {} {}", claim.figure, claim.says);
            assert!(claim.section.starts_with("section"), "{name}");
            assert!(
                !claim.says.is_empty() && !claim.says.ends_with('.'),
                "{name}"
            );
            assert!(!claim.reason.ends_with('.'), "{name}");
            let is_cannot = claim.rule == Rule::Cannot;
            assert!(
                is_cannot || claim.command.starts_with("warmswap-lab "),
                "{name}"
            );
            assert!(!is_cannot || !claim.reason.is_empty(), "{name}");
            // In part is the weaker half of a rule.
            match claim.rule {
                Rule::AtMost(most, in_part) => assert!(most <= in_part, "{name}"),
                Rule::AtLeast(least, in_part) => assert!(least >= in_part, "{name}"),
                Rule::Near(part) => assert!(part > 0.0 && claim.paper.is_some(), "{name}"),
                Rule::Cannot => {}
            }
            let finding = Finding::of(claim, &Results::default());
            let wanted = if is_cannot {
                Verdict::Cannot
            } else {
                Verdict::NotRun
            };
            assert_eq!(finding.verdict, wanted, "{name}");
        }
    }
}

#[test]
fn what_does_not_hold_has_its_reason() {
    let claim = Claim {
        says: "half",
        paper: Some(0.5),
        ours: |_| Ours::over([0.6, 0.8]),
        rule: Rule::AtMost(0.5, 1.0),
        reason: "of its size",
        ..super::claim(("Figure 1", "section 1"), "warmswap-lab compare")
    };
    let finding = Finding::of(claim, &Results::default());
    let said = (finding.verdict, finding.why());
    assert_eq!(said, (Verdict::InPart, "of its size".to_owned()));
    let vacuous = claim.vacuous(|_| Some("nothing leaves"));
    let finding = Finding::of(vacuous, &Results::default());
    let said = (finding.verdict, finding.why());
    assert_eq!(said, (Verdict::NotEvaluated, "nothing leaves".to_owned()));
    let lacking = claim.lacks(|_| Some("few accesses to files are recorded"));
    let verdict = |claim| Finding::of(claim, &Results::default()).verdict;
    assert_eq!(verdict(lacking), Verdict::NotEvaluated);
    let borne_out = lacking.rule(Rule::AtMost(0.7, 1.0));
    assert_eq!(verdict(borne_out), Verdict::Holds);
}
