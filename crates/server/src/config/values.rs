//! Values of settings: how they are read from text and written as text.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::Uri;
use serde::de::value::MapDeserializer;
use serde::de::{self, DeserializeOwned, Error as _, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serializer};

use super::effective;
use crate::secret::Secret;

/// Deserialises settings from their texts. An error says what was expected and found, without the setting's name.
pub(super) fn parse<'a, T: DeserializeOwned>(
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<T, String> {
    let map: MapDeserializer<'_, _, Refusal> = MapDeserializer::new(settings.into_iter());
    T::deserialize(map).map_err(|Refusal(message)| message)
}

/// Why a value cannot be used.
#[derive(Debug)]
struct Refusal(String);

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self(format!("expected {}, found {}", expected.join(" or "), quote(found)))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

pub(super) fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let expected = || format!("expected address:port such as 127.0.0.1:8080, found {}", quote(&text));
    numeric.as_deref().unwrap_or(&text).parse().map_err(|_| D::Error::custom(expected()))
}

/// Clients append paths to this as it is, so it must end where they begin.
pub(super) fn public_url<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    let expected = |what: &str| Err(D::Error::custom(format!("{what}, found {}", quote(&text))));
    let Ok(uri) = text.parse::<Uri>() else { return expected("expected a URL") };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return expected("expected http:// or https://");
    }
    if text.ends_with('/') {
        return expected("expected no slash at the end");
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if uri.query().is_some() || text.contains(['#', '?']) || authority.contains('@') {
        return expected("expected no user, query or fragment");
    }
    Ok(Some(text))
}

/// A URL that the store will read. It is not repeated in messages: it may hold a password.
pub(super) fn url<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret<String>>, D::Error> {
    let text = String::deserialize(from)?;
    let is_url = text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && !scheme.is_empty()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    match is_url {
        true => Ok(Some(Secret::new(text))),
        false => Err(D::Error::custom("expected a URL such as s3://bucket/prefix")),
    }
}

pub(super) fn without_secrets<S: Serializer>(url: &Option<Secret<String>>, to: S) -> Result<S::Ok, S::Error> {
    match url {
        Some(url) => to.serialize_some(&effective::without_secrets(url.expose())),
        None => to.serialize_none(),
    }
}

pub(super) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Err(D::Error::custom("expected a path, found nothing"));
    }
    Ok(PathBuf::from(text))
}

pub(super) fn optional_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    path(from).map(Some)
}

pub(super) fn on_off<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match String::deserialize(from)?.as_str() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        other => Err(D::Error::unknown_variant(other, &["on", "off"])),
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
pub(super) fn show_on_off<S: Serializer>(is_on: &bool, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(if *is_on { "on" } else { "off" })
}

/// One of the names of an enumeration.
pub(super) fn word<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    let read = T::deserialize(IntoDeserializer::<Refusal>::into_deserializer(text.as_str()));
    read.map_err(D::Error::custom)
}

/// A whole number of a type that holds it, or an `Option` of one.
pub(super) fn number<'de, D: Deserializer<'de>, T: Number, const MIN: u64, const MAX: u64>(
    from: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    let number = digits(&text).filter(|number| (MIN..=MAX).contains(number)).and_then(T::from_number);
    let expected = || format!("expected a number from {MIN} to {MAX}, found {}", quote(&text));
    number.ok_or_else(|| D::Error::custom(expected()))
}

/// A number of bytes, with or without `KiB`, `MiB` or `GiB` after it.
pub(super) fn bytes<'de, D: Deserializer<'de>, T: Number, const MIN: u64, const MAX: u64>(
    from: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    let units = [("KiB", 1_u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let with_unit =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), *factor)));
    let (number, factor) = with_unit.unwrap_or((&text, 1));
    let bytes = digits(number).and_then(|number| number.checked_mul(factor));
    let bytes = bytes.filter(|bytes| (MIN..=MAX).contains(bytes)).and_then(T::from_number);
    bytes.ok_or_else(|| {
        D::Error::custom(format!(
            "expected {MIN} to {MAX} bytes, as a number or with KiB, MiB or GiB, found {}",
            quote(&text)
        ))
    })
}

/// What a number of a setting is stored as.
pub(super) trait Number: Sized {
    fn from_number(number: u64) -> Option<Self>;
}

impl Number for u64 {
    fn from_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Number for u32 {
    fn from_number(number: u64) -> Option<Self> {
        Self::try_from(number).ok()
    }
}

impl<T: Number> Number for Option<T> {
    fn from_number(number: u64) -> Option<Self> {
        T::from_number(number).map(Some)
    }
}

fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

/// A value in a message, cut where it is long.
fn quote(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}
