//! `/invocations`: their state, printed lines and results.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::Response;
use serde_json::json;
use tokio::sync::mpsc;

use crate::endpoints::registered::no_content;
use crate::http::answer::Answer;
use crate::http::content::Content;
use crate::http::error::{ApiError, json};
use crate::http::routes::Call;
use crate::invocations::invocation::{Invocation, LogLine};
use crate::service::Watchdog;
use monohull_report::Stream;
use monohull_report::escape::{Line, Notation};

/// Invocations in a list unless the request says otherwise, and the most there can be.
const LISTED: usize = 100;
const LISTED_MAX: usize = 10_000;
/// Batches of lines that wait for a client that follows them.
const BATCHES: usize = 16;

/// How lines are written.
#[derive(Clone, Copy)]
enum Format {
    /// `step[instance] | text`, as `monohull run` shows them: escaped.
    Text,
    /// The same, with the text as the function printed it.
    Raw,
    /// One JSON object per line.
    Json,
}

impl Watchdog {
    pub(crate) fn list_invocations(&self, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [limit] = call.parameters(["limit"])?;
        let limit = match limit {
            None => LISTED,
            Some(text) => {
                let limit = text.parse().ok().filter(|limit| (1..=LISTED_MAX).contains(limit));
                limit.ok_or_else(|| ApiError::bad_request(format!("limit is a number from 1 to {LISTED_MAX}")))?
            }
        };
        let newest = self.history.newest(limit);
        let shown: Vec<_> = newest.iter().map(|invocation| invocation.summary()).collect();
        Ok(json(Response::builder(), &json!({ "invocations": shown })))
    }

    pub(crate) async fn show_invocation(self: &Arc<Self>, id: &str) -> Result<Response<Answer>, ApiError> {
        let invocation = self.find(id)?;
        self.written(&invocation.clone(), move || json(Response::builder(), &invocation.show())).await
    }

    /// An answer that may contain an invocation's report. A long one is written on another thread.
    pub(crate) async fn written(
        self: &Arc<Self>,
        invocation: &Invocation,
        write: impl FnOnce() -> Response<Answer> + Send + 'static,
    ) -> Result<Response<Answer>, ApiError> {
        let _permit = invocation.report_permit().await;
        if invocation.is_long() { self.blocking(move |_| Ok(write())).await } else { Ok(write()) }
    }

    /// Stops an invocation that runs; one that has ended stays as it is.
    pub(crate) fn cancel_invocation(&self, id: &str) -> Result<Response<Answer>, ApiError> {
        self.find(id)?.cancel();
        Ok(no_content())
    }

    /// What functions have printed so far, or also what they are going to.
    pub(crate) fn show_logs(&self, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [follow, format] = call.parameters(["follow", "format"])?;
        let invocation = self.find(&call.name)?;
        let (format, content_type) = match format.as_deref() {
            None | Some("text") => (Format::Text, "text/plain; charset=utf-8"),
            Some("raw") => (Format::Raw, "text/plain; charset=utf-8"),
            Some("json") => (Format::Json, "application/x-ndjson"),
            Some(_) => return Err(ApiError::bad_request("format is text, raw or json")),
        };
        let body = match follow.as_deref() {
            None | Some("false") => {
                let (lines, dropped) = invocation.lines();
                Answer::Whole([format.write(&lines), format.dropped(dropped)].concat().into())
            }
            Some("true" | "") => {
                let (stream, farewell) = (call.stream.clone(), self.settings.clients.farewell);
                follow_lines(invocation, format, async move { stream.gone(farewell).await })
            }
            Some(_) => return Err(ApiError::bad_request("follow is true or false")),
        };
        let response = Response::builder().header(CONTENT_TYPE, content_type).body(body);
        response.map_err(|error| ApiError::monohull(error.to_string()))
    }

    /// One output slot of an invocation that has ended, as it is.
    pub(crate) fn show_output(&self, call: &Call) -> Result<Response<Answer>, ApiError> {
        let invocation = self.find(&call.name)?;
        let Some(end) = invocation.ended() else {
            return Err(ApiError::not_found("the invocation has not ended yet, so there is no result"));
        };
        let outputs =
            end.result.as_ref().map_err(|_| ApiError::not_found("the invocation failed: it has no result"))?;
        let found = outputs.iter().find(|(name, _)| *name == call.slot);
        let (name, content) = found.ok_or_else(|| ApiError::not_found("the invocation has no such output slot"))?;
        Ok(output(content.clone(), invocation.content_type(name)))
    }

    fn find(&self, id: &str) -> Result<Arc<Invocation>, ApiError> {
        self.history.find(id).ok_or_else(|| {
            let message = "no invocation has this id; those that ended long ago, or before many others, are forgotten";
            ApiError::not_found(message)
        })
    }
}

/// What a workflow has made, of the type that it says. A browser that is led here runs nothing of it: the page at `/` comes from the
/// same address, and a script there could do all that an operator can.
pub(crate) fn output(content: Content, content_type: &str) -> Response<Answer> {
    let mut response = Response::new(Answer::from(content));
    let given = HeaderValue::from_str(content_type);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, given.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Sends lines as they are printed, until the invocation ends or the client goes away.
fn follow_lines(
    invocation: Arc<Invocation>,
    format: Format,
    gone: impl Future<Output = ()> + Send + 'static,
) -> Answer {
    let (sender, receiver) = mpsc::channel(BATCHES);
    tokio::spawn(async move {
        let mut sent = 0;
        let mut gone = std::pin::pin!(gone);
        loop {
            // A client may go away while nothing is printed, and another come.
            let lines = tokio::select! {
                lines = invocation.lines_after(sent) => lines,
                () = sender.closed() => return,
                () = &mut gone => return,
            };
            let Some(lines) = lines else {
                let _ = sender.send(format.dropped(invocation.lines().1)).await;
                return;
            };
            sent += lines.len();
            if sender.send(format.write(&lines)).await.is_err() {
                return;
            }
        }
    });
    Answer::Stream(receiver)
}

impl Format {
    /// Says that there were more lines, if there were.
    fn dropped(self, lines: u64) -> Bytes {
        match (self, lines) {
            (_, 0) => Bytes::new(),
            (Format::Json, _) => format!("{}\n", json!({ "dropped": lines })).into(),
            (Format::Text | Format::Raw, _) => {
                format!("({lines} more lines were dropped: there is room for so many)\n").into()
            }
        }
    }

    fn write(self, lines: &[LogLine]) -> Bytes {
        let mut text = String::new();
        for line in lines {
            // Writing to a string does not fail.
            let _ = match self {
                Format::Json => writeln!(text, "{}", Notation::Json.escape(&json!(line).to_string())),
                Format::Text => writeln!(text, "{}{}", line.tag(), Line(&line.text)),
                Format::Raw => writeln!(text, "{}{}", line.tag(), line.text),
            };
        }
        text.into()
    }
}

impl LogLine {
    /// Where the line comes from.
    fn tag(&self) -> String {
        let mark = if self.stream == Stream::Stderr { '!' } else { '|' };
        format!("{}[{}] {mark} ", self.step, self.instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::http::trace::Trace;
    use crate::invocations::invocation::Mode;
    use hyper::HeaderMap;
    use monohull_workflow as workflow;
    use std::path::Path;

    #[tokio::test]
    async fn a_client_that_stops_following_leaves_nothing_behind() {
        const NO_OP: &str = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[{"name":"s","function":"f"}]}"#;
        let plan = workflow::load_str(Path::new("w.json"), NO_OP).expect("a workflow");
        let trace = Trace::of(&HeaderMap::new());
        let invocation = Arc::new(Invocation::new(Moment::now(), None, trace, &plan, Mode::Async));
        for _ in 0..100 {
            let answer = follow_lines(invocation.clone(), Format::Text, std::future::pending());
            tokio::task::yield_now().await;
            drop(answer);
        }
        let mut left = usize::MAX;
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            left = Arc::strong_count(&invocation);
        }
        assert_eq!(left, 1, "it prints nothing, and no client follows it");
    }
}
