//! A section as a table of keys. One declaration gives the struct, reading, the printed configuration, the example and the
//! manual page.

use toml::Spanned;
use toml::de::DeValue;

use super::size::Facts;

/// One key of sections that are read into a `T`.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// As it is written.
    pub name: &'static str,
    /// What it says, in one or two sentences.
    pub doc: &'static str,
    /// Reads a value into its field.
    pub set: fn(&mut T, Spanned<DeValue<'_>>, Facts) -> Result<(), String>,
    /// The field as it would be written.
    pub show: fn(&T) -> String,
    /// What the value comes to, where that is not what is written.
    pub comes_to: fn(&T) -> Option<String>,
}

/// A section with its keys.
pub trait Section: Sized + 'static {
    /// What the section is about, in one or two sentences.
    const DOC: &'static str;

    /// Its keys, in the order in which they are printed.
    const KEYS: &'static [Key<Self>];

    /// What holds where nothing is written.
    fn defaults(facts: Facts) -> Self;
}

/// The default of a key on this machine.
pub fn default_of<T>(facts: Facts, default: impl FnOnce(Facts) -> T) -> T {
    default(facts)
}

/// Declares a section: its documentation, its name, and of each key documentation, name, field, type, default as a function
/// of the machine, and what else a value must be.
macro_rules! section {
    ($(#[doc = $about:literal])+ $name:ident { $(
        $(#[doc = $doc:literal])+ $key:literal $field:ident: $kind:ty = $default:expr $(, if $check:expr)?;
    )+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $(
            $(#[doc = $doc])+
            pub $field: $kind,
        )+ }

        impl $crate::config::keys::Section for $name {
            const DOC: &'static str = concat!($($about),+);

            const KEYS: &'static [$crate::config::keys::Key<Self>] = &[$($crate::config::keys::Key {
                name: $key,
                doc: concat!($($doc),+),
                set: |to, value, facts| {
                    let value = <$kind as $crate::config::value::Value>::read(value, facts)?;
                    $(($check)(&value)?;)?
                    to.$field = value;
                    Ok(())
                },
                show: |from| $crate::config::value::Value::written(&from.$field),
                comes_to: |from| $crate::config::value::Value::comes_to(&from.$field),
            },)+];

            fn defaults(facts: $crate::config::size::Facts) -> Self {
                Self { $($field: $crate::config::keys::default_of(facts, $default),)+ }
            }
        }
    };
}

pub(super) use section;
