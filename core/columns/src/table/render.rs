//! Tables as text and as CSV.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Width};

use super::{Cell, Column, Origin, Table};
use crate::units::{Quantity, Style};

const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const RESET: &str = "\u{1b}[0m";

/// Does not break; an ordinary space in what is rendered.
const HARD_SPACE: &str = "\u{a0}";

/// Fills the line below the heading, and nothing else.
const RULE: char = '─';

impl Table {
    /// The table for a terminal, at most `style.width` columns wide; ends with a line break.
    ///
    /// Numbers stand to the right, texts wrap, and the origin of a column stands below its heading.
    /// Columns stand three spaces apart; two where the table would be too wide otherwise. No word or number is broken:
    /// where that is not enough, columns are left out ([`Column::kept`]) and named below the table.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let mut inner = comfy_table::Table::new();
        let rule = LineStyle::none().fill(RULE).junction(RULE);
        inner
            .load_style(NOTHING.header_separator(rule))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(style.width).unwrap_or(u16::MAX));
        let texts: Vec<Vec<String>> = (0..self.columns.len())
            .map(|index| self.column_text(index, style))
            .collect();
        let shown = self.shown(&texts, style.width);
        let columns: Vec<&Vec<String>> = shown.iter().map(|&index| &texts[index]).collect();
        inner.set_header(columns.iter().map(|lines| &lines[0]));
        for row in 1..=self.rows.len() {
            inner.add_row(columns.iter().map(|lines| &lines[row]));
        }
        let is_tight = narrowest(&columns, WIDE) > style.width;
        for ((&index, lines), inner_column) in
            shown.iter().zip(&columns).zip(inner.column_iter_mut())
        {
            if self.columns[index].kind.is_numeric() {
                inner_column.set_cell_alignment(CellAlignment::Right);
            }
            if is_tight {
                inner_column.set_padding((1, 0));
            }
            let padded = longest_word(lines) + usize::from(inner_column.padding_width());
            let width = Width::Fixed(u16::try_from(padded).unwrap_or(u16::MAX));
            inner_column.set_constraint(ColumnConstraint::LowerBoundary(width));
        }

        let title = wrapped("", &self.title, style.width);
        let mut out: String = title
            .iter()
            .map(|line| painted(line, BOLD, style))
            .collect();
        let mut in_heading = true;
        for line in inner.lines() {
            let line = line.replace(HARD_SPACE, " ");
            let line = line.trim_end();
            in_heading &= !line.starts_with(RULE);
            let code = if in_heading { BOLD } else { "" };
            out += &painted(line, code, style);
        }
        for (index, footnote) in self.footnotes.iter().enumerate() {
            let mark = format!(" [{}] ", index + 1);
            for line in wrapped(&mark, footnote, style.width) {
                out += &painted(&line, DIM, style);
            }
        }
        let left_out: Vec<String> = (0..self.columns.len())
            .filter(|index| !shown.contains(index))
            .map(|index| self.told_apart(index))
            .collect();
        if !left_out.is_empty() {
            let left_out = format!("left out for width: {}", left_out.join(", "));
            for line in wrapped(" ", &left_out, style.width) {
                out += &painted(&line, DIM, style);
            }
        }
        out
    }

    /// The table as CSV (RFC 4180): a line of keys, then the raw values; nothing for what is not known. Titles, units and
    /// footnotes are left out.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = csv_row(self.columns.iter().map(|column| column.key.clone()));
        for row in &self.rows {
            out += &csv_row(row.iter().map(|cell| match cell.value {
                Quantity::Missing => String::new(),
                ref value => value.raw(),
            }));
        }
        out
    }

    /// The title of a column, with its origin where another column has the same title.
    fn told_apart(&self, index: usize) -> String {
        let Column { title, origin, .. } = &self.columns[index];
        let alike = self.columns.iter().filter(|other| other.title == *title);
        match origin {
            Some(origin) if alike.count() > 1 => format!("{title} ({})", origin.name()),
            _ => title.clone(),
        }
    }

    /// The columns that there is room for, by index.
    fn shown(&self, texts: &[Vec<String>], width: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let columns: Vec<&Vec<String>> = shown.iter().map(|&index| &texts[index]).collect();
            let can_go = |&index: &usize| index > 0 && !self.columns[index].is_kept;
            match shown.iter().rposition(can_go) {
                Some(last) if narrowest(&columns, TIGHT) > width => shown.remove(last),
                _ => return shown,
            };
        }
    }

    /// The heading and the cells of one column.
    ///
    /// Spaces within numbers are hard, so numbers do not break; where some cells of a column carry
    /// footnotes, the others end with as much empty room, so digits stay below digits.
    fn column_text(&self, index: usize, style: Style) -> Vec<String> {
        let column = &self.columns[index];
        let cells = || self.rows.iter().map(|row| &row[index]);
        let mark_width = cells().map(|cell| mark(cell).len()).max().unwrap_or(0);
        let mut lines = vec![heading_lines(column, style)];
        lines.extend(cells().map(|cell| {
            let text = cell_text(cell, style);
            if !column.kind.is_numeric() {
                return text;
            }
            let room = mark_width - mark(cell).len();
            (text + &" ".repeat(room)).replace(' ', HARD_SPACE)
        }));
        lines
    }
}

/// The title; on a line of its own the base unit, if the numbers are raw, and the origin.
fn heading_lines(column: &Column, style: Style) -> String {
    let unit = if style.raw { column.kind.unit() } else { "" };
    let origin = column.origin.map_or("", Origin::name);
    let parts: Vec<&str> = [unit, origin]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    if parts.is_empty() {
        column.title.clone()
    } else {
        format!("{}\n{}", column.title, parts.join(" "))
    }
}

fn cell_text(cell: &Cell, style: Style) -> String {
    cell.value.show(style) + &mark(cell)
}

/// What points at the footnote, with the space before it; nothing without a footnote.
fn mark(cell: &Cell) -> String {
    cell.footnote
        .map_or_else(String::new, |footnote| format!(" [{}]", footnote + 1))
}

/// The width that no line break can make smaller. All characters count as one column.
fn longest_word(lines: &[String]) -> usize {
    lines
        .iter()
        .flat_map(|line| line.split([' ', '\n']))
        .map(|word| word.chars().count())
        .max()
        .unwrap_or(0)
}

/// Spaces around a cell: one on each side of it.
const WIDE: usize = 2;

/// One before it.
const TIGHT: usize = 1;

/// The least width of a table with so many spaces around every cell and one between columns.
fn narrowest(columns: &[&Vec<String>], around: usize) -> usize {
    let padded: usize = columns
        .iter()
        .map(|lines| longest_word(lines) + around)
        .sum();
    padded + columns.len().saturating_sub(1)
}

/// `line` with its line break, between `code` and a reset where colours are wanted.
fn painted(line: &str, code: &str, style: Style) -> String {
    if style.colour && !code.is_empty() && !line.is_empty() {
        format!("{code}{line}{RESET}\n")
    } else {
        format!("{line}\n")
    }
}

/// `text` behind `mark`, broken between words so that no line is wider than `width`; later lines
/// are indented as far as the first.
fn wrapped(mark: &str, text: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(mark.len());
    let mut lines = Vec::new();
    let mut line = mark.to_owned();
    let mut is_fresh = true;
    for word in text.split_whitespace() {
        let needed = line.chars().count() + usize::from(!is_fresh) + word.chars().count();
        if !is_fresh && needed > width {
            lines.push(std::mem::replace(&mut line, indent.clone()));
            is_fresh = true;
        }
        if !is_fresh {
            line.push(' ');
        }
        line += word;
        is_fresh = false;
    }
    lines.push(line);
    lines
}

fn csv_row(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| {
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell
        }
    });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}
