//! Every route by everyone: what they may do, and the statuses they get.
//!
//! The routes are those of the router, so one that is not in the table fails here.

use std::collections::BTreeSet;

use server::paths;
use xet::wire::routes::Endpoint;

use super::*;

/// Method, path, who may, and the statuses those get. `{R}` is the API path of a repository of any kind, `{W}` its path
/// on the web, `{L}` that of a large file.
const TABLE: &str = "
GET    /health                            everyone 200
GET    /ready                             everyone 200
GET    /metrics                           everyone 404
GET    /openapi.json                      everyone 200
GET    /v1/data/{object}                  signed
ANY    /v1/xorb-grants/{*rest}            everyone 404
GET    /v1/reconstructions/{file}         cas-reads 404
GET    /v2/reconstructions/{file}         cas-reads 404
GET    /v1/reconstructions                cas-reads 200 400
POST   /v1/reconstructions                cas-reads 200 400
GET    /v1/chunks/{prefix}/{chunk}        cas-writes 404
GET    /v1/drystone/chunk-lists/{file}    cas-reads 404
GET    /v2/file-chunk-hashes/{file}       cas-reads 400
HEAD   /v1/files/{file}                   cas-reads 404
POST   /v1/xorbs/{prefix}/{xorb}          cas-writes 400
HEAD   /v1/xorbs/{prefix}/{xorb}          cas-writes 404
POST   /v1/shards                         cas-writes 400
POST   /v2/shards                         cas-writes 200 400
POST   /shard/{prefix}/{shard}            cas-writes 400
POST   /v1/telemetry                      cas-reads 400

GET    /api/whoami-v2                     known 200
POST   /api/validate-yaml                 everyone 200
POST   /api/repos/create                  names 200 409
DELETE /api/repos/delete                  writes 200
POST   /api/repos/move                    writes 200
GET    /api/admin/users                   admin 200
POST   /api/admin/users                   admin 201
GET    /api/admin/orgs                    admin 200
POST   /api/admin/orgs                    admin 201
PUT    /api/admin/users/{user}            admin 404
DELETE /api/admin/users/{user}            admin 404
PUT    /api/admin/users/{user}/password   admin 404
DELETE /api/admin/orgs/{org}              admin 404
GET    /api/admin/orgs/{org}/members      admin 200
PUT    /api/admin/orgs/{org}/members/{user} admin 404
DELETE /api/admin/orgs/{org}/members/{user} admin 404
GET    /api/admin/repos                   admin 200
GET    /api/admin/trash                   admin 200
POST   /api/admin/trash/{id}              admin 404
DELETE /api/admin/trash/{id}              admin 404
GET    /api/admin/quotas                  admin 200
PUT    /api/admin/quotas                  admin 400
DELETE /api/admin/quotas                  admin 400
GET    /api/admin/dedup                   admin 200
PUT    /api/admin/dedup                   admin 400
GET    /api/admin/audit                   admin 200
GET    /api/admin/undelete                admin 400
POST   /api/admin/undelete                admin 400
GET    /api/{kind}                        asks 200
GET    {B}/xet-read-token                 admin 200
GET    {B}/xet-read-token/{revision}      admin 200
GET    {B}/xet-write-token                admin 200
GET    {B}/xet-write-token/{revision}     admin 200

GET    {R}                                reads 200
GET    {R}/revision/{revision}            reads 200
GET    {R}/dedup                          writes 200
PUT    {R}/dedup                          writes 400
GET    {R}/auth-check                     reads 200
GET    {R}/auth-check/write               writes 200
GET    {R}/tree/{revision}                reads 200
GET    {R}/tree/{revision}/               reads 200
GET    {R}/tree/{revision}/{*path}        reads 404
POST   {R}/paths-info/{revision}          reads 200
GET    {R}/refs                           reads 200
GET    {R}/commits/{revision}             reads 200
GET    {R}/discussions                    reads 200
GET    {R}/discussions/{number}           reads 404
GET    {R}/xet-read-token                 reads 200
GET    {R}/xet-read-token/{revision}      reads 200
PUT    {R}/settings                       writes 200
POST   {R}/preupload/{revision}           writes 200
POST   {R}/commit/{revision}              writes 200
POST   {R}/branch/{branch}                writes 201 409
DELETE {R}/branch/{branch}                writes 200 404
POST   {R}/tag/{tag}                      writes 201 409
DELETE {R}/tag/{tag}                      writes 404
POST   {R}/super-squash/{branch}          writes 200
POST   {R}/discussions                    writes 200
POST   {R}/discussions/{number}/merge     writes 404
POST   {R}/discussions/{number}/status    writes 404
GET    {R}/xet-write-token                writes 200
GET    {R}/xet-write-token/{revision}     writes 200
GET    {C}/{revision}/{*path}             reads 404

GET    /                                  asks 200
GET    /models                            asks 200
GET    /datasets                          asks 200
GET    /spaces                            asks 200
GET    /-/dedup                           asks 200
GET    /-/assets/{asset}                  everyone 404
GET    /-/sign-in                         asks 200
POST   /-/sign-in                         asks 401 429
POST   /-/sign-out                        signed
GET    /-/account                         known 200
POST   /-/account/{action}                signed
GET    /-/admin                           admin 200
GET    /-/admin/audit                     admin 200
POST   /-/admin/{action}                  signed
GET    {W}/undelete                       writes 200
POST   {W}/undelete                       signed
GET    {W}/upload/{revision}              writes 200
POST   {W}/upload/{revision}/-/decide     signed
PUT    {W}/upload/{revision}/-/file       signed
GET    {W}/upload/{revision}/-/file       writes 404
POST   {W}/upload/{revision}/-/commit     signed
GET    {W}                                reads 200
GET    {W}/tree/{revision}                reads 200
GET    {W}/tree/{revision}/{*path}        reads 404
GET    {W}/blob/{revision}/{*path}        reads 404
GET    {W}/entry/{revision}/{*path}       reads 404
GET    {W}/commits/{revision}             reads 200
GET    {W}/commit/{revision}              reads 200
GET    {W}/resolve/{revision}/{*path}     reads 404
GET    {W}/raw/{revision}/{*path}         reads 404
POST   {W}/info/lfs/objects/batch         writes 200
GET    {W}/info/lfs/locks                 reads 200
POST   {W}/info/lfs/locks                 writes 201 409
POST   {W}/info/lfs/locks/verify          writes 200
POST   {W}/info/lfs/locks/{id}/unlock     writes 404
GET    {L}                                signed
PUT    {L}                                signed
POST   {L}/verify                         signed
POST   {L}/parts                          signed
PUT    {L}/parts/{number}                 signed
";

/// The caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Anonymous,
    Wrong,
    Reads,
    Writes,
    Admin,
    Elsewhere,
}

const ROLES: [Role; 6] =
    [Role::Anonymous, Role::Wrong, Role::Reads, Role::Writes, Role::Admin, Role::Elsewhere];

struct Row<'a> {
    who: &'a str,
    fine: Vec<u16>,
}

fn rows() -> Vec<(&'static str, &'static str, Row<'static>)> {
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        let (method, path, who) = (words.next()?, words.next()?, words.next()?);
        Some((method, path, Row { who, fine: words.map(|word| word.parse().unwrap()).collect() }))
    };
    TABLE.lines().filter_map(row).collect()
}

impl Row<'_> {
    /// Statuses that a caller gets; empty where any success is fine.
    fn expected(&self, role: Role, private: bool) -> Vec<u16> {
        let fine = || self.fine.clone();
        match (self.who, role) {
            ("everyone", _) => fine(),
            ("signed", Role::Wrong) => vec![401, 403],
            ("signed", _) => vec![403],
            (_, Role::Wrong) => vec![401],
            ("asks", _) => fine(),
            ("reads", Role::Anonymous) if !private => fine(),
            (_, Role::Anonymous) => vec![401],
            ("known", _) => fine(),
            ("admin", Role::Admin) => fine(),
            ("admin", _) => vec![403],
            // A token for everything is for no repository, and these routes know one from the token only.
            ("cas-reads" | "cas-writes", Role::Admin) => vec![403],
            ("cas-writes" | "writes" | "names", Role::Reads) => vec![403],
            ("cas-reads" | "cas-writes", _) => fine(),
            ("names", Role::Elsewhere) => vec![403],
            ("reads" | "writes", Role::Elsewhere) if private => vec![404],
            ("writes", Role::Elsewhere) => vec![403],
            ("reads" | "writes" | "names", _) => fine(),
            (who, _) => panic!("nobody knows who {who} is"),
        }
    }
}

/// The path in the table's words, and the kind of repository it is about.
pub(super) fn named(path: &str) -> (String, &'static str) {
    let alias = Endpoint::ALL.iter().find(|endpoint| endpoint.templates().contains(&path));
    if let Some(canonical) = alias.and_then(|endpoint| endpoint.templates().first()) {
        return ((*canonical).to_owned(), "models");
    }
    let repo = "/{namespace}/{name}";
    let kind = ["datasets", "spaces"].into_iter().find(|kind| path.contains(&format!("/{kind}")));
    let kind = kind.unwrap_or("models");
    let begins = [
        (format!("/api/{kind}{repo}"), "{R}"),
        (format!("/api/buckets{repo}"), "{B}"),
        (format!("/api/resolve-cache/{kind}{repo}"), "{C}"),
        (format!("/lfs/{kind}{repo}/{{oid}}"), "{L}"),
        (format!("/{kind}{repo}"), "{W}"),
        (repo.to_owned(), "{W}"),
        (format!("/api/{kind}"), "/api/{kind}"),
    ];
    for (begin, name) in begins {
        if let Some(rest) = path.strip_prefix(&begin) {
            return (format!("{name}{rest}"), kind);
        }
    }
    (path.to_owned(), kind)
}

#[tokio::test]
async fn every_route_answers_everyone_as_the_table_says() {
    let hub = Hub::new().await;
    let rows = rows();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut sent_count = 0;
    for path in paths() {
        let (name, kind) = named(&path);
        for method in methods(&hub, &path).await {
            let row = rows.iter().position(|(m, p, _)| *p == name && (*m == method || *m == "ANY"));
            let row = row.unwrap_or_else(|| panic!("{method} {name} is not in the table ({path})"));
            seen.insert(row);
            for private in [false, true] {
                for role in ROLES {
                    let got = call(&hub, &rows[row].2, &method, &path, kind, role, private).await;
                    let expected = rows[row].2.expected(role, private);
                    sent_count += 1;
                    if !expected.contains(&got.status) {
                        wrong.push(format!(
                            "{method} {path}, {role:?}, private {private}: {}, not {expected:?}",
                            got.status
                        ));
                    }
                }
            }
        }
    }
    let unseen: Vec<_> = (0..rows.len()).filter(|n| !seen.contains(n)).map(|n| rows[n].1).collect();
    assert_eq!(unseen, [""; 0], "these are no routes");
    assert!(wrong.is_empty(), "of {sent_count}:\n{}", wrong.join("\n"));
    assert!(sent_count > 1500, "{sent_count}");
}

/// The methods of a route; HEAD only where it is one's own.
pub(super) async fn methods(hub: &Hub, path: &str) -> Vec<String> {
    let got = hub.send("PATCH", &filled(path, "models", "public"), &[], b"").await;
    if got.status == 404 {
        return vec!["POST".to_owned()];
    }
    assert_eq!(got.status, 405, "{path}");
    let all: Vec<_> = got.header("allow").split(',').map(|method| method.trim().to_owned()).collect();
    let has_get = all.iter().any(|method| method == "GET");
    all.into_iter().filter(|method| method != "HEAD" || !has_get).collect()
}

pub(super) fn filled(path: &str, kind: &str, name: &str) -> String {
    let zero = "0".repeat(64);
    let path = path.replace("/branch/{branch}", "/branch/other");
    let path = path.replace("{namespace}", "ann").replace("{name}", name);
    let path = path.replace("{kind}", kind).replace("{revision}", "main").replace("{*path}", "none");
    let path = path.replace("{*rest}", "x").replace("{prefix}", "default").replace("{number}", "7");
    let path = path.replace("{id}", &"0".repeat(32)).replace("{branch}", "main").replace("{tag}", "main");
    let path = path.replace("{asset}", "none.css");
    let path = path.replace("{org}", "none").replace("{user}", "ann");
    ["{file}", "{chunk}", "{xorb}", "{shard}", "{oid}"]
        .iter()
        .fold(path, |path, name| path.replace(name, &zero))
}

async fn call(
    hub: &Hub,
    row: &Row<'_>,
    method: &str,
    path: &str,
    kind: &str,
    role: Role,
    private: bool,
) -> Got {
    let name = if private { "private" } else { "public" };
    // Some requests delete it.
    let create =
        json!({"name": format!("ann/{name}"), "type": kind.trim_end_matches('s'), "private": private});
    hub.admin("POST", "/api/repos/create", create).await;
    let scope = |namespace: &str| Bound::Repo(format!("{namespace}/models/{name}").parse().unwrap());
    let is_cas = row.who.starts_with("cas");
    let bound = |namespace: &str| match is_cas {
        true => scope(namespace),
        false => Bound::Namespace(namespace.to_owned()),
    };
    let token = match role {
        Role::Anonymous => None,
        Role::Wrong => Some("ds_wrong".to_owned()),
        Role::Reads => Some(hub.personal("ann", Rights::Read, bound("ann")).await),
        Role::Writes => Some(hub.personal("ann", Rights::Write, bound("ann")).await),
        Role::Admin => Some(hub.admin.clone()),
        Role::Elsewhere => Some(hub.personal("bob", Rights::Write, bound("bob")).await),
    };
    let auth = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = auth.iter().map(|auth| ("authorization", auth.as_str())).collect();
    let body = body(method, path, kind, name, role);
    hub.send(method, &filled(path, kind, name), &headers, body.as_bytes()).await
}

/// A body that is accepted from callers with the rights.
fn body(method: &str, path: &str, kind: &str, name: &str, role: Role) -> String {
    let (id, kind) = (format!("ann/{name}"), kind.trim_end_matches('s'));
    let ends = |end: &str| path.ends_with(end);
    let body = match method {
        _ if ends("/paths-info/{revision}") => return "paths=a".to_owned(),
        _ if ends("/sign-in") => return "name=nobody&password=none".to_owned(),
        _ if ends("/repos/create") || ends("/repos/delete") => json!({"name": id, "type": kind}),
        _ if ends("/repos/move") => json!({"fromRepo": id, "toRepo": id, "type": kind}),
        _ if ends("/admin/users") || ends("/admin/orgs") => {
            json!({"name": format!("{}-{name}-{}", role as u8, path.len())})
        }
        "PUT" if ends("/members/{user}") => json!({"role": "read"}),
        "PUT" if ends("/users/{user}") => json!({"disabled": true}),
        "PUT" if ends("/users/{user}/password") => json!({"password": null}),
        _ if ends("/preupload/{revision}") => json!({"files": []}),
        _ if ends("/commit/{revision}") => header("x"),
        "POST" if ends("/tag/{tag}") => json!({"tag": "v1"}),
        _ if ends("/discussions") => json!({"title": "x", "pullRequest": true}),
        _ if ends("/status") => json!({"status": "open"}),
        _ if ends("/objects/batch") => json!({"operation": "upload", "objects": []}),
        _ if ends("/locks") => json!({"path": "a"}),
        _ if ends("/locks/verify") => json!({}),
        _ if ends("/verify") => json!({"oid": "0", "size": 1}),
        _ => json!({}),
    };
    if method == "GET" || method == "HEAD" { String::new() } else { body.to_string() }
}

/// For callers who may not read it, a private repository answers as one that does not exist: on every route, by every method,
/// in any case, with the same status, headers and body but for the name.
#[tokio::test]
async fn a_private_repository_answers_as_one_that_does_not_exist() {
    let hub = Hub::new().await;
    let (here, away) = ("hidden-one", "absent-one");
    let bearer = |token: &str| Some(("authorization", format!("Bearer {token}")));
    let mut callers = vec![("anonymous".to_owned(), None), ("wrong".to_owned(), bearer("ds_wrong"))];
    for kind in ["models", "datasets", "spaces"] {
        let create =
            json!({"name": format!("ann/{here}"), "type": kind.trim_end_matches('s'), "private": true});
        assert_eq!(hub.admin("POST", "/api/repos/create", create).await.status, 200);
        let create = json!({"name": "ann/other", "type": kind.trim_end_matches('s'), "private": true});
        assert_eq!(hub.admin("POST", "/api/repos/create", create).await.status, 200);
    }
    hub.create("own", false).await;
    for rights in [Rights::Read, Rights::Write] {
        let outsider = hub.personal("bob", rights, Bound::Namespace("bob".into())).await;
        callers.push((format!("bob {rights:?}"), bearer(&outsider)));
        // A token of a sibling repository, of the same owner.
        let sibling = hub.personal("ann", rights, Bound::Repo("ann/models/other".parse().unwrap())).await;
        callers.push((format!("sibling {rights:?}"), bearer(&sibling)));
    }
    callers.extend(lapsed(&hub).await);
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for path in paths().into_iter().filter(|path| path.contains("{name}") && !path.contains("/api/buckets")) {
        let (_, kind) = named(&path);
        for method in methods(&hub, &path).await {
            for (who, shows) in &callers {
                for accept in ["*/*", "text/html"] {
                    let mut headers = vec![("accept", accept)];
                    headers.extend(shows.iter().map(|(name, value)| (*name, value.as_str())));
                    let shown = async |name: &str| {
                        let body = body(&method, &path, kind, name, Role::Writes);
                        let got =
                            hub.send(&method, &filled(&path, kind, name), &headers, body.as_bytes()).await;
                        // Their lengths are the same, and nothing else may tell them apart.
                        let plain =
                            |text: &str| text.replace(name, "NAME").replace(&name.to_uppercase(), "NAME");
                        let mut headers: Vec<_> = got
                            .headers
                            .iter()
                            .filter(|(name, _)| !matches!(name.as_str(), "x-request-id" | "date"))
                            .map(|(name, value)| {
                                format!("{name}: {}", plain(&String::from_utf8_lossy(value.as_bytes())))
                            })
                            .collect();
                        headers.sort();
                        let id = got.header("x-request-id").to_owned();
                        let text = plain(&String::from_utf8_lossy(&got.body));
                        (got.status, headers, if id.is_empty() { text } else { text.replace(&id, "ID") })
                    };
                    let [upper_here, upper_away] = [here.to_uppercase(), away.to_uppercase()];
                    // Side by side: each refusal waits for the next step of time.
                    let (hidden, absent, upper_hidden, upper_absent) =
                        tokio::join!(shown(here), shown(away), shown(&upper_here), shown(&upper_away));
                    for (hidden, absent) in [(hidden, absent), (upper_hidden, upper_absent)] {
                        compared += 1;
                        if hidden != absent || hidden.0 < 400 {
                            wrong.push(format!(
                                "{method} {path} as {who}, {accept}:\n  {hidden:?}\n  {absent:?}"
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 5000, "{compared}");
}

/// What a caller shows: a header and its value.
type Shows = Option<(&'static str, String)>;

/// Callers by other means: a CAS token, a browser session, and tokens that are good no longer.
async fn lapsed(hub: &Hub) -> Vec<(String, Shows)> {
    let bob = hub.personal("bob", Rights::Write, Bound::Namespace("bob".into())).await;
    let own = json!({"name": "own", "organization": "bob", "private": true});
    assert_eq!(hub.admin("POST", "/api/repos/create", own).await.status, 200);
    let got = hub.call(&bob, "GET", "/api/models/bob/own/xet-write-token/main", b"").await;
    let cas = got.json()["accessToken"].as_str().unwrap().to_owned();
    let entered = hub.send("POST", "/-/sign-in", &[], format!("token={bob}").as_bytes()).await;
    let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
    // Of those who could read it once.
    let revoked = hub.personal("ann", Rights::Write, Bound::Namespace("ann".into())).await;
    let digest = *personal_token::TokenHash::of(&revoked).unwrap().as_bytes();
    let tokens = hub.store.hub().tokens();
    let id = tokens.by_digest(&digest).await.unwrap().unwrap().id;
    tokens.revoke(&id, hub.state.now_s()).await.unwrap();
    hub.store.hub().add_namespace("carl", false).await.unwrap();
    let disabled = hub.personal("carl", Rights::Write, Bound::Namespace("ann".into())).await;
    hub.store.hub().disable_user("carl").await.unwrap();
    let bearer = |token: &str| Some(("authorization", format!("Bearer {token}")));
    vec![
        ("a CAS token".to_owned(), bearer(&cas)),
        ("a session".to_owned(), Some(("cookie", cookie))),
        ("a revoked token".to_owned(), bearer(&revoked)),
        ("a disabled user".to_owned(), bearer(&disabled)),
    ]
}

/// 200 requests for a private repository and 200 for one that does not exist. Where there is no difference, one of
/// 0.3 between the distributions has a probability of 1e-7; what a cache knows of one repository makes it almost 1.
/// A difference that another program on the machine causes does not appear three times.
#[tokio::test]
async fn a_private_repository_is_refused_in_the_time_of_one_that_does_not_exist() {
    let hub = Hub::new().await;
    hub.create("hidden", true).await;
    hub.upload("ann/hidden", "w.bin", &testkit::corpus::noise(1, 300_000)).await;
    let bob = hub.personal("bob", Rights::Write, Bound::Namespace("bob".into())).await;
    let auth = format!("Bearer {bob}");
    for path in [
        "/ann/NAME/resolve/main/w.bin",
        "/api/models/ann/NAME",
        "/ann/NAME/tree/main",
        "/api/models/ann/NAME/xet-read-token/main",
    ] {
        let mut differences = Vec::new();
        while differences.len() < 3 && differences.last().is_none_or(|apart| *apart >= 0.3) {
            differences.push(difference_in_time(&hub, path, &auth).await);
        }
        assert!(differences.last().is_some_and(|apart| *apart < 0.3), "{path}: {differences:?}");
    }
}

/// Largest difference between the shares of refusals, for a hidden and for an absent repository, that took at most some time.
async fn difference_in_time(hub: &Hub, path: &str, auth: &str) -> f64 {
    const SAMPLES: usize = 200;
    let mut times = [Vec::new(), Vec::new()];
    // In no order that the timer could fall in step with.
    let order = testkit::corpus::noise(7, SAMPLES);
    for which in order.into_iter().flat_map(|byte| [usize::from(byte & 1), 1 - usize::from(byte & 1)]) {
        let path = path.replace("NAME", ["hidden", "absent"][which]);
        let begin = std::time::Instant::now();
        let got = hub.send("GET", &path, &[("authorization", auth)], b"").await;
        times[which].push(begin.elapsed());
        assert_eq!(got.status, 404, "{path}");
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    let [hidden, absent] = &times;
    let share =
        |of: &[std::time::Duration], at| of.partition_point(|time| *time <= at) as f64 / SAMPLES as f64;
    let apart = hidden.iter().chain(absent).map(|at| (share(hidden, *at) - share(absent, *at)).abs());
    apart.fold(0.0, f64::max)
}

/// Names in bodies: creating, deleting, moving and restoring tell nothing either.
#[tokio::test]
async fn names_in_bodies_do_not_reveal_whether_a_private_repository_exists() {
    let hub = Hub::new().await;
    hub.create("hidden-one", true).await;
    hub.create("own", false).await;
    let bob = hub.personal("bob", Rights::Write, Bound::Namespace("bob".into())).await;
    let sibling = hub.personal("ann", Rights::Write, Bound::Repo("ann/models/own".parse().unwrap())).await;
    for token in [&bob, &sibling] {
        for (method, path, body) in [
            ("POST", "/api/repos/create", json!({"name": "ann/NAME"})),
            ("POST", "/api/repos/create", json!({"name": "NAME", "organization": "ANN"})),
            ("DELETE", "/api/repos/delete", json!({"name": "ann/NAME"})),
            ("POST", "/api/repos/move", json!({"fromRepo": "ann/NAME", "toRepo": "bob/x"})),
            ("POST", "/api/repos/move", json!({"fromRepo": "ann/own", "toRepo": "ann/NAME"})),
        ] {
            let answers = async |name: &str| {
                let got =
                    hub.call(token, method, path, body.to_string().replace("NAME", name).as_bytes()).await;
                (got.status, String::from_utf8(got.body).unwrap().replace(name, "NAME"))
            };
            let (hidden, absent) = (answers("hidden-one").await, answers("absent-one").await);
            assert_eq!(hidden, absent, "{method} {path} {body}");
            assert!(hidden.0 >= 400, "{hidden:?}");
        }
    }
}

/// Lists, searches and sums leave out what the caller may not read.
#[tokio::test]
async fn lists_and_sums_leave_out_what_the_caller_may_not_read() {
    let hub = Hub::new().await;
    hub.create("shown", false).await;
    let bob = hub.personal("bob", Rights::Write, Bound::Namespace("bob".into())).await;
    let shown = hub.personal("ann", Rights::Write, Bound::Repo("ann/models/shown".parse().unwrap())).await;
    hub.personal("ann", Rights::Read, Bound::Repo("ann/models/hidden-one".parse().unwrap())).await;
    let paths = [
        "/",
        "/models",
        "/?search=hidden",
        "/?search=ann",
        "/?sort=size",
        "/-/dedup",
        "/api/models",
        "/api/models?search=hidden",
        "/api/models?author=ann",
        "/api/models?author=ANN&full=true",
        "/api/whoami-v2",
    ];
    let answers = async || {
        let mut answers = Vec::new();
        for token in [None, Some(&bob), Some(&shown)] {
            let auth = token.map(|token| format!("Bearer {token}"));
            let headers: Vec<_> = auth.iter().map(|auth| ("authorization", auth.as_str())).collect();
            for path in paths {
                let got = hub.send("GET", path, &headers, b"").await;
                answers.push((token.is_some(), path, got.status, String::from_utf8(got.body).unwrap()));
            }
        }
        answers
    };
    let before = answers().await;
    hub.create("hidden-one", true).await;
    hub.upload("ann/hidden-one", "a.bin", &vec![7; 300_000]).await;
    for (before, after) in before.into_iter().zip(answers().await) {
        assert!(!after.3.contains("hidden-one") || after.1.contains("hidden"), "{}", after.1);
        assert_eq!(before, after);
    }
    // The account page of a token of one repository names no other, nor tokens for it.
    let got = hub.call(&shown, "GET", "/-/account", b"").await;
    let text = String::from_utf8(got.body).unwrap();
    assert!(got.status == 200 && !text.contains("hidden-one"), "{text}");
}
