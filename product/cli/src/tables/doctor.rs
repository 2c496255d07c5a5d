//! What of this machine each part needs, and what is there.

use warmswap_doctor::{Diagnosis, Part, State};

use warmswap_output::{Column, Kind, Quantity, Table};

/// Part by part, and check by check. What would fix what is not there follows from
/// [`warmswap_doctor::Row::fix`]: a command that is wrapped in a table cannot be copied.
#[must_use]
pub fn doctor(diagnosis: &Diagnosis) -> Vec<Table> {
    vec![parts(diagnosis), checks(diagnosis)]
}

fn columns<const N: usize>(titles: [(&str, &str); N]) -> Vec<Column> {
    titles
        .map(|(key, title)| Column::new(key, title, Kind::Text))
        .into()
}

fn parts(diagnosis: &Diagnosis) -> Table {
    let columns = columns([
        ("part", "part"),
        ("summary", "what it is"),
        ("works", "works here"),
    ]);
    let mut table = Table::new("Parts", columns);
    for found in &diagnosis.parts {
        let title = |key: &&'static str| {
            let row = diagnosis.checks.iter().find(|row| row.key == *key);
            row.map_or(*key, |row| row.title)
        };
        let titles = |keys: &[&'static str]| {
            let titles: Vec<_> = keys.iter().map(title).collect();
            titles.join(", ")
        };
        let works = if !found.works {
            format!("no: {}", titles(&found.lacks))
        } else if !found.better_with.is_empty() {
            format!("yes, better with: {}", titles(&found.better_with))
        } else {
            "yes".to_owned()
        };
        table.row([
            Quantity::text(found.part.name()),
            Quantity::text(found.part.summary()),
            Quantity::text(&works),
        ]);
    }
    table
}

/// In the column of a part: it does not work without, or works better with it.
const MUST: &str = "x";
const BETTER: &str = "+";

fn checks(diagnosis: &Diagnosis) -> Table {
    let mut columns = columns([("state", ""), ("title", "check"), ("found", "found")]);
    columns = columns.into_iter().map(Column::kept).collect();
    let named: Vec<Part> = diagnosis.parts.iter().map(|found| found.part).collect();
    let parts = named.iter();
    columns.extend(parts.map(|part| Column::new(part.name(), part.name(), Kind::Text)));
    let mut table = Table::new("Checks", columns);
    for row in &diagnosis.checks {
        let state = match row.state {
            State::There => "ok",
            State::Lacking => "no",
            State::Unknown => "?",
        };
        let needs = named.iter().map(|part| {
            if row.must.contains(part) {
                MUST
            } else if row.better.contains(part) {
                BETTER
            } else {
                ""
            }
        });
        let start = [state, row.title, row.found.as_str()];
        table.row(start.into_iter().chain(needs).map(Quantity::text));
    }
    table.note(format!(
        "{MUST}: the part does not work without; {BETTER}: it works better with it."
    ))
}
