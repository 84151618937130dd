//! Numbers for Prometheus.

use std::fmt;
use std::time::Duration;

use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

/// The numbers, ready to be shown.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Makes this process count. Once per process: a second time is an error.
    pub fn install() -> Result<Self, BuildError> {
        let handle = builder()?.install_recorder()?;
        for (name, kind, _, what) in TABLE {
            match *kind {
                "counter" => metrics::describe_counter!(*name, *what),
                "gauge" => metrics::describe_gauge!(*name, *what),
                _ => metrics::describe_histogram!(*name, *what),
            }
        }
        Ok(Self(handle))
    }

    /// Sums up what was recorded, again and again. Until then each time that was measured is in memory, and a server that
    /// nobody reads numbers from would hold them for ever.
    pub async fn sum_up(self) {
        loop {
            tokio::time::sleep(SUM_UP_AFTER).await;
            self.0.run_upkeep();
        }
    }

    /// A recorder that counts only where it is set, for tests.
    pub fn local() -> Result<(PrometheusRecorder, Self), BuildError> {
        let recorder = builder()?.build_recorder();
        let handle = recorder.handle();
        Ok((recorder, Self(handle)))
    }

    /// Everything counted so far, in Prometheus' text format.
    pub fn render(&self) -> String {
        self.0.run_upkeep();
        self.0.render()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Every number: its name, its kind, its labels, and what it counts. The page `docs/operations/metrics.md` has the same.
pub const TABLE: &[(&str, &str, &str, &str)] = &[
    ("drystone_catalog_seconds", "histogram", "call", "calls of the catalog"),
    (
        "drystone_connections_evicted_total",
        "counter",
        "",
        "idle connections that were closed to make room for new ones",
    ),
    (
        "drystone_connections_refused_total",
        "counter",
        "",
        "connections of addresses that had as many requests as they may have",
    ),
    ("drystone_dedup_queries_total", "counter", "found", "dedup queries: `hit` or `miss`"),
    ("drystone_digests_refused_total", "counter", "", "claimed SHA-256 digests that the bytes do not have"),
    ("drystone_files_registered_total", "counter", "", "files of accepted shards"),
    ("drystone_http_request_seconds", "histogram", "route", "requests until the answer begins"),
    ("drystone_http_requests_in_flight", "gauge", "", "requests that have no answer yet"),
    ("drystone_http_requests_total", "counter", "method, route, status", "requests that were answered"),
    ("drystone_ingest_seconds", "histogram", "", "uploads of xorbs, from the first byte to the answer"),
    ("drystone_memory_budget_bytes", "gauge", "share", "bytes of the memory budget: `uploads` or `answers`"),
    ("drystone_memory_in_use_bytes", "gauge", "share", "bytes of it that are handed out"),
    ("drystone_memory_waiting_requests", "gauge", "share", "requests that wait for some"),
    (
        "drystone_object_seconds",
        "histogram",
        "call",
        "calls of the object store: `put`, `get` (until bytes come) or `head`",
    ),
    ("drystone_panics_total", "counter", "", "requests that ended in a fault of the server's own"),
    (
        "drystone_received_bytes_total",
        "counter",
        "",
        "bytes of uploads that came, with or without an announced length",
    ),
    ("drystone_sent_bytes_total", "counter", "", "bytes of xorbs requested on data URLs"),
    (
        "drystone_sweeps_total",
        "counter",
        "result",
        "sweeps that are over: `done`, `failed`, or `refused` where too much would have been deleted",
    ),
    ("drystone_swept_bytes_total", "counter", "", "bytes of objects that sweeps deleted"),
    ("drystone_swept_objects_total", "counter", "", "objects that sweeps deleted"),
    (
        "drystone_taken_in_bytes_total",
        "counter",
        "new",
        "bytes of whole files that were cut here and were not there before",
    ),
    ("drystone_telemetry_reports_total", "counter", "event", "reports of clients"),
    (
        "drystone_tls_handshakes_failed_total",
        "counter",
        "",
        "connections that ended before they were private",
    ),
    ("drystone_tokens_refused_total", "counter", "reason", "requests with an invalid or insufficient token"),
    ("drystone_xorbs_received_total", "counter", "new", "xorbs that were uploaded: whether they were new"),
];

fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
}

const SUM_UP_AFTER: Duration = Duration::from_secs(5);

/// From a hit in memory to a shard that takes minutes.
const SECONDS: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0];
