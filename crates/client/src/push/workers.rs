//! The worker threads: each reads files of its own, or compresses for those who do.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::PushOptions;
use super::dedup_index::DedupIndex;
use super::packer::{Packer, Task, Worker};
use super::reader;
use super::sender::Produced;
use crate::cas::Cas;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

/// Handle of the workers.
pub(super) struct Workers(JoinHandle<Vec<Error>>);

impl Workers {
    /// Starts the workers. They send to `sender` what they produce; when that is closed they stop.
    pub(super) fn start(
        cas: Arc<dyn Cas>,
        paths: Vec<PathBuf>,
        known: DedupIndex,
        options: &PushOptions,
        progress: Arc<Progress>,
        sender: mpsc::Sender<Produced>,
    ) -> Self {
        let packer = Packer::new(cas, paths, known, options, progress, sender);
        Self(tokio::task::spawn_blocking(move || run(packer)))
    }

    /// Waits for the end and returns the errors of files that could not be read.
    pub(super) async fn join(self) -> Result<Vec<Error>> {
        self.0.await.map_err(|source| Error::caused(ErrorKind::Internal, "reading files", source))
    }
}

fn run(packer: Packer) -> Vec<Error> {
    std::thread::scope(|scope| {
        for _ in 1..packer.options.threads.get() {
            scope.spawn(|| work(&packer));
        }
        work(&packer);
    });
    packer.ship_rest();
    packer.into_unread()
}

fn work(packer: &Packer) {
    let _end = StopOnPanic(packer);
    let mut worker = Worker::new(packer.options.compression);
    while let Some(task) = packer.take_task() {
        match task {
            Task::Job(job) => packer.run_job(&mut worker, job),
            Task::File(index, path) => {
                let read = reader::read(packer, &mut worker, index, path);
                packer.end_file(read.is_err());
            }
        }
    }
}

/// Stops the other workers when one panics: they would wait for it for ever.
struct StopOnPanic<'a>(&'a Packer);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
