//! What names and values of HTTP consist of (RFC 9110, 5.6.2 and 5.5).

/// Whether bytes are a token: the name of a field, a method.
pub(super) fn is_token(bytes: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(fits)
}

/// Whether bytes can be the value of a field.
pub(super) fn is_value(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}
