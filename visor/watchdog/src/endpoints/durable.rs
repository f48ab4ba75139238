//! Durable invocations: what their rows say, and what is done to them by hand.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, X_CONTENT_TYPE_OPTIONS};
use hyper::http::Response;
use monohull_durable::{
    Branched, Control, Controlled, Copied, Fork, History as _, Invocation as Row, InvocationId, Kept, Lineage, Meta,
    MetaError, NewMail, Sent, Status as RowStatus, Wait, has_branches,
};
use monohull_report::text::quoted;
use monohull_saved::{Engine, Saved};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::endpoints::registered::no_content;
use crate::endpoints::versions::Version;
use crate::http::answer::Answer;
use crate::http::error::{ApiError, Blame, json};
use crate::http::routes::{Call, Route};
use crate::ids::hex;
use crate::invocations::invocation::{Invocation, LogLine, Printed, Shown, Status};
use crate::invocations::ledger::{Ledger, Start, Told, decode_printed, kept, meta_kept, now};
use crate::invocations::redact::Redactor;
use crate::registry::plan_once_registered;
use crate::service::Watchdog;
use sha2::{Digest, Sha256};

/// What makes a request the same as one before it.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest such key.
const KEY_MAX: usize = 255;
/// The most copies that one request makes.
const COPIES_MAX: u32 = 1000;
/// The longest that a request waits for an end.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// The largest body of a request that says what is to be done.
const ORDER_MAX: u64 = 64 << 10;

/// An invocation that was asked about.
pub(crate) struct Known {
    /// The one that a process runs, or what its row says.
    pub(crate) invocation: Arc<Invocation>,
    /// Of a durable one.
    pub(crate) row: Option<Box<DurableRow>>,
    /// What a durable one that runs has printed before.
    pub(crate) earlier: Vec<LogLine>,
}

/// The row of a durable invocation, and what belongs to it.
pub(crate) struct DurableRow {
    pub(crate) row: Row,
    mail: u64,
    lineage: Lineage,
    forks: Vec<InvocationId>,
}

/// The body of a fork.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ForkOrder {
    count: Option<u32>,
    ids: Vec<String>,
    at: Option<u64>,
    paused: bool,
}

/// The body of a rewind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RewindOrder {
    to: u64,
    /// The generation that it has: a request that is repeated does not take it back twice.
    #[serde(default)]
    from: Option<u64>,
    #[serde(default)]
    paused: bool,
}

/// The key of a request, if it has one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| (1..=KEY_MAX).contains(&text.len()));
    text.map(Some).ok_or_else(|| ApiError::bad_request(format!("Idempotency-Key: 1 to {KEY_MAX} visible characters")))
}

/// The id that a key stands for.
pub(crate) fn id_of_key(workflow: &str, key: &str) -> String {
    let mut hash = Sha256::new();
    hash.update((workflow.len() as u64).to_le_bytes());
    hash.update(workflow);
    hash.update(key);
    hex(&hash.finalize()[..16])
}

/// A time in ns since 1970, as RFC 3339 has it.
pub(crate) fn date(ns: u64) -> String {
    let far = Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_nanos(ns).min(far)).to_string()
}

/// How long a request waits, as its parameter says.
pub(crate) fn waits(wait: Option<&str>) -> Result<Duration, ApiError> {
    let Some(text) = wait else { return Ok(Duration::ZERO) };
    let wait = humantime::parse_duration(text).ok().filter(|wait| *wait <= WAIT_MAX);
    wait.ok_or_else(|| ApiError::bad_request(format!("wait is a time such as 30s, at most {}s", WAIT_MAX.as_secs())))
}

fn id_of(text: &str) -> Result<InvocationId, ApiError> {
    text.parse().map_err(|_| unknown())
}

pub(crate) fn unknown() -> ApiError {
    let message = "no invocation has this id; those that ended long ago, or before many others, are forgotten";
    ApiError::not_found(message)
}

fn not_durable() -> ApiError {
    ApiError::conflict("the invocation is not durable: it has not waited yet, and was not started with an id or a key")
}

fn in_vain(id: &InvocationId, status: RowStatus, what: &str) -> ApiError {
    ApiError::conflict(format!("the invocation {id} is {} and cannot be {what}", status.name()))
}

/// Waits as a document. A function chooses the names of its events.
fn waiting_for(waits: &[Wait], redactor: &Redactor) -> Vec<Value> {
    let kind = |wait: &Wait| match (&wait.event, wait.until) {
        (Some(_), _) => "event",
        (None, Some(_)) => "time",
        (None, None) => "instance",
    };
    let waits = waits.iter().map(|wait| {
        json!({
            "kind": kind(wait),
            "step": wait.step,
            "instance": wait.instance,
            "what": redactor.text(wait.what.clone()),
            "event": wait.event.clone().map(|event| redactor.text(event)),
            "until": wait.until.map(date),
        })
    });
    waits.collect()
}

/// What a list has of a durable invocation besides what it has of each.
pub(crate) fn row_fields(row: &Row, redactor: &Redactor) -> Map<String, Value> {
    let fields = json!({
        "status": Status::from(row.status),
        "reason": row.reason,
        "becomes": row.wanted.map(RowStatus::name),
        "changed": date(row.changed),
        "due": row.due.map(date),
        "waiting_for": waiting_for(&row.waits, redactor),
        "generation": row.generation,
        "attempts": row.attempts,
        "checkpoint": row.checkpoint.as_ref().map(|checkpoint| json!({ "bytes": checkpoint.bytes })),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn parent(lineage: &Lineage) -> Value {
    let Lineage { parent, copy, copies, .. } = lineage;
    parent.as_ref().map_or(
        Value::Null,
        |(id, generation)| json!({ "id": id.as_str(), "generation": generation, "copy": copy, "copies": copies }),
    )
}

/// Whether a function may have made this token (`monohull::durable::callback`).
fn is_token(text: &str) -> bool {
    let digits = text.strip_prefix("callback-").unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Known {
    /// Its document.
    pub(crate) fn show(&self, redactor: &Redactor) -> Shown {
        let shown = self.invocation.show();
        let Some(durable) = &self.row else { return shown };
        let mut fields = row_fields(&durable.row, redactor);
        fields.insert("mail".to_owned(), durable.mail.into());
        fields.insert("published".to_owned(), json!(redactor.published(&durable.row.published)));
        fields.insert("parent".to_owned(), parent(&durable.lineage));
        let version = Start::decode(&durable.row.start).map(|start| Version::of(&start).name());
        fields.insert("version".to_owned(), version.into());
        fields.insert("forks".to_owned(), durable.forks.iter().map(InvocationId::as_str).collect());
        if !self.earlier.is_empty() {
            fields.insert("lines".to_owned(), (self.invocation.lines().0.len() + self.earlier.len()).into());
        }
        shown.with(fields)
    }
}

impl Ledger {
    /// What is known of an invocation; `live` is the one that a process runs.
    fn recall(&self, id: &InvocationId, live: Option<Arc<Invocation>>) -> Result<Option<Known>, ApiError> {
        let (row, mail, lineage, forks, outputs, printed) = {
            let meta = self.meta();
            let all = || -> Result<_, MetaError> {
                let Some(row) = meta.get(id)? else { return Ok(None) };
                let outputs = if row.status == RowStatus::Completed { meta.outputs(id)? } else { Vec::new() };
                let printed = meta.printed(id)?;
                Ok(Some((row, meta.mail_count(id)?, meta.lineage(id)?, meta.forks(id)?, outputs, printed)))
            };
            match all().map_err(meta_kept)? {
                Some(found) => found,
                None => return Ok(None),
            }
        };
        let mut said = Printed::default();
        printed.iter().filter_map(|bytes| decode_printed(bytes)).for_each(|printed| said.add(printed));
        let durable = |row| Some(Box::new(DurableRow { row, mail, lineage, forks }));
        if let Some(invocation) = live.filter(|_| row.status == RowStatus::Running) {
            return Ok(Some(Known { invocation, row: durable(row), earlier: said.into_lines() }));
        }
        let start = Start::decode(&row.start);
        let start = start.ok_or_else(|| ApiError::host(format!("the row of {id} was written by another version")))?;
        let invocation = Invocation::durable(id.to_string(), start.head, row.status.into());
        invocation.print(said);
        if row.status.is_end() {
            let told: Option<Told> = row.report.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
            let told = told.unwrap_or_else(|| Told {
                duration_us: row.changed.saturating_sub(row.started) / 1000,
                report: None,
                refusal: (row.status != RowStatus::Completed).then(|| ApiError::cancelled("it was cancelled by hand")),
            });
            let unreadable = |error: io::Error| ApiError::host(format!("an output of {id} cannot be read: {error}"));
            let read =
                |output: &monohull_durable::Output| Ok((output.slot.clone(), self.output(output).map_err(unreadable)?));
            let result = match told.refusal {
                Some(refusal) => Err(refusal),
                None => Ok(outputs.iter().map(read).collect::<Result<Vec<_>, ApiError>>()?),
            };
            invocation.end_as_told(row.status.into(), told.duration_us, told.report, result);
        }
        Ok(Some(Known { invocation: Arc::new(invocation), row: durable(row), earlier: Vec::new() }))
    }
}

impl Watchdog {
    /// A durable invocation by its id, if there is one.
    pub(crate) async fn recall(self: &Arc<Self>, id: &str) -> Result<Option<Known>, ApiError> {
        let Ok(id) = id.parse::<InvocationId>() else { return Ok(None) };
        let (watchdog, live) = (self.clone(), self.history.find(id.as_str()));
        let recalled = spawn_blocking(move || watchdog.ledger.recall(&id, live)).await;
        recalled.map_err(|error| ApiError::monohull(error.to_string()))?
    }

    /// An invocation of any kind.
    pub(crate) async fn find(self: &Arc<Self>, id: &str) -> Result<Known, ApiError> {
        if let Some(invocation) = self.history.find(id).filter(|invocation| !invocation.is_durable) {
            return Ok(Known { invocation, row: None, earlier: Vec::new() });
        }
        self.recall(id).await?.ok_or_else(unknown)
    }

    /// The same, once it has ended or `wait` is over, whichever comes first.
    pub(crate) async fn find_ended(self: &Arc<Self>, call: &Call, wait: Duration) -> Result<Known, ApiError> {
        let until = Instant::now() + wait;
        let mut changes = self.ledger.changes();
        let gone = call.stream.gone(self.settings.clients.farewell);
        let mut gone = std::pin::pin!(gone);
        loop {
            let known = self.find(&call.name).await?;
            let has_ended = match &known.row {
                Some(durable) => durable.row.status.is_end(),
                None => known.invocation.ended().is_some(),
            };
            if has_ended || Instant::now() >= until || self.is_ending() {
                return Ok(known);
            }
            let invocation = known.invocation.clone();
            let change = async {
                match known.row {
                    None => drop(invocation.wait().await),
                    // What was missed may have been about this one.
                    Some(_) => while matches!(changes.recv().await, Ok(Some(id)) if id.as_str() != call.name) {},
                }
            };
            tokio::select! {
                _ = timeout_at(until, change) => {}
                () = &mut gone => return self.find(&call.name).await,
            }
        }
    }

    /// Does something to a durable invocation, where others do not wait for it.
    pub(crate) async fn with_ledger<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Watchdog, &Ledger) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let watchdog = self.clone();
        self.blocking(move |_| watchdog.ledger.change(|ledger| work(&watchdog, ledger))).await
    }

    /// Whether an id is that of an invocation which is not durable.
    fn refuse_if_not_durable(&self, id: &str) -> Result<(), ApiError> {
        match self.history.find(id) {
            Some(invocation) if !invocation.is_durable => Err(not_durable()),
            _ => Ok(()),
        }
    }

    /// `…/pause`, `…/resume` and `…/cancel`.
    pub(crate) async fn control(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let (control, what) = match call.route {
            Route::InvocationPause => (Control::Pause, "paused"),
            Route::InvocationResume => (Control::Resume, "resumed"),
            _ => (Control::Cancel, "cancelled"),
        };
        if let (Control::Cancel, Some(invocation)) =
            (control, self.history.find(&call.name).filter(|known| !known.is_durable))
        {
            let ended = invocation.ended();
            invocation.cancel();
            let status = invocation.status();
            return match ended.is_some() && status != Status::Cancelled {
                true => Err(ApiError::conflict(format!("the invocation has ended: it is {}", status.name()))),
                false => {
                    let becomes = (!status.is_final()).then_some("cancelled");
                    Ok(json(Response::builder(), &json!({ "id": call.name, "status": status, "becomes": becomes })))
                }
            };
        }
        self.refuse_if_not_durable(&call.name)?;
        let id = id_of(&call.name)?;
        let came = self.with_ledger(move |_, ledger| ledger.control(&id, control, what).map(|came| (id, came))).await?;
        let (id, (status, becomes)) = came;
        let becomes = becomes.map(RowStatus::name);
        Ok(json(Response::builder(), &json!({ "id": id.as_str(), "status": status.name(), "becomes": becomes })))
    }

    /// `DELETE`: stops an invocation at once; one that has ended stays as it is.
    pub(crate) async fn kill_invocation(self: &Arc<Self>, name: &str) -> Result<Response<Answer>, ApiError> {
        let live = self.history.find(name);
        if let Some(invocation) = live.filter(|invocation| !invocation.is_durable) {
            invocation.cancel();
            return Ok(no_content());
        }
        let id = id_of(name)?;
        self.with_ledger(move |watchdog, ledger| {
            let came = ledger.meta().control(&id, Control::Cancel, now()).map_err(meta_kept)?;
            if came == Controlled::Unknown {
                return Err(unknown());
            }
            // It is marked, and so it is not taken for one that failed.
            if let Some(invocation) = watchdog.history.find(id.as_str()) {
                invocation.cancel();
            }
            ledger.changed(&id);
            Ok(())
        })
        .await?;
        Ok(no_content())
    }

    /// `…/purge`.
    pub(crate) async fn purge(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        let id = id_of(&call.name)?;
        self.with_ledger(move |_, ledger| {
            {
                let mut meta = ledger.meta();
                let row = meta.get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
                if !meta.purge(&id).map_err(meta_kept)? {
                    return Err(in_vain(&id, row.status, "removed before it has ended or was cancelled"));
                }
            }
            ledger.changed(&id);
            ledger.sweep().map_err(kept)
        })
        .await?;
        Ok(no_content())
    }

    /// `…/state/NAME`: what it has published.
    pub(crate) async fn state(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        let (id, name) = (id_of(&call.name)?, call.slot.clone());
        let text = self.with_ledger(move |_, ledger| {
            let row = ledger.meta().get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
            row.published
                .get(&name)
                .cloned()
                .ok_or_else(|| ApiError::not_found("it has published nothing of this name"))
        });
        let text = self.secrets.redactor().text(text.await?);
        let response = Response::builder().header(CONTENT_TYPE, "text/plain; charset=utf-8");
        let response = response.header(X_CONTENT_TYPE_OPTIONS, "nosniff").body(Answer::from(text.into_bytes()));
        Ok(response.expect("the headers are constants"))
    }

    /// `/callbacks/ID/TOKEN`: sends the event whose name is the token. Whoever knows it may, so only an invocation that waits for it now is
    /// sent it: others have nothing to send, and learn nothing.
    pub(crate) async fn complete_callback(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let (id, token) = (id_of(&call.name).map_err(|_| unknown())?, call.slot.clone());
        if !is_token(&token) {
            return Err(unknown());
        }
        let expected = token.clone();
        self.with_ledger(move |_, ledger| {
            let row = ledger.meta().get(&id).map_err(meta_kept)?.filter(|row| !row.status.is_end());
            let waits = row.is_some_and(|row| row.waits.iter().any(|wait| wait.event.as_deref() == Some(&expected)));
            if waits { Ok(()) } else { Err(unknown()) }
        })
        .await?;
        // Once: the key is the token's own.
        self.send_mail(call, Some(token)).await
    }

    /// `…/events/NAME`.
    pub(crate) async fn send_event(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let key = idempotency_key(call.request.headers())?.map(str::to_owned);
        self.refuse_if_not_durable(&call.name)?;
        self.send_mail(call, key).await
    }

    async fn send_mail(self: &Arc<Self>, call: Call, key: Option<String>) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let id = id_of(&call.name)?;
        let event = call.slot.clone();
        let received = self.body_of(call, monohull_abi::event::EVENT_BYTES_MAX as u64).await?;
        let (sent, event) = self
            .with_ledger(move |_, ledger| {
                let bytes = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
                let mail = NewMail::new(&event, &bytes, key.as_deref());
                let mail = mail.map_err(|error| ApiError::bad_request(error.to_string()))?;
                let sent = ledger.meta().send(&id, &mail, now()).map_err(meta_kept)?;
                let refused = match sent {
                    Sent::New | Sent::Duplicate => {
                        ledger.changed(&id);
                        return Ok(((sent, id), event));
                    }
                    Sent::Unknown => unknown(),
                    Sent::Ended(status) => in_vain(&id, status, "sent events"),
                    Sent::KeyTaken => ApiError::invalid(
                        Blame::Client,
                        "the Idempotency-Key is that of another event for this invocation",
                    ),
                    Sent::Full => ApiError::full("as many events, or bytes in them, wait for the invocation as may", 1),
                };
                Err(refused)
            })
            .await?;
        let (sent, id) = sent;
        let duplicate = sent == Sent::Duplicate;
        let status = if duplicate { StatusCode::OK } else { StatusCode::ACCEPTED };
        let document = json!({ "id": id.as_str(), "event": event, "duplicate": duplicate });
        Ok(json(Response::builder().status(status), &document))
    }

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

    /// `…/fork`.
    pub(crate) async fn fork(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        self.refuse_if_not_durable(&call.name)?;
        self.refuse_if_draining()?;
        let id = id_of(&call.name)?;
        let key = idempotency_key(call.request.headers())?.map(str::to_owned);
        let order: ForkOrder = self.order(call).await?;
        if order.count.is_some() && !order.ids.is_empty() {
            return Err(ApiError::bad_request("a fork has `count` or `ids`, not both"));
        }
        let ids = order.ids.iter().map(|id| id.parse().map_err(|error: monohull_durable::InvalidId| error.to_string()));
        let ids = ids.collect::<Result<Vec<InvocationId>, _>>().map_err(ApiError::bad_request)?;
        let count = order.count.unwrap_or(1);
        if !(1..=COPIES_MAX).contains(&count) || ids.len() > COPIES_MAX as usize {
            return Err(ApiError::bad_request(format!("a fork makes 1 to {COPIES_MAX} copies")));
        }
        let most = self.settings.durable;
        let document = self.with_ledger(move |_, ledger| {
            // Held until the copies name the files too.
            let _adding = ledger.adding()?;
            let kept = ledger.branch(&id, order.at, "forked")?;
            let mut meta = ledger.meta();
            let ids = match (ids.is_empty(), &key) {
                (false, _) => ids,
                (true, Some(key)) => names_of_key(&id, key, count)?,
                (true, None) => new_names(&*meta, &id, count)?,
            };
            if meta.living().map_err(meta_kept)? + ids.len() as u64 > most {
                return Err(full(most));
            }
            let fork = Fork { id: &id, at: Some(kept.generation), copies: &ids, paused: order.paused };
            let made = meta.fork(fork, now()).map_err(meta_kept)?;
            let made = done(made, &id, kept.generation, "forked")?;
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
        let order: RewindOrder = self.order(call).await?;
        let document = self.with_ledger(move |_, ledger| {
            ledger.branch(&id, Some(order.to), "rewound")?;
            let mut meta = ledger.meta();
            let row = meta.get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
            if order.from.is_some_and(|from| from != row.generation) {
                let message = format!("the invocation {id} has generation {} now", row.generation);
                return Err(ApiError::conflict(message));
            }
            let came = meta.rewind(&id, order.to, order.paused, now()).map_err(meta_kept)?;
            let generation = done(came, &id, order.to, "rewound")?;
            let row = meta.get(&id).map_err(meta_kept)?.ok_or_else(unknown)?;
            drop(meta);
            ledger.changed(&id);
            let (status, due) = (row.status.name(), row.due.map(date));
            Ok(json!({ "id": id.as_str(), "status": status, "generation": generation, "due": due }))
        });
        Ok(json(Response::builder(), &document.await?))
    }

    /// The body of a request that says what is to be done.
    async fn order<T: for<'d> Deserialize<'d>>(self: &Arc<Self>, call: Call) -> Result<T, ApiError> {
        let received = self.body_of(call, ORDER_MAX).await?;
        let bytes = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
        let text = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        serde_json::from_slice(text).map_err(|error| ApiError::bad_request(format!("the body: {error}")))
    }
}

pub(crate) fn full(most: u64) -> ApiError {
    ApiError::full(format!("{most} durable invocations have not ended, as many as may"), 60)
}

impl Ledger {
    /// What an invocation is now, and what it becomes at its next commit.
    fn control(
        &self,
        id: &InvocationId,
        control: Control,
        what: &str,
    ) -> Result<(RowStatus, Option<RowStatus>), ApiError> {
        let came = self.meta().control(id, control, now()).map_err(meta_kept)?;
        self.changed(id);
        match came {
            Controlled::Now(status) => Ok((status, None)),
            Controlled::AtNextCommit(status) => Ok((RowStatus::Running, Some(status))),
            Controlled::Ended(RowStatus::Cancelled) if control == Control::Cancel => Ok((RowStatus::Cancelled, None)),
            Controlled::Ended(status) => Err(in_vain(id, status, what)),
            Controlled::Unknown => Err(unknown()),
        }
    }

    /// A checkpoint of an invocation that others can go on from, whose file is as it should be: a damaged one would pause what goes on from
    /// it.
    fn branch(&self, id: &InvocationId, at: Option<u64>, what: &str) -> Result<Kept, ApiError> {
        let (row, history) = {
            let meta = self.meta();
            let row = meta.get(id).map_err(meta_kept)?.ok_or_else(unknown)?;
            (row, meta.history(id).map_err(meta_kept)?)
        };
        if !has_branches(row.status) {
            return Err(in_vain(id, row.status, what));
        }
        let at = at.unwrap_or(row.generation);
        let has: Vec<u64> = history.iter().map(|kept| kept.generation).collect();
        let found = history.into_iter().find(|kept| kept.generation == at);
        let found = found.ok_or_else(|| no_checkpoint(id, at, &has))?;
        let path = self.store().checkpoints().join(&found.checkpoint.file);
        let plan = |document: &[u8], _: &Engine| plan_once_registered(&row.workflow, document);
        match Saved::read(&path, self.key(), plan) {
            Ok(_) => Ok(found),
            Err(error) if error.is_hosts() => Err(ApiError::host(error.to_string())),
            Err(error) => Err(ApiError::conflict(format!("checkpoint {at} of {id} cannot be gone on from: {error}"))),
        }
    }
}

fn no_checkpoint(id: &InvocationId, at: u64, has: &[u64]) -> ApiError {
    let has: Vec<_> = has.iter().map(u64::to_string).collect();
    let has = if has.is_empty() { "it has none".to_owned() } else { format!("it has {}", has.join(", ")) };
    ApiError::conflict(format!("the invocation {id} has no checkpoint {at}: {has}"))
}

fn done<T>(came: Branched<T>, id: &InvocationId, at: u64, what: &str) -> Result<T, ApiError> {
    match came {
        Branched::Done(done) => Ok(done),
        Branched::Unknown => Err(unknown()),
        Branched::Refused(status) => Err(in_vain(id, status, what)),
        Branched::NoCheckpoint(has) => Err(no_checkpoint(id, at, &has)),
    }
}

/// A name for a copy: the invocation's own with an ending, as long as that is a name.
fn with_ending(id: &InvocationId, ending: &str) -> Result<InvocationId, ApiError> {
    let name = format!("{id}-{ending}");
    name.parse().map_err(|_| ApiError::bad_request(format!("{} is too long for an id: name the copies", quoted(&name))))
}

/// Names that no invocation has.
fn new_names(meta: &impl Meta, id: &InvocationId, count: u32) -> Result<Vec<InvocationId>, ApiError> {
    let mut names = Vec::new();
    for number in 1_u64.. {
        if names.len() == count as usize {
            break;
        }
        let name = with_ending(id, &number.to_string())?;
        if meta.get(&name).map_err(meta_kept)?.is_none() {
            names.push(name);
        }
    }
    Ok(names)
}

/// The names of copies that a request with a key makes: the same for the same key.
fn names_of_key(id: &InvocationId, key: &str, count: u32) -> Result<Vec<InvocationId>, ApiError> {
    let tag = &id_of_key(id.as_str(), key)[..8];
    (1..=count).map(|number| with_ending(id, &format!("{tag}-{number}"))).collect()
}
