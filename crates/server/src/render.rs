//! Rendering of cards, previews and diffs: on a few threads of its own, with a short queue, and cards cached.
//!
//! What is rendered is untrusted and costs CPU time. On the async threads it would stall every other request; without a
//! limit it would occupy every core. Work that has begun runs to its end, also when its client is gone, and holds its
//! place meanwhile, so all work together is bounded by [`JOBS_MAX`] threads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use moka::future::Cache;
use store::ids::{Oid, RepoId};
use store::names::RepoName;
use tokio::sync::Semaphore;

/// The threads that render, and cards that were rendered. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Renderer {
    permits: Arc<Semaphore>,
    /// Jobs in the queue.
    waiting: Arc<AtomicUsize>,
    /// Requests that wait for a card, each with its bytes.
    viewers: Arc<AtomicUsize>,
    cards: Cache<CardKey, Arc<Card>>,
}

/// A Markdown file, rendered.
#[derive(Debug)]
pub(crate) struct Card {
    /// Sanitised HTML.
    pub(crate) html: String,
    /// The metadata that some begin with, as it is.
    pub(crate) front: Option<String>,
    pub(crate) is_cut: bool,
}

impl Card {
    /// Bytes in memory.
    fn bytes(&self) -> usize {
        self.html.len() + self.front.as_ref().map_or(0, String::len)
    }
}

/// What decides how a card looks: its bytes, and where its relative links lead.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CardKey {
    pub(crate) repo: RepoId,
    pub(crate) name: RepoName,
    pub(crate) revision: String,
    /// The folder of the file, with a slash at its end, or nothing.
    pub(crate) folder: String,
    pub(crate) blob: Oid,
    /// How much of it is read.
    pub(crate) bytes: u64,
}

/// Why nothing was rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRendered {
    /// The queue is full, or nothing became free in time.
    Busy,
    /// The work panicked.
    Failed,
}

impl fmt::Display for NotRendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "The server is busy with other previews. Reload the page to try again.",
            Self::Failed => "The preview could not be rendered.",
        })
    }
}

impl Default for Renderer {
    fn default() -> Self {
        let weigh = |key: &CardKey, card: &Arc<Card>| {
            let bytes = card.bytes() + key.revision.len() + key.folder.len() + 500;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self {
            permits: Arc::new(Semaphore::new(JOBS_MAX)),
            waiting: Arc::default(),
            viewers: Arc::default(),
            cards: Cache::builder()
                .max_capacity(CARD_BYTES_MAX)
                .weigher(weigh)
                .time_to_idle(std::time::Duration::from_secs(600))
                .build(),
        }
    }
}

impl Renderer {
    /// Runs `work` on a thread of the renderer, once one is free.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotRendered> {
        let place = Waiting::enter(&self.waiting, WAITING_MAX).ok_or(NotRendered::Busy)?;
        let permit = tokio::time::timeout(WAIT_MAX, self.permits.clone().acquire_owned()).await;
        drop(place);
        let permit = permit.ok().and_then(Result::ok).ok_or(NotRendered::Busy)?;
        let worked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        worked.await.map_err(|_| NotRendered::Failed)
    }

    /// A card that was rendered before.
    pub(crate) async fn cached(&self, key: &CardKey) -> Option<Arc<Card>> {
        self.cards.get(key).await
    }

    /// Renders a card, once for all who wait for it, and caches it, also when the first client is gone: viewers
    /// that give up would have the same card rendered again and again.
    pub(crate) async fn card(
        &self,
        key: CardKey,
        work: impl FnOnce() -> Card + Send + 'static,
    ) -> Result<Arc<Card>, NotRendered> {
        let renderer = self.clone();
        let rendered = tokio::spawn(async move {
            let _place = Waiting::enter(&renderer.viewers, VIEWERS_MAX).ok_or(NotRendered::Busy)?;
            let rendered = async { renderer.run(work).await.map(Arc::new) };
            renderer.cards.try_get_with(key, rendered).await.map_err(|error| *error)
        });
        rendered.await.unwrap_or(Err(NotRendered::Failed))
    }
}

/// A place in the queue, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize, max: usize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < max).then_some(place)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

const JOBS_MAX: usize = 2;
const WAITING_MAX: usize = 64;
const VIEWERS_MAX: usize = 128;
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Cards in memory.
const CARD_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn who_waits_too_long_or_in_too_long_a_queue_is_turned_away() {
        let renderer = Arc::new(Renderer::default());
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        let mut jobs = Vec::new();
        for _ in 0..JOBS_MAX {
            let (renderer, ended) = (renderer.clone(), ended.clone());
            jobs.push(tokio::spawn(async move {
                renderer.run(move || drop(ended.lock().map(|ended| ended.recv()))).await
            }));
        }
        while renderer.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| {
                let renderer = renderer.clone();
                tokio::spawn(async move { renderer.run(|| 1).await })
            })
            .collect();
        while renderer.waiting.load(Ordering::Relaxed) < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(renderer.run(|| 1).await, Err(NotRendered::Busy), "the queue is full");
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), Err(NotRendered::Busy), "nothing became free");
        }
        drop(end);
        for job in jobs {
            assert_eq!(job.await.unwrap(), Ok(()));
        }
        assert_eq!(renderer.run(|| 1).await, Ok(1));
        assert_eq!(renderer.waiting.load(Ordering::Relaxed), 0);
        assert_eq!(renderer.run(|| panic!("on purpose")).await, Err::<(), _>(NotRendered::Failed));
    }
}
