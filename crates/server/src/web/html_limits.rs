//! HTML that Markdown leaves, made well-formed before it is sanitised: known tags, each closed, nested to a limit.
//!
//! The sanitiser parses as browsers do. For tags that are never closed that takes time by depth times length: 240 kB of
//! nested quotes occupied a core for a minute. Here every start tag of the output has its end tag, no more than
//! [`DEPTH_MAX`] are open at once, and text of tables stands in cells, so the parse is linear. This is no sanitiser:
//! attributes pass as they are.

use std::collections::HashMap;

/// HTML within limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Markup {
    pub(super) html: String,
    /// Whether a limit on bytes or elements ended it early.
    pub(super) is_cut: bool,
}

/// Makes HTML well-formed. Takes time by its length alone.
pub(super) fn well_formed(html: &str) -> Markup {
    let mut writer = Writer::default();
    let mut rest = html;
    while !rest.is_empty() && !writer.is_full() {
        let text_len = rest.find('<').unwrap_or(rest.len());
        let (text, markup) = rest.split_at(text_len);
        writer.push_text(text);
        rest = writer.push_markup(markup);
    }
    writer.close_to(0);
    Markup { is_cut: writer.is_cut || !rest.is_empty(), html: writer.out }
}

#[derive(Default)]
struct Writer {
    out: String,
    elements: usize,
    is_cut: bool,
    /// Open elements, the outermost first.
    open: Vec<&'static str>,
    /// How many of each are open: most start tags close nothing, and need not look for what they would.
    counts: HashMap<&'static str, usize>,
    /// Start tags that were left out for their depth: their end tags are left out too.
    too_deep: HashMap<&'static str, usize>,
}

impl Writer {
    fn is_full(&self) -> bool {
        self.out.len() >= BYTES_MAX || self.elements >= ELEMENTS_MAX
    }

    fn push_text(&mut self, text: &str) {
        if !text.bytes().all(|byte| byte.is_ascii_whitespace()) {
            self.open_cell();
        }
        // One long text must not pass the limit by its whole length.
        let room = text.floor_char_boundary(BYTES_MAX.saturating_sub(self.out.len()));
        self.out += text.get(..room).unwrap_or_default();
        self.is_cut |= room < text.len();
    }

    /// Takes what begins with `<`, or nothing at all; returns what follows it.
    fn push_markup<'a>(&mut self, markup: &'a str) -> &'a str {
        let Some(inside) = markup.strip_prefix('<') else { return markup };
        if inside.starts_with("!--") {
            return after(inside.get(1..).unwrap_or_default(), "-->");
        }
        if inside.starts_with(['!', '?']) {
            return after(inside, ">");
        }
        let is_end = inside.starts_with('/');
        let named = inside.strip_prefix('/').unwrap_or(inside);
        if !named.starts_with(|c: char| c.is_ascii_alphabetic()) {
            if is_end {
                return after(named, ">");
            }
            self.push_text("&lt;");
            return inside;
        }
        let name_len = named.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
        let (name, attributes) = named.split_at(name_len.unwrap_or(named.len()));
        // A tag without an end is nothing to a browser.
        let Some((attributes, rest)) = Attributes::parse(attributes) else { return "" };
        let name = name.to_ascii_lowercase();
        if !is_end && matches!(name.as_str(), "script" | "style") {
            return after_raw_text(rest, &name);
        }
        if let Some(known) = TAGS.iter().find(|known| **known == name) {
            match is_end {
                true => self.end(known),
                false => self.start(known, &attributes),
            }
        }
        rest
    }

    fn start(&mut self, name: &'static str, attributes: &Attributes<'_>) {
        match name {
            "tr" | "thead" | "tbody" | "caption" | "colgroup" | "col" | "td" | "th" => {
                let inner = match name {
                    "td" | "th" => &["table", "thead", "tbody", "tr"][..],
                    "tr" => &["table", "thead", "tbody"],
                    "col" => &["table", "colgroup"],
                    _ => &["table"],
                };
                let Some(table) = self.open.iter().rposition(|open| *open == "table") else { return };
                let parent = self.open.iter().skip(table).rposition(|open| inner.contains(open));
                self.close_to(table + parent.unwrap_or(0) + 1);
            }
            _ => {
                self.open_cell();
                match name {
                    "li" => self.close_within(&["li"], &["ul", "ol"]),
                    "dt" | "dd" => self.close_within(&["dt", "dd"], &["dl"]),
                    "a" => self.close_within(&["a"], &[]),
                    _ => {}
                }
                if BLOCKS.contains(&name) {
                    self.close_within(&["p"], &[]);
                }
            }
        }
        if VOID.contains(&name) {
            return self.write_start(name, attributes);
        }
        if self.open.len() >= DEPTH_MAX {
            *self.too_deep.entry(name).or_default() += 1;
            self.elements += 1;
            return;
        }
        self.write_start(name, attributes);
        self.push_open(name);
    }

    fn push_open(&mut self, name: &'static str) {
        self.open.push(name);
        *self.counts.entry(name).or_default() += 1;
    }

    fn end(&mut self, name: &'static str) {
        if let Some(count) = self.too_deep.get_mut(name).filter(|count| **count > 0) {
            *count -= 1;
            return;
        }
        let is_of_table =
            matches!(name, "table" | "tr" | "thead" | "tbody" | "caption" | "colgroup" | "td" | "th");
        let boundaries = if is_of_table { &["table"][..] } else { CELLS };
        // Looked for from within: an end tag in a cell does not close what is around the table.
        for (at, open) in self.open.iter().enumerate().rev() {
            if *open == name {
                return self.close_to(at);
            }
            if boundaries.contains(open) {
                return;
            }
        }
    }

    /// Puts what follows into a cell, where it would stand in a table outside of one: browsers move it before the table,
    /// for each piece anew.
    fn open_cell(&mut self) {
        loop {
            match self.open.last().copied() {
                Some("colgroup") => self.close_to(self.open.len() - 1),
                Some("tr") => self.write_implied("td"),
                Some("table" | "thead" | "tbody") => self.write_implied("tr"),
                _ => return,
            }
        }
    }

    fn write_implied(&mut self, name: &'static str) {
        self.write_start(name, &Attributes::default());
        self.push_open(name);
    }

    /// Closes the innermost of these elements, if it is not around a cell or one of `boundaries`.
    fn close_within(&mut self, names: &[&str], boundaries: &[&str]) {
        if names.iter().all(|name| self.counts.get(name).is_none_or(|count| *count == 0)) {
            return;
        }
        for (at, open) in self.open.iter().enumerate().rev() {
            if names.contains(open) {
                return self.close_to(at);
            }
            if boundaries.contains(open) || CELLS.contains(open) {
                return;
            }
        }
    }

    /// Closes elements until no more than `len` are open.
    fn close_to(&mut self, len: usize) {
        while self.open.len() > len {
            if let Some(name) = self.open.pop() {
                *self.counts.entry(name).or_default() -= 1;
                self.out += "</";
                self.out += name;
                self.out.push('>');
            }
        }
    }

    fn write_start(&mut self, name: &str, attributes: &Attributes<'_>) {
        self.elements += 1;
        self.out.push('<');
        self.out += name;
        for (name, value) in &attributes.0 {
            self.out.push(' ');
            self.out += name;
            self.out += "=\"";
            for c in value.chars() {
                match c {
                    '"' => self.out += "&quot;",
                    '<' => self.out += "&lt;",
                    '>' => self.out += "&gt;",
                    c => self.out.push(c),
                }
            }
            self.out.push('"');
        }
        self.out.push('>');
    }
}

/// The attributes of a tag: names and values as they are written.
#[derive(Default)]
struct Attributes<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Attributes<'a> {
    /// Reads what is between a tag's name and its end; returns it with what follows the tag. `None` without an end.
    fn parse(mut text: &'a str) -> Option<(Self, &'a str)> {
        let mut attributes = Self::default();
        let is_space = |c: char| c.is_ascii_whitespace();
        loop {
            text = text.trim_start_matches(|c: char| is_space(c) || c == '/');
            if let Some(rest) = text.strip_prefix('>') {
                return Some((attributes, rest));
            }
            let first = text.chars().next()?.len_utf8();
            let len = text.get(first..)?.find(|c: char| is_space(c) || matches!(c, '/' | '>' | '='))?;
            let (name, rest) = text.split_at_checked(first + len)?;
            let (value, rest) = match rest.trim_start_matches(is_space).strip_prefix('=') {
                None => ("", rest),
                Some(value) => {
                    let value = value.trim_start_matches(is_space);
                    match value.chars().next()? {
                        quote @ ('"' | '\'') => value.get(1..)?.split_once(quote)?,
                        _ => value.split_at_checked(value.find(|c: char| is_space(c) || c == '>')?)?,
                    }
                }
            };
            text = rest;
            attributes.push(name, value);
        }
    }

    fn push(&mut self, name: &'a str, value: &'a str) {
        let is_plain =
            name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_plain && self.0.len() < ATTRIBUTES_MAX && value.len() <= ATTRIBUTE_BYTES_MAX {
            self.0.push((name, value));
        }
    }
}

/// What follows the first `end`; nothing if there is none.
fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// What follows the end tag of a script or style; nothing if there is none.
fn after_raw_text<'a>(mut text: &'a str, name: &str) -> &'a str {
    while let Some((_, rest)) = text.split_once("</") {
        if rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return after(rest, ">");
        }
        text = rest;
    }
    ""
}

/// Elements in elements.
const DEPTH_MAX: usize = 64;
/// An element takes some hundred bytes while it is sanitised.
const ELEMENTS_MAX: usize = 50_000;
const BYTES_MAX: usize = 1 << 20;
const ATTRIBUTES_MAX: usize = 16;
const ATTRIBUTE_BYTES_MAX: usize = 8 * 1024;

/// Tags that stay; of others the content does.
const TAGS: &[&str] = &[
    "a",
    "abbr",
    "acronym",
    "article",
    "aside",
    "b",
    "bdi",
    "bdo",
    "blockquote",
    "br",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "colgroup",
    "data",
    "dd",
    "del",
    "details",
    "dfn",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "mark",
    "nav",
    "ol",
    "p",
    "pre",
    "q",
    "rp",
    "rt",
    "rtc",
    "ruby",
    "s",
    "samp",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "time",
    "tr",
    "tt",
    "u",
    "ul",
    "var",
    "wbr",
];
const VOID: &[&str] = &["br", "col", "hr", "img", "wbr"];
/// Start tags that end a paragraph.
const BLOCKS: &[&str] = &[
    "article",
    "aside",
    "blockquote",
    "center",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "li",
    "nav",
    "ol",
    "p",
    "pre",
    "summary",
    "table",
    "ul",
];
/// What is in them has nothing to do with what is around the table.
const CELLS: &[&str] = &["td", "th", "caption", "table"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn html(text: &str) -> String {
        well_formed(text).html
    }

    #[test]
    fn every_element_is_closed_where_a_browser_would_close_it() {
        for (text, expected) in [
            ("<p>a<p>b", "<p>a</p><p>b</p>"),
            ("<ul><li>a<li>b<ul><li>c</ul></ul>", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"),
            ("<b><i>x</b>y</i>", "<b><i>x</i></b>y"),
            ("</div>a</b>", "a"),
            ("<a href=x>a<a href='y'>b", "<a href=\"x\">a</a><a href=\"y\">b</a>"),
            (
                "<table><tr><td>a<td>b<tr><td>c</table>d",
                "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>d",
            ),
            (
                "<table>a<b>b</b><tr>c</table>",
                "<table><tr><td>a<b>b</b></td></tr><tr><td>c</td></tr></table>",
            ),
            ("<div><table><tr><td></div>x</table>", "<div><table><tr><td>x</td></tr></table></div>"),
            ("<td>a</td><tr>b", "ab"),
            ("<br/><hr><img src=\"a>b\" alt='c\"d'>", "<br><hr><img src=\"a&gt;b\" alt=\"c&quot;d\">"),
            ("a < b <3 <!-- <b> --> <!-->c<?x?> </ >d", "a &lt; b &lt;3  c d"),
            ("<SCRIPT>alert('</b>')</Script >a<style>b</style>c<script>d", "ac"),
            ("<svg><path d=x></svg><form><p>a</p></form>", "<p>a</p>"),
            ("<b", ""),
            ("<b title=\"x", ""),
            (
                "<details><summary>s</summary>\n<p>a</p>\n</details>",
                "<details><summary>s</summary>\n<p>a</p>\n</details>",
            ),
        ] {
            assert_eq!(html(text), expected, "{text}");
        }
    }

    #[test]
    fn depth_attributes_elements_and_bytes_have_limits() {
        let deep = html(&"<div>".repeat(1000));
        assert_eq!((deep.matches("<div>").count(), deep.matches("</div>").count()), (DEPTH_MAX, DEPTH_MAX));
        let closed = format!("{}a{}b", "<div>".repeat(1000), "</div>".repeat(1000));
        assert!(html(&closed).ends_with("</div>b"));
        let wide = format!("<b {}>", (0..10_000).map(|n| format!("a{n}=1 ")).collect::<String>());
        assert_eq!(html(&wide).matches('=').count(), ATTRIBUTES_MAX);
        let many = well_formed(&"<br>".repeat(ELEMENTS_MAX + 10));
        assert!(many.is_cut && many.html.len() == 4 * ELEMENTS_MAX);
        let long = well_formed(&"ä".repeat(BYTES_MAX));
        assert!(long.is_cut && long.html.len() == BYTES_MAX);
        assert!(!well_formed("a<b>c</b>").is_cut);
    }

    proptest! {
        /// Start and end tags match, whatever comes.
        #[test]
        fn output_is_balanced(parts in prop::collection::vec(prop::sample::select(vec![
            "<div>", "</div>", "<p>", "</p>", "<b>", "</b>", "<table>", "</table>", "<tr>", "</tr>", "<td>", "</td>",
            "<li>", "<ul>", "</ul>", "text", " ", "<", ">", "\"", "<a href=\"", "'>", "<!--", "-->", "<script>",
            "</script>", "<caption>", "<colgroup>", "<col>", "<thead>",
        ]), 0..60)) {
            let out = html(&parts.concat());
            let mut open = Vec::new();
            for part in out.split('<').skip(1) {
                let name = part.split(['>', ' ']).next().unwrap();
                match name.strip_prefix('/') {
                    Some(name) => prop_assert_eq!(open.pop(), Some(name.to_owned())),
                    None if VOID.contains(&name) => {}
                    None => open.push(name.to_owned()),
                }
                prop_assert!(open.len() <= DEPTH_MAX + 2);
            }
            prop_assert!(open.is_empty());
        }
    }
}
