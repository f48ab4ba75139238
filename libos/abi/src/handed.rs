//! What the version of a workflow before this one has handed over to an invocation that was migrated: the texts that it had published.
//!
//! `GET_STRING` gives them as one text ([`crate::types::InfoString::HandedOver`]). For each it has a line with the name, a line with the bytes of the
//! text, and the text with a line end:
//!
//! ```text
//!   count\n2\n17\n
//!   names\n7\nAda\nBob\n
//! ```

use core::fmt;

/// Adds a text. A name has no control characters, as those of [events](crate::event::is_event_name).
pub fn write(to: &mut impl fmt::Write, name: &str, text: &str) -> fmt::Result {
    writeln!(to, "{name}\n{}\n{text}", text.len())
}

/// The text of a name.
pub fn find<'t>(all: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = all;
    loop {
        let (found, behind) = rest.split_once('\n')?;
        let (len, behind) = behind.split_once('\n')?;
        let (text, behind) = behind.split_at_checked(len.parse().ok()?)?;
        if found == name {
            return Some(text);
        }
        rest = behind.strip_prefix('\n')?;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::String;

    #[test]
    fn what_was_written_is_found_and_nothing_else() {
        let texts =
            [("count", "17"), ("names", "Ada\nBob"), ("empty", ""), ("tricky", "count\n2\n18\n"), ("last", "ä")];
        let mut all = String::new();
        texts.iter().for_each(|(name, text)| write(&mut all, name, text).expect("a string"));
        for (name, text) in texts {
            assert_eq!(find(&all, name), Some(text));
        }
        assert_eq!(find(&all, "Ada"), None);
        assert_eq!(find("", "count"), None);
    }

    #[test]
    fn damage_is_nothing() {
        for damaged in [
            "count",
            "count\n",
            "count\n2",
            "count\nx\n17\n",
            "count\n99\n17\n",
            "a\n1\nx-count\n2\n17\n",
            "count\n1\nä\n",
        ] {
            assert_eq!(find(damaged, "count"), None, "{damaged:?}");
        }
    }
}
