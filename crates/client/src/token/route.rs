//! The token route of a hub: a personal token in, a short-lived token for the CAS routes out.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderValue};
use url::Url;
use xet::wire::{TokenAnswer, parse_json};

use super::{Refresh, Token, Tokens};
use crate::cas::http::{HttpCas, HttpOptions, answer, client, is_private};
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Counter;

/// The CAS routes that the hub at `endpoint` names at `path`, one of [`xet::wire::routes::token`], for whoever holds
/// `personal`. Tokens are fetched again before they expire.
pub async fn connect(
    endpoint: &str,
    path: &str,
    personal: Option<Token>,
    options: HttpOptions,
) -> Result<HttpCas> {
    let url = format!("{}{path}", endpoint.trim_end_matches('/'));
    let parsed = Url::parse(&url)
        .map_err(|source| Error::caused(ErrorKind::Invalid, format!("endpoint {endpoint:?}"), source))?;
    if personal.is_some() && !options.token_in_clear && !is_private(&parsed) {
        let message = format!("endpoint {endpoint:?}: a token is only sent over https, or to this machine");
        return Err(Error::new(ErrorKind::Denied, message));
    }
    let route = Arc::new(Route { url, personal, client: client(&options)?, options: options.clone() });
    let first = route.ask().await?;
    let base = first.cas_url.clone();
    let refresh: Refresh = Arc::new(move || {
        let route = route.clone();
        Box::pin(async move { route.ask().await.map(|answer| token_of(&answer)) })
    });
    let tokens = Tokens::refreshed(refresh).starting_with(token_of(&first));
    HttpCas::new(&base, Some(Arc::new(tokens)), options)
}

fn token_of(answer: &TokenAnswer) -> Token {
    Token::new(answer.access_token.clone()).until(answer.exp)
}

struct Route {
    url: String,
    personal: Option<Token>,
    client: reqwest::Client,
    options: HttpOptions,
}

impl Route {
    async fn ask(&self) -> Result<TokenAnswer> {
        self.options.retry.run(&Counter::default(), || self.ask_once()).await
    }

    async fn ask_once(&self) -> Result<TokenAnswer> {
        let mut request = self.client.get(&self.url);
        if let Some(token) = &self.personal {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| Error::new(ErrorKind::Denied, "the token has characters no token has"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let sent = tokio::time::timeout(Duration::from_secs(60), request.send()).await;
        let sent =
            sent.map_err(|_| Error::new(ErrorKind::Unavailable, format!("{}: no answer", self.url)))?;
        let response = sent.map_err(|source| answer::broken(&self.url, &source))?;
        if !response.status().is_success() {
            return Err(answer::refuse(&self.url, response).await);
        }
        let bytes =
            answer::read_all(&self.url, response, ANSWER_BYTES_MAX, self.options.stall_timeout).await?;
        parse_json(&bytes).map_err(|source| Error::invalid(&self.url, source))
    }
}

/// Tokens and URLs may have 64,000 characters each.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;
