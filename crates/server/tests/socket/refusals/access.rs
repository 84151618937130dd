//! Tokens and data URLs that open nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use server::{Key, KeyRing};
use testkit::http::RequestBody;
use xet::wire::routes::TokenScope;
use xet::wire::{ReconstructionV2, parse_json};

use super::{Bench, Body};

impl Bench {
    /// A data URL of the first range of what is stored, and that range.
    fn data_url(&self) -> (String, String) {
        let file = self.old.files[0].hash;
        let answer = self.hub.cas("a").get(&format!("/v2/reconstructions/{file}")).unwrap();
        let found: ReconstructionV2 = parse_json(&answer.body).unwrap();
        let fetch = &found.xorbs.values().next().unwrap()[0];
        let url = fetch.url.strip_prefix(&self.hub.state.base_url).unwrap();
        (url.to_owned(), format!("bytes={}", fetch.ranges[0].bytes))
    }
}

#[test]
fn tokens_that_open_nothing() {
    let bench = Bench::new();
    let at = bench.xorb_path();
    let file = bench.old.files[0].hash;
    let issue = |scope, ttl_s| {
        bench.hub.state.cas_tokens().issue(&bench.hub.claims(scope, "a", ttl_s)).token.expose().clone()
    };
    let expired = issue(TokenScope::Write, 0);
    let forged = server::CasTokens::new(&KeyRing::new(Key::new([8; 32]))).issue(&bench.hub.claims(
        TokenScope::Write,
        "a",
        3600,
    ));
    let parts: Vec<&str> = bench.write.split('.').collect();
    let reader = bench.read.split('.').nth(1).unwrap();
    let (none, hs384) = (br#"{"alg":"none","typ":"JWT"}"#, br#"{"alg":"HS384","typ":"JWT"}"#);
    let with_header = |header: &[u8], signature: &str| {
        format!("{}.{}.{signature}", URL_SAFE_NO_PAD.encode(header), parts[1])
    };
    let kid = String::from_utf8(URL_SAFE_NO_PAD.decode(parts[0]).unwrap()).unwrap();
    let none_with_kid = kid.replace("HS256", "none");
    let tokens: Vec<(&str, Option<String>, &str)> = vec![
        ("none", None, "Authorization"),
        ("expired", Some(expired), "expired"),
        ("of another server", Some(forged.token.expose().clone()), "signature"),
        ("alg none", Some(with_header(none, "")), "malformed"),
        ("alg none with our key id", Some(with_header(none_with_kid.as_bytes(), "")), "malformed"),
        ("alg none and an old signature", Some(with_header(none_with_kid.as_bytes(), parts[2])), "malformed"),
        ("alg HS384", Some(with_header(hs384, parts[2])), "malformed"),
        ("another's claims", Some(format!("{}.{reader}.{}", parts[0], parts[2])), "signature"),
        ("cut", Some(bench.write[..bench.write.len() - 3].to_owned()), "token"),
        ("no signature", Some(format!("{}.{}", parts[0], parts[1])), "malformed"),
        ("garbage", Some("x".to_owned()), "malformed"),
        ("huge", Some("a".repeat(9000)), "malformed"),
        ("not text", Some("\u{e9}\u{e9}".to_owned()), "malformed"),
    ];
    let mut cases = Vec::new();
    for (name, token, says) in tokens {
        let writes = ["/v1/shards", "/v2/shards", "/shards", "/shard/default/x", &at];
        for path in writes {
            let name = format!("{name}: POST {path}");
            cases.push(
                bench
                    .post(&name, path, Body::Whole(bench.xorb()), 401, "unauthorized")
                    .token(token.clone())
                    .says(says),
            );
        }
        for path in [
            format!("/v1/reconstructions/{file}"),
            format!("/v2/reconstructions/{file}"),
            format!("/v1/reconstructions?file_id={file}"),
            format!("/v1/chunks/default/{file}"),
        ] {
            let name = format!("{name}: GET {path}");
            cases.push(bench.get(&name, path, 401, "unauthorized").token(token.clone()).says(says));
        }
        for path in
            [format!("/v1/files/{file}"), format!("/v1/xorbs/default/{}", bench.old.xorbs[0].info.hash())]
        {
            cases.push(
                bench.get(&format!("{name}: HEAD {path}"), path, 401, "").method("HEAD").token(token.clone()),
            );
        }
    }
    for path in ["/v1/shards", "/v2/shards", &at] {
        let name = format!("a token for reading: {path}");
        let case = bench.post(&name, path, Body::Whole(bench.xorb()), 403, "forbidden");
        cases.push(case.token(bench.read.clone()).says("writing"));
    }
    // Another repository's files are not there, whatever the token may do elsewhere.
    for scope in [TokenScope::Read, TokenScope::Write] {
        let other = bench.hub.token(scope, "b");
        for path in [
            format!("/v1/reconstructions/{file}"),
            format!("/v2/reconstructions/{file}"),
            format!("/v1/reconstructions?file_id={file}"),
        ] {
            let name = format!("another repository: {path}");
            cases.push(bench.get(&name, path, 404, "not_found").token(other.clone()).says("file"));
        }
        cases.push(
            bench
                .get("another repository: HEAD", format!("/v1/files/{file}"), 404, "")
                .method("HEAD")
                .token(other),
        );
    }
    bench.run(cases);
}

#[test]
fn data_urls_that_were_altered() {
    let bench = Bench::new();
    let (url, range) = bench.data_url();
    let good = bench.hub.http.send("GET", &url, &[("range", &range)], RequestBody::Nothing).unwrap();
    assert_eq!(good.status, 206);
    let (_, query) = url.split_once('?').unwrap();
    let value = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap().to_owned()
    };
    let (expires, signature, signed) =
        (value("X-Xet-Expires"), value("X-Xet-Signature"), value("X-Xet-Signed-Range"));
    let later = (expires.parse::<u64>().unwrap() + 1).to_string();
    let swap = |text: &str, at: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    let object = url.split_once('?').unwrap().0.rsplit('/').next().unwrap();
    let other = bench.old.xorbs.iter().map(|xorb| xorb.info.hash().to_string());
    let other = other.into_iter().find(|other| *other != object[..64]).unwrap();
    let other_object = format!("{}-{}", other, &object[65..]);
    let key = value("X-Xet-Key");
    let wider = format!("{signed},999999-9999999");
    let case = |name: &str, url: String, code| {
        bench.get(name, url, 403, code).token(None).header("range", range.clone())
    };
    let mut cases = vec![
        case("another expiry", url.replace(&expires, &later), "forbidden"),
        case("no expiry", url.replace("X-Xet-Expires", "X-Expires"), "forbidden"),
        case("expiry overflows", url.replace(&expires, "99999999999999999999999"), "forbidden"),
        case("more ranges", url.replace(&signed, &wider), "forbidden"),
        case("first of the signature", url.replace(&signature, &swap(&signature, 3)), "forbidden"),
        case("middle of the signature", url.replace(&signature, &swap(&signature, 20)), "forbidden"),
        case("no signature", url.replace(&signature, ""), "forbidden"),
        case("long signature", url.replace(&signature, &signature.repeat(2)), "forbidden"),
        case("two signatures", format!("{url}&X-Xet-Signature={signature}"), "forbidden"),
        case("another key", url.replace(&key, "ffffffff"), "forbidden"),
        case("another object", url.replace(object, &other_object), "forbidden"),
        case("no query", url.split_once('?').unwrap().0.to_owned(), "forbidden"),
        case("traversal", url.replace(object, "..%2f..%2fsigning.key"), "forbidden"),
        case("traversal, twice escaped", url.replace(object, "%252e%252e"), "forbidden"),
        bench.get("no range", url.clone(), 403, "forbidden").token(None).says("Range"),
    ];
    for other in [
        "bytes=0-",
        "bytes=0-0",
        "bytes=-1",
        "bytes=0-99999999",
        "bytes=9-0",
        "x",
        &format!("{range},{}", &range[6..]),
    ] {
        let name = format!("Range: {other}");
        cases.push(bench.get(&name, url.clone(), 403, "url_expired").token(None).header("range", other));
    }
    cases.push(bench.get("posting to it", url.clone(), 405, "method_not_allowed").method("POST"));
    cases.push(
        bench
            .get("HEAD of an altered one", url.replace(&expires, &later), 403, "")
            .method("HEAD")
            .header("range", range.clone()),
    );
    bench.run(cases);

    // What was good once is refused when its time is over.
    let key = server::DataKey::parse(object).unwrap();
    let spans = xet::wire::range::parse_bounded_ranges(&range, 9).unwrap();
    let old = server::Signer::new(&KeyRing::new(Key::new([7; 32])))
        .sign(&key, &spans, bench.hub.state.now_s() - 1, false)
        .unwrap();
    bench.run([case("expired", old, "url_expired").says("expired")]);
    let head = bench.hub.http.send("HEAD", &url, &[("range", &range)], RequestBody::Nothing).unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
}
