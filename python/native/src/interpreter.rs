//! One interpreter of a process has the pager: its notes are about the objects of that interpreter alone.
#![allow(unsafe_code)] // Two functions of the stable interface that PyO3 does not wrap.

use std::sync::OnceLock;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Refuses all interpreters but the first that asks. PyO3 refuses others by itself from Python 3.12 on only.
pub fn claim(_py: Python<'_>) -> PyResult<()> {
    static OWNER: OnceLock<i64> = OnceLock::new();
    // SAFETY: the token proves that this thread is attached to an interpreter, which is all that both calls need.
    let this = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
    if *OWNER.get_or_init(|| this) == this {
        Ok(())
    } else {
        Err(PyImportError::new_err(
            "warmswap does not work in subinterpreters: another interpreter of this process has it",
        ))
    }
}
