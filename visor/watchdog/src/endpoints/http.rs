//! `/http/NAME/…`: workflows that answer HTTP requests (`"http"` of their documents).

use std::sync::Arc;

use hyper::http::Response;
use hyper::{Method, StatusCode};

use crate::endpoints::invoke::{Caller, named};
use crate::execution::run::{Inputs, Wait};
use crate::http::answer::Answer;
use crate::http::content::Content;
use crate::http::error::{ApiError, Blame};
use crate::http::message;
use crate::http::request_body::{Received, receive_behind};
use crate::http::routes::Call;
use crate::service::Watchdog;
use monohull_report::text::quoted;

/// The kind of the error that a function's answer cannot be sent.
const MALFORMED: &str = "malformed-answer";

impl Watchdog {
    /// Runs a workflow with the request as its input, and sends the answer that it gives.
    pub(crate) async fn answer_http(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let caller = Caller::of(&call)?;
        let (workflow, document) = self.open_for(&call.name)?;
        let http = workflow.plan().http.clone().ok_or_else(|| {
            let name = &call.name;
            ApiError::not_found(format!("workflow `{name}` has no `http` and answers POST /invoke/{name} alone"))
        })?;
        let (parts, body) = call.request.into_parts();
        let head = message::request_head(&parts, &body, self.settings.token.is_some());
        let (limit, clients) = (self.settings.body, &self.settings.clients);
        let Received { content, hold } = receive_behind(head, body, limit, clients, &self.budget).await?;
        let request = content.into_input().map_err(|error| ApiError::host(error.to_string()))?;
        let inputs = Inputs { slots: vec![(http.request, request)], hold };
        // The client expects the answer, and no address where to ask for it later.
        let (invocation, end) = self.execute_for(caller, workflow, Some(document), inputs, Wait::InProcess).await?;
        let answered = end.result.as_ref().map_err(Clone::clone);
        let response = match answered.and_then(|outputs| answer_in(outputs, &http.response, &parts.method)) {
            Ok(response) => response,
            Err(refusal) => Box::pin(self.refused(refusal, &invocation, &end)).await?,
        };
        Ok(named(response, &invocation, &end))
    }
}

/// The answer in a workflow's output.
fn answer_in(outputs: &[(String, Content)], slot: &str, method: &Method) -> Result<Response<Answer>, ApiError> {
    let found = outputs.iter().find(|(name, _)| name == slot);
    let (_, content) = found.ok_or_else(|| ApiError::monohull("the output slot is missing"))?;
    message::answer(content, method).map_err(|error| {
        let message = format!("slot {} holds no answer that can be sent: {error}", quoted(slot));
        ApiError::new(StatusCode::BAD_GATEWAY, MALFORMED, Blame::Function, message)
    })
}
