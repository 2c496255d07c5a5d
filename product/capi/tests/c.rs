//! The header says what the library is, and a C program works with it.
#![allow(unsafe_code)] // Calls of the C face.

use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use warmswap_c::{warmswap_config, warmswap_stats};

#[path = "../examples/hot_set.rs"]
mod hot_set;

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The C compiler, if there is one.
fn compiler() -> Option<String> {
    let name = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let works = Command::new(&name).arg("--version").output();
    works
        .is_ok_and(|output| output.status.success())
        .then_some(name)
}

/// The static library that was built with this test: it lies beside it.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let path = test.with_file_name("libwarmswap_c.a");
    assert!(path.exists(), "{} is built with the tests", path.display());
    path
}

#[track_caller]
fn succeed(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Compiles a C program, with all warnings as errors, and runs it.
#[track_caller]
fn run(compiler: &str, program: &Path, folder: &Path) -> String {
    let out = folder.join("program");
    let compiled = Command::new(compiler)
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-I",
        ])
        .args([&source("include"), program, &library()])
        .args(["-lpthread", "-lm", "-ldl", "-o"])
        .arg(&out)
        .output();
    succeed(compiled.expect("the compiler starts"));
    succeed(Command::new(&out).output().expect("the program starts"))
}

#[test]
fn the_examples_keep_their_pages() {
    let name = "the_examples_keep_their_pages";
    let config = warmswap_arena::ArenaConfig {
        address_space_bytes: 64 << 20,
        ..warmswap_arena::ArenaConfig::new(
            8 << 20,
            warmswap_policy::SchemeSpec::named("zram").expect("a scheme"),
        )
    };
    if let Err(error) = warmswap_arena::Arena::new(config) {
        warmswap_testkit::skip!(name, "{error}");
    }
    hot_set::main().expect("the example in Rust");
    let Some(compiler) = compiler() else {
        warmswap_testkit::skip!(name, "needs a C compiler");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let said = run(&compiler, &source("examples/hot_set.c"), folder.path());
    assert_eq!(
        said,
        "said by write(2)\n8192 pages, 0 wrong, within the budget: yes, stored and brought back: yes\n"
    );
}

/// The fields of a structure: their names, and where they lie.
macro_rules! fields {
    ($of:ident: $($field:ident),+) => {
        (stringify!($of), size_of::<$of>(), vec![$((stringify!($field), offset_of!($of, $field))),+])
    };
}

#[test]
fn the_header_has_the_structures_numbers_and_functions_of_the_library() {
    let name = "the_header_has_the_structures_numbers_and_functions_of_the_library";
    let Some(compiler) = compiler() else {
        warmswap_testkit::skip!(name, "needs a C compiler");
    };
    let structures = [
        fields!(warmswap_config: budget_bytes, scheme, backing_path, backing_limit_bytes, address_space_bytes),
        fields!(warmswap_stats: budget_bytes, used_bytes, resident_pages, stored_pages, pool_bytes, faults,
            first_touches, neighbours, overcommits),
    ];
    let numbers = [
        ("WARMSWAP_OK", warmswap_c::WARMSWAP_OK),
        ("WARMSWAP_INVALID", warmswap_c::WARMSWAP_INVALID),
        ("WARMSWAP_SYSTEM", warmswap_c::WARMSWAP_SYSTEM),
        ("WARMSWAP_COLD", warmswap_c::WARMSWAP_COLD),
        ("WARMSWAP_HOT", warmswap_c::WARMSWAP_HOT),
        ("WARMSWAP_WORKING_SET", warmswap_c::WARMSWAP_WORKING_SET),
    ];
    let mut program = "#include \"warmswap.h\"\n#include <stdio.h>\n".to_owned();
    for (structure, size, fields) in structures {
        program += &format!("_Static_assert(sizeof({structure}) == {size}, \"size\");\n");
        for (field, offset) in fields {
            program += &format!(
                "_Static_assert(offsetof({structure}, {field}) == {offset}, \"{field}\");\n"
            );
        }
    }
    for (number, value) in numbers {
        program += &format!("_Static_assert({number} == {value}, \"{number}\");\n");
    }
    // Every function that the header declares is in the library, and the other way round.
    let header = std::fs::read_to_string(source("include/warmswap.h")).expect("the header");
    let declared = functions(&header);
    let rust = std::fs::read_to_string(source("src/lib.rs")).expect("the source");
    let defined: Vec<_> = rust
        .lines()
        .filter_map(|line| line.split_once("extern \"C\" fn ")?.1.split('(').next())
        .collect();
    for function in &defined {
        assert!(
            declared.contains(&(*function).to_owned()),
            "{function} is not in the header"
        );
    }
    program += "int main(void) { void (*volatile all[])(void) = {\n";
    for function in &declared {
        assert!(
            defined.contains(&function.as_str()),
            "{function} is in the header only"
        );
        program += &format!("(void (*)(void)){function},\n");
    }
    program += "}; printf(\"%zu\", sizeof all / sizeof *all); return !all[0]; }\n";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("check.c");
    std::fs::write(&path, program).expect("written");
    assert_eq!(
        run(&compiler, &path, folder.path()),
        declared.len().to_string()
    );
}

/// The functions that the header's declarations name, comments left out.
fn functions(header: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_comment = false;
    for line in header.lines() {
        is_comment |= line.trim_start().starts_with("/*");
        if !is_comment && let Some((front, _)) = line.split_once('(') {
            let name = front.rsplit([' ', '*']).next().unwrap_or_default();
            if name.starts_with("warmswap_") {
                names.push(name.to_owned());
            }
        }
        is_comment &= !line.trim_end().ends_with("*/");
    }
    names
}

#[test]
fn failures_have_a_code_and_a_message() {
    use std::ffi::CStr;
    use std::ptr::{null, null_mut};
    use warmswap_c::*;
    let message = || {
        // SAFETY: a text that ends with a zero byte, until the next failure of this thread.
        let text = unsafe { CStr::from_ptr(warmswap_last_error()) };
        text.to_str().expect("UTF-8").to_owned()
    };
    assert_eq!(message(), "");
    let mut arena = null_mut();
    let mut config = warmswap_config {
        budget_bytes: 8 << 20,
        scheme: c"zrm".as_ptr(),
        backing_path: null(),
        backing_limit_bytes: 0,
        address_space_bytes: 0,
    };
    // SAFETY: a valid configuration and a place for the result; null pointers are allowed everywhere.
    unsafe {
        assert_eq!(
            warmswap_arena_new(&raw const config, &raw mut arena),
            WARMSWAP_INVALID
        );
        assert!(
            arena.is_null() && message().contains("zrm"),
            "{}",
            message()
        );
        config.scheme = c"zram".as_ptr();
        assert_eq!(
            warmswap_arena_new(&raw const config, null_mut()),
            WARMSWAP_INVALID
        );
        assert_eq!(warmswap_arena_new(null(), &raw mut arena), WARMSWAP_INVALID);
        assert_eq!(message(), "the configuration is NULL");
        assert_eq!(warmswap_app_foreground(null()), WARMSWAP_INVALID);
        assert_eq!(message(), "the application is NULL");
        assert_eq!(warmswap_region_advise(null(), 0, 1, 0), WARMSWAP_INVALID);
        assert_eq!(warmswap_region_bytes(null()), 0);
        warmswap_arena_free(null_mut());
        warmswap_unpin(null_mut());
    }
}
