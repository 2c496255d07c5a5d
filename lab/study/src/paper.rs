//! Numbers that a paper published, with where they stand.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use warmswap_columns::{Kind, Quantity, Value};

/// A number that a paper published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The number; shares and reductions are parts of one.
    pub value: f64,
    /// Paper, and figure, table or section.
    pub source: Cow<'static, str>,
}

impl Value for Published {
    fn quantity(&self, kind: Kind) -> Quantity {
        self.value.quantity(kind)
    }
}

impl Published {
    /// A number of the paper, as a constant.
    pub const fn new(value: f64, source: &'static str) -> Self {
        Self {
            value,
            source: Cow::Borrowed(source),
        }
    }
}
