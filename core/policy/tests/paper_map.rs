//! ARCHITECTURE.md names files that exist: the map of the papers, the same as at the top of the crate, and the paths that it
//! draws.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PAPERS: [&str; 4] = ["Ariadne ", "ASAP ", "ezswap ", "Fleet "];

fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .join("../..")
        .canonicalize()
        .expect("the package is in the repository")
}

/// The files of each section, from the rows of a table of three columns.
fn map(text: &str, files: fn(&str) -> Vec<String>) -> BTreeMap<String, Vec<String>> {
    let rows = text
        .lines()
        .map(|line| line.trim_start_matches("//!").trim());
    let rows = rows.filter_map(|line| line.strip_prefix("| "));
    let rows = rows.filter(|row| PAPERS.iter().any(|paper| row.starts_with(paper)));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .map(|cells| (cells[0].to_owned(), files(cells[2])))
        .collect()
}

fn in_backticks(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn in_links(cell: &str) -> Vec<String> {
    let ends = cell.split("](").skip(1);
    ends.filter_map(|end| end.split(')').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_section_of_a_paper_has_a_file_that_exists() {
    let repository = repository();
    let read = |path: &str| std::fs::read_to_string(repository.join(path)).expect("it can be read");
    let of_crate = map(&read("core/policy/src/lib.rs"), in_backticks);
    let of_page = map(&read("ARCHITECTURE.md"), in_links);
    assert!(of_crate.len() > 20, "{of_crate:?}");
    assert_eq!(of_crate, of_page);
    for (section, files) in of_crate {
        assert!(!files.is_empty(), "{section} has no file");
        for file in files {
            assert!(
                repository.join(&file).is_file(),
                "{section}: {file} is missing"
            );
        }
    }
}

#[test]
fn every_file_of_a_drawn_path_exists() {
    let repository = repository();
    let page = std::fs::read_to_string(repository.join("ARCHITECTURE.md")).expect("it can be read");
    let blocks = page.split("```").skip(1).step_by(2);
    let words = blocks.flat_map(str::split_whitespace);
    let files: Vec<&str> = words.filter(|word| word.ends_with(".rs")).collect();
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        assert!(repository.join(file).is_file(), "{file} is missing");
    }
}
