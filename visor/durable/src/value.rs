//! Values of the database that are encrypted if the state folder has a key: which they are, and how an error names one.
//!
//! Names, times and states are not among them: they are what rows are found by.

/// How the message of an error begins that a function of the database gives. Only its text comes through SQLite.
const CHANGED: &str = "an encrypted value was changed: ";

/// Kinds of values, as queries name them, and what an error calls them.
const KINDS: [(&str, &str); 9] = [
    ("start", "start"),
    ("report", "report"),
    ("published", "list of what it has published"),
    ("event", "event"),
    ("outcome", "outcome of a child"),
    ("printed", "list of what it has printed"),
    ("output", "output"),
    ("callback", "callback"),
    (INPUTS, "list of inputs"),
];

/// The kind that is a schedule's, and not an invocation's.
pub(crate) const INPUTS: &str = "inputs";

/// Says that a value cannot be decrypted: its kind, and what it is part of.
pub(crate) fn changed(kind: &str, of: &str) -> String {
    format!("{CHANGED}{kind} {of}")
}

/// The kind, what an error calls it, and the name of what it is part of, if this is such a message.
pub(crate) fn read_changed(message: &str) -> Option<(&'static str, &'static str, String)> {
    let (kind, of) = message.strip_prefix(CHANGED)?.split_once(' ')?;
    let (kind, what) = KINDS.iter().find(|(known, _)| *known == kind)?;
    // What follows the name is its place among others.
    let name = of.split('/').next().unwrap_or_default();
    Some((kind, what, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_what_was_changed() {
        let (kind, what, name) = read_changed(&changed("event", "order-17/paid")).expect("it is one");
        assert_eq!((kind, what, name.as_str()), ("event", "event", "order-17"));
        assert_eq!(read_changed("no such table: mail"), None);
        assert_eq!(read_changed(&changed("else", "x")), None);
    }
}
