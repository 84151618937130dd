//! A progress bar on a terminal, for work longer than a second.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Progress over a number of bytes.
#[derive(Debug)]
pub(crate) struct Progress {
    total_bytes: u64,
    done_bytes: u64,
    /// When the bar is due again; none where standard error is no terminal.
    due: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts a bar over `total_bytes`; 0 where unknown.
    pub(crate) fn new(total_bytes: u64) -> Self {
        let due = std::io::stderr().is_terminal().then(|| Instant::now() + Duration::from_secs(1));
        Self { total_bytes, done_bytes: 0, due, bar: None }
    }

    /// Sets the number of bytes that are done.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.done_bytes = bytes;
        let now = Instant::now();
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = Some(now + REDRAW_EVERY);
        let total = self.total_bytes;
        let bar = self.bar.get_or_insert_with(|| ProgressBar::new(total).with_style(style(total)));
        bar.set_position(bytes);
    }

    /// Adds to the number of bytes that are done.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.set(self.done_bytes.saturating_add(bytes));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Runs `work` while a bar follows `cut` over the files at and below `paths`.
pub(crate) fn watch<T>(cut: &client::cut::Progress, paths: &[PathBuf], work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let working =
                || matches!(is_done.recv_timeout(REDRAW_EVERY), Err(mpsc::RecvTimeoutError::Timeout));
            let mut bar = Progress::new(total_bytes(paths));
            while working() {
                bar.set(cut.bytes());
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Bytes of all files; unreadable ones count nothing, and the bar runs past its end.
fn total_bytes(paths: &[PathBuf]) -> u64 {
    let sizes = client::walk::files(paths.to_vec()).map(|path| path.ok()?.metadata().ok());
    sizes.map(|metadata| metadata.map_or(0, |metadata| metadata.len())).sum()
}

fn style(total_bytes: u64) -> ProgressStyle {
    let template = match total_bytes {
        0 => "{spinner} {bytes} {binary_bytes_per_sec}",
        _ => "{bar:30} {percent:>3}% {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
    };
    ProgressStyle::with_template(template).expect("the template is well formed")
}

const REDRAW_EVERY: Duration = Duration::from_millis(100);
