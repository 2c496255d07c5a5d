//! Reads configuration files of any content. What they come to can be printed, and the printed form comes to the same.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use warmswap_daemon::config::Config;
use warmswap_daemon::config::size::Facts;

const FACTS: Facts = Facts { ram_bytes: 8 << 30 };

/// Every value that holds, without its origin.
fn values(config: &Config) -> Vec<(String, &'static str, String, Option<String>)> {
    let settings = config.settings().into_iter();
    settings
        .map(|setting| {
            (
                setting.section,
                setting.key,
                setting.value,
                setting.comes_to,
            )
        })
        .collect()
}

fuzz_target!(|data: &[u8]| {
    // Others are refused before.
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut config = Config::defaults(FACTS);
    if let Err(error) = config.merge(text, Path::new("/etc/warmswap.toml")) {
        assert!(error.to_string().contains("/etc/warmswap.toml:"), "{error}");
        return;
    }
    let printed = config.effective();
    let mut again = Config::defaults(FACTS);
    if let Err(error) = again.merge(&printed, Path::new("/printed")) {
        panic!("{error} in\n{printed}");
    }
    assert_eq!(values(&again), values(&config), "in\n{printed}");
    // Twice the same file is the file.
    let before = values(&config);
    config
        .merge(text, Path::new("/etc/warmswap.toml"))
        .expect("the same file");
    assert_eq!(values(&config), before);
});
