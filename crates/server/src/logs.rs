//! Log lines on standard error, for people or for programs.
//!
//! Own crates log at the configured level, others only what is odd: at lower levels some libraries print
//! requests with all their headers, and those hold tokens.

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::config::{LogFormat, LogLevel};

/// Starts logging for the whole process; does nothing if someone has already.
pub fn start(format: LogFormat, level: LogLevel) {
    // The first subscriber stays.
    let _ = tracing::subscriber::set_global_default(subscriber(format, level, std::io::stderr));
}

/// What turns events into lines on `writer`.
pub(crate) fn subscriber<W>(
    format: LogFormat,
    level: LogLevel,
    writer: W,
) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
    };
    let targets = OWN.iter().fold(Targets::new(), |targets, own| targets.with_target(*own, level));
    let targets = targets.with_default(LevelFilter::WARN.min(LevelFilter::from_level(level)));
    let registry = tracing_subscriber::registry().with(targets);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    match format {
        LogFormat::Text => Box::new(registry.with(lines)),
        LogFormat::Json => Box::new(registry.with(lines.json().flatten_event(true))),
    }
}

/// The crates of this project.
const OWN: &[&str] = &["server", "store", "xet", "drystone"];
