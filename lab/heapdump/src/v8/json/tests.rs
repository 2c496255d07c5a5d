use super::*;

fn json(text: &[u8]) -> Json<'_> {
    Json::new(Box::new(text))
}

#[test]
fn numbers_are_those_of_json() {
    for (text, number) in [
        ("0", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("9999999999999999999", Some(9_999_999_999_999_999_999)),
        ("18446744073709551616", None),
        ("-1", None),
        ("1.5e+3", None),
        ("0.0E-1", None),
    ] {
        for behind in ["", " ", ",", "]"] {
            let text = format!(" {text}{behind}");
            let mut json = json(text.as_bytes());
            assert_eq!(json.number("a number").unwrap(), number, "{text}");
            assert_eq!(json.offset(), (text.len() - behind.len()) as u64);
        }
    }
    for text in ["01", "-", "1.", ".5", "1e", "1e+", "+1", "--1", "1-1", "x"] {
        assert!(json(text.as_bytes()).number("a number").is_err(), "{text}");
    }
}

#[test]
fn strings_are_decoded() {
    for (text, decoded) in [
        (r#""""#, ""),
        (r#""a\"\\\/\b\f\n\r\tz""#, "a\"\\/\u{8}\u{c}\n\r\tz"),
        (r#""\u00e9\ud83d\ude00é""#, "é😀é"),
        // Halves of pairs, as V8 writes them where it cuts a string.
        (
            r#""\ud83d\ud83d\ude00\ud83dx\ude00\ud83d\n\ud83d""#,
            "\u{fffd}😀\u{fffd}x\u{fffd}\u{fffd}\n\u{fffd}",
        ),
    ] {
        let mut json = json(text.as_bytes());
        let found = String::from_utf8(json.string("a string").unwrap().to_vec());
        assert_eq!(found.unwrap(), decoded);
    }
    for text in [r#""a"#, "\"a\nb\"", r#""\x""#, r#""\u12g4""#, r#""\"#, "a"] {
        assert!(json(text.as_bytes()).string("a string").is_err(), "{text}");
    }
}

#[test]
fn long_strings_are_cut_and_read_to_their_end() {
    let text = format!("\"{}\" 1", "é\\u00e9".repeat(50_000));
    let mut json = json(text.as_bytes());
    assert!(json.string("a string").unwrap().len() <= STRING_BYTES_MAX + 4);
    assert_eq!(json.number("a number").unwrap(), Some(1));
}

#[test]
fn anything_is_skipped_and_checked() {
    let good = r#" {"a":[1,-2.5e3,[],{}, "x]}", {"b":null}],"c":true,"d":false} 7"#;
    let mut whole = json(good.as_bytes());
    whole.skip().unwrap();
    assert_eq!(whole.number("a number").unwrap(), Some(7));
    for end in 1..good.len() - 2 {
        assert!(json(&good.as_bytes()[..end]).skip().is_err(), "{end}");
    }
    for bad in [
        "[1 2]",
        "[1,]",
        "[,1]",
        "{1:2}",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "[}",
        "{\"a\":1]",
        "nul",
        "trve",
    ] {
        assert!(json(bad.as_bytes()).skip().is_err(), "{bad}");
    }
}

#[test]
fn deep_lists_are_an_error_before_memory_is_taken() {
    let deep = "[".repeat(LEVELS_MAX + 2);
    let error = json(deep.as_bytes()).skip().unwrap_err();
    assert!(matches!(error, DumpError::TooMany { .. }), "{error}");
    let fits = "[".repeat(LEVELS_MAX) + &"]".repeat(LEVELS_MAX);
    json(fits.as_bytes()).skip().unwrap();
}

#[test]
fn errors_say_where_and_what() {
    let mut json = json(b"[1, x]");
    assert_eq!(
        json.skip().unwrap_err().to_string(),
        "at byte 4: found \"x\", expected a value"
    );
}
