//! A push or a pull from its start to its end, with a line on a terminal while it takes longer than a second.

use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Progress;
use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressStyle};

use crate::output::{CliError, complain, fail};

/// Runs `work` until it ends or Ctrl-C; `describe` gives the text beside the progress bar.
pub(crate) fn run<T>(
    progress: &Arc<Progress>,
    describe: fn(&Progress) -> String,
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        let watching = io::stderr().is_terminal().then(|| tokio::spawn(watch(progress.clone(), describe)));
        let done = tokio::select! {
            done = work => done,
            _ = tokio::signal::ctrl_c() => {
                fail("interrupted; run it again to go on where it stopped")
            }
        };
        if let Some(watching) = watching {
            watching.abort();
            // The bar is taken away when its task ends.
            let _ = watching.await;
        }
        done
    });
    // Work on threads cannot be stopped, and need not be waited for: what it writes is what it should.
    runtime.shutdown_background();
    done
}

/// Runs `work` with a deadline in seconds.
pub(crate) async fn in_time<T>(
    seconds: Option<u64>,
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let Some(seconds) = seconds else { return work.await };
    let late = |_| CliError::Message(format!("not done after {seconds} s; run it again to go on"));
    tokio::time::timeout(Duration::from_secs(seconds), work).await.map_err(late)?
}

/// Progress text of an upload.
pub(crate) fn sent(progress: &Progress) -> String {
    format!(
        "{} known, {} sent",
        BinaryBytes(progress.known_bytes.value()),
        BinaryBytes(progress.wire_bytes.value())
    )
}

/// Progress text of a download.
pub(crate) fn fetched(progress: &Progress) -> String {
    format!("{} fetched", BinaryBytes(progress.wire_bytes.value()))
}

/// Reports the temporary files of interrupted downloads that were resumed or removed.
pub(crate) fn report_leftovers(progress: &Progress) {
    let (resumed, removed) = (progress.resumed_files.value(), progress.leftovers.value());
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    if resumed > 0 {
        complain(&format_args!(
            "resumed {resumed} partial file{} of an interrupted download",
            plural(resumed)
        ));
    }
    if removed > 0 {
        complain(&format_args!("removed {removed} leftover{} of interrupted downloads", plural(removed)));
    }
}

/// Share that was saved, as text.
pub(crate) fn saved_percent(all_bytes: u64, needed_bytes: u64) -> f64 {
    let needed = needed_bytes as f64 / all_bytes.max(1) as f64;
    (1000.0 * (1.0 - needed.min(1.0))).round() / 10.0
}

async fn watch(progress: Arc<Progress>, describe: fn(&Progress) -> String) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let template = "{bar:20} {percent:>3}% {bytes}/{total_bytes} {msg}";
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    let bar = Bar(ProgressBar::new(0).with_style(style));
    let (started, before) = (Instant::now(), progress.done_bytes.value());
    loop {
        let done = progress.done_bytes.value();
        let total = progress.total_bytes.value().max(done);
        let rate = (done - before) as f64 / started.elapsed().as_secs_f64().max(0.1);
        // Before anything moved nobody can tell.
        let left = (done > before).then(|| Duration::from_secs_f64(((total - done) as f64 / rate).min(1e9)));
        let left = left.map_or(String::new(), |left| format!(", {} left", HumanDuration(left)));
        bar.0.set_length(total);
        bar.0.set_position(done);
        bar.0.set_message(format!(
            "{}, {} files, {}/s{left}",
            describe(&progress),
            progress.files.value(),
            BinaryBytes(rate as u64)
        ));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Removed with its task.
struct Bar(ProgressBar);

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
