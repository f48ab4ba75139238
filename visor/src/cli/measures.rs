//! Times and sizes as options of the command line.

use std::fmt::{self, Display};
use std::time::Duration;

use monohull_workflow::units;

/// A time on the command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_secs(), self.0.subsec_nanos()) {
            // Not in days: "24h" is shown as it is written.
            (seconds @ 3600.., 0) if seconds.is_multiple_of(3600) => write!(f, "{}h", seconds / 3600),
            _ => humantime::format_duration(self.0).fmt(f),
        }
    }
}

/// A number of bytes on the command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub(super) u64);

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&units::show_size(self.0))
    }
}

pub(super) fn duration(text: &str) -> Result<Time, String> {
    units::duration(text).filter(|time| !time.is_zero()).map(Time).ok_or_else(|| why_no_time(text))
}

fn why_no_time(text: &str) -> String {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = unit.len() < text.len() && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit));
    let is_unit = units::UNITS_OF_TIME.iter().any(|(name, _)| *name == unit);
    let is_word = !unit.is_empty() && unit.bytes().all(|c| c.is_ascii_alphabetic());
    match (is_number, is_unit, is_word) {
        (true, true, _) => format!("expected at most {}d", units::DURATION_MAX.as_secs() / (24 * 3600)),
        (true, false, true) => {
            let names: Vec<_> = units::UNITS_OF_TIME.iter().map(|(name, _)| *name).collect();
            format!("`{unit}` is none of the units {}", names.join(", "))
        }
        _ => "expected a time, such as 500ms, 30s or 12h".to_owned(),
    }
}

pub(super) fn size(text: &str) -> Result<Size, String> {
    units::size(text).map(Size).ok_or_else(|| "expected a size, such as 64MiB".to_owned())
}
