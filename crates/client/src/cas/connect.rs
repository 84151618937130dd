//! Finds the CAS routes of a hub: its token route takes a personal token and returns a short-lived one, with the address.

use std::sync::Arc;

use xet::wire::{TokenAnswer, parse_json};

use super::http::{HttpCas, HttpOptions};
use crate::error::{Error, Result};
use crate::http::{Http, Request};
use crate::token::{Refresh, Token, Tokens};

/// The CAS routes that the hub at `endpoint` names at `path`, one of [`xet::wire::routes::token`], for the owner of
/// `personal`. Tokens are fetched again before they expire.
pub async fn connect(
    endpoint: &str,
    path: &str,
    personal: Option<Token>,
    options: HttpOptions,
) -> Result<HttpCas> {
    let personal = personal.map(|token| Arc::new(Tokens::fixed(token)));
    let hub = Arc::new(Http::new(endpoint, personal, options)?);
    connect_with(&hub, path).await
}

/// The CAS routes that `hub` names at `path`.
pub(crate) async fn connect_with(hub: &Arc<Http>, path: &str) -> Result<HttpCas> {
    let first = fetch_token(hub, path).await?;
    let (hub, path, options) = (hub.clone(), path.to_owned(), hub.options.clone());
    let refresh: Refresh = Arc::new(move || {
        let (hub, path) = (hub.clone(), path.clone());
        Box::pin(async move { fetch_token(&hub, &path).await.map(|answer| token_of(&answer)) })
    });
    let tokens = Tokens::refreshed(refresh).starting_with(token_of(&first));
    HttpCas::new(&first.cas_url, Some(Arc::new(tokens)), options)
}

async fn fetch_token(hub: &Http, path: &str) -> Result<TokenAnswer> {
    let bytes = hub.send_and_read(&Request::get(path), ANSWER_BYTES_MAX).await?;
    parse_json(&bytes).map_err(|source| Error::invalid(path, source))
}

fn token_of(answer: &TokenAnswer) -> Token {
    Token::new(answer.access_token.clone()).until(answer.exp)
}

/// Tokens and URLs may have 64,000 characters each.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;
