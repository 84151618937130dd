//! Packs over HTTP and HTTPS: a source that requests byte ranges.

use std::io::{self, Read};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use std::{fmt, fs};

use clap::Args;
use client::token::Token;
use reqwest::blocking::{Client, Response};
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_RANGE, HeaderName, HeaderValue, LOCATION, RANGE,
};
use reqwest::{Certificate, StatusCode, Url, redirect};
use shardpack::Source;

use crate::output::CliError;

/// Options for packs that are read from a server.
#[derive(Debug, Args)]
pub(crate) struct Network {
    /// Access token for packs behind URLs; sent over https or to this machine only [default: `$DRYSTONE_TOKEN`, else `$HF_TOKEN`]
    #[arg(long, value_name = "TOKEN", global = true, value_parser = parse_token, help_heading = "Network")]
    token: Option<Token>,

    /// File of certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE", global = true, help_heading = "Network")]
    ca_file: Option<PathBuf>,

    /// Connections, shared by all packs.
    #[arg(skip)]
    client: OnceLock<Client>,
}

/// A file on a server that supports range requests.
pub(crate) struct HttpSource {
    address: String,
    url: Url,
    client: Client,
    /// Sent to the origin of `url` alone.
    authorization: Option<HeaderValue>,
    size: OnceLock<u64>,
}

/// Bytes of a partial response, and their place in the file.
struct Part {
    first: u64,
    file_size: u64,
    bytes: Vec<u8>,
}

impl Network {
    /// Names the file at `address`. Requests nothing yet.
    pub(crate) fn source(&self, address: &str) -> Result<HttpSource, CliError> {
        let failed = |error| CliError::Io(address.to_owned(), error);
        let url = parse_url(address).map_err(failed)?;
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let token = choose_token(self.token.as_ref(), &variable, &url).map_err(failed)?;
        let authorization = token.map(|token| bearer(&token)).transpose().map_err(failed)?;
        if self.client.get().is_none() {
            let client = self.connect()?;
            self.client.get_or_init(|| client);
        }
        let client = self.client.get().expect("set above").clone();
        Ok(HttpSource { address: address.to_owned(), url, client, authorization, size: OnceLock::new() })
    }

    fn connect(&self) -> Result<Client, CliError> {
        let mut builder = Client::builder()
            .user_agent(concat!("shardpack/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(TIMEOUT)
            .timeout(TIMEOUT)
            .tcp_nodelay(true)
            // Followed by `fetch`, which decides where the token goes.
            .redirect(redirect::Policy::none())
            .referer(false);
        if let Some(path) = &self.ca_file {
            let pem = fs::read(path).map_err(|error| CliError::io(path, error))?;
            let parsed = Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
            let certificates = parsed
                .ok_or_else(|| CliError::message(format!("{}: no certificate in it", path.display())))?;
            builder = builder.tls_certs_merge(certificates);
        }
        builder.build().map_err(|error| CliError::message(format!("HTTP client: {error}")))
    }
}

impl HttpSource {
    /// Requests a range of at most `bytes_max` bytes.
    fn fetch(&self, range: &str, bytes_max: u64) -> io::Result<Part> {
        let mut url = self.url.clone();
        for _ in 0..REDIRECTS_MAX {
            let response = self.request(&url, range)?;
            match response.status() {
                StatusCode::PARTIAL_CONTENT => return self.read_part(response, bytes_max),
                status if status.is_redirection() => url = redirect_target(&url, &response)?,
                StatusCode::OK => return Err(io::Error::other("the server does not support byte ranges")),
                StatusCode::NOT_FOUND => return Err(io::Error::from(io::ErrorKind::NotFound)),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    let status = response.status();
                    let why = format!("access denied ({status}); pass --token or set DRYSTONE_TOKEN");
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                }
                status => return Err(io::Error::other(format!("the server answered {status}"))),
            }
        }
        Err(io::Error::other("too many redirects"))
    }

    fn request(&self, url: &Url, range: &str) -> io::Result<Response> {
        let mut request = self.client.get(url.clone());
        request = request.header(RANGE, format!("bytes={range}")).header(ACCEPT_ENCODING, "identity");
        if let Some(value) = &self.authorization
            && url.origin() == self.url.origin()
        {
            request = request.header(AUTHORIZATION, value);
        }
        // The address of a redirect may be signed: it stays out of messages.
        request.send().map_err(|error| io::Error::other(causes(&error.without_url())))
    }

    fn read_part(&self, response: Response, bytes_max: u64) -> io::Result<Part> {
        let range = header(&response, &CONTENT_RANGE).and_then(parse_content_range);
        let (first, file_size) =
            range.ok_or_else(|| io::Error::other("a partial response without Content-Range"))?;
        let announced = response.content_length();
        let mut bytes = Vec::new();
        response.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        let received = bytes.len() as u64;
        if received > bytes_max {
            return Err(io::Error::other("the server sent more bytes than were requested"));
        }
        if announced.is_some_and(|announced| received < announced) {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let _ = self.size.set(file_size);
        Ok(Part { first, file_size, bytes })
    }
}

impl Source for HttpSource {
    fn name(&self) -> &str {
        &self.address
    }

    fn size(&self) -> io::Result<u64> {
        match self.size.get() {
            Some(size) => Ok(*size),
            None => Ok(self.fetch("-1", 1)?.file_size),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let len = buffer.len() as u64;
        let Some(last) = len.checked_sub(1) else { return Ok(()) };
        let part = self.fetch(&format!("{offset}-{}", offset.saturating_add(last)), len)?;
        if part.first != offset || part.bytes.len() != buffer.len() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        buffer.copy_from_slice(&part.bytes);
        Ok(())
    }

    /// One request: the response states the size of the file.
    fn read_tail(&self, len: u64) -> io::Result<(u64, Vec<u8>)> {
        let part = self.fetch(&format!("-{len}"), len)?;
        if part.first.checked_add(part.bytes.len() as u64) != Some(part.file_size) {
            return Err(io::Error::other("the server sent another range than the end of the file"));
        }
        Ok((part.file_size, part.bytes))
    }
}

impl fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSource").field("address", &self.address).finish_non_exhaustive()
    }
}

fn parse_url(address: &str) -> io::Result<Url> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("not a URL: {why}"));
    let url = Url::parse(address).map_err(|error| invalid(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.username().is_empty() && url.password().is_none() => Ok(url),
        "http" | "https" => Err(invalid("user names and passwords belong into --token")),
        _ => Err(invalid("should begin with https:// or http://")),
    }
}

/// The token for `url`. One from the environment goes only to the endpoint that the environment names, where it names one.
fn choose_token(
    argument: Option<&Token>,
    variable: &dyn Fn(&str) -> Option<String>,
    url: &Url,
) -> io::Result<Option<Token>> {
    if let Some(token) = argument {
        if !is_private(url) {
            return Err(io::Error::other("a token is only sent over https, or to this machine"));
        }
        return Ok(Some(token.clone()));
    }
    let endpoint = variable("DRYSTONE_ENDPOINT").or_else(|| variable("HF_ENDPOINT"));
    let is_named = endpoint
        .is_none_or(|endpoint| Url::parse(&endpoint).is_ok_and(|endpoint| endpoint.origin() == url.origin()));
    let token = variable("DRYSTONE_TOKEN").or_else(|| variable("HF_TOKEN"));
    Ok(token.filter(|_| is_named && is_private(url)).map(Token::new))
}

/// Whether a request to `url` cannot be read on the way: TLS, or a loopback address.
fn is_private(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    url.scheme() == "https"
        || host == "localhost"
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn bearer(token: &Token) -> io::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
        .map_err(|_| io::Error::other("the token has characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn redirect_target(from: &Url, response: &Response) -> io::Result<Url> {
    let location = header(response, &LOCATION).and_then(|location| from.join(location).ok());
    let target = location.ok_or_else(|| io::Error::other("a redirect that leads nowhere"))?;
    match (from.scheme(), target.scheme()) {
        (_, "https") | ("http", "http") => Ok(target),
        _ => Err(io::Error::other("refusing a redirect that leaves https")),
    }
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// First byte and file size of `bytes 0-9/100`.
fn parse_content_range(value: &str) -> Option<(u64, u64)> {
    let (range, size) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, size.trim().parse().ok()?))
}

/// The error and what caused it: the outermost alone says little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Accepts any text, as a type that is never printed.
fn parse_token(text: &str) -> Result<Token, std::convert::Infallible> {
    Ok(Token::new(text))
}

const REDIRECTS_MAX: usize = 5;
/// For connecting, for a response to begin, and for each piece of it.
const TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(argument: Option<&str>, variables: &[(&str, &str)], url: &str) -> Option<String> {
        let variable = |name: &str| {
            variables.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned())
        };
        let argument = argument.map(Token::new);
        let token = choose_token(argument.as_ref(), &variable, &Url::parse(url).unwrap()).ok()?;
        Some(token.map_or_else(String::new, |token| token.expose().to_owned()))
    }

    #[test]
    fn a_token_is_sent_over_https_or_to_this_machine_only() {
        for (url, fine) in [
            ("https://hub.example.com/x", true),
            ("http://127.0.0.1:8080/x", true),
            ("http://[::1]:8080/x", true),
            ("http://localhost:1/x", true),
            ("http://hub.example.com/x", false),
            ("http://127.0.0.1.example.com/x", false),
            ("http://10.0.0.1/x", false),
        ] {
            assert_eq!(chosen(Some("t"), &[], url).is_some(), fine, "{url}: refused, not dropped");
            let expected = if fine { "e" } else { "" };
            assert_eq!(chosen(None, &[("HF_TOKEN", "e")], url).as_deref(), Some(expected), "{url}");
        }
    }

    #[test]
    fn a_token_of_the_environment_goes_to_its_own_endpoint() {
        let named = [("DRYSTONE_ENDPOINT", "https://hub.example.com/"), ("DRYSTONE_TOKEN", "e")];
        let both = [named[0], named[1], ("HF_ENDPOINT", "https://other"), ("HF_TOKEN", "h")];
        for (variables, url, expected) in [
            (&named[..], "https://hub.example.com/x", "e"),
            (&named[..], "https://elsewhere.example.com/x", ""),
            (&named[..], "https://hub.example.com:444/x", ""),
            (&both[..], "https://hub.example.com/x", "e"),
            (&both[..], "https://other/x", ""),
        ] {
            assert_eq!(chosen(None, variables, url).as_deref(), Some(expected), "{url}");
        }
        assert_eq!(
            chosen(Some("t"), &named, "https://elsewhere").as_deref(),
            Some("t"),
            "an argument outweighs the environment"
        );
    }

    #[test]
    fn only_http_urls_without_passwords_are_opened() {
        for bad in ["ftp://host/x", "http://ann:secret@host/x", "http://", "x"] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
        assert!(parse_url("http://host/x?y#z").is_ok());
    }
}
