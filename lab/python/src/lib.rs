//! The native half of the Python package `warmswap-lab`.
//!
//! A call is a line of the command `warmswap-lab`: Python hands over its words, and gets the result that `--json` writes. So
//! options, defaults, errors and results are declared once, for both.
//!
//! | module | subject |
//! |---|---|
//! | `call` | runs a line without the GIL, until it ends or Ctrl-C ends it |
//! | `policy` | a reclaim policy in Python |
//! | `trace` | a trace that is open, and what replays of it share |
//! | `batches` | events and page contents as streams of Arrow record batches |
//! | `writer` | traces from such streams |
//! | `synthetic` | synthetic traces, for devices of a population |
//! | `errors` | exceptions, with the command's words |

mod batches;
mod call;
mod errors;
mod policy;
mod synthetic;
mod trace;
mod writer;

/// The native half of `warmswap_lab`. Use the package, which is documented.
#[pyo3::pymodule(name = "_engine")]
mod engine {
    #[pymodule_export]
    use crate::batches::{Contents, Events};
    #[pymodule_export]
    use crate::call::{Kept, help, names, run};
    #[pymodule_export]
    use crate::errors::{BadInput, Error};
    #[pymodule_export]
    use crate::synthetic::{profiles, synthesize};
    #[pymodule_export]
    use crate::trace::Trace;
    #[pymodule_export]
    use crate::writer::Writer;
}
