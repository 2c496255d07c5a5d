//! What was saved is loaded; what was damaged is not, and nothing panics.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use warmswap_learned::{FormatError, LoadError, decode, encode, load, path_of, save};
use warmswap_policy::learned::{Learned, LearnedFile};
use warmswap_policy::prefetch::footprint::Extent;

const PAGES: std::ops::Range<u64> = 0..1 << 52;

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let extent = (0..1_u64 << 40, 1..5000_u64).prop_map(|(first, pages)| Extent { first, pages });
    prop::collection::vec(extent, 0..6)
}

fn learned() -> impl Strategy<Value = Learned<String>> {
    let pages = || prop::collection::vec(PAGES, 0..30);
    let file = (".{0,20}", extents(), extents()).prop_map(|(file, profile, targets)| LearnedFile {
        file,
        profile,
        targets,
    });
    let files = prop::collection::vec(file, 0..5);
    (pages(), pages(), pages(), any::<bool>(), files).prop_map(
        |(hot, anon_targets, anon_candidates, is_profiled, files)| Learned {
            hot,
            anon_targets,
            anon_candidates,
            is_profiled,
            files,
        },
    )
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_was_encoded_is_decoded(learned in learned()) {
        prop_assert_eq!(decode(&encode(&learned)).unwrap(), learned);
    }

    #[test]
    fn a_changed_byte_is_noticed(learned in learned(), at in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let mut bytes = encode(&learned);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        // The checksum may be written in capitals: then it says the same.
        let same = bytes.eq_ignore_ascii_case(&encode(&learned)) && at < bytes.iter().position(|&b| b == b'\n').unwrap_or(0);
        prop_assert!(decode(&bytes).is_err() || same, "byte {at}");
    }

    #[test]
    fn a_cut_or_longer_file_is_noticed(learned in learned(), at in any::<prop::sample::Index>(), more in 1..50_usize) {
        let mut bytes = encode(&learned);
        prop_assert!(decode(&bytes[..at.index(bytes.len())]).is_err());
        bytes.extend(std::iter::repeat_n(b' ', more));
        let is_longer = matches!(decode(&bytes), Err(FormatError::WrongLength { .. }));
        prop_assert!(is_longer);
    }

    #[test]
    fn any_bytes_give_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn applications_have_files_of_their_own_inside_the_folder(apps in prop::collection::btree_set(".{0,300}", 1..8)) {
        let folder = std::path::Path::new("folder");
        let paths: BTreeSet<_> = apps.iter().map(|app| path_of(folder, app)).collect();
        prop_assert_eq!(paths.len(), apps.len());
        for path in paths {
            prop_assert_eq!(path.parent(), Some(folder));
            prop_assert!(path.file_name().unwrap().len() <= 255);
        }
    }
}

fn example() -> Learned<String> {
    Learned {
        hot: vec![3, 1],
        ..Learned::default()
    }
}

#[test]
fn the_newest_save_is_loaded_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("made");
    assert!(load(&folder, "a/b").unwrap().is_none());
    save(&folder, "a/b", &Learned::default()).unwrap();
    save(&folder, "a/b", &example()).unwrap();
    assert_eq!(load(&folder, "a/b").unwrap(), Some(example()));
    let files: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert_eq!(files.len(), 1);
    assert_eq!(path_of(&folder, "a/b"), folder.join("a%2fb.learned"));
    // For their owner alone.
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&path_of(&folder, "a/b")), 0o600);
}

#[test]
fn a_damaged_file_and_one_of_another_version_are_named_and_can_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = path_of(folder, "app");
    let bytes = String::from_utf8(encode(&example())).unwrap();
    for (bad, reason) in [
        (
            bytes.replace("learned 1 ", "learned 2 "),
            "it is of version 2; this program knows version 1",
        ),
        (bytes.replace("[3,1]", "[3,2]"), "its checksum is"),
        (String::new(), "it does not begin with"),
    ] {
        fs::write(&path, bad).unwrap();
        let error = load(folder, "app").unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, LoadError::Bad { .. }), "{text}");
        assert!(
            text.contains(path.to_str().unwrap()) && text.contains(reason),
            "{text}"
        );
    }
    save(folder, "app", &example()).unwrap();
    assert_eq!(load(folder, "app").unwrap(), Some(example()));
}

#[test]
fn a_right_checksum_does_not_make_a_table() {
    for body in ["{}", "[1]", r#"{"hot":[-1]}"#] {
        let checksum = xxhash_rust::xxh3::xxh3_64(body.as_bytes());
        let bytes = format!("warmswap-learned 1 {checksum:016x} {}\n{body}", body.len());
        let result = decode(bytes.as_bytes());
        assert!(
            matches!(result, Err(FormatError::NotUnderstood(_))),
            "{body}"
        );
    }
    let mut learned = example();
    learned.hot.push(1 << 60);
    let result = decode(&encode(&learned));
    assert!(matches!(result, Err(FormatError::NotLearned(_))));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = save(&file, "app", &example()).unwrap_err();
    assert_eq!(error.path, file);
    assert!(matches!(
        load(&file, "app"),
        Err(LoadError::Unreadable { .. })
    ));
}
