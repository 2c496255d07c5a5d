//! Decodes learned tables of any content, teaches them to an engine and takes them out again.
//!
//! The input is the JSON of a table, or a whole file where it begins with the magic word. The checksum of a table is put
//! right, so that what stands behind it is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmswap_engine::{Engine, Limits};
use warmswap_learned::format::{MAGIC, VERSION};
use warmswap_learned::{FormatError, decode, encode};
use warmswap_page::{AppId, FileId, LaunchKind};
use warmswap_policy::{Learned, SchemeSpec};

/// Schemes whose policies learn something: a hot list, a footprint.
const SCHEMES: [&str; 2] = ["ariadne", "zram+prefetch=footprint:profile=1"];

/// Decodes a table behind a header that fits.
fn decode_body(body: &[u8]) -> Result<Learned<String>, FormatError> {
    let file = |checksum: u64| {
        let mut file = format!("{MAGIC} {VERSION} {checksum:016x} {}\n", body.len()).into_bytes();
        file.extend_from_slice(body);
        decode(&file)
    };
    match file(0) {
        Err(FormatError::WrongChecksum { found, .. }) => file(found),
        other => other,
    }
}

/// Teaches the tables to an engine and starts the application, as a host does after a restart.
fn teach(scheme: &str, learned: Learned<String>) {
    let mut files = 0;
    let learned = learned.rename(|_| {
        files += 1;
        Some(FileId(files))
    });
    let scheme = SchemeSpec::parse(scheme).expect("a known scheme");
    let limits = Limits {
        budget_bytes: 16 << 20,
        pool_limit_bytes: 4 << 20,
        backing_limit_bytes: 0,
    };
    let scheme = scheme.build().expect("a scheme that can be built");
    let mut engine = Engine::new(scheme, limits).expect("limits that make sense");
    engine.teach(AppId(0), &learned);
    engine.check().expect("a sound engine after teaching");
    let taken_out = engine.learned(AppId(0));
    taken_out.check().expect("tables that can exist");
    engine.launch_begin(AppId(0), LaunchKind::Cold);
    engine.launch_end(AppId(0));
    engine.check().expect("a sound engine after a launch");
}

fuzz_target!(|data: &[u8]| {
    let decoded = if data.starts_with(MAGIC.as_bytes()) {
        decode(data)
    } else {
        decode_body(data)
    };
    let Ok(learned) = decoded else {
        return;
    };
    learned.check().expect("decoded tables were checked");
    let again = decode(&encode(&learned)).expect("encoded tables can be decoded");
    assert_eq!(again, learned);
    for scheme in SCHEMES {
        teach(scheme, learned.clone());
    }
});
