//! What the measurements ran on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The machine, as far as it matters for comparing numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Model of the processor, or its architecture where the kernel names no model.
    pub cpu: String,
    /// Processors that are online, as the kernel counts them.
    pub cores: usize,
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel: String,
    /// Memory that the kernel manages, in bytes.
    pub memory_bytes: u64,
}

/// Why the machine could not be described.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A file of `/proc` could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of `/proc` lacks what it must have.
    #[error("{path} has no {what}")]
    Lacks {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
}

impl Machine {
    /// Describes this machine from `/proc/cpuinfo`, `/proc/meminfo` and
    /// `/proc/sys/kernel/osrelease`.
    ///
    /// # Errors
    /// When one of these cannot be read or lacks what it must have.
    pub fn read() -> Result<Self, MachineError> {
        Self::read_below(Path::new("/proc"))
    }

    fn read_below(proc: &Path) -> Result<Self, MachineError> {
        let read = |path: PathBuf| match fs::read_to_string(&path) {
            Ok(text) => Ok((path, text)),
            Err(source) => Err(MachineError::Read { path, source }),
        };
        let (cpuinfo_path, cpuinfo) = read(proc.join("cpuinfo"))?;
        let (meminfo_path, meminfo) = read(proc.join("meminfo"))?;
        let (_, kernel) = read(proc.join("sys/kernel/osrelease"))?;
        let cores = fields(&cpuinfo)
            .filter(|(key, _)| *key == "processor")
            .count();
        if cores == 0 {
            return Err(MachineError::Lacks {
                path: cpuinfo_path,
                what: "processor",
            });
        }
        let memory_bytes = total_memory_bytes(&meminfo).ok_or(MachineError::Lacks {
            path: meminfo_path,
            what: "MemTotal in kB",
        })?;
        Ok(Self {
            cpu: cpu_name(&cpuinfo),
            cores,
            kernel: kernel.trim().to_owned(),
            memory_bytes,
        })
    }
}

/// The `key : value` lines of a file of `/proc`.
fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key.trim(), value.trim()))
}

/// x86 calls it `model name`, some others `Model` or `cpu model`.
fn cpu_name(cpuinfo: &str) -> String {
    ["model name", "Model", "cpu model", "cpu"]
        .iter()
        .find_map(|wanted| fields(cpuinfo).find(|(key, value)| key == wanted && !value.is_empty()))
        .map_or_else(
            || std::env::consts::ARCH.to_owned(),
            |(_, value)| value.to_owned(),
        )
}

fn total_memory_bytes(meminfo: &str) -> Option<u64> {
    let (_, value) = fields(meminfo).find(|(key, _)| *key == "MemTotal")?;
    value
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: a b\n\n\
                           processor\t: 1\nmodel name\t: Some CPU @ 2.0GHz\n";

    fn fake(cpuinfo: &str, meminfo: &str) -> Result<Machine, MachineError> {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir_all(proc.path().join("sys/kernel")).unwrap();
        fs::write(proc.path().join("cpuinfo"), cpuinfo).unwrap();
        fs::write(proc.path().join("meminfo"), meminfo).unwrap();
        fs::write(proc.path().join("sys/kernel/osrelease"), "6.18.0\n").unwrap();
        Machine::read_below(proc.path())
    }

    #[test]
    fn all_fields_are_found() {
        let machine = fake(CPUINFO, "MemTotal:       16 kB\nMemFree: 1 kB\n").unwrap();
        assert_eq!(
            machine,
            Machine {
                cpu: "Some CPU @ 2.0GHz".to_owned(),
                cores: 2,
                kernel: "6.18.0".to_owned(),
                memory_bytes: 16_384,
            }
        );
    }

    #[test]
    fn a_cpu_without_a_model_is_its_architecture() {
        let machine = fake("processor : 0\nBogoMIPS : 50\n", "MemTotal: 1 kB\n").unwrap();
        assert_eq!(machine.cpu, std::env::consts::ARCH);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = fake("", "MemTotal: 1 kB\n").unwrap_err().to_string();
        assert!(
            error.contains("cpuinfo") && error.contains("processor"),
            "{error}"
        );
        for meminfo in [
            "",
            "MemTotal: x kB\n",
            "MemTotal: 1 MB\n",
            "MemTotal: 18446744073709551615 kB\n",
        ] {
            let error = fake(CPUINFO, meminfo).unwrap_err().to_string();
            assert!(error.contains("MemTotal"), "{meminfo:?}: {error}");
        }
        let error = Machine::read_below(Path::new("/nonexistent"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nonexistent/cpuinfo"), "{error}");
    }

    #[test]
    fn this_machine_can_be_described() {
        let machine = Machine::read().unwrap();
        assert!(
            machine.cores >= 1 && machine.memory_bytes >= 1 << 20,
            "{machine:?}"
        );
        assert!(
            !machine.cpu.is_empty() && !machine.kernel.is_empty(),
            "{machine:?}"
        );
    }
}
