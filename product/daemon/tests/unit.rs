//! The systemd unit: what it takes from the daemon, and what it must leave.

use std::collections::BTreeMap;
use std::process::Command;

use warmswap_testkit::skip;

const UNIT: &str = include_str!("../../../dist/warmswap.service");

/// The exposure that the unit must stay below, in tenths, as systemd-analyze(1) counts it.
const EXPOSURE: &str = "30";

/// The directives, by name; one that stands twice has both values.
fn directives() -> BTreeMap<&'static str, String> {
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    let lines = UNIT.lines().filter(|line| !line.starts_with('#'));
    for (name, value) in lines.filter_map(|line| line.split_once('=')) {
        let values = found.entry(name).or_default();
        values.push_str(value);
        values.push(' ');
    }
    found
}

fn words(name: &str) -> Vec<String> {
    let found = directives();
    let value = found.get(name).unwrap_or_else(|| panic!("{name}="));
    value.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_unit_has_the_rights_that_the_daemon_needs_and_no_others() {
    let mut capabilities = words("CapabilityBoundingSet");
    capabilities.sort();
    assert_eq!(
        capabilities,
        [
            "CAP_CHOWN",
            "CAP_DAC_OVERRIDE",
            "CAP_DAC_READ_SEARCH",
            "CAP_SYS_ADMIN",
            "CAP_SYS_NICE",
            "CAP_SYS_PTRACE",
        ]
    );
    for (name, value) in [
        ("SystemCallFilter", "@system-service"),
        ("SystemCallFilter", "@swap"),
        ("SystemCallFilter", "process_madvise"),
        ("SystemCallFilter", "bpf"),
        ("SystemCallFilter", "process_vm_readv"),
        ("SystemCallFilter", "pidfd_open"),
        ("ReadWritePaths", "-/sys/devices/virtual/block"),
        ("ReadWritePaths", "-/sys/class/zram-control"),
        ("DeviceAllow", "block-zram"),
        ("RestrictAddressFamilies", "AF_UNIX"),
        ("RuntimeDirectory", "warmswap"),
        ("RuntimeDirectoryMode", "0711"),
        ("StateDirectory", "warmswap"),
    ] {
        assert!(
            words(name).iter().any(|word| word == value),
            "{name}={value}"
        );
    }
    // With these it could not do its work.
    for name in [
        "User=",
        "PrivateUsers=",
        "PrivateDevices=",
        "ProtectProc=",
        "ProcSubset=",
    ] {
        let lines = || UNIT.lines();
        assert!(!lines().any(|line| line.starts_with(name)), "{name}");
        let why = lines().any(|line| line.starts_with("# ") && line.contains(name));
        assert!(why, "{name} is left out without a reason");
    }
    for name in [
        "NoNewPrivileges",
        "PrivateMounts",
        "PrivateNetwork",
        "PrivateTmp",
        "ProtectControlGroups",
        "ProtectKernelTunables",
        "MemoryDenyWriteExecute",
    ] {
        assert_eq!(words(name), ["yes"], "{name}");
    }
}

#[test]
fn systemd_finds_the_unit_little_exposed() {
    let name = "systemd_finds_the_unit_little_exposed";
    let place = tempfile::tempdir().unwrap();
    let unit = place.path().join("warmswap.service");
    std::fs::write(&unit, UNIT.replace("@BINDIR@", "/usr/bin")).unwrap();
    let threshold = format!("--threshold={EXPOSURE}");
    let analyzed = Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--no-pager", &threshold])
        .arg(&unit)
        .output();
    let Ok(analyzed) = analyzed else {
        skip!(name, "systemd-analyze is not installed");
    };
    let text = String::from_utf8_lossy(&analyzed.stdout);
    if !text.contains("Overall exposure level") {
        let why = String::from_utf8_lossy(&analyzed.stderr);
        skip!(name, "systemd-analyze cannot look at files: {why}");
    }
    assert!(analyzed.status.success(), "{text}");
}
