//! The headline chart as a file of its own: all relaunches of every arm, as SVG for a README.

use crate::chart::{Chart, INKS};
use crate::error::ResultError;
use crate::html::Html;
use crate::series::Latencies;
use crate::stored::Results;

/// The picture: live relaunches, or else replayed ones. It follows the reader's light or dark theme.
///
/// # Errors
/// [`ResultError::NoPicture`], when the results have no relaunches, and [`ResultError::Draw`].
pub fn picture(results: &Results) -> Result<String, ResultError> {
    let live = results
        .relaunch
        .first()
        .map(|of| (Latencies::live(of), "Live relaunches"));
    let live = live.filter(|(latencies, _)| !latencies.is_empty());
    let replayed = || {
        let of = results.full_pressure().or_else(|| results.under_budget())?;
        Some((
            Latencies::replayed(of),
            "Replayed relaunches: the part that memory costs",
        ))
    };
    let (latencies, title) = live.or_else(replayed).ok_or(ResultError::NoPicture)?;
    if latencies.is_empty() {
        return Err(ResultError::NoPicture);
    }
    let description =
        "A row for each arm: every relaunch a dot, the middle half a box, the median a line.";
    let chart = Chart::of(title, description, &latencies.headline())?;
    let drawing = &chart.drawings[0];
    let colours = |dark: bool| {
        let one = |ink: &crate::chart::InkLook| {
            format!(
                "--{}:{};",
                ink.name,
                if dark { ink.dark } else { ink.light }
            )
        };
        INKS.iter().map(one).collect::<String>()
    };
    let (light, dark) = (colours(false), colours(true));
    let mut svg = Html::default();
    let size = format!("0 0 {} {}", drawing.width, drawing.height);
    svg.raw("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"t d\"");
    svg.attribute("width", &drawing.width.to_string())
        .attribute("height", &drawing.height.to_string());
    svg.attribute("viewBox", &size)
        .raw(">\n<title id=\"t\">")
        .text(&chart.title)
        .raw("</title>\n");
    svg.raw("<desc id=\"d\">")
        .text(&chart.description)
        .raw("</desc>\n<style>:root{")
        .raw(&light);
    svg.raw("}@media (prefers-color-scheme:dark){:root{")
        .raw(&dark);
    svg.raw(
        "}}text{font-family:system-ui,\"Segoe UI\",Roboto,Helvetica,Arial,sans-serif}</style>\n",
    );
    svg.raw(&drawing.body).raw("</svg>\n");
    Ok(svg.into_string())
}
