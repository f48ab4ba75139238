//! Numbers that memory has of things outside: descriptors, sockets, queues. Which have been opened since a capture, and whether one that
//! was open then has been closed.
//!
//! ```text
//!            CAPTURE 1          CAPTURE 2
//!   open 4      │      open 5       │      open 6
//!               │                   │      close 6    opened behind both: nothing is missing
//!               │                   │      close 5    missing at 2; 1 does not know it
//!               │                   │      close 4    missing at 2 and at 1
//! ```

use std::collections::BTreeSet;
use std::fmt;

/// What a number is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    File,
    Socket,
    Queue,
}

/// One of an instance's numbers.
pub(crate) type Number = (Kind, u64);

/// What has become of them since one capture, up to the next one.
#[derive(Default)]
pub(super) struct Since {
    /// The descriptors that were open at the capture. A call may close one that is not, so this has to be known.
    files: BTreeSet<u64>,
    opened: BTreeSet<Number>,
    /// The first that was open at the capture and has been closed.
    closed: Option<Number>,
}

impl Since {
    /// Since a capture at which these descriptors are open.
    pub(super) fn with_files(files: BTreeSet<u64>) -> Since {
        Since { files, ..Since::default() }
    }

    /// A number has been given out. Of the last capture.
    pub(super) fn opened(&mut self, number: Number) {
        self.opened.insert(number);
    }

    /// A number has been taken back, if it was given out: whether those of earlier captures are told, too.
    pub(super) fn closed(&mut self, number: Number) -> bool {
        let was_open = number.0 != Kind::File || self.files.contains(&number.1);
        if self.opened.remove(&number) || !was_open {
            return false;
        }
        self.closed.get_or_insert(number);
        true
    }

    /// What is missing of what was open at the capture.
    pub(super) fn missing(&self) -> Option<Number> {
        self.closed
    }

    /// There is no capture any more behind which these were opened: they were opened behind the one before.
    pub(super) fn join(&mut self, later: Since) {
        self.opened.extend(later.opened);
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::File => "descriptor",
            Kind::Socket => "socket",
            Kind::Queue => "queue",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Number = (Kind::File, 4);

    #[test]
    fn what_was_opened_and_closed_since_is_not_missing() {
        let mut since = Since::with_files([4].into());
        since.opened(FILE);
        assert!(!since.closed(FILE) && since.missing().is_none());
        assert!(since.closed(FILE), "the one that has its number was open before");
        assert_eq!(since.missing(), Some(FILE));
    }

    #[test]
    fn a_descriptor_that_was_not_open_is_not_missing() {
        let mut since = Since::with_files([3].into());
        assert!(!since.closed(FILE) && since.missing().is_none());
        assert!(since.closed((Kind::File, 3)));
    }

    #[test]
    fn a_socket_is_no_file() {
        let mut since = Since::with_files([4].into());
        since.opened((Kind::Socket, 4));
        assert!(since.closed(FILE));
    }

    #[test]
    fn what_is_open_stays_open_without_the_capture_before_it() {
        let (mut first, mut second) = (Since::default(), Since::default());
        second.opened(FILE);
        first.join(second);
        assert!(!first.closed(FILE) && first.missing().is_none());
    }
}
