//! Sources of settings, and their precedence.

use std::collections::BTreeMap;
use std::fmt;

use super::{ConfigError, ServeConfig};

/// Origin of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The default.
    Default,
    /// A file, by the name it was given as.
    File(String),
    /// A variable of the environment.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("by default"),
            Self::File(name) => write!(f, "in {name}"),
            Self::Environment(name) => write!(f, "from {name}"),
            Self::Flag(name) => write!(f, "from {name}"),
        }
    }
}

/// The text of a setting and its origin. Its `Debug` shows no text: it may be a URL with a password.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) text: String,
    pub(super) source: Source,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Setting({})", self.source)
    }
}

/// Everything that was set, by source.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    file: Vec<(String, Setting)>,
    environment: Vec<(String, Setting)>,
    flags: Vec<(String, Setting)>,
}

impl Layers {
    /// No source yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file: TOML, one setting a line, no tables.
    pub fn with_file(mut self, name: &str, text: &str) -> Result<Self, ConfigError> {
        let source = Source::File(name.to_owned());
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            ConfigError::new("the file", source.clone(), error.message().to_owned())
        })?;
        for (key, value) in table {
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(truth) => truth.to_string(),
                _ => {
                    return Err(ConfigError::new(
                        key,
                        source,
                        "expected text, a whole number, true or false",
                    ));
                }
            };
            self.file.push((key, Setting { text, source: source.clone() }));
        }
        Ok(self)
    }

    /// Adds the environment, of which only `DRYSTONE_*` is read.
    #[must_use]
    pub fn with_environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        for (variable, text) in variables {
            let Some(name) = variable.strip_prefix("DRYSTONE_") else { continue };
            let name = name.to_ascii_lowercase();
            // Empty is how many tools say "not set".
            if !text.is_empty() && !OTHERS.contains(&name.as_str()) {
                self.environment.push((name, Setting { text, source: Source::Environment(variable) }));
            }
        }
        self
    }

    /// Adds a flag by its setting's name, with underscores or dashes.
    #[must_use]
    pub fn with_flag(mut self, name: &str, text: impl Into<String>) -> Self {
        let source = Source::Flag(format!("--{}", name.replace('_', "-")));
        self.flags.push((name.replace('-', "_"), Setting { text: text.into(), source }));
        self
    }

    /// Every setting that was set, from the source that takes precedence; refuses unknown names.
    pub(super) fn merged(&self) -> Result<BTreeMap<String, Setting>, ConfigError> {
        let (names, mut merged) = (ServeConfig::names(), BTreeMap::new());
        for (name, setting) in self.file.iter().chain(&self.environment).chain(&self.flags) {
            if names.contains(name) {
                merged.insert(name.clone(), setting.clone());
                continue;
            }
            let near = nearest(name, &names);
            // Others put variables of their own into the environment: orchestrators name them after services. So a
            // name there is refused only when it looks like a slip.
            if near.is_none() && matches!(setting.source, Source::Environment(_)) {
                continue;
            }
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            return Err(ConfigError::new(
                name.clone(),
                setting.source.clone(),
                format!("unknown setting{hint}"),
            ));
        }
        Ok(merged)
    }

    /// Origin of the value of a setting.
    pub(super) fn source_of(&self, field: &str) -> Source {
        let all = self.flags.iter().rev().chain(self.environment.iter().rev()).chain(&self.file);
        let set = all.into_iter().find(|(name, _)| name == field);
        set.map_or(Source::Default, |(_, setting)| setting.source.clone())
    }
}

/// The known name that `name` is a slip of, if there is one.
fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let name: String = name.chars().take(64).collect::<String>().replace('-', "_");
    let (slips, known) = names.iter().map(|known| (distance(&name, known), known.as_str())).min()?;
    // The unit is often left out.
    let unfinished = names.iter().find(|known| known.starts_with(&format!("{name}_")));
    let near = (slips <= 2 && slips < known.len() / 2).then_some(known);
    near.or(unfinished.map(String::as_str).filter(|_| name.len() > 3))
}

/// How many letters must be changed, added or taken away to make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for ((y, diagonal), above) in b.chars().zip(&row).zip(row.iter().skip(1)) {
            left = (left + 1).min(above + 1).min(diagonal + usize::from(x != y));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// Variables of other commands.
const OTHERS: &[&str] = &["config", "endpoint", "token", "cache", "kernels", "log"];
