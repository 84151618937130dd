//! Clients that upload and read all the time, and compare later reads with what was acknowledged.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{mem, thread};

use testkit::corpus;
use testkit::upload::{Cas, Failed, Upload};
use xet::FileHash;
use xet::compress::Policy;

/// What became of the work of all clients.
#[derive(Default)]
pub(crate) struct Load {
    stop: AtomicBool,
    next: AtomicU64,
    /// Files that were acknowledged, by the seed of their bytes.
    acknowledged: Mutex<Vec<(u64, FileHash)>>,
    /// What was refused or broke, each time.
    failures: Mutex<Vec<String>>,
}

pub(crate) fn bytes(seed: u64) -> Vec<u8> {
    corpus::noise(seed, 50_000)
}

pub(crate) fn upload(seed: u64) -> Upload {
    Upload::of(&[&bytes(seed)], 4, Policy::Auto)
}

impl Load {
    /// Uploads and reads until stopped; failed requests are retried.
    pub(crate) fn work(&self, cas: &Cas) {
        while !self.stop.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            let upload = upload(seed);
            let file = upload.files[0].hash;
            if self.again(|| cas.upload(&upload, "/v1/shards")).is_none() {
                return;
            }
            self.acknowledged.lock().unwrap().push((seed, file));
            let read = || cas.file(&file).map_err(Failed::from);
            let Some(found) = self.again(read) else { return };
            assert!(found == Some(bytes(seed)), "file {seed} was acknowledged");
        }
    }

    fn again<T>(&self, mut call: impl FnMut() -> Result<T, Failed>) -> Option<T> {
        loop {
            match call() {
                Ok(done) => return Some(done),
                Err(_) if self.stop.load(Ordering::Relaxed) => return None,
                Err(failed) => self.failures.lock().unwrap().push(format!("{failed:?}")),
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// How much was acknowledged so far.
    pub(crate) fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Waits until `more` further uploads were acknowledged.
    pub(crate) fn wait_for(&self, more: usize) {
        let goal = self.count() + more;
        super::until("more is acknowledged", || self.count() >= goal);
    }

    /// What failed since the last time.
    pub(crate) fn failures(&self) -> Vec<String> {
        mem::take(&mut self.failures.lock().unwrap())
    }

    /// Everything that was acknowledged is there.
    pub(crate) fn check(&self, cas: &Cas) -> io::Result<()> {
        for (seed, file) in self.acknowledged.lock().unwrap().iter() {
            assert!(cas.file(file)? == Some(bytes(*seed)), "file {seed} was acknowledged");
        }
        Ok(())
    }
}
