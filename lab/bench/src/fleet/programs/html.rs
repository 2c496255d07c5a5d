//! The text of an HTML page: what a person reads of it.

/// Elements whose content is not shown as text.
const HIDDEN: [&str; 3] = ["script", "style", "head"];

/// Elements that begin a new line.
const BLOCKS: [&str; 14] = [
    "p", "br", "div", "li", "tr", "h1", "h2", "h3", "h4", "pre", "dt", "dd", "table", "section",
];

/// Leaves out tags and what is hidden, and resolves the common entities. Damaged pages give what can be read of them.
pub fn text_of(page: &str) -> String {
    let mut text = String::with_capacity(page.len() / 2);
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        push_text(&mut text, &rest[..at]);
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let Some(end) = rest.find('>') else { break };
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/');
        let name_end = name.find(|c: char| !c.is_ascii_alphanumeric());
        let name = name[..name_end.unwrap_or(name.len())].to_ascii_lowercase();
        if HIDDEN.contains(&name.as_str()) && !tag.starts_with('/') {
            rest = behind_end_tag(rest, &name);
        } else if BLOCKS.contains(&name.as_str()) && !text.ends_with("\n\n") {
            text.push('\n');
        }
    }
    push_text(&mut text, rest);
    text
}

/// What follows the end tag of an element.
fn behind_end_tag<'a>(rest: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(at) = rest[from..].find("</") {
        let tag = from + at + 2;
        let found = rest.as_bytes().get(tag..tag + name.len());
        if found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes())) {
            return &rest[tag + name.len()..];
        }
        from = tag;
    }
    ""
}

fn push_text(text: &mut String, piece: &str) {
    const ENTITIES: [(&str, &str); 6] = [
        ("lt;", "<"),
        ("gt;", ">"),
        ("amp;", "&"),
        ("quot;", "\""),
        ("nbsp;", " "),
        ("#39;", "'"),
    ];
    let mut rest = piece;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match ENTITIES.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, character)) => {
                text.push_str(character);
                rest = &rest[name.len()..];
            }
            None => text.push('&'),
        }
    }
    text.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn a_page_gives_its_text() {
        let page = "<HEAD><title>no</title></head><body class=x>One &lt;two&gt; &amp; three\
            <script>no()</script><!-- <p>no --> four<p>five &copy; six</body>";
        assert_eq!(text_of(page), ">One <two> & three> four\nfive &copy; six");
    }

    #[test]
    fn damaged_pages_end() {
        for page in [
            "<",
            "<script",
            "<script>x</scrip",
            "<!--",
            "a<b",
            "&",
            "<style>",
        ] {
            text_of(page);
        }
    }
}
