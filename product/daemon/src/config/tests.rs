use std::path::Path;

use proptest::prelude::*;
use warmswap_sys::Root;

use super::sections::{Listen, Place};
use super::*;

fn facts() -> Facts {
    Facts {
        ram_bytes: 16 << 30,
    }
}

fn read(text: &str) -> Result<Config, ConfigError> {
    let mut config = Config::defaults(facts());
    config.merge(text, Path::new("/etc/warmswap.conf"))?;
    Ok(config)
}

fn error(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn values_are_read_into_their_sections() {
    let config = read(
        "[host]\nkeep-available = ram / 4\nahead-of-kernel = no\nprefetch = off\n\
         [zram0]\nzram-size = min(ram / 2, 4096)\ncompression-algorithm = zstd\n[zram1]\n\
         [signals]\nx11 = :7\nsway = no\ni3 = /run/i\n[metrics]\nlisten = 127.0.0.1:9733\n\
         [app my browser]\nexecutable = /opt/*/firefox\n[app x]\ncgroup = /user.slice/x\n",
    )
    .unwrap();

    assert_eq!(config.host.keep_available.unwrap().bytes, 4 << 30);
    assert!(!config.host.prefetch && !config.host.ahead_of_kernel);
    let first = &config.zram["zram0"];
    assert_eq!(first.zram_size.as_ref().unwrap().bytes, 4 << 30);
    assert_eq!(first.compression_algorithm.as_deref(), Some("zstd"));
    assert_eq!(config.zram["zram1"], ZramSection::defaults(facts()));
    assert_eq!(config.signals.x11, Place::At(":7".to_owned()));
    assert_eq!(config.signals.sway, Place::Off);
    assert_eq!(config.signals.i3, Place::At("/run/i".to_owned()));
    let address = "127.0.0.1:9733".parse().unwrap();
    assert_eq!(config.metrics.listen, Some(Listen::Loopback(address)));
    assert!(!config.metrics.app_names);
    let browser = &config.apps["my browser"];
    assert_eq!(browser.executable.as_deref(), Some("/opt/*/firefox"));
    assert_eq!(config.apps["x"].cgroup.as_deref(), Some("/user.slice/x"));
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn what_is_not_known_is_warned_about_and_left_out() {
    let config = read("[hst]\na = 1\n[host]\nprefetsch = no\nprefetch = no\n[zram]\n").unwrap();

    assert_eq!(
        config.warnings,
        [
            "/etc/warmswap.conf:1: there is no section [hst]; it is ignored",
            "/etc/warmswap.conf:4: there is no key prefetsch in [host]; it is ignored",
            "/etc/warmswap.conf:6: there is no section [zram]; it is ignored",
        ]
    );
    assert!(!config.host.prefetch);
}

#[test]
fn what_is_wrong_is_named_with_file_and_line() {
    for (text, expected) in [
        ("[host", "/etc/warmswap.conf:1: a section is written [NAME]"),
        ("a = 1", "/etc/warmswap.conf:1: a stands in no section"),
        (
            "\n[host]\nprefetch = maybe",
            "/etc/warmswap.conf:3: prefetch in [host]: \"maybe\" is neither yes nor no",
        ),
        (
            "[zram0]\nzram-size = 4X",
            "/etc/warmswap.conf:2: zram-size in [zram0]: \"4X\" has the unknown unit \"X\"",
        ),
        (
            "[zram0]\nzram-size = 0",
            "/etc/warmswap.conf:2: zram-size in [zram0]: \"0\" comes to less than 64 KiB",
        ),
        (
            "[metrics]\nlisten = 0.0.0.0:80",
            "/etc/warmswap.conf:2: listen in [metrics]: \"0.0.0.0:80\" is no address of the loopback",
        ),
        (
            "[metrics]\nlisten = 9733",
            "/etc/warmswap.conf:2: listen in [metrics]: \"9733\" is neither an address",
        ),
        (
            "[daemon]\nsocket = here",
            "/etc/warmswap.conf:2: socket in [daemon]: \"here\" is no path that begins with /",
        ),
        (
            "[host]\nlaunch-window-ms = 5",
            "/etc/warmswap.conf:2: launch-window-ms in [host]: \"5\" is no whole number from 100 to",
        ),
        (
            "[host]\nscheme = zrm",
            "/etc/warmswap.conf:2: scheme in [host]: ",
        ),
        (
            "[app a/b]",
            "/etc/warmswap.conf:1: [app a/b]: an application's name has no /",
        ),
        (
            "[app x]\ncgroup = user",
            "/etc/warmswap.conf:2: cgroup in [app x]: \"user\" is no control group",
        ),
        (
            "[app 17]",
            "/etc/warmswap.conf:1: [app 17]: an application's name is not just a number",
        ),
    ] {
        let found = error(text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let found = error(
        "a = 1\n[host\nprefetch = maybe\n[host]\nprefetch = maybe\nhello\nprefetch = no\n[app a/b]\nx = y\n\
         [zram0]\nzram-size = 4X\n",
    );
    let starts = [
        "/etc/warmswap.conf:1: a stands in no section",
        "/etc/warmswap.conf:2: a section is written [NAME]",
        "/etc/warmswap.conf:5: prefetch in [host]",
        "/etc/warmswap.conf:6: neither [SECTION] nor KEY = VALUE",
        "/etc/warmswap.conf:8: [app a/b]",
        "/etc/warmswap.conf:11: zram-size in [zram0]",
    ];
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{found}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn later_files_win_and_an_empty_value_is_the_default() {
    let place = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "proc/meminfo",
        "MemTotal:        8388608 kB\nMemFree: 1 kB\n",
    );
    write(
        "usr/lib/warmswap.conf",
        "[zram0]\nzram-size = ram\nswap-priority = 7\n",
    );
    write(
        "etc/warmswap.conf.d/10.conf",
        "[zram0]\nzram-size = ram / 4\n[host]\nprefetch = no\n",
    );
    write("run/warmswap.conf.d/20.conf", "[host]\nprefetch =\n");

    let config = Config::load(&Root::at(place.path()), None).unwrap();

    assert_eq!(config.facts.ram_bytes, 8 << 30);
    let zram = &config.zram["zram0"];
    assert_eq!(zram.zram_size.as_ref().unwrap().bytes, 2 << 30);
    assert_eq!(zram.swap_priority, 7);
    assert!(config.host.prefetch);
    assert_eq!(config.files.len(), 3);
    let text = config.effective();
    let from = place.path().join("etc/warmswap.conf.d/10.conf");
    let expected = format!("# 2048 MiB, {}:2\nzram-size = ram / 4\n", from.display());
    assert!(text.contains(&expected), "{text}");

    let only = place.path().join("etc/warmswap.conf.d/10.conf");
    let config = Config::load(&Root::at(place.path()), Some(&only)).unwrap();
    assert_eq!(config.files, [only]);
    assert!(!config.host.prefetch);
}

#[test]
fn what_is_printed_means_the_same_when_it_is_read() {
    let config = read(
        "[zram3]\nzram-resident-limit = ram / 3\n[app x]\nexecutable = a b\n[metrics]\nlisten=/run/m.sock\napp-names=yes\n\
         [daemon]\nsocket-group = wheel\n[signals]\nx11=no\nsway=/run/s\ni3=no\n[discover]\nexclude=a*, b\n",
    )
    .unwrap();

    let again = read(&config.effective()).unwrap();

    assert_eq!(again.warnings, [""; 0]);
    let plain = |config: &Config| -> Vec<_> {
        let settings = config.settings();
        settings
            .into_iter()
            .map(|setting| (setting.section, setting.key, setting.value))
            .collect()
    };
    assert_eq!(plain(&again), plain(&config));
}

#[test]
fn the_example_is_the_one_that_is_shipped_and_holds_the_defaults() {
    let shipped = include_str!("../../../../dist/warmswap.conf");
    let example = show::example();
    assert_eq!(
        shipped, example,
        "write it anew: `warmswap config --example`"
    );

    let switched_on: String = example
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => format!("{rest}\n"),
            _ => String::new(),
        })
        .collect();
    let config = read(&switched_on).unwrap();
    assert_eq!(config.warnings, [""; 0]);
    let defaults = Config::defaults(facts());
    assert_eq!(config.daemon, defaults.daemon);
    assert_eq!(config.host, defaults.host);
    assert_eq!(config.signals, defaults.signals);
    assert_eq!(config.metrics, defaults.metrics);
    assert_eq!(config.discover, defaults.discover);
    assert_eq!(config.zram["zram0"], ZramSection::defaults(facts()));
    assert_eq!(config.apps["NAME"], AppSection::default());
}

#[test]
fn the_manual_page_names_every_key() {
    let page = show::man_page();
    for setting in read(&show::example().replace("\n#[", "\n["))
        .unwrap()
        .settings()
    {
        let line = format!(".B {}", setting.key.replace('-', "\\-"));
        assert!(page.lines().any(|found| found == line), "{line}");
    }
    // A line that begins with a dot or a quote is a command.
    let commands = [".TH", ".SH", ".TP", ".B ", ".BR ", ".I ", ".PP", ".br"];
    for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
        assert!(
            commands.iter().any(|command| line.starts_with(command)),
            "{line}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,120}") {
        let _ = read(&text);
    }

    #[test]
    fn no_likely_text_panics(
        lines in proptest::collection::vec(
            ("(daemon|host|zram[0-9]?|signals|metrics|discover|app [a-z/ ]{0,5})",
             "(socket|budget|keep-available|ahead-of-kernel|zram-size|x11|listen|min-size|executable|prefetch)",
             "[-+0-9a-z:./* ()]{0,12}"),
            0..6)
    ) {
        let text: String = lines.iter().map(|(s, k, v)| format!("[{s}]\n{k} = {v}\n")).collect();
        if let Ok(config) = read(&text) {
            prop_assert!(read(&config.effective()).is_ok());
        }
    }
}

#[test]
fn defaults_follow_the_memory_that_programs_can_have() {
    let device_mib = |ram_mib: u64| {
        let ram_bytes = ram_mib << 20;
        let zram = ZramSection::defaults(Facts { ram_bytes });
        zram.zram_size.unwrap().bytes >> 20
    };
    assert_eq!(
        [1, 2, 4, 8, 16].map(|gib| device_mib(gib << 10)),
        [512, 1024, 2048, 4096, 4096]
    );
    // Three quarters of 8 GiB are reserved for huge pages: it is a machine of 2 GiB.
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("proc")).unwrap();
    let memory = "MemTotal: 8388608 kB\nHugetlb: 6291456 kB\n";
    std::fs::write(dir.path().join("proc/meminfo"), memory).unwrap();
    let config = Config::load(&Root::at(dir.path()), None).unwrap();
    assert_eq!(config.facts.ram_bytes, 2 << 30);
    assert!(config.host.ahead_of_kernel && config.host.keep_available.is_none());
}

#[test]
fn a_readahead_below_a_page_is_refused() {
    for (kib, is_good) in [(0, true), (1, false), (3, false), (4, true)] {
        let mut config = Config::defaults(Facts { ram_bytes: 1 << 30 });
        let text = format!("[host]\nreadahead-kib = {kib}\n");
        let merged = config.merge(&text, std::path::Path::new("/test"));
        assert_eq!(merged.is_ok(), is_good, "{kib}");
    }
}
