//! Sizes with units: `1.5 MiB`, `2GB`.

/// `1500`, `64KiB`, `1GB`, `1.5 GB`, `4M`: powers of 1000 with `B`, of 1024 with `iB`; a bare letter is of 1024.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let (letter, base) = match unit.strip_suffix("ib") {
        Some(letter) => (letter, 1024_u64),
        None => match unit.strip_suffix('b') {
            Some(letter) => (letter, 1000),
            None => (unit.as_str(), 1024),
        },
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(format!("{unit:?} is no unit; use B, KB, MB, GB, TB, KiB, MiB, GiB or TiB")),
    };
    let factor = base.pow(power);
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| format!("{text} is too large"));
    }
    let value: f64 = number.parse().map_err(|_| format!("{text:?} is no number of bytes"))?;
    let bytes = value * factor as f64;
    if bytes >= 9e18 { Err(format!("{text} is too large")) } else { Ok(bytes as u64) }
}

/// Formats a size: `1.5 MiB`.
pub(crate) fn show(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut shown = format!("{bytes} B");
    for unit in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        shown = format!("{value:.1} {unit}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("1500", 1500),
            ("1GB", 1_000_000_000),
            ("1 GiB", 1 << 30),
            ("64k", 65_536),
            ("64KB", 64_000),
            ("1.5MB", 1_500_000),
            ("2T", 2 << 40),
            ("7b", 7),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "x", "1XB", "-1", "1..5", "99999999999TB", "GB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!((show(12), show(1536)), ("12 B".to_owned(), "1.5 KiB".to_owned()));
    }
}
