//! Progress of uploads by browsers, for the users who began them.
//!
//! Only the server that receives a file knows. Another one over the same store has no such upload, and reports so.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use store::content::PutFileProgress;

/// User who began the upload, and its id from the browser.
type Key = (String, String);

/// The uploads of one server. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningUploads(Arc<Mutex<HashMap<Key, Arc<PutFileProgress>>>>);

impl RunningUploads {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<Key, Arc<PutFileProgress>>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Progress of an upload; `None` when it is over, or of another user.
    pub(crate) fn progress(&self, user: &str, id: &str) -> Option<(u64, u64)> {
        self.with(|running| running.get(&(user.to_owned(), id.to_owned())).map(|progress| progress.now()))
    }
}

/// An upload that is under way, until this is dropped.
pub(super) struct RunningUpload {
    uploads: RunningUploads,
    key: Option<Key>,
    pub(super) progress: Arc<PutFileProgress>,
}

impl RunningUpload {
    /// Registers an upload. If there are too many, or it has no id, its progress cannot be queried.
    pub(super) fn begin(uploads: &RunningUploads, user: &str, id: Option<&str>) -> Self {
        let progress = Arc::new(PutFileProgress::default());
        let id = id.filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()));
        let key = id.map(|id| (user.to_owned(), id.to_owned()));
        let key = key.filter(|key| {
            uploads.with(|running| {
                let has_room = running.len() < UPLOADS_MAX;
                match running.entry(key.clone()) {
                    Entry::Vacant(entry) if has_room => {
                        entry.insert(progress.clone());
                        true
                    }
                    _ => false,
                }
            })
        });
        Self { uploads: uploads.clone(), key, progress }
    }
}

impl Drop for RunningUpload {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.uploads.with(|running| running.remove(key));
        }
    }
}

const UPLOADS_MAX: usize = 1000;
const ID_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_known_to_its_user_until_it_ends() {
        let uploads = RunningUploads::default();
        let upload = RunningUpload::begin(&uploads, "ann", Some("a"));
        assert_eq!(uploads.progress("ann", "a"), Some((0, 0)));
        assert_eq!(uploads.progress("bob", "a"), None);
        // The same name again is not the first one's end.
        drop(RunningUpload::begin(&uploads, "ann", Some("a")));
        drop(RunningUpload::begin(&uploads, "ann", Some("")));
        assert_eq!(uploads.progress("ann", "a"), Some((0, 0)));
        drop(upload);
        assert_eq!(uploads.progress("ann", "a"), None);
        let many: Vec<_> = (0..2 * UPLOADS_MAX)
            .map(|n| RunningUpload::begin(&uploads, "ann", Some(&n.to_string())))
            .collect();
        assert_eq!(uploads.with(|running| running.len()), UPLOADS_MAX);
        drop(many);
        assert_eq!(uploads.with(|running| running.len()), 0);
    }
}
