//! Published crates, unmodified, at work inside a function: one module per theme. Each line that is printed is a value
//! that is known from elsewhere, a standard's test vector if there is one; the test compares them.
#![deny(unsafe_code)]

mod bytes;
mod compression;
mod hashing;
mod numbers;
mod random;
mod serialization;
mod text;

std::program!();

/// Bytes as hexadecimal digits.
fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn main() {
    bytes::show();
    compression::show();
    hashing::show();
    numbers::show();
    random::show();
    serialization::show();
    text::show();
}
