//! Fork safety: values that each process makes for itself, such as the runtime that speaks to hubs.
//!
//! A fork copies memory and no thread. What the parent made is left alone in the child, never used and never dropped: dropping
//! would wait for threads that do not exist in it. The child makes its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::Progress;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::{Builder, Runtime};

use crate::error::raise_client;

/// Something that each process makes for itself, when it first needs it.
#[derive(Debug)]
pub(crate) struct ForkSafe<T>(Mutex<Option<(u32, Arc<T>)>>);

impl<T> ForkSafe<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The value of this process, if it was made already.
    pub(crate) fn existing(&self) -> Option<Arc<T>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().filter(|(of, _)| *of == std::process::id()).map(|(_, made)| Arc::clone(made))
    }

    /// The value of this process, made now if there is none.
    pub(crate) fn get_or_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let process = std::process::id();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, made)) = &*held
            && *of == process
        {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        std::mem::forget(held.replace((process, Arc::clone(&made))));
        Ok(made)
    }
}

impl<T> Drop for ForkSafe<T> {
    fn drop(&mut self) {
        let held = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if held.as_ref().is_some_and(|(of, _)| *of != std::process::id()) {
            std::mem::forget(held);
        }
    }
}

/// The runtime of this process.
pub(crate) fn runtime() -> std::io::Result<Arc<Runtime>> {
    static RUNTIME: ForkSafe<Runtime> = ForkSafe::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build())
}

/// Waits for work without holding the interpreter. Ctrl-C ends it, and `callback` is called with counters as it goes on.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    progress: &Arc<Progress>,
    callback: Option<&Py<PyAny>>,
    work: impl AsyncFnOnce() -> client::Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| {
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut work = std::pin::pin!(work());
            loop {
                match tokio::time::timeout(TICK, &mut work).await {
                    Ok(done) => {
                        Python::attach(|py| report(py, progress, callback))?;
                        return done.map_err(|error| raise_client(&error));
                    }
                    Err(_) => {
                        Python::attach(|py| {
                            py.check_signals().and_then(|()| report(py, progress, callback))
                        })?;
                    }
                }
            }
        })
    })
}

fn report(py: Python<'_>, progress: &Progress, callback: Option<&Py<PyAny>>) -> PyResult<()> {
    let Some(callback) = callback else { return Ok(()) };
    let counters = PyDict::new(py);
    for (name, counter) in [
        ("total_bytes", &progress.total_bytes),
        ("done_bytes", &progress.done_bytes),
        ("files", &progress.files),
        ("known_bytes", &progress.known_bytes),
        ("reused_bytes", &progress.reused_bytes),
        ("new_bytes", &progress.new_bytes),
        ("wire_bytes", &progress.wire_bytes),
        ("retries", &progress.retries),
    ] {
        counters.set_item(name, counter.value())?;
    }
    callback.call1(py, (counters,)).map(drop)
}

/// Interval of progress reports and of checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(100);
