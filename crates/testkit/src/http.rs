//! A plain HTTP/1.1 client on a real socket, which can also behave badly: lie about lengths, stop, leave.
//!
//! One request to a connection. The client reads the answer to a request even when not all of it could be sent: that is
//! how a refusal reaches a client in the middle of an upload.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Where to send requests.
#[derive(Debug, Clone)]
pub struct Http {
    address: String,
    timeout: Duration,
}

/// An answer that arrived whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, whatever way it came.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The body as text, or how long it is when it is none.
    pub fn text(&self) -> String {
        let text = std::str::from_utf8(&self.body).map(str::to_owned);
        text.unwrap_or_else(|_| format!("{} bytes that are no text", self.body.len()))
    }
}

/// How a body is sent.
#[derive(Debug, Clone, Copy)]
pub enum RequestBody<'a> {
    /// No body, and no word about one.
    Nothing,
    /// All of it, with its length.
    Whole(&'a [u8]),
    /// With a length that need not be its own; what is missing never comes.
    Announced(u64, &'a [u8]),
    /// In pieces of a size, without a length.
    Chunked(&'a [u8], usize),
    /// The same, but the end never comes.
    ChunkedWithoutEnd(&'a [u8], usize),
}

impl Http {
    /// A client of the server at `http://host:port`.
    ///
    /// # Panics
    ///
    /// If the URL is not such a one.
    pub fn new(base_url: &str) -> Self {
        let address = base_url.strip_prefix("http://").expect("a URL without TLS");
        Self { address: address.to_owned(), timeout: Duration::from_secs(60) }
    }

    /// A connection. Waiting on it for longer than a minute is an error.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        Ok(stream)
    }

    /// Sends a request and reads the whole answer.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: RequestBody<'_>,
    ) -> io::Result<Answer> {
        self.begin(method, path, headers, body)?.finish()
    }

    /// Sends a request; the answer is for the caller to read.
    pub fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: RequestBody<'_>,
    ) -> io::Result<Exchange> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = match body {
            RequestBody::Nothing => None,
            RequestBody::Whole(bytes) => Some(format!("content-length: {}\r\n", bytes.len())),
            RequestBody::Announced(len, _) => Some(format!("content-length: {len}\r\n")),
            RequestBody::Chunked(..) | RequestBody::ChunkedWithoutEnd(..) => {
                Some("transfer-encoding: chunked\r\n".to_owned())
            }
        };
        head.push_str(&length.unwrap_or_default());
        head.push_str("\r\n");
        let mut stream = self.connect()?;
        // A server that refuses may close before it has read everything. What it said still counts.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| write_body(&mut stream, body));
        Ok(Exchange { stream: BufReader::new(stream), is_head: method == "HEAD" })
    }

    /// Sends bytes that need be no request.
    pub fn raw(&self, bytes: &[u8]) -> io::Result<Exchange> {
        let mut stream = self.connect()?;
        let _ = stream.write_all(bytes);
        Ok(Exchange { stream: BufReader::new(stream), is_head: false })
    }
}

fn write_body(stream: &mut TcpStream, body: RequestBody<'_>) -> io::Result<()> {
    match body {
        RequestBody::Nothing => Ok(()),
        RequestBody::Whole(bytes) | RequestBody::Announced(_, bytes) => stream.write_all(bytes),
        RequestBody::Chunked(bytes, step) | RequestBody::ChunkedWithoutEnd(bytes, step) => {
            for piece in bytes.chunks(step) {
                stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
                stream.write_all(piece)?;
                stream.write_all(b"\r\n")?;
            }
            match body {
                RequestBody::Chunked(..) => stream.write_all(b"0\r\n\r\n"),
                _ => Ok(()),
            }
        }
    }
}

/// A request that was sent.
#[derive(Debug)]
pub struct Exchange {
    stream: BufReader<TcpStream>,
    is_head: bool,
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub struct Begun {
    /// The status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    None,
    Length(u64),
    Chunks,
    UntilClosed,
}

impl Exchange {
    /// Says that nothing more will be sent; the answer can still be read.
    pub fn end(self) -> io::Result<Self> {
        self.stream.get_ref().shutdown(Shutdown::Write)?;
        Ok(self)
    }

    /// Reads the status and the headers.
    pub fn head(mut self) -> io::Result<Begun> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "no answer came"))?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None => break,
            }
        }
        let body = match find(&headers, "content-length").and_then(|len| len.parse().ok()) {
            _ if self.is_head || status == 304 || status == 204 => Body::None,
            Some(len) => Body::Length(len),
            None if find(&headers, "transfer-encoding") == Some("chunked") => Body::Chunks,
            None => Body::UntilClosed,
        };
        Ok(Begun { status, headers, stream: self.stream, body })
    }

    /// Reads the whole answer.
    pub fn finish(self) -> io::Result<Answer> {
        self.head()?.finish()
    }
}

impl Begun {
    /// The next piece of the body; empty at its end.
    pub fn piece(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = Vec::new();
        match self.body {
            Body::None => {}
            Body::Length(len) => {
                piece = vec![0; usize::try_from(len).map_err(io::Error::other)?];
                self.stream.read_exact(&mut piece)?;
                self.body = Body::None;
            }
            Body::Chunks => {
                let mut line = String::new();
                self.stream.read_line(&mut line)?;
                let len = usize::from_str_radix(line.trim(), 16);
                piece = vec![0; len.map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))? + 2];
                self.stream.read_exact(&mut piece)?;
                piece.truncate(piece.len() - 2);
                if piece.is_empty() {
                    self.body = Body::None;
                }
            }
            Body::UntilClosed => {
                self.stream.read_to_end(&mut piece)?;
                self.body = Body::None;
            }
        }
        Ok(piece)
    }

    /// Reads the rest.
    pub fn finish(mut self) -> io::Result<Answer> {
        let mut body = Vec::new();
        loop {
            let piece = self.piece()?;
            if piece.is_empty() {
                return Ok(Answer { status: self.status, headers: self.headers, body });
            }
            body.extend(piece);
        }
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}
