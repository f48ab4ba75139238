//! A client of `monohull serve`, for the verbs that talk to one.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::http::uri::{Authority, Scheme};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

use super::exit::Exit;
use super::trust::{Trust, TrustError};
use monohull_host_files::input::{self, InputError};
use monohull_report::escape::{Line, quoted_lines, shown};
use monohull_watchdog::{AUTHORITY, port_of};

/// The default address of `monohull serve`.
const USUAL: &str = "http://127.0.0.1:7070";
/// Where one listens whose address has no port.
const HTTP_PORT: u16 = 80;
/// The same with TLS.
const HTTPS_PORT: u16 = 443;

/// The most bytes of an answer that is kept in memory: the longest report that a server takes fits several times. What a slot
/// holds is passed on as it comes, and may be longer.
const DOCUMENT_MAX: usize = 256 << 20;

/// Which server to ask, and with what.
#[derive(Debug, Args)]
pub(super) struct Server {
    /// The server: HOST:PORT or http://HOST:PORT, https://HOST:PORT or unix:PATH; by default $MONOHULL_SERVER, then http://127.0.0.1:7070
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
    /// A file with the bearer token that the server requires; $MONOHULL_TOKEN does the same
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file with certificate authorities in PEM that are trusted for an https:// server, besides those of this host; $MONOHULL_CA
    /// does the same
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Server {
    /// Whether one is named on the command line.
    pub(super) fn is_named(&self) -> bool {
        self.server.is_some()
    }

    /// What is given for a server, if none is named on the command line.
    pub(super) fn option_without_server(&self) -> Option<&'static str> {
        let given = [(self.token_file.is_some(), "--token-file"), (self.ca.is_some(), "--ca")];
        given.into_iter().find(|(is_given, _)| *is_given && !self.is_named()).map(|(_, option)| option)
    }
}

/// A request got no answer, or one that is an error.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(super) enum ClientError {
    #[error("the server's address is http://HOST:PORT, https://HOST:PORT or unix:PATH, not {0}")]
    Address(String),
    #[error("{0}")]
    Usage(String),
    #[error("{path} cannot be read: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: InputError,
    },
    #[error("no connection to {server}: {source}; `monohull serve` starts a server")]
    Connect {
        /// Its address.
        server: String,
        /// The host's answer.
        source: io::Error,
    },
    /// What could verify a server's certificate is missing or wrong.
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("no TLS connection to {server}: {source}{}", tls_hint(source))]
    Tls {
        /// Its address.
        server: String,
        /// What is wrong with it, or with its certificate.
        source: io::Error,
    },
    #[error("the server did not answer: {0}")]
    Http(#[from] hyper::Error),
    #[error("the host failed: {0}")]
    Host(#[from] io::Error),
    #[error("the request cannot be made: {0}")]
    Request(#[from] hyper::http::Error),
    #[error("the server's answer is not understood: {0}")]
    Answer(String),
    #[error("the server's answer is longer than {limit} bytes")]
    TooLong {
        /// What is taken.
        limit: usize,
    },
    #[error("{path} cannot be written: {source}")]
    Output {
        /// The file.
        path: String,
        /// The host's answer.
        source: io::Error,
    },
    #[error("the rest of the answer has no reader")]
    Unread,
    /// an error that the server has sent
    #[error("{}", error_text(document))]
    Refused {
        /// The status code.
        status: StatusCode,
        /// The body.
        document: Value,
    },
}

/// What may help where there is no TLS connection.
fn tls_hint(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(error)))
            if error.to_string().contains(AUTHORITY) =>
        {
            "; its certificate is one of an authority (`CA:TRUE`), and must be one of a server (`CA:FALSE`)"
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "; --ca FILE names the certificate authority of a server that this host does not know"
        }
        Some(rustls::Error::InvalidMessage(_)) => "; what listens there may expect http://",
        _ => "",
    }
}

/// What the server says of an error, in a line.
fn error_text(document: &Value) -> String {
    let error = &document["error"];
    let message = error["message"].as_str().unwrap_or("an error without a message");
    let at =
        error["step"].as_str().map(|step| format!("{}[{}]: ", Line(step), error["instance"].as_u64().unwrap_or(0)));
    let kind = error["kind"].as_str().unwrap_or("error");
    let blame = error["blame"].as_str().unwrap_or("unknown");
    format!("{}{}: {}\n  at fault  {}", at.unwrap_or_default(), Line(kind), quoted_lines(message), Line(blame))
}

impl ClientError {
    /// What the server calls it, if it is an error of the server's.
    pub(super) fn kind(&self) -> Option<&str> {
        match self {
            ClientError::Refused { document, .. } => document["error"]["kind"].as_str(),
            _ => None,
        }
    }

    /// The exit code.
    pub(super) fn exit(&self) -> Exit {
        match self {
            ClientError::Address(_) | ClientError::Usage(_) | ClientError::File { .. } | ClientError::Request(_) => {
                Exit::Usage
            }
            ClientError::Trust(error) if !error.is_hosts() => Exit::Usage,
            ClientError::Refused { status, .. } => match status.as_u16() {
                502 | 504 => Exit::WorkflowFailed,
                429 | 500..600 => Exit::Host,
                _ => Exit::Usage,
            },
            _ => Exit::Host,
        }
    }

    /// Prints the error, and returns the exit code.
    pub(super) fn report(&self, json: bool) -> Exit {
        let exit = self.exit();
        if let (true, ClientError::Refused { document, .. }) = (json, self) {
            super::output::json(document);
            return super::fail(exit, self as &dyn Display);
        }
        if let ClientError::Http(_) = self {
            // It may have done what it was asked for.
            let document = serde_json::json!({ "status": "unknown" });
            return super::refuse_with(json, exit, document, "unanswered", "host", self);
        }
        super::refuse(json, exit, if exit == Exit::Host { "host" } else { "invocation" }, self)
    }
}

/// An answer that is no error.
pub(super) struct Reply {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn json(&self) -> Result<Value, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::Answer(error.to_string()))
    }

    /// A header's text.
    pub(super) fn header(&self, name: &str) -> Result<String, ClientError> {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned).ok_or_else(|| ClientError::Answer(format!("it lacks the header {name}")))
    }
}

/// Takes a piece of an answer, whose status is known.
type Take<'t> = dyn FnMut(StatusCode, &[u8]) -> Result<(), ClientError> + 't;

/// What makes a request the same as one before it.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A request.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) media: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) body: Vec<u8>,
}

/// A connection to a server, made anew for each request.
pub(super) struct Client {
    runtime: Runtime,
    server: String,
    token: Option<String>,
    /// For an https:// server.
    trust: Option<Trust>,
}

impl Client {
    pub(super) fn new(options: &Server) -> Result<Client, ClientError> {
        let server = options.server.clone().or_else(|| std::env::var("MONOHULL_SERVER").ok());
        let mut server = server.unwrap_or_else(|| USUAL.to_owned());
        if is_bare(&server) {
            server.insert_str(0, "http://");
        }
        let trust = match Place::of(&server) {
            Some(Place::Network { tls: true, .. }) => {
                let ca = options.ca.clone().or_else(|| std::env::var_os("MONOHULL_CA").map(PathBuf::from));
                Some(Trust::new(ca.as_deref())?)
            }
            _ if options.ca.is_some() => {
                return Err(ClientError::Usage(format!(
                    "--ca is for servers with https://, and this is {}",
                    shown(&server)
                )));
            }
            _ => None,
        };
        let token = match &options.token_file {
            Some(path) => Some(read(path)?.trim_ascii_end().to_vec()),
            None => std::env::var_os("MONOHULL_TOKEN").map(std::ffi::OsString::into_encoded_bytes),
        };
        Ok(Client {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            server,
            trust,
            token: token.map(|token| String::from_utf8_lossy(&token).into_owned()),
        })
    }

    pub(super) fn get(&self, path: &str) -> Result<Reply, ClientError> {
        self.send(Method::GET, path, None, Vec::new())
    }

    /// Asks for something that comes bit by bit, or may be long.
    pub(super) fn stream(
        &self,
        path: &str,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        self.pass(Method::GET, path, None, Vec::new(), &mut |_, piece| take(piece)).map(drop)
    }

    /// Sends a request without a body.
    pub(super) fn post(&self, path: &str) -> Result<Reply, ClientError> {
        self.send(Method::POST, path, None, Vec::new())
    }

    /// Sends a request that does nothing twice with the same key.
    pub(super) fn post_once(&self, path: &str, key: Option<&str>, body: Vec<u8>) -> Result<Reply, ClientError> {
        self.send_keyed(Ask { method: Method::POST, path, media: Some("application/octet-stream"), key, body })
    }

    /// Sends a request, and waits for the answer, which is kept.
    pub(super) fn send_keyed(&self, ask: Ask<'_>) -> Result<Reply, ClientError> {
        let mut kept = Vec::new();
        let headers = self.pass_answer(ask, &mut |_, piece| keep(&mut kept, piece))?;
        Ok(Reply { headers, body: kept })
    }

    /// Sends a request with a body of a media type, and waits for the answer, which is kept.
    pub(super) fn send(
        &self,
        method: Method,
        path: &str,
        media: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Reply, ClientError> {
        let mut kept = Vec::new();
        let headers = self.pass(method, path, media, body, &mut |_, piece| keep(&mut kept, piece))?;
        Ok(Reply { headers, body: kept })
    }

    /// Sends a request, and passes on the answer piece by piece as it comes, with its status; an error is kept and returned.
    pub(super) fn pass(
        &self,
        method: Method,
        path: &str,
        media: Option<&str>,
        body: Vec<u8>,
        take: &mut Take<'_>,
    ) -> Result<HeaderMap, ClientError> {
        self.pass_answer(Ask { method, path, media, key: None, body }, take)
    }

    pub(super) fn pass_answer(&self, ask: Ask<'_>, take: &mut Take<'_>) -> Result<HeaderMap, ClientError> {
        self.runtime.block_on(async {
            let (parts, mut body) = self.exchange(ask).await?.into_parts();
            let status = parts.status;
            let mut error = Vec::new();
            while let Some(frame) = body.frame().await {
                let Ok(piece) = frame?.into_data() else { continue };
                if status.is_success() { take(status, &piece) } else { keep(&mut error, &piece) }?;
            }
            if status.is_success() {
                return Ok(parts.headers);
            }
            match serde_json::from_slice(&error) {
                Ok(document) => Err(ClientError::Refused { status, document }),
                Err(_) => Err(ClientError::Answer(format!("it is {status}"))),
            }
        })
    }

    async fn exchange(&self, ask: Ask<'_>) -> Result<Response<Incoming>, ClientError> {
        let Ask { method, path, media, key, body } = ask;
        let refused = |source| ClientError::Connect { server: self.server.clone(), source };
        let place = Place::of(&self.server).ok_or_else(|| ClientError::Address(self.server.clone()))?;
        let host = match &place {
            Place::Network { authority, .. } => authority.as_str(),
            Place::File(_) => "localhost",
        };
        let mut request = Request::builder().method(method).uri(path).header(HOST, host);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(media) = media {
            request = request.header(CONTENT_TYPE, media);
        }
        if let Some(key) = key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        match &place {
            Place::Network { authority, tls } => {
                // Brackets are the address's in an authority, not its own.
                let host = authority.host().trim_matches(['[', ']']);
                let usual = if *tls { HTTPS_PORT } else { HTTP_PORT };
                let port = port_of(authority, usual).ok_or_else(|| ClientError::Address(self.server.clone()))?;
                let stream = Patient::new(TcpStream::connect((host, port)).await.map_err(refused)?);
                match &self.trust {
                    Some(trust) => {
                        let failed = |source| ClientError::Tls { server: self.server.clone(), source };
                        talk(trust.connect(host, stream).await?.map_err(failed)?, request).await
                    }
                    None => talk(stream, request).await,
                }
            }
            Place::File(path) => talk(Patient::new(UnixStream::connect(path).await.map_err(refused)?), request).await,
        }
    }
}

/// Where a server listens.
#[derive(Debug)]
enum Place<'s> {
    /// A host, and a port if it is not the usual one; and whether it is asked by way of TLS.
    Network { authority: Authority, tls: bool },
    /// A socket's path.
    File(&'s str),
}

impl Place<'_> {
    /// What an address means: http://HOST:PORT, https://HOST:PORT or unix:PATH.
    fn of(address: &str) -> Option<Place<'_>> {
        if let Some(path) = address.strip_prefix("unix:") {
            return Some(Place::File(path));
        }
        let parts = address.parse::<Uri>().ok()?.into_parts();
        let authority = parts.authority.filter(|authority| !authority.as_str().contains('@'))?;
        let bare = parts.path_and_query.is_none_or(|rest| rest == "/");
        let tls = parts.scheme == Some(Scheme::HTTPS);
        (bare && (tls || parts.scheme == Some(Scheme::HTTP))).then_some(Place::Network { authority, tls })
    }
}

/// Whether an address is HOST:PORT, as `serve --listen` has it.
fn is_bare(address: &str) -> bool {
    let port =
        address.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains(['/', '@']) && *host != "unix");
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// Keeps a piece of an answer, up to a limit.
fn keep(kept: &mut Vec<u8>, piece: &[u8]) -> Result<(), ClientError> {
    if piece.len() > DOCUMENT_MAX - kept.len() {
        return Err(ClientError::TooLong { limit: DOCUMENT_MAX });
    }
    kept.extend_from_slice(piece);
    Ok(())
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, ClientError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the answer; errors are reported where it is waited for.
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

/// A connection on which an answer is still read when the server takes no more of the request: it may have refused it before
/// all of it was sent, and says why. TLS is above this, and does not notice.
struct Patient<S> {
    stream: S,
    refused: bool,
}

impl<S> Patient<S> {
    fn new(stream: S) -> Patient<S> {
        Patient { stream, refused: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, to)
    }
}

impl<S: AsyncWrite + Unpin> Patient<S> {
    /// Writes so many bytes, or, where no more are taken, does as if they were written.
    fn write(
        &mut self,
        length: usize,
        write: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.refused {
            return Poll::Ready(Ok(length));
        }
        match ready!(write(Pin::new(&mut self.stream))) {
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                self.refused = true;
                Poll::Ready(Ok(length))
            }
            written => Poll::Ready(written),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().write(bytes.len(), |stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.get_mut().write(length, |stream| stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// The content of a file, or of standard input if it is called `-`.
pub(super) fn read(path: &std::path::Path) -> Result<Vec<u8>, ClientError> {
    let unreadable = |source| ClientError::File { path: shown(path).to_string(), source };
    input::read(path, input::FILE_MAX).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_mean_a_host_and_a_port_or_a_path() {
        let network = |address| match Place::of(address) {
            Some(Place::Network { authority, tls: false }) => Some((authority.host().to_owned(), authority.port_u16())),
            _ => None,
        };
        assert!(matches!(Place::of("https://example:7070"), Some(Place::Network { tls: true, .. })));
        assert_eq!(network("https://example"), None);
        assert_eq!(network("http://127.0.0.1:7070"), Some(("127.0.0.1".into(), Some(7070))));
        assert_eq!(network("http://example/"), Some(("example".into(), None)));
        assert_eq!(network("http://[::1]"), Some(("[::1]".into(), None)));
        assert_eq!(network("http://[::1]:80/"), Some(("[::1]".into(), Some(80))));
        assert!(matches!(Place::of("unix:/run/a b"), Some(Place::File("/run/a b"))));
        for wrong in ["", "example:7070", "https://", "http://", "http://u:p@example", "http://example/path"] {
            assert!(Place::of(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_kept_up_to_a_limit() {
        let mut kept = vec![0; DOCUMENT_MAX - 1];
        assert!(keep(&mut kept, &[1]).is_ok());
        assert!(matches!(keep(&mut kept, &[1]), Err(ClientError::TooLong { limit: DOCUMENT_MAX })));
        assert_eq!(kept.len(), DOCUMENT_MAX);
    }
}
