//! Cards: Markdown of users as HTML that does nothing but show.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use store::hub::Item;

use crate::http::error::ApiError;
use crate::render::{Card, CardKey, NotRendered};
use crate::web::html_limits::well_formed;
use crate::web::read_file;
use crate::web::repo::{self, RepoView};
use crate::web::text::as_text;
use crate::web::visit::Visit;

/// A card, or why it is not rendered.
pub(super) type RenderedCard = Result<Arc<Card>, NotRendered>;

/// The README of a place's folder.
pub(super) async fn of_folder(visit: &Visit, place: &RepoView) -> Result<Option<RenderedCard>, ApiError> {
    let folder = if place.path.is_empty() { String::new() } else { format!("{}/", place.path) };
    let path = format!("{folder}README.md");
    let found = visit.store.hub().find_path(place.repo.id, place.commit, &path).await?;
    let Some(item) = found.filter(|item| item.mode.is_blob()) else { return Ok(None) };
    of_file(visit, place, &item, CARD_BYTES_MAX).await
}

/// A Markdown file, of which no more than `bytes_max` are read; `None` for one that is no text.
pub(super) async fn of_file(
    visit: &Visit,
    place: &RepoView,
    item: &Item,
    bytes_max: u64,
) -> Result<Option<RenderedCard>, ApiError> {
    let key = CardKey {
        repo: place.repo.id,
        name: place.name().clone(),
        revision: place.revision.clone(),
        folder: item.path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/")),
        blob: item.oid,
        bytes: item.bytes.min(bytes_max),
    };
    let renderer = &visit.state.renderer;
    if let Some(card) = renderer.cached(&key).await {
        return Ok(Some(Ok(card)));
    }
    let is_cut = item.bytes > bytes_max;
    let bytes = read_file::read(visit, &place.repo, item, 0..key.bytes).await?;
    if as_text(&bytes, is_cut).is_none() {
        return Ok(None);
    }
    let links = Arc::new(Links::new(&key));
    let work = move || {
        let mut card = render(as_text(&bytes, is_cut).unwrap_or_default(), &links);
        card.is_cut |= is_cut;
        card
    };
    Ok(Some(renderer.card(key, work).await))
}

/// Renders Markdown. Takes time by its length alone, for the parser is linear and what it writes is made well-formed.
fn render(text: &str, links: &Arc<Links>) -> Card {
    let (front, body) = split_front(text);
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(body, options).map(lower);
    let mut raw = Limited::default();
    // A quote of one byte is written as many: the writer refuses what is beyond its limit.
    let is_whole = html::write_html_fmt(&mut raw, events).is_ok();
    let markup = well_formed(&raw.0);
    let html = sanitised(&markup.html, links);
    Card { html, front: front.map(str::to_owned), is_cut: !is_whole || markup.is_cut }
}

/// Text up to a limit.
#[derive(Default)]
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > RAW_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Where links and pictures of a card lead.
struct Links {
    key: CardKey,
    /// The repository's root, and the card's folder, as URLs to join others to.
    root: Option<url::Url>,
    folder: Option<url::Url>,
    /// Bytes of URLs that were written.
    url_bytes: AtomicUsize,
}

impl Links {
    fn new(key: &CardKey) -> Self {
        let root = url::Url::parse("relative:///").ok().and_then(|base| base.join("/").ok());
        let folder = root.as_ref().and_then(|root| root.join(&encoded_path(&key.folder)).ok());
        Self { key: key.clone(), root, folder, url_bytes: AtomicUsize::new(0) }
    }

    /// The URL of a page about a path; `None` when all of a card together are too long.
    fn page(&self, page: &str, path: &str) -> Option<String> {
        let url = repo::url(&self.key.name, page, &self.key.revision, path);
        // Each short link becomes a long one where the folder or the revision has a long name.
        let before = self.url_bytes.fetch_add(url.len(), Ordering::Relaxed);
        (before < URL_BYTES_MAX).then_some(url)
    }

    /// The path in the repository that a relative URL means.
    fn within(&self, url: &str) -> Option<String> {
        let (root, folder) = (self.root.as_ref()?, self.folder.as_ref()?);
        let target = folder.join(url).ok()?;
        let is_relative =
            target.scheme() == root.scheme() && target.host().is_none() && !url.starts_with('/');
        let path = target.path().trim_start_matches('/').to_owned();
        let decoded: Vec<u8> =
            url::form_urlencoded::parse(format!("p={}", path.replace('+', "%2B")).as_bytes())
                .next()
                .map(|(_, path)| path.into_owned().into_bytes())?;
        String::from_utf8(decoded).ok().filter(|path| is_relative && !path.is_empty())
    }
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
fn sanitised(html: &str, links: &Arc<Links>) -> String {
    let links = links.clone();
    let rewrite = move |element: &str, attribute: &str, value: &str| -> Option<String> {
        match (element, attribute) {
            // Only pictures of this repository are loaded: others would tell their servers who reads.
            ("img", "src") => links.page("resolve", &links.within(value)?),
            ("a", "href") if value.starts_with('#') => None,
            ("a", "href") => match links.within(value) {
                Some(path) => links.page("blob", &path),
                None => Some(value.to_owned()),
            },
            (_, "src" | "href" | "cite") => None,
            _ => Some(value.to_owned()),
        }
    };
    let clean = ammonia::Builder::default()
        .rm_tags(["map", "area"])
        // Long lines scroll sideways, also by keyboard.
        .set_tag_attribute_value("pre", "tabindex", "0")
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .link_rel(Some("noopener noreferrer nofollow"))
        .attribute_filter(move |element, attribute, value| rewrite(element, attribute, value).map(Cow::Owned))
        .clean(html)
        .to_string();
    described(&clean)
}

/// Gives pictures without a description an empty one: screen readers need not read their address.
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

fn encoded_path(path: &str) -> String {
    path.split('/').map(xet::wire::routes::segment).collect::<Vec<_>>().join("/")
}

/// A card that is longer is cut.
const CARD_BYTES_MAX: u64 = 256 * 1024;
/// What the parser writes, before tags and elements are limited.
const RAW_BYTES_MAX: usize = 2 << 20;
/// URLs of this repository in a card, together.
const URL_BYTES_MAX: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use store::ids::ObjectKind;
    use store::ids::Oid;
    use store::ids::RepoId;
    use store::names::RepoName;

    use super::*;

    fn links(folder: &str) -> Arc<Links> {
        let key = CardKey {
            repo: RepoId::new([1; 16]),
            name: RepoName::parse("ann/m").unwrap(),
            revision: "main".to_owned(),
            folder: folder.to_owned(),
            blob: Oid::of(ObjectKind::Blob, b""),
            bytes: 0,
        };
        Arc::new(Links::new(&key))
    }

    /// Each took seconds to minutes, or memory without end, in a parser of Markdown or HTML somewhere.
    #[test]
    fn no_card_takes_long_to_render() {
        let long = |text: &str| text.repeat(250_000 / text.len());
        let mut cards: Vec<String> = [
            "> ",
            ">",
            "- ",
            "1. ",
            "[",
            "![",
            "[a](",
            "[a](<",
            "*a",
            "_a_",
            "**a",
            "<b>",
            "<div>\n",
            "<div>\n\n",
            "<a",
            "<a b=",
            "<!--",
            "<?",
            "<![CDATA[",
            "|",
            "&#",
            "[^a]: ",
            "[a]: b\n",
            "<http://",
            "- [ ] ",
            "\n",
            "<p>",
            "<b><p>",
            "<i>a<p>",
            "<ul><li>",
            "<table>",
            "<table><tr><td>",
            "<table><b></b>",
            "<tr>",
            "<table>a",
            "<br>",
            "</b>",
            "</p>",
            "<font size=1><p>",
            "<svg>",
            "<math>",
            "<template>",
            "<select>",
            "<textarea>",
            "<title>",
            "<script>",
            "<style>x</style>",
            "<a href=x>",
            "<img src=y>",
            "<b a",
            "<b a='",
            "<details>",
            "<h1>",
            "<button>",
            "<a><div>",
            "<b><table><b>",
            "</",
            "<nobr>",
            "<ruby><rt>",
            "<dl><dd>",
            "<caption>",
        ]
        .map(long)
        .into();
        cards.push((0..9000).map(|n| format!("<font size={n}>")).collect::<String>() + &"<p>".repeat(30_000));
        cards.push((0..9000).map(|n| format!("<b id=x{n}>")).collect::<String>() + &"<p>".repeat(30_000));
        cards.push(format!("<b {}>", (0..40_000).map(|n| format!("a{n} ")).collect::<String>()));
        cards.push("<table>".to_owned() + &"<b></b>x".repeat(25_000));
        cards.push(format!("[a]: {}\n\n{}", "b".repeat(100_000), "[a] ".repeat(30_000)));
        cards.push(format!("{}\n{}\n{}", "|a".repeat(500), "|-".repeat(500), "|\n".repeat(100_000)));
        cards.push(format!("<a href=\"{}\">", "../".repeat(80_000)));
        for text in cards {
            let (start, head) = (std::time::Instant::now(), text.chars().take(30).collect::<String>());
            let card = render(&text, &links(""));
            // Debug builds on busy machines; unlimited work took ten times this and more.
            assert!(start.elapsed().as_secs() < 5, "{head}: {:?}", start.elapsed());
            assert!(card.html.len() < 8 << 20, "{head}: {} bytes", card.html.len());
        }
    }

    #[test]
    fn depth_beyond_the_limit_is_plain_text_and_the_rest_stays() {
        let card = render(&format!("{}deep\n\n# After\n", "> ".repeat(500)), &links(""));
        assert!(card.html.contains("deep") && card.html.contains("<h2>After</h2>"), "{}", card.html);
        assert!(!card.is_cut && card.html.matches("<blockquote>").count() < 100);
        assert!(render(&">".repeat(250_000), &links("")).is_cut);
    }

    #[test]
    fn ordinary_cards_are_rendered_as_written() {
        let text = "# T\n\n<p align=center><img src=a.png width=10></p>\n\n- a\n- b\n\n|a|b|\n|-|-|\n|1|<br>|\n\n<details><summary>s</summary>\n\n*x* `<y>` a < b\n\n</details>\n<script>z</script>";
        let html = render(text, &links("")).html;
        for part in [
            "<h2>T</h2>",
            "<p><img alt=\"\" src=\"/ann/m/resolve/main/a.png\" width=\"10\"></p>",
            "<ul>\n<li>a</li>\n<li>b</li>\n</ul>",
            "<td>1</td><td><br></td>",
            "<details><summary>s</summary>",
            "<p><em>x</em> <code>&lt;y&gt;</code> a &lt; b</p>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(!html.contains("script") && !html.contains('z'));
        let code = render("```sh\na long line\n```", &links("")).html;
        assert!(code.contains("<pre") && code.contains("tabindex=\"0\""), "{code}");
    }

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
            assert_eq!(links(prefix).within(url).as_deref(), path, "{url}");
        }
    }
}
