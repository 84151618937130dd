//! Values and their types as people read them.

use super::footer::{Column, Meaning, Physical};

/// What a column's values are.
pub(super) fn kind(column: &Column) -> String {
    let unit = |per_s: u32| match per_s {
        1_000 => "ms",
        1_000_000 => "µs",
        _ => "ns",
    };
    match column.meaning {
        Meaning::Plain => match column.physical {
            Physical::Boolean => "boolean",
            Physical::Int32 => "int32",
            Physical::Int64 => "int64",
            Physical::Int96 => "timestamp (int96)",
            Physical::Float => "float",
            Physical::Double => "double",
            Physical::Bytes => "bytes",
            Physical::Fixed => "fixed bytes",
            Physical::Unknown => "unknown",
        }
        .to_owned(),
        Meaning::Text(name) | Meaning::Named(name) => name.to_owned(),
        Meaning::Decimal { .. } => "decimal".to_owned(),
        Meaning::Date => "date".to_owned(),
        Meaning::Time { per_s } => format!("time ({})", unit(per_s)),
        Meaning::Timestamp { per_s, is_utc } => {
            format!("timestamp ({}{})", unit(per_s), if is_utc { ", UTC" } else { "" })
        }
        Meaning::Integer { bits, is_signed } => format!("{}int{bits}", if is_signed { "" } else { "u" }),
        Meaning::Uuid => "uuid".to_owned(),
        Meaning::Half => "float16".to_owned(),
    }
}

/// A value from its plain bytes; bytes that do not fit its meaning are shown as they are.
pub(super) fn value(column: &Column, bytes: &[u8]) -> String {
    meant(column, bytes).unwrap_or_else(|| any(bytes))
}

fn meant(column: &Column, bytes: &[u8]) -> Option<String> {
    let whole = || -> Option<i64> {
        match column.physical {
            Physical::Int32 => Some(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
            Physical::Int64 => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    };
    match column.meaning {
        Meaning::Date => Some(date(whole()?)),
        Meaning::Time { per_s } => Some(clock(whole()?, per_s)),
        Meaning::Timestamp { per_s, is_utc } => {
            let (day, rest) = days(whole()?, per_s);
            Some(format!("{} {}{}", date(day), clock(rest, per_s), if is_utc { "Z" } else { "" }))
        }
        Meaning::Integer { is_signed: false, .. } => Some(match column.physical {
            Physical::Int32 => u32::from_le_bytes(bytes.try_into().ok()?).to_string(),
            _ => whole()?.cast_unsigned().to_string(),
        }),
        Meaning::Decimal { scale } => {
            decimal(whole().map(i128::from).or_else(|| big_endian(column, bytes))?, scale)
        }
        Meaning::Uuid => uuid(bytes),
        Meaning::Half => Some(half(u16::from_le_bytes(bytes.try_into().ok()?))),
        Meaning::Plain | Meaning::Text(_) | Meaning::Named(_) | Meaning::Integer { .. } => {
            match column.physical {
                Physical::Boolean => Some((bytes == [1]).to_string()),
                Physical::Int32 | Physical::Int64 => Some(whole()?.to_string()),
                Physical::Int96 => {
                    let (nanos, day) = bytes.split_first_chunk()?;
                    let day = i64::from(i32::from_le_bytes(day.try_into().ok()?)) - JULIAN_1970;
                    Some(format!("{} {}", date(day), clock(i64::from_le_bytes(*nanos), 1_000_000_000)))
                }
                // With an exponent where there would be many zeros.
                Physical::Float => Some(format!("{:?}", f32::from_le_bytes(bytes.try_into().ok()?))),
                Physical::Double => Some(format!("{:?}", f64::from_le_bytes(bytes.try_into().ok()?))),
                Physical::Bytes | Physical::Fixed | Physical::Unknown => None,
            }
        }
    }
}

/// The beginning of a text, or of bytes that are none.
fn any(bytes: &[u8]) -> String {
    let head = bytes.get(..TEXT_BYTES_MAX).unwrap_or(bytes);
    let text = match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        // Cut in the middle of a character.
        Err(error) if error.error_len().is_none() && head.len() < bytes.len() => {
            head.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok())
        }
        Err(_) => None,
    };
    let is_shown = |c: char| !c.is_control() || c.is_ascii_whitespace();
    match text.filter(|text| text.chars().all(is_shown)) {
        Some(text) => text.to_owned(),
        None => {
            let more = if bytes.len() > HEX_BYTES_MAX { "…" } else { "" };
            format!("0x{}{more} ({} bytes)", hex(bytes.get(..HEX_BYTES_MAX).unwrap_or(bytes)), bytes.len())
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whole days and what is left of the last, also before 1970.
fn days(steps: i64, per_s: u32) -> (i64, i64) {
    let per_day = 86_400 * i64::from(per_s);
    (steps.div_euclid(per_day), steps.rem_euclid(per_day))
}

/// The date `days` after the first of January 1970, by counting eras of 400 years from a first of March.
fn date(days: i64) -> String {
    let Some(shifted) = days.checked_add(719_468) else { return days.to_string() };
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time of day, with as much of a second as there is.
fn clock(steps: i64, per_s: u32) -> String {
    let (second, part) = (steps.div_euclid(i64::from(per_s)), steps.rem_euclid(i64::from(per_s)));
    let text = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    match part {
        0 => text,
        _ => {
            let width = per_s.ilog10() as usize;
            let part = format!("{part:0width$}");
            format!("{text}.{}", part.trim_end_matches('0'))
        }
    }
}

/// A number of at most 16 bytes, the highest first.
fn big_endian(column: &Column, bytes: &[u8]) -> Option<i128> {
    if !matches!(column.physical, Physical::Bytes | Physical::Fixed) || bytes.len() > 16 {
        return None;
    }
    let sign = if *bytes.first()? >= 0x80 { -1 } else { 0 };
    Some(bytes.iter().fold(sign, |number: i128, byte| number << 8 | i128::from(*byte)))
}

fn decimal(number: i128, scale: u32) -> Option<String> {
    let scale = usize::try_from(scale).ok().filter(|scale| *scale <= DIGITS_MAX)?;
    let digits = format!("{:0width$}", number.unsigned_abs(), width = scale + 1);
    let (whole, part) = digits.split_at_checked(digits.len() - scale)?;
    let sign = if number < 0 { "-" } else { "" };
    Some(if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") })
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let text = hex((bytes.len() == 16).then_some(bytes)?);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| text.get(part).unwrap_or_default());
    Some(parts.join("-"))
}

/// A number of 16 bits: one of sign, five of exponent, ten of fraction.
fn half(bits: u16) -> String {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2_f32.powi(-24),
        0x1f if fraction == 0.0 => f32::INFINITY,
        0x1f => f32::NAN,
        _ => (1024.0 + fraction) * 2_f32.powi(exponent - 25),
    };
    format!("{:?}", if bits >> 15 == 1 { -size } else { size })
}

/// The day of the Julian calendar that 1970 began on.
const JULIAN_1970: i64 = 2_440_588;
/// More than a cell has, whatever the characters.
const TEXT_BYTES_MAX: usize = 600;
const HEX_BYTES_MAX: usize = 16;
/// Digits of the largest decimal.
const DIGITS_MAX: usize = 76;
