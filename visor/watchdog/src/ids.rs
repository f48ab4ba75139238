//! Random identifiers, and bytes in hexadecimal.

use std::fmt::Write;

/// A unique name: 128 random bits in hexadecimal.
pub(crate) fn random_id() -> String {
    hex(&random::<16>())
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Linux has had the system call for ten years, and it does not fail once the machine is up.
    getrandom::fill(&mut bytes).expect("the kernel has random numbers");
    bytes
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a text is of the form that [`random_id`] gives.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 32 && lower_hex(text)
}

/// Whether a text has lower-case hexadecimal digits only.
pub(crate) fn lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
