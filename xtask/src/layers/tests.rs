use super::*;
use crate::metadata::Dependency;

const RULES: &str = r#"
    [[layer]]
    name = "engine"
    crates = ["engine"]
    [[layer]]
    name = "store"
    crates = ["pool", "backing"]
    [[layer]]
    name = "trace"
    crates = ["trace"]
    [beside]
    test_helpers = ["testkit"]
    tools = ["xtask"]
    [dev_dependencies]
    allowed = true
    [unsafe_allowed]
    pool = ["src/map.rs"]
"#;

fn rules() -> Rules {
    Rules::parse(RULES).unwrap()
}

fn package(name: &str, uses: &[(&str, Option<Kind>)]) -> Package {
    Package {
        name: name.to_owned(),
        manifest_path: format!("/nowhere/{name}/Cargo.toml").into(),
        dependencies: uses
            .iter()
            .map(|&(name, kind)| Dependency {
                name: name.to_owned(),
                kind,
            })
            .collect(),
    }
}

/// What the check says about one package with one dependency.
fn verdict(user: &str, used: &str, kind: Option<Kind>) -> Vec<String> {
    dependencies(&rules(), &[package(user, &[(used, kind)])])
}

#[test]
fn down_is_allowed() {
    for kind in [None, Some(Kind::Build), Some(Kind::Dev)] {
        assert!(verdict("engine", "pool", kind).is_empty());
        assert!(verdict("engine", "trace", kind).is_empty());
        assert!(verdict("pool", "trace", kind).is_empty());
    }
}

#[test]
fn up_and_sideways_fail() {
    for kind in [None, Some(Kind::Build), Some(Kind::Dev)] {
        assert_eq!(verdict("pool", "engine", kind).len(), 1);
        assert_eq!(verdict("pool", "backing", kind).len(), 1);
        assert_eq!(verdict("pool", "pool", kind).len(), 1);
    }
    assert_eq!(
        verdict("trace", "engine", Some(Kind::Dev)),
        [
            "trace (layer \"trace\") must not use engine (layer \"engine\") under [dev-dependencies]: \
          dependencies point down only"
        ]
    );
}

#[test]
fn packages_outside_the_workspace_do_not_count() {
    assert!(verdict("pool", "serde", None).is_empty());
}

#[test]
fn test_helpers_serve_tests_only() {
    assert!(verdict("trace", "testkit", Some(Kind::Dev)).is_empty());
    assert_eq!(verdict("trace", "testkit", None).len(), 1);
    assert_eq!(verdict("trace", "testkit", Some(Kind::Build)).len(), 1);
    assert_eq!(verdict("testkit", "trace", None).len(), 1);
}

#[test]
fn tools_stand_alone() {
    assert_eq!(verdict("xtask", "trace", None).len(), 1);
    assert_eq!(verdict("engine", "xtask", Some(Kind::Dev)).len(), 1);
    assert_eq!(verdict("xtask", "testkit", Some(Kind::Dev)).len(), 1);
}

#[test]
fn dev_dependencies_can_be_forbidden() {
    let strict = Rules::parse(&RULES.replace("allowed = true", "allowed = false")).unwrap();
    let uses = |kind| dependencies(&strict, &[package("engine", &[("pool", kind)])]);
    assert_eq!(uses(Some(Kind::Dev)).len(), 1);
    assert!(uses(None).is_empty());
}

#[test]
fn every_crate_stands_in_the_list_once() {
    let names = ["engine", "pool", "backing", "trace", "testkit", "xtask"];
    let all: Vec<Package> = names.iter().map(|name| package(name, &[])).collect();
    assert!(names_of_both(&rules(), &all).is_empty());

    let mut more = all;
    more.push(package("stranger", &[]));
    assert_eq!(
        names_of_both(&rules(), &more),
        ["stranger is missing in layers.toml"]
    );

    more.retain(|package| package.name != "stranger" && package.name != "backing");
    assert_eq!(
        names_of_both(&rules(), &more),
        ["layers.toml names backing, which the workspace does not have"]
    );

    let twice = Rules::parse(&RULES.replace("\"backing\"", "\"backing\", \"trace\"")).unwrap();
    let found = names_of_both(&twice, &[package("trace", &[])]);
    assert!(found.contains(&"trace stands 2 times in layers.toml".to_owned()));
}

#[test]
fn lints_must_be_inherited() {
    let head = "[package]\nname = \"a\"\n";
    assert_eq!(
        lints("a", &format!("{head}[lints]\nworkspace = true\n")),
        None
    );
    assert!(lints("a", head).is_some());
    assert!(lints("a", &format!("{head}[lints]\nworkspace = false\n")).is_some());
    assert!(
        lints(
            "a",
            &format!("{head}[lints.rust]\nunsafe_code = \"allow\"\n")
        )
        .is_some()
    );
    assert!(lints("a", "not toml [").is_some());
}

#[test]
fn misspelt_rules_are_refused() {
    assert!(Rules::parse(&RULES.replace("crates = [\"trace\"]", "crate = [\"trace\"]")).is_err());
    assert!(Rules::parse("").is_err());
}

#[test]
fn cargo_names_kinds_as_expected() {
    let metadata: Metadata = serde_json::from_str(
        r#"{"packages": [{"name": "a", "manifest_path": "/a/Cargo.toml", "dependencies": [
                {"name": "n", "kind": null}, {"name": "d", "kind": "dev"}, {"name": "b", "kind": "build"}
            ]}]}"#,
    )
    .unwrap();
    let kinds: Vec<_> = metadata.packages[0]
        .dependencies
        .iter()
        .map(|d| d.kind)
        .collect();
    assert_eq!(kinds, [None, Some(Kind::Dev), Some(Kind::Build)]);
}
