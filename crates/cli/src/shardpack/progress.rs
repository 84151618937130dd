//! A progress bar on a terminal, for work longer than a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Follows a number of bytes.
#[derive(Debug)]
pub(crate) struct Progress {
    total_bytes: u64,
    done_bytes: u64,
    started: Instant,
    drawn: Option<Instant>,
    bar: Option<ProgressBar>,
    shown: bool,
}

impl Progress {
    /// Starts a bar over `total` bytes; 0 where unknown.
    pub(crate) fn new(total_bytes: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        Self { total_bytes, done_bytes: 0, started: Instant::now(), drawn: None, bar: None, shown }
    }

    /// That many bytes are done.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.done_bytes = bytes;
        if !self.shown {
            return;
        }
        let now = Instant::now();
        let waited = now.duration_since(self.drawn.unwrap_or(self.started));
        if waited < if self.drawn.is_some() { Duration::from_millis(100) } else { Duration::from_secs(1) } {
            return;
        }
        self.drawn = Some(now);
        let total = self.total_bytes;
        let bar = self.bar.get_or_insert_with(|| ProgressBar::new(total).with_style(style(total)));
        bar.set_position(bytes);
    }

    /// That many more bytes are done.
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

fn style(total: u64) -> ProgressStyle {
    let template = if total == 0 {
        "{spinner} {bytes} {binary_bytes_per_sec}"
    } else {
        "{bar:30} {percent:>3}% {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}"
    };
    ProgressStyle::with_template(template).expect("the template is well formed")
}
