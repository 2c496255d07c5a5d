use super::*;

#[test]
fn bytes_use_powers_of_1024() {
    for (bytes, human) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (4096, "4.00 KiB"),
        (10 * 1024 + 236, "10.2 KiB"),
        (1000 * 1024, "1,000 KiB"),
        (1024 * 1024 - 1, "1.00 MiB"),
        (512 << 20, "512 MiB"),
        (3 << 30, "3.00 GiB"),
        (u64::MAX, "16.0 EiB"),
    ] {
        assert_eq!(Quantity::Bytes(bytes).human(), human);
    }
}

#[test]
fn durations_use_the_largest_unit_that_fits() {
    for (nanoseconds, human) in [
        (0.0, "0 ns"),
        (850.0, "850 ns"),
        (1.5, "1.50 ns"),
        (999.6, "1.00 µs"),
        (1_234.0, "1.23 µs"),
        (12_345_678.0, "12.3 ms"),
        (999_960_000.0, "1.00 s"),
        (1e9, "1.00 s"),
        (4.2e12, "4,200 s"),
        (-2_500.0, "-2.50 µs"),
    ] {
        assert_eq!(Quantity::Nanoseconds(nanoseconds).human(), human);
    }
    assert_eq!(Quantity::nanoseconds(1500), Quantity::Nanoseconds(1500.0));
}

#[test]
fn the_other_kinds() {
    assert_eq!(Quantity::Ratio(2.768).human(), "2.77×");
    assert_eq!(Quantity::Ratio(34.46).human(), "34.5×");
    assert_eq!(Quantity::Fraction(0.8125).human(), "81.2 %");
    assert_eq!(Quantity::Pages(1).human(), "1 page");
    assert_eq!(Quantity::Pages(1234).human(), "1,234 pages");
    assert_eq!(Quantity::Count(1_234_567).human(), "1,234,567");
    assert_eq!(Quantity::text("zram").human(), "zram");
}

#[test]
fn unknown_values_are_a_dash_for_people_and_null_for_machines() {
    for unknown in [
        Quantity::Missing,
        Quantity::Ratio(f64::NAN),
        Quantity::Nanoseconds(f64::INFINITY),
        Quantity::Fraction(f64::NAN),
    ] {
        assert_eq!(unknown.human(), "–");
        assert_eq!(unknown.raw(), "-");
        assert_eq!(unknown.json(), Value::Null);
    }
}

#[test]
fn raw_is_the_plain_number() {
    let raw = Style {
        raw: true,
        ..Style::PLAIN
    };
    assert_eq!(Quantity::Bytes(1_536_000).show(raw), "1536000");
    assert_eq!(Quantity::Nanoseconds(1500.0).show(raw), "1500");
    assert_eq!(Quantity::Ratio(2.768).show(raw), "2.768");
    assert_eq!(Quantity::Fraction(0.5).show(raw), "0.5");
    assert_eq!(Quantity::Pages(1234).show(raw), "1234");
    assert_eq!(Quantity::Count(7).show(Style::PLAIN), "7");
}

#[test]
fn json_keeps_whole_numbers_whole() {
    assert_eq!(
        Quantity::Bytes(u64::MAX).json().to_string(),
        u64::MAX.to_string()
    );
    assert_eq!(Quantity::Ratio(2.5).json().to_string(), "2.5");
    assert_eq!(Quantity::text("a").json().to_string(), "\"a\"");
}

#[test]
fn digits_are_grouped_from_the_right() {
    for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345")] {
        assert_eq!(grouped(value), text);
    }
    assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
}

proptest::proptest! {
    /// What people read is within half of a percent of the value (three significant digits).
    #[test]
    fn human_bytes_are_close(bytes in 1024_u64..) {
        let human = Quantity::Bytes(bytes).human().replace(',', "");
        let (number, unit) = human.split_once(' ').unwrap();
        let power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter().position(|u| *u == unit).unwrap();
        let shown = number.parse::<f64>().unwrap() * 1024_f64.powi(i32::try_from(power).unwrap());
        let off = (shown - bytes as f64).abs() / bytes as f64;
        proptest::prop_assert!(off <= 0.005, "{bytes} shown as {human}");
    }

    #[test]
    fn grouping_only_adds_commas(value: u64) {
        proptest::prop_assert_eq!(grouped(value).replace(',', ""), value.to_string());
    }
}

#[test]
fn a_coefficient_has_three_decimals_and_no_unit() {
    assert_eq!(Quantity::Number(0.9553).human(), "0.955");
    assert_eq!(Quantity::Number(0.9553).raw(), "0.9553");
    assert_eq!(Quantity::Number(f64::NAN).human(), "–");
    assert_eq!(Quantity::Number(1.0).kind(), Some(Kind::Number));
}
