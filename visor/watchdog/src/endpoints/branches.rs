//! Checkpoints of a durable invocation: listed, copied to new invocations, and gone back to.

use std::collections::HashSet;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::http::Response;
use monohull_abi::branch::is_label;
use monohull_durable::{
    Branched, Copied, Fork, History as _, InvocationId, Kept, Meta, NoCheckpoint, Once, Point, Request, Sqlite,
    free_numbers, has_branches,
};
use monohull_report::text::quoted;
use monohull_saved::{Engine, Saved};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::endpoints::durable::{full, id_of, id_of_key, idempotency_key, in_vain, refuse_key};
use crate::endpoints::known::{date, parent, unknown, waiting_for};
use crate::http::answer::Answer;
use crate::http::error::{ApiError, Blame, json};
use crate::http::routes::Call;
use crate::invocations::ledger::{Ledger, kept, meta_kept, now};
use crate::registry::documents::plan_once_registered;
use crate::service::Watchdog;

/// The most copies that one request makes.
const COPIES_MAX: u32 = 1000;

/// The body of a fork.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ForkOrder {
    count: Option<u32>,
    ids: Option<Vec<String>>,
    at: Option<Point>,
    paused: bool,
}

/// What a label is.
const LABEL_RULE: &str = "1 to 64 bytes without control characters, and not a number";

/// The body of a request for a save point.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LabelOrder {
    label: Option<String>,
}

/// The body of a rewind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RewindOrder {
    to: Point,
    /// The generation that it has: a request that is repeated does not take it back twice.
    #[serde(default)]
    from: Option<u64>,
    #[serde(default)]
    paused: bool,
}

impl Watchdog {
    /// `GET …/checkpoints`.
    pub(crate) async fn list_checkpoints(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        let id = id_of(&call.name)?;
        let redactor = self.secrets.redactor();
        let document = self.with_ledger(move |_, ledger| {
            let meta = ledger.meta();
            let row = meta.get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
            let checkpoint = |kept: &Kept| {
                json!({
                    "generation": kept.generation,
                    "rewound_to": kept.rewound_to,
                    "label": kept.label.clone().map(|label| redactor.text(label)),
                    "at": date(kept.at),
                    "bytes": kept.checkpoint.bytes,
                    "due": kept.due.map(date),
                    "waiting_for": waiting_for(&kept.waits, &redactor),
                })
            };
            let checkpoints: Vec<_> = meta.history(&id).map_err(meta_kept)?.iter().map(checkpoint).collect();
            let parent = parent(&meta.lineage(&id).map_err(meta_kept)?);
            Ok(json!({
                "id": id.as_str(),
                "generation": row.generation,
                "parent": parent,
                "checkpoints": checkpoints,
            }))
        });
        Ok(json(Response::builder(), &document.await?))
    }

    /// `POST …/checkpoints`: makes the checkpoint in which an invocation waits a save point.
    pub(crate) async fn label_checkpoint(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        refuse_key(
            call.request.headers(),
            "the newest checkpoint gets the label: `GET …/checkpoints` says which has it",
        )?;
        let id = id_of(&call.name)?;
        let LabelOrder { label } = self.order(call).await?;
        if let Some(label) = label.as_deref().filter(|label| !is_label(label)) {
            return Err(ApiError::bad_request(format!("{} is no label: {LABEL_RULE}", quoted(label))));
        }
        let document = self.with_ledger(move |_, ledger| {
            // One that is damaged is no save point.
            let kept = ledger.branch(&id, None, "given a save point")?;
            let came = ledger.meta().label(&id, kept.generation, label.as_deref()).map_err(meta_kept)?;
            let has = done(came, &id, kept.generation, "given a save point")?;
            if let (Some(wanted), Some(other)) = (&label, has.as_ref().filter(|has| Some(*has) != label.as_ref())) {
                let message = format!("this checkpoint has the label {} and gets no second one, {}", quoted(other), quoted(wanted));
                return Err(ApiError::conflict(message));
            }
            let label = has;
            let (generation, bytes) = (kept.generation, kept.checkpoint.bytes);
            Ok(json!({ "id": id.as_str(), "generation": generation, "label": label, "at": date(kept.at), "bytes": bytes }))
        });
        Ok(json(Response::builder().status(StatusCode::CREATED), &document.await?))
    }

    /// `…/fork`.
    pub(crate) async fn fork(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        self.refuse_if_draining()?;
        let id = id_of(&call.name)?;
        let key = idempotency_key(call.request.headers())?.map(str::to_owned);
        let order: ForkOrder = self.order(call).await?;
        if order.count.is_some() && order.ids.is_some() {
            return Err(ApiError::bad_request("a fork has `count` or `ids`, not both"));
        }
        if order.ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(ApiError::bad_request("`ids` is empty: leave it out for one copy"));
        }
        let ids = order
            .ids
            .iter()
            .flatten()
            .map(|id| id.parse().map_err(|error: monohull_durable::InvalidId| error.to_string()));
        let ids = ids.collect::<Result<Vec<InvocationId>, _>>().map_err(ApiError::bad_request)?;
        let mut seen = HashSet::new();
        if let Some(twice) = ids.iter().find(|id| !seen.insert(*id)) {
            return Err(ApiError::bad_request(format!("`{twice}` is given twice, and each copy has an id of its own")));
        }
        let count = order.count.unwrap_or(1);
        if !(1..=COPIES_MAX).contains(&count) || ids.len() > COPIES_MAX as usize {
            return Err(ApiError::bad_request(format!("a fork makes 1 to {COPIES_MAX} copies")));
        }
        let most = self.settings.durable;
        let at = order.at.as_ref().map(Point::to_string);
        let asks =
            json!({ "fork": { "count": count, "ids": order.ids, "at": at, "paused": order.paused } }).to_string();
        let document = self.with_ledger(move |_, ledger| {
            let request = key.as_deref().map(|key| Request { key, asks: asks.as_bytes() });
            let of_key = |key: &str| if ids.is_empty() { names_of_key(&id, key, count) } else { Ok(ids.clone()) };
            if let Some(request) = request {
                let meta = ledger.meta();
                if let Some(generation) = before(meta.requested(&id, request).map_err(meta_kept)?)? {
                    return copied_before(&meta, &id, generation, &of_key(request.key)?);
                }
            }
            // Held until the copies name the files too.
            let _adding = ledger.adding()?;
            let kept = ledger.branch(&id, order.at.as_ref(), "forked")?;
            let mut meta = ledger.meta();
            let ids = match &key {
                Some(key) => of_key(key)?,
                None if ids.is_empty() => new_names(&*meta, &id, count)?,
                None => ids,
            };
            if !ledger.has_room_for(&meta, &ids, most)? {
                return Err(full(most));
            }
            let fork = Fork { id: &id, at: Some(kept.generation), copies: &ids, paused: order.paused };
            let made = match meta.fork_once(fork, request, now()).map_err(meta_kept)? {
                Once::Now(made) => done(made, &id, kept.generation, "forked")?,
                // Another request was faster.
                Once::Before(generation) => return copied_before(&meta, &id, generation, &ids),
                Once::KeyTaken => return Err(key_taken()),
            };
            let mut copies = Vec::new();
            for (copy, came) in ids.iter().zip(made) {
                let row = if came == Copied::Taken { None } else { meta.get(copy).map_err(meta_kept)? };
                let came = match came {
                    Copied::New => "new",
                    Copied::Same => "same",
                    Copied::Taken => "taken",
                };
                let status = row.map(|row| row.status.name());
                copies.push(json!({ "id": copy.as_str(), "came": came, "status": status }));
            }
            drop(meta);
            ledger.changed(&id);
            Ok(json!({ "id": id.as_str(), "generation": kept.generation, "copies": copies }))
        });
        Ok(json(Response::builder(), &document.await?))
    }

    /// `…/rewind`.
    pub(crate) async fn rewind(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        self.refuse_if_draining()?;
        let id = id_of(&call.name)?;
        let key = idempotency_key(call.request.headers())?.map(str::to_owned);
        let order: RewindOrder = self.order(call).await?;
        let to = order.to.to_string();
        let asks = json!({ "rewind": { "to": to, "from": order.from, "paused": order.paused } }).to_string();
        let document = self.with_ledger(move |watchdog, ledger| {
            let request = key.as_deref().map(|key| Request { key, asks: asks.as_bytes() });
            let rewound = |meta: &Sqlite, generation: u64| {
                let row = meta.get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
                let (status, due) = (row.status.name(), row.due.map(date));
                Ok(json!({ "id": id.as_str(), "status": status, "generation": generation, "due": due }))
            };
            if let Some(request) = request {
                let meta = ledger.meta();
                if let Some(generation) = before(meta.requested(&id, request).map_err(meta_kept)?)? {
                    return rewound(&meta, generation);
                }
            }
            let to = ledger.branch(&id, Some(&order.to), "rewound")?.generation;
            let mut meta = ledger.meta();
            let row = meta.get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
            if order.from.is_some_and(|from| from != row.generation) {
                let message = format!("the invocation {id} has generation {} now", row.generation);
                return Err(ApiError::conflict(message));
            }
            let generation = match meta.rewind_once((&id, to, order.paused), request, now()).map_err(meta_kept)? {
                Once::Now(came) => done(came, &id, to, "rewound")?,
                // Another request was faster.
                Once::Before(generation) => return rewound(&meta, generation),
                Once::KeyTaken => return Err(key_taken()),
            };
            let document = rewound(&meta, generation)?;
            drop(meta);
            watchdog.end_resident(&id);
            ledger.changed(&id);
            Ok(document)
        });
        Ok(json(Response::builder(), &document.await?))
    }
}

impl Ledger {
    /// Whether there is room for those of these copies that are not there. The same request again, which makes nothing twice, needs none.
    fn has_room_for(&self, meta: &Sqlite, copies: &[InvocationId], most: u64) -> Result<bool, ApiError> {
        if self.has_room_in(meta, copies.len() as u64, most)? {
            return Ok(true);
        }
        let mut new = 0;
        for copy in copies {
            new += u64::from(meta.get(copy).map_err(meta_kept)?.is_none());
        }
        Ok(new == 0 || self.has_room_in(meta, new, most)?)
    }

    /// A checkpoint of an invocation that others can go on from, whose file is as it should be: a damaged one would pause what goes on from
    /// it.
    pub(crate) fn branch(&self, id: &InvocationId, at: Option<&Point>, what: &str) -> Result<Kept, ApiError> {
        let (row, history) = {
            let meta = self.meta();
            let row = meta.get(id).map_err(meta_kept)?.ok_or_else(unknown)?;
            (row, meta.history(id).map_err(meta_kept)?)
        };
        if !has_branches(row.status) {
            return Err(in_vain(id, row.status, what));
        }
        let newest = Point::Generation(row.generation);
        let at = at.unwrap_or(&newest);
        let found = at.find(history).map_err(|missing| no_checkpoint(id, &missing))?;
        let path = self.checkpoint(&found.checkpoint.file).map_err(kept)?;
        let plan = |document: &[u8], _: &Engine| plan_once_registered(&row.workflow, document);
        match Saved::read(&path, self.keys(), plan) {
            Ok(_) => Ok(found),
            Err(error) if error.is_hosts() => Err(ApiError::host(error.to_string())),
            Err(error) => Err(ApiError::conflict(format!("checkpoint {at} of {id} cannot be gone on from: {error}"))),
        }
    }
}

pub(crate) fn no_checkpoint(id: &InvocationId, missing: &NoCheckpoint) -> ApiError {
    ApiError::conflict(format!("the invocation {id} has {missing}"))
}

pub(crate) fn done<T>(came: Branched<T>, id: &InvocationId, at: u64, what: &str) -> Result<T, ApiError> {
    match came {
        Branched::Done(done) => Ok(done),
        Branched::Unknown => Err(unknown()),
        Branched::Refused(status) => Err(in_vain(id, status, what)),
        Branched::NoCheckpoint(has) => Err(no_checkpoint(id, &NoCheckpoint { point: Point::Generation(at), has })),
    }
}

/// At which generation a request was done before, if it was.
fn before(found: Once<()>) -> Result<Option<u64>, ApiError> {
    match found {
        Once::Now(()) => Ok(None),
        Once::Before(generation) => Ok(Some(generation)),
        Once::KeyTaken => Err(key_taken()),
    }
}

fn key_taken() -> ApiError {
    let message = "the Idempotency-Key is that of another request to fork or to rewind this invocation";
    ApiError::invalid(Blame::Client, message)
}

/// What became of the copies that the same request has made before.
fn copied_before(
    meta: &Sqlite,
    id: &InvocationId,
    generation: u64,
    copies: &[InvocationId],
) -> Result<Value, ApiError> {
    let count = copies.len() as u32;
    let mut shown = Vec::new();
    for (number, copy) in (1..).zip(copies) {
        let row = meta.get(copy).map_err(meta_kept)?;
        let lineage = meta.lineage(copy).map_err(meta_kept)?;
        let is_same = lineage.parent.is_some_and(|(of, at)| of == *id && at == generation)
            && (lineage.copy, lineage.copies) == (number, count);
        let (came, status) = match row {
            None => ("gone", None),
            Some(row) if is_same => ("same", Some(row.status.name())),
            Some(_) => ("taken", None),
        };
        shown.push(json!({ "id": copy.as_str(), "came": came, "status": status }));
    }
    Ok(json!({ "id": id.as_str(), "generation": generation, "copies": shown }))
}

/// A name for a copy: the invocation's own with an ending, as long as that is a name.
fn with_ending(id: &InvocationId, ending: &str) -> Result<InvocationId, ApiError> {
    let name = format!("{id}-{ending}");
    name.parse().map_err(|_| ApiError::bad_request(format!("{} is too long for an id: name the copies", quoted(&name))))
}

/// Names that no invocation has.
fn new_names(meta: &impl Meta, id: &InvocationId, count: u32) -> Result<Vec<InvocationId>, ApiError> {
    let name = |number: u64| with_ending(id, &number.to_string());
    // One that is too long is no name, which is said when it would be one.
    let is_free = |number| match name(number) {
        Ok(name) => Ok::<_, ApiError>(meta.get(&name).map_err(meta_kept)?.is_none()),
        Err(_) => Ok(true),
    };
    free_numbers(count, is_free)?.into_iter().map(name).collect()
}

/// The names of copies that a request with a key makes: the same for the same key.
fn names_of_key(id: &InvocationId, key: &str, count: u32) -> Result<Vec<InvocationId>, ApiError> {
    let tag = &id_of_key(id.as_str(), key)[..8];
    (1..=count).map(|number| with_ending(id, &format!("{tag}-{number}"))).collect()
}
