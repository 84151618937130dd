//! Bad input on a real socket: each gets its status and a JSON error that names the thing, and changes nothing.

mod access;
mod paths;

use std::io::{Read as _, Write as _};

use server::StreamTiming;
use testkit::http::{Answer, RequestBody};
use testkit::upload::Upload;
use testkit::vectors::model::{AdversarialKind, Expect};
use testkit::{Vectors, corpus, damage};
use xet::compress::Policy;
use xet::wire::routes::TokenScope;
use xet::wire::{ErrorBody, parse_json};

use crate::hub::{Hub, sample, until};

/// One bad request, and what must come of it.
struct Case {
    name: String,
    method: &'static str,
    path: String,
    token: Option<String>,
    headers: Vec<(&'static str, String)>,
    body: Body,
    status: u16,
    code: &'static str,
    /// What the message must name.
    says: &'static str,
}

enum Body {
    None,
    Whole(Vec<u8>),
    /// The announced length, and what is sent before the client stops sending.
    Cut(u64, Vec<u8>),
    /// The same, but the client keeps the connection.
    Stuck(u64, Vec<u8>),
    Chunked(Vec<u8>),
    ChunkedCut(Vec<u8>),
}

/// What cases are made of.
struct Bench {
    hub: Hub,
    write: String,
    read: String,
    /// Not stored.
    new: Upload,
    /// Stored.
    old: Upload,
}

const XORB_BYTES_MAX: u64 = 2 << 20;
const SHARD_BYTES_MAX: u64 = 1 << 20;

impl Bench {
    fn new() -> Self {
        let hub = Hub::with(
            |config| {
                config.limits.body_timeout_s = 1;
                config.limits.xorb_body_bytes_max = XORB_BYTES_MAX;
                config.limits.shard_body_bytes_max = SHARD_BYTES_MAX;
            },
            StreamTiming::default(),
        );
        let (old, new) = (sample(1).1, sample(50).1);
        hub.cas("a").upload(&old, "/v1/shards").unwrap();
        let (write, read) = (hub.token(TokenScope::Write, "a"), hub.token(TokenScope::Read, "a"));
        Self { hub, write, read, new, old }
    }

    fn xorb_path(&self) -> String {
        format!("/v1/xorbs/default/{}", self.new.xorbs[0].info.hash())
    }

    fn xorb(&self) -> Vec<u8> {
        self.new.xorbs[0].bytes.clone()
    }

    fn post(&self, name: &str, path: impl Into<String>, body: Body, status: u16, code: &'static str) -> Case {
        let (token, path) = (Some(self.write.clone()), path.into());
        Case {
            name: name.to_owned(),
            method: "POST",
            path,
            token,
            headers: Vec::new(),
            body,
            status,
            code,
            says: "",
        }
    }

    fn get(&self, name: &str, path: impl Into<String>, status: u16, code: &'static str) -> Case {
        let (path, body): (String, _) = (path.into(), Body::None);
        // Chunks and xorbs are queried by those who write.
        let writes = path.contains("/chunks/") || path.contains("/chunk/") || path.contains("/xorbs/");
        let token = Some(if writes { self.write.clone() } else { self.read.clone() });
        Case {
            name: name.to_owned(),
            method: "GET",
            path,
            token,
            headers: Vec::new(),
            body,
            status,
            code,
            says: "",
        }
    }

    /// Runs all cases and reports all that went wrong.
    fn run(&self, cases: impl IntoIterator<Item = Case>) {
        let wrong: Vec<_> = cases.into_iter().filter_map(|case| self.judge(&case).err()).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let memory = [&self.hub.state.budget, &self.hub.state.answers];
        until("all memory to be given back", || memory.iter().all(|budget| budget.usage().in_use_bytes == 0));
    }

    fn judge(&self, case: &Case) -> Result<(), String> {
        let before = self.hub.stored();
        let answer = self.send(case);
        let expect = |holds: bool, what: &str| match holds {
            true => Ok(()),
            false => Err(format!("{}: {what}: {} {:.300}", case.name, answer.status, answer.text())),
        };
        expect(answer.status == case.status, &format!("the status is not {}", case.status))?;
        expect(answer.header("x-request-id").is_some(), "it has no id")?;
        if case.method != "HEAD" {
            expect(answer.header("content-type") == Some("application/json"), "it is no JSON")?;
            let body: ErrorBody = parse_json(&answer.body).map_err(|error| error.to_string())?;
            expect(body.code.as_str() == case.code, &format!("the code is not {}", case.code))?;
            expect(body.error.contains(case.says), &format!("it does not say {:?}", case.says))?;
            let reveals = ["objects/", "/tmp", "catalog.db"].iter().any(|place| body.error.contains(place));
            expect(!body.error.is_empty() && !reveals, "it says nothing, or too much")?;
        }
        expect(self.hub.stored() == before, "it changed something")
    }

    fn send(&self, case: &Case) -> Answer {
        let bearer = case.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers: Vec<_> = case.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let sent = match &case.body {
            Body::None => RequestBody::Nothing,
            Body::Whole(bytes) => RequestBody::Whole(bytes),
            Body::Cut(len, bytes) | Body::Stuck(len, bytes) => RequestBody::Announced(*len, bytes),
            Body::Chunked(bytes) => RequestBody::Chunked(bytes, 30_000),
            Body::ChunkedCut(bytes) => RequestBody::ChunkedWithoutEnd(bytes, 30_000),
        };
        let exchange = self.hub.http.begin(case.method, &case.path, &headers, sent).unwrap();
        let exchange = match &case.body {
            Body::Cut(..) | Body::ChunkedCut(_) => exchange.end().unwrap(),
            _ => exchange,
        };
        exchange.finish().unwrap_or_else(|error| panic!("{}: {error}", case.name))
    }
}

impl Case {
    fn token(mut self, token: impl Into<Option<String>>) -> Self {
        self.token = token.into();
        self
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    fn says(mut self, says: &'static str) -> Self {
        self.says = says;
        self
    }
}

#[test]
fn bodies_that_are_not_what_they_should_be() {
    let bench = Bench::new();
    let (at, xorb) = (bench.xorb_path(), bench.xorb());
    let shard = bench.new.shard();
    let other = bench.new.xorbs[1].bytes.clone();
    let half = || xorb[..xorb.len() / 2].to_vec();
    let long = corpus::noise(3, XORB_BYTES_MAX as usize + 1);
    let garbage = corpus::noise(4, 70_000);
    let len = xorb.len() as u64;
    // Sound as far as it may come.
    let large = Upload::of(&[&corpus::noise(5, 2_500_000)], 1000, Policy::Auto);
    let large_at = format!("/v1/xorbs/default/{}", large.xorbs[0].info.hash());
    let mut cases = vec![
        bench.post("another xorb", &at, Body::Whole(other), 400, "hash_mismatch").says("found"),
        bench.post("garbage", &at, Body::Whole(garbage.clone()), 400, "invalid").says("offset 0"),
        bench.post("nothing", &at, Body::Whole(Vec::new()), 400, "invalid").says("xorb"),
        bench.post("nothing, not even a length", &at, Body::None, 400, "invalid").says("xorb"),
        bench.post("half with its own length", &at, Body::Whole(half()), 400, "invalid").says("offset"),
        bench.post("half of what was announced", &at, Body::Cut(len, half()), 400, "invalid").says("body"),
        bench
            .post("half in chunks without an end", &at, Body::ChunkedCut(half()), 400, "invalid")
            .says("body"),
        bench.post("half in chunks with an end", &at, Body::Chunked(half()), 400, "invalid").says("offset"),
        bench.post("a body that stops coming", &at, Body::Stuck(len, half()), 408, "timeout").says("body"),
        bench
            .post("a body that never begins", &at, Body::Stuck(len, Vec::new()), 408, "timeout")
            .says("body"),
        bench.post("too long, and says so", &at, Body::Whole(long.clone()), 413, "too_large").says("2097152"),
        bench.post("far too long, it says", &at, Body::Cut(u64::MAX / 2, half()), 413, "too_large"),
        bench
            .post("more than the xorb", &at, Body::Chunked([&xorb[..], &garbage].concat()), 400, "invalid")
            .says("offset"),
        bench
            .post(
                "too long, and does not say so",
                large_at,
                Body::Chunked(large.xorbs[0].bytes.clone()),
                413,
                "too_large",
            )
            .says("2097152"),
        bench.post("a bomb", &at, Body::Whole(bomb(128 * 1024)), 400, "invalid").says("offset"),
        bench.post("a bomb of modest claims", &at, Body::Whole(bomb(9000)), 400, "invalid").says("offset"),
        bench.post("a shard as a xorb", &at, Body::Whole(shard.clone()), 400, "invalid"),
    ];
    for path in ["/v1/shards", "/v2/shards", "/shards", "/api/v1/shards", "/shard/default/x"] {
        let post =
            |name: &str, body, status, code| bench.post(&format!("{path}: {name}"), path, body, status, code);
        let len = shard.len() as u64;
        let half = || shard[..shard.len() / 2].to_vec();
        cases.extend([
            post("its xorbs are not here", Body::Whole(shard.clone()), 400, "missing_xorb")
                .says("upload it before"),
            post("garbage", Body::Whole(garbage.clone()), 400, "invalid").says("shard: offset 0"),
            post("nothing", Body::Whole(Vec::new()), 400, "invalid").says("shard"),
            post("half", Body::Whole(half()), 400, "invalid").says("offset"),
            post("half of what was announced", Body::Cut(len, half()), 400, "invalid").says("body"),
            post("half in chunks without an end", Body::ChunkedCut(half()), 400, "invalid").says("body"),
            post("too long, and says so", Body::Cut(SHARD_BYTES_MAX + 1, half()), 413, "too_large")
                .says("1048576"),
            post("too long, and does not say so", Body::Chunked(long.clone()), 413, "too_large")
                .says("1048576"),
            post("a xorb", Body::Whole(xorb.clone()), 400, "invalid"),
        ]);
    }
    cases.push(bench.post(
        "a shard that stops coming",
        "/v2/shards",
        Body::Stuck(999, vec![1]),
        408,
        "timeout",
    ));
    for (name, body) in [
        ("a batch that is no JSON", &b"[{"[..]),
        ("a batch that is no list", b"{}"),
        ("a batch of no hashes", br#"[{"prefix":"default","hash":"xyz"}]"#),
    ] {
        cases.push(bench.post(name, "/v1/reconstructions", Body::Whole(body.to_vec()), 400, "invalid"));
    }
    let key = format!(r#"{{"prefix":"default","hash":"{}"}}"#, "0".repeat(64));
    let many = format!("[{}]", vec![key; 1025].join(","));
    cases.push(
        bench
            .post("a batch of too many", "/v1/reconstructions", Body::Whole(many.into()), 400, "invalid")
            .says("1024"),
    );
    cases.push(bench.post(
        "an endless batch",
        "/v1/reconstructions",
        Body::Chunked(vec![b'['; 1 << 20]),
        413,
        "too_large",
    ));
    bench.run(cases);
}

/// Counts and lengths that lie are found out, wherever they stand.
#[test]
fn lies_in_xorbs_and_shards() {
    let bench = Bench::new();
    let (at, xorb) = (bench.xorb_path(), bench.xorb());
    let second = 8 + usize::from(xorb[1]) + (usize::from(xorb[2]) << 8) + (usize::from(xorb[3]) << 16);
    let mut cases = Vec::new();
    for chunk in [0, second] {
        for (what, bytes) in damage::lies_u24(&xorb, chunk + 1)
            .chain(damage::lies_u24(&xorb, chunk + 5))
            .chain(damage::lies(&xorb, chunk + 4, 1))
            .chain(damage::lies(&xorb, chunk, 1))
        {
            cases.push(
                bench
                    .post(&format!("chunk at {chunk}: {what}"), &at, Body::Whole(bytes), 400, "invalid")
                    .says("offset"),
            );
        }
    }
    // Lies about lengths may be found out by the hash instead.
    bench.run_either(cases, &["invalid", "hash_mismatch"]);

    // A shard about what is stored, so that nothing but the lie is wrong with it. Fields that mean nothing may say anything.
    let shard = bench.old.shard();
    let (mut taken, mut refused) = (0, 0);
    let fields = (48..shard.len().min(48 + 48 * 12)).step_by(4).chain(shard.len() - 96..shard.len() - 4);
    for at in fields {
        let (what, bytes) = damage::lies_u32(&shard, at).last().unwrap();
        let before = bench.hub.stored();
        let answer = bench.hub.cas("b").post("/v2/shards", &bytes).unwrap();
        match answer.status {
            200 => taken += 1,
            400 => {
                refused += 1;
                assert_eq!(bench.hub.stored(), before, "{what}");
            }
            status => panic!("{what}: {status} {}", answer.text()),
        }
    }
    assert!(refused > taken, "{refused} refused, {taken} taken");
}

impl Bench {
    fn run_either(&self, cases: Vec<Case>, codes: &[&'static str]) {
        for mut case in cases {
            let answer = self.send(&case);
            let body: ErrorBody = parse_json(&answer.body).unwrap();
            case.code = codes.iter().find(|code| **code == body.code.as_str()).copied().unwrap_or(case.code);
            self.run([case]);
        }
    }
}

/// A refusal reaches also the client that sends everything before it reads anything, and takes a failure to send for a
/// broken network: the rest of the body is taken and thrown away.
#[test]
fn a_refusal_in_the_middle_of_an_upload_is_heard() {
    let hub = Hub::new();
    let body = corpus::noise(1, 20 << 20);
    let xorb = format!("/v1/xorbs/default/{}", sample(1).1.xorbs[0].info.hash());
    let (reader, writer) = (hub.token(TokenScope::Read, "a"), hub.token(TokenScope::Write, "a"));
    for (token, path, status) in [
        ("x", xorb.as_str(), "401"),
        (&reader, &xorb, "403"),
        (&writer, "/v1/xorbs/default/abc", "400"),
        // Garbage, which is known from its first bytes.
        (&writer, &xorb, "400"),
        (&writer, "/nothing", "404"),
        (&writer, "/health", "405"),
    ] {
        let mut stream = hub.http.connect().unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        sent.unwrap_or_else(|error| panic!("{status} {path}: {error}"));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
    }
}

#[test]
fn every_adversarial_vector_gets_its_verdict() {
    let vectors = Vectors::open();
    let hub = Hub::new();
    let cas = hub.cas("a");
    for case in &vectors.manifest.adversarial {
        let bytes = vectors.read(&case.file);
        let is_xorb = matches!(case.kind, AdversarialKind::XorbFooter | AdversarialKind::XorbFooterless);
        let paths = match is_xorb {
            true => vec![format!("/v1/xorbs/default/{}", case.xorb_hash.as_ref().unwrap())],
            false => ["/v1/shards", "/v2/shards", "/shards"].map(str::to_owned).to_vec(),
        };
        for path in paths {
            let before = hub.stored();
            let answer = cas.post(&path, &bytes).unwrap();
            let verdict = (answer.status, case.expect);
            // Shards name xorbs that are not here: those that are sound are refused for that, and for nothing else.
            match verdict {
                (200, Expect::Accept | Expect::Unspecified) if is_xorb => {}
                (400, _) => assert_eq!(hub.stored(), before, "{}", case.file),
                _ => panic!("{}: {verdict:?} {}", case.file, answer.text()),
            }
            if case.expect == Expect::Accept && is_xorb {
                assert_eq!(answer.status, 200, "{}: {}", case.file, answer.text());
            }
            if case.expect == Expect::Accept && case.kind == AdversarialKind::ShardUpload {
                assert!(answer.text().contains("missing_xorb"), "{}: {}", case.file, answer.text());
            }
        }
    }
}

/// A chunk of `claimed` bytes whose LZ4 frame holds 28 MiB of zeros.
fn bomb(claimed: u32) -> Vec<u8> {
    // One literal, a match of it that goes on and on, five literals to end with.
    let mut block = vec![0x1f, 0, 1, 0];
    block.extend(vec![255; 16_440]);
    block.extend([0, 0x50, 0, 0, 0, 0, 0]);
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73];
    for _ in 0..7 {
        frame.extend((block.len() as u32).to_le_bytes());
        frame.extend(&block);
    }
    frame.extend([0; 4]);
    let mut xorb = vec![0];
    xorb.extend(&(frame.len() as u32).to_le_bytes()[..3]);
    xorb.push(1);
    xorb.extend(&claimed.to_le_bytes()[..3]);
    xorb.extend(frame);
    xorb
}
