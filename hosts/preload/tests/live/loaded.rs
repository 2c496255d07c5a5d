//! What is loaded into a program, and calls the kernel or the C library past this one.

use crate::common::{Case, run_program};
use crate::{SMALL, in_every_way};

#[test]
fn a_program_with_a_go_runtime_is_not_paged() {
    let input = std::process::Stdio::null();
    if let Some(run) = run_program("go_marked", &Case::new(SMALL), input, || ()) {
        let said = run.errors.matches("runs without paging: its Go runtime");
        assert_eq!(said.count(), 1, "{}", run.errors);
    }
}

#[test]
fn libraries_with_a_go_runtime() {
    let input = std::process::Stdio::null();
    if let Some(run) = run_program("go_library", &Case::new(SMALL), input, || ()) {
        let said = run.errors.matches("runs without paging: its Go runtime");
        assert_eq!(said.count(), 1, "{}", run.errors);
        assert!(run.stats.expect("a report").managed, "it was never paged");
    }
}

#[test]
fn plugins_that_are_to_prefer_what_they_need_themselves() {
    in_every_way("deepbind");
}

/// As `ctypes`, LuaJIT and JNA call the C library.
#[test]
fn functions_that_are_looked_up_by_a_handle() {
    in_every_way("handle");
}
