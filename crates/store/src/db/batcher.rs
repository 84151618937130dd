//! Batcher: concurrent lookups of single keys become one query of the catalog.
//!
//! A query costs two changes of thread and a statement, however many keys it has. While one batch is with the catalog the
//! next one fills; a lone lookup is sent at once. The answers are as fresh as those of single queries: every lookup began
//! before its batch was sent.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};

/// Batches lookups of keys `K` for values `V`. Clones share the queue.
pub(crate) struct Batcher<K, V> {
    shared: Arc<Shared<K, V>>,
}

type Answers<K, V> = Pin<Box<dyn Future<Output = Result<HashMap<K, V>>> + Send>>;

struct Shared<K, V> {
    fetch: Box<dyn Fn(Vec<K>) -> Answers<K, V> + Send + Sync>,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    waiting: Vec<(K, oneshot::Sender<Result<Option<V>>>)>,
    is_fetching: bool,
}

/// Maximum number of keys in a batch.
const BATCH_KEYS_MAX: usize = 256;

impl<K, V> Clone for Batcher<K, V> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K, V> fmt::Debug for Batcher<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Batcher")
    }
}

impl<K, V> Batcher<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + 'static,
{
    /// Creates a batcher that calls `fetch` with distinct keys; keys without a value are left out of its result.
    pub(crate) fn new<F>(fetch: impl Fn(Vec<K>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<HashMap<K, V>>> + Send + 'static,
    {
        let state = Mutex::new(State { waiting: Vec::new(), is_fetching: false });
        let fetch = move |keys: Vec<K>| -> Answers<K, V> { Box::pin(fetch(keys)) };
        Self { shared: Arc::new(Shared { fetch: Box::new(fetch), state }) }
    }

    /// Looks up one key.
    pub(crate) async fn get(&self, key: K) -> Result<Option<V>> {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.waiting.push((key, answer));
            !std::mem::replace(&mut state.is_fetching, true)
        };
        if begins {
            // A task of its own: the first caller may be dropped before the others have their answers.
            tokio::spawn(Fetching { shared: self.shared.clone(), is_over: false }.run());
        }
        answered.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the catalog was not queried")))
    }
}

/// The task that sends batches. However it ends, the next caller can start another one.
struct Fetching<K, V> {
    shared: Arc<Shared<K, V>>,
    is_over: bool,
}

impl<K, V> Fetching<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + 'static,
{
    async fn run(mut self) {
        loop {
            // Callers that are about to add a key join this batch.
            tokio::task::yield_now().await;
            let mut waiting = {
                let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.waiting.is_empty() {
                    state.is_fetching = false;
                    self.is_over = true;
                    return;
                }
                let rest = state.waiting.len().min(BATCH_KEYS_MAX);
                let later = state.waiting.split_off(rest);
                std::mem::replace(&mut state.waiting, later)
            };
            waiting.retain(|(_, answer)| !answer.is_closed());
            let mut keys: Vec<K> = Vec::with_capacity(waiting.len());
            let mut seen = std::collections::HashSet::with_capacity(waiting.len());
            keys.extend(
                waiting.iter().map(|(key, _)| key).filter(|key| seen.insert((*key).clone())).cloned(),
            );
            if keys.is_empty() {
                continue;
            }
            let answers = (self.shared.fetch)(keys).await;
            for (key, answer) in waiting {
                let answer_of = match &answers {
                    Ok(answers) => Ok(answers.get(&key).cloned()),
                    Err(error) => Err(Error::new(error.kind(), error.to_string())),
                };
                // A dropped caller needs no answer.
                let _ = answer.send(answer_of);
            }
        }
    }
}

impl<K, V> Drop for Fetching<K, V> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Ended in the middle, by a panic or with the runtime: the waiting callers see a closed channel.
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.clear();
        state.is_fetching = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Doubles even numbers, has no answer for odd ones, fails on 1000 and panics on 1001.
    fn doubling() -> (Batcher<u64, u64>, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let batcher = Batcher::new(move |keys: Vec<u64>| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                assert!(!keys.contains(&1001), "on purpose");
                match keys.contains(&1000) {
                    true => Err(Error::new(ErrorKind::Unavailable, "no")),
                    false => {
                        Ok(keys.into_iter().filter(|key| key % 2 == 0).map(|key| (key, 2 * key)).collect())
                    }
                }
            }
        });
        (batcher, calls)
    }

    #[tokio::test]
    async fn each_lookup_gets_its_own_value_and_few_queries_are_sent() {
        let (batcher, calls) = doubling();
        let questions = (0..600_u64).chain(0..10).map(|key| {
            let batcher = batcher.clone();
            tokio::spawn(async move { (key, batcher.get(key).await.unwrap()) })
        });
        for answer in questions.collect::<Vec<_>>() {
            let (key, answer) = answer.await.unwrap();
            assert_eq!(answer, (key % 2 == 0).then_some(2 * key));
        }
        assert!(calls.load(Ordering::SeqCst) < 60, "{calls:?}");
    }

    #[tokio::test]
    async fn a_failure_or_a_panic_is_reported_and_the_next_lookup_is_answered() {
        let (batcher, _) = doubling();
        assert_eq!(batcher.get(1000).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(batcher.get(1001).await.unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(batcher.get(4).await.unwrap(), Some(8));
    }

    #[tokio::test]
    async fn who_leaves_does_not_take_the_others_along() {
        let (batcher, _) = doubling();
        let first = tokio::spawn({
            let batcher = batcher.clone();
            async move { batcher.get(2).await }
        });
        tokio::task::yield_now().await;
        let second = tokio::spawn({
            let batcher = batcher.clone();
            async move { batcher.get(4).await }
        });
        tokio::task::yield_now().await;
        first.abort();
        assert_eq!(second.await.unwrap().unwrap(), Some(8));
    }
}
