//! Packs over HTTP: a source that asks for ranges. Plain `http://` only; what is behind TLS comes through a client that speaks it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use shardpack::Source;

/// A file on a server that answers ranges.
#[derive(Debug)]
pub(crate) struct HttpSource {
    address: String,
    size: OnceLock<u64>,
    /// Connections that wait to be used again, with the host they lead to.
    idle: Mutex<Vec<(String, BufReader<TcpStream>)>>,
}

/// Where an address leads.
struct Target {
    host: String,
    path: String,
}

struct Answer {
    status: u16,
    length: Option<u64>,
    /// First byte and size of the whole.
    range: Option<(u64, u64)>,
    location: Option<String>,
    closes: bool,
}

impl HttpSource {
    pub(crate) fn open(address: &str) -> io::Result<Self> {
        if address.starts_with("https://") {
            return Err(io::Error::other("https is not spoken here; download the pack first, or use http"));
        }
        Target::parse(address)?;
        Ok(Self { address: address.to_owned(), size: OnceLock::new(), idle: Mutex::default() })
    }

    /// The bytes of a range, and where the first stands and how many there are in all.
    fn fetch(&self, range: &str, bytes_max: u64) -> io::Result<(u64, u64, Vec<u8>)> {
        let mut address = self.address.clone();
        for _ in 0..REDIRECTS_MAX {
            let target = Target::parse(&address)?;
            let (answer, body) = self.ask(&target, range, bytes_max)?;
            match (answer.status, answer.range, answer.location) {
                (206, Some((first, size)), _) => {
                    let _ = self.size.set(size);
                    return Ok((first, size, body));
                }
                (206, None, _) => return Err(wrong("an answer that does not say which bytes it has")),
                (301 | 302 | 303 | 307 | 308, _, Some(location)) => address = target.follow(&location),
                (200, _, _) => return Err(wrong("the server does not answer ranges")),
                (404, _, _) => return Err(io::Error::from(io::ErrorKind::NotFound)),
                (status, _, _) => return Err(wrong(&format!("the server answers {status}"))),
            }
        }
        Err(wrong("too many redirects"))
    }

    fn ask(&self, target: &Target, range: &str, bytes_max: u64) -> io::Result<(Answer, Vec<u8>)> {
        // A connection that waited may be closed by now: then once more on a new one.
        if let Some(connection) = self.take_idle(&target.host)
            && let Ok(answered) = self.ask_on(connection, target, range, bytes_max)
        {
            return Ok(answered);
        }
        let host =
            if target.host.contains(':') { target.host.clone() } else { format!("{}:80", target.host) };
        let mut failed = io::Error::other("the host has no address");
        for address in host.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(TIMEOUT))?;
                    stream.set_write_timeout(Some(TIMEOUT))?;
                    stream.set_nodelay(true)?;
                    return self.ask_on(BufReader::new(stream), target, range, bytes_max);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn ask_on(
        &self,
        mut connection: BufReader<TcpStream>,
        target: &Target,
        range: &str,
        bytes_max: u64,
    ) -> io::Result<(Answer, Vec<u8>)> {
        let Target { host, path } = target;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nRange: bytes={range}\r\nUser-Agent: shardpack\r\nAccept-Encoding: identity\r\n\r\n"
        );
        connection.get_mut().write_all(request.as_bytes())?;
        let answer = read_head(&mut connection)?;
        let length = answer.length.ok_or_else(|| wrong("an answer of unknown length"))?;
        let is_wanted = answer.status == 206;
        if is_wanted && length > bytes_max {
            return Err(wrong("more bytes than were asked for"));
        }
        if !is_wanted && (length > SMALL_BODY_BYTES || answer.closes) {
            return Ok((answer, Vec::new()));
        }
        let mut body = Vec::new();
        connection.by_ref().take(length).read_to_end(&mut body)?;
        if (body.len() as u64) < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        if !answer.closes {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((target.host.clone(), connection));
        }
        Ok((answer, body))
    }

    fn take_idle(&self, host: &str) -> Option<BufReader<TcpStream>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let place = idle.iter().position(|(known, _)| known == host)?;
        Some(idle.swap_remove(place).1)
    }
}

impl Source for HttpSource {
    fn name(&self) -> &str {
        &self.address
    }

    fn size(&self) -> io::Result<u64> {
        match self.size.get() {
            Some(size) => Ok(*size),
            None => Ok(self.fetch("-1", 1)?.1),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let len = buffer.len() as u64;
        let Some(last) = len.checked_sub(1) else { return Ok(()) };
        let (first, _, body) = self.fetch(&format!("{offset}-{}", offset.saturating_add(last)), len)?;
        if first != offset || body.len() != buffer.len() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        buffer.copy_from_slice(&body);
        Ok(())
    }

    /// One request: the answer says how long the whole is.
    fn read_tail(&self, len: u64) -> io::Result<(u64, Vec<u8>)> {
        let (first, size, body) = self.fetch(&format!("-{len}"), len)?;
        if first.checked_add(body.len() as u64) != Some(size) {
            return Err(wrong("an answer that is not the end"));
        }
        Ok((size, body))
    }
}

impl Target {
    fn parse(address: &str) -> io::Result<Self> {
        let rest = address.strip_prefix("http://").ok_or_else(|| wrong("an address begins with http://"))?;
        let (host, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
        let path = path.split('#').next().unwrap_or(path);
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !plain(host) || !plain(path) {
            return Err(wrong("that is no address"));
        }
        Ok(Self { host: host.to_owned(), path: path.to_owned() })
    }

    fn follow(&self, location: &str) -> String {
        if location.starts_with('/') {
            format!("http://{}{location}", self.host)
        } else {
            location.to_owned()
        }
    }
}

fn read_head(connection: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let mut head = connection.by_ref().take(HEAD_BYTES_MAX);
    let mut line = String::new();
    let mut next = |line: &mut String| -> io::Result<()> {
        line.clear();
        head.read_line(line)?;
        if line.ends_with('\n') { Ok(()) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) }
    };
    next(&mut line)?;
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    let mut answer = Answer {
        status: status.ok_or_else(|| wrong("the server does not speak HTTP"))?,
        length: None,
        range: None,
        location: None,
        closes: line.starts_with("HTTP/1.0"),
    };
    loop {
        next(&mut line)?;
        let text = line.trim_end();
        if text.is_empty() {
            return Ok(answer);
        }
        let Some((name, value)) = text.split_once(':') else { continue };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => answer.length = value.parse().ok(),
            "content-range" => answer.range = parse_content_range(value),
            "location" => answer.location = Some(value.to_owned()),
            "connection" => answer.closes |= value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
}

/// First byte and size of `bytes 0-9/100`.
fn parse_content_range(value: &str) -> Option<(u64, u64)> {
    let (range, size) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, size.trim().parse().ok()?))
}

fn wrong(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}

const REDIRECTS_MAX: usize = 5;
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Bodies of other answers up to this are read, so that the connection can be used again.
const SMALL_BODY_BYTES: u64 = 64 << 10;
const TIMEOUT: Duration = Duration::from_secs(60);
