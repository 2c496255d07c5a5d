//! Lines, dots and words in pixels, by `plotters`; colours by name.

use plotters::coord::Shift;
use plotters::prelude::{
    Circle, Color, DrawingArea, IntoDrawingArea, IntoFont, PathElement, RGBColor, Rectangle,
    SVGBackend, ShapeStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Paint;
use crate::error::ResultError;

/// A colour by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Words.
    Text,
    /// Words and lines of less weight.
    Muted,
    /// Lines of a grid.
    Grid,
    /// What the chart lies on.
    Surface,
    /// One of the colours that tell series apart.
    Series(usize),
}

/// A colour of the style sheet: its name there, how it looks in light, how it looks in dark.
pub(crate) struct InkLook {
    pub name: &'static str,
    pub light: &'static str,
    pub dark: &'static str,
}

const fn look(name: &'static str, light: &'static str, dark: &'static str) -> InkLook {
    InkLook { name, light, dark }
}

/// All colours. Series are those of Okabe and Ito, which people with any colour vision tell apart, darker or lighter
/// where they have too little contrast to what they lie on.
pub(crate) const INKS: [InkLook; 12] = [
    look("text", "#1B1D21", "#ECEDEE"),
    look("muted", "#5A6069", "#A6ADB7"),
    look("grid", "#DDE0E4", "#343A42"),
    look("surface", "#FFFFFE", "#15181C"),
    look("blue", "#0072B2", "#56A8E8"),
    look("vermilion", "#D55E00", "#F0813A"),
    look("green", "#00856A", "#2FBF95"),
    look("purple", "#B5548C", "#DC8FBD"),
    look("sky", "#3C97C9", "#7CC4EE"),
    look("orange", "#C07F00", "#E9B23F"),
    look("ink", "#4A4F57", "#B9BFC8"),
    look("olive", "#8C8400", "#D6CC4A"),
];

impl Ink {
    const fn index(self) -> usize {
        match self {
            Self::Text => 0,
            Self::Muted => 1,
            Self::Grid => 2,
            Self::Surface => 3,
            Self::Series(at) => 4 + at % (INKS.len() - 4),
        }
    }

    fn rgb(self) -> RGBColor {
        let hex = INKS[self.index()].light;
        let part = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap_or_default();
        RGBColor(part(1), part(3), part(5))
    }
}

/// Which point of a text is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Left,
    Middle,
    Right,
}

/// What was drawn: the inside of an SVG element, with the names of colours.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drawing {
    pub width: u32,
    pub height: u32,
    pub body: String,
}

/// Where to draw.
pub(crate) struct Canvas<'a, 'b> {
    area: &'a DrawingArea<SVGBackend<'b>, Shift>,
    pub width: i32,
    pub height: i32,
}

/// Draws at a width.
pub(crate) fn draw(width: u32, what: &dyn Paint) -> Result<Drawing, ResultError> {
    let height = what.height(width as i32).max(1) as u32;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        let canvas = Canvas {
            area: &area,
            width: width as i32,
            height: height as i32,
        };
        what.paint(&canvas)?;
        area.present().map_err(failed)?;
    }
    // The element itself is the page's, with its role and its title.
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let body = body.trim().trim_end_matches("</svg>");
    let mut body = body.to_owned();
    for ink in &INKS {
        body = body.replace(
            &format!("\"{}\"", ink.light),
            &format!("\"var(--{})\"", ink.name),
        );
    }
    Ok(Drawing {
        width,
        height,
        body,
    })
}

fn failed(error: impl std::fmt::Display) -> ResultError {
    ResultError::Draw(error.to_string())
}

impl Canvas<'_, '_> {
    /// A filled rectangle.
    pub(crate) fn rect(
        &self,
        [x0, y0, x1, y1]: [i32; 4],
        ink: Ink,
        alpha: f64,
    ) -> Result<(), ResultError> {
        let style = ink.rgb().mix(alpha).filled();
        let shape = Rectangle::new([(x0, y0), (x1, y1)], style);
        self.area.draw(&shape).map_err(failed)
    }

    /// A line through points.
    pub(crate) fn line(
        &self,
        points: &[(i32, i32)],
        ink: Ink,
        thickness: u32,
    ) -> Result<(), ResultError> {
        let style: ShapeStyle = ink.rgb().stroke_width(thickness);
        let shape = PathElement::new(points.to_vec(), style);
        self.area.draw(&shape).map_err(failed)
    }

    /// A filled circle.
    pub(crate) fn dot(
        &self,
        at: (i32, i32),
        radius: i32,
        ink: Ink,
        alpha: f64,
    ) -> Result<(), ResultError> {
        let shape = Circle::new(at, radius, ink.rgb().mix(alpha).filled());
        self.area.draw(&shape).map_err(failed)
    }

    /// An empty circle.
    pub(crate) fn ring(&self, at: (i32, i32), radius: i32, ink: Ink) -> Result<(), ResultError> {
        let shape = Circle::new(at, radius, ink.rgb().stroke_width(2));
        self.area.draw(&shape).map_err(failed)
    }

    /// Words, centred on their height.
    pub(crate) fn text(
        &self,
        at: (i32, i32),
        text: &str,
        (size, anchor): (i32, Anchor),
        ink: Ink,
    ) -> Result<(), ResultError> {
        self.words(at, text, (size, anchor), (ink, false))
    }

    /// Bold words.
    pub(crate) fn heading(&self, at: (i32, i32), text: &str, size: i32) -> Result<(), ResultError> {
        self.words(at, text, (size, Anchor::Left), (Ink::Text, true))
    }

    fn words(
        &self,
        at: (i32, i32),
        text: &str,
        (size, anchor): (i32, Anchor),
        (ink, is_bold): (Ink, bool),
    ) -> Result<(), ResultError> {
        let anchor = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        // The backend divides by this.
        let font = ("sans-serif", f64::from(size) * 1.24).into_font();
        let font = if is_bold {
            font.style(plotters::style::FontStyle::Bold)
        } else {
            font
        };
        let style = font.color(&ink.rgb()).pos(Pos::new(anchor, VPos::Center));
        self.area.draw_text(text, &style, at).map_err(failed)
    }

    /// Names of series, from the left, in as many lines as they take. The return value is the height of them.
    pub(crate) fn legend(&self, top: i32, names: &[(&str, Ink)]) -> Result<i32, ResultError> {
        self.legend_with_rings(top, names, &|_| false)
    }

    /// The same for marks, some of them rings.
    pub(crate) fn legend_with_rings(
        &self,
        top: i32,
        names: &[(&str, Ink)],
        is_ring: &dyn Fn(usize) -> bool,
    ) -> Result<i32, ResultError> {
        for &(x, line, at) in &legend_places(self.width, names) {
            let (name, ink) = names[at];
            let y = top + 10 + line * LEGEND_LINE;
            if is_ring(at) {
                self.ring((x + 5, y), 5, ink)?;
            } else {
                self.rect([x, y - 5, x + 10, y + 5], ink, 1.0)?;
            }
            self.text((x + 15, y), name, (LEGEND_SIZE, Anchor::Left), Ink::Text)?;
        }
        Ok(legend_height(self.width, names))
    }
}

const LEGEND_SIZE: i32 = 12;
const LEGEND_LINE: i32 = 20;

/// For each name its place from the left, its line, and which it is.
fn legend_places(width: i32, names: &[(&str, Ink)]) -> Vec<(i32, i32, usize)> {
    let (mut x, mut line) = (0, 0);
    let mut places = Vec::new();
    for (at, (name, _)) in names.iter().enumerate() {
        let takes = 15 + super::text_width(name, LEGEND_SIZE) + 16;
        if x > 0 && x + takes > width {
            x = 0;
            line += 1;
        }
        places.push((x, line, at));
        x += takes;
    }
    places
}

/// Height of a legend at that width.
pub(crate) fn legend_height(width: i32, names: &[(&str, Ink)]) -> i32 {
    let lines = legend_places(width, names)
        .last()
        .map_or(0, |place| place.1 + 1);
    lines * LEGEND_LINE + if lines > 0 { 6 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Grid;

    struct Words(&'static str);

    impl Paint for Words {
        fn height(&self, _: i32) -> i32 {
            20
        }

        fn paint(&self, canvas: &Canvas<'_, '_>) -> Result<(), ResultError> {
            canvas.text((0, 10), self.0, (12, Anchor::Left), Ink::Muted)?;
            canvas.rect([0, 0, 9, 9], Ink::Series(0), 0.5)
        }

        fn grid(&self) -> Grid {
            Grid::default()
        }
    }

    #[test]
    fn words_are_escaped_and_colours_are_names() {
        let drawing = draw(100, &Words("</text><script>alert(1)</script>&\"'")).unwrap();
        assert!(!drawing.body.contains("<script"), "{}", drawing.body);
        assert!(drawing.body.contains("&lt;script&gt;"), "{}", drawing.body);
        assert!(drawing.body.contains("var(--muted)"));
        assert!(drawing.body.contains("var(--blue)"));
        assert!(
            !drawing.body.contains('#'),
            "every colour has a name: {}",
            drawing.body
        );
        assert!(!drawing.body.contains("svg"), "{}", drawing.body);
    }

    #[test]
    fn every_colour_is_one() {
        for ink in &INKS {
            assert_eq!((ink.light.len(), ink.dark.len()), (7, 7), "{}", ink.name);
            let same = |other: &&InkLook| other.light == ink.light || other.name == ink.name;
            assert_eq!(INKS.iter().filter(same).count(), 1, "{}", ink.name);
        }
    }

    /// Contrast as WCAG 2 defines it.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |hex: &str| {
            let part = |at: usize| {
                let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.03928 {
                    value / 12.92
                } else {
                    ((value + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn what_must_be_seen_can_be_seen() {
        for ink in INKS
            .iter()
            .filter(|ink| ink.name != "grid" && ink.name != "surface")
        {
            let least = if matches!(ink.name, "text" | "muted") {
                4.5
            } else {
                3.0
            };
            assert!(
                contrast(ink.light, INKS[3].light) >= least,
                "{} in light",
                ink.name
            );
            assert!(
                contrast(ink.dark, INKS[3].dark) >= least,
                "{} in dark",
                ink.name
            );
        }
    }
}
