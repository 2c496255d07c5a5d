//! Lengths of runs of neighbouring pages, such that accesses run by run have given probabilities of two
//! and of four consecutive pages.

use oorandom::Rand64;

use crate::error::{Result, TraceError};

/// A run goes on with probability `young` after its first, second and third page, and with probability
/// `old` after each later one.
///
/// Of all accesses, the share that is followed by the next page is `(E[l] - 1) / E[l]`, and the share
/// that is followed by the next three is `E[max(l - 3, 0)] / E[l]`, for the run length `l`. The two
/// probabilities follow from these equations; a single one would force four = two^3, while all of
/// Table 3 of the Ariadne paper lies above that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLengths {
    young: f64,
    old: f64,
}

impl RunLengths {
    /// # Errors
    ///
    /// There is no such distribution.
    pub(crate) fn new(two: f64, four: f64) -> Result<Self> {
        let bad = |name, value: f64, expected| {
            Err(TraceError::Setting {
                name,
                found: value.to_string(),
                expected,
            })
        };
        if !(0.0..=0.999).contains(&two) {
            return bad("two_consecutive", two, "0 to 0.999");
        }
        if two == 0.0 && four == 0.0 {
            return Ok(Self {
                young: 0.0,
                old: 0.0,
            });
        }
        // 1 + young + young^2 pages of a run are among its first three, on average.
        let first_three = (1.0 - four) / (1.0 - two);
        let young = ((4.0 * first_three - 3.0).max(0.0).sqrt() - 1.0) / 2.0;
        let old = 1.0 - young.powi(3) * (1.0 - two) / four;
        if !(0.0..=1.0).contains(&young) || !(0.0..1.0).contains(&old) {
            return bad(
                "four_consecutive",
                four,
                "a probability between the cube of two_consecutive and itself",
            );
        }
        Ok(Self { young, old })
    }

    /// A length, at least 1 and at most 65536.
    pub(crate) fn draw(&self, random: &mut Rand64) -> u32 {
        let mut length = 1;
        while length < 1 << 16
            && random.rand_float() < if length <= 3 { self.young } else { self.old }
        {
            length += 1;
        }
        length
    }
}
