//! How well a page will compress, from the entropy of its first 512 bytes (ezswap section III-B, Eq. 3).
//!
//! With c occurrences of a byte among n = 512, the entropy is
//! `sum(c/n * log2(n/c)) = log2(n) - sum(c * log2(c)) / n` bits a byte, 0 to 8. The estimate is a straight
//! line: 8 bits a byte are a page that does not shrink, so an entropy of H makes `4096 * H / 8 = 512 * H`
//! bytes, which is `512 * 9 - sum(c * log2(c))`: a sum of table look-ups, without floating point and
//! without division.

use super::SAMPLE_BYTES;

/// Fraction bits of the table.
const FRACTION_BITS: u32 = 16;

/// `c * log2(c)` for 0 to 512 occurrences, in 2^-16ths. Twice as long as that, so that an index of ten
/// bits needs no check.
static N_LOG_N: [u32; 2 * SAMPLE_BYTES] = {
    let mut table = [0; 2 * SAMPLE_BYTES];
    let mut count = 1;
    while count <= SAMPLE_BYTES {
        table[count] = n_log_n(count as u64);
        count += 1;
    }
    table
};

/// `n * log2(n)` in 2^-16ths, rounded; `n` is 1 to 512.
const fn n_log_n(n: u64) -> u32 {
    const LOG_BITS: u32 = 36;
    let whole = n.ilog2();
    // The mantissa, from 1 to 2, with 31 fraction bits: squaring it doubles its logarithm.
    let mut mantissa = n << (31 - whole);
    let mut log = whole as u64;
    let mut bit = 0;
    while bit < LOG_BITS {
        mantissa = (mantissa * mantissa) >> 31;
        let carry = mantissa >> 32;
        mantissa >>= carry;
        log = (log << 1) | carry;
        bit += 1;
    }
    let shift = LOG_BITS - FRACTION_BITS;
    ((n * log + (1 << (shift - 1))) >> shift) as u32
}

/// The estimate for a sum of `c * log2(c)`.
const fn bytes_of(sum: u32) -> u32 {
    const WHOLE: u32 = (SAMPLE_BYTES as u32 * SAMPLE_BYTES.ilog2()) << FRACTION_BITS;
    (WHOLE.saturating_sub(sum) + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
}

/// The largest estimate that a sample with so many zeros can have: its other bytes are as different from each other
/// as they can be.
static AT_MOST: [u16; SAMPLE_BYTES + 1] = {
    let mut table = [0; SAMPLE_BYTES + 1];
    let mut zeros = 0;
    while zeros <= SAMPLE_BYTES {
        let (each, more) = ((SAMPLE_BYTES - zeros) / 255, (SAMPLE_BYTES - zeros) % 255);
        let sum =
            N_LOG_N[zeros] + (255 - more as u32) * N_LOG_N[each] + more as u32 * N_LOG_N[each + 1];
        table[zeros] = bytes_of(sum) as u16;
        zeros += 1;
    }
    table
};

/// As much of the estimate as a decision needs: where what it is at most suffices already, that; else the estimate.
///
/// Memory has many zeros, and a page with enough of them is decided on without a histogram.
pub fn estimate_for(sample: &[u8; SAMPLE_BYTES], suffices: impl FnOnce(u32) -> bool) -> u32 {
    let at_most = estimate_at_most(sample);
    if suffices(at_most) {
        at_most
    } else {
        estimate_bytes(sample)
    }
}

/// What [`estimate_bytes`] is at most, from the number of zeros alone. Cost: one pass, many bytes at a time.
fn estimate_at_most(sample: &[u8; SAMPLE_BYTES]) -> u32 {
    let zeros: u32 = sample
        .as_chunks::<128>()
        .0
        .iter()
        .map(|bytes| {
            let zeros: u8 = bytes.iter().map(|&byte| u8::from(byte == 0)).sum();
            u32::from(zeros)
        })
        .sum();
    u32::from(AT_MOST[zeros as usize])
}

/// Bytes that a page is expected to compress to, 0 to 4096, from its first 512 bytes.
///
/// Exact to a byte against Eq. 3 in floating point. Cost: one pass over the 512 bytes (8 zeros at a time),
/// and 256 look-ups.
pub fn estimate_bytes(sample: &[u8; SAMPLE_BYTES]) -> u32 {
    // Four tables, so that equal bytes in a row do not wait for each other. Each sees at most 128 bytes.
    let mut counts = [[0_u8; 256]; 4];
    let mut zeros = 0_usize;
    for bytes in sample.as_chunks::<8>().0 {
        let word = u64::from_le_bytes(*bytes);
        if word == 0 {
            zeros += 8;
            continue;
        }
        let byte = |at: u32| usize::from((word >> (8 * at)) as u8);
        counts[0][byte(0)] += 1;
        counts[1][byte(1)] += 1;
        counts[2][byte(2)] += 1;
        counts[3][byte(3)] += 1;
        counts[0][byte(4)] += 1;
        counts[1][byte(5)] += 1;
        counts[2][byte(6)] += 1;
        counts[3][byte(7)] += 1;
    }
    let mut sums = [0_u16; 256];
    let [a, b, c, d] = &counts;
    for at in 0..256 {
        sums[at] = u16::from(a[at]) + u16::from(b[at]) + u16::from(c[at]) + u16::from(d[at]);
    }
    sums[0] += zeros as u16;
    let sum: u32 = sums
        .iter()
        .map(|&count| N_LOG_N[usize::from(count) % N_LOG_N.len()])
        .sum();
    bytes_of(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Eq. 3 as it stands, scaled to bytes of a page.
    fn by_definition(sample: &[u8; SAMPLE_BYTES]) -> f64 {
        let entropy: f64 = (0..=u8::MAX)
            .map(|value| sample.iter().filter(|&&byte| byte == value).count())
            .filter(|&count| count > 0)
            .map(|count| count as f64 / SAMPLE_BYTES as f64)
            .map(|p| -p * p.log2())
            .sum();
        4096.0 * entropy / 8.0
    }

    /// Samples with few to many distinct values, with and without runs of zeros.
    fn sample() -> impl Strategy<Value = [u8; SAMPLE_BYTES]> {
        let bytes = prop::collection::vec(any::<u8>(), SAMPLE_BYTES);
        (bytes, 1..=256_u32, 0..=SAMPLE_BYTES).prop_map(|(bytes, values, zeros)| {
            let mut sample = [0; SAMPLE_BYTES];
            for (at, byte) in bytes.into_iter().enumerate().skip(zeros) {
                sample[at] = (u32::from(byte) % values) as u8;
            }
            sample
        })
    }

    proptest! {
        #[test]
        fn the_estimate_is_eq_3(sample in sample()) {
            let (estimate, expected) = (estimate_bytes(&sample), by_definition(&sample));
            prop_assert!((f64::from(estimate) - expected).abs() <= 0.51, "{estimate} {expected}");
        }

        #[test]
        fn a_decision_is_the_same_with_as_much_of_the_estimate_as_it_needs(
            sample in sample(),
            limit in 0..4097_u32,
        ) {
            let exact = estimate_bytes(&sample);
            prop_assert!(exact <= estimate_at_most(&sample));
            let enough = estimate_for(&sample, |bytes| bytes <= limit);
            prop_assert_eq!(enough <= limit, exact <= limit);
        }
    }

    #[test]
    fn the_ends_of_the_scale_are_reached() {
        assert_eq!(estimate_bytes(&[0; SAMPLE_BYTES]), 0);
        assert_eq!(estimate_bytes(&[7; SAMPLE_BYTES]), 0);
        let mut all = [0; SAMPLE_BYTES];
        all.iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = at as u8);
        assert_eq!(estimate_bytes(&all), 4096);
    }

    #[test]
    fn as_different_as_bytes_can_be_beside_zeros_is_the_most() {
        for zeros in [0, 1, 2, 100, 257, 258, 300, 511, SAMPLE_BYTES] {
            let mut sample = [0; SAMPLE_BYTES];
            for (at, byte) in sample[zeros..].iter_mut().enumerate() {
                *byte = (at % 255) as u8 + 1;
            }
            assert_eq!(
                estimate_at_most(&sample),
                estimate_bytes(&sample),
                "{zeros}"
            );
        }
    }

    #[test]
    fn the_table_is_right_to_half_its_last_bit() {
        for (n, &found) in (1..).zip(&N_LOG_N[1..=SAMPLE_BYTES]) {
            let exact = f64::from(n) * f64::from(n).log2() * 65_536.0;
            assert!((f64::from(found) - exact).abs() <= 0.55, "{n}");
        }
    }
}
