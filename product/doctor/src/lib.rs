//! What of this machine's kernel, permissions and limits each part of warmswap needs, what is there, and the
//! exact command that would fix what is not.
//!
//! Every check is a row of a table ([`CHECKS`]): what it is about, which parts need it, and a function that
//! looks. Looking changes nothing: files are read, and descriptors opened and closed again. Files are found
//! below a [`Root`](warmswap_sys::Root) and the kernel is asked through [`Kernel`], so that other machines
//! can be described in tests.

#![forbid(unsafe_code)]

mod check;
mod checks;
mod kernel;
mod library;
mod machine;
mod report;

pub use check::{Check, Finding, Need, Part, State};
pub use checks::CHECKS;
pub use kernel::{Kernel, ThisKernel};
pub use library::{LibraryError, preload_library};
pub use machine::Machine;
pub use report::{Diagnosis, PartDiagnosis, Row, Trouble, diagnose, require};
