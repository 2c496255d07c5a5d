//! What `make install` copies, and that `make uninstall` leaves nothing of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// All files below a folder, relative to it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found
}

fn install(built: &Path, root: &Path, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install");
    Command::new("sh")
        .arg(script)
        .args(arguments)
        .env("CARGO_TARGET_DIR", built)
        .env("DESTDIR", root)
        .env_remove("PREFIX")
        .output()
        .unwrap()
}

#[test]
fn what_is_installed_works_and_goes_again() {
    let folder = tempfile::tempdir().unwrap();
    let (built, root) = (folder.path().join("built"), folder.path().join("root"));
    fs::create_dir_all(&root).unwrap();

    // Nothing is built: without the programs it says what to do.
    let output = install(&built, &root, &[]);
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
    let output = install(&built, &root, &[]);
    assert!(output.status.success(), "{output:?}");
    let installed = files(&root);
    for file in [
        "usr/local/bin/warmswap",
        "usr/local/lib/warmswap/libwarmswap_preload.so",
        "usr/local/lib/systemd/system/warmswap.service",
        "usr/local/share/man/man1/warmswap-run.1",
        "usr/local/share/warmswap/apps/redis.toml",
        "usr/local/share/warmswap/traces/mixed.wst",
    ] {
        let is_there = installed.iter().any(|path| path == Path::new(file));
        assert!(is_there, "{file} of {installed:?}");
    }

    // Definitions that are not in the working directory are those that were installed.
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let output = Command::new(root.join("usr/local/bin/warmswap"))
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

    let output = install(&built, &root, &["remove"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(files(&root), Vec::<PathBuf>::new());
}
