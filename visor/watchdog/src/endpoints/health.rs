//! Health checks.
//!
//! `/livez` answers while the threads run that serve; without an answer the server should be restarted. `/readyz` also covers the
//! worker processes and a shutdown that has begun; after a 503 work should be sent elsewhere. `/healthz` reports both, with
//! the reasons.

use std::sync::Arc;

use hyper::header::CONTENT_TYPE;
use hyper::http::Response;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::http::answer::Answer;
use crate::http::error::{ApiError, json};
use crate::log;
use crate::metrics::{self, Now};
use crate::service::Watchdog;

impl Watchdog {
    /// What keeps this server from taking work, besides its own end.
    fn trouble(&self) -> Option<String> {
        let troubles = [self.workers.state().trouble().map(str::to_owned), self.state_watch.trouble()];
        let troubles: Vec<String> = troubles.into_iter().flatten().collect();
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }

    pub(crate) fn livez(&self) -> Response<Answer> {
        text("ok\n")
    }

    pub(crate) fn readyz(&self) -> Result<Response<Answer>, ApiError> {
        self.refuse_if_draining()?;
        match self.trouble() {
            None => Ok(text("ok\n")),
            Some(why) => Err(ApiError::unavailable(why)),
        }
    }

    pub(crate) fn healthz(&self) -> Response<Answer> {
        let ready = self.readyz();
        let status = ready.as_ref().map_or_else(|refusal| refusal.status, Response::status);
        let (running, queued) = self.admission.load();
        let document = json!({
            "status": if ready.is_ok() { "ready" } else { "not-ready" },
            "live": true,
            "ready": ready.is_ok(),
            "draining": self.is_ending(),
            "trouble": self.trouble(),
            "isolation": self.isolation,
            "cgroup": self.cgroup,
            "tls": self.tls.is_some(),
            "version": env!("CARGO_PKG_VERSION"),
            "running": running,
            "queued": queued,
            "idle_workers": self.workers.ready(),
            "kept_workers": self.kept.len(),
            "process": if self.reuse { "reused" } else { "per-invocation" },
            "damaged": self.registry.corrupt_files(),
        });
        json(Response::builder().status(status), &document)
    }

    pub(crate) async fn show_metrics(self: &Arc<Self>) -> Response<Answer> {
        let watchdog = self.clone();
        let tally = spawn_blocking(move || watchdog.ledger.tally()).await;
        let durable = match tally {
            Ok(Ok(tally)) => Some(tally),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the ledger cannot be counted");
                None
            }
            Err(_) => None,
        };
        let (running, queued) = self.admission.load();
        let (remembered, remembered_bytes) = self.history.kept();
        let idle_workers = self.workers.ready();
        let log_dropped = log::dropped();
        let state_in_place = self.state_watch.trouble().is_none();
        let kept_workers = self.kept.len();
        let (templates, residents) = (self.templates.totals(), self.residents.totals());
        let now = Now {
            running,
            queued,
            idle_workers,
            kept_workers,
            kept_memory: self.kept.memory(),
            residents,
            templates,
            answer_bytes: self.transit.bytes(),
            remembered,
            remembered_bytes,
            log_dropped,
            state_in_place,
            durable,
        };
        let body = Answer::from(self.metrics.encode(&now).into_bytes());
        let response = Response::builder().header(CONTENT_TYPE, metrics::CONTENT_TYPE).body(body);
        response.expect("the header is a constant")
    }
}

fn text(text: &'static str) -> Response<Answer> {
    let response = Response::builder().header(CONTENT_TYPE, "text/plain; charset=utf-8");
    response.body(Answer::Whole(text.into())).expect("the header is a constant")
}
