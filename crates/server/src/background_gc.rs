//! Garbage collection in the background: at intervals one of the servers over a store deletes what is unreferenced.

use std::time::Duration;

use store::audit::{self, Actor, AuditEvent};
use store::upkeep::{GcOptions, GcProgress};
use store::{ErrorKind, Store};

use crate::config::ServeConfig;

/// Sweeps at intervals, for as long as it is polled. Of several servers one does it, the others find it under way.
pub async fn collect_at_intervals(store: Store, config: &ServeConfig) {
    let (interval_s, grace_s) = (config.sweep_interval_s, config.sweep_grace_s);
    if interval_s == 0 {
        return std::future::pending().await;
    }
    let options = GcOptions { grace_s, rate_per_s: Some(RATE_PER_S), ..GcOptions::default() };
    let mut refused = None;
    loop {
        // Not at the start: a server that is restarted again and again has better things to do.
        tokio::time::sleep(Duration::from_secs(interval_s)).await;
        let begin = std::time::Instant::now();
        let progress = GcProgress::default();
        match audit::by(Actor::named("background sweep"), store.upkeep().collect_garbage(&options, &progress))
            .await
        {
            Ok(report) => {
                metrics::counter!("drystone_sweeps_total", "result" => "done").increment(1);
                metrics::counter!("drystone_swept_bytes_total").increment(report.deleted_bytes);
                metrics::counter!("drystone_swept_objects_total").increment(report.deleted);
                let (files, deleted, bytes) = (report.files, report.deleted, report.deleted_bytes);
                let seconds = begin.elapsed().as_secs_f64();
                tracing::info!(files, condemned = report.condemned, deleted, bytes, seconds, "swept");
                for skipped in report.skipped {
                    tracing::warn!(repository = skipped, "not swept");
                }
            }
            // Another server is at it.
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) if error.kind() == ErrorKind::Denied => {
                metrics::counter!("drystone_sweeps_total", "result" => "refused").increment(1);
                let message = error.to_string();
                // Once for each cause: the next run finds the same.
                if refused.as_ref() != Some(&message) {
                    tracing::warn!("{message}");
                    record_refusal(&store, &message).await;
                    refused = Some(message);
                }
            }
            Err(error) => {
                metrics::counter!("drystone_sweeps_total", "result" => "failed").increment(1);
                tracing::warn!(%error, "the sweep broke off; the next one takes it up");
            }
        }
    }
}

async fn record_refusal(store: &Store, message: &str) {
    let event = AuditEvent::new("upkeep", "store", message);
    let noted = audit::by(Actor::named("background sweep"), store.hub().log_event(&event)).await;
    if let Err(error) = noted {
        tracing::warn!(%error, "the audit log was not written");
    }
}

/// Rows and objects in a second: slow enough that requests do not notice.
const RATE_PER_S: u64 = 2000;
