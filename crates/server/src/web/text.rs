//! Numbers and times as people read them. Templates hand over values and references alike.

use std::borrow::Borrow;

/// Bytes with a unit: `1.5 MB`. Powers of a thousand, as the Hub counts.
pub(super) fn bytes(count: impl Borrow<u64>) -> String {
    let count = *count.borrow();
    let units = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let (mut value, mut unit) = (count as f64 / 1e3, 0);
    // What would be written as 1000 is one of the next.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    let unit = units.get(unit).unwrap_or(&"");
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// A number with its thousands apart.
pub(super) fn count(number: impl Borrow<u64>) -> String {
    let digits = number.borrow().to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A number of things: `1 term`, `2 terms`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A time for programs: `2026-11-15T22:05:09.000Z`.
pub(super) fn iso(time_s: impl Borrow<u64>) -> String {
    crate::http::time::iso(*time_s.borrow())
}

/// A date: `2026-11-15`.
pub(super) fn date(time_s: impl Borrow<u64>) -> String {
    iso(time_s).chars().take(10).collect()
}

/// How long ago something was: `3 hours ago`.
pub(super) fn ago(time_s: impl Borrow<u64>, now_s: impl Borrow<u64>) -> String {
    let passed = now_s.borrow().saturating_sub(*time_s.borrow());
    let steps =
        [(60, "minute"), (3600, "hour"), (86_400, "day"), (30 * 86_400, "month"), (365 * 86_400, "year")];
    let Some((length, name)) = steps.into_iter().rev().find(|(length, _)| passed >= *length) else {
        return "just now".to_owned();
    };
    let many = passed / length;
    format!("{many} {name}{} ago", if many == 1 { "" } else { "s" })
}

/// A share in percent: `37 %`.
pub(super) fn percent(part: impl Borrow<u64>, whole: impl Borrow<u64>) -> String {
    let (part, whole) = (*part.borrow(), *whole.borrow());
    match whole {
        0 => "0 %".to_owned(),
        _ => format!("{:.0} %", 100.0 * part as f64 / whole as f64),
    }
}

/// What is saved where `whole` takes `stored`.
pub(super) fn saved(whole: impl Borrow<u64>, stored: impl Borrow<u64>) -> String {
    percent(whole.borrow().saturating_sub(*stored.borrow()), whole)
}

/// Bytes as text, if they are that; a character that was cut off at the end is left out.
pub(super) fn as_text(bytes: &[u8], is_cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_a_thousand_of_a_unit() {
        for (number, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9949, "9.9 kB"),
            (9960, "10 kB"),
            (999_499, "999 kB"),
            (999_600, "1.0 MB"),
            (1_500_000_000, "1.5 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((count(999), percent(1, 0), percent(1, 3)), ("999".into(), "0 %".into(), "33 %".into()));
    }

    #[test]
    fn times_are_written_in_their_largest_unit() {
        for (passed, text) in
            [(0, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (86_400 * 400, "1 year ago")]
        {
            assert_eq!(ago(1000, 1000 + passed), text);
        }
        assert_eq!(ago(1000, 0), "just now");
        assert_eq!(date(1_794_780_309), "2026-11-15");
    }
}
