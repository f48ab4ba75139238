//! Events from outside: how they are named, and the slots in which they lie.
//!
//! An event is a filled slot whose name no function can give: it begins with a zero byte. So an event has what a slot has: an owner, a
//! place in checkpoints, a way back if the instance that took it fails.
//!
//! ```text
//!   "\0e" NAME "\0" NUMBER     it has not been taken: the mailbox that it came from has it still, and it is in no checkpoint
//!   "\0t" NAME "\0" NUMBER     it was taken, and has come back: it is the domain's own
//! ```
//!
//! Numbers have sixteen hexadecimal digits, so that events of a name are in the order of their numbers.
//!
//! A function may wait for the first of several: it gives their names as a list, with a line break between two. No name has one.

use core::fmt;

/// Longest name of an event in bytes.
pub const EVENT_NAME_MAX: usize = 128;
/// Most bytes of an event.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// Longest id of an invocation in bytes.
pub const INVOCATION_ID_MAX: usize = 64;
/// Most events that a workflow sends to other invocations between two checkpoints.
pub const OUTBOX_EVENTS: usize = 256;
/// Most bytes in them.
pub const OUTBOX_BYTES: usize = 4 << 20;

/// Whether an invocation may have this id: 1 to 64 letters, digits, `-` and `_`.
pub fn is_invocation_id(id: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=INVOCATION_ID_MAX).contains(&id.len()) && id.bytes().all(is_fit)
}

/// What the names of slots begin with that are no function's to name.
pub const RESERVED: char = '\0';

/// Whether an event may have this name: 1 to 128 bytes, none of them a control character.
pub fn is_event_name(name: &str) -> bool {
    (1..=EVENT_NAME_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// What the name of an event begins with that tells the end of a child. The id follows that its parent has given the child.
pub const CHILD_EVENT: &str = "child:";
/// What the name of an event begins with that tells of a save point.
pub const CHECKPOINT_EVENT: &str = "checkpoint:";
/// What the name of an event begins with that tells of a fork.
pub const FORK_EVENT: &str = "fork:";
/// The name of the event that tells an invocation to end.
pub const CANCEL_EVENT: &str = "cancel:";
/// What the names of events begin with that only the system may send: the [ends of children](crate::child), what is told of
/// [save points and forks](crate::branch), and that an invocation is to end.
pub const RESERVED_EVENTS: [&str; 4] = [CHILD_EVENT, CHECKPOINT_EVENT, FORK_EVENT, CANCEL_EVENT];

/// Whether only the system may send events of this name.
pub fn is_reserved_event(name: &str) -> bool {
    RESERVED_EVENTS.iter().any(|begin| name.starts_with(begin))
}

/// What is between two names of a list.
pub const EVENT_SEPARATOR: char = '\n';
/// Most names in a list.
pub const EVENT_LIST_NAMES: usize = 16;
/// Longest list of names in bytes.
pub const EVENT_LIST_MAX: usize = EVENT_LIST_NAMES * (EVENT_NAME_MAX + 1) - 1;

/// Whether a function may wait for the first event of these names: 1 to 16, each of which an event may have.
pub fn is_event_list(names: &str) -> bool {
    let mut names = names.split(EVENT_SEPARATOR);
    names.by_ref().take(EVENT_LIST_NAMES).all(is_event_name) && names.next().is_none()
}

/// The queue in which a thread waits for the first event of a list: that of the event, or, for several, one that each event wakes.
pub fn event_queue_of(names: &str) -> &str {
    if names.contains(EVENT_SEPARATOR) { ANY_EVENT } else { names }
}

/// The queue of those that wait for the first of several events. No event has this name.
pub const ANY_EVENT: &str = "\n";

/// Whether an event has been taken before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventState {
    /// Not yet.
    Given,
    /// It has been, and has come back.
    Taken,
}

impl EventState {
    const fn letter(self) -> char {
        match self {
            EventState::Given => 'e',
            EventState::Taken => 't',
        }
    }
}

/// What the names of all slots begin with in which events of this name lie.
#[derive(Clone, Copy, Debug)]
pub struct EventQueue<'n> {
    /// The name of the events.
    pub name: &'n str,
    /// Which of them.
    pub state: EventState,
}

impl fmt::Display for EventQueue<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{RESERVED}{}{}{RESERVED}", self.state.letter(), self.name)
    }
}

/// The name of a slot in which an event lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSlot<'n> {
    /// The name of the event.
    pub name: &'n str,
    /// Its place among those of its name.
    pub number: u64,
    /// Whether it has been taken before.
    pub state: EventState,
}

impl fmt::Display for EventSlot<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}{:016x}", EventQueue { name: self.name, state: self.state }, self.number)
    }
}

impl<'n> EventSlot<'n> {
    /// The event that lies in a slot of this name; `None` if none can.
    pub fn parse(slot: &'n str) -> Option<EventSlot<'n>> {
        let rest = slot.strip_prefix(RESERVED)?;
        let state =
            [EventState::Given, EventState::Taken].into_iter().find(|state| rest.starts_with(state.letter()))?;
        let (name, number) = rest[1..].split_once(RESERVED)?;
        let is_number = number.len() == 16 && number.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u64::from_str_radix(number, 16).ok().filter(|_| is_number)?;
        is_event_name(name).then_some(EventSlot { name, number, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn names_of_slots_are_read_as_they_were_written() {
        let event = EventSlot { name: "order ä.paid", number: u64::MAX - 1, state: EventState::Taken };
        let slot = event.to_string();
        assert_eq!(EventSlot::parse(&slot), Some(event));
        assert!(slot.starts_with(&EventQueue { name: event.name, state: event.state }.to_string()));
        let mine = [
            "",
            "e",
            "\0",
            "\0e",
            "\0ea\0",
            "\0ea\x00000000000000000g",
            "\0ea\0+00000000000000f",
            "\0xa\x000000000000000001",
        ];
        for no in mine {
            assert_eq!(EventSlot::parse(no), None, "{no:?}");
        }
        assert_eq!(EventSlot::parse("\0e\0\x30000000000000001"), None, "an event has a name");
    }

    #[test]
    fn a_list_has_names_and_nothing_else() {
        let longest = ["x"; EVENT_LIST_NAMES].map(|x| x.repeat(EVENT_NAME_MAX)).join("\n");
        for good in ["a", "a\nb", "a\na", "order paid\norder/17", &longest] {
            assert!(good.len() <= EVENT_LIST_MAX && is_event_list(good), "{good:?}");
        }
        assert_eq!(longest.len(), EVENT_LIST_MAX);
        for bad in ["", "\n", "a\n", "\na", "a\n\nb", "a\n\0", &["a"; EVENT_LIST_NAMES + 1].join("\n")] {
            assert!(!is_event_list(bad), "{bad:?}");
        }
        assert_eq!((event_queue_of("a"), event_queue_of("a\nb"), event_queue_of("b\na")), ("a", ANY_EVENT, ANY_EVENT));
        assert!(!is_event_name(ANY_EVENT), "no event is in its queue");
    }

    #[test]
    fn names_of_events_are_fit_for_terminals() {
        for good in ["a", "order/17 paid", "ä", &"x".repeat(EVENT_NAME_MAX)] {
            assert!(is_event_name(good), "{good:?}");
        }
        for bad in ["", "a\0", "\n", "\u{9b}", &"x".repeat(EVENT_NAME_MAX + 1)] {
            assert!(!is_event_name(bad), "{bad:?}");
        }
    }
}
