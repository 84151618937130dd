//! A progress bar on a terminal, for work longer than a second.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use client::cut::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Does `work` while a bar on standard error follows `progress` over the files at and below `paths`.
pub(crate) fn watch<T>(progress: &Progress, paths: &[PathBuf], work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let working = |wait| matches!(is_done.recv_timeout(wait), Err(mpsc::RecvTimeoutError::Timeout));
            if !working(Duration::from_secs(1)) {
                return;
            }
            let bar = ProgressBar::new(total_bytes(paths)).with_style(style());
            while working(Duration::from_millis(100)) {
                bar.set_position(progress.bytes());
            }
            bar.finish_and_clear();
        });
        let result = work();
        drop(done);
        result
    })
}

/// Bytes to come; files that cannot be seen count nothing, and the bar goes on past its end.
fn total_bytes(paths: &[PathBuf]) -> u64 {
    let sizes = client::walk::files(paths.to_vec()).map(|path| path.ok()?.metadata().ok());
    sizes.map(|metadata| metadata.map_or(0, |metadata| metadata.len())).sum()
}

fn style() -> ProgressStyle {
    let template = "{bar:30} {percent:>3}% {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
    ProgressStyle::with_template(template).expect("the template is well formed")
}
