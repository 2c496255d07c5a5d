//! Means that know that there may be nothing to take them of.

/// The arithmetic mean; `None` of nothing.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u64);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

/// The geometric mean of positive numbers; `None` of nothing. The order of the numbers does not matter to
/// the last digit but one.
pub(crate) fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    mean(values.into_iter().map(f64::ln)).map(f64::exp)
}

/// `part` of `whole`; `None` of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_values() {
        assert_eq!(mean([1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(mean([]), None);
        assert!((geometric_mean([1.0, 4.0, 2.0]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(share(1, 4), Some(0.25));
        assert_eq!(share(1, 0), None);
    }
}
