//! What of the laboratory is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use warmswap_testkit::install::{files, install};

#[test]
fn what_is_installed_works_and_goes_again() {
    let folder = tempfile::tempdir().unwrap();
    let (built, root) = (folder.path().join("built"), folder.path().join("root"));
    let release = built.join("release");
    fs::create_dir_all(&release).unwrap();
    fs::create_dir_all(&root).unwrap();
    let output = install("lab", &built, (&root, "/usr/local"), &[]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("run make lab first"), "{errors}");

    let command = env!("CARGO_BIN_EXE_warmswap-lab");
    fs::copy(command, release.join("warmswap-lab")).unwrap();
    let output = install("lab", &built, (&root, "/usr/local"), &[]);
    assert!(output.status.success(), "{output:?}");
    let installed = files(&root);
    for file in [
        "usr/local/bin/warmswap-lab",
        "usr/local/share/man/man1/warmswap-lab-compare.1",
        "usr/local/share/man/man5/warmswap-json.5",
        "usr/local/share/warmswap/apps/redis.toml",
        "usr/local/share/warmswap/traces/mixed.wst",
        "usr/local/share/warmswap/lab-results.schema.json",
    ] {
        let is_there = installed.iter().any(|path| path == Path::new(file));
        assert!(is_there, "{file} of {installed:?}");
    }

    // Definitions that are not in the working directory are those that were installed.
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let output = Command::new(root.join("usr/local/bin/warmswap-lab"))
        .args([
            "record",
            "--apps",
            "apps/none.toml,apps/redis.toml",
            "--out",
            "none.wst",
        ])
        .current_dir(&elsewhere)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("apps/none.toml"), "{errors}");

    let output = install("lab", &built, (&root, "/usr/local"), &["remove"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(files(&root), Vec::<PathBuf>::new());
}
