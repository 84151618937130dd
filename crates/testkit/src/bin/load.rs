//! Loads a server and says how it answered: the benchmarks' client where `hf_xet` is not the one to measure.
//!
//! ```text
//! load requests HOST:PORT TOKEN PATHS CONNECTIONS REQUESTS    GETs the paths of a file, in turn, on kept connections
//! load uploads HOST:PORT TOKEN COUNT MIB                      uploads COUNT xorbs of MIB, all at once
//! ```
//!
//! A path may have a space and a range of bytes after it. Prints one JSON object. The token `-` is none.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{corpus, twin};

const USAGE: &str = "usage: load requests HOST:PORT TOKEN PATHS CONNECTIONS REQUESTS | load uploads HOST:PORT TOKEN COUNT MIB";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["requests", host, token, paths, connections, count] => connections
            .parse()
            .and_then(|connections| count.parse().map(|count| (connections, count)))
            .map(|(connections, count)| requests(host, token, paths, connections, count)),
        ["uploads", host, token, count, mib] => count
            .parse()
            .and_then(|count| mib.parse().map(|mib| (count, mib)))
            .map(|(count, mib): (usize, usize)| Ok(uploads(host, token, count, mib))),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(Ok(report)) => println!("{report}"),
        Ok(Err(error)) => {
            eprintln!("load: {error}");
            return ExitCode::from(1);
        }
        Err(error) => {
            eprintln!("load: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// One kept connection.
struct Connection {
    host: String,
    token: String,
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Connection {
    fn open(host: &str, token: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(600)))?;
        let stream = BufReader::with_capacity(64 * 1024, stream);
        Ok(Self { host: host.to_owned(), token: token.to_owned(), stream, body: Vec::new() })
    }

    /// Sends a request and returns the status of its answer.
    fn request(&mut self, method: &str, path: &str, parts: &[&[u8]]) -> io::Result<u16> {
        let (path, range) = path.split_once(' ').unwrap_or((path, ""));
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        if !range.is_empty() {
            head += &format!("Range: bytes={range}\r\n");
        }
        if self.token != "-" {
            head += &format!("Authorization: Bearer {}\r\n", self.token);
        }
        if method == "POST" {
            head += &format!("Content-Length: {}\r\n", parts.iter().map(|part| part.len()).sum::<usize>());
        }
        head += "\r\n";
        let socket = self.stream.get_mut();
        socket.write_all(head.as_bytes())?;
        for part in parts {
            socket.write_all(part)?;
        }
        self.answer()
    }

    fn answer(&mut self) -> io::Result<u16> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not an answer this client reads");
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(bad)?;
        let mut len = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                None => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    len = value.trim().parse().map_err(|_| bad())?;
                }
                Some((name, _)) if name.eq_ignore_ascii_case("transfer-encoding") => return Err(bad()),
                Some(_) => {}
            }
        }
        self.body.resize(len, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(status)
    }
}

fn requests(host: &str, token: &str, paths: &str, connections: usize, count: usize) -> io::Result<Value> {
    let paths: Vec<String> = std::fs::read_to_string(paths)?.lines().map(str::to_owned).collect();
    let next = AtomicUsize::new(0);
    let begin = Instant::now();
    let worker = || -> io::Result<(Vec<Duration>, usize)> {
        let mut connection = Connection::open(host, token)?;
        let (mut times, mut failed) = (Vec::new(), 0);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok((times, failed));
            }
            let begin = Instant::now();
            let status = connection.request("GET", &paths[number % paths.len()], &[])?;
            times.push(begin.elapsed());
            failed += usize::from(!matches!(status, 200 | 206));
        }
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..connections).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let (mut times, mut failed) = (Vec::new(), 0);
    for part in done {
        let (part, bad) = part?;
        times.extend(part);
        failed += bad;
    }
    times.sort_unstable();
    let quantile = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    Ok(json!({
        "requests": times.len(), "failed": failed, "seconds": seconds, "per_s": times.len() as f64 / seconds,
        "p50_ms": quantile(0.5), "p99_ms": quantile(0.99),
    }))
}

const CHUNK_BYTES: usize = 64 * 1024;

/// Xorbs that differ in their first chunk, so that all of them take the memory of one.
fn uploads(host: &str, token: &str, count: usize, mib: usize) -> Value {
    let chunks = (mib << 20) / (CHUNK_BYTES + 8);
    let records: Vec<Vec<u8>> = (1..chunks).map(|n| corpus::noise(n as u64, CHUNK_BYTES)).collect();
    let hashes: Vec<_> = records.iter().map(|chunk| twin::compute_chunk_hash(chunk)).collect();
    let shared: Arc<Vec<u8>> = Arc::new(records.iter().flat_map(|chunk| record(chunk)).collect());
    drop(records);
    let begin = Instant::now();
    let done: Vec<io::Result<u16>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count)
            .map(|n| {
                let (shared, hashes) = (shared.clone(), &hashes);
                scope.spawn(move || {
                    let first = corpus::noise((1 << 32) | n as u64, CHUNK_BYTES);
                    let all = std::iter::once(twin::compute_chunk_hash(&first)).chain(hashes.iter().copied());
                    let leaves: Vec<_> = all.map(|hash| (hash, CHUNK_BYTES as u64)).collect();
                    let path = format!(
                        "/v1/xorbs/default/{}",
                        twin::hash_to_string(&twin::compute_merkle_root(&leaves))
                    );
                    Connection::open(host, token)?.request("POST", &path, &[&record(&first), &shared])
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    let stored = done.iter().filter(|status| matches!(status, Ok(200))).count();
    let failures: Vec<String> =
        done.iter().filter(|status| !matches!(status, Ok(200))).map(|status| format!("{status:?}")).collect();
    json!({
        "uploads": count, "bytes": count * (shared.len() + CHUNK_BYTES + 8), "stored": stored, "failures": failures,
        "seconds": begin.elapsed().as_secs_f64(),
    })
}

/// A chunk as it is stored uncompressed.
fn record(chunk: &[u8]) -> Vec<u8> {
    let [a, b, c, ..] = (chunk.len() as u32).to_le_bytes();
    [&[0, a, b, c, 0, a, b, c], chunk].concat()
}
