//! What is in a checkpoint of a durable invocation, as `monohull checkpoint describe` says it of a file.

use std::sync::Arc;

use hyper::http::Response;
use monohull_abi::event::EVENT_SEPARATOR;
use monohull_abi::number::name_of;
use monohull_checkpoint::record::{Contents, InstanceRecord, ThreadRecord, ThreadState, WaitOn};
use monohull_checkpoint::{Checkpoint, Trust, count_pages};
use monohull_durable::{History as _, InvocationId, Meta as _, Point};
use monohull_saved::{Source, open_beside};
use serde_json::{Map, Value, json};

use crate::endpoints::branches::no_checkpoint;
use crate::endpoints::durable::id_of;
use crate::endpoints::known::{date, unknown};
use crate::http::answer::Answer;
use crate::http::error::{ApiError, json};
use crate::http::routes::Call;
use crate::invocations::ledger::{Ledger, kept as store_kept, meta_kept};
use crate::invocations::redact::Redactor;
use crate::service::Watchdog;

impl Watchdog {
    /// `GET …/checkpoints/GENERATION`, or a label.
    pub(crate) async fn show_checkpoint(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        let id = id_of(&call.name)?;
        let at = call
            .slot
            .parse::<Point>()
            .map_err(|why| ApiError::bad_request(format!("the last part of the path: {why}")))?;
        let redactor = self.secrets.redactor();
        let document = self.with_ledger(move |_, ledger| ledger.contents(&id, &at, &redactor)).await?;
        Ok(json(Response::builder(), &document))
    }
}

impl Ledger {
    fn contents(&self, id: &InvocationId, at: &Point, redactor: &Redactor) -> Result<Value, ApiError> {
        let history = {
            let meta = self.reader();
            meta.get(id).map_err(meta_kept)?.ok_or_else(unknown)?;
            meta.history(id).map_err(meta_kept)?
        };
        let kept =
            at.find(history).map_err(|missing| ApiError::not_found(no_checkpoint(id, &missing).error.message))?;
        let path = self.checkpoint(&kept.checkpoint.file).map_err(store_kept)?;
        let wrong =
            |why: &dyn std::fmt::Display| ApiError::conflict(format!("checkpoint {at} of {id} cannot be read: {why}"));
        let file = open_beside(&path, &kept.checkpoint.file).map_err(|error| wrong(&error))?;
        let source = Source::new(file, &kept.checkpoint.file, self.keys().state).map_err(|error| wrong(&error))?;
        let read = Checkpoint::read(source, Trust::Key(self.keys().seal)).map_err(|error| wrong(&error))?;
        let contents = read.contents();
        let pages = count_pages(contents, read.runs()).into_iter().map(|(kind, count)| {
            json!({
                "of": kind.name(),
                "stored": count.here,
                "zero": count.zero,
                "as_in_image": count.base,
                "as_in_parent": count.parent,
            })
        });
        let bytes: Map<_, _> = read.sections().map(|section| (section.name(), json!(section.bytes))).collect();
        Ok(json!({
            "id": id.as_str(),
            "generation": kept.generation,
            "bytes": kept.checkpoint.bytes,
            "captured": date(contents.identity.wall_ns),
            "program": contents.identity.program,
            "depth": contents.chain.as_ref().map_or(0, |chain| chain.depth),
            "functions": contents.functions.iter().map(|function| {
                json!({ "name": function.name, "image": function.image.to_string(), "bytes": function.image_bytes })
            }).collect::<Vec<_>>(),
            "instances": contents.instances.iter().map(|one| instance(one, contents, redactor)).collect::<Vec<_>>(),
            "pages": pages.collect::<Vec<_>>(),
            "sections": bytes,
        }))
    }
}

fn instance(one: &InstanceRecord, contents: &Contents, redactor: &Redactor) -> Value {
    let function = contents.functions.get(one.function as usize).map(|function| function.name.as_str());
    let threads = contents.threads.iter().filter(|thread| thread.instance == one.id);
    json!({
        "step": one.step,
        "instance": one.index,
        "attempt": one.attempt,
        "function": function,
        "heap_bytes": one.heap_end.saturating_sub(one.heap_start),
        "threads": threads.map(|it| thread(it, contents, redactor)).collect::<Vec<_>>(),
    })
}

/// Where a thread is, and what it waits for. A function chooses names.
fn thread(record: &ThreadRecord, contents: &Contents, redactor: &Redactor) -> Value {
    let (state, on, deadline) = match &record.state {
        ThreadState::Ready(_) => ("ready", None, None),
        ThreadState::Waiting { on, deadline } => {
            let (state, on) = match on {
                WaitOn::Time => ("time", None),
                WaitOn::Futex { .. } => ("word", None),
                WaitOn::Thread { number } => ("thread", Some(number.to_string())),
                WaitOn::Slot { name } => ("slot", Some(redactor.text(name.clone()))),
                WaitOn::Queue { .. } => ("queue", None),
                WaitOn::Event { name } => ("event", Some(redactor.text(name.replace(EVENT_SEPARATOR, " or ")))),
            };
            (state, on, *deadline)
        }
    };
    let interrupted = contents.registers.iter().any(|registers| registers.thread == record.number);
    let (domain, wall) = (contents.identity.domain_ns, contents.identity.wall_ns);
    json!({
        "state": if interrupted { "interrupted" } else { state },
        "on": on,
        "call": name_of(record.frame.number),
        "until": deadline.map(|deadline| date(wall.saturating_add(deadline.saturating_sub(domain)))),
    })
}
