//! Arguments of the verbs that maintain a store, and the progress line while they work.

use std::fs;
use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use server::Opening;
use server::{DataDir, Key, KeyRing, Layers, ServeConfig};
use store::audit::Actor;
use store::{Catalog, Store};

use crate::output::{CliError, block_on};

/// The store. Flags take precedence over the environment, the environment over the configuration file.
#[derive(Debug, Clone, Args)]
pub(super) struct StoreArgs {
    /// The server's data folder [default: `$DRYSTONE_DATA`, else drystone-data]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) data: Option<String>,

    /// URL of the objects, when not in the data directory [default: `$DRYSTONE_OBJECTS`]
    #[arg(long, value_name = "URL", global = true)]
    pub(super) objects: Option<String>,

    /// URL of the catalog, when not in the data directory [default: `$DRYSTONE_CATALOG`]
    #[arg(long, value_name = "URL", global = true)]
    pub(super) catalog: Option<String>,

    /// The server's file of settings [default: `$DRYSTONE_CONFIG`, else /etc/drystone/drystone.toml where it exists and nothing else names a store]
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) config: Option<PathBuf>,
}

impl StoreArgs {
    /// Loads the configuration as `serve` does.
    pub(super) fn config(&self) -> Result<ServeConfig, CliError> {
        let flags = [("data", &self.data), ("objects", &self.objects), ("catalog", &self.catalog)];
        ServeConfig::load(&layers(self.config.as_deref(), &flags)?).map_err(CliError::message)
    }

    /// Opens an existing store: one created by mistake would be empty, and so would seem sound.
    pub(super) async fn open(&self) -> Result<Store, CliError> {
        self.open_as(Opening::Existing).await
    }

    /// Opens existing objects under a catalog that may be missing.
    pub(super) async fn open_for_rebuild(&self) -> Result<Store, CliError> {
        self.open_as(Opening::Rebuild).await
    }

    /// Opens the catalog alone.
    pub(super) async fn open_catalog(&self) -> Result<Arc<Catalog>, CliError> {
        let config = self.config()?;
        DataDir::new(&config.data).open_existing_catalog(&config).await.map_err(CliError::message)
    }

    async fn open_as(&self, opening: Opening) -> Result<Store, CliError> {
        let config = self.config()?;
        // The key of dedup answers does not matter here.
        let keys = KeyRing::new(Key::random());
        DataDir::new(&config.data).open_as(&config, &keys, opening).await.map_err(CliError::message)
    }
}

/// The settings in the file, the environment and these flags.
pub(super) fn layers(file: Option<&Path>, flags: &[(&str, &Option<String>)]) -> Result<Layers, CliError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = file.map(Path::to_owned).or_else(|| variable("DRYSTONE_CONFIG").map(PathBuf::from));
    let names_store = flags.iter().any(|(name, value)| STORE.contains(name) && value.is_some())
        || ["DRYSTONE_DATA", "DRYSTONE_OBJECTS", "DRYSTONE_CATALOG"]
            .iter()
            .any(|name| variable(name).is_some());
    let mut layers = Layers::new();
    if let Some((path, text)) = settings_file(named.as_deref(), names_store, Path::new(SYSTEM_FILE))? {
        layers = layers.with_file(&path.display().to_string(), &text)?;
    }
    // Variables that are not text cannot be ours.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    layers = layers.with_environment(variables);
    for (name, value) in flags {
        if let Some(value) = value {
            layers = layers.with_flag(name, value);
        }
    }
    Ok(layers)
}

/// The file of settings: the one that is named, else the system's. That is not read when a flag or variable names a store:
/// it would add the objects of one store to the catalog of another.
fn settings_file(
    named: Option<&Path>,
    names_store: bool,
    system: &Path,
) -> Result<Option<(PathBuf, String)>, CliError> {
    let path = match named {
        Some(path) => path,
        None if names_store => return Ok(None),
        None => system,
    };
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some((path.to_owned(), text))),
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::io(path, error)),
    }
}

const SYSTEM_FILE: &str = "/etc/drystone/drystone.toml";
/// Settings that say where a store is.
const STORE: [&str; 3] = ["data", "objects", "catalog"];

/// Runs `work` with a progress line on a terminal.
pub(super) fn with_spinner<T>(
    work: impl Future<Output = Result<T, CliError>>,
    now: impl Fn() -> String,
) -> Result<T, CliError> {
    block_on(async {
        let work = store::audit::by(local_operator(), work);
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

/// The user who runs commands on this machine, for the audit log.
pub(super) fn local_operator() -> Actor {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.map_or_else(|_| String::new(), |user| format!(" as {user}"));
    Actor::named(format!("operator (command line){user}"))
}

/// Lines that name the files of killed processes that were removed.
pub(super) fn leftover_lines(removed: &[String]) -> impl Iterator<Item = String> {
    removed.iter().map(|left| format!("removed {left}, left by a process that was killed"))
}

/// Formats a number of bytes: `1.50 MiB`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_settings_are_read_unless_a_file_or_a_store_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (system, named) = (folder.path().join("system.toml"), folder.path().join("named.toml"));
        let read = |named: Option<&Path>, names_store| {
            settings_file(named, names_store, &system).map(|found| found.map(|(_, text)| text))
        };
        assert_eq!(read(None, false).unwrap(), None, "it need not be there");
        assert!(read(Some(&named), false).is_err(), "one that is named must be");
        fs::write(&system, "system").unwrap();
        fs::write(&named, "named").unwrap();
        assert_eq!(read(None, false).unwrap().as_deref(), Some("system"));
        assert_eq!(read(None, true).unwrap(), None);
        assert_eq!(read(Some(&named), true).unwrap().as_deref(), Some("named"));
    }

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
