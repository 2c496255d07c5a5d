//! Structs whose fields say what they are as columns of a table.

use std::borrow::Cow;

use crate::table::Column;
use crate::units::{Kind, Quantity};

/// A row of a table: the derive macro of the same name makes it of a struct.
///
/// `#[column]` before a field makes a column of it. The name of the field is its key; its title is the name without unit,
/// or the text in the attribute; its kind follows from the name (`_ns`, `_bytes`) and type, or stands in the attribute:
///
/// | in the attribute | meaning |
/// |---|---|
/// | `text`, `bytes`, `pages`, `duration`, `ratio`, `percent`, `count`, `number` | the [`Kind`] |
/// | `measured`, `modelled` | the [`Origin`](crate::Origin) |
/// | `"title"` | the heading |
/// | `kept` | the column stays where there is no room for all |
/// | `with = path` | what the cell shows, as a function of the field |
/// | `paper = expression` | the published value, in a column of its own beside it |
///
/// `#[column(key = expression, …)]` before the struct is a column that is computed of `self`. Where its key
/// names no unit, it needs a kind.
pub trait Described {
    /// The columns.
    fn columns() -> Vec<Column>;

    /// The values, one for each column.
    fn quantities(&self) -> Vec<Quantity>;
}

impl<T: Described> Described for &T {
    fn columns() -> Vec<Column> {
        T::columns()
    }

    fn quantities(&self) -> Vec<Quantity> {
        (**self).quantities()
    }
}

/// What a cell can show.
pub trait Value {
    /// The value as a quantity of a kind.
    fn quantity(&self, kind: Kind) -> Quantity;
}

impl Value for str {
    fn quantity(&self, _: Kind) -> Quantity {
        Quantity::text(self)
    }
}

impl Value for String {
    fn quantity(&self, _: Kind) -> Quantity {
        Quantity::text(self)
    }
}

impl Value for Cow<'_, str> {
    fn quantity(&self, _: Kind) -> Quantity {
        Quantity::text(self.as_ref())
    }
}

impl<T: Value + ?Sized> Value for &T {
    fn quantity(&self, kind: Kind) -> Quantity {
        (**self).quantity(kind)
    }
}

impl<T: Value> Value for Option<T> {
    fn quantity(&self, kind: Kind) -> Quantity {
        self.as_ref()
            .map_or(Quantity::Missing, |value| value.quantity(kind))
    }
}

impl Value for f64 {
    fn quantity(&self, kind: Kind) -> Quantity {
        if !self.is_finite() {
            return Quantity::Missing;
        }
        match kind {
            Kind::Text => Quantity::text(self.to_string()),
            Kind::Duration => Quantity::Nanoseconds(*self),
            Kind::Ratio => Quantity::Ratio(*self),
            Kind::Percent => Quantity::Fraction(*self),
            Kind::Number => Quantity::Number(*self),
            // Negative amounts do not occur; the conversion makes them 0.
            Kind::Bytes | Kind::Pages | Kind::Count => (self.round() as u64).quantity(kind),
        }
    }
}

impl Value for u64 {
    fn quantity(&self, kind: Kind) -> Quantity {
        match kind {
            Kind::Bytes => Quantity::Bytes(*self),
            Kind::Pages => Quantity::Pages(*self),
            Kind::Count => Quantity::Count(*self),
            Kind::Text => Quantity::text(self.to_string()),
            Kind::Duration | Kind::Ratio | Kind::Percent | Kind::Number => {
                (*self as f64).quantity(kind)
            }
        }
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {
        $(impl Value for $integer {
            fn quantity(&self, kind: Kind) -> Quantity {
                (*self as u64).quantity(kind)
            }
        })*
    };
}

integers!(u8 u16 u32 usize);

#[cfg(test)]
mod tests {
    use super::{Kind, Quantity, Value};
    use crate::{Column, Described, Origin, Table};

    struct Codec;

    impl Codec {
        fn name(&self) -> &'static str {
            "lz4"
        }
    }

    #[derive(Described)]
    #[column(saved = self.saved(), percent, "saved", modelled)]
    struct Row {
        #[column(text, with = Codec::name)]
        codec: Codec,
        #[column(measured, kept)]
        compress_ns: u64,
        #[column("stored as", paper = self.published())]
        stored_bytes: Option<f64>,
        #[column]
        read_pages: u32,
        /// Not shown.
        rounds: u64,
    }

    impl Row {
        fn saved(&self) -> Option<f64> {
            Some(1.0 - self.stored_bytes? / 4096.0)
        }

        fn published(&self) -> u64 {
            self.rounds * 1000
        }
    }

    #[test]
    fn columns_follow_from_names_types_and_attributes() {
        let [codec, compress, stored, paper, read, saved] = Row::columns().try_into().unwrap();
        assert_eq!(codec, Column::new("codec", "codec", Kind::Text));
        let expected = Column::new("compress_ns", "compress", Kind::Duration);
        assert_eq!(compress, expected.from(Origin::Measured).kept());
        assert_eq!(
            stored,
            Column::new("stored_bytes", "stored as", Kind::Bytes)
        );
        let expected = Column::new("stored_bytes_paper", "stored as", Kind::Bytes);
        assert_eq!(paper, expected.from(Origin::Paper));
        assert_eq!(read, Column::new("read_pages", "read", Kind::Count));
        let expected = Column::new("saved", "saved", Kind::Percent);
        assert_eq!(saved, expected.from(Origin::Modelled));
    }

    #[test]
    fn rows_are_laid_out_and_columns_can_be_chosen() {
        let row = |stored_bytes| Row {
            codec: Codec,
            compress_ns: 5,
            stored_bytes,
            read_pages: 7,
            rounds: 2,
        };
        let rows = [row(Some(1023.6)), row(None)];
        let all = Table::of("t", &rows).csv();
        let expected = "codec,compress_ns,stored_bytes,stored_bytes_paper,read_pages,saved\r\n\
                        lz4,5,1024,2000,7,0.7500976562499999\r\nlz4,5,,2000,7,\r\n";
        assert_eq!(
            all,
            expected.replace("0.7500976562499999", &(1.0 - 1023.6 / 4096.0).to_string())
        );
        let some = Table::select("t", &rows, &["read_pages", "codec"]).csv();
        assert_eq!(some, "read_pages,codec\r\n7,lz4\r\n7,lz4\r\n");
    }

    #[test]
    fn numbers_become_what_their_column_holds() {
        assert_eq!(2.6.quantity(Kind::Count), Quantity::Count(3));
        assert_eq!(f64::NAN.quantity(Kind::Count), Quantity::Missing);
        assert_eq!(3_u64.quantity(Kind::Duration), Quantity::Nanoseconds(3.0));
        assert_eq!(3_u8.quantity(Kind::Pages), Quantity::Pages(3));
        assert_eq!(None::<f64>.quantity(Kind::Ratio), Quantity::Missing);
        assert_eq!("a".quantity(Kind::Text), Quantity::text("a"));
    }
}
