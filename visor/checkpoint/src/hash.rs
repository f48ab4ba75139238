//! Hashes, and the numbers of checkpoints.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }
}

/// The number of a checkpoint: random, so that two hosts never give the same one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckpointId(pub [u8; 16]);

impl CheckpointId {
    /// A new one.
    pub fn random() -> Result<CheckpointId, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(CheckpointId(bytes))
    }
}

impl FromStr for CheckpointId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<CheckpointId, NotAnId> {
        let mut bytes = [0; 16];
        let digits = text.as_bytes();
        if digits.len() != 2 * bytes.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(NotAnId);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NotAnId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NotAnId)?;
        }
        Ok(CheckpointId(bytes))
    }
}

/// A text is not the number of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the number of a checkpoint has 32 hexadecimal digits")]
pub struct NotAnId;

macro_rules! as_hexadecimal_digits {
    ($($name:ident),*) => { $(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )* };
}

as_hexadecimal_digits!(Hash, CheckpointId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_it_is_shown() {
        let id = CheckpointId([0xa5; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "a5", &"g".repeat(32), &"+f".repeat(16), &"ä".repeat(16)] {
            assert_eq!(wrong.parse::<CheckpointId>(), Err(NotAnId), "{wrong}");
        }
        assert_ne!(CheckpointId::random(), CheckpointId::random());
    }
}
