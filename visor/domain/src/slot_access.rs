//! Which slots an instance may fill and take: the names its step lists, if it lists any.
//!
//! Without a list every instance that knows the name of a slot can use the slot.

use serde::{Deserialize, Serialize};

/// What an instance does with a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotUse {
    /// It takes the buffer over.
    Take,
    /// It publishes one there.
    Fill,
}

/// One entry of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SlotPattern {
    /// This slot.
    Name(String),
    /// All whose names begin so.
    Prefix(String),
}

impl SlotPattern {
    /// A pattern as workflow files have it: `NAME`, or `PREFIX*`.
    pub fn parse(text: &str) -> SlotPattern {
        match text.strip_suffix('*') {
            Some(prefix) => SlotPattern::Prefix(prefix.to_owned()),
            None => SlotPattern::Name(text.to_owned()),
        }
    }

    /// Whether a slot of this name is meant.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            SlotPattern::Name(own) => own == name,
            SlotPattern::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

/// The lists of one instance. Without a list every slot is allowed.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SlotAccess {
    /// What it may take over.
    pub takes: Option<Vec<SlotPattern>>,
    /// What it may fill.
    pub fills: Option<Vec<SlotPattern>>,
}

impl SlotAccess {
    /// Whether an instance may do this.
    pub fn allows(&self, intent: SlotUse, name: &str) -> bool {
        let list = match intent {
            SlotUse::Take => &self.takes,
            SlotUse::Fill => &self.fills,
        };
        list.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_list_names_is_allowed() {
        let takes = vec![SlotPattern::Name("in".to_owned()), SlotPattern::Prefix("part.".to_owned())];
        let access = SlotAccess { takes: Some(takes), fills: None };
        for (name, allowed) in
            [("in", true), ("in2", false), ("part.", true), ("part.7", true), ("part", false), ("", false)]
        {
            assert_eq!(access.allows(SlotUse::Take, name), allowed, "{name}");
            assert!(access.allows(SlotUse::Fill, name), "{name}");
        }
        let nothing = SlotAccess { takes: None, fills: Some(Vec::new()) };
        assert!(!nothing.allows(SlotUse::Fill, "in") && nothing.allows(SlotUse::Take, "in"));
    }
}
