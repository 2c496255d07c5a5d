//! Reads the settings that `warmswap run` leaves in the environment for the preloaded library.
#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use libfuzzer_sys::fuzz_target;
use warmswap_protocol::RunSettings;
use warmswap_policy::SchemeSpec;

fuzz_target!(|data: &[u8]| {
    let Ok(settings) = RunSettings::from_variable(OsStr::from_bytes(data)) else {
        return;
    };
    assert!(settings.budget_bytes > 0 && settings.fault_threads > 0);
    let variable = settings.to_variable().expect("text can be written");
    let again = RunSettings::from_variable(OsStr::new(&variable)).expect("what was written");
    assert_eq!(again, settings);

    let path = settings.stats_path(4711);
    assert_eq!(path.is_some(), settings.stats_json.is_some());
    if let Some(text) = path.as_deref().and_then(|path| path.to_str()) {
        assert!(!text.contains("%p"));
    }

    // The library parses the scheme next, and builds it.
    if let Ok(scheme) = SchemeSpec::parse(&settings.scheme) {
        let _ = scheme.build();
    }
});
