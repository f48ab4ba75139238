//! Types of `wasi:http/types`, as programs pass them; names and order are the interface's.
#![allow(dead_code, reason = "all that the interface has, whether or not it is ever made here")]

use super::syntax::is_token;
use alloc::string::String;
use wasmtime::component::{ComponentType, Lift, Lower};

/// The method of a request.
#[derive(ComponentType, Lift, Lower, Clone)]
#[component(variant)]
pub(super) enum Method {
    #[component(name = "get")]
    Get,
    #[component(name = "head")]
    Head,
    #[component(name = "post")]
    Post,
    #[component(name = "put")]
    Put,
    #[component(name = "delete")]
    Delete,
    #[component(name = "connect")]
    Connect,
    #[component(name = "options")]
    Options,
    #[component(name = "trace")]
    Trace,
    #[component(name = "patch")]
    Patch,
    #[component(name = "other")]
    Other(String),
}

impl Method {
    /// The method of this name.
    pub(super) fn from_name(name: &str) -> Method {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            "CONNECT" => Method::Connect,
            "OPTIONS" => Method::Options,
            "TRACE" => Method::Trace,
            "PATCH" => Method::Patch,
            other => Method::Other(other.into()),
        }
    }

    /// Its name in a request.
    pub(super) fn name(&self) -> &str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Other(name) => name,
        }
    }

    /// Whether a request can have it.
    pub(super) fn is_valid(&self) -> bool {
        !matches!(self, Method::Other(name) if !is_token(name.as_bytes()))
    }
}

/// How a request is carried.
#[derive(ComponentType, Lift, Lower, Clone)]
#[component(variant)]
pub(super) enum Scheme {
    #[component(name = "HTTP")]
    Http,
    #[component(name = "HTTPS")]
    Https,
    #[component(name = "other")]
    Other(String),
}

/// Why fields are not changed.
#[derive(ComponentType, Lift, Lower, Clone, Copy, Debug)]
#[component(variant)]
pub(super) enum HeaderError {
    #[component(name = "invalid-syntax")]
    InvalidSyntax,
    #[component(name = "forbidden")]
    Forbidden,
    #[component(name = "immutable")]
    Immutable,
}

#[derive(ComponentType, Lift, Lower, Clone, Debug)]
#[component(record)]
pub(in crate::preview2) struct DnsError {
    pub(super) rcode: Option<String>,
    #[component(name = "info-code")]
    pub(super) info_code: Option<u16>,
}

#[derive(ComponentType, Lift, Lower, Clone, Debug)]
#[component(record)]
pub(in crate::preview2) struct TlsAlert {
    #[component(name = "alert-id")]
    id: Option<u8>,
    #[component(name = "alert-message")]
    message: Option<String>,
}

#[derive(ComponentType, Lift, Lower, Clone, Debug)]
#[component(record)]
pub(in crate::preview2) struct FieldSize {
    #[component(name = "field-name")]
    name: Option<String>,
    #[component(name = "field-size")]
    size: Option<u32>,
}

/// Why there is no answer.
#[derive(ComponentType, Lift, Lower, Clone, Debug)]
#[component(variant)]
pub(in crate::preview2) enum ErrorCode {
    #[component(name = "DNS-timeout")]
    DnsTimeout,
    #[component(name = "DNS-error")]
    DnsError(DnsError),
    #[component(name = "destination-not-found")]
    DestinationNotFound,
    #[component(name = "destination-unavailable")]
    DestinationUnavailable,
    #[component(name = "destination-IP-prohibited")]
    DestinationIpProhibited,
    #[component(name = "destination-IP-unroutable")]
    DestinationIpUnroutable,
    #[component(name = "connection-refused")]
    ConnectionRefused,
    #[component(name = "connection-terminated")]
    ConnectionTerminated,
    #[component(name = "connection-timeout")]
    ConnectionTimeout,
    #[component(name = "connection-read-timeout")]
    ConnectionReadTimeout,
    #[component(name = "connection-write-timeout")]
    ConnectionWriteTimeout,
    #[component(name = "connection-limit-reached")]
    ConnectionLimitReached,
    #[component(name = "TLS-protocol-error")]
    TlsProtocolError,
    #[component(name = "TLS-certificate-error")]
    TlsCertificateError,
    #[component(name = "TLS-alert-received")]
    TlsAlertReceived(TlsAlert),
    #[component(name = "HTTP-request-denied")]
    HttpRequestDenied,
    #[component(name = "HTTP-request-length-required")]
    HttpRequestLengthRequired,
    #[component(name = "HTTP-request-body-size")]
    HttpRequestBodySize(Option<u64>),
    #[component(name = "HTTP-request-method-invalid")]
    HttpRequestMethodInvalid,
    #[component(name = "HTTP-request-URI-invalid")]
    HttpRequestUriInvalid,
    #[component(name = "HTTP-request-URI-too-long")]
    HttpRequestUriTooLong,
    #[component(name = "HTTP-request-header-section-size")]
    HttpRequestHeaderSectionSize(Option<u32>),
    #[component(name = "HTTP-request-header-size")]
    HttpRequestHeaderSize(Option<FieldSize>),
    #[component(name = "HTTP-request-trailer-section-size")]
    HttpRequestTrailerSectionSize(Option<u32>),
    #[component(name = "HTTP-request-trailer-size")]
    HttpRequestTrailerSize(FieldSize),
    #[component(name = "HTTP-response-incomplete")]
    HttpResponseIncomplete,
    #[component(name = "HTTP-response-header-section-size")]
    HttpResponseHeaderSectionSize(Option<u32>),
    #[component(name = "HTTP-response-header-size")]
    HttpResponseHeaderSize(FieldSize),
    #[component(name = "HTTP-response-body-size")]
    HttpResponseBodySize(Option<u64>),
    #[component(name = "HTTP-response-trailer-section-size")]
    HttpResponseTrailerSectionSize(Option<u32>),
    #[component(name = "HTTP-response-trailer-size")]
    HttpResponseTrailerSize(FieldSize),
    #[component(name = "HTTP-response-transfer-coding")]
    HttpResponseTransferCoding(Option<String>),
    #[component(name = "HTTP-response-content-coding")]
    HttpResponseContentCoding(Option<String>),
    #[component(name = "HTTP-response-timeout")]
    HttpResponseTimeout,
    #[component(name = "HTTP-upgrade-failed")]
    HttpUpgradeFailed,
    #[component(name = "HTTP-protocol-error")]
    HttpProtocolError,
    #[component(name = "loop-detected")]
    LoopDetected,
    #[component(name = "configuration-error")]
    ConfigurationError,
    #[component(name = "internal-error")]
    InternalError(Option<String>),
}
