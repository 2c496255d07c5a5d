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

/// One value, with the place of the footnote that it points at.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    value: Quantity,
    footnote: Option<usize>,
}

impl From<Quantity> for Cell {
    fn from(value: Quantity) -> Self {
        Self {
            value,
            footnote: None,
        }
    }
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
    pub fn of<T: Described>(title: impl Into<String>, rows: impl IntoIterator<Item = T>) -> Self {
        let mut table = Self::new(title, T::columns());
        for row in rows {
            let cells = row.quantities().into_iter().map(Cell::from);
            table.rows.push(cells.collect());
        }
        table
    }

    /// Some columns of rows that describe themselves, in the order of `keys`; a key that no column has is left out.
    #[must_use]
    pub fn select<T: Described>(
        title: impl Into<String>,
        rows: impl IntoIterator<Item = T>,
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

    /// The same table with a footnote that the cells of a column point at in some rows, from 0.
    #[must_use]
    pub fn note_at(
        mut self,
        text: impl Into<String>,
        key: &str,
        rows: impl IntoIterator<Item = usize>,
    ) -> Self {
        let at = self.columns.iter().position(|column| column.key == key);
        debug_assert!(at.is_some(), "{key}");
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return self;
        }
        for row in rows {
            let cell = at.and_then(|at| self.rows.get_mut(row)?.get_mut(at));
            if let Some(cell) = cell {
                cell.footnote = Some(self.footnotes.len());
            }
        }
        self.note(text)
    }

    /// Adds a row: as many quantities as there are columns, of their kinds.
    #[track_caller]
    pub fn row(&mut self, quantities: impl IntoIterator<Item = Quantity>) {
        let cells: Vec<Cell> = quantities.into_iter().map(Cell::from).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        for (cell, column) in cells.iter().zip(&self.columns) {
            let kind = cell.value.kind();
            debug_assert!(kind.is_none_or(|kind| kind == column.kind), "{column:?}");
        }
        self.rows.push(cells);
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
            .map(|(index, text)| json!({ "text": text, "cells": self.cells_with(index) }))
            .collect();
        json!({ "title": self.title, "columns": columns, "rows": rows, "footnotes": footnotes })
    }

    fn cells_with(&self, footnote: usize) -> Vec<Value> {
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
