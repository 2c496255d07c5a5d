//! Text into HTML: every string of a result goes through [`Html::text`] or [`Html::attribute`].

use std::fmt::Write;

/// A piece of HTML.
#[derive(Clone, Debug, Default)]
pub(crate) struct Html(String);

impl Html {
    /// Markup of this program, as it is.
    pub(crate) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text, escaped.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        escape(text, &mut self.0);
        self
    }

    /// A name and a value within a tag, escaped.
    pub(crate) fn attribute(&mut self, name: &str, value: &str) -> &mut Self {
        // Writing to a string does not fail.
        let _ = write!(self.0, " {name}=\"");
        escape(value, &mut self.0);
        self.0.push('"');
        self
    }

    /// An element without attributes that holds text.
    pub(crate) fn element(&mut self, tag: &str, text: &str) -> &mut Self {
        let _ = write!(self.0, "<{tag}>");
        escape(text, &mut self.0);
        let _ = writeln!(self.0, "</{tag}>");
        self
    }

    /// A paragraph.
    pub(crate) fn paragraph(&mut self, text: &str) -> &mut Self {
        self.element("p", text)
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// Escapes for text and for values of attributes in double quotes. Characters that a page cannot hold become U+FFFD.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let mut html = Html::default();
        html.element("td", "<script>alert('x')</script>");
        html.raw("<a")
            .attribute("title", "\" onclick=\"alert(1)")
            .raw(">");
        html.text("a & b\u{0}");
        let html = html.into_string();
        assert_eq!(
            html,
            "<td>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;</td>\n\
             <a title=\"&quot; onclick=&quot;alert(1)\">a &amp; b\u{fffd}"
        );
    }
}
