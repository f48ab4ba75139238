//! Children: what they are started with, and what happens to them with their parents.

use hyper::HeaderMap;
use monohull_durable::{Adding, InvocationId, MetaError, Outbox, Outcome, Status as RowStatus};
use monohull_report::{Outgoing, What, child_invocation};
use monohull_worker::Data;
use monohull_workflow::Plan;

use crate::clock::Moment;
use crate::endpoints::durable::full;
use crate::http::content::Content;
use crate::http::error::ApiError;
use crate::http::trace::Trace;
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::{Ledger, meta_kept};
use crate::invocations::status::Mode;
use crate::service::Watchdog;

impl Watchdog {
    /// What leaves with a commit of an invocation, as far as its plan permits it. The files of children are added.
    pub(crate) fn outbox(&self, adding: &Adding, id: &InvocationId, plan: &Plan, events: Vec<Outgoing>) -> Outbox {
        let asks = events.iter().any(|event| matches!(event.what, What::Fork { .. }));
        let outbox = Outbox::new(events, &plan.sends_to, |child| {
            self.child_start(adding, id, plan, child).map_err(|refusal| refusal.error.message)
        });
        // Without a count there is no room.
        let most = self.settings.durable;
        Outbox { room: Some(if asks { self.ledger.room(most).unwrap_or(0) } else { most }), ..outbox }
    }

    /// What a child is started with: the workflow that is registered now.
    fn child_start(
        &self,
        adding: &Adding,
        parent: &InvocationId,
        plan: &Plan,
        child: &Outgoing,
    ) -> Result<Vec<u8>, ApiError> {
        // What comes from the parent's process is not believed.
        if !plan.starts.contains(&child.name) {
            return Err(ApiError::bad_request("`starts` of the workflow file does not name its workflow"));
        }
        let workflow = self.registry.workflow(&child.name)?;
        let ready = workflow.ready()?;
        let most = self.settings.durable;
        if !self.ledger.has_room(1, most)? {
            return Err(full(most));
        }
        let inputs = match ready.plan().inputs.as_slice() {
            [] if child.bytes.is_empty() => Vec::new(),
            [] => return Err(ApiError::bad_request(format!("the workflow `{}` takes no input", child.name))),
            [input] => vec![(input.slot.clone(), Data::Bytes(child.bytes.clone()))],
            more => {
                let message = format!("the workflow `{}` has {} inputs, and a child has one", child.name, more.len());
                return Err(ApiError::bad_request(message));
            }
        };
        let trace = Trace::of(&HeaderMap::new());
        let mut invocation = Invocation::new(Moment::now(), None, trace, ready.plan(), Mode::Async);
        invocation.call_by(&child_invocation(parent.as_str(), &child.to));
        let start = self.ledger.add_start(adding, invocation.head(), &workflow.document, &ready, &inputs, None)?;
        start.encode()
    }

    /// An invocation has ended, or has changed its children: those above and below it look again, and those that are to be cancelled are stopped.
    pub(crate) fn settle(&self, id: &InvocationId) {
        let relatives = self.ledger.meta().relatives(id);
        match relatives {
            Ok(relatives) => self.settle_all(relatives),
            // They look at the next change.
            Err(error) => tracing::warn!(%id, %error, "children"),
        }
    }

    /// The same of those that are the relatives.
    pub(crate) fn settle_all(&self, relatives: Vec<InvocationId>) {
        let marked = || -> Result<Vec<(InvocationId, bool)>, MetaError> {
            let meta = self.ledger.meta();
            let mut marked = Vec::new();
            for relative in relatives {
                let row = monohull_durable::Meta::get(&*meta, &relative)?;
                if row.as_ref().is_none_or(|row| row.status.is_end()) {
                    self.end_resident(&relative);
                }
                let ends =
                    row.is_some_and(|row| row.status == RowStatus::Running && row.wanted == Some(RowStatus::Cancelled));
                marked.push((relative, ends));
            }
            Ok(marked)
        };
        match marked() {
            Ok(marked) => {
                if marked.iter().any(|(_, ends)| *ends) {
                    self.ledger.mark();
                }
                for (relative, ends) in marked {
                    if let Some(invocation) = self.history.find(relative.as_str()).filter(|_| ends) {
                        invocation.cancel();
                    }
                    self.ledger.changed(&relative);
                }
            }
            // They look at the next change.
            Err(error) => tracing::warn!(%error, "children"),
        }
    }
}

impl Ledger {
    /// What the parent of an invocation is told, if it has one.
    pub(crate) fn outcome(
        &self,
        id: &InvocationId,
        result: &Result<Vec<(String, Content)>, ApiError>,
    ) -> Result<Outcome, ApiError> {
        if self.meta().started_by(id).map_err(meta_kept)?.is_none() {
            return Ok(Outcome::default());
        }
        let outputs = match result {
            Ok(outputs) => outputs,
            Err(refusal) => return Ok(Outcome { message: refusal.error.message.clone(), ..Outcome::default() }),
        };
        let bytes = outputs.iter().map(|(_, content)| content.len()).sum();
        if !Outcome::has_room(bytes) {
            return Ok(Outcome { left_out: Some(bytes), ..Outcome::default() });
        }
        let unreadable = |error: std::io::Error| ApiError::host(format!("an output cannot be read: {error}"));
        let read =
            |(slot, content): &(String, Content)| Ok((slot.clone(), content.read().map_err(unreadable)?.to_vec()));
        let outputs = outputs.iter().map(read).collect::<Result<_, ApiError>>()?;
        Ok(Outcome { outputs, ..Outcome::default() })
    }
}
