//! What a workflow has published: texts by name, which are read from outside while it waits.
//!
//! They belong to the run, not to an instance: a later one may publish under a name of an earlier. They are in no checkpoint; the caller
//! keeps them, and gives them to the run that goes on.

use monohull_abi::Errno;
use monohull_abi::event::is_event_name;
use monohull_abi::types::{PUBLISHED_BYTES, PUBLISHED_NAMES};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Texts by name.
#[derive(Debug, Default)]
pub(crate) struct Published {
    texts: Mutex<BTreeMap<String, String>>,
    /// What there was at the beginning.
    before: Mutex<BTreeMap<String, String>>,
}

impl Published {
    /// Begins with what an earlier part of the run has published.
    pub(crate) fn of(texts: BTreeMap<String, String>) -> Published {
        Published { texts: Mutex::new(texts.clone()), before: Mutex::new(texts) }
    }

    /// Another part of the run begins with what there is.
    pub(crate) fn begin(&self) {
        *self.before.lock().expect("published") = self.all();
    }

    /// What there was when this part of the run began.
    pub(crate) fn before(&self) -> BTreeMap<String, String> {
        self.before.lock().expect("published").clone()
    }

    /// All of it.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        self.texts.lock().expect("published").clone()
    }

    /// Publishes a text in place of the one before. After an error that one stays.
    pub(crate) fn set(&self, name: &str, text: String) -> Result<(), Errno> {
        if !is_event_name(name) {
            return Err(Errno::Invalid);
        }
        let mut texts = self.texts.lock().expect("published");
        let before = texts.get(name).map(|text| name.len() + text.len());
        if before.is_none() && texts.len() >= PUBLISHED_NAMES {
            return Err(Errno::TooMany);
        }
        if bytes(&texts) - before.unwrap_or(0) + name.len() + text.len() > PUBLISHED_BYTES {
            return Err(Errno::NoSpace);
        }
        texts.insert(name.to_owned(), text);
        Ok(())
    }
}

fn bytes(texts: &BTreeMap<String, String>) -> usize {
    texts.iter().map(|(name, text)| name.len() + text.len()).sum()
}

/// Whether a run can have published this: what comes from its process is not believed.
pub fn may_be_published(texts: &BTreeMap<String, String>) -> bool {
    texts.len() <= PUBLISHED_NAMES && bytes(texts) <= PUBLISHED_BYTES && texts.keys().all(|name| is_event_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_as_much_as_may_be_and_no_more() {
        let published = Published::default();
        assert_eq!(published.set("count", "1".into()), Ok(()));
        assert_eq!(published.set("count", "2".into()), Ok(()));
        assert_eq!(published.all(), BTreeMap::from([("count".into(), "2".into())]));
        for bad in ["", "a\n", "\0"] {
            assert_eq!(published.set(bad, String::new()), Err(Errno::Invalid));
        }
        let rest = PUBLISHED_BYTES - "count2".len() - "all".len();
        assert_eq!(published.set("all", "x".repeat(rest + 1)), Err(Errno::NoSpace));
        assert_eq!(published.set("all", "x".repeat(rest)), Ok(()));
        assert_eq!(published.set("count", "34".into()), Err(Errno::NoSpace));
        assert_eq!(published.set("all", "x".repeat(rest - 1)), Ok(()), "what it replaces does not count");
        assert_eq!(published.set("count", "34".into()), Ok(()));
        assert!(may_be_published(&published.all()));
        let names = Published::of((2..=PUBLISHED_NAMES).map(|number| (number.to_string(), String::new())).collect());
        assert_eq!(names.set("last", String::new()), Ok(()));
        assert_eq!(names.set("more", String::new()), Err(Errno::TooMany));
        assert_eq!(names.set("last", "x".into()), Ok(()));
        let mut forged = names.all();
        forged.insert("more".into(), String::new());
        assert!(!may_be_published(&forged));
        assert!(!may_be_published(&BTreeMap::from([("a".into(), "x".repeat(PUBLISHED_BYTES))])));
        assert!(!may_be_published(&BTreeMap::from([("\u{1b}".into(), String::new())])));
    }
}
