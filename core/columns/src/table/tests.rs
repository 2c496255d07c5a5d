use super::*;
use crate::units::Style;

/// Three rows, every origin, a footnote and a missing value.
fn sample() -> Table {
    let mut table = Table::new(
        "Relaunch, budget 50%",
        vec![
            Column::new("scheme", "scheme", Kind::Text),
            Column::new("relaunch_p50_ns", "relaunch p50", Kind::Duration).from(Origin::Modelled),
            Column::new("pool_bytes", "pool", Kind::Bytes).from(Origin::Measured),
            Column::new("data_ratio", "data ratio", Kind::Ratio).from(Origin::Measured),
            Column::new("paper_ratio", "data ratio", Kind::Ratio).from(Origin::Paper),
            Column::new("refaults", "refaults", Kind::Count),
        ],
    );
    table.row([
        Quantity::text("dram"),
        Quantity::Nanoseconds(1.6e6),
        Quantity::Missing,
        Quantity::Missing,
        Quantity::Missing,
        Quantity::Count(0),
    ]);
    for (name, nanoseconds, bytes, ratio, refaults) in [
        ("zram", 33e6, 160 << 20, 2.768, 1_234_567),
        ("ariadne-ehl-1k-2k-16k", 16.04e6, 150 << 20, 3.33, 98_765),
    ] {
        table.row([
            Quantity::text(name),
            Quantity::Nanoseconds(nanoseconds),
            Quantity::Bytes(bytes),
            Quantity::Ratio(ratio),
            Quantity::Ratio(3.0),
            Quantity::Count(refaults),
        ]);
    }
    table.note_at("every page stays resident", "relaunch_p50_ns", [0])
}

fn assert_lines(actual: &str, expected: &[&str]) {
    let actual: Vec<&str> = actual.lines().collect();
    assert_eq!(actual, expected, "\n{}", actual.join("\n"));
}

#[test]
fn text_is_golden() {
    assert_lines(
        &sample().text(Style::PLAIN),
        &[
            "Relaunch, budget 50%",
            " scheme                  relaunch p50       pool   data ratio   data ratio    refaults",
            "                             modelled   measured     measured        paper",
            "───────────────────────────────────────────────────────────────────────────────────────",
            " dram                     1.60 ms [1]          –            –            –           0",
            " zram                     33.0 ms        160 MiB        2.77×        3.00×   1,234,567",
            " ariadne-ehl-1k-2k-16k    16.0 ms        150 MiB        3.33×        3.00×      98,765",
            " [1] every page stays resident",
        ],
    );
}

#[test]
fn raw_text_is_golden() {
    let raw = Style {
        raw: true,
        ..Style::PLAIN
    };
    assert_lines(
        &sample().text(raw),
        &[
            "Relaunch, budget 50%",
            " scheme                  relaunch p50             pool   data ratio   data ratio   refaults",
            "                          ns modelled   bytes measured     measured        paper",
            "────────────────────────────────────────────────────────────────────────────────────────────",
            " dram                     1600000 [1]                -            -            -          0",
            " zram                    33000000            167772160        2.768            3    1234567",
            " ariadne-ehl-1k-2k-16k   16040000            157286400         3.33            3      98765",
            " [1] every page stays resident",
        ],
    );
}

/// Columns stand closer, and the last ones are left out; no word and no number breaks.
#[test]
fn narrow_text_is_golden() {
    let narrow = Style {
        width: 60,
        ..Style::PLAIN
    };
    assert_lines(
        &sample().text(narrow),
        &[
            "Relaunch, budget 50%",
            " scheme                     relaunch       pool       data",
            "                                 p50   measured      ratio",
            "                            modelled              measured",
            "───────────────────────────────────────────────────────────",
            " dram                    1.60 ms [1]          –          –",
            " zram                    33.0 ms        160 MiB      2.77×",
            " ariadne-ehl-1k-2k-16k   16.0 ms        150 MiB      3.33×",
            " [1] every page stays resident",
            " left out for width: data ratio (paper), refaults",
        ],
    );
}

#[test]
fn json_has_base_units_and_nulls() {
    let json = sample().json();
    assert_eq!(json["title"], "Relaunch, budget 50%");
    assert_eq!(
        json["columns"][1],
        json!({"key": "relaunch_p50_ns", "title": "relaunch p50", "unit": "ns", "origin": "modelled"})
    );
    assert_eq!(json["columns"][0]["origin"], Value::Null);
    assert_eq!(
        json["rows"][0],
        json!({
            "scheme": "dram",
            "relaunch_p50_ns": 1.6e6,
            "pool_bytes": null,
            "data_ratio": null,
            "paper_ratio": null,
            "refaults": 0,
        })
    );
    assert_eq!(json["rows"][2]["pool_bytes"], 150 << 20);
    assert_eq!(
        json["footnotes"],
        json!([{"text": "every page stays resident", "cells": [{"row": 0, "key": "relaunch_p50_ns"}]}])
    );
}

#[test]
fn colours_change_nothing_but_colours() {
    let coloured = sample().text(Style {
        colour: true,
        ..Style::PLAIN
    });
    assert!(
        coloured.starts_with("\u{1b}[1mRelaunch, budget 50%\u{1b}[0m\n"),
        "{coloured:?}"
    );
    let mut stripped = coloured;
    for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m"] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, sample().text(Style::PLAIN));
}

#[test]
fn long_footnotes_wrap() {
    let table = Table::new("t", vec![Column::new("n", "n", Kind::Count)]);
    let table = table.note("one two three four five six");
    let text = table.text(Style {
        width: 20,
        ..Style::PLAIN
    });
    let lines: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(lines, ["     four five six", " [1] one two three"]);
}

#[test]
fn a_table_without_rows_still_has_its_heading() {
    let table = Table::new("empty", vec![Column::new("n", "number", Kind::Count)]);
    assert_lines(&table.text(Style::PLAIN), &["empty", " number", "────────"]);
    assert_eq!(table.row_count(), 0);
}

#[test]
#[should_panic(expected = "Relaunch, budget 50%")]
fn rows_have_a_cell_for_each_column() {
    sample().row([Quantity::Missing]);
}

#[test]
#[should_panic(expected = "pool_bytes")]
fn cells_are_of_the_kind_of_their_column() {
    let mut cells = vec![Quantity::Missing; 6];
    cells[2] = Quantity::Pages(3);
    sample().row(cells);
}

#[test]
#[should_panic(expected = "no such column")]
fn notes_stand_at_columns_that_are_there() {
    let _ = sample().note_at("text", "no such column", [0]);
}

proptest::proptest! {
    /// With short words, a table keeps to its width.
    #[test]
    fn text_keeps_to_the_width(
        width in 60_usize..=120,
        rows in proptest::collection::vec(("[a-z ]{0,5}( [a-z]{1,8}){0,12}", 0_u64..1 << 40), 0..6),
    ) {
        let columns = vec![
            Column::new("a", "some words", Kind::Text),
            Column::new("b", "more words here", Kind::Text),
            Column::new("c", "number", Kind::Bytes).from(Origin::Measured),
        ];
        let mut table = Table::new("t", columns);
        for (words, bytes) in rows {
            table.row([Quantity::text(words.clone()), Quantity::text(words), Quantity::Bytes(bytes)]);
        }
        for line in table.text(Style { width, ..Style::PLAIN }).lines() {
            proptest::prop_assert!(line.chars().count() <= width, "{line}");
        }
    }
}

#[test]
fn what_is_kept_stays_where_there_is_no_room() {
    let mut columns = sample().columns;
    columns[5] = columns[5].clone().kept();
    let table = Table {
        columns,
        ..sample()
    };
    for width in [20, 45, 60, 79] {
        let text = table.text(Style {
            width,
            ..Style::PLAIN
        });
        assert!(
            text.contains("scheme") && text.contains("1,234,567"),
            "{text}"
        );
        let fits = text.lines().all(|line| line.chars().count() <= width);
        assert!(fits || width < 40, "{width}: {text}");
        assert_eq!(text.contains("left out for width:"), width < 70, "{text}");
    }
}

#[test]
fn csv_has_raw_values_and_quotes_what_needs_it() {
    let mut table = sample();
    let odd = Quantity::text("a \"b\", c");
    let mut cells = vec![Quantity::Missing; 6];
    cells[0] = odd;
    table.row(cells);
    let csv = table.csv();
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(
        lines,
        [
            "scheme,relaunch_p50_ns,pool_bytes,data_ratio,paper_ratio,refaults",
            "dram,1600000,,,,0",
            "zram,33000000,167772160,2.768,3,1234567",
            "ariadne-ehl-1k-2k-16k,16040000,157286400,3.33,3,98765",
            "\"a \"\"b\"\", c\",,,,,",
            "",
        ]
    );
}
