//! Messages of HTTP/1.1 in slots: a first line, fields, an empty line, and the content, which is all that follows.

use super::super::content::Source;
use super::REQUEST;
use super::fields::Fields;
use super::types::{Method, Scheme};
use crate::slots::{Taken, take};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use wasmtime::{Result, bail, ensure, format_err};

/// The most fields of a request.
const FIELDS_MAX: usize = 256;

/// A request, taken apart.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) scheme: Scheme,
    pub(super) authority: Option<String>,
    pub(super) path: Option<String>,
    pub(super) fields: Fields,
    pub(super) content: Source,
}

impl Request {
    /// The request in the slot.
    pub(super) fn from_slot() -> Result<Request> {
        let taken = take(REQUEST, true).map_err(|error| format_err!("slot `{REQUEST}` cannot be taken: {error}"))?;
        let taken = taken.ok_or_else(|| format_err!("slot `{REQUEST}` is empty"))?;
        Request::parse(taken).map_err(|error| format_err!("slot `{REQUEST}` holds no HTTP request: {error}"))
    }

    fn parse(taken: Taken) -> Result<Request> {
        let message = taken.bytes();
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut fields);
        let length = match head.parse(message) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => bail!("no empty line ends its head"),
            Err(httparse::Error::TooManyHeaders) => bail!("it has more than {FIELDS_MAX} fields"),
            Err(error) => bail!("{error}"),
        };
        let values = |name: &'static str| {
            let named = head.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
            named.map(|field| field.value)
        };
        ensure!(
            values("transfer-encoding").next().is_none(),
            "it has the field `transfer-encoding`: its content is all that follows the head, as it is"
        );
        let content = message.len() - length;
        for said in values("content-length") {
            let said = String::from_utf8_lossy(said);
            ensure!(
                said.parse() == Ok(content) && said.bytes().all(|byte| byte.is_ascii_digit()),
                "its `content-length` is {said:?}, and its content has {content} bytes"
            );
        }
        let host = values("host").next().map(|host| String::from_utf8_lossy(host).into_owned());
        let (scheme, named, path) = target(head.path.unwrap_or_default());
        Ok(Request {
            method: Method::from_name(head.method.unwrap_or_default()),
            scheme,
            authority: named.or(host).filter(|authority| !authority.is_empty()),
            path,
            fields: Fields::of_message(head.headers.iter().map(|field| (field.name, field.value))),
            content: Source::Message(Arc::new(taken), length),
        })
    }
}

/// Scheme, authority and path of a request's target: a path, or an address with all of them.
fn target(target: &str) -> (Scheme, Option<String>, Option<String>) {
    let (scheme, rest) = match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
        _ => return (Scheme::Http, None, Some(target.to_string())),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    (scheme, Some(authority.into()), Some(path).filter(|path| !path.is_empty()).map(Into::into))
}
