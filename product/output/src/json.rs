//! The envelope of every JSON output.
//!
//! ```json
//! {
//!   "schema": "warmswap.compare",
//!   "schema_version": 1,
//!   "warmswap": "0.1.0",
//!   "machine": { "cpu": "...", "cores": 2, "kernel": "6.18.0", "memory_bytes": 8589934592 },
//!   "command": ["warmswap", "compare", "..."],
//!   "data": { }
//! }
//! ```
//!
//! `schema` names the shape of `data`; `schema_version` grows when a field of it changes its meaning
//! or goes away, not when one is added.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file;
use crate::machine::Machine;

/// The shape of `data`, by name and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Dotted name, as in `warmswap.compare`.
    pub name: &'static str,
    /// Counted from 1.
    pub version: u32,
}

/// A result together with what it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Envelope<T> {
    /// Name of the shape of `data`.
    pub schema: String,
    /// Version of that shape.
    pub schema_version: u32,
    /// Version of warmswap that wrote it.
    pub warmswap: String,
    /// Where it ran.
    pub machine: Machine,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The result.
    pub data: T,
}

/// Why an envelope could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The file could not be written or put into place.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text is no JSON, or its fields are not those of the schema.
    #[error("not a JSON result of warmswap: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The result is of another kind.
    #[error(
        "this is {found} version {found_version}, but {wanted} version {wanted_version} is needed"
    )]
    WrongSchema {
        /// Name found.
        found: String,
        /// Version found.
        found_version: u32,
        /// Name needed.
        wanted: &'static str,
        /// Version needed.
        wanted_version: u32,
    },
}

impl<T> Envelope<T> {
    /// Wraps `data`; `command` is the command line, program first.
    #[must_use]
    pub fn new(schema: Schema, machine: Machine, command: Vec<String>, data: T) -> Self {
        Self {
            schema: schema.name.to_owned(),
            schema_version: schema.version,
            warmswap: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            command,
            data,
        }
    }
}

impl<T: Serialize> Envelope<T> {
    /// Writes indented JSON and a line break.
    ///
    /// # Errors
    /// What `writer` answers, or that `data` cannot be expressed in JSON (as a map whose keys are
    /// no strings).
    pub fn write_to(&self, writer: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *writer, self)?;
        writer.write_all(b"\n")?;
        writer.flush()
    }

    /// Writes the file at `path` as a whole or not at all; see [`file::save`].
    ///
    /// # Errors
    /// [`JsonError::Write`] with the path; `path` is then as it was before.
    pub fn save(&self, path: &Path) -> Result<(), JsonError> {
        let written = file::save(path, |mut out| self.write_to(&mut out));
        written.map_err(|source| JsonError::Write {
            path: path.to_path_buf(),
            source,
        })
    }
}

impl<T: for<'de> Deserialize<'de>> Envelope<T> {
    /// Reads an envelope whose `data` has the shape of `schema`.
    ///
    /// The name and version are looked at before `data` is, so a result of another kind is called
    /// that and not malformed.
    ///
    /// # Errors
    /// [`JsonError::Malformed`] and [`JsonError::WrongSchema`].
    pub fn from_json(text: &str, schema: Schema) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
            schema_version: u32,
        }
        let head: Head = serde_json::from_str(text)?;
        if head.schema != schema.name || head.schema_version != schema.version {
            return Err(JsonError::WrongSchema {
                found: head.schema,
                found_version: head.schema_version,
                wanted: schema.name,
                wanted_version: schema.version,
            });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// Reads the file at `path`; see [`Envelope::from_json`].
    ///
    /// # Errors
    /// [`JsonError::Read`], and those of [`Envelope::from_json`].
    pub fn load(path: &Path, schema: Schema) -> Result<Self, JsonError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::from_json(&text, schema),
            Err(source) => Err(JsonError::Read {
                path: path.to_path_buf(),
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const SCHEMA: Schema = Schema {
        name: "warmswap.test",
        version: 2,
    };

    fn envelope() -> Envelope<Vec<u64>> {
        let machine = Machine {
            cpu: "Some CPU".to_owned(),
            cores: 2,
            kernel: "6.18.0".to_owned(),
            memory_bytes: 1 << 30,
        };
        let command = vec!["warmswap".to_owned(), "test".to_owned()];
        Envelope::new(SCHEMA, machine, command, vec![1, 2])
    }

    #[test]
    fn the_fields_stand_in_their_order() {
        let mut out = Vec::new();
        envelope().write_to(&mut out).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            r#"{{
  "schema": "warmswap.test",
  "schema_version": 2,
  "warmswap": "{version}",
  "machine": {{
    "cpu": "Some CPU",
    "cores": 2,
    "kernel": "6.18.0",
    "memory_bytes": 1073741824
  }},
  "command": [
    "warmswap",
    "test"
  ],
  "data": [
    1,
    2
  ]
}}
"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn saved_and_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        fs::write(
            &path,
            "an older result, longer than the new one ".repeat(100),
        )
        .unwrap();

        envelope().save(&path).unwrap();

        assert_eq!(Envelope::load(&path, SCHEMA).unwrap(), envelope());
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "no temporary file stays"
        );
    }

    #[test]
    fn others_may_read_what_is_saved() {
        let directory = tempfile::tempdir().unwrap();
        let saved = directory.path().join("saved.json");
        let plain = directory.path().join("plain.json");
        envelope().save(&saved).unwrap();
        fs::write(&plain, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&saved), mode(&plain));
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        envelope().save(&link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(Envelope::load(&file, SCHEMA).unwrap(), envelope());
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        envelope().save(Path::new("/dev/null")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_failed_write_leaves_the_old_result() {
        /// Serializes its first half only.
        struct Torn;
        impl Serialize for Torn {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("torn"))
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        fs::write(&path, "old").unwrap();
        let torn = Envelope::new(SCHEMA, envelope().machine, Vec::new(), Torn);

        let error = torn.save(&path).unwrap_err();

        assert!(matches!(error, JsonError::Write { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "no temporary file stays"
        );
    }

    #[test]
    fn a_directory_that_is_missing_is_named() {
        let error = envelope()
            .save(Path::new("/nonexistent/result.json"))
            .unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/result.json"),
            "{error}"
        );
        let error =
            Envelope::<Vec<u64>>::load(Path::new("/nonexistent/result.json"), SCHEMA).unwrap_err();
        assert!(matches!(error, JsonError::Read { .. }), "{error}");
    }

    #[test]
    fn another_schema_is_called_that() {
        let mut out = Vec::new();
        envelope().write_to(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for wanted in [
            Schema {
                version: 3,
                ..SCHEMA
            },
            Schema {
                name: "warmswap.other",
                ..SCHEMA
            },
        ] {
            // The data would not fit either; the schema is what is reported.
            let error = Envelope::<bool>::from_json(&text, wanted).unwrap_err();
            assert!(matches!(error, JsonError::WrongSchema { .. }), "{error}");
            assert!(
                error.to_string().contains("warmswap.test version 2"),
                "{error}"
            );
        }
        let error = Envelope::<bool>::from_json(&text, SCHEMA).unwrap_err();
        assert!(matches!(error, JsonError::Malformed(_)), "{error}");
        let error = Envelope::<bool>::from_json("{", SCHEMA).unwrap_err();
        assert!(matches!(error, JsonError::Malformed(_)), "{error}");
    }
}
