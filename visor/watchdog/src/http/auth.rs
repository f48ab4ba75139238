//! Authorization of requests.
//!
//! With a token, every request but the health checks and the page's own text must carry it. Without one, every process that
//! can reach the socket is authorized: by default those of this machine. A browser on this machine also runs pages of other
//! sites, so their requests are refused: those from another origin, those from another site that change something, and those
//! whose `Host` is a name, because DNS can map any name to this address.

use std::fmt;
use std::net::IpAddr;

use hyper::Method;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::http::connection::Transport;
use crate::http::error::ApiError;

/// The browser's statement of how the page that makes the request is related to the address.
pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The secret of clients. Only its hash is kept, so it cannot end up in a log.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// A token; `None` if it is empty or cannot stand in a header.
    pub fn new(secret: &str) -> Option<Token> {
        let fits = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Token(Sha256::digest(secret).into()))
    }

    /// Hashes of equal length are compared, in a time that does not depend on where they differ.
    fn is(&self, secret: &[u8]) -> bool {
        let other: [u8; 32] = Sha256::digest(secret).into();
        self.0.ct_eq(&other).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Authorizes a request, or says why not. No web page can open a Unix socket.
pub(crate) fn check(
    token: Option<&Token>,
    method: &Method,
    headers: &HeaderMap,
    way: Transport,
) -> Result<(), ApiError> {
    if let Some(token) = token {
        let given = headers.get(AUTHORIZATION).ok_or_else(|| ApiError::unauthorized("a bearer token is required"))?;
        let (scheme, secret) = given.as_bytes().split_at_checked(7).unwrap_or_default();
        if scheme.eq_ignore_ascii_case(b"bearer ") && token.is(secret) {
            return Ok(());
        }
        return Err(ApiError::unauthorized("the bearer token is not the right one"));
    }
    let scheme: &[u8] = match way {
        Transport::Unix => return Ok(()),
        Transport::Http | Transport::HttpForHttps => b"http://",
        Transport::Https => b"https://",
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_address(host) {
        let message = "without a token, `Host` must be an address or localhost: any DNS name can lead here";
        return Err(ApiError::forbidden(message));
    }
    let same = |origin: &[u8]| origin.strip_prefix(scheme).is_some_and(|origin| origin == host.as_bytes());
    if headers.get(ORIGIN).is_some_and(|origin| !same(origin.as_bytes())) {
        return Err(ApiError::forbidden("pages of other origins may not ask"));
    }
    // Browsers leave the origin out of some requests. What only reads is let through: it may be a link that was followed,
    // and a page cannot read the answer to what it asks of another origin.
    let own = |site: &[u8]| [&b"same-origin"[..], b"none"].contains(&site);
    if !method.is_safe() && headers.get(SEC_FETCH_SITE).is_some_and(|site| !own(site.as_bytes())) {
        return Err(ApiError::forbidden("pages of other sites may not change anything"));
    }
    Ok(())
}

/// Whether a `Host` is an address or `localhost`, with or without a port. An absent one is HTTP/1.0's.
fn is_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;
    use hyper::header::{HeaderName, HeaderValue};

    fn ask(token: Option<&Token>, headers: &[(HeaderName, &str)]) -> Result<(), StatusCode> {
        let headers =
            headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("a value")));
        check(token, &Method::POST, &headers.collect(), Transport::Http).map_err(|refusal| refusal.status)
    }

    #[test]
    fn only_the_token_authorizes() {
        let token = Token::new("s3cret").expect("a token");
        assert_eq!(ask(Some(&token), &[(AUTHORIZATION, "Bearer s3cret")]), Ok(()));
        assert_eq!(ask(Some(&token), &[(AUTHORIZATION, "bearer s3cret"), (ORIGIN, "http://else.where")]), Ok(()));
        for wrong in ["", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret ", "Basic s3cret", "s3cret"] {
            assert_eq!(ask(Some(&token), &[(AUTHORIZATION, wrong)]), Err(StatusCode::UNAUTHORIZED), "{wrong:?}");
        }
        assert_eq!(ask(Some(&token), &[]), Err(StatusCode::UNAUTHORIZED));
        assert!(Token::new("").is_none() && Token::new("a b").is_none());
        assert!(!format!("{token:?}").contains("s3cret"));
    }

    #[test]
    fn without_a_token_pages_of_other_sites_are_refused() {
        for host in ["127.0.0.1:7070", "127.0.0.1", "[::1]:7070", "localhost:7070", "LOCALHOST"] {
            assert_eq!(ask(None, &[(HOST, host)]), Ok(()), "{host}");
            let own = format!("http://{host}");
            assert_eq!(ask(None, &[(HOST, host), (ORIGIN, &own)]), Ok(()), "{host}");
            for other in ["http://else.where", "null", "https://127.0.0.1:7070", "http://127.0.0.1:7071"] {
                let answer = ask(None, &[(HOST, host), (ORIGIN, other)]);
                assert_eq!(answer, Err(StatusCode::FORBIDDEN), "{host} {other}");
            }
        }
        for (way, scheme, fits) in
            [(Transport::Https, "https", true), (Transport::Https, "http", false), (Transport::Unix, "http", true)]
        {
            let origin = format!("{scheme}://127.0.0.1:7070");
            let headers = [(HOST, "127.0.0.1:7070"), (ORIGIN, &*origin)]
                .map(|(name, value)| (name, HeaderValue::from_str(value).expect("a value")));
            let checked = check(None, &Method::POST, &headers.into_iter().collect(), way);
            assert_eq!(checked.is_ok(), fits, "{way:?} {origin}");
        }
        let host = (HOST, "127.0.0.1:7070");
        let from = |method: &Method, site: &str| {
            let headers =
                [host.clone(), (SEC_FETCH_SITE, site)].map(|(name, value)| (name, value.parse().expect("a value")));
            check(None, method, &headers.into_iter().collect(), Transport::Http).is_ok()
        };
        for site in ["same-origin", "none"] {
            assert!(from(&Method::POST, site) && from(&Method::GET, site), "{site}");
        }
        for site in ["cross-site", "same-site", "", "SAME-ORIGIN", "new-value"] {
            assert!(from(&Method::GET, site), "{site}: it only reads");
            for method in [Method::POST, Method::PUT, Method::DELETE] {
                assert!(!from(&method, site), "{method} {site}");
            }
        }
        for host in ["else.where", "else.where:7070", "127.0.0.1.else.where", "[::1", "localhost.else.where:80"] {
            assert_eq!(ask(None, &[(HOST, host)]), Err(StatusCode::FORBIDDEN), "{host}");
        }
    }
}
