//! What names and values of HTTP consist of (RFC 9110, 5.6.2 and 5.5), and the parts of an address (RFC 3986, 3.2 to 3.4).

use monohull_std::net::{IpAddr, Ipv6Addr};

/// Whether bytes are a token: the name of a field, a method.
pub(super) fn is_token(bytes: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(fits)
}

/// Whether bytes can be the value of a field.
pub(super) fn is_value(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

/// Whether a text can be the target of a request: a path, a query or both, or `*`. No space or line break is part of one, and no fragment.
pub(super) fn is_target(text: &str) -> bool {
    let begins = text.is_empty() || text == "*" || text.starts_with(['/', '?']);
    begins && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// Host and port of an authority: a name or an address, and what follows a colon. There are no users here.
pub(super) fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if host.is_empty() || host.parse::<IpAddr>().is_err() && !host.bytes().all(fits) {
        return None;
    }
    match rest.strip_prefix(':') {
        None => rest.is_empty().then_some((host, None)),
        // `parse` would take a sign.
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().ok().filter(|port| *port != 0).map(|port| (host, Some(port)))
        }
        Some(_) => None,
    }
}
