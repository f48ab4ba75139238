//! `/functions` and `/workflows`: what is registered.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, LOCATION};
use hyper::http::Response;
use serde_json::json;

use crate::http::answer::Answer;
use crate::http::error::{ApiError, json};
use crate::http::request_body::{Received, receive};
use crate::http::routes::Call;
use crate::invocations::ledger::meta_kept;
use crate::registry::entries::Kind;
use crate::registry::{Put, Registry};
use crate::service::Watchdog;

/// The largest workflow document. One that is larger than this was not written by a person, and not for one.
pub(crate) const DOCUMENT_MAX: u64 = monohull_host_files::input::WORKFLOW_MAX;

impl Watchdog {
    pub(crate) fn list_functions(&self) -> Response<Answer> {
        json(Response::builder(), &self.registry.list_functions())
    }

    pub(crate) fn list_workflows(&self) -> Response<Answer> {
        json(Response::builder(), &self.registry.list_workflows())
    }

    pub(crate) fn show_function(&self, name: &str) -> Result<Response<Answer>, ApiError> {
        let function = self.registry.function(name)?;
        Ok(json(Response::builder(), &self.registry.show_function(&function)))
    }

    /// The document as it was sent.
    pub(crate) fn show_workflow(&self, name: &str) -> Result<Response<Answer>, ApiError> {
        let workflow = self.registry.workflow(name)?;
        let answer = Response::builder().header(CONTENT_TYPE, "application/json");
        let body = Answer::Whole(workflow.document.clone());
        answer.body(body).map_err(|error| ApiError::monohull(error.to_string()))
    }

    pub(crate) async fn put_function(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let name = call.name.clone();
        let received = self.body_of(call, self.settings.body).await?;
        let watchdog = self.clone();
        let put = self.blocking(move |registry| {
            let bytes = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
            let put = registry.put_function(&name, &bytes)?;
            watchdog.look_again();
            watchdog.note_versions(registry.users_of(&name).iter().map(String::as_str));
            tracing::info!(function = name, bytes = bytes.len(), "registered");
            let function = registry.function(&name);
            let function = function.map_err(|_| ApiError::conflict(format!("`{name}` was removed meanwhile")))?;
            Ok((put, json!(registry.show_function(&function))))
        });
        let (put, shown) = put.await?;
        Ok(registered(Kind::Function, put, &shown))
    }

    pub(crate) async fn put_workflow(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let name = call.name.clone();
        let received = self.body_of(call, DOCUMENT_MAX).await?;
        let watchdog = self.clone();
        let put = self.blocking(move |registry| {
            let document = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
            let put = registry.put_workflow(&name, document)?;
            watchdog.look_again();
            watchdog.note_versions([name.as_str()]);
            tracing::info!(workflow = name, "registered");
            Ok((put, json!({ "name": name })))
        });
        let (put, shown) = put.await?;
        Ok(registered(Kind::Workflow, put, &shown))
    }

    /// What is wrong with a workflow that is to be deployed. Nothing is registered.
    pub(crate) async fn validate(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let received = self.body_of(call, DOCUMENT_MAX).await?;
        let warnings = self.blocking(move |registry| {
            let document = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
            registry.validate(&document)
        });
        Ok(json(Response::builder(), &json!({ "status": "valid", "warnings": warnings.await? })))
    }

    pub(crate) async fn remove_function(self: &Arc<Self>, name: &str) -> Result<Response<Answer>, ApiError> {
        let name = name.to_owned();
        self.blocking(move |registry| registry.remove_function(&name)).await?;
        Ok(no_content())
    }

    pub(crate) async fn remove_workflow(self: &Arc<Self>, name: &str) -> Result<Response<Answer>, ApiError> {
        let (removed, watchdog) = (name.to_owned(), self.clone());
        self.blocking(move |registry| {
            let schedules = watchdog.ledger.meta().schedules().map_err(meta_kept)?;
            // One that is damaged starts nothing.
            let users = schedules.iter().flatten().filter(|schedule| schedule.definition.workflow == removed);
            let users: Vec<_> = users.map(|schedule| schedule.name.as_str()).collect();
            if !users.is_empty() {
                let message = format!("schedules start the workflow `{removed}`: {}", users.join(", "));
                return Err(ApiError::conflict(message));
            }
            registry.remove_workflow(&removed)?;
            watchdog.metrics.forget(&removed);
            Ok(())
        })
        .await?;
        Ok(no_content())
    }

    /// The body of a request.
    pub(crate) async fn body_of(&self, call: Call, limit: u64) -> Result<Received, ApiError> {
        let (parts, body) = call.request.into_parts();
        receive(&parts.headers, body, limit, &self.settings.clients, &self.budget).await
    }

    /// Runs work that takes long, or waits for the disk, on a thread that serves no clients. It is finished even if the
    /// client goes away meanwhile.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Registry) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (watchdog, guard) = (self.clone(), self.work.track());
        let done = tokio::task::spawn_blocking(move || {
            let _guard = guard;
            work(&watchdog.registry)
        });
        done.await.map_err(|error| ApiError::monohull(error.to_string()))?
    }
}

fn registered(kind: Kind, put: Put, shown: &serde_json::Value) -> Response<Answer> {
    let status = match put {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    let name = shown["name"].as_str().unwrap_or_default();
    let location = format!("/{}s/{name}", kind.name());
    json(Response::builder().status(status).header(LOCATION, location), shown)
}

/// Done, and nothing to say.
pub(crate) fn no_content() -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(Default::default()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
