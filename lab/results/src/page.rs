//! The page: one file that holds all that it shows.
//!
//! There is no script in it, and its policy forbids any: charts are drawn already, and tables open by themselves
//! (`<details>`). It asks for nothing over a network.

mod evidence;
mod figures;
mod style;

use std::path::Path;

use warmswap_columns::Quantity;

use crate::chart::{Chart, Grid};
use crate::difference::{Difference, conditions, differences, strips};
use crate::error::ResultError;
use crate::html::Html;
use crate::stored::{Results, Source};
use crate::summary::{Fact, facts};

/// What the page forbids itself: everything but its own style.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// A section of a page: its headline, and what is in it.
struct Section {
    id: &'static str,
    title: &'static str,
    body: Html,
}

/// The page of these results.
///
/// # Errors
/// [`ResultError::Draw`].
pub fn page(results: &Results) -> Result<String, ResultError> {
    let mut page = Page::default();
    let shown = facts(results);
    if !shown.is_empty() {
        page.section("summary", "In ten seconds", |html| {
            cards(html, &shown);
            Ok(())
        })?;
    }
    figures::all(&mut page, results)?;
    page.section(
        "evidence",
        "The papers’ results, theirs beside ours",
        |html| evidence::show(html, results),
    )?;
    page.section("run", "What was run, and what was not", |html| {
        sources(html, &results.sources);
        not_run(html, results);
        Ok(())
    })?;
    Ok(page.finish("warmswap: what was measured", &results.sources))
}

/// The page of what changed between two results.
///
/// # Errors
/// [`ResultError::Unlike`] and [`ResultError::Draw`].
pub fn difference_page(before: &Results, after: &Results) -> Result<String, ResultError> {
    let found = differences(before, after)?;
    let strips = strips(before, after)?;
    let mut page = Page::default();
    let mut number = 0;
    page.section("changed", "What changed", |html| {
        for line in conditions(before, after) {
            html.paragraph(&line);
        }
        html.paragraph(
            "Each arm is compared with itself, application by application, and all applications weigh the same. \
             Intervals are bootstrapped; a permutation test says how often chance alone differs as much.",
        );
        html.raw("<ul class=\"changes\">");
        for of in found.iter().filter(|of| of.app.is_none()) {
            html.element("li", &of.sentence());
        }
        html.raw("</ul>");
        let chart = Chart::of(
            "Relaunch latency before and after",
            "For each arm, one row for each result: every relaunch a dot, the middle half a box, the median a line.",
            &strips,
        )?;
        figure(html, &mut number, &chart, "Every relaunch of every application.");
        table(html, "By application", &change_grid(&found));
        Ok(())
    })?;
    let mut all = before.sources.clone();
    all.extend(after.sources.clone());
    page.section("run", "What was run", |html| {
        sources(html, &all);
        Ok(())
    })?;
    Ok(page.finish("warmswap: what changed", &all))
}

fn change_grid(found: &[Difference]) -> Grid {
    let mut grid = Grid::new([
        "arm",
        "application",
        "ratio",
        "from",
        "to",
        "by chance",
        "more than noise",
    ]);
    for of in found {
        let show = |value: Option<f64>, of: fn(f64) -> Quantity| {
            value.map_or(Quantity::Missing, of).human()
        };
        let change = of.change;
        grid.rows.push(vec![
            crate::arms::name(&of.arm),
            of.app.clone().unwrap_or_else(|| "all".to_owned()),
            show(change.map(|c| c.ratio), Quantity::Ratio),
            show(change.map(|c| c.low), Quantity::Ratio),
            show(change.map(|c| c.high), Quantity::Ratio),
            show(change.map(|c| c.chance), Quantity::Fraction),
            change
                .map_or(
                    "too few",
                    |c| if c.is_more_than_noise() { "yes" } else { "no" },
                )
                .to_owned(),
        ]);
    }
    grid
}

/// A page that is being made.
#[derive(Default)]
struct Page {
    sections: Vec<Section>,
    /// Figures so far.
    figures: u32,
}

impl Page {
    fn section(
        &mut self,
        id: &'static str,
        title: &'static str,
        fill: impl FnOnce(&mut Html) -> Result<(), ResultError>,
    ) -> Result<(), ResultError> {
        let mut body = Html::default();
        fill(&mut body)?;
        self.sections.push(Section { id, title, body });
        Ok(())
    }

    fn finish(self, title: &str, sources: &[Source]) -> String {
        let mut html = Html::default();
        html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.raw("<meta http-equiv=\"Content-Security-Policy\"")
            .attribute("content", POLICY)
            .raw(">\n");
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
        html.element("title", title);
        html.raw("<style>\n")
            .raw(&style::sheet())
            .raw("</style>\n</head>\n<body>\n");
        html.raw("<a class=\"skip\" href=\"#main\">To the content</a>\n<header>\n");
        html.element("h1", title);
        html.raw("<p class=\"machine\">")
            .text(&machine(sources))
            .raw("</p>\n<nav aria-label=\"Sections\"><ul>");
        for section in &self.sections {
            html.raw("<li><a")
                .attribute("href", &format!("#{}", section.id))
                .raw(">");
            html.text(section.title).raw("</a></li>");
        }
        html.raw("</ul></nav>\n</header>\n<main id=\"main\">\n");
        for section in self.sections {
            html.raw("<section").attribute("id", section.id);
            html.attribute("aria-labelledby", &format!("{}-title", section.id))
                .raw(">\n<h2");
            html.attribute("id", &format!("{}-title", section.id))
                .raw(">");
            html.text(section.title)
                .raw("</h2>\n")
                .raw(&section.body.into_string())
                .raw("</section>\n");
        }
        html.raw("</main>\n</body>\n</html>\n");
        html.into_string()
    }
}

/// The machines, as one line.
fn machine(sources: &[Source]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for source in sources {
        let of = &source.machine;
        let memory = Quantity::Bytes(of.memory_bytes).human();
        let line = format!(
            "{}, {} cores, {memory}, Linux {}",
            of.cpu, of.cores, of.kernel
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let mut versions: Vec<&str> = sources
        .iter()
        .map(|source| source.warmswap.as_str())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    if lines.is_empty() {
        return "No results.".to_owned();
    }
    format!("{} · warmswap {}", lines.join(" · "), versions.join(", "))
}

fn cards(html: &mut Html, facts: &[Fact]) {
    html.raw("<ul class=\"facts\">\n");
    for fact in facts {
        html.raw("<li><strong>")
            .text(&fact.number)
            .raw("</strong> <span>")
            .text(&fact.what);
        html.raw("</span><small>")
            .text(&fact.how)
            .raw("</small></li>\n");
    }
    html.raw("</ul>\n");
}

/// A chart with its caption, and the table of its numbers.
fn figure(html: &mut Html, number: &mut u32, chart: &Chart, caption: &str) {
    *number += 1;
    html.raw("<figure>\n");
    drawings(html, chart, &format!("f{number}"));
    html.raw("<figcaption><b>Figure ")
        .text(&number.to_string())
        .raw(".</b> ");
    html.text(&chart.title)
        .raw(". ")
        .text(caption)
        .raw("</figcaption>\n");
    table(html, "The numbers", &chart.grid);
    html.raw("</figure>\n");
}

/// A chart at both widths; the style sheet shows one of them.
fn drawings(html: &mut Html, chart: &Chart, name: &str) {
    for (drawing, class) in chart.drawings.iter().zip(["wide", "narrow"]) {
        let id = format!("{name}-{class}");
        let (width, height) = (drawing.width.to_string(), drawing.height.to_string());
        html.raw("<svg role=\"img\"").attribute("class", class);
        html.attribute("viewBox", &format!("0 0 {width} {height}"));
        html.attribute("width", &width).attribute("height", &height);
        html.attribute("aria-labelledby", &format!("{id}-t {id}-d"))
            .raw("><title");
        html.attribute("id", &format!("{id}-t"))
            .raw(">")
            .text(&chart.title)
            .raw("</title><desc");
        html.attribute("id", &format!("{id}-d"))
            .raw(">")
            .text(&chart.description)
            .raw("</desc>\n");
        html.raw(&drawing.body).raw("</svg>\n");
    }
}

/// A table that opens when it is asked for.
fn table(html: &mut Html, summary: &str, grid: &Grid) {
    html.raw("<details><summary>")
        .text(summary)
        .raw("</summary>\n");
    open_table(html, summary, grid);
    html.raw("</details>\n");
}

fn open_table(html: &mut Html, name: &str, grid: &Grid) {
    html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\"")
        .attribute("aria-label", name)
        .raw("><table><thead><tr>");
    for head in &grid.head {
        html.raw("<th scope=\"col\">").text(head).raw("</th>");
    }
    html.raw("</tr></thead><tbody>\n");
    for row in &grid.rows {
        html.raw("<tr>");
        for cell in row {
            html.raw(if is_number(cell) {
                "<td class=\"n\">"
            } else {
                "<td>"
            })
            .text(cell)
            .raw("</td>");
        }
        html.raw("</tr>\n");
    }
    html.raw("</tbody></table></div>\n");
}

fn is_number(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit() || c == '–' || c == '-')
}

fn sources(html: &mut Html, sources: &[Source]) {
    let mut grid = Grid::new(["command", "result", "schema"]);
    for source in sources {
        let name = source.path.file_name().map_or_else(
            || source.path.display().to_string(),
            |name| Path::new(name).display().to_string(),
        );
        grid.rows
            .push(vec![source.line(), name, source.schema.clone()]);
    }
    open_table(html, "What was run", &grid);
}

/// The commands whose results are not here.
fn not_run(html: &mut Html, results: &Results) {
    let missing = figures::missing(results);
    if missing.is_empty() {
        return;
    }
    html.paragraph("Charts that are not here, since their commands were not run:");
    html.raw("<ul class=\"missing\">");
    for (what, command) in missing {
        html.raw("<li>")
            .text(what)
            .raw(": <code>")
            .text(command)
            .raw("</code></li>\n");
    }
    html.raw("</ul>\n");
}
