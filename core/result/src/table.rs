//! Tables with typed columns.
//!
//! One [`Table`] value renders to text for a terminal ([`Table::text`]), to JSON ([`Table::json`]) and to CSV
//! ([`Table::csv`]). A column says what kind of quantity it holds and where its numbers come from, so that measured,
//! modelled and published numbers are never mixed up.

mod render;

use serde_json::{Map, Value, json};

use crate::described::Described;
use crate::units::{Kind, Quantity};

/// Where the numbers of a column come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Taken by a clock or counter on a real system.
    Measured,
    /// Computed from counts and measured unit costs.
    Modelled,
    /// Published by the authors of the system.
    Paper,
}

impl Origin {
    /// The word that tables and JSON show.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Paper => "paper",
        }
    }
}

/// One column: what it is called and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name of the field in JSON, with the unit where there is one: `relaunch_p50_ns`.
    pub key: String,
    /// Heading for people.
    pub title: String,
    /// Kind of every cell.
    pub kind: Kind,
    /// Where the numbers come from; `None` for names and settings.
    pub origin: Option<Origin>,
    /// Whether it stays where there is no room for all: of the others, the last one goes first.
    pub is_kept: bool,
}

impl Column {
    /// A column of names, settings or counts without an origin.
    #[must_use]
    pub fn new(key: &str, title: &str, kind: Kind) -> Self {
        Self {
            key: key.to_owned(),
            title: title.to_owned(),
            kind,
            origin: None,
            is_kept: false,
        }
    }

    /// The same column, which is never left out. The first one of a table never is, either.
    #[must_use]
    pub fn kept(self) -> Self {
        Self {
            is_kept: true,
            ..self
        }
    }

    /// The same column with numbers from `origin`.
    #[must_use]
    pub fn from(self, origin: Origin) -> Self {
        Self {
            origin: Some(origin),
            ..self
        }
    }
}

/// A footnote of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footnote(usize);

impl Footnote {
    /// The number that readers see, from 1.
    #[must_use]
    pub fn number(self) -> usize {
        self.0 + 1
    }
}

/// One value, with a footnote if it needs one.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The value.
    pub value: Quantity,
    /// The footnote that it points at.
    pub footnote: Option<Footnote>,
}

impl Cell {
    /// The same value with a footnote.
    #[must_use]
    pub fn with(self, footnote: Footnote) -> Self {
        Self {
            footnote: Some(footnote),
            ..self
        }
    }
}

impl From<Quantity> for Cell {
    fn from(value: Quantity) -> Self {
        Self {
            value,
            footnote: None,
        }
    }
}

/// Why a row does not fit its table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The row has more or fewer cells than the table has columns.
    #[error("table {title:?} has {columns} columns, but a row has {cells} cells")]
    CellCount {
        /// Title of the table.
        title: String,
        /// Columns of the table.
        columns: usize,
        /// Cells of the row.
        cells: usize,
    },
    /// A cell is of another kind than its column.
    #[error("column {key:?} of table {title:?} holds {wanted:?}, not {found:?}")]
    CellKind {
        /// Title of the table.
        title: String,
        /// Key of the column.
        key: String,
        /// Kind of the column.
        wanted: Kind,
        /// Kind of the cell.
        found: Kind,
    },
    /// A cell points at a footnote that this table does not have.
    #[error("table {title:?} has no footnote {number}")]
    NoFootnote {
        /// Title of the table.
        title: String,
        /// The number, from 1.
        number: usize,
    },
}

/// A title, typed columns, rows and footnotes.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    footnotes: Vec<String>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self {
            title: title.into(),
            columns,
            rows: Vec::new(),
            footnotes: Vec::new(),
        }
    }

    /// All columns of rows that describe themselves.
    #[must_use]
    pub fn of<'a, T: Described + 'a>(
        title: impl Into<String>,
        rows: impl IntoIterator<Item = &'a T>,
    ) -> Self {
        let mut table = Self::new(title, T::columns());
        for row in rows {
            let cells = row.quantities().into_iter().map(Cell::from);
            table.rows.push(cells.collect());
        }
        table
    }

    /// Some columns of rows that describe themselves, in the order of `keys`; a key that no column has is left out.
    #[must_use]
    pub fn select<'a, T: Described + 'a>(
        title: impl Into<String>,
        rows: impl IntoIterator<Item = &'a T>,
        keys: &[&str],
    ) -> Self {
        let all = Self::of(title, rows);
        let place = |key: &&str| all.columns.iter().position(|column| column.key == **key);
        let places: Vec<usize> = keys.iter().filter_map(place).collect();
        debug_assert_eq!(places.len(), keys.len(), "{keys:?}");
        let rows = all.rows.iter();
        let rows = rows.map(|row| places.iter().map(|&at| row[at].clone()).collect());
        Self {
            rows: rows.collect(),
            columns: places.iter().map(|&at| all.columns[at].clone()).collect(),
            ..all
        }
    }

    /// The same table, whose columns of these keys have numbers from `origin`.
    #[must_use]
    pub fn origin(mut self, origin: Origin, keys: &[&str]) -> Self {
        let named = |column: &&mut Column| keys.contains(&column.key.as_str());
        for column in self.columns.iter_mut().filter(named) {
            column.origin = Some(origin);
        }
        self
    }

    /// The same table, all of whose columns have numbers from `origin`.
    #[must_use]
    pub fn all_from(mut self, origin: Origin) -> Self {
        for column in &mut self.columns {
            column.origin = Some(origin);
        }
        self
    }

    /// The same table with a footnote that no cell points at.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.footnotes.push(text.into());
        self
    }

    /// Adds a footnote; cells may point at it.
    pub fn footnote(&mut self, text: impl Into<String>) -> Footnote {
        self.footnotes.push(text.into());
        Footnote(self.footnotes.len() - 1)
    }

    /// Adds a row of plain quantities or of cells.
    ///
    /// # Errors
    /// When the number of cells or the kind of one does not match the columns; the table is then
    /// unchanged.
    pub fn row<C: Into<Cell>>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
    ) -> Result<(), TableError> {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        if cells.len() != self.columns.len() {
            return Err(TableError::CellCount {
                title: self.title.clone(),
                columns: self.columns.len(),
                cells: cells.len(),
            });
        }
        for (cell, column) in cells.iter().zip(&self.columns) {
            if let Some(found) = cell.value.kind().filter(|kind| *kind != column.kind) {
                return Err(TableError::CellKind {
                    title: self.title.clone(),
                    key: column.key.clone(),
                    wanted: column.kind,
                    found,
                });
            }
            if let Some(footnote) = cell
                .footnote
                .filter(|footnote| footnote.0 >= self.footnotes.len())
            {
                return Err(TableError::NoFootnote {
                    title: self.title.clone(),
                    number: footnote.number(),
                });
            }
        }
        self.rows.push(cells);
        Ok(())
    }

    /// The number of rows.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Rows as objects by column key, with values in base units; beside them the columns with
    /// unit and origin, and each footnote with the cells that point at it (row from 0, key).
    #[must_use]
    pub fn json(&self) -> Value {
        let columns: Vec<Value> = self
            .columns
            .iter()
            .map(|column| {
                json!({
                    "key": column.key,
                    "title": column.title,
                    "unit": column.kind.unit(),
                    "origin": column.origin.map(Origin::name),
                })
            })
            .collect();
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let fields = self.columns.iter().zip(row);
                let object: Map<String, Value> = fields
                    .map(|(column, cell)| (column.key.clone(), cell.value.json()))
                    .collect();
                Value::Object(object)
            })
            .collect();
        let footnotes: Vec<Value> = self
            .footnotes
            .iter()
            .enumerate()
            .map(|(index, text)| json!({ "text": text, "cells": self.cells_with(Footnote(index)) }))
            .collect();
        json!({ "title": self.title, "columns": columns, "rows": rows, "footnotes": footnotes })
    }

    fn cells_with(&self, footnote: Footnote) -> Vec<Value> {
        let mut found = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            for (column, cell) in self.columns.iter().zip(row) {
                if cell.footnote == Some(footnote) {
                    found.push(json!({ "row": index, "key": column.key }));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
