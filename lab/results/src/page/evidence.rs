//! The papers' results beside ours, paper by paper.

use super::figures;
use crate::chart::Chart;
use crate::claims::{Finding, Paper, Verdict, findings, tally};
use crate::error::ResultError;
use crate::html::Html;
use crate::stored::Results;

/// Every claim.
pub(super) fn show(html: &mut Html, results: &Results) -> Result<(), ResultError> {
    html.paragraph(
        "Every result figure and table of the four papers, with the number that its text gives, ours, and whether it \
         holds on this machine with these programs. A claim holds in part where its direction is right and its size \
         is not. Ours is the mean over applications; the range is in brackets.",
    );
    let all = tally(results);
    html.raw("<ul class=\"tally\">");
    for (verdict, count) in Verdict::ALL.into_iter().zip(all) {
        html.raw("<li")
            .attribute("class", class(verdict))
            .raw("><span class=\"badge\">");
        html.text(verdict.sign())
            .raw(" ")
            .text(&count.to_string())
            .raw("</span> ");
        html.text(verdict.words()).raw("</li>");
    }
    html.raw("</ul>\n");
    for paper in Paper::ALL {
        let (name, venue) = paper.name();
        html.raw("<h3>")
            .text(name)
            .raw(" <small>")
            .text(venue)
            .raw("</small></h3>\n");
        if let Some(dots) = figures::beside(paper, results) {
            let chart = Chart::of(
                &format!("{name}: ours by the paper’s number"),
                "A row for each number: a full circle for ours divided by the paper's, a ring at one for the paper's own.",
                &dots,
            )?;
            let caption =
                "A circle on the ring is the same number as in the paper. The axis is logarithmic.";
            html.raw("<figure class=\"beside\">");
            super::drawings(html, &chart, name);
            html.raw("<figcaption>")
                .text(&chart.title)
                .raw(". ")
                .text(caption)
                .raw("</figcaption></figure>\n");
        }
        claims(html, name, &findings(paper, results));
        html.raw("<p class=\"note\">").text(paper.without_results());
        html.raw(" show design or set-up, and no results.</p>\n");
    }
    Ok(())
}

fn claims(html: &mut Html, name: &str, found: &[Finding]) {
    let label = format!("{name}: its results beside ours");
    html.raw("<div class=\"scroll claims\" tabindex=\"0\" role=\"region\"")
        .attribute("aria-label", &label);
    html.raw("><table><thead><tr>");
    for head in [
        "where",
        "what the paper says",
        "paper",
        "here",
        "does it hold?",
    ] {
        html.raw("<th scope=\"col\">").text(head).raw("</th>");
    }
    html.raw("</tr></thead><tbody>\n");
    for finding in found {
        row(html, finding);
    }
    html.raw("</tbody></table></div>\n");
}

fn row(html: &mut Html, finding: &Finding) {
    let claim = &finding.claim;
    let show = |value: Option<f64>| value.map_or("–".to_owned(), |value| claim.unit.show(value));
    html.raw("<tr><td>")
        .text(claim.figure)
        .raw("</td><td class=\"says\">")
        .text(claim.says);
    html.raw(" <span class=\"note\">(")
        .text(claim.section)
        .raw(")</span></td><td class=\"n\">");
    html.text(&show(claim.paper)).raw("</td><td class=\"n\">");
    html.text(&show(finding.ours.map(|ours| ours.value)))
        .raw("</td><td");
    html.attribute("class", &format!("holds {}", class(finding.verdict)));
    html.raw("><span class=\"badge\">")
        .text(finding.verdict.sign())
        .raw("</span> ");
    html.text(&finding.sentence());
    let is_told = matches!(
        finding.verdict,
        Verdict::Cannot | Verdict::NotRun | Verdict::NotEvaluated
    );
    if !is_told {
        html.raw(" <code>").text(claim.command).raw("</code>");
    }
    html.raw("</td></tr>\n");
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "yes",
        Verdict::InPart => "inpart",
        Verdict::DoesNot => "doesnot",
        Verdict::NotEvaluated | Verdict::NotRun => "notrun",
        Verdict::Cannot => "cannot",
    }
}
