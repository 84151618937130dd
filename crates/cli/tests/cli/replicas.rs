//! Two servers, each a process with a data folder of its own, over one bucket and one database.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

use reqwest::{Client, StatusCode};
use testkit::postgres::Postgres;
use testkit::s3::S3;
use xet::compress::{Policy, Scheme};
use xet::merkle::MerkleBuilder;
use xet::shard::{ChunkEntry, FileEntry, Form as ShardForm, ShardBuilder, Term, XorbEntry};
use xet::wire::{
    Reconstruction, ReconstructionV1, ReconstructionV2, ShardUploaded, XorbUploaded, parse_json,
};
use xet::xorb::{ChunkDecoder, ChunkReader, Form, SealedXorb, XorbBuilder};
use xet::{ChunkHash, FileHash, RangeHash, Sha256};

use super::{Folder, drystone};

/// A running server; ends with the test.
struct Server {
    child: Child,
    url: String,
    folder: Folder,
}

impl Server {
    fn start(s3: &S3, flags: &[&str]) -> Self {
        let folder = Folder::new();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut child = command(s3, &folder).args(flags).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("{:?}: {}", child.wait(), fs::read_to_string(folder.path().join("log")).unwrap());
            };
            if let Some(url) = line.strip_prefix("listening on ") {
                break url.to_owned();
            }
        };
        // A process blocks when nobody reads the pipe it prints to.
        thread::spawn(move || lines.for_each(drop));
        Self { child, url, folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn token(&self, scope: &str, catalog: &str) -> String {
        let data = self.data();
        let args = [
            "token",
            "create",
            "--cas",
            "--scope",
            scope,
            "--repo",
            "ann/model",
            "--data",
            data.to_str().unwrap(),
            "--catalog",
            catalog,
        ];
        drystone(args).run().ok().trim().to_owned()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(s3: &S3, folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drystone"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_str().unwrap_or_default();
        if text.starts_with("DRYSTONE_") || text.starts_with("AWS_") {
            command.env_remove(&name);
        }
    }
    command.envs(s3.environment()).arg("serve").args(["--listen", "127.0.0.1:0", "--data"]);
    command.arg(folder.path().join("data"));
    command
}

/// A file in one xorb, and the shard that says so.
struct Upload {
    data: Vec<u8>,
    file: FileHash,
    chunks: Vec<(ChunkHash, Vec<u8>)>,
    shard: Vec<u8>,
}

impl Upload {
    fn new(seed: u64) -> Self {
        // Compressible, so that schemes make different bytes of it.
        let noise = testkit::corpus::noise(seed, 300_000);
        let data: Vec<u8> = noise.iter().flat_map(|byte| [*byte, 0, byte & 3]).collect();
        let mut start = 0;
        let mut chunks = Vec::new();
        for end in xet::chunk::cut(&data) {
            chunks.push((ChunkHash::of(&data[start..end]), data[start..end].to_vec()));
            start = end;
        }
        let mut upload = Self { data, file: FileHash::new([0; 32]), chunks, shard: Vec::new() };
        let xorb = upload.xorb(Policy::Auto);
        let mut merkle = MerkleBuilder::default();
        upload.chunks.iter().for_each(|(hash, bytes)| merkle.push(*hash, bytes.len() as u64));
        upload.file = merkle.finish_file();
        let hashes: Vec<_> = upload.chunks.iter().map(|(hash, _)| *hash).collect();
        let all = 0..hashes.len() as u32;
        let term =
            Term { xorb: xorb.info.hash(), flags: 0, raw_bytes: upload.data.len() as u32, chunks: all };
        let mut builder = ShardBuilder::default();
        builder.push_file(FileEntry {
            hash: upload.file,
            verification: Some(vec![RangeHash::of(&hashes)]),
            terms: vec![term],
            sha256: Some(Sha256::new(testkit::sha256(&upload.data))),
        });
        let mut raw_start = 0;
        let entries = upload.chunks.iter().map(|(hash, bytes)| {
            let entry = ChunkEntry { hash: *hash, raw_start, raw_bytes: bytes.len() as u32, flags: 0 };
            raw_start += bytes.len() as u32;
            entry
        });
        builder.push_xorb(XorbEntry {
            hash: xorb.info.hash(),
            flags: 0,
            chunks: entries.collect(),
            raw_bytes: upload.data.len() as u32,
            stored_bytes: xorb.bytes.len() as u32,
        });
        upload.shard = builder.encode(&ShardForm::Upload).unwrap();
        upload
    }

    fn xorb(&self, policy: Policy) -> SealedXorb {
        let mut builder = XorbBuilder::new(policy);
        self.chunks.iter().for_each(|(hash, bytes)| builder.push(*hash, bytes).unwrap());
        builder.seal(Form::Footerless).unwrap()
    }
}

/// Asks a server with a token that any of them gave.
struct Caller {
    client: Client,
    token: String,
}

impl Caller {
    async fn post(&self, server: &Server, path: &str, body: &[u8]) -> (StatusCode, Vec<u8>) {
        let request = self.client.post(format!("{}{path}", server.url)).bearer_auth(&self.token);
        let answer = request.body(body.to_vec()).send().await.unwrap();
        (answer.status(), answer.bytes().await.unwrap().to_vec())
    }

    async fn put_xorb(&self, server: &Server, xorb: &SealedXorb) -> bool {
        let path = format!("/v1/xorbs/default/{}", xorb.info.hash());
        let (status, body) = self.post(server, &path, &xorb.bytes).await;
        assert_eq!(status, 200, "{} {}", String::from_utf8_lossy(&body), server.log());
        parse_json::<XorbUploaded>(&body).unwrap().was_inserted
    }

    async fn put_shard(&self, server: &Server, shard: &[u8]) -> u64 {
        let (status, body) = self.post(server, "/v1/shards", shard).await;
        assert_eq!(status, 200, "{} {}", String::from_utf8_lossy(&body), server.log());
        u64::from(parse_json::<ShardUploaded>(&body).unwrap().result)
    }

    /// A file by both versions, its data fetched without a token.
    async fn read(&self, server: &Server, file: FileHash) -> Vec<u8> {
        let v1: ReconstructionV1 = self.reconstruction(server, "v1", file).await;
        let v2: ReconstructionV2 = self.reconstruction(server, "v2", file).await;
        let first = self.rebuild(&v1.try_into().unwrap()).await;
        assert!(first == self.rebuild(&v2.try_into().unwrap()).await);
        first
    }

    async fn reconstruction<T: serde::de::DeserializeOwned>(
        &self,
        server: &Server,
        version: &str,
        file: FileHash,
    ) -> T {
        let url = format!("{}/{version}/reconstructions/{file}", server.url);
        let answer = self.client.get(url).bearer_auth(&self.token).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", server.log());
        parse_json(&answer.bytes().await.unwrap()).unwrap()
    }

    async fn rebuild(&self, found: &Reconstruction) -> Vec<u8> {
        let mut out = Vec::new();
        for term in &found.terms {
            let (url, range) = found.find(term).unwrap();
            let header = format!("bytes={}-{}", range.stored_bytes.start, range.stored_bytes.end - 1);
            let answer = self.client.get(url).header("range", header).send().await.unwrap();
            assert_eq!(answer.status(), 206, "{url}");
            let bytes = answer.bytes().await.unwrap();
            let mut decoder = ChunkDecoder::new();
            let mut reader = ChunkReader::new(&bytes, 0, &mut decoder);
            let mut number = range.chunks.start;
            while let Some(chunk) = reader.next_chunk().unwrap() {
                if term.chunks.contains(&number) {
                    out.extend_from_slice(chunk.raw);
                }
                number += 1;
            }
        }
        out
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_over_one_bucket_and_one_database_are_one() {
    let Some(postgres) = Postgres::start() else { return };
    let s3 = S3::start();
    for data_urls in ["server", "bucket"] {
        let (objects, catalog) = (s3.fresh_bucket(), postgres.fresh_database());
        let flags = ["--objects", &objects, "--catalog", &catalog, "--data-urls", data_urls];
        // At once, on an empty database: both bring its tables up and offer a key.
        let [a, b] = thread::scope(|scope| {
            [0, 1].map(|_| scope.spawn(|| Server::start(&s3, &flags))).map(|started| started.join().unwrap())
        });
        let admin = [&a, &b].map(|server| fs::read_to_string(server.data().join("admin.token")).unwrap());
        assert_eq!(admin[0], admin[1]);
        let caller = Caller { client: Client::new(), token: a.token("write", &catalog) };

        let one = Upload::new(1);
        assert!(caller.put_xorb(&a, &one.xorb(Policy::Auto)).await);
        assert!(!caller.put_xorb(&b, &one.xorb(Policy::Auto)).await, "{data_urls}: the other knows it");
        assert_eq!(caller.put_shard(&b, &one.shard).await, 1);
        assert!(caller.read(&a, one.file).await == one.data);
        let caller = Caller { token: b.token("write", &catalog), ..caller };
        assert!(caller.read(&a, one.file).await == one.data);
        assert!(caller.read(&b, one.file).await == one.data);

        for round in 0..8 {
            let upload = Upload::new(10 + round);
            let second = [Policy::Auto, Policy::Always(Scheme::Raw)][round as usize % 2];
            let xorbs = [upload.xorb(Policy::Auto), upload.xorb(second)];
            assert_eq!(xorbs[0].bytes == xorbs[1].bytes, round % 2 == 0);
            let (x, y) = tokio::join!(caller.put_xorb(&a, &xorbs[0]), caller.put_xorb(&b, &xorbs[1]));
            assert!(x != y, "one of two is first: {x} {y}");
            let (x, y) =
                tokio::join!(caller.put_shard(&a, &upload.shard), caller.put_shard(&b, &upload.shard));
            assert_eq!(x + y, 1, "one of two is first");
            let (x, y) = tokio::join!(caller.read(&a, upload.file), caller.read(&b, upload.file));
            assert!(x == upload.data && y == upload.data, "round {round}");
        }

        let secrets = [s3.secret(), admin[0].trim(), &caller.token];
        for log in [a.log(), b.log()] {
            assert!(log.contains("reconstructions"), "{log}");
            assert!(!secrets.iter().any(|secret| log.contains(secret)), "{log}");
            assert!(!log.contains("X-Amz-Signature"), "{log}");
        }
    }
}

/// The operator learns what is wrong; the log contains no secrets.
#[test]
fn a_bucket_or_database_that_refuses_ends_the_start_without_printing_secrets() {
    let s3 = S3::start();
    let bucket = s3.fresh_bucket();
    let fails = |name: &str, value: &str, flags: &[&str]| {
        let folder = Folder::new();
        let ended = command(&s3, &folder).env(name, value).args(flags).output().unwrap();
        let output =
            String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(1), "{output}");
        assert!(!output.contains("hush") && !output.contains(s3.secret()), "{output}");
        output
    };
    let output = fails("AWS_SECRET_ACCESS_KEY", "hush", &["--objects", &bucket]);
    assert!(output.contains("check the access key"), "{output}");
    let output = fails("X", "", &["--objects", "s3://nobody-made-this-one"]);
    assert!(output.contains("NoSuchBucket"), "{output}");
    fails("X", "", &["--objects", "s3://key:hush@bucket/prefix"]);
    if let Some(postgres) = Postgres::start() {
        let missing = postgres.fresh_database().replace("postgres@", "postgres:hush@") + "_missing";
        let output = fails("X", "", &["--catalog", &missing]);
        assert!(output.contains("does not exist"), "{output}");
    }
    let output = fails("X", "", &["--data-urls", "bucket"]);
    assert!(output.contains("data_urls"), "{output}");
}
