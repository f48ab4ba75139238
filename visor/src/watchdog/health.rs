//! Whether the server is there, and whether it can take work.
//!
//! `/livez` answers as long as the loop turns: who gets no answer should start the server anew. `/readyz` is also about
//! the processes below, and about the end that has been announced: who gets 503 should send work elsewhere. `/healthz`
//! tells both, and why.

use hyper::header::CONTENT_TYPE;
use hyper::http::Response;
use serde_json::json;

use super::Watchdog;
use super::body::Answer;
use super::error::{Refusal, json};
use super::log;
use super::metrics::{self, Now};

impl Watchdog {
    pub(super) fn livez(&self) -> Response<Answer> {
        text("ok\n")
    }

    pub(super) fn readyz(&self) -> Result<Response<Answer>, Refusal> {
        self.refuse_if_draining()?;
        match self.launcher.state().trouble() {
            None => Ok(text("ok\n")),
            Some(why) => Err(Refusal::unavailable(why)),
        }
    }

    pub(super) fn healthz(&self) -> Response<Answer> {
        let ready = self.readyz();
        let status = ready.as_ref().map_or_else(|refusal| refusal.status, Response::status);
        let (running, queued) = self.admission.load();
        let document = json!({
            "status": if ready.is_ok() { "ready" } else { "not-ready" },
            "live": true,
            "ready": ready.is_ok(),
            "draining": self.is_ending(),
            "trouble": self.launcher.state().trouble(),
            "isolation": self.isolation,
            "cgroup": self.cgroup,
            "version": env!("CARGO_PKG_VERSION"),
            "running": running,
            "queued": queued,
            "blanks": self.launcher.ready(),
            "damaged": self.registry.damages().iter().chain(self.ledger.damages()).collect::<Vec<_>>(),
        });
        json(Response::builder().status(status), &document)
    }

    pub(super) fn show_metrics(&self) -> Response<Answer> {
        let (running, queued) = self.admission.load();
        let (remembered, remembered_bytes) = self.history.kept();
        let blanks = self.launcher.ready();
        let log_dropped = log::dropped();
        let now = Now { running, queued, blanks, remembered, remembered_bytes, log_dropped };
        let body = Answer::from(self.metrics.encode(&now).into_bytes());
        let response = Response::builder().header(CONTENT_TYPE, metrics::CONTENT_TYPE).body(body);
        response.expect("the header is a constant")
    }
}

fn text(text: &'static str) -> Response<Answer> {
    let response = Response::builder().header(CONTENT_TYPE, "text/plain; charset=utf-8");
    response.body(Answer::Whole(text.into())).expect("the header is a constant")
}
