//! What the verbs that keep a store share: which store, and a line that moves while they work.

use std::future::Future;
use std::io::IsTerminal as _;
use std::time::{Duration, SystemTime};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use server::{House, Key, KeyRing, Layers, ServeConfig};
use store::Store;
use store::audit::Actor;

use crate::output::CliError;

/// Which store.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// The server's data folder [default: `$DRYSTONE_DATA`, else drystone-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,

    /// Where objects are, when not in the data folder [default: `$DRYSTONE_OBJECTS`]
    #[arg(long, value_name = "URL")]
    objects: Option<String>,

    /// Where the catalog is, when not in the data folder [default: `$DRYSTONE_CATALOG`]
    #[arg(long, value_name = "URL")]
    catalog: Option<String>,
}

impl Place {
    /// The settings, as `serve` would understand them.
    pub(super) fn config(&self) -> Result<ServeConfig, CliError> {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut layers = Layers::new().with_environment(variables);
        let flags = [("data", &self.data), ("objects", &self.objects), ("catalog", &self.catalog)];
        for (name, value) in flags {
            if let Some(value) = value {
                layers = layers.with_flag(name, value);
            }
        }
        ServeConfig::load(&layers).map_err(said)
    }

    /// Opens a store that is there: one made by mistake would be empty, and so would seem sound.
    pub(super) async fn open(&self) -> Result<Store, CliError> {
        let config = self.config()?;
        let house = House::new(&config.data);
        let data = config.data.display();
        if config.catalog.is_none() && !house.catalog_file().exists() {
            let message =
                format!("{data}: no catalog of a server; name another folder with --data, or --catalog");
            return Err(CliError::Message(message));
        }
        if config.objects.is_none() && !config.data.join("objects").is_dir() {
            let message =
                format!("{data}: no objects of a server; name another folder with --data, or --objects");
            return Err(CliError::Message(message));
        }
        let catalog = house.open_catalog(&config).await.map_err(said)?;
        // What answers are keyed with does not matter here.
        let keys = KeyRing::new(Key::random());
        house.open_over(&config, &keys, catalog).map_err(said)
    }
}

impl Place {
    /// Opens objects that are there under a catalog that need not be.
    pub(super) async fn open_for_rebuild(&self) -> Result<Store, CliError> {
        let config = self.config()?;
        let house = House::new(&config.data);
        if config.objects.is_none() && !config.data.join("objects").is_dir() {
            let data = config.data.display();
            let message =
                format!("{data}: no objects of a server; name another folder with --data, or --objects");
            return Err(CliError::Message(message));
        }
        let catalog = house.open_catalog(&config).await.map_err(said)?;
        house.open_over(&config, &KeyRing::new(Key::random()), catalog).map_err(said)
    }
}

/// Runs work that waits, with a line on a terminal that says how far it is.
pub(super) fn watched<T>(
    work: impl Future<Output = Result<T, CliError>>,
    now: impl Fn() -> String,
) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Io("threads".to_owned(), error))?;
    runtime.block_on(async {
        let work = store::audit::by(keeper(), work);
        let show = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if !std::io::stderr().is_terminal() {
                return std::future::pending::<()>().await;
            }
            let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a sound template");
            let bar = ProgressBar::new_spinner().with_style(style);
            loop {
                bar.set_message(now());
                bar.tick();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            done = work => done,
            () = show => unreachable!("the line goes on until the work is done"),
        }
    })
}

/// Whoever gives commands on this machine, for the audit log.
pub(super) fn keeper() -> Actor {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.map_or_else(|_| String::new(), |user| format!(" as {user}"));
    Actor::named(format!("operator (command line){user}"))
}

/// A number of bytes as people read it.
pub(super) fn human(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// Reads `90`, `90s`, `15m`, `36h` or `22d`.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let with_unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = with_unit.unwrap_or((text, 1));
    let number = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let seconds = number.and_then(|number| number.checked_mul(factor));
    seconds.ok_or_else(|| "expected a time such as 22d, 36h or 90s".to_owned())
}

pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(super) fn said(error: impl std::fmt::Display) -> CliError {
    CliError::Message(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_or_without_a_unit() {
        assert_eq!(seconds("0"), Ok(0));
        assert_eq!(seconds("22d"), Ok(22 * 86_400));
        assert_eq!((seconds("90s"), seconds("2h"), seconds("3m")), (Ok(90), Ok(7200), Ok(180)));
        for bad in ["", "d", "-1", "1.5h", "1w", "99999999999999999999d"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
