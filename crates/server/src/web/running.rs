//! Uploads of browsers that are under way: how far each is, for whoever began it.
//!
//! Only the server that takes a file knows. Another one over the same store has no such upload, and says so.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use store::content::IntakeProgress;

use crate::state::AppState;

/// By who began it and what their browser calls it.
type Key = (String, String);

/// The uploads of one server.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashMap<Key, Arc<IntakeProgress>>>);

impl Running {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<Key, Arc<IntakeProgress>>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far an upload is; nothing when it is over, or somebody else's.
    pub(super) fn of(&self, who: &str, id: &str) -> Option<(u64, u64)> {
        self.with(|running| running.get(&(who.to_owned(), id.to_owned())).map(|progress| progress.now()))
    }
}

/// An upload that is under way, until this is dropped.
pub(super) struct Upload {
    state: AppState,
    key: Option<Key>,
    pub(super) progress: Arc<IntakeProgress>,
}

impl Upload {
    /// Begins one. If there are too many, or it has no name to be asked for by, nobody can look at it.
    pub(super) fn begin(state: &AppState, who: &str, id: Option<&str>) -> Self {
        let progress = Arc::new(IntakeProgress::default());
        let id = id.filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()));
        let key = id.map(|id| (who.to_owned(), id.to_owned()));
        let key = key.filter(|key| {
            state.running.with(|running| {
                let has_room = running.len() < UPLOADS_MAX;
                match running.entry(key.clone()) {
                    Entry::Vacant(place) if has_room => {
                        place.insert(progress.clone());
                        true
                    }
                    _ => false,
                }
            })
        });
        Self { state: state.clone(), key, progress }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.state.running.with(|running| running.remove(key));
        }
    }
}

const UPLOADS_MAX: usize = 1000;
const ID_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, KeyRing, ServeConfig};

    #[test]
    fn an_upload_is_known_to_whoever_began_it_until_it_ends() {
        let keys = KeyRing::new(Key::new([7; 32]));
        let state = AppState::new(ServeConfig::default(), &keys, ([127, 0, 0, 1], 1).into());
        let upload = Upload::begin(&state, "ann", Some("a"));
        assert_eq!(state.running.of("ann", "a"), Some((0, 0)));
        assert_eq!(state.running.of("bob", "a"), None);
        // The same name again is not the first one's end.
        drop(Upload::begin(&state, "ann", Some("a")));
        drop(Upload::begin(&state, "ann", Some("")));
        assert_eq!(state.running.of("ann", "a"), Some((0, 0)));
        drop(upload);
        assert_eq!(state.running.of("ann", "a"), None);
        let many: Vec<_> =
            (0..2 * UPLOADS_MAX).map(|n| Upload::begin(&state, "ann", Some(&n.to_string()))).collect();
        assert_eq!(state.running.with(|running| running.len()), UPLOADS_MAX);
        drop(many);
        assert_eq!(state.running.with(|running| running.len()), 0);
    }
}
