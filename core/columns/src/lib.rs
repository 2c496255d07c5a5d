//! Results that describe themselves.
//!
//! | module | subject |
//! |---|---|
//! | [`units`] | one [`Quantity`] has a form for people and a raw one, and no other place formats numbers |
//! | [`described`] | a struct whose fields say what they are as columns: title, kind, unit, origin |
//! | [`table`] | one [`Table`] value that renders to text, CSV and JSON |
//!
//! A result is declared once:
//!
//! ```
//! use warmswap_columns::{Described, Table};
//!
//! #[derive(Described)]
//! #[column(saved = 1.0 - self.pool_bytes as f64 / self.data_bytes as f64, percent)]
//! struct Row {
//!     #[column]
//!     scheme: String,
//!     #[column(measured)]
//!     data_bytes: u64,
//!     #[column(measured, "in the pool", paper = 4096_u64)]
//!     pool_bytes: u64,
//! }
//!
//! let rows = [Row { scheme: "zram".to_owned(), data_bytes: 8192, pool_bytes: 2048 }];
//! let csv = Table::of("Pools", &rows).csv();
//! assert_eq!(csv, "scheme,data_bytes,pool_bytes,pool_bytes_paper,saved\r\nzram,8192,2048,4096,0.75\r\n");
//! ```

#![forbid(unsafe_code)]

// The derive macro names this crate by its full path.
extern crate self as warmswap_columns;

pub mod described;
#[cfg(feature = "schema")]
pub mod schema;
pub mod table;
pub mod units;

pub use described::{Described, Value};
pub use table::{Column, Origin, Table};
pub use units::{Kind, Quantity, Style};
pub use warmswap_columns_derive::Described;
