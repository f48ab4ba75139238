//! A request of the component's own, and the answer: plain HTTP/1.1, one connection for each.
//!
//! Each has a thread, which waits for the request's content, for the connection, and for the head of the answer. So a program can wait for
//! several and for clocks at once. The content of the answer is read by the program as it comes ([`super::received`]).
//!
//! Nothing here decides what may be reached: the system does, as for any function. A request for `https` goes to hosts that the workflow file lists
//! under `https` and to no others: the connection is carried over TLS outside of this process, and is known by the address of its own end,
//! which no connection of the network has.

use super::super::changes::{self, Change};
use super::super::content::{Sink, Source};
use super::fields::Fields;
use super::received::{self, Connection};
use super::requests::{OutgoingRequest, RequestOptions};
use super::syntax::host_and_port;
use super::types::{DnsError, ErrorCode, Method, Scheme};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::result::Result as Answer;
use monohull_std::io::{Error, ErrorKind, Write};
use monohull_std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use monohull_std::sync::{Mutex, MutexGuard, PoisonError};
use monohull_std::thread::Builder;
use monohull_std::time::Duration;

/// Bytes of a thread's stack.
const STACK: usize = 256 << 10;
/// The visor's own end of a connection that it carries over TLS: an address without a port.
const CARRIED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 19, 255, 254)), 0);

/// A request that can be sent.
pub(super) struct Order {
    method: Method,
    host: String,
    port: u16,
    authority: String,
    over_tls: bool,
    target: String,
    fields: Fields,
    content: Option<Sink>,
    times: RequestOptions,
}

/// An answer, as far as it has come: all but its content.
pub(super) struct Received {
    pub(super) status: u16,
    pub(super) fields: Fields,
    pub(super) content: Source,
}

impl Order {
    /// Whether a request can be sent.
    pub(super) fn of(request: OutgoingRequest, times: RequestOptions) -> Answer<Order, ErrorCode> {
        let OutgoingRequest { method, path, scheme, authority, fields, content } = request;
        let (over_tls, port) = match scheme {
            None | Some(Scheme::Http) => (false, 80),
            Some(Scheme::Https) => (true, 443),
            Some(Scheme::Other(_)) => return Err(ErrorCode::HttpRequestUriInvalid),
        };
        // Its answer would be no message, but the connection.
        if matches!(method, Method::Connect) || method.name() == "CONNECT" {
            return Err(ErrorCode::HttpRequestMethodInvalid);
        }
        let authority = authority.ok_or(ErrorCode::HttpRequestUriInvalid)?;
        let (host, own) = host_and_port(&authority).ok_or(ErrorCode::HttpRequestUriInvalid)?;
        let said = fields.values("content-length").any(|said| said.as_slice() != b"0");
        if said && content.is_none() {
            return Err(ErrorCode::HttpRequestBodySize(Some(0)));
        }
        let target = match path.unwrap_or_default() {
            path if path.starts_with('/') || path == "*" => path,
            path => format!("/{path}"),
        };
        let (host, port) = (host.to_string(), own.unwrap_or(port));
        Ok(Order { method, host, port, authority, over_tls, target, fields, content, times })
    }

    /// Sends it, and waits for the head of the answer.
    fn carry_out(&self) -> Answer<Received, ErrorCode> {
        let stream = self.connect()?;
        let content = match &self.content {
            None => None,
            Some(sink) => Some(sink.wait().ok_or(ErrorCode::HttpProtocolError)?),
        };
        let time = self.times.between_bytes.map(duration);
        stream.set_write_timeout(time).map_err(unexpected)?;
        let sent = self.send(&stream, content);
        let mut connection = Connection::new(stream);
        let answer = received::head(&mut connection, self.times.first_byte.map(duration));
        // A server may answer before it has read all, and close.
        let head = match (answer, sent) {
            (Ok(head), _) => head,
            (Err(_), Err(code)) => return Err(code),
            (Err(code), Ok(())) => return Err(code),
        };
        // A program may have named it as another one.
        let is_without = self.method.name() == "HEAD";
        let content = received::content(connection, &head, is_without, time)?;
        Ok(Received { status: head.status, fields: head.fields, content })
    }

    fn send(&self, mut stream: &TcpStream, content: Option<Vec<u8>>) -> Answer<(), ErrorCode> {
        let line = format!("{} {} HTTP/1.1\r\nhost: {}\r\n", self.method.name(), self.target, self.authority);
        let mut message = line.into_bytes();
        for (name, value) in self.fields.entries().iter().filter(|(name, _)| name != "content-length") {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                message.extend_from_slice(part);
            }
        }
        let is_expected = matches!(self.method, Method::Post | Method::Put | Method::Patch);
        if content.is_some() || is_expected {
            let length = content.as_ref().map_or(0, Vec::len);
            message.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
        }
        message.extend_from_slice(b"connection: close\r\n\r\n");
        let mut write = |bytes: &[u8]| {
            stream.write_all(bytes).map_err(|error| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => ErrorCode::ConnectionWriteTimeout,
                _ => ErrorCode::ConnectionTerminated,
            })
        };
        write(&message)?;
        write(content.as_deref().unwrap_or_default())
    }

    fn connect(&self) -> Answer<TcpStream, ErrorCode> {
        let found = (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => ErrorCode::HttpRequestDenied,
            ErrorKind::NotFound => ErrorCode::DnsError(DnsError { rcode: None, info_code: None }),
            ErrorKind::TimedOut => ErrorCode::DnsTimeout,
            ErrorKind::InvalidInput => ErrorCode::HttpRequestUriInvalid,
            _ => unexpected(error),
        })?;
        let mut last = ErrorCode::DestinationNotFound;
        for address in found {
            // No address of the network is asked for a connection that it could not carry.
            if self.over_tls && !is_beside(address.ip()) {
                last = ErrorCode::TlsProtocolError;
                continue;
            }
            let stream = match self.times.connect {
                None => TcpStream::connect(address),
                Some(time) => TcpStream::connect_timeout(&address, duration(time)),
            };
            match stream {
                Ok(stream) if self.over_tls && stream.local_addr().ok() != Some(CARRIED) => {
                    last = ErrorCode::TlsProtocolError;
                }
                Ok(stream) => return Ok(stream),
                Err(error) => last = refused(error),
            }
        }
        Err(last)
    }
}

/// Whether an address is of the range that the visor's own end is of.
fn is_beside(address: IpAddr) -> bool {
    matches!((address, CARRIED.ip()), (IpAddr::V4(one), IpAddr::V4(other)) if one.octets()[..3] == other.octets()[..3])
}

/// A time that a program has chosen. None at all would be none that is waited for.
fn duration(ns: u64) -> Duration {
    Duration::from_nanos(ns.max(1))
}

fn refused(error: Error) -> ErrorCode {
    match error.kind() {
        ErrorKind::PermissionDenied => ErrorCode::HttpRequestDenied,
        ErrorKind::ConnectionRefused => ErrorCode::ConnectionRefused,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => ErrorCode::ConnectionTerminated,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => ErrorCode::ConnectionTimeout,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
            ErrorCode::DestinationIpUnroutable
        }
        ErrorKind::NetworkDown => ErrorCode::DestinationUnavailable,
        ErrorKind::QuotaExceeded => ErrorCode::ConnectionLimitReached,
        _ => unexpected(error),
    }
}

fn unexpected(error: Error) -> ErrorCode {
    ErrorCode::InternalError(Some(error.to_string()))
}

/// A request on its way.
pub(super) struct Exchange {
    outcome: Mutex<Outcome>,
    content: Option<Sink>,
}

enum Outcome {
    Awaited,
    Come(Answer<Received, ErrorCode>),
    Taken,
}

impl Exchange {
    /// Sends a request, by a thread of its own.
    pub(super) fn begin(order: Order) -> Answer<Arc<Exchange>, ErrorCode> {
        let exchange = Arc::new(Exchange { outcome: Mutex::new(Outcome::Awaited), content: order.content.clone() });
        let told = exchange.clone();
        let thread = Builder::new().stack_size(STACK).spawn(move || {
            let outcome = order.carry_out();
            *told.lock() = Outcome::Come(outcome);
            changes::tell();
        });
        thread.map(|_| exchange).map_err(|_| ErrorCode::ConnectionLimitReached)
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come of it, once.
    pub(super) fn take(&self) -> Option<Answer<Received, ErrorCode>> {
        match core::mem::replace(&mut *self.lock(), Outcome::Taken) {
            Outcome::Come(outcome) => Some(outcome),
            Outcome::Awaited | Outcome::Taken => None,
        }
    }
}

impl Change for Exchange {
    fn has_come(&self) -> bool {
        !matches!(*self.lock(), Outcome::Awaited)
    }

    fn can_come(&self) -> bool {
        self.has_come() || !self.content.as_ref().is_some_and(Sink::is_open)
    }
}
