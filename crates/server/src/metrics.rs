//! Numbers for Prometheus.

use std::fmt;

use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

/// The numbers, ready to be shown.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Makes this process count. Once per process: a second time is an error.
    pub fn install() -> Result<Self, BuildError> {
        builder()?.install_recorder().map(Self)
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

fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
}

/// From a hit in memory to a shard that takes minutes.
const SECONDS: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0];
