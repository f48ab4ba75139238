//! `/invocations`: their state, printed lines and results.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use hyper::http::Response;
use monohull_durable::{Filter, Listed, Status as RowStatus};
use monohull_report::text::quoted;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::endpoints::durable::waits;
use crate::endpoints::known::{Known, row_fields, unknown};
use crate::endpoints::versions::{Version, version_name};
use crate::http::answer::Answer;
use crate::http::content::Content;
use crate::http::error::{ApiError, json};
use crate::http::routes::Call;
use crate::http::transit::{NoRoom, Room};
use crate::invocations::invocation::Invocation;
use crate::invocations::ledger::meta_kept;
use crate::invocations::record::{End, LogLine};
use crate::invocations::redact::Redactor;
use crate::invocations::status::{Mode, Status};
use crate::invocations::stored::Start;
use crate::registry::documents::plan_once_registered;
use crate::service::Watchdog;
use monohull_report::Stream;
use monohull_report::escape::{Line, Notation};

/// Invocations in a list unless the request says otherwise, and the most there can be.
const LISTED: usize = 100;
const LISTED_MAX: usize = 10_000;
/// Rows of the ledger that are read at a time where only those of a version are wanted.
const ROWS: usize = 500;
/// Where a report has the reason why its invocation failed ([`Told`](crate::invocations::stored::Told)).
const REFUSAL: &str = "$.refusal";
/// When a client that has asked for a result may ask again.
const RETRY_SECONDS: u64 = 1;

/// How lines are written.
#[derive(Clone, Copy)]
enum Format {
    /// `step[instance] | text`, as `monohull run` shows them: escaped.
    Text,
    /// The same, with the text as the function printed it.
    Raw,
    /// One JSON object per line.
    Json,
}

impl Watchdog {
    /// A page of the list, the last accepted first: the invocations of the ledger, and those whose clients wait or have waited for them.
    pub(crate) async fn list_invocations(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [limit, workflow, version, status, started_after, cursor] =
            call.parameters(["limit", "workflow", "version", "status", "started_after", "cursor"])?;
        let limit = match limit {
            None => LISTED,
            Some(text) => {
                let limit = text.parse().ok().filter(|limit| (1..=LISTED_MAX).contains(limit));
                limit.ok_or_else(|| ApiError::bad_request(format!("limit is a number from 1 to {LISTED_MAX}")))?
            }
        };
        let version = version.map(version_name).transpose()?;
        let wanted = Wanted::of(workflow, status.as_deref(), started_after.as_deref(), cursor.as_deref())?;
        let watchdog = self.clone();
        let found = self.blocking(move |_| watchdog.listed(&wanted, version.as_deref(), limit + 1));
        let mut found = found.await?;
        found.sort_by(|(one, _), (other, _)| other.cmp(one));
        let is_whole = found.len() <= limit;
        found.truncate(limit);
        let next = found.last().filter(|_| !is_whole).map(|(place, _)| place.cursor());
        let shown: Vec<_> = found.into_iter().map(|(_, summary)| summary).collect();
        Ok(json(Response::builder(), &json!({ "invocations": shown, "next_cursor": next })))
    }

    /// The first of those that are wanted, in no order: at least as many, if there are so many.
    fn listed(&self, wanted: &Wanted, version: Option<&str>, number: usize) -> Result<Vec<(Place, Value)>, ApiError> {
        let (mut live, mut found) = (Vec::new(), Vec::new());
        // Only those of the ledger are kept with their version.
        let others = if version.is_none() { self.history.all() } else { Vec::new() };
        for invocation in others {
            let place = Place { accepted: invocation.accepted_ns(), id: invocation.id.clone() };
            if !invocation.is_durable() && wanted.has(&place, &invocation.workflow, invocation.status()) {
                live.push((place, Value::Object(invocation.summary())));
            }
        }
        let (mut filter, mut of_ledger) = (wanted.filter(), 0);
        let page = if version.is_none() { number } else { number.max(ROWS) };
        let redactor = self.secrets.redactor();
        loop {
            let rows = self.ledger.newest(&filter, page).map_err(meta_kept)?;
            let is_last = rows.len() < page;
            for row in rows {
                let (place, shown) = self.summary_of(row, &redactor);
                filter.before = Some((place.accepted, place.id.clone()));
                let is_of_version = version.is_none_or(|version| shown["version"] == version);
                if is_of_version && wanted.is_status(shown["status"].as_str().unwrap_or_default()) {
                    found.push((place, shown));
                    of_ledger += 1;
                }
            }
            if is_last || of_ledger >= number {
                // One that has become durable meanwhile has a row.
                let rows: HashSet<String> = found.iter().map(|(place, _): &(Place, _)| place.id.clone()).collect();
                found.extend(live.into_iter().filter(|(place, _)| !rows.contains(&place.id)));
                return Ok(found);
            }
        }
    }

    /// A line of a list, of a row.
    fn summary_of(&self, row: Listed, redactor: &Redactor) -> (Place, Value) {
        let row = match row {
            Ok(row) => row,
            Err(damaged) => {
                let place = Place { accepted: damaged.started, id: damaged.id.clone() };
                let shown = damaged_summary(&place, &damaged.workflow, &damaged.to_string());
                return (place, shown);
            }
        };
        let place = Place { accepted: row.started, id: row.id.to_string() };
        let Some(start) = Start::decode(&row.start) else {
            let why = "what it was started with cannot be read by this version of Monohull";
            let shown = damaged_summary(&place, &row.workflow, why);
            return (place, shown);
        };
        let version = Version::of(&start).name();
        let mut summary = Invocation::durable(place.id.clone(), start.head, row.status.into()).summary();
        summary.insert("version".to_owned(), version.into());
        if row.status.is_end() {
            summary.insert("duration_us".to_owned(), (row.changed.saturating_sub(row.started) / 1000).into());
        }
        let refusal = row.report.as_ref().and_then(|refusal| serde_json::from_slice::<ApiError>(refusal).ok());
        if let Some(refusal) = refusal {
            summary.insert("http_status".to_owned(), refusal.status.as_u16().into());
            summary.insert("error_kind".to_owned(), json!(refusal.error.kind));
        }
        summary.extend(row_fields(&row, redactor));
        // One that this server runs may wait in the queue.
        if row.status == RowStatus::Running
            && let Some(live) = self.history.find(&place.id)
            && !live.status().is_final()
        {
            summary.insert("status".to_owned(), live.status().name().into());
        }
        (place, Value::Object(summary))
    }

    pub(crate) async fn show_invocation(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [wait] = call.parameters(["wait"])?;
        let known = self.find_ended(call, waits(wait.as_deref())?).await?;
        let invocation = known.invocation.clone();
        let redactor = self.secrets.redactor();
        self.written(&invocation, move || json(Response::builder(), &known.show(&redactor))).await
    }

    /// An answer that may contain an invocation's report. A long one is written on another thread.
    pub(crate) async fn written(
        self: &Arc<Self>,
        invocation: &Invocation,
        write: impl FnOnce() -> Response<Answer> + Send + 'static,
    ) -> Result<Response<Answer>, ApiError> {
        let _permit = invocation.report_permit().await;
        if invocation.is_long() { self.blocking(move |_| Ok(write())).await } else { Ok(write()) }
    }

    /// What functions have printed so far, or also what they are going to.
    pub(crate) async fn show_logs(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [follow, format] = call.parameters(["follow", "format"])?;
        // Before it is looked at, so that no change is missed.
        let changes = self.ledger.changes();
        let known = self.find(&call.name, None).await?;
        let rests = known.rests();
        let Known { invocation, earlier, .. } = known;
        let (format, content_type) = match format.as_deref() {
            None | Some("text") => (Format::Text, "text/plain; charset=utf-8"),
            Some("raw") => (Format::Raw, "text/plain; charset=utf-8"),
            Some("json") => (Format::Json, "application/x-ndjson"),
            Some(_) => return Err(ApiError::bad_request("format is text, raw or json")),
        };
        let body = match follow.as_deref() {
            None | Some("false") => {
                let (lines, dropped) = invocation.lines();
                Answer::Whole([format.write(&earlier), format.write(&lines), format.dropped(dropped)].concat().into())
            }
            Some("true" | "") => {
                let (stream, farewell) = (call.stream.clone(), self.settings.clients.farewell);
                let earlier = if rests { invocation.lines().0 } else { earlier };
                let begins = rests.then(|| self.clone().begun(call.name.clone(), changes));
                let bytes: usize = earlier.iter().map(LogLine::size).sum();
                let room = self.transit.room_of(bytes as u64, &stream).map_err(|NoRoom| ApiError::answers_full())?;
                let gone = async move { stream.gone(farewell).await };
                follow_lines(invocation, begins, (earlier, room), format, gone)
            }
            Some(_) => return Err(ApiError::bad_request("follow is true or false")),
        };
        let response = Response::builder().header(CONTENT_TYPE, content_type).body(body);
        response.map_err(|error| ApiError::monohull(error.to_string()))
    }

    /// One output slot of an invocation, as it is; of one that has not ended what it is now.
    pub(crate) async fn show_output(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [wait] = call.parameters(["wait"])?;
        let Known { invocation, row, .. } = self.find_ended(call, waits(wait.as_deref())?).await?;
        let Some(end) = invocation.ended().filter(|end| end.status.is_final()) else {
            if let Some(row) = row
                && !self.may_have_output(row.row.start, call.slot.clone()).await
            {
                return Err(ApiError::not_found(NO_SUCH_OUTPUT));
            }
            let document = json!({ "id": invocation.id, "status": invocation.status() });
            let response = Response::builder().status(StatusCode::ACCEPTED).header(RETRY_AFTER, RETRY_SECONDS);
            return Ok(json(response, &document));
        };
        if let Some((_, bytes)) = end.stored.iter().find(|(name, _)| *name == call.slot) {
            let room = self.transit.room_for_parts(*bytes, &call.stream).map_err(|NoRoom| ApiError::answers_full())?;
            let known = self.recall(&call.name, Some(&call.slot)).await?.ok_or_else(unknown)?;
            let end = known.invocation.ended().ok_or_else(unknown)?;
            let mut response = output_in(&end, &call.slot, &invocation)?;
            if let Some(room) = room {
                room.begins();
                let parts = std::mem::replace(response.body_mut(), Answer::Whole(Bytes::new()));
                *response.body_mut() = Answer::Large { parts: Box::new(parts), room };
            }
            return Ok(response);
        }
        output_in(&end, &call.slot, &invocation)
    }
}

/// What is said of a slot that the workflow does not have as an output.
const NO_SUCH_OUTPUT: &str = "the invocation has no such output slot";

impl Watchdog {
    /// Whether an invocation that was started with this can have an output in this slot, as far as its document can be read.
    async fn may_have_output(self: &Arc<Self>, start: Vec<u8>, slot: String) -> bool {
        let watchdog = self.clone();
        let outputs = spawn_blocking(move || {
            let start = Start::decode(&start)?;
            let document = watchdog.ledger.read(&start.document).ok()?;
            let plan = plan_once_registered(start.head.workflow(), &document).ok()?;
            Some(plan.outputs.iter().any(|output| output.slot == slot))
        });
        outputs.await.ok().flatten().unwrap_or(true)
    }
}

/// The output in this slot.
fn output_in(end: &End, slot: &str, of: &Invocation) -> Result<Response<Answer>, ApiError> {
    let without = match end.status {
        Status::Cancelled => "the invocation was cancelled: it has no result",
        _ => "the invocation failed: it has no result",
    };
    let outputs = end.result.as_ref().map_err(|_| ApiError::not_found(without))?;
    let found = outputs.iter().find(|(name, _)| name == slot);
    let (name, content) = found.ok_or_else(|| ApiError::not_found(NO_SUCH_OUTPUT))?;
    Ok(output(content.clone(), of.content_type(name)))
}

/// What a list has of an invocation that cannot be shown. The others are listed as they are.
fn damaged_summary(place: &Place, workflow: &str, why: &str) -> Value {
    json!({
        "id": place.id,
        "call_id": place.id,
        "workflow": workflow,
        "mode": Mode::Async,
        "status": "damaged",
        "accepted_ms": place.accepted / 1_000_000,
        "durable": true,
        "reason": why,
    })
}

/// Where an invocation is in the list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    /// When it was accepted (ns since 1970).
    accepted: u64,
    id: String,
}

impl Place {
    /// As a client sends it back.
    fn cursor(&self) -> String {
        format!("{}.{}", self.accepted, self.id)
    }

    fn of(cursor: &str) -> Result<Place, ApiError> {
        let parts = cursor.split_once('.').and_then(|(accepted, id)| Some((accepted.parse().ok()?, id)));
        let (accepted, id) = parts.ok_or_else(|| ApiError::bad_request("cursor is that of no list"))?;
        Ok(Place { accepted, id: id.to_owned() })
    }
}

/// What a list is asked for.
struct Wanted {
    workflow: Option<String>,
    statuses: Vec<Status>,
    started_after: Option<u64>,
    before: Option<Place>,
}

impl Wanted {
    fn of(
        workflow: Option<String>,
        status: Option<&str>,
        started_after: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Wanted, ApiError> {
        let named = |name: &str| {
            let found = Status::ALL.into_iter().find(|status| status.name() == name);
            found.ok_or_else(|| ApiError::bad_request(format!("no status is called {}", quoted(name))))
        };
        let statuses = status.into_iter().flat_map(|status| status.split(',')).map(named).collect::<Result<_, _>>()?;
        let time = |text: &str| {
            let time = monohull_durable::time_of(text);
            time.map_err(|error| ApiError::bad_request(format!("started_after {error}")))
        };
        let started_after = started_after.map(time).transpose()?;
        Ok(Wanted { workflow, statuses, started_after, before: cursor.map(Place::of).transpose()? })
    }

    fn has(&self, place: &Place, workflow: &str, status: Status) -> bool {
        self.workflow.as_ref().is_none_or(|wanted| wanted == workflow)
            && (self.statuses.is_empty() || self.statuses.contains(&status))
            && self.started_after.is_none_or(|after| place.accepted > after)
            && self.before.as_ref().is_none_or(|before| place < before)
    }

    /// Whether one of this status is wanted. One that is damaged is wanted only where none is named.
    fn is_status(&self, name: &str) -> bool {
        self.statuses.is_empty() || self.statuses.iter().any(|status| status.name() == name)
    }

    /// What the ledger is asked for.
    fn filter(&self) -> Filter {
        // A row that runs may be one that waits in this server's queue.
        let is_wanted = |status: &RowStatus| {
            let is_queued = *status == RowStatus::Running && self.statuses.contains(&Status::Pending);
            is_queued || self.statuses.contains(&Status::from(*status))
        };
        Filter {
            workflow: self.workflow.clone(),
            statuses: RowStatus::ALL.into_iter().filter(is_wanted).collect(),
            started_after: self.started_after,
            before: self.before.clone().map(|place| (place.accepted, place.id)),
            report_path: Some(REFUSAL),
        }
    }
}

/// What a workflow has made, of the type that it says. A browser that is led here runs nothing of it: the page at `/` comes from the
/// same address, and a script there could do all that an operator can.
pub(crate) fn output(content: Content, content_type: &str) -> Response<Answer> {
    let mut response = Response::new(Answer::from(content));
    let given = HeaderValue::from_str(content_type);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, given.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Sends lines as they are printed, until the invocation ends, comes to a wait, or the client goes away. One that does not run yet is what `begins` gives.
fn follow_lines(
    mut invocation: Arc<Invocation>,
    begins: Option<impl Future<Output = Option<Known>> + Send + 'static>,
    (earlier, room): (Vec<LogLine>, Option<Room>),
    format: Format,
    gone: impl Future<Output = ()> + Send + 'static,
) -> Answer {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let (mut sent, mut rest) = (0, &*earlier);
        while !rest.is_empty() {
            let piece = LogLine::piece_of(rest);
            if sender.send(format.write(piece)).await.is_err() {
                return;
            }
            rest = &rest[piece.len()..];
        }
        let shown = earlier.len();
        drop((earlier, room));
        let mut gone = std::pin::pin!(gone);
        if let Some(begins) = begins {
            let begun = tokio::select! {
                begun = begins => begun,
                () = sender.closed() => return,
                () = &mut gone => return,
            };
            let Some(known) = begun else { return };
            // What it has printed since it was looked at, and before it came to run.
            let missed = known.earlier.get(shown..).unwrap_or_default();
            if sender.send(format.write(missed)).await.is_err() {
                return;
            }
            // One that has ended meanwhile has all lines.
            sent = if known.earlier.is_empty() && known.invocation.ended().is_some() { shown } else { 0 };
            invocation = known.invocation;
        }
        loop {
            // A client may go away while nothing is printed, and another come.
            let lines = tokio::select! {
                lines = invocation.lines_after(sent) => lines,
                () = sender.closed() => return,
                () = &mut gone => return,
            };
            let Some(lines) = lines else {
                let _ = sender.send(format.dropped(invocation.lines().1)).await;
                return;
            };
            sent += lines.len();
            if sender.send(format.write(&lines)).await.is_err() {
                return;
            }
        }
    });
    Answer::Stream(receiver)
}

impl Format {
    /// Says that there were more lines, if there were.
    fn dropped(self, lines: u64) -> Bytes {
        match (self, lines) {
            (_, 0) => Bytes::new(),
            (Format::Json, _) => format!("{}\n", json!({ "dropped": lines })).into(),
            (Format::Text | Format::Raw, _) => {
                format!("({lines} more lines were dropped: there is room for so many)\n").into()
            }
        }
    }

    fn write(self, lines: &[LogLine]) -> Bytes {
        let mut text = String::new();
        for line in lines {
            // Writing to a string does not fail.
            let _ = match self {
                Format::Json => writeln!(text, "{}", Notation::Json.escape(&json!(line).to_string())),
                Format::Text => writeln!(text, "{}{}", Line(&line.tag()), Line(&line.text)),
                Format::Raw => writeln!(text, "{}{}", line.tag(), line.text),
            };
        }
        text.into()
    }
}

impl LogLine {
    /// Where the line comes from.
    fn tag(&self) -> String {
        let mark = if self.stream == Stream::Stderr { '!' } else { '|' };
        format!("{}[{}] {mark} ", self.step, self.instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::http::trace::Trace;
    use hyper::HeaderMap;
    use monohull_workflow as workflow;
    use std::path::Path;

    /// It runs already.
    const NEVER: Option<std::future::Ready<Option<Known>>> = None;

    fn invocation() -> Arc<Invocation> {
        const NO_OP: &str = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[{"name":"s","function":"f"}]}"#;
        let plan = workflow::load_str(Path::new("w.json"), NO_OP).expect("a workflow");
        let trace = Trace::of(&HeaderMap::new());
        Arc::new(Invocation::new(Moment::now(), None, trace, &plan, Mode::Async))
    }

    /// One that does not read has a few pieces of what was printed, and not all of it.
    #[tokio::test]
    async fn a_client_that_follows_gets_all_lines_in_pieces() {
        let line = |number: usize| format!("{number:0>1000}");
        let (step, instance, stream) = ("s".to_owned(), 0, Stream::Stdout);
        let invocation = invocation();
        let earlier = (0..300)
            .map(|number| LogLine { at_us: 0, step: step.clone(), instance, stream, text: line(number) })
            .collect();
        for number in 300..600 {
            invocation.line(step.clone(), instance, stream, line(number));
        }
        invocation.end(invocation.ending(Status::Completed, None, Ok(Vec::new())));
        let answer = follow_lines(invocation, NEVER, (earlier, None), Format::Text, std::future::pending());
        let Answer::Stream(mut lines) = answer else { panic!("it comes bit by bit") };
        let mut all = Vec::new();
        while let Some(piece) = lines.recv().await {
            assert!(piece.len() <= 64 << 10, "{} bytes at a time", piece.len());
            all.extend_from_slice(&piece);
        }
        let wanted: String = (0..600).map(|number| format!("s[0] | {}\n", line(number))).collect();
        assert!(all == wanted.as_bytes(), "{} bytes", all.len());
    }

    #[tokio::test]
    async fn a_client_that_stops_following_leaves_nothing_behind() {
        let invocation = invocation();
        for _ in 0..100 {
            let answer =
                follow_lines(invocation.clone(), NEVER, Default::default(), Format::Text, std::future::pending());
            tokio::task::yield_now().await;
            drop(answer);
        }
        let mut left = usize::MAX;
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            left = Arc::strong_count(&invocation);
        }
        assert_eq!(left, 1, "it prints nothing, and no client follows it");
    }
}
