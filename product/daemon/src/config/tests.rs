use std::path::Path;

use proptest::prelude::*;
use warmswap_sys::Root;

use super::*;

const FILE: &str = "/etc/warmswap.toml";

fn facts() -> Facts {
    Facts {
        ram_bytes: 16 << 30,
    }
}

fn read(text: &str) -> Result<Config, ConfigError> {
    let mut config = Config::defaults(facts());
    config.merge(text, Path::new(FILE))?;
    Ok(config)
}

fn error(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn values_are_read_into_their_sections() {
    let config = read(
        "[host]\nbring-back = false # a comment\nprefetch = false\n\
         [zram0]\nzram-size = 'min(ram / 2, 4096)'\ncompression-algorithm = \"zstd\"\n[zram1]\nzram-size = 64\n\
         [signals]\nactivity = false\n\
         [app.\"my browser\"]\nexecutable = \"/opt/*/firefox\"\n[app.x]\ncgroup = \"/user.slice/x\"\n",
    )
    .unwrap();

    assert!(!config.host.prefetch && !config.host.bring_back);
    let first = &config.zram["zram0"];
    assert_eq!(first.zram_size.bytes, 4 << 30);
    assert_eq!(first.compression_algorithm.as_deref(), Some("zstd"));
    assert_eq!(config.zram["zram1"].zram_size.bytes, 64 << 20);
    assert!(!config.signals.activity);
    let browser = &config.apps["my browser"];
    assert_eq!(browser.executable.as_deref(), Some("/opt/*/firefox"));
    assert_eq!(config.apps["x"].cgroup.as_deref(), Some("/user.slice/x"));
}

#[test]
fn what_is_wrong_is_named_with_file_and_line() {
    for (text, expected) in [
        ("[host", "1: "),
        ("\nhost = 1", "2: [host]: write it as [host], once"),
        ("[[zram0]]", "1: [zram0]: write it as [zram0], once"),
        (
            "[hst]\na = 1",
            "1: [hst]: there is no such section; did you mean host?",
        ),
        (
            "[zram]",
            "1: [zram]: there is no such section; did you mean zram0?",
        ),
        ("xyzzy = 1", "1: [xyzzy]: there is no such section"),
        (
            "[host]\nprefetsch = false",
            "2: prefetsch in [host]: there is no such key; did you mean prefetch?",
        ),
        ("\n[host]\nprefetch = maybe", "3: "),
        (
            "\n[host]\nprefetch = \"no\"",
            "3: prefetch in [host]: invalid type: string \"no\", expected a boolean",
        ),
        (
            "[zram0]\nzram-size = \"4X\"",
            "2: zram-size in [zram0]: \"4X\" has the unknown unit \"X\"",
        ),
        (
            "[zram0]\nzram-size = 0",
            "2: zram-size in [zram0]: \"0\" comes to less than 64 KiB",
        ),
        (
            "[zram0]\nzram-size = true",
            "2: zram-size in [zram0]: invalid type: boolean `true`, expected a size, such as 2048",
        ),
        (
            "[zram0]\nswap-priority = -1",
            "2: swap-priority in [zram0]: -1 is less than 0",
        ),
        (
            "[zram0]\nswap-priority = 32768",
            "2: swap-priority in [zram0]: 32768 is no whole number from 0 to 32767",
        ),
        (
            "[zram0]\ncompression-algorithm = \"lz4 zstd\"",
            "2: compression-algorithm in [zram0]: \"lz4 zstd\" is more than one algorithm",
        ),
        (
            "[daemon]\nsocket = \"here\"",
            "2: socket in [daemon]: \"here\" is no path that begins with /",
        ),
        (
            "[app.x]\ncgroup = \"user\"",
            "2: cgroup in [app.x]: \"user\" is no control group that begins with /",
        ),
        (
            "[app]\nexecutable = \"x\"",
            "2: [app]: an application has a name",
        ),
        (
            "[app.\"a/b\"]",
            "1: [app.\"a/b\"]: an application's name has no /",
        ),
        (
            "[app.17]",
            "1: [app.17]: an application's name is not just a number",
        ),
    ] {
        let found = error(text);
        assert!(
            found.starts_with(&format!("{FILE}:{expected}")),
            "{text}: {found}"
        );
    }
}

#[test]
fn all_values_that_are_wrong_are_said_at_once_by_line() {
    let found = error(
        "[zram0]\nzram-size = \"4X\"\n[host]\nprefetch = 1\nhello = 2\nprefetch-x = 1\n[app.\"a/b\"]\nx = 1\n",
    );
    let starts = [
        "2: zram-size in [zram0]",
        "4: prefetch in [host]",
        "5: hello in [host]",
        "6: prefetch-x in [host]",
        "7: [app.\"a/b\"]",
    ];
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{found}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(&format!("{FILE}:{start}")), "{line}");
    }
}

#[test]
fn files_of_other_editors_mean_what_they_say() {
    let marked = read("\u{feff}[host]\r\nprefetch = false # not now\r\n").unwrap();
    assert!(!marked.host.prefetch);
    let quotes = read("[daemon]\nsocket-group = 'a \"b\" # c'\n").unwrap();
    assert_eq!(quotes.daemon.socket_group.as_deref(), Some("a \"b\" # c"));

    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("proc")).unwrap();
    std::fs::write(place.path().join("proc/meminfo"), "MemTotal: 8388608 kB\n").unwrap();
    let file = place.path().join("latin.toml");
    std::fs::write(&file, b"[app.x]\nexecutable = \"/opt/caf\xe9\"\n").unwrap();
    let error = Config::load(&Root::at(place.path()), Some(&file)).unwrap_err();
    let expected = format!("{}:2: not UTF-8", file.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[test]
fn no_limit_is_written_and_never_rounded_to() {
    for (size, expected) in [("0", None), ("\"\"", None), ("1", Some(1 << 20))] {
        let config = read(&format!("[zram0]\nzram-resident-limit = {size}\n")).unwrap();
        let found = config.zram["zram0"].zram_resident_limit.clone();
        assert_eq!(found.map(|size| size.bytes), expected, "{size}");
    }
    for size in ["0.001", "\"1K\"", "\"ram / 100000000\"", "\"1 - 1\""] {
        let found = error(&format!("[zram0]\nzram-resident-limit = {size}\n"));
        assert!(found.contains("write 0 for none"), "{found}");
    }
}

#[test]
fn later_files_win() {
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
        "usr/lib/warmswap.toml",
        "[zram0]\nzram-size = \"ram\"\nswap-priority = 7\n",
    );
    write(
        "etc/warmswap.d/10.toml",
        "[zram0]\nzram-size = \"ram / 4\"\n[host]\nprefetch = false\n",
    );
    write("run/warmswap.d/20.toml", "[host]\nprefetch = true\n");
    write("etc/warmswap.conf", "[zram0]\nzram-size = 1\n");

    let config = Config::load(&Root::at(place.path()), None).unwrap();

    assert_eq!(config.facts.ram_bytes, 8 << 30);
    let zram = &config.zram["zram0"];
    assert_eq!(zram.zram_size.bytes, 2 << 30);
    assert_eq!(zram.swap_priority, 7);
    assert!(config.host.prefetch);
    assert_eq!(config.files.len(), 3);
    let [warning] = &config.warnings[..] else {
        panic!("{:?}", config.warnings);
    };
    assert!(
        warning.contains("etc/warmswap.conf is not read"),
        "{warning}"
    );
    let text = config.effective();
    let from = place.path().join("etc/warmswap.d/10.toml");
    let expected = format!(
        "# 2048 MiB, {}:2\nzram-size = \"ram / 4\"\n",
        from.display()
    );
    assert!(text.contains(&expected), "{text}");

    let config = Config::load(&Root::at(place.path()), Some(&from)).unwrap();
    assert_eq!(config.files, [from]);
    assert!(!config.host.prefetch);
    assert_eq!(config.warnings, [""; 0], "only this file was asked for");
}

#[test]
fn sizes_below_a_mebibyte_are_shown_as_such() {
    let shown = |text| value::Value::comes_to(&size::Size::parse(text, facts()).unwrap());
    assert_eq!(shown("64K").as_deref(), Some("64 KiB"));
    assert_eq!(shown("2G").as_deref(), Some("2048 MiB"));
}

#[test]
fn what_is_printed_means_the_same_when_it_is_read() {
    let config = read(
        "[zram3]\nzram-resident-limit = \"ram / 3\"\nzram-size = 0.5\n[app.\"x \\\"y\\\" \\u00e9\"]\nexecutable = 'a \\ \"b'\n\
         [daemon]\nsocket-group = \"wheel\"\n[signals]\nactivity=false\n[discover]\n\
         exclude=[\"a*\", 'b\", \"c', \"a program of a rather long name\", \"another one of them\", \"and a third one\"]\n",
    )
    .unwrap();

    let text = config.effective();
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    let again = read(&text).unwrap();

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
    let shipped = include_str!("../../../../dist/warmswap.toml");
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
    let defaults = Config::defaults(facts());
    assert_eq!(config.daemon, defaults.daemon);
    assert_eq!(config.host, defaults.host);
    assert_eq!(config.signals, defaults.signals);
    assert_eq!(config.discover, defaults.discover);
    assert_eq!(config.zram["zram0"], ZramSection::defaults(facts()));
    assert_eq!(config.apps["NAME"], AppSection::defaults(facts()));
}

#[test]
fn the_drop_ins_that_are_shipped_can_be_read() {
    for text in [
        include_str!("../../../../dist/50-zram.toml"),
        include_str!("../../../../dist/50-group.toml"),
    ] {
        read(text).unwrap();
    }
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
            ("(daemon|host|zram[0-9]?|signals|discover|app|app\\.[a-z/ ]{0,5})",
             "(socket|bring-back|recompress-after-seconds|zram-size|activity|min-size|exclude|executable|prefetch)",
             "(\"[-+0-9a-z:./* ()]{0,12}\"|[0-9.]{1,4}|true|\\[\"a\"\\])"),
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
        zram.zram_size.bytes >> 20
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
}
