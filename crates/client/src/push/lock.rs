//! Locking of mutexes whose holders do not panic.

use std::sync::{Mutex, MutexGuard};

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no thread panics while it holds the lock")
}
