//! Endpoint and token: the arguments of the caller, else environment variables, else a configuration file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};
use crate::token::Token;

/// Endpoint and token of a hub.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the hub.
    pub endpoint: String,
    /// A personal token; without one, what is public.
    pub token: Option<Token>,
}

impl Settings {
    /// The arguments, else `DRYSTONE_ENDPOINT` and `DRYSTONE_TOKEN`, else `HF_ENDPOINT` and `HF_TOKEN` of `variables`, else the
    /// file that [`file`](fn@file) names. The token of the file is sent to the hub of the file only.
    pub fn find(endpoint: Option<String>, token: Option<Token>, variables: &Variables<'_>) -> Result<Self> {
        let file = file(variables).map_or(Ok(File::default()), |path| read(&path))?;
        let variable = |name: &str| variables(name)?.into_string().ok().filter(|value| !value.is_empty());
        choose(endpoint, token, &variable, file)
    }
}

/// The environment of the program, by name.
pub type Variables<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// The configuration file: `drystone/client.toml` in the user's configuration directory.
pub fn file(variables: &Variables<'_>) -> Option<PathBuf> {
    let directory = |name| variables(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = directory("XDG_CONFIG_HOME").or_else(|| directory("HOME").map(|home| home.join(".config")));
    Some(root?.join("drystone").join("client.toml"))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    endpoint: Option<String>,
    token: Option<String>,
}

/// Reads the file, which nobody needs to have. One that cannot be read is an error: it may name another hub.
fn read(path: &Path) -> Result<File> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text)
            .map_err(|message| Error::new(ErrorKind::Invalid, format!("{}: {message}", path.display()))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(File::default())
        }
        Err(error) => Err(Error::io(path, error)),
    }
}

/// The message of a mistake does not quote the file, which has a secret in it.
fn parse(text: &str) -> std::result::Result<File, String> {
    toml::from_str(text).map_err(|error| format!("expected endpoint and token as text: {}", error.message()))
}

fn choose(
    endpoint: Option<String>,
    token: Option<Token>,
    variable: &dyn Fn(&str) -> Option<String>,
    file: File,
) -> Result<Settings> {
    let named = endpoint.or_else(|| variable("DRYSTONE_ENDPOINT")).or_else(|| variable("HF_ENDPOINT"));
    let endpoint = named.or_else(|| file.endpoint.clone()).ok_or_else(|| {
        let message = "no endpoint configured; pass --endpoint URL or set DRYSTONE_ENDPOINT";
        Error::new(ErrorKind::Invalid, message)
    })?;
    let same = |other: &String| other.trim_end_matches('/') == endpoint.trim_end_matches('/');
    let of_file = || file.token.filter(|_| file.endpoint.as_ref().is_some_and(same));
    let secret = || variable("DRYSTONE_TOKEN").or_else(|| variable("HF_TOKEN")).or_else(of_file);
    Ok(Settings { token: token.or_else(|| secret().map(Token::new)), endpoint })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(
        given: Option<&str>,
        variables: &[(&str, &str)],
        file: &str,
    ) -> Option<(String, Option<String>)> {
        let variable = |name: &str| {
            variables.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned())
        };
        let chosen = choose(given.map(str::to_owned), None, &variable, parse(file).unwrap()).ok()?;
        Some((chosen.endpoint, chosen.token.map(|token| token.expose().to_owned())))
    }

    #[test]
    fn arguments_outweigh_variables_and_those_the_file() {
        let file = "endpoint = 'https://file'\ntoken = 'f'";
        let pair =
            |endpoint: &str, token: Option<&str>| Some((endpoint.to_owned(), token.map(str::to_owned)));
        let hf = [("HF_ENDPOINT", "https://hf"), ("HF_TOKEN", "h")];
        let both = [hf[0], hf[1], ("DRYSTONE_ENDPOINT", "https://own"), ("DRYSTONE_TOKEN", "d")];
        assert_eq!(chosen(None, &[], ""), None);
        assert_eq!(chosen(None, &[], file), pair("https://file", Some("f")));
        assert_eq!(chosen(None, &hf, file), pair("https://hf", Some("h")));
        assert_eq!(chosen(None, &both, file), pair("https://own", Some("d")));
        assert_eq!(chosen(Some("https://given"), &both, file), pair("https://given", Some("d")));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_and_a_missing_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.toml");
        assert!(read(&path).unwrap().endpoint.is_none());
        assert!(read(&path.join("below")).unwrap().endpoint.is_none());
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(read(&path).err().unwrap().kind(), ErrorKind::Invalid);
        assert!(read(&path.join("below")).unwrap().endpoint.is_none());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let message = read(&path).err().unwrap().to_string();
        assert!(message.contains("client.toml"), "{message}");
    }

    #[test]
    fn the_token_of_the_file_goes_to_no_other_hub() {
        let file = "endpoint = 'https://file/'\ntoken = 'secret'";
        assert_eq!(chosen(Some("https://other"), &[], file).unwrap().1, None);
        assert_eq!(chosen(Some("https://file"), &[], file).unwrap().1.as_deref(), Some("secret"));
        let mistake = parse("token = secret").err().unwrap();
        assert!(!mistake.contains("secret"), "{mistake}");
        assert!(parse("tokn = 'x'").is_err());
    }
}
