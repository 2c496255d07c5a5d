//! Programs that a paged one starts, and that cannot take the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use warmswap_testkit::skip;

use crate::SMALL;
use crate::common::{Case, compile, run, run_program};

/// Compiles a program that prints what it is told, and with `-DTELL` which libraries it is to load; with `-DNAMES` it has names
/// that a sanitizer has, stored as the ends of others. `None` where the compiler cannot.
fn hello(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let (source, file) = (folder.join("hello.c"), folder.join(name));
    let text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        #ifdef NAMES\n\
        #include <pthread.h>\n\
        void a_pthread_create(void) {}\n\
        void a__sanitizer_symbolize_code(void) {}\n\
        extern void __sanitizer_symbolize_code(void) __attribute__((weak));\n\
        void *named[] = {(void *)pthread_create, (void *)__sanitizer_symbolize_code};\n\
        #endif\n\
        int main(int n, char **a) {\n\
            char *copy = strdup(a[n - 1]); puts(copy); free(copy);\n\
            #ifdef TELL\n\
            const char *list = getenv(\"LD_PRELOAD\"); puts(list ? list : \"none\");\n\
            #endif\n\
            return 0;\n\
        }\n";
    std::fs::write(&source, text).expect("a new file");
    let mut compiler = Command::new("cc");
    let compiled = compiler.args(flags).arg(&source).arg("-o").arg(&file);
    let output = compiled.output().ok()?;
    output.status.success().then_some(file)
}

/// A program with another loader than this one, as musl's are; `None` where it cannot be made.
fn with_another_loader(folder: &Path, name: &str) -> Option<PathBuf> {
    // The same loader by another path is the same; a copy is another one.
    let loader = folder.join("loader.so");
    let own = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    let Some(own) = own.iter().find(|path| Path::new(path).exists()) else {
        skip!(name, "the loader is elsewhere"; None);
    };
    std::fs::copy(own, &loader).expect("it can be read");
    let flag = format!("-Wl,--dynamic-linker={}", loader.display());
    let program = hello(folder, "other", &["-DTELL", &flag]);
    if program.is_none() {
        skip!(name, "there is no C compiler"; None);
    }
    program
}

/// What the starter prints and says when it starts `program` in every way there is. `None` where it cannot run.
fn started(program: &Path) -> Option<String> {
    let (_folder, starter) = compile("starter")?;
    let words = [&starter, program].map(|path| path.to_str().expect("text"));
    let (plain, paged) = run(&Case::new(SMALL), &words)?;
    assert_eq!(plain.answer, paged.answer, "{}", paged.errors);
    assert!(plain.answer.lines().count() >= 16, "{}", plain.answer);
    Some(paged.errors)
}

#[test]
fn children_without_the_loader_of_the_library_run_without_it() {
    let name = "children_without_the_loader_of_the_library_run_without_it";
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = with_another_loader(folder.path(), name) else {
        return;
    };
    let Some(errors) = started(&program) else {
        return;
    };
    assert!(!errors.contains("LD_PRELOAD"), "{errors}");
}

#[test]
fn children_with_a_sanitizer_run_unpaged_with_a_line() {
    let name = "children_with_a_sanitizer_run_unpaged_with_a_line";
    let folder = tempfile::tempdir().expect("a folder");
    for flags in [
        &["-fsanitize=address"][..],
        &["-fsanitize=address", "-static-libasan"],
        &["-fsanitize=thread"],
        &["-fsanitize=thread", "-static-libtsan"],
        &["-DNAMES", "-rdynamic"],
    ] {
        let program = hello(folder.path(), "sanitized", flags);
        let works = program.filter(|program| {
            let output = Command::new(program).arg("works").output();
            output.is_ok_and(|output| output.status.success())
        });
        let Some(program) = works else {
            skip!(name, "there is no compiler with {flags:?}");
        };
        let Some(errors) = started(&program) else {
            return;
        };
        assert!(errors.contains("without paging"), "{flags:?}: {errors}");
        assert!(!errors.contains("ERROR"), "{flags:?}: {errors}");
    }
}

#[test]
fn a_child_that_cannot_see_the_library_runs_without_it() {
    let name = "a_child_that_cannot_see_the_library_runs_without_it";
    if !warmswap_sys::is_root() {
        skip!(name, "it takes root to mount");
    }
    // A shell makes a namespace in which the library's folder is empty, and starts a program there.
    let library = warmswap_testkit::preload_library();
    let folder = library.parent().expect("a folder").display();
    let script = format!("mount -t tmpfs none {folder} && exec /bin/echo there");
    let command = ["unshare", "-m", "sh", "-c", &script];
    let works = Command::new("unshare").args(["-m", "true"]).status();
    if !works.is_ok_and(|status| status.success()) {
        skip!(name, "no mount namespaces here");
    }
    let Some((plain, paged)) = run(&Case::new(SMALL), &command) else {
        return;
    };
    assert_eq!(plain.answer, paged.answer);
    assert!(!paged.errors.contains("LD_PRELOAD"), "{}", paged.errors);
}

#[test]
fn programs_of_registered_kinds_are_what_their_interpreters_are() {
    let name = "programs_of_registered_kinds_are_what_their_interpreters_are";
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let (Some(other), Some(own)) = (
        with_another_loader(place, name),
        hello(place, "own", &["-DTELL"]),
    ) else {
        return;
    };
    // A user namespace has kinds of its own; a program with threads, as those of the library are, cannot make one.
    let mount = "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc";
    let works = Command::new("unshare")
        .args(["-Urm", "sh", "-c", mount])
        .output();
    if !works.is_ok_and(|output| output.status.success()) {
        skip!(name, "a user namespace registers no kinds of programs here");
    }
    for (file, text) in [("a.wstest", ""), ("magic", "WSTEST and more")] {
        std::fs::write(place.join(file), text).expect("a new file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(place.join(file), mode).expect("it is there");
    }
    for (interpreter, is_paged) in [(&other, false), (&own, true)] {
        for (kind, file) in [("E::wstest", "a.wstest"), ("M::WSTEST", "magic")] {
            let register = format!(
                "printf ':k:{kind}::{}:' > /proc/sys/fs/binfmt_misc/register",
                interpreter.display()
            );
            let within = format!(
                "{mount} && {register} && env ${{0:+LD_PRELOAD=$0}} sh -c {}",
                place.join(file).display()
            );
            let script =
                "list=$LD_PRELOAD; unset LD_PRELOAD; exec unshare -Urm sh -c \"$0\" \"$list\"";
            let Some((plain, paged)) = run(&Case::new(SMALL), &["sh", "-c", script, &within])
            else {
                return;
            };
            let (program, list) = paged.answer.split_once('\n').expect("two lines");
            assert_eq!(plain.answer, format!("{program}\nnone\n"), "{kind}");
            assert_eq!(list.trim() != "none", is_paged, "{kind}: {list}");
            assert!(!paged.errors.contains("LD_PRELOAD"), "{}", paged.errors);
        }
    }
}

#[test]
fn a_program_that_becomes_one_without_the_library_says_so() {
    let name = "a_program_that_becomes_one_without_the_library_says_so";
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = with_another_loader(folder.path(), name) else {
        return;
    };
    let said = |command: &str| {
        let script = format!("exec {command}");
        let (_, paged) = run(&Case::new(SMALL), &["bash", "-c", &script])?;
        Some((paged.stats.is_some(), paged.unpaged.unwrap_or_default()))
    };
    for command in [&program.display().to_string(), "env -i /bin/true"] {
        let Some((has_stats, unpaged)) = said(command) else {
            return;
        };
        assert!(
            !has_stats && unpaged.contains("(exec)"),
            "{command}: {unpaged}"
        );
    }
    // The library is in the other program.
    assert_eq!(said("/bin/true"), Some((true, String::new())));
}

#[test]
fn a_program_that_ends_quickly_leaves_its_report() {
    let Some(run) = run_program(
        "quick",
        &Case::new(SMALL),
        std::process::Stdio::null(),
        || (),
    ) else {
        return;
    };
    assert_eq!(run.answer, "ends\n");
    assert!(run.stats.is_some(), "{}", run.errors);
    assert_eq!(run.unpaged, None);
}

#[test]
fn a_program_that_goes_to_the_background_leaves_its_report() {
    let nothing = std::process::Stdio::null();
    let Some(run) = run_program("detached", &Case::new(SMALL), nothing, || ()) else {
        return;
    };
    // Its children hold the pipe: it closes when the last of them has ended.
    assert_eq!(run.answer, "in the background\n", "{}", run.errors);
    assert_eq!((run.status, run.unpaged), (Some(0), None));
    assert!(run.stats.is_some_and(|stats| stats.managed));
}
