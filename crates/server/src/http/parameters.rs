//! Query parameters: which of them each route has, and what values they take.
//!
//! A parameter that a route does not have is refused by its name: a filter that is ignored gives an answer that looks right
//! and is not. Checked before any handler runs, so a route that is not in the table has no parameters.

use axum::http::Method;
use xet::wire::routes::Endpoint;

use crate::http::query::Query;

/// What values a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Any text, once.
    Text,
    /// Any text, any number of times.
    Texts,
    /// `true`, `false`, `1`, `0`, or nothing, which means `true`.
    Flag,
    /// A whole number of any length. What is larger than anything counted here is the largest number.
    Number,
    /// The same without zero.
    Positive,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any of these words, in one value apart by commas or in several.
    Words(&'static [&'static str]),
}

/// The parameters of a route.
enum Parameters {
    /// These and no others.
    Only(&'static [(&'static str, Values)]),
    /// Whatever is sent; none has a meaning, or the route reads them itself and refuses what it does not know.
    Any,
}

use Values::{Flag, Number, Positive, Text, Texts, Word, Words};

/// Refuses a query that the route does not have with this method; `route` is the template of its path.
pub(crate) fn check(method: &Method, route: &str, query: Option<&str>) -> Result<(), String> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(()) };
    let known = match parameters_of(route) {
        Parameters::Any => return Ok(()),
        Parameters::Only(known) if is_for(method, route) => known,
        Parameters::Only(_) => &[],
    };
    let query = Query::parse(Some(query));
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in query.pairs() {
        let plain = name.strip_suffix("[]").unwrap_or(name);
        let Some((name, values)) = known.iter().find(|(known, _)| *known == plain) else {
            return Err(format!("{}: this server has no such parameter here", shorten(plain)));
        };
        if !matches!(values, Words(_) | Texts) {
            if seen.contains(name) {
                return Err(format!("{name}: given more than once"));
            }
            seen.push(name);
        }
        let refuse = |expected: &str| Err(format!("{name}: expected {expected}, found {}", shorten(value)));
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        match values {
            Text | Texts => {}
            Flag if matches!(value, "" | "1" | "0" | "true" | "false" | "True" | "False") => {}
            Flag => return refuse("true or false"),
            Number if is_number => {}
            Number => return refuse("a whole number"),
            Positive if is_number && value.bytes().any(|byte| byte != b'0') => {}
            Positive => return refuse("a whole number above zero"),
            Word(words) if words.contains(&value) => {}
            Word(words) => return refuse(&words.join(" or ")),
            Words(words) => {
                if let Some(word) = value.split(',').find(|word| !word.is_empty() && !words.contains(word)) {
                    return Err(format!("{name}={}: this server does not have it", shorten(word)));
                }
            }
        }
    }
    Ok(())
}

/// Whether the parameters of a route are those of this method. Most are of what is read; what is changed is in the body.
fn is_for(method: &Method, route: &str) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match route {
        "/api/admin/quotas" => *method == Method::DELETE,
        _ if route.starts_with("/lfs/") => true,
        _ if ["/preupload/", "/commit/", "/-/file"].iter().any(|part| route.contains(part)) => true,
        _ => is_read,
    }
}

/// Text of a query in a message, cut where it is long.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

fn parameters_of(route: &str) -> Parameters {
    let only = Parameters::Only;
    if let Some(rest) = below(route, "/api/") {
        return only(of_hub(rest));
    }
    if let Some(rest) = below(route, "/lfs/") {
        return only(match rest {
            "/{oid}" | "/{oid}/verify" => &[SIZE, FOR, EXPIRES, SIGNATURE],
            _ => &[SIZE, FOR, EXPIRES, SIGNATURE, ("part", Number)],
        });
    }
    only(match route {
        "/api/models" | "/api/datasets" | "/api/spaces" => &[
            ("limit", Positive),
            ("cursor", Text),
            ("search", Text),
            ("author", Text),
            ("expand", Words(EXPAND_IN_LISTS)),
            // They ask for files, configurations and cards, which lists do not have.
            ("full", Word(NO)),
            ("config", Word(NO)),
            ("cardData", Word(NO)),
        ],
        "/api/admin/repos" => &[("type", Word(&["model", "dataset", "space"])), ("cursor", Text)],
        "/api/admin/quotas" => &[("of", Text)],
        "/api/admin/audit" => &[("since", Number), ("before", Number), ("limit", Positive)],
        "/api/admin/undelete" => &[("repo", Text)],
        "/" | "/models" | "/datasets" | "/spaces" => {
            &[("search", Text), ("sort", Word(&["name", "updated", "size"])), ("p", Number)]
        }
        "/-/sign-in" => &[("next", Text)],
        "/-/account" => &[("changed", Flag)],
        "/-/admin/audit" => &[("before", Number)],
        // Probes add what they like, and data URLs are read by what signed them.
        "/health" | "/ready" | "/metrics" | "/openapi.json" | "/-/assets/{asset}" => return Parameters::Any,
        _ if route.starts_with("/api/resolve-cache/") => FILE,
        _ if route.starts_with("/v1/data/") => return Parameters::Any,
        _ if route.starts_with("/v1/drystone/chunk-lists/") => &[("from", Number)],
        _ if Endpoint::Telemetry.templates().contains(&route) => return Parameters::Any,
        _ if Endpoint::BatchReconstruction.templates().contains(&route) => &[("file_id", Texts)],
        _ => match below(route, "/") {
            Some(rest) => of_web(rest),
            None => &[],
        },
    })
}

/// What follows the repository in a route about one; `None` for other routes.
fn below<'a>(route: &'a str, prefix: &str) -> Option<&'a str> {
    let route = route.strip_prefix(prefix)?;
    let kinds = ["models/", "datasets/", "spaces/", "buckets/"];
    let route = kinds.iter().find_map(|kind| route.strip_prefix(kind)).unwrap_or(route);
    route.strip_prefix("{namespace}/{name}")
}

/// Of the Hub API of a repository.
fn of_hub(rest: &str) -> &'static [(&'static str, Values)] {
    match rest {
        "" | "/revision/{revision}" => &[("expand", Words(EXPAND)), ("blobs", Flag)],
        "/preupload/{revision}" | "/commit/{revision}" => &[("create_pr", Flag)],
        "/refs" => &[("include_prs", Flag)],
        "/commits/{revision}" => &[("limit", Positive), ("p", Number)],
        "/discussions" => &[
            ("p", Number),
            ("status", Word(&["all", "open", "closed"])),
            ("type", Word(&["all", "discussion", "pull_request"])),
            ("author", Text),
        ],
        "/discussions/{number}" => &[("diff", Flag)],
        _ if rest.starts_with("/tree/") => {
            &[("recursive", Flag), ("expand", Flag), ("cursor", Text), ("limit", Positive)]
        }
        // Clients that will open a pull request say so here too; a token is for the repository.
        _ if rest.starts_with("/xet-") => &[("create_pr", Flag)],
        _ => &[],
    }
}

/// Of files, LFS and pages of a repository.
fn of_web(rest: &str) -> &'static [(&'static str, Values)] {
    match rest {
        // The ref is what git-lfs is on; locks are of the repository.
        "/info/lfs/locks" => {
            &[("path", Text), ("id", Text), ("cursor", Text), ("limit", Positive), ("refspec", Text)]
        }
        "" => &[("after", Text)],
        "/commits/{revision}" | "/commit/{revision}" => &[("p", Number)],
        "/upload/{revision}/-/file" => &[("id", Text)],
        _ if rest.starts_with("/resolve/") => FILE,
        _ if rest.starts_with("/raw/") => &[("noContentDisposition", Flag)],
        _ if rest.starts_with("/tree/") => &[("after", Text)],
        _ if rest.starts_with("/blob/") => &[("p", Number), ("key", Text), ("record", Number)],
        _ if rest.starts_with("/entry/") => &[("record", Number), ("entry", Text)],
        _ => &[],
    }
}

const SIZE: (&str, Values) = ("size", Number);
const FOR: (&str, Values) = ("for", Text);
const EXPIRES: (&str, Values) = ("expires", Number);
const SIGNATURE: (&str, Values) = ("signature", Text);
/// Of the bytes of a file.
const FILE: &[(&str, Values)] = &[("download", Flag), ("noContentDisposition", Flag)];
const NO: &[&str] = &["false", "False", "0"];
/// What `expand` may name in a list: what each entry has, and `pipeline_tag` and `sdk`, which huggingface.js names in every
/// list and which no repository here has.
const EXPAND_IN_LISTS: &[&str] = &[
    "author",
    "createdAt",
    "disabled",
    "downloads",
    "gated",
    "lastModified",
    "likes",
    "pipeline_tag",
    "private",
    "sdk",
    "sha",
    "tags",
    "xetEnabled",
];
/// The same of one repository.
const EXPAND: &[&str] = &[
    "author",
    "createdAt",
    "disabled",
    "downloads",
    "gated",
    "lastModified",
    "likes",
    "pipeline_tag",
    "private",
    "sdk",
    "sha",
    "siblings",
    "tags",
    "usedStorage",
    "xetEnabled",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_a_route_does_not_have_is_refused_by_its_name() {
        for (route, query, name) in [
            ("/api/models", "filter=x", "filter"),
            ("/api/models", "limit=5&pipeline_tag=x", "pipeline_tag"),
            ("/api/models", "sort=downloads", "sort"),
            ("/api/models", "expand=likes&expand=cardData", "expand=cardData"),
            ("/api/models", "expand=likes,config", "expand=config"),
            ("/api/models", "expand=siblings", "expand=siblings"),
            ("/api/models", "full=true", "full"),
            ("/api/models", "cardData=True", "cardData"),
            ("/api/models", "config", "config"),
            ("/api/models", "search=a&search=b", "search"),
            ("/api/models", "limit=-1", "limit"),
            ("/api/models", "limit=0", "limit"),
            ("/api/models", "limit=1.5", "limit"),
            ("/api/models", "full=maybe", "full"),
            ("/api/models/{namespace}/{name}", "securityStatus=true", "securityStatus"),
            ("/api/models/{namespace}/{name}/commits/{revision}", "expand[]=formatted", "expand"),
            ("/api/datasets/{namespace}/{name}/commit/{revision}", "hot_reload=1", "hot_reload"),
            ("/api/models/{namespace}/{name}/settings", "x=1", "x"),
            ("/api/models/{namespace}/{name}/discussions", "status=draft", "status"),
            ("/datasets/{namespace}/{name}", "x=1", "x"),
            ("/", "sort=likes", "sort"),
            ("/v1/reconstructions/{file}", "x=1", "x"),
            ("/no/such/route", "x=1", "x"),
        ] {
            let refused = check(&Method::GET, route, Some(query)).unwrap_err();
            assert!(refused.contains(name), "{route}?{query}: {refused}");
        }
    }

    #[test]
    fn what_clients_send_is_accepted() {
        for (route, query) in [
            (
                "/api/models",
                "limit=500&author=ann&expand=pipeline_tag&expand=private&expand=gated&expand=likes",
            ),
            ("/api/spaces", "limit=500&expand=sdk&expand=likes&expand=private&expand=lastModified"),
            ("/api/models", "limit=18446744073709551616&search=x&full=False&cardData=false"),
            ("/api/datasets", "expand=likes,sha&expand=xetEnabled"),
            ("/api/models/{namespace}/{name}/tree/{revision}", "recursive=True&expand=false&limit=1000"),
            ("/api/models/{namespace}/{name}/revision/{revision}", "expand[]=sha&blobs=true"),
            ("/api/models/{namespace}/{name}/refs", "include_prs=1"),
            ("/api/models/{namespace}/{name}/discussions/{number}", "diff=1"),
            ("/api/models/{namespace}/{name}/xet-write-token/{revision}", "create_pr=1"),
            ("/{namespace}/{name}/resolve/{revision}/{*path}", "download=true"),
            ("/datasets/{namespace}/{name}/info/lfs/locks", "path=a&limit=9&refspec=refs%2Fheads%2Fmain"),
            ("/-/account", "changed"),
            ("/v1/reconstructions", "file_id=a&file_id=b"),
            ("/health", "anything=1"),
            ("/api/repos/create", ""),
        ] {
            assert_eq!(check(&Method::GET, route, Some(query)), Ok(()), "{route}?{query}");
        }
    }

    #[test]
    fn a_parameter_of_one_method_is_refused_with_another() {
        for (method, other, route, query) in [
            (Method::DELETE, Method::PUT, "/api/admin/quotas", "of=ann"),
            (Method::DELETE, Method::GET, "/api/admin/quotas", "of=ann"),
            (Method::GET, Method::POST, "/api/admin/undelete", "repo=ann%2Fa"),
            (Method::GET, Method::POST, "/api/models/{namespace}/{name}/discussions", "status=open"),
            (Method::GET, Method::POST, "/{namespace}/{name}/info/lfs/locks", "path=a"),
            (Method::GET, Method::POST, "/v1/reconstructions", "file_id=a"),
            (Method::GET, Method::POST, "/-/sign-in", "next=%2F"),
        ] {
            assert_eq!(check(&method, route, Some(query)), Ok(()), "{method} {route}?{query}");
            let name = query.split('=').next().unwrap();
            let refused = check(&other, route, Some(query)).unwrap_err();
            assert!(refused.contains(name), "{other} {route}?{query}: {refused}");
        }
        for (method, route, query) in [
            (Method::POST, "/api/models/{namespace}/{name}/commit/{revision}", "create_pr=1"),
            (Method::POST, "/api/models/{namespace}/{name}/preupload/{revision}", "create_pr=1"),
            (Method::PUT, "/lfs/models/{namespace}/{name}/{oid}", "size=1&expires=2&signature=x"),
            (Method::PUT, "/{namespace}/{name}/upload/{revision}/-/file", "id=x"),
            (Method::HEAD, "/{namespace}/{name}/resolve/{revision}/{*path}", "download=true"),
        ] {
            assert_eq!(check(&method, route, Some(query)), Ok(()), "{method} {route}?{query}");
        }
    }
}
