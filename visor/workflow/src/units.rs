//! Durations and sizes as people write them.

use std::time::Duration;

/// The longest duration a workflow file may name: a year.
pub const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The units of durations, and the microseconds that each has.
pub const UNITS_OF_TIME: [(&str, u64); 6] =
    [("us", 1), ("ms", 1000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)];

/// Reads `500us`, `250ms`, `30s`, `2m`, `1h`, `30d`. `None` if it is none of these or longer than [`DURATION_MAX`].
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let (_, microseconds) = UNITS_OF_TIME.into_iter().find(|(name, _)| *name == unit)?;
    Some(Duration::from_micros(number.checked_mul(microseconds)?)).filter(|duration| *duration <= DURATION_MAX)
}

/// Reads `4096B`, `512KiB`, `64MiB`, `2GiB`, `1TiB` as bytes.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Bytes as [`size`] reads them, in the largest unit that loses nothing.
pub fn show_size(bytes: u64) -> String {
    [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|&(_, shift)| bytes > 0 && bytes.trailing_zeros() >= shift)
        .map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// A whole number and what follows it.
fn split(text: &str) -> Option<(u64, &str)> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("500us"), Some(Duration::from_micros(500)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("30s"), Some(Duration::from_secs(30)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Some(Duration::from_secs(3600)));
        assert_eq!(duration("365d"), Some(DURATION_MAX));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in
            ["", "30", "s", "-1s", "+1s", "1.5s", "1 s", "1S", "1w", "366d", "9000h", "99999999999999999999s", "１s"]
        {
            assert_eq!(duration(text), None, "{text:?}");
        }
        assert_eq!(duration("18446744073709551615d"), None);
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [("1B", 1), ("16KiB", 16 << 10), ("64MiB", 64 << 20), ("2GiB", 2 << 30), ("1TiB", 1 << 40)]
        {
            assert_eq!(size(text), Some(bytes));
            assert_eq!(show_size(bytes), text);
        }
        assert_eq!(show_size(1025), "1025B");
        assert_eq!(show_size(0), "0B");
        for text in ["", "64", "64MB", "64 MiB", "-1MiB", "MiB", "18446744073709551615KiB"] {
            assert_eq!(size(text), None, "{text:?}");
        }
    }
}
