//! Choice of kernel implementations, one for the whole process.
//!
//! Like the detection of processor features, that is state of the process; it changes speed, and never a result.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// Which implementations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The kernels that the processor has instructions for.
    Native,
    /// The portable twins.
    Portable,
}

impl Choice {
    const ALL: [Self; 2] = [Self::Native, Self::Portable];

    /// The name in settings and reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Portable => "portable",
        }
    }
}

/// Default kernels. With the feature `portable` the tests run the twins.
const DEFAULT: Choice = if cfg!(feature = "portable") { Choice::Portable } else { Choice::Native };

static CHOICE: OnceLock<Choice> = OnceLock::new();

/// Chooses for the whole process. Only the first choice counts: later ones return it as an error when it was another.
pub fn select(choice: Choice) -> Result<(), Choice> {
    match *CHOICE.get_or_init(|| choice) {
        first if first == choice => Ok(()),
        first => Err(first),
    }
}

/// The kernels chosen, or the default.
pub fn choice() -> Choice {
    CHOICE.get().copied().unwrap_or(DEFAULT)
}

/// Whether kernels for this processor may be used.
pub(crate) fn use_native() -> bool {
    choice() == Choice::Native
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Choice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let known = Self::ALL.into_iter().find(|choice| choice.name() == text);
        known.ok_or_else(|| ChoiceError(text.chars().take(80).collect()))
    }
}

/// Text that names no choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("should be native or portable, found {0:?}")]
pub struct ChoiceError(String);

#[cfg(test)]
mod tests {
    use testkit::corpus::noise;

    use super::*;

    #[test]
    fn choices_have_names_and_others_are_refused() {
        for choice in Choice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "Portable".parse::<Choice>().unwrap_err();
        assert_eq!(error.to_string(), "should be native or portable, found \"Portable\"");
    }

    /// Every test is a process of its own: what this one chooses concerns no other.
    #[test]
    fn the_first_choice_counts() {
        assert_eq!(choice(), DEFAULT);
        assert_eq!(select(Choice::Portable), Ok(()));
        assert_eq!(choice(), Choice::Portable);
        assert_eq!(select(Choice::Portable), Ok(()));
        assert_eq!(select(Choice::Native), Err(Choice::Portable));
        assert_eq!(crate::chunk::cut(&noise(1, 1 << 20)), testkit::twin::cuts(&noise(1, 1 << 20)));
    }
}
