//! `/schedules`: workflows that are started at times of a cron expression.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::LOCATION;
use hyper::http::Response;
use monohull_durable::{DamagedSchedule, Defined, Definition, Missed, Schedule, ScheduleName, Times};
use monohull_report::text::quoted;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::endpoints::known::date;
use crate::endpoints::object_of;
use crate::endpoints::registered::no_content;
use crate::execution::schedules::given;
use crate::http::answer::Answer;
use crate::http::error::{ApiError, Blame, json};
use crate::http::routes::Call;
use crate::invocations::ledger::{meta_kept, now};
use crate::invocations::slots;
use crate::service::Watchdog;

/// The largest body: it has the inputs, which are kept as they are.
const BODY_MAX: u64 = 1 << 20;

/// The body of a definition.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order<'o> {
    workflow: String,
    cron: String,
    #[serde(default = "utc")]
    zone: String,
    #[serde(default = "skip")]
    missed: String,
    #[serde(default, borrow)]
    inputs: Option<&'o RawValue>,
    #[serde(default)]
    paused: bool,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn skip() -> String {
    Missed::Skip.name().to_owned()
}

fn unknown() -> ApiError {
    ApiError::not_found("no schedule has this name")
}

fn name_of(text: &str) -> Result<ScheduleName, ApiError> {
    text.parse().map_err(|error| ApiError::bad_request(format!("{error}")))
}

/// A schedule as clients see it.
fn shown(schedule: &Schedule) -> Value {
    let Schedule { name, definition, changed, next, last, reason } = schedule;
    let slots: Map<String, Value> = serde_json::from_slice(&definition.inputs).unwrap_or_default();
    let last = last.map(|last| json!({ "at": date(last), "id": schedule.id(last).map(|id| id.to_string()) }));
    json!({
        "name": name.as_str(),
        "workflow": definition.workflow,
        "cron": definition.cron,
        "zone": definition.zone,
        "missed": definition.missed.name(),
        "inputs": slots.keys().collect::<Vec<_>>(),
        "paused": definition.paused,
        "changed": date(*changed),
        "next": next.map(date),
        "last": last,
        "reason": reason,
    })
}

/// What a list has of a schedule that cannot be shown. The others are listed as they are.
fn damaged(damaged: &DamagedSchedule) -> Value {
    json!({
        "name": damaged.name,
        "workflow": damaged.workflow,
        "cron": damaged.cron,
        "zone": damaged.zone,
        "missed": null,
        "inputs": [],
        "paused": false,
        "changed": date(damaged.changed),
        "next": null,
        "last": null,
        "reason": damaged.to_string(),
    })
}

impl Watchdog {
    /// `GET /schedules`.
    pub(crate) async fn list_schedules(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let schedules = self.with_ledger(|_, ledger| ledger.meta().schedules().map_err(meta_kept)).await?;
        let document = json!({ "schedules": schedules.iter().map(|listed| listed.as_ref().map_or_else(damaged, shown)).collect::<Vec<_>>() });
        Ok(json(Response::builder(), &document))
    }

    /// `GET /schedules/NAME`.
    pub(crate) async fn show_schedule(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let name: ScheduleName = call.name.parse().map_err(|_| unknown())?;
        let found = self.with_ledger(move |_, ledger| ledger.meta().schedule(&name).map_err(meta_kept)).await?;
        Ok(json(Response::builder(), &shown(&found.ok_or_else(unknown)?)))
    }

    /// `PUT /schedules/NAME`.
    pub(crate) async fn put_schedule(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let name = name_of(&call.name)?;
        let received = self.body_of(call, BODY_MAX).await?;
        let put = self.with_ledger(move |watchdog, ledger| {
            let bytes = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
            let order: Order<'_> = object_of(&bytes).map_err(|error| {
                ApiError::bad_request(format!("the body is not {{\"workflow\": …, \"cron\": …, …}}: {error}"))
            })?;
            let (definition, times) = watchdog.definition(&order)?;
            let next = |after| times.next(after, false);
            let mut meta = ledger.meta();
            let defined = meta.define_schedule(&name, &definition, next, now()).map_err(meta_kept)?;
            let shown = meta.schedule(&name).map_err(meta_kept)?.as_ref().map(shown);
            drop(meta);
            ledger.reschedule();
            Ok((defined, name, shown.unwrap_or_default()))
        });
        let (defined, name, shown) = put.await?;
        let status = if defined == Defined::New { StatusCode::CREATED } else { StatusCode::OK };
        tracing::info!(schedule = name.as_str(), "defined");
        Ok(json(Response::builder().status(status).header(LOCATION, format!("/schedules/{name}")), &shown))
    }

    /// What is to be started, and when, once it has been compared with what is registered.
    fn definition(&self, order: &Order<'_>) -> Result<(Definition, Times), ApiError> {
        let invalid = |message: String| ApiError::invalid(Blame::Client, message);
        let missed = Missed::ALL.into_iter().find(|missed| missed.name() == order.missed);
        let missed = missed.ok_or_else(|| {
            invalid(format!("missed times are treated by `skip`, `once` or `all`, not {}", quoted(&order.missed)))
        })?;
        let times = Times::new(&order.cron, &order.zone).map_err(|error| invalid(error.to_string()))?;
        if times.next(now(), false).is_none() {
            return Err(invalid(monohull_durable::InvalidSchedule::Never.to_string()));
        }
        let workflow = self.registry.workflow(&order.workflow).map_err(|refusal| invalid(refusal.error.message))?;
        let inputs = order.inputs.map_or("{}", RawValue::get);
        let fits = slots::inline_inputs(&workflow.plan, given(inputs.as_bytes())?);
        fits.map_err(|refusal| invalid(refusal.error.message))?;
        let definition = Definition {
            workflow: order.workflow.clone(),
            cron: order.cron.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
            zone: order.zone.clone(),
            missed,
            inputs: inputs.as_bytes().to_vec(),
            paused: order.paused,
        };
        Ok((definition, times))
    }

    /// `DELETE /schedules/NAME`. What it has started goes on. The row of one that is damaged may have any text as its name.
    pub(crate) async fn remove_schedule(self: &Arc<Self>, name: &str) -> Result<Response<Answer>, ApiError> {
        let name = name.to_owned();
        let removed = self.with_ledger(move |_, ledger| {
            let removed = ledger.meta().remove_schedule(&name).map_err(meta_kept)?;
            ledger.reschedule();
            Ok(removed)
        });
        if removed.await? { Ok(no_content()) } else { Err(unknown()) }
    }
}
