//! Tokens: never printed, and refreshed before they expire.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use tokio::sync::Mutex;

use crate::error::Result;

/// A bearer token. Nothing prints it.
#[derive(Clone)]
pub struct Token {
    text: String,
    expires: Option<SystemTime>,
}

impl Token {
    /// A token without a known expiry.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), expires: None }
    }

    /// The same token, known to expire then, in seconds since 1970.
    pub(crate) fn until(mut self, expires_s: u64) -> Self {
        self.expires = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(expires_s));
        self
    }

    /// The secret itself, for a header.
    pub fn expose(&self) -> &str {
        &self.text
    }

    fn is_fresh(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now + REFRESH_AHEAD < expires)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Fetches a new token.
pub type Refresh = Arc<dyn Fn() -> BoxFuture<'static, Result<Token>> + Send + Sync>;

/// The token in use, and where the next one comes from. Many requests share it; one at a time refreshes.
pub struct Tokens {
    current: Mutex<Option<Token>>,
    refresh: Option<Refresh>,
}

impl Tokens {
    /// One token and no other.
    pub fn fixed(token: Token) -> Self {
        Self { current: Mutex::new(Some(token)), refresh: None }
    }

    /// Tokens from a callback: called for the first one, before one expires, and once when one is refused.
    pub fn refreshed(refresh: Refresh) -> Self {
        Self { current: Mutex::new(None), refresh: Some(refresh) }
    }

    /// The same, with a first token that was fetched already.
    pub(crate) fn starting_with(mut self, token: Token) -> Self {
        *self.current.get_mut() = Some(token);
        self
    }

    /// The token to send now.
    pub(crate) async fn current(&self) -> Result<Option<Token>> {
        let mut current = self.current.lock().await;
        let fresh = current.as_ref().is_some_and(|token| token.is_fresh(SystemTime::now()));
        if !fresh && let Some(refresh) = &self.refresh {
            *current = Some(refresh().await?);
        }
        Ok(current.clone())
    }

    /// A token in place of one that was refused; `None` when there is no other.
    pub(crate) async fn instead_of(&self, refused: &Token) -> Result<Option<Token>> {
        let Some(refresh) = &self.refresh else { return Ok(None) };
        let mut current = self.current.lock().await;
        // Another request may have refreshed it meanwhile.
        if current.as_ref().is_none_or(|token| token.text == refused.text) {
            *current = Some(refresh().await?);
        }
        Ok(current.clone())
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("refreshes", &self.refresh.is_some()).finish_non_exhaustive()
    }
}

/// A token is replaced so long before it expires: a request that starts with it may take a while.
const REFRESH_AHEAD: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn counting(lifetime_s: u64) -> (Tokens, Arc<AtomicU64>) {
        let fetches = Arc::new(AtomicU64::new(0));
        let count = fetches.clone();
        let refresh: Refresh = Arc::new(move || {
            let n = count.fetch_add(1, Ordering::Relaxed) + 1;
            let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            Box::pin(async move { Ok(Token::new(format!("secret-{n}")).until(now_s + lifetime_s)) })
        });
        (Tokens::refreshed(refresh), fetches)
    }

    #[tokio::test]
    async fn a_token_is_fetched_once_and_again_when_it_is_about_to_expire() {
        let (tokens, fetches) = counting(3600);
        for _ in 0..3 {
            assert_eq!(tokens.current().await.unwrap().unwrap().expose(), "secret-1");
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 1);
        let (tokens, fetches) = counting(30);
        for _ in 0..3 {
            tokens.current().await.unwrap();
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_refused_token_is_replaced_once_however_many_saw_it_refused() {
        let (tokens, fetches) = counting(3600);
        let first = tokens.current().await.unwrap().unwrap();
        for _ in 0..2 {
            assert_eq!(tokens.instead_of(&first).await.unwrap().unwrap().expose(), "secret-2");
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 2);
        let fixed = Tokens::fixed(Token::new("only"));
        assert!(fixed.instead_of(&Token::new("only")).await.unwrap().is_none());
        assert!(!format!("{first:?} {fixed:?} {tokens:?}").contains("secret-"));
    }
}
