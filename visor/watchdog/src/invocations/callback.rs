//! Callbacks: a request to another server when an asynchronous invocation has ended.
//!
//! A client that sends `X-Callback-Url` has the invocation's document POSTed there. That makes this server send requests
//! to where a client says, into networks the client may not reach itself; so only hosts the operator has named are
//! called, and redirections are not followed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::to_vec;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::http::authority::port_of;
use crate::http::error::ApiError;
use crate::http::head::CALLBACK_URL;
use crate::http::trace::{CALL_ID, TRACEPARENT};
use crate::invocations::invocation::Invocation;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// The pauses between attempts: long enough for a server to be started anew.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// The address of a callback.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Callback {
    host: String,
    port: u16,
    authority: String,
    path: String,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
enum CallbackError {
    #[error("no answer within {0:?}")]
    Slow(Duration),
    #[error("no connection: {0}")]
    Connect(#[from] io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("the answer was {0}")]
    Answer(StatusCode),
}

impl Callback {
    /// What a request asks for, if it may.
    pub(crate) fn of(headers: &HeaderMap, allowed: &[String]) -> Result<Option<Callback>, ApiError> {
        headers.get(CALLBACK_URL).map(|value| Callback::to(value.as_bytes(), allowed)).transpose()
    }

    /// The callback to an address, if it may be called.
    pub(crate) fn to(url: &[u8], allowed: &[String]) -> Result<Callback, ApiError> {
        let uri: Uri = url.try_into().map_err(|_| ApiError::bad_request("X-Callback-Url is no URL"))?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let (Some("http"), Some(authority)) = (uri.scheme_str(), authority) else {
            return Err(ApiError::bad_request("X-Callback-Url: http://HOST[:PORT]/PATH"));
        };
        let host = authority.host().to_ascii_lowercase();
        let Some(port) = port_of(authority, 80) else {
            return Err(ApiError::bad_request("X-Callback-Url has no port that there is"));
        };
        let named = |entry: &String| {
            let entry = entry.to_ascii_lowercase();
            entry == host || entry == format!("{host}:{port}")
        };
        if !allowed.iter().any(named) {
            let message = format!("callbacks to {host} are not allowed; the operator allows hosts by --callback-host");
            return Err(ApiError::bad_request(message));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Callback { host, port, authority: authority.to_string(), path })
    }

    /// The address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.authority, self.path)
    }

    /// Sends it; tries again a few times, unless `enough` returns true. Returns whether no further attempt is needed: it has been
    /// sent, or given up.
    pub(crate) async fn send(&self, invocation: &Arc<Invocation>, enough: impl Fn() -> bool) -> bool {
        let shown = invocation.clone();
        // A report may be long, and no thread that serves waits while it is written.
        let permit = invocation.report_permit().await;
        let written =
            tokio::task::spawn_blocking(move || to_vec(&shown.show()).map(Bytes::from).unwrap_or_default()).await;
        // Others need not wait until it has arrived.
        drop(permit);
        let Ok(document) = written.inspect_err(|error| tracing::error!(%error, "callback")) else { return true };
        let mut pauses = PAUSES.into_iter();
        loop {
            let sent = timeout(ATTEMPT, self.attempt(invocation, document.clone())).await;
            let error = match sent.unwrap_or(Err(CallbackError::Slow(ATTEMPT))) {
                Ok(()) => return true,
                Err(error) => error,
            };
            tracing::warn!(id = invocation.id, to = self.authority, %error, "callback");
            match pauses.next() {
                Some(_) if enough() => return false,
                Some(pause) => sleep(pause).await,
                None => return true,
            }
        }
    }

    async fn attempt(&self, invocation: &Invocation, document: Bytes) -> Result<(), CallbackError> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.port)).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::post(&self.path)
            .header(HOST, &self.authority)
            .header(USER_AGENT, concat!("monohull/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header(CALL_ID, &invocation.call_id)
            .header(TRACEPARENT, invocation.trace.to_string())
            .body(Full::new(document))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let exchange = async {
            let answer = sender.send_request(request).await?;
            // The connection is closed together with the answer's body, which is not read.
            if answer.status().is_success() { Ok(()) } else { Err(CallbackError::Answer(answer.status())) }
        };
        tokio::pin!(exchange);
        tokio::select! {
            done = &mut exchange => done,
            ended = connection => {
                ended?;
                exchange.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn of(url: &str) -> Result<Option<Callback>, StatusCode> {
        let headers = HeaderMap::from_iter([(CALLBACK_URL, HeaderValue::from_str(url).expect("a value"))]);
        let allowed = ["hooks.example".to_owned(), "127.0.0.1:9000".to_owned()];
        Callback::of(&headers, &allowed).map_err(|refusal| refusal.status)
    }

    #[test]
    fn only_named_hosts_are_called() {
        let found = of("http://Hooks.Example/done?x=1").expect("allowed").expect("a callback");
        assert_eq!((found.host.as_str(), found.port, found.path.as_str()), ("hooks.example", 80, "/done?x=1"));
        assert_eq!(of(&found.url()).expect("allowed"), Some(found));
        assert!(of("http://127.0.0.1:9000").is_ok() && of("http://hooks.example:81/").is_ok());
        for url in [
            "http://127.0.0.1:9001/",
            "http://127.0.0.1/",
            "http://hooks.example@169.254.169.254/",
            "http://user@hooks.example/",
            "http://hooks.example.evil/",
            "https://hooks.example/",
            "file:///etc/passwd",
            "/done",
            "",
        ] {
            assert_eq!(of(url), Err(StatusCode::BAD_REQUEST), "{url}");
        }
        assert_eq!(Callback::of(&HeaderMap::new(), &[]).ok(), Some(None));
    }
}
