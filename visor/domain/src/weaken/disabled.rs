//! Every defence stands.

use super::Defence;

/// Nothing to begin with.
pub const fn begin() {}

/// No.
pub const fn is_off(_: Defence) -> bool {
    false
}

/// None.
pub const fn warning() -> Option<String> {
    None
}
