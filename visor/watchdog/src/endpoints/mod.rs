//! The endpoints: what each route of [`crate::http::routes`] does.

mod branches;
mod contents;
pub(crate) mod durable;
mod events;
mod export;
pub(crate) mod health;
mod http;
pub(crate) mod invocations;
pub(crate) mod invoke;
mod invoke_kept;
pub(crate) mod known;
mod migrate;
pub mod openapi;
pub(crate) mod page;
pub(crate) mod registered;
pub(crate) mod schedules;
mod timeline;
pub(crate) mod versions;

use std::sync::Arc;

use hyper::http::Response;
use hyper::{Method, StatusCode};
use monohull_abi::callback::Told;
use serde::Deserialize;
use serde::de::Error as _;

use crate::http::answer::Answer;
use crate::http::error::ApiError;
use crate::http::routes::{Call, Route};
use crate::service::Watchdog;

/// A body that is a JSON object. A list of its values in their order would be taken for one.
fn object_of<'d, T: Deserialize<'d>>(body: &'d [u8]) -> Result<T, serde_json::Error> {
    match body.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(body),
        _ => Err(serde_json::Error::custom("expected a JSON object")),
    }
}

impl Watchdog {
    /// Answers a request that may be answered.
    pub(crate) async fn answer(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        if call.route == Route::Invoke {
            return self.invoke(call).await;
        }
        // In a box: each request is moved together with room for all that it may wait for.
        Box::pin(self.answer_any(call)).await
    }

    async fn answer_any(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let named = call.route.is_of_invocation().then(|| call.name.clone());
        let answered = self.answer_route(call).await;
        match (answered, named) {
            (Err(refusal), Some(name)) if refusal.status == StatusCode::NOT_FOUND => {
                Err(self.gone(name, refusal).await)
            }
            (answered, _) => answered,
        }
    }

    async fn answer_route(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let put = call.request.method() == Method::PUT;
        let delete = call.request.method() == Method::DELETE;
        let post = call.request.method() == Method::POST;
        match call.route {
            Route::Page => Ok(page::html()),
            Route::PageScript => Ok(page::script()),
            Route::OpenApi => Ok(openapi::document()),
            Route::Livez => Ok(self.livez()),
            Route::Readyz => self.readyz(),
            Route::Healthz => Ok(self.healthz()),
            Route::Metrics => Ok(self.show_metrics().await),
            Route::Functions => Ok(self.list_functions()),
            Route::Function if put => self.put_function(call).await,
            Route::Function if delete => self.remove_function(&call.name).await,
            Route::Function => self.show_function(&call.name),
            Route::Workflows => Ok(self.list_workflows()),
            Route::Workflow if put => self.put_workflow(call).await,
            Route::Workflow if delete => self.remove_workflow(&call.name).await,
            Route::Workflow => self.show_workflow(&call.name),
            Route::WorkflowVersions => self.list_versions(&call).await,
            Route::WorkflowMigrate => self.migrate(call).await,
            Route::Schedules => self.list_schedules(&call).await,
            Route::Schedule if put => self.put_schedule(call).await,
            Route::Schedule if delete => self.remove_schedule(&call.name).await,
            Route::Schedule => self.show_schedule(&call).await,
            Route::Invoke => self.invoke(call).await,
            Route::Http => self.answer_http(call).await,
            Route::AsyncInvoke => self.async_invoke(call).await,
            Route::Run => self.run_document(call).await,
            Route::Validate => self.validate(call).await,
            Route::Invocations if post => self.import(call).await,
            Route::InvocationContents => self.show_checkpoint(&call).await,
            Route::InvocationCheckpoint => self.export(&call).await,
            Route::Invocations => self.list_invocations(&call).await,
            Route::Invocation if delete => self.kill_invocation(&call.name).await,
            Route::Invocation => self.show_invocation(&call).await,
            Route::InvocationLogs => self.show_logs(&call).await,
            Route::InvocationOutput => self.show_output(&call).await,
            Route::InvocationEvent => self.send_event(call).await,
            Route::InvocationState => self.state(&call).await,
            Route::Callback => self.answer_callback(call, Told::Completed).await,
            Route::CallbackReject => self.answer_callback(call, Told::Rejected).await,
            Route::CallbackHeartbeat => self.beat_callback(call).await,
            Route::InvocationPause | Route::InvocationResume | Route::InvocationCancel => self.control(call).await,
            Route::InvocationKill => self.kill(&call).await,
            Route::InvocationPurge => self.purge(call).await,
            Route::InvocationFork => self.fork(call).await,
            Route::InvocationRewind => self.rewind(call).await,
            Route::InvocationCheckpoints if post => self.label_checkpoint(call).await,
            Route::InvocationCheckpoints => self.list_checkpoints(&call).await,
            Route::InvocationTimeline => self.show_timeline(&call).await,
        }
    }
}
