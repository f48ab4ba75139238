//! One connection of a function: its requests, one after the other, and their answers.

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::Origin;
use super::head;
use super::upstream::{UpstreamError, Ways};

/// The most bytes of a head, and of a body that one side has sent and the other has not taken.
pub(super) const BUFFER: usize = 64 << 10;

/// A host, and what requests for it get.
pub(super) struct Target {
    pub(super) origin: Origin,
    pub(super) authority: HeaderValue,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Requests that got no answer from it.
    pub(super) failures: AtomicU32,
}

/// The failures of one host and run that are logged: a function can cause any number of them.
const LOGGED_MAX: u32 = 16;

/// The connection to the host, kept for the next request.
#[derive(Default)]
struct Upstream {
    sender: Option<SendRequest<Incoming>>,
    /// What drives it; it ends with this value.
    drivers: JoinSet<()>,
}

type Answer = Response<Either<Incoming, Full<Bytes>>>;

/// Serves a function's connection until either side closes it. What it has opened is closed by then.
pub(super) async fn serve(stream: UnixStream, target: Arc<Target>, ways: Arc<Result<Ways, UpstreamError>>) {
    let upstream = Arc::new(Mutex::new(Upstream::default()));
    let answer = |request| {
        let (target, ways, upstream) = (target.clone(), ways.clone(), upstream.clone());
        async move { Ok::<_, Infallible>(answer(request, &target, &ways, &mut *upstream.lock().await).await) }
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER).auto_date_header(false);
    // The function has closed its end, or sent what is no HTTP; it was answered if it could be.
    let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

async fn answer(
    request: Request<Incoming>,
    target: &Target,
    ways: &Result<Ways, UpstreamError>,
    upstream: &mut Upstream,
) -> Answer {
    let request = match head::outgoing(request, &target.authority, &target.headers) {
        Ok(request) => request,
        Err(refused) => return text(refused.status(), format!("{}: {refused}\n", target.origin.host)),
    };
    match ways {
        Ok(ways) => match pass_on(request, target, ways, upstream).await {
            Ok(response) => response.map(Either::Left),
            Err(error) => failed(target, &error),
        },
        Err(error) => failed(target, error),
    }
}

/// The answer where the host gives none; the first ones are in the log as well.
fn failed(target: &Target, error: &UpstreamError) -> Answer {
    let Origin { host, port, .. } = &target.origin;
    if target.failures.fetch_add(1, Ordering::Relaxed) < LOGGED_MAX {
        tracing::warn!(host, port, %error, "no answer over https");
    }
    text(StatusCode::BAD_GATEWAY, format!("https://{host}:{port}: {error}\n"))
}

async fn pass_on(
    mut request: Request<Incoming>,
    target: &Target,
    ways: &Ways,
    upstream: &mut Upstream,
) -> Result<Response<Incoming>, UpstreamError> {
    loop {
        let kept = upstream.sender.take().filter(|sender| !sender.is_closed());
        let is_kept = kept.is_some();
        let mut sender = match kept {
            Some(sender) => sender,
            None => {
                upstream.drivers = JoinSet::new();
                ways.connect(&target.origin, &mut upstream.drivers).await?
            }
        };
        match sender.ready().await {
            Ok(()) => {}
            // The host has closed it since the last answer.
            Err(_) if is_kept => continue,
            Err(error) => return Err(UpstreamError::Http(error)),
        }
        match sender.try_send_request(request).await {
            Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                return Err(UpstreamError::Switched);
            }
            Ok(mut response) => {
                head::take_hop_by_hop(response.headers_mut());
                upstream.sender = Some(sender);
                return Ok(response);
            }
            Err(mut error) => match error.take_message() {
                // Nothing of it was sent.
                Some(back) if is_kept => request = back,
                _ => return Err(UpstreamError::Http(error.into_error())),
            },
        }
    }
}

fn text(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
