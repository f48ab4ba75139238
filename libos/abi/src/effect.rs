//! Effects: what a function asks for by name and a handler does for it, and the slots in which both travel.
//!
//! ```text
//!   asker    PERFORM ── request ──▶ "\0p" ID ── taken as "request" ──▶ handler
//!            SLOT_TAKE ◀─ reply ── "\0r" ID ◀── the driver ◀── "\0a" ID ◀── filled as "reply"
//! ```
//!
//! What a [continuation](crate::continuation) is used with lies in such a slot, too: "\0k" ID, from which the instance that waits takes it.
//!
//! The id has sixteen hexadecimal digits: the instance that asks, and a number of the domain. No function can name a slot that begins
//! with a zero byte, with one exception: an instance takes the replies to its own requests, and what its own continuations are used with.

use crate::event::RESERVED;
use core::fmt;

/// Longest name of an effect in bytes.
pub const EFFECT_NAME_MAX: usize = 63;
/// Most requests of one instance that it has not taken the reply to.
pub const PERFORMS_MAX: usize = 64;
/// Most of them in a workflow.
pub const PERFORMS_TOGETHER: usize = 256;
/// Most handlers above one another: the handler of a request that another handler makes, and so on.
pub const EFFECT_DEPTH_MAX: u32 = 4;
/// Longest report of a handler's failure in bytes.
pub const EFFECT_FAILURE_MAX: usize = 16 << 10;

/// The slot from which a handler takes the request.
pub const REQUEST: &str = "request";
/// The slot that a handler fills with the reply.
pub const REPLY: &str = "reply";

/// The fingerprint of a reply that is the report of a failure. No type has it: `SLOT_TAKE` says instead that it is one.
pub const FAILURE_FINGERPRINT: u64 = crate::types::fingerprint(FAILURE_NAME.as_bytes());
/// The name of its type.
pub const FAILURE_NAME: &str = "failure of an effect";

/// Whether an effect may have this name: 1 to 63 letters, digits, `-` and `_`.
pub fn is_effect_name(name: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=EFFECT_NAME_MAX).contains(&name.len()) && name.bytes().all(is_fit)
}

/// The id of a request, or of a continuation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PerformId {
    /// The instance that asks, or waits.
    pub asker: u32,
    /// Which of the domain's requests or continuations, from 1.
    pub number: u32,
}

impl PerformId {
    /// The id as one number; never 0.
    pub const fn to_raw(self) -> u64 {
        (self.asker as u64) << 32 | self.number as u64
    }

    /// The id that is this number; `None` for 0.
    pub const fn from_raw(raw: u64) -> Option<PerformId> {
        match raw {
            0 => None,
            _ => Some(PerformId { asker: (raw >> 32) as u32, number: raw as u32 }),
        }
    }
}

/// What lies in a slot of a request or a continuation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EffectPart {
    /// What is asked for.
    Request,
    /// What a handler has filled, that has not ended.
    Answer,
    /// What the asker takes.
    Reply,
    /// What a continuation was used with, for the instance that waits.
    Resume,
}

impl EffectPart {
    /// All of them.
    pub const ALL: [EffectPart; 4] = [EffectPart::Request, EffectPart::Answer, EffectPart::Reply, EffectPart::Resume];

    const fn letter(self) -> char {
        match self {
            EffectPart::Request => 'p',
            EffectPart::Answer => 'a',
            EffectPart::Reply => 'r',
            EffectPart::Resume => 'k',
        }
    }
}

/// Bytes of the name of a slot of a request.
pub const EFFECT_SLOT_LEN: usize = 18;

/// The name of a slot of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EffectSlot {
    /// What lies there.
    pub part: EffectPart,
    /// Of which request.
    pub id: PerformId,
}

impl fmt::Display for EffectSlot {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{RESERVED}{}{:016x}", self.part.letter(), self.id.to_raw())
    }
}

impl EffectSlot {
    /// The slot of this name; `None` if it is none of a request.
    pub fn parse(slot: &str) -> Option<EffectSlot> {
        let rest = slot.strip_prefix(RESERVED)?;
        let part = EffectPart::ALL.into_iter().find(|part| rest.starts_with(part.letter()))?;
        let id = &rest[1..];
        let is_id = id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let id = u64::from_str_radix(id, 16).ok().filter(|_| is_id)?;
        Some(EffectSlot { part, id: PerformId::from_raw(id)? })
    }

    /// The name as bytes.
    pub fn to_bytes(self) -> [u8; EFFECT_SLOT_LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut name = [0; EFFECT_SLOT_LEN];
        name[1] = self.part.letter() as u8;
        for (place, digit) in name[2..].iter_mut().zip((0..16).rev()) {
            *place = DIGITS[(self.id.to_raw() >> (4 * digit)) as usize & 15];
        }
        name
    }
}

/// The names of the slots of this part of all requests of an instance lie between these: the first may be one, the last is none.
pub fn slots_of_asker(part: EffectPart, asker: u32) -> (EffectSlot, EffectSlot) {
    let slot = |number| EffectSlot { part, id: PerformId { asker, number } };
    (slot(0), slot(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn names_of_slots_are_read_as_they_were_written() {
        for part in EffectPart::ALL {
            let slot = EffectSlot { part, id: PerformId { asker: 0xfe00_0001, number: 17 } };
            assert_eq!(EffectSlot::parse(&slot.to_string()), Some(slot));
            assert_eq!(slot.to_string().as_bytes(), slot.to_bytes());
            let (first, last) = slots_of_asker(part, 0xfe00_0001);
            assert!(first.to_string() <= slot.to_string() && slot.to_string() < last.to_string());
        }
        let none = [
            "",
            "p",
            "\0",
            "\0p",
            "\0r000000000000000g",
            "\0r0000000000000000",
            "\0r00000000000000010",
            "\0R0000000000000001",
            "\0e0000000000000001",
            "\0r+000000000000001",
            "r0000000000000001",
        ];
        for no in none {
            assert_eq!(EffectSlot::parse(no), None, "{no:?}");
        }
    }

    #[test]
    fn effects_are_named_as_steps_are() {
        for good in ["blob", "a", "A-b_9", &"x".repeat(EFFECT_NAME_MAX)] {
            assert!(is_effect_name(good), "{good:?}");
        }
        for bad in ["", "a b", "a\0", "ä", "a/b", "a.b", "a\n", &"x".repeat(EFFECT_NAME_MAX + 1)] {
            assert!(!is_effect_name(bad), "{bad:?}");
        }
    }
}
