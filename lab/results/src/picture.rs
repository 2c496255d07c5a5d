//! The headline chart as a file of its own: all relaunches of every arm, as SVG.

use warmswap_columns::Quantity;
use warmswap_page::quantile::Sorted;

use crate::error::ResultError;
use crate::latencies::{Latencies, arm_name};
use crate::stored::Results;

const WIDTH: f64 = 760.0;
const ROW: f64 = 20.0;
const HEAD: f64 = 20.0;
const AXIS: f64 = 24.0;
/// Room for the medians, at the right.
const MEDIANS: f64 = 68.0;
/// Pixels of a letter of a label, about.
const LETTER: f64 = 7.2;
/// No more dots than this in a row: more would hide each other.
const DOTS: usize = 400;
/// What colours a reader's theme does not decide.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1b1d21}.axis{font-size:11px;fill:#5a6069}line{stroke:#dde0e4}.row{--c:var(--l)}
.row rect{fill:var(--c);opacity:.28}.row circle{fill:var(--c);opacity:.5}.row line{stroke:var(--c);stroke-width:3}
@media(prefers-color-scheme:dark){text{fill:#ecedee}.axis{fill:#a6adb7}line{stroke:#343a42}.row{--c:var(--d)}}";

/// The picture: live relaunches, or else replayed ones. It follows the reader's light or dark theme.
///
/// # Errors
/// [`ResultError::NoPicture`], when the results have no relaunches.
pub fn picture(results: &Results) -> Result<String, ResultError> {
    let (title, latencies) = shown(results).ok_or(ResultError::NoPicture)?;
    let arms = latencies.arms.iter().map(|arm| {
        let times = latencies.of_arm(arm).into_iter().filter(|&ns| ns > 0.0);
        (arm.as_str(), Sorted::by(times, f64::total_cmp))
    });
    let arms: Vec<_> = arms.filter(|(_, times)| times.median().is_some()).collect();
    let all = || arms.iter().flat_map(|(_, times)| times.samples());
    let least = all().copied().reduce(f64::min);
    let most = all().copied().reduce(f64::max);
    let (Some(least), Some(most)) = (least, most) else {
        return Err(ResultError::NoPicture);
    };
    let letters = arms.iter().map(|(arm, _)| arm_name(arm).chars().count());
    let left = (letters.max().unwrap_or(0) as f64 * LETTER).min(WIDTH / 3.0) + 10.0;
    let bottom = HEAD + arms.len() as f64 * ROW;
    let axis = Axis {
        values: (least / 1.15, most * 1.15),
        pixels: (left, WIDTH - MEDIANS),
    };
    let height = bottom + AXIS;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"t d\" width=\"{WIDTH}\" \
         height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n<title id=\"t\">{title}</title>\n<desc id=\"d\">A row \
         for each arm: every relaunch a dot, the middle half a box, the median a line.</desc>\n<style>{STYLE}</style>\n\
         <text class=\"axis\" x=\"{WIDTH}\" y=\"12\" text-anchor=\"end\">median</text>\n"
    );
    for ns in axis.ticks() {
        let (x, time) = (axis.at(ns), Quantity::Nanoseconds(ns).human());
        let time = time.replace(".00", "").replace(".0", "");
        svg += &format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{HEAD}\" y2=\"{bottom}\"/><text class=\"axis\" x=\"{x:.1}\" \
             y=\"{:.0}\" text-anchor=\"middle\">{time}</text>\n",
            bottom + 16.0
        );
    }
    for (at, (arm, times)) in arms.iter().enumerate() {
        svg += &row(&axis, HEAD + (at as f64 + 0.5) * ROW, arm, times);
    }
    Ok(svg + "</svg>\n")
}

/// What the picture shows, with its title.
fn shown(results: &Results) -> Option<(&'static str, Latencies)> {
    let live = results.relaunch.first().map(Latencies::live);
    if let Some(live) = live.filter(|latencies| !latencies.is_empty()) {
        return Some(("Live relaunches", live));
    }
    let of = results.full_pressure().or_else(|| results.under_budget())?;
    let title = "Replayed relaunches: the part that memory costs";
    Some((title, Latencies::replayed(of)))
}

/// Times on pixels, equal factors equally long.
struct Axis {
    values: (f64, f64),
    pixels: (f64, f64),
}

impl Axis {
    fn at(&self, ns: f64) -> f64 {
        let part = (ns / self.values.0).ln() / (self.values.1 / self.values.0).ln();
        self.pixels.0 + part * (self.pixels.1 - self.pixels.0)
    }

    /// Round times; between powers of ten where there are few of those.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (low, high) = self.values;
        let factors: &[f64] = if high / low > 200.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let all = decades.flat_map(|decade| factors.iter().map(move |f| f * 10_f64.powi(decade)));
        all.filter(move |ns| (low..=high).contains(ns))
    }
}

/// The row of an arm, around `y`.
fn row(axis: &Axis, y: f64, arm: &str, times: &Sorted<f64>) -> String {
    let at = |per_mille| times.per_mille(per_mille).unwrap_or_default();
    let (low, median, high) = (axis.at(at(250)), axis.at(at(500)), axis.at(at(750)));
    let (light, dark) = colours(arm);
    let name = arm_name(arm).replace('&', "&amp;").replace('<', "&lt;");
    let mut svg = format!(
        "<g class=\"row\" style=\"--l:{light};--d:{dark}\"><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
         <rect x=\"{low:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>",
        axis.pixels.0 - 10.0,
        y + 4.0,
        y - 6.0,
        (high - low).max(1.0)
    );
    let samples = times.samples();
    let each = samples.len().div_ceil(DOTS);
    for (place, &ns) in samples.iter().step_by(each).enumerate() {
        // A little up and down, so that dots do not hide each other.
        let up = (place * 5 % 9) as f64 - 4.0;
        let x = axis.at(ns);
        svg += &format!("<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"2\"/>", y + up);
    }
    let time = Quantity::Nanoseconds(at(500)).human();
    svg + &format!(
        "<line x1=\"{median:.1}\" x2=\"{median:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><text x=\"{WIDTH}\" y=\"{:.1}\" \
         text-anchor=\"end\">{time}</text></g>\n",
        y - 8.0,
        y + 8.0,
        y + 4.0
    )
}

/// The colour of an arm in light and in dark: one for each family. They are those of Okabe and Ito, which people with any
/// colour vision tell apart, darker or lighter where they have too little contrast to what they lie on.
fn colours(arm: &str) -> (&'static str, &'static str) {
    match arm {
        "dram" => ("#4a4f57", "#b9bfc8"),
        "zram" => ("#d55e00", "#f0813a"),
        "kernel" | "warmswap" => ("#0072b2", "#56a8e8"),
        "preload" => ("#00856a", "#2fbf95"),
        "swap" => ("#8c8400", "#d6cc4a"),
        other if other.starts_with("ariadne-al") => ("#3c97c9", "#7cc4ee"),
        other if other.starts_with("ariadne") => ("#b5548c", "#dc8fbd"),
        _ => ("#c07f00", "#e9b23f"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_markup() {
        let axis = Axis {
            values: (1.0, 10.0),
            pixels: (0.0, 100.0),
        };
        let svg = row(&axis, 0.0, "<script>&", &Sorted::by([2.0], f64::total_cmp));
        assert!(svg.contains(">&lt;script>&amp;</text>"), "{svg}");
    }

    #[test]
    fn an_axis_has_round_times_within_it() {
        let axis = |values| Axis {
            values,
            pixels: (0.0, 100.0),
        };
        let ticks: Vec<f64> = axis((0.9, 15.0)).ticks().collect();
        assert_eq!(ticks, [1.0, 2.0, 5.0, 10.0]);
        let ticks: Vec<f64> = axis((0.9, 1500.0)).ticks().collect();
        assert_eq!(ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert!((axis((1.0, 100.0)).at(10.0) - 50.0).abs() < 1e-9);
    }
}
