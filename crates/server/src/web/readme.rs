//! READMEs: Markdown of strangers as HTML that does nothing but show.

use std::borrow::Cow;
use std::collections::HashSet;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::repo::Place;
use super::{PageError, Visit, content, repo};

/// A README, rendered.
pub(super) struct Readme {
    /// Sanitised HTML.
    pub(super) html: String,
    /// The metadata some begin with, as it is.
    pub(super) front: Option<String>,
    pub(super) is_cut: bool,
}

/// The README of a place's folder.
pub(super) async fn of_folder(visit: &Visit, place: &Place) -> Result<Option<Readme>, PageError> {
    let prefix = if place.path.is_empty() { String::new() } else { format!("{}/", place.path) };
    let path = format!("{prefix}README.md");
    let found = visit.store.find_path(place.repo.id, place.commit, &path).await?;
    let Some(item) = found.filter(|item| item.mode.is_blob()) else { return Ok(None) };
    let bytes = content::read(visit, &place.repo, &item, 0..item.bytes.min(README_BYTES_MAX)).await?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(render(&text, place, &prefix, item.bytes > README_BYTES_MAX)))
}

/// Markdown in a file of `prefix`, a folder or nothing.
pub(super) fn render(text: &str, place: &Place, prefix: &str, is_cut: bool) -> Readme {
    let (front, body) = split_front(text);
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(body, options).map(lower);
    let mut unsafe_html = String::new();
    html::push_html(&mut unsafe_html, events);
    let html = sanitised(&unsafe_html, place, prefix);
    Readme { html, front: front.map(str::to_owned), is_cut }
}

/// The page has a heading of its own: those of the text stand below it.
fn lower(event: Event<'_>) -> Event<'_> {
    let below = |level| match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        HeadingLevel::H3 => HeadingLevel::H4,
        HeadingLevel::H4 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    };
    match event {
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: below(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(below(level))),
        event => event,
    }
}

/// Metadata between lines of three dashes, and the rest.
fn split_front(text: &str) -> (Option<&str>, &str) {
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return (None, text);
    };
    let end = rest.find("\n---\n").map(|at| (at, at + 5));
    let end = end.or_else(|| rest.find("\n---\r\n").map(|at| (at, at + 6)));
    let end = end.or_else(|| rest.ends_with("\n---").then(|| (rest.len() - 4, rest.len())));
    match end {
        Some((front, body)) => (rest.get(..front), rest.get(body..).unwrap_or_default()),
        None => (None, text),
    }
}

/// What is left of HTML when everything is gone that acts, loads from elsewhere or looks like a part of the page.
fn sanitised(html: &str, place: &Place, prefix: &str) -> String {
    let (name, revision, prefix) = (place.name().clone(), place.revision.clone(), prefix.to_owned());
    let page = move |page: &str, path: &str| repo::url(&name, page, &revision, path);
    let rewrite = move |element: &str, attribute: &str, value: &str| -> Option<String> {
        match (element, attribute) {
            // Only pictures of this repository are loaded: others would tell strangers who reads.
            ("img", "src") => within(&prefix, value).map(|path| page("resolve", &path)),
            ("a", "href") if value.starts_with('#') => None,
            ("a", "href") => match within(&prefix, value) {
                Some(path) => Some(page("blob", &path)),
                None => Some(value.to_owned()),
            },
            (_, "src" | "href" | "cite") => None,
            _ => Some(value.to_owned()),
        }
    };
    let clean = ammonia::Builder::default()
        .rm_tags(["map", "area"])
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .link_rel(Some("noopener noreferrer nofollow"))
        .attribute_filter(move |element, attribute, value| rewrite(element, attribute, value).map(Cow::Owned))
        .clean(html)
        .to_string();
    described(&clean)
}

/// Gives pictures without a description an empty one: whoever hears the page need not hear their address.
fn described(html: &str) -> String {
    let mut parts = html.split("<img");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let tag = part.split('>').next().unwrap_or_default();
        out += if tag.contains(" alt=\"") { "<img" } else { "<img alt=\"\"" };
        out += part;
    }
    out
}

/// The path in the repository that a relative URL in a file of `prefix` means.
fn within(prefix: &str, url: &str) -> Option<String> {
    let base = url::Url::parse("relative:///").ok()?.join("/").ok()?;
    let folder = base.join(&encoded_path(prefix)).ok()?;
    let target = folder.join(url).ok()?;
    let is_relative = target.scheme() == base.scheme() && target.host().is_none() && !url.starts_with('/');
    let path = target.path().trim_start_matches('/').to_owned();
    let decoded: Vec<u8> = url::form_urlencoded::parse(format!("p={}", path.replace('+', "%2B")).as_bytes())
        .next()
        .map(|(_, path)| path.into_owned().into_bytes())?;
    String::from_utf8(decoded).ok().filter(|path| is_relative && !path.is_empty())
}

fn encoded_path(path: &str) -> String {
    path.split('/').map(crate::http::encoded).collect::<Vec<_>>().join("/")
}

/// A README that is longer is cut.
const README_BYTES_MAX: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_apart_and_text_without_an_end_is_all_text() {
        assert_eq!(split_front("---\na: b\n---\n# x"), (Some("a: b"), "# x"));
        assert_eq!(split_front("---\r\na: b\r\n---\r\n# x"), (Some("a: b\r"), "# x"));
        assert_eq!(split_front("---\na: b\n---"), (Some("a: b"), ""));
        for whole in ["# x", "---\n# x", "", "---", "----\nx\n---\n"] {
            assert_eq!(split_front(whole), (None, whole));
        }
    }

    #[test]
    fn pictures_without_a_description_get_an_empty_one() {
        let html = r#"a <img src="x"><img alt="b" src="y"> c"#;
        assert_eq!(described(html), r#"a <img alt="" src="x"><img alt="b" src="y"> c"#);
    }

    #[test]
    fn relative_urls_stay_in_the_repository_and_others_are_none() {
        for (prefix, url, path) in [
            ("", "a.png", Some("a.png")),
            ("docs/", "a%20b.png", Some("docs/a b.png")),
            ("docs/", "../a+b.png", Some("a+b.png")),
            ("docs/", "../../../../etc/passwd", Some("etc/passwd")),
            ("", "a.png?x=1#y", Some("a.png")),
            ("", "https://example.org/a.png", None),
            ("", "//example.org/a.png", None),
            ("", "/ann/other/resolve/main/x", None),
            ("", "javascript:alert(1)", None),
            ("", "data:text/html,x", None),
            ("", "", None),
        ] {
            assert_eq!(within(prefix, url).as_deref(), path, "{url}");
        }
    }
}
