//! What schedules start: an invocation of the workflow that is registered then, for each due time ([`monohull_durable::Schedule`]).
//!
//! What an invocation is given is written to files first. Then one transaction adds its row and moves the schedule on.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;
use monohull_durable::{Fired, MetaError, Schedule, nap};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::clock::Moment;
use crate::endpoints::durable::full;
use crate::http::error::{ApiError, Blame};
use crate::http::trace::Trace;
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::{meta_kept, now};
use crate::invocations::slots::{self, Given};
use crate::invocations::status::Mode;
use crate::service::Watchdog;

/// How long is slept at most: the clock may be set meanwhile, and hints may be lost.
const NAP: Duration = Duration::from_secs(1);
/// The pause after the ledger could not be used.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);
/// When a start is tried again that was not possible.
const RETRY: Duration = Duration::from_secs(10);
/// The most that are started before others have their turn.
const BATCH: usize = 16;

impl Watchdog {
    /// Starts what is due by the schedules.
    pub(crate) async fn keep_schedules(self: &Arc<Self>) -> Infallible {
        loop {
            let watchdog = self.clone();
            let looked = spawn_blocking(move || watchdog.run_schedules()).await;
            let nap = match looked {
                _ if self.is_ending() => std::future::pending().await,
                Ok(Ok(look)) => nap(look, now(), NAP),
                Ok(Err(error)) => {
                    tracing::error!(%error, "the schedules cannot be read");
                    TROUBLE_PAUSE
                }
                Err(error) => {
                    tracing::error!(%error, "schedules");
                    TROUBLE_PAUSE
                }
            };
            tokio::select! {
                () = sleep(nap) => {}
                () = self.ledger.rescheduled() => {}
            }
        }
    }

    /// Starts what is due, up to a number; when the schedules are to be looked at again.
    fn run_schedules(&self) -> Result<Option<u64>, MetaError> {
        for _ in 0..BATCH {
            let due = self.ledger.meta().due_schedule(now());
            let due = match due {
                // One that cannot be read does not keep the others from what they start.
                Err(error @ MetaError::Schedule { .. }) => {
                    tracing::error!(%error, "a schedule starts nothing until it is defined anew");
                    if let MetaError::Schedule { name, what } = &error {
                        let reason = format!("its row in the database is damaged: it has a wrong {what}");
                        self.ledger.meta().stop_schedule(name, &reason)?;
                    }
                    continue;
                }
                due => due?,
            };
            let Some(schedule) = due.filter(|_| !self.is_ending()) else { break };
            if let Err(refusal) = self.start_scheduled(&schedule) {
                let (schedule_name, why) = (schedule.name.as_str(), &*refusal.error.message);
                tracing::warn!(schedule = schedule_name, why, "what a schedule starts is tried again later");
                let retry = now().saturating_add(u64::try_from(RETRY.as_nanos()).unwrap_or(u64::MAX));
                self.ledger.meta().put_off(&schedule, why, retry)?;
            }
        }
        self.ledger.meta().next_look()
    }

    /// Something was registered: what a schedule could not start before may be there now.
    pub(crate) fn look_again(&self) {
        match self.ledger.meta().look_again() {
            Ok(true) => self.ledger.reschedule(),
            Ok(false) => {}
            // They are looked at again in any case.
            Err(error) => tracing::warn!(%error, "schedules that were put off"),
        }
    }

    /// Takes a schedule that is due one step on.
    fn start_scheduled(&self, schedule: &Schedule) -> Result<(), ApiError> {
        let times = schedule.times().map_err(|error| ApiError::invalid(Blame::Host, error.to_string()))?;
        let Some(step) = schedule.step(&times, now()) else { return Ok(()) };
        let ledger = &self.ledger;
        let Some(due) = step.start else {
            ledger.change(|ledger| ledger.meta().fire(schedule, step, None, now()).map_err(meta_kept))?;
            tracing::info!(schedule = schedule.name.as_str(), "missed times are skipped");
            return Ok(());
        };
        let id = schedule.id(due).ok_or_else(|| ApiError::monohull("a schedule gives no id"))?;
        let workflow = self.registry.workflow(&schedule.definition.workflow)?;
        let ready = workflow.ready()?;
        let inputs = slots::inline_inputs(ready.plan(), given(&schedule.definition.inputs)?)?;
        let trace = Trace::of(&HeaderMap::new());
        let mut invocation = Invocation::new(Moment::now(), None, trace, ready.plan(), Mode::Async);
        invocation.call_by(id.as_str());
        let most = self.settings.durable;
        let fired = ledger.change(|ledger| {
            if !ledger.has_room(1, most)? {
                return Err(full(most));
            }
            let adding = ledger.adding()?;
            let start = ledger.add_start(&adding, invocation.head(), &workflow.document, &ready, &inputs, None)?;
            ledger.fire(schedule, step, &id, &start)
        })?;
        match fired {
            Fired::New => tracing::info!(schedule = schedule.name.as_str(), %id, "started"),
            Fired::Known => {
                tracing::warn!(schedule = schedule.name.as_str(), %id, "there is such an invocation already")
            }
            Fired::Stale => {}
        }
        Ok(())
    }
}

/// What each invocation of a schedule is given.
pub(crate) fn given(inputs: &[u8]) -> Result<Given, ApiError> {
    serde_json::from_slice(inputs).map_err(|error| {
        ApiError::bad_request(format!(
            "inputs are not {{\"SLOT\": \"text\", \"SLOT\": {{\"base64\": \"…\"}}}}: {error}"
        ))
    })
}
