//! The host and port in a URL.

use hyper::http::uri::Authority;

/// The port in an address, the usual one if it has none; `None` if the text in its place is no port.
pub fn port_of(authority: &Authority, usual: u16) -> Option<u16> {
    // An IPv6 address is in brackets, and contains colons.
    let behind = authority.as_str().rsplit(']').next().unwrap_or_default();
    authority.port_u16().or_else(|| (!behind.contains(':')).then_some(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_port_is_not_replaced_by_the_usual_one() {
        let port = |text: &str| port_of(&text.parse().expect("an authority"), 80);
        let given = ["host", "[::1]", "host:81", "[::1]:81", "host:99999", "[::1]:99999", "host:"].map(port);
        assert_eq!(given, [Some(80), Some(80), Some(81), Some(81), None, None, None]);
    }
}
