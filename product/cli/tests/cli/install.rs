//! What `make install` copies, and that `make uninstall` leaves nothing of it.

use std::fs;
use std::path::{Path, PathBuf};
use warmswap_testkit::install::{files, install};

#[test]
fn what_is_installed_works_and_goes_again() {
    let folder = tempfile::tempdir().unwrap();
    let (built, root) = (folder.path().join("built"), folder.path().join("root"));
    fs::create_dir_all(&root).unwrap();

    // Nothing is built: without the programs it says what to do.
    let output = install("product", &built, (&root, "/usr/local"), &[]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("run make build first"), "{errors}");
    assert!(files(&root).is_empty());

    let release = built.join("release");
    fs::create_dir_all(&release).unwrap();
    let command = env!("CARGO_BIN_EXE_warmswap");
    fs::copy(command, release.join("warmswap")).unwrap();
    // The library is installed as any other program is.
    fs::copy("/proc/self/exe", release.join("libwarmswap_preload.so")).unwrap();
    let output = install("product", &built, (&root, "/usr/local"), &[]);
    assert!(output.status.success(), "{output:?}");
    let installed = files(&root);
    for file in [
        "usr/local/bin/warmswap",
        "usr/local/lib/warmswap/libwarmswap_preload.so",
        "usr/local/lib/systemd/system/warmswap.service",
        "usr/local/lib/systemd/user/warmswap-agent.service",
        "usr/local/share/man/man1/warmswap-run.1",
        "usr/local/share/warmswap/results.schema.json",
    ] {
        let is_there = installed.iter().any(|path| path == Path::new(file));
        assert!(is_there, "{file} of {installed:?}");
    }

    let output = install("product", &built, (&root, "/usr/local"), &["remove"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(files(&root), Vec::<PathBuf>::new());

    // What others put there stays, and names may have spaces.
    let to = (root.as_path(), "/opt/my folder");
    let theirs = root.join("opt/my folder/share/warmswap/theirs");
    let empty = root.join("opt/my folder/bin");
    fs::create_dir_all(&empty).unwrap();
    let output = install("product", &built, to, &[]);
    assert!(output.status.success(), "{output:?}");
    let unit = root.join("usr/local/lib/systemd/system/warmswap.service");
    let text = fs::read_to_string(&unit).unwrap();
    assert!(
        text.contains("\nExecStart=\"/opt/my folder/bin/warmswap\" daemon\n"),
        "{text}"
    );
    fs::write(&theirs, "").unwrap();
    let output = install("product", &built, to, &["remove"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(files(&root), [theirs.strip_prefix(&root).unwrap()]);
    assert!(empty.is_dir(), "it was there before");
}
