//! What is known of an invocation, durable or not.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use monohull_abi::event::{CHILD_EVENT, is_reserved_event};
use monohull_durable::{
    Child, Family, Forks, History as _, Invocation as Row, InvocationId, Lineage, Lost, Meta, Output, OutputAt, Sqlite,
    Status as RowStatus, Wait,
};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::endpoints::versions::Version;
use crate::http::content::SMALL;
use crate::http::error::ApiError;
use crate::http::routes::{Call, Route};
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::{Ledger, meta_kept};
use crate::invocations::record::{End, LogLine, Printed};
use crate::invocations::redact::Redactor;
use crate::invocations::report::Report;
use crate::invocations::shown::Shown;
use crate::invocations::status::Status;
use crate::invocations::stored::{Start, Told, decode_printed};
use crate::service::Watchdog;

/// An invocation that was asked about.
pub(crate) struct Known {
    /// The one that a process runs, or what its row says.
    pub(crate) invocation: Arc<Invocation>,
    /// Of a durable one.
    pub(crate) row: Option<Box<DurableRow>>,
    /// What a durable one that runs has printed before.
    pub(crate) earlier: Vec<LogLine>,
}

/// How often it is looked whether an invocation that a client follows has begun.
const LOOK: Duration = Duration::from_millis(200);
/// The same of one that has, and whose row is read again.
const BRIEF: Duration = Duration::from_millis(5);

/// The row of a durable invocation, and what belongs to it.
pub(crate) struct DurableRow {
    pub(crate) row: Row,
    /// A process of this server runs it.
    is_live: bool,
    /// When its checkpoint was committed.
    suspended: Option<u64>,
    mail: u64,
    /// It has been told to end.
    is_told: bool,
    lineage: Lineage,
    forks: Forks,
    family: Family,
}

/// As many copies of an invocation are named.
const FORKS_SHOWN: usize = 100;

/// A time in ns since 1970, as RFC 3339 has it.
pub(crate) fn date(ns: u64) -> String {
    let far = Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_nanos(ns).min(far)).to_string()
}

/// Waits as a document. A function chooses the names of its events.
pub(crate) fn waiting_for(waits: &[Wait], redactor: &Redactor) -> Vec<Value> {
    let kind = |wait: &Wait| match (&wait.event, wait.until) {
        (Some(event), _) if is_reserved_event(event) => "child",
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
            "name": wait.event.as_deref().map(|event| redactor.text(named(event).to_owned())),
            "until": wait.until.map(date),
        })
    });
    waits.collect()
}

/// What an event is called by functions: a child's end by the child's own name.
fn named(event: &str) -> &str {
    event.strip_prefix(CHILD_EVENT).unwrap_or(event)
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
        "checkpoint": row.checkpoint.as_ref().map(|checkpoint| {
            json!({ "bytes": checkpoint.bytes, "generation": row.generation })
        }),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

pub(crate) fn parent(lineage: &Lineage) -> Value {
    let Lineage { parent, copy, copies, .. } = lineage;
    parent.as_ref().map_or(
        Value::Null,
        |(id, generation)| json!({ "id": id.as_str(), "generation": generation, "copy": copy, "copies": copies }),
    )
}

pub(crate) fn unknown() -> ApiError {
    let message = "no invocation has this id; those that ended long ago, or before many others, are forgotten";
    ApiError::not_found(message)
}

impl Known {
    /// Whether it neither runs nor has ended, so that nothing comes of it by itself. A durable one is claimed a moment before a process runs it.
    pub(crate) fn rests(&self) -> bool {
        self.row.as_ref().is_some_and(|durable| !durable.row.status.is_end() && !durable.is_live)
    }

    /// Its document.
    pub(crate) fn show(&self, redactor: &Redactor) -> Shown {
        let shown = self.invocation.show();
        let Some(durable) = &self.row else { return shown };
        let mut fields = row_fields(&durable.row, redactor);
        // One that this server runs may wait in the queue.
        fields.remove("status");
        if let Some(Value::Object(checkpoint)) = fields.get_mut("checkpoint") {
            checkpoint.insert("at".to_owned(), durable.suspended.map(date).into());
        }
        fields.insert("mail".to_owned(), durable.mail.into());
        if durable.is_told && !durable.row.status.is_end() && durable.row.wanted.is_none() {
            fields.insert("becomes".to_owned(), RowStatus::Cancelled.name().into());
        }
        fields.insert("published".to_owned(), json!(redactor.published(&durable.row.published)));
        fields.insert("parent".to_owned(), parent(&durable.lineage));
        let version = Start::decode(&durable.row.start).map(|start| Version::of(&start).name());
        fields.insert("version".to_owned(), version.into());
        fields.insert("forks".to_owned(), durable.forks.first.iter().map(InvocationId::as_str).collect());
        fields.insert("fork_count".to_owned(), durable.forks.count.into());
        fields.extend(family_fields(&durable.family, redactor));
        if !self.earlier.is_empty() {
            fields.insert("lines".to_owned(), (self.invocation.lines().0.len() + self.earlier.len()).into());
        }
        shown.with(fields)
    }
}

/// The invocations around a durable one, as fields of its document.
fn family_fields(family: &Family, redactor: &Redactor) -> [(String, Value); 3] {
    let started_by = family.started_by.as_ref().map(|(id, name)| json!({ "id": id.as_str(), "child": name }));
    let child = |child: &Child| {
        json!({
            "child": child.name,
            "id": child.id.as_str(),
            "workflow": child.workflow,
            "detached": child.detached,
            "status": child.status.map(Status::from),
            "joined": child.joined,
        })
    };
    // A function chooses these texts.
    let lost = |lost: &Lost| {
        json!({
            "at": date(lost.at),
            "what": lost.what,
            "to": redactor.text(lost.to.clone()),
            "name": redactor.text(lost.name.clone()),
            "why": redactor.text(lost.why.clone()),
        })
    };
    [
        ("started_by".to_owned(), started_by.unwrap_or_default()),
        ("children".to_owned(), family.children.iter().map(child).collect()),
        ("undelivered".to_owned(), family.undelivered.iter().map(lost).collect()),
    ]
}

impl Ledger {
    /// What is known of an invocation; `live` is the one that a process runs. Of the outputs that are files only that of this slot is opened: each
    /// may be large, and takes memory if it is encrypted.
    fn recall(
        &self,
        id: &InvocationId,
        live: Option<Arc<Invocation>>,
        slot: Option<&str>,
    ) -> Result<Option<Known>, ApiError> {
        let (row, suspended, (mail, is_told), lineage, forks, family, outputs, printed) = {
            let all = |meta: &Sqlite| {
                let Some(row) = meta.get(id)? else { return Ok(None) };
                let outputs = if row.status == RowStatus::Completed { meta.outputs(id)? } else { Vec::new() };
                let printed = meta.printed(id)?;
                let (lineage, forks, family) = (meta.lineage(id)?, meta.forks(id, FORKS_SHOWN)?, meta.family(id)?);
                // What is damaged of its history is told where that is asked for.
                let suspended = meta.kept(id, row.generation).ok().flatten().map(|kept| kept.at);
                let mail = (meta.mail_count(id)?, meta.is_told_to_end(id)?);
                Ok(Some((row, suspended, mail, lineage, forks, family, outputs, printed)))
            };
            match self.reader().at_one_time(all).map_err(meta_kept)? {
                Some(found) => found,
                None => return Ok(None),
            }
        };
        let mut said = Printed::default();
        printed.iter().filter_map(|bytes| decode_printed(bytes)).for_each(|printed| said.add(printed));
        let is_stored = |output: &Output| matches!(output.at, OutputAt::File(_)) && Some(&*output.slot) != slot;
        let (stored, outputs): (Vec<_>, Vec<_>) = outputs.into_iter().partition(is_stored);
        let stored = stored.into_iter().map(|output| (output.slot, output.bytes)).collect();
        let live = live.filter(|_| row.status == RowStatus::Running);
        let is_live = live.is_some();
        let durable =
            |row| Some(Box::new(DurableRow { row, is_live, suspended, mail, is_told, lineage, forks, family }));
        if let Some(invocation) = live {
            return Ok(Some(Known { invocation, row: durable(row), earlier: said.into_lines() }));
        }
        let start = Start::decode(&row.start);
        let start = start.ok_or_else(|| ApiError::host(format!("the row of {id} was written by another version")))?;
        let invocation = Invocation::durable(id.to_string(), start.head, row.status.into());
        invocation.print(said);
        if row.status.is_end() {
            if row.report.as_ref().is_some_and(|report| report.len() as u64 > SMALL) {
                invocation.set_long(None);
            }
            let told: Option<Told> = row.report.as_deref().and_then(Told::decode);
            let told = told.unwrap_or_else(|| Told {
                duration_us: row.changed.saturating_sub(row.started) / 1000,
                report: None,
                refusal: (row.status != RowStatus::Completed).then(|| ApiError::cancelled("it was cancelled by hand")),
            });
            let unreadable = |error: io::Error| ApiError::host(format!("an output of {id} cannot be read: {error}"));
            let read = |output: Output| Ok((output.slot.clone(), self.output(output).map_err(unreadable)?));
            let result = match told.refusal {
                Some(refusal) => Err(refusal),
                None if row.status == RowStatus::Cancelled => {
                    Err(ApiError::cancelled("it was told to end, and has ended by itself"))
                }
                None => Ok(outputs.into_iter().map(read).collect::<Result<Vec<_>, ApiError>>()?),
            };
            let (status, report) = (row.status.into(), told.report.map(Report::from));
            invocation.end(Arc::new(End { status, duration_us: told.duration_us, report, result, stored }));
        }
        Ok(Some(Known { invocation: Arc::new(invocation), row: durable(row), earlier: Vec::new() }))
    }
}

impl Watchdog {
    /// What is said of an invocation that is not found: that it was removed by hand, if it was.
    pub(crate) async fn gone(self: &Arc<Self>, name: String, refusal: ApiError) -> ApiError {
        let watchdog = self.clone();
        let asked = spawn_blocking(move || {
            let id = name.parse::<InvocationId>().ok()?;
            let is_gone = watchdog.ledger.reader().is_gone(&id).ok()?;
            is_gone.then(|| ApiError::gone(format!("the invocation {id} was removed, and nothing is kept of it")))
        });
        asked.await.ok().flatten().unwrap_or(refusal)
    }

    /// An invocation that the ledger has, and the output that is in this slot.
    pub(crate) async fn recall(self: &Arc<Self>, id: &str, slot: Option<&str>) -> Result<Option<Known>, ApiError> {
        let Ok(id) = id.parse::<InvocationId>() else { return Ok(None) };
        let (watchdog, live, slot) = (self.clone(), self.history.find(id.as_str()), slot.map(str::to_owned));
        let recalled = spawn_blocking(move || watchdog.ledger.recall(&id, live, slot.as_deref())).await;
        recalled.map_err(|error| ApiError::monohull(error.to_string()))?
    }

    /// An invocation of any kind, and the output that is in this slot.
    pub(crate) async fn find(self: &Arc<Self>, id: &str, slot: Option<&str>) -> Result<Known, ApiError> {
        if let Some(invocation) = self.history.find(id).filter(|invocation| !invocation.is_durable()) {
            return Ok(Known { invocation, row: None, earlier: Vec::new() });
        }
        let known = self.recall(id, slot).await?.ok_or_else(unknown)?;
        let is_running = known.row.as_ref().is_some_and(|durable| durable.row.status == RowStatus::Running);
        if is_running && known.invocation.ended().is_some() {
            // It has ended since its row was read, which tells of the end by now.
            return self.recall(id, slot).await?.ok_or_else(unknown);
        }
        Ok(known)
    }

    /// A durable one that does not run, once it does, or has ended. `None` if it cannot be read, or the server ends.
    pub(crate) async fn begun(
        self: Arc<Self>,
        id: String,
        mut changes: broadcast::Receiver<Option<InvocationId>>,
    ) -> Option<Known> {
        loop {
            let known = self.find(&id, None).await.ok()?;
            if !known.rests() {
                return Some(known);
            }
            loop {
                if self.is_ending() {
                    return None;
                }
                if self.history.find(&id).is_some_and(|live| live.ended().is_none()) {
                    // Its row may not say so yet.
                    sleep(BRIEF).await;
                    break;
                }
                // Ends are told of, and beginnings are not.
                match timeout(LOOK, changes.recv()).await {
                    Ok(Ok(Some(changed))) if changed.as_str() != id => {}
                    Ok(_) => break,
                    Err(_) => {}
                }
            }
        }
    }

    /// The same, once it has ended or `wait` is over, whichever comes first.
    pub(crate) async fn find_ended(self: &Arc<Self>, call: &Call, wait: Duration) -> Result<Known, ApiError> {
        let until = Instant::now() + wait;
        // An encrypted one takes memory, which is asked for when it is known how much.
        let is_opened = call.route == Route::InvocationOutput && self.ledger.store().key().is_none();
        let slot = Some(&*call.slot).filter(|_| is_opened);
        let mut changes = self.ledger.changes();
        let gone = call.stream.gone(self.settings.clients.farewell);
        let mut gone = std::pin::pin!(gone);
        loop {
            let known = self.find(&call.name, slot).await?;
            let has_ended = match &known.row {
                Some(durable) => durable.row.status.is_end(),
                // One that has become durable meanwhile has a row by now.
                None => known.invocation.status().is_final(),
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
                () = &mut gone => return self.find(&call.name, slot).await,
            }
        }
    }
}
