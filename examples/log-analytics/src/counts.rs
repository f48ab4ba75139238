//! What is counted, and how it travels: a line for each count, `KIND<tab>KEY<tab>NUMBER`.

use monohull_std::collections::BTreeMap;
use monohull_std::prelude::*;

/// Counts by kind (`status`, `path`, `hour`, `total`) and key.
#[derive(Default)]
pub(crate) struct Counts(BTreeMap<(String, String), u64>);

impl Counts {
    pub(crate) fn add(&mut self, kind: &str, key: &str, by: u64) {
        *self.0.entry((kind.to_string(), key.to_string())).or_insert(0) += by;
    }

    /// Adds the counts of a text that [`Counts::to_text`] made.
    pub(crate) fn add_text(&mut self, text: &str) -> Option<()> {
        for line in text.lines() {
            let mut fields = line.split('\t');
            let (kind, key) = (fields.next()?, fields.next()?);
            self.add(kind, key, fields.next()?.parse().ok()?);
        }
        Some(())
    }

    pub(crate) fn to_text(&self) -> String {
        self.0.iter().map(|((kind, key), count)| format!("{kind}\t{key}\t{count}\n")).collect()
    }

    /// The counts of a kind, the largest first; equal ones by key.
    pub(crate) fn of_kind(&self, kind: &str) -> Vec<(&str, u64)> {
        let mut counts: Vec<_> =
            self.0.iter().filter(|((k, _), _)| k == kind).map(|((_, key), count)| (key.as_str(), *count)).collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        counts
    }

    pub(crate) fn total(&self, key: &str) -> u64 {
        self.0.get(&("total".to_string(), key.to_string())).copied().unwrap_or(0)
    }
}
