//! Packs over HTTP, from a server of a few lines that answers ranges and redirects, and counts.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Folder, files, keys, shardpack};

/// Serves `bytes` under `/pack`, redirects `/moved` there, and answers `/plain` without ranges.
fn serve(bytes: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (bytes, counted) = (bytes.clone(), Arc::clone(&counted));
            thread::spawn(move || answer_all(stream, &bytes, &counted));
        }
    });
    (address, count)
}

fn answer_all(stream: TcpStream, bytes: &[u8], count: &AtomicUsize) {
    let mut input = BufReader::new(stream);
    loop {
        let (mut path, mut range) = (String::new(), None);
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(rest) = line.strip_prefix("GET ") {
                path = rest.split(' ').next().unwrap().to_owned();
            }
            if let Some(rest) = line.trim_end().strip_prefix("Range: bytes=") {
                range = Some(rest.to_owned());
            }
            if line == "\r\n" {
                break;
            }
        }
        let size = bytes.len();
        let (head, body): (String, &[u8]) = match (path.as_str(), range) {
            ("/moved", _) => ("302 Found\r\nLocation: /pack".to_owned(), b""),
            ("/plain", _) => ("200 OK".to_owned(), bytes),
            ("/pack", Some(range)) => {
                count.fetch_add(1, Ordering::Relaxed);
                let (first, last) = range.split_once('-').unwrap();
                let (first, end) = if first.is_empty() {
                    (size - size.min(last.parse().unwrap()), size)
                } else {
                    (first.parse().unwrap(), size.min(last.parse::<usize>().unwrap() + 1))
                };
                let head = format!("206 Partial Content\r\nContent-Range: bytes {first}-{}/{size}", end - 1);
                (head, &bytes[first..end])
            }
            _ => ("404 Not Found".to_owned(), b""),
        };
        let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len());
        let output = input.get_mut();
        if output.write_all(head.as_bytes()).and_then(|()| output.write_all(body)).is_err() {
            return;
        }
    }
}

#[test]
fn a_record_of_a_remote_pack_takes_three_requests() {
    let folder = Folder::with_pack();
    let (address, count) = serve(folder.read("a.shardpack"));
    let remote = format!("{address}/pack");
    let image = shardpack(["cat", &remote, "images2/image002", "left.jpg"]).run();
    assert_eq!(image.stdout, files()["images2/image002.left.jpg"], "{}", image.stderr);
    // The end, the key of the record, the record.
    assert!(count.swap(0, Ordering::Relaxed) <= 3);
    assert_eq!(keys(&remote), keys(&folder.at("a.shardpack")));
    assert_eq!(keys(&format!("{address}/{{moved,pack}}")).len(), 26);
    shardpack(["verify", &remote]).run().ok();
    shardpack(["extract", &remote, "--output", &folder.at("out")]).run().ok();
    assert_eq!(folder.all("out"), files());
}

#[test]
fn a_server_that_cannot_help_is_named() {
    let (address, _) = serve(b"not a pack at all".to_vec());
    for (path, said) in [("/none", "/none"), ("/plain", "ranges"), ("/pack", "not a ShardPack file")] {
        let complaint = shardpack(["list", &format!("{address}{path}")]).run().fails(1);
        assert!(complaint.contains(said), "{complaint}");
    }
    assert_eq!(shardpack(["verify", &format!("{address}/pack")]).run().code, Some(2));
    assert!(shardpack(["list", "https://localhost/x"]).run().fails(1).contains("https"));
}
