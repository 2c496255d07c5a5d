//! Choices that have a word each.

/// Declares an enum whose values have a word each, which stands on the command line, in tables and in JSON.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$of_value:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema, clap::ValueEnum)]
        pub enum $name {
            $($(#[$of_value])* #[serde(rename = $word)] #[value(name = $word)] $value,)*
        }

        impl $name {
            /// Its word.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)*
                }
            }
        }
    };
}
