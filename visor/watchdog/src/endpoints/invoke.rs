//! `/invoke`, `/async-invoke`, `/run`: what makes workflows run.

use std::sync::Arc;

use bytes::Bytes;
use humantime::DurationError;
use hyper::StatusCode;
use hyper::body::Body as _;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::http::Response;
use monohull_durable::{InvocationId, LAST_TIME, Meta as _, NoTime, Started, time_of};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::clock::Moment;
use crate::endpoints::durable::{full, id_of_key, idempotency_key};
use crate::endpoints::invocations::output as output_of;
use crate::endpoints::object_of;
use crate::endpoints::registered::DOCUMENT_MAX;
use crate::execution::basis::may_begin_again;
use crate::execution::run::{Inputs, Task, Wait};
use crate::http::answer::Answer;
use crate::http::connection::Stream;
use crate::http::content::SMALL;
use crate::http::error::{ApiError, Blame, json};
use crate::http::request_body::{Received, receive};
use crate::http::routes::Call;
use crate::http::trace::{Trace, call_id};
use crate::invocations::callback::Callback;
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::{meta_kept, now};
use crate::invocations::record::End;
use crate::invocations::slots::{self, Given};
use crate::invocations::status::{Mode, Status};
use crate::service::Watchdog;
use monohull_engine::Ready;

/// The name of an invocation in this server, for its logs and its timeline.
pub(crate) const INVOCATION_ID: HeaderName = HeaderName::from_static("x-invocation-id");
/// Seconds from the request's acceptance to the first instruction of its first function.
const COLD_START: HeaderName = HeaderName::from_static("x-cold-start");

/// The body of `POST /run`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunRequest<'a> {
    #[serde(borrow)]
    workflow: &'a RawValue,
    #[serde(default)]
    inputs: Given,
}

/// The client, and its names for the invocation.
pub(super) struct Caller {
    accepted: Moment,
    call_id: Option<String>,
    trace: Trace,
    pub(super) stream: Arc<Stream>,
}

impl Caller {
    pub(super) fn of(call: &Call) -> Result<Caller, ApiError> {
        let headers = call.request.headers();
        Ok(Caller {
            accepted: call.accepted,
            call_id: call_id(headers)?,
            trace: Trace::of(headers),
            stream: call.stream.clone(),
        })
    }
}

impl Watchdog {
    /// Runs a workflow, and answers with what came of it.
    pub(crate) async fn invoke(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let caller = Caller::of(&call)?;
        let [output, id, delay, at] = call.parameters(["output", "id", "delay", "at"])?;
        let chosen = ChosenId::of(&call, id)?;
        let due = due(delay.as_deref(), at.as_deref())?;
        let (workflow, document) = self.open_for(&call.name)?;
        slots::check_output(workflow.plan(), output.as_deref())?;
        let inputs = self.inputs_of(&workflow, call).await?;
        if chosen.is_some() || due.is_some() {
            let call = NewCall { caller, workflow, document, inputs, callback: None, chosen, due };
            return Box::pin(self.invoke_kept(call, output)).await;
        }
        let (invocation, end) = self.execute_for(caller, workflow, Some(document), inputs, Wait::Durable).await?;
        if end.status == Status::Suspended {
            let mut response = accepted(&invocation.id, &invocation.call_id, Status::Suspended);
            named_only(response.headers_mut(), &invocation);
            return Ok(response);
        }
        let response = match answered(&end, output.as_deref(), &invocation) {
            Ok(response) => response,
            Err(refusal) => Box::pin(self.refused(refusal, &invocation, &end)).await?,
        };
        Ok(named(response, &invocation, &end))
    }

    /// Why there is no result, with the report if there is one.
    pub(super) async fn refused(
        self: &Arc<Self>,
        refusal: ApiError,
        invocation: &Invocation,
        end: &Arc<End>,
    ) -> Result<Response<Answer>, ApiError> {
        let end = end.clone();
        let write = move || {
            let short = end.report.is_some().then(|| refusal.clone());
            let mut response = refusal.with_report(end.report.as_ref()).into_response();
            // There may be no room for the report.
            if response.body().size_hint().exact().is_some_and(|bytes| bytes > SMALL) {
                short.and_then(|short| response.extensions_mut().insert(short));
            }
            response
        };
        self.written(invocation, write).await
    }

    /// Accepts a workflow's invocation, and answers with its name. One that may be run again from its beginning, that the client names or that begins
    /// later is run as any that is due; another one at once, within the queue.
    pub(crate) async fn async_invoke(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let caller = Caller::of(&call)?;
        let [id, delay, at] = call.parameters(["id", "delay", "at"])?;
        let callback = Callback::of(call.request.headers(), &self.settings.callbacks)?;
        let chosen = ChosenId::of(&call, id)?;
        let due = due(delay.as_deref(), at.as_deref())?;
        let (workflow, document) = self.open_for(&call.name)?;
        let inputs = self.inputs_of(&workflow, call).await?;
        if chosen.is_some() || due.is_some() || may_begin_again(workflow.plan()) {
            let new = NewCall { caller, workflow, document, inputs, callback, chosen, due };
            return self.start_durable(new).await;
        }
        let (task, _) = self.prepare(caller, workflow, Some(document), inputs, Mode::Async)?;
        let invocation = &task.invocation.clone();
        self.begin_asynchronous(task, callback.as_ref()).await?;
        let mut response = accepted(&invocation.id, &invocation.call_id, Status::Pending);
        named_only(response.headers_mut(), invocation);
        Ok(response)
    }

    /// Puts a call into the ledger, and answers with its name.
    async fn start_durable(self: &Arc<Self>, call: NewCall) -> Result<Response<Answer>, ApiError> {
        let (invocation, status) = self.add_call(call).await?;
        let mut response = accepted(&invocation.id, &invocation.call_id, status);
        named_only(response.headers_mut(), &invocation);
        Ok(response)
    }

    /// Puts a call into the ledger, from where it is run when it is due, unless it is there.
    pub(super) async fn add_call(self: &Arc<Self>, call: NewCall) -> Result<(Invocation, Status), ApiError> {
        let NewCall { caller, workflow, document, inputs, callback, chosen, due } = call;
        let plan = workflow.plan();
        let Caller { accepted: at, call_id, trace, .. } = caller;
        let mut invocation = Invocation::new(at, call_id, trace, plan, Mode::Async);
        if let Some(ChosenId::Id(id) | ChosenId::OfKey(id)) = &chosen {
            invocation.call_by(id.as_str());
        }
        let id: InvocationId = invocation.id.parse().map_err(|_| ApiError::monohull("an id is none"))?;
        let (watchdog, most) = (self.clone(), self.settings.durable);
        let head = invocation.head();
        let started = self.blocking(move |_| {
            watchdog.ledger.change(|ledger| {
                let adding = ledger.adding()?;
                let url = callback.as_ref().map(Callback::url);
                let start = ledger.add_start(&adding, head, &document, &workflow, &inputs.slots, url)?;
                let is_known = ledger.meta().get(&id).map_err(meta_kept)?.is_some();
                if !is_known && !ledger.has_room(1, most)? {
                    return Err(full(most));
                }
                ledger.start(&id, &start, due.unwrap_or_else(now))
            })
        });
        let status = match started.await? {
            Started::New => Status::Pending,
            Started::Same(status) => status.into(),
            Started::Taken if matches!(chosen, Some(ChosenId::OfKey(_))) => {
                let message = "the Idempotency-Key is that of another call: the workflow's inputs differ";
                return Err(ApiError::invalid(Blame::Client, message));
            }
            Started::Taken => {
                let message =
                    format!("the id {} is another invocation's: /invocations/{}", invocation.id, invocation.id);
                return Err(ApiError::conflict(message));
            }
        };
        Ok((invocation, status))
    }

    /// Runs a workflow that is not registered, of functions that are.
    pub(crate) async fn run_document(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let caller = Caller::of(&call)?;
        let [] = call.parameters([])?;
        if idempotency_key(call.request.headers())?.is_some() {
            let message =
                "a document that is not registered is run each time: Idempotency-Key is for workflows that are";
            return Err(ApiError::bad_request(message));
        }
        self.refuse_if_draining()?;
        let Received { content, hold } = self.body_of(call, self.settings.body).await?;
        let ready = self.blocking(move |registry| {
            let bytes = content.read().map_err(|error| ApiError::host(error.to_string()))?;
            let request: RunRequest<'_> = object_of(&bytes).map_err(|error| {
                ApiError::bad_request(format!("the body is not {{\"workflow\": {{…}}, \"inputs\": {{…}}}}: {error}"))
            })?;
            let document = request.workflow.get().as_bytes();
            if document.len() as u64 > DOCUMENT_MAX {
                return Err(ApiError::too_large("the workflow", DOCUMENT_MAX));
            }
            let workflow = registry.prepare("workflow", document)?;
            let slots = slots::inline_inputs(workflow.plan(), request.inputs)?;
            Ok((workflow, slots))
        });
        let (workflow, slots) = ready.await?;
        let inputs = Inputs { slots, hold };
        let (invocation, end) = self.execute_for(caller, workflow, None, inputs, Wait::InProcess).await?;
        let response = match &end.result {
            Ok(_) => {
                let shown = invocation.clone();
                self.written(&invocation, move || json(Response::builder(), &shown.show())).await?
            }
            Err(refusal) => self.refused(refusal.clone(), &invocation, &end).await?,
        };
        Ok(named(response, &invocation, &end))
    }

    pub(crate) fn refuse_if_draining(&self) -> Result<(), ApiError> {
        if self.is_ending() { Err(ApiError::draining()) } else { Ok(()) }
    }

    /// A workflow that can be run now.
    pub(super) fn open_for(&self, name: &str) -> Result<(Arc<Ready>, Bytes), ApiError> {
        let workflow = self.registry.workflow(name)?;
        self.refuse_if_draining()?;
        Ok((workflow.ready()?, workflow.document.clone()))
    }

    /// The input slots that a request's body stands for.
    async fn inputs_of(self: &Arc<Self>, workflow: &Ready, call: Call) -> Result<Inputs, ApiError> {
        let (parts, body) = call.request.into_parts();
        let limit = self.settings.body;
        let Received { content, hold } =
            receive(&parts.headers, body, limit, &self.settings.clients, &self.budget).await?;
        let plan = workflow.plan().clone();
        let is_quick = content.len() <= SMALL || !slots::is_document(&plan, &parts.headers);
        let taken = move || slots::inputs(&plan, &parts.headers, content);
        // It takes time to take a large document apart.
        let slots = if is_quick { taken()? } else { Box::pin(self.blocking(|_| taken())).await? };
        Ok(Inputs { slots, hold })
    }

    /// Runs a workflow for a client that waits for its end.
    pub(super) async fn execute_for(
        self: &Arc<Self>,
        caller: Caller,
        workflow: Arc<Ready>,
        document: Option<Bytes>,
        inputs: Inputs,
        wait: Wait,
    ) -> Result<(Arc<Invocation>, Arc<End>), ApiError> {
        let (task, stream) = self.prepare(caller, workflow, document, inputs, Mode::Sync)?;
        let task = Task { wait, ..task };
        let invocation = task.invocation.clone();
        self.begin(task);
        Ok(self.wait(Waiting { invocation, stream, patient: false }).await)
    }

    /// An invocation, if the queue has a slot for it.
    fn prepare(
        self: &Arc<Self>,
        caller: Caller,
        workflow: Arc<Ready>,
        document: Option<Bytes>,
        inputs: Inputs,
        mode: Mode,
    ) -> Result<(Task, Arc<Stream>), ApiError> {
        let plan = workflow.plan();
        let refused = |_: &ApiError| self.count_of(&plan.name, |name| self.metrics.turned_away(name));
        let slot = self.admission.admit().inspect_err(refused)?;
        let invocation = Arc::new(Invocation::new(caller.accepted, caller.call_id, caller.trace, plan, mode));
        invocation.point("received");
        Ok((Task { invocation, workflow, document, inputs, wait: Wait::Durable, slot, row: None }, caller.stream))
    }

    /// Waits for the end of an invocation, as long as the client does.
    async fn wait(&self, mut waiting: Waiting) -> (Arc<Invocation>, Arc<End>) {
        let invocation = waiting.invocation.clone();
        let end = tokio::select! {
            biased;
            end = invocation.wait() => end,
            () = waiting.stream.gone(self.settings.clients.farewell) => {
                invocation.cancel();
                invocation.wait().await
            }
        };
        waiting.patient = true;
        (invocation, end)
    }
}

/// A client that waits for an invocation. When the connection fails this is dropped, and the invocation is given up.
struct Waiting {
    invocation: Arc<Invocation>,
    stream: Arc<Stream>,
    /// The invocation goes on without the client.
    patient: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.patient {
            self.invocation.cancel();
        }
    }
}

/// A call that may wait in the ledger for its first run.
pub(super) struct NewCall {
    pub(super) caller: Caller,
    pub(super) workflow: Arc<Ready>,
    pub(super) document: Bytes,
    pub(super) inputs: Inputs,
    pub(super) callback: Option<Callback>,
    /// A new id, unless the client has chosen one.
    pub(super) chosen: Option<ChosenId>,
    pub(super) due: Option<u64>,
}

/// The id that a client has chosen for an invocation.
pub(super) enum ChosenId {
    /// This one.
    Id(InvocationId),
    /// That which an `Idempotency-Key` stands for.
    OfKey(InvocationId),
}

impl ChosenId {
    /// By the parameter `id` of a call, or by its key.
    fn of(call: &Call, id: Option<String>) -> Result<Option<ChosenId>, ApiError> {
        let parsed =
            |text: &str| text.parse::<InvocationId>().map_err(|error| ApiError::bad_request(error.to_string()));
        match (id, idempotency_key(call.request.headers())?) {
            (Some(_), Some(_)) => Err(ApiError::bad_request("a call has `id` or Idempotency-Key, not both")),
            (Some(id), None) => Ok(Some(ChosenId::Id(parsed(&id)?))),
            (None, Some(key)) => Ok(Some(ChosenId::OfKey(parsed(&id_of_key(&call.name, key))?))),
            (None, None) => Ok(None),
        }
    }
}

/// When a call is to begin, if not now (ns since 1970).
fn due(delay: Option<&str>, at: Option<&str>) -> Result<Option<u64>, ApiError> {
    match (delay, at) {
        (None, None) => Ok(None),
        (Some(delay), None) => {
            let too_late = || ApiError::bad_request(format!("the end of delay {}", NoTime::TooLate));
            let delay = humantime::parse_duration(delay).map_err(|error| match error {
                DurationError::NumberOverflow => too_late(),
                _ => ApiError::bad_request("delay is a time such as 10s or 2h"),
            })?;
            let due = u64::try_from(delay.as_nanos()).ok().and_then(|delay| now().checked_add(delay));
            due.filter(|due| *due <= LAST_TIME).map(Some).ok_or_else(too_late)
        }
        (None, Some(at)) => time_of(at).map(Some).map_err(|error| ApiError::bad_request(format!("at {error}"))),
        (Some(_), Some(_)) => Err(ApiError::bad_request("a call has `delay` or `at`, not both")),
    }
}

/// The answer of an invocation that has ended well.
pub(super) fn answered(end: &End, output: Option<&str>, invocation: &Invocation) -> Result<Response<Answer>, ApiError> {
    let outputs = end.result.as_ref().map_err(Clone::clone)?;
    let (content, slot) = slots::answer(outputs, output)?;
    Ok(match slot {
        Some(slot) => output_of(content, invocation.content_type(&slot)),
        None if outputs.is_empty() => Response::new(Answer::from(content)),
        None => output_of(content, "application/json"),
    })
}

/// The answer to a call whose result is asked for later.
pub(super) fn accepted(id: &str, call_id: &str, status: Status) -> Response<Answer> {
    let location = format!("/invocations/{id}");
    let document = json!({ "id": id, "call_id": call_id, "location": location, "status": status });
    json(Response::builder().status(StatusCode::ACCEPTED).header(LOCATION, location), &document)
}

/// Puts an invocation's names into an answer.
pub(super) fn named_only(headers: &mut HeaderMap, invocation: &Invocation) {
    let names = [
        (INVOCATION_ID, invocation.id.clone()),
        (crate::http::trace::CALL_ID, invocation.call_id.clone()),
        (crate::http::trace::TRACEPARENT, invocation.trace.to_string()),
    ];
    headers.extend(names.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?))));
}

/// The answer of an invocation that has ended.
pub(super) fn named(mut response: Response<Answer>, invocation: &Invocation, end: &End) -> Response<Answer> {
    named_only(response.headers_mut(), invocation);
    if let Some(report) = &end.report {
        let seconds = format!("{:.6}", report.cold_start_us() as f64 / 1e6);
        response.headers_mut().extend(HeaderValue::try_from(seconds).ok().map(|value| (COLD_START, value)));
    }
    invocation.point("replied");
    response
}
