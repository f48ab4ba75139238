//! The same verbs with a server: requests, and what is printed of the answers.

use super::super::client::{Client, ClientError};
use super::super::exit::Exit;
use super::super::suspend::date;
use super::super::{output, table};
use super::words::{SHOWN, UNLESS_IT_ENDS, others_made};
use super::{Trouble, tables, when};
use hyper::{Method, StatusCode};
use monohull_durable::InvocationId;
use monohull_report::escape::{Line, shown};
use monohull_report::text::quoted;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

/// The path of something of an invocation. An id needs no escapes.
pub(super) fn path(id: &InvocationId, rest: &str) -> String {
    format!("/invocations/{id}{rest}")
}

/// A part of a path, or a value of a parameter.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A text of a document, for a terminal.
fn text(document: &Value, field: &str) -> String {
    match &document[field] {
        Value::Null => String::new(),
        Value::String(text) => Line(text).to_string(),
        other => Line(&other.to_string()).to_string(),
    }
}

/// Sends an order as JSON.
fn order(client: &Client, path: &str, order: &Value) -> Result<Value, ClientError> {
    client.send(Method::POST, path, Some("application/json"), order.to_string().into_bytes())?.json()
}

/// `pause`, `resume`, `cancel` and `kill`: what it is now.
pub(super) fn control(client: &Client, id: &InvocationId, verb: &str) -> Result<String, Trouble> {
    let came = client.post(&path(id, &format!("/{verb}")))?.json()?;
    let status = text(&came, "status");
    Ok(match &came["becomes"] {
        Value::Null => status,
        _ if status == "running" => format!("{status}, then {}{UNLESS_IT_ENDS}", text(&came, "becomes")),
        _ => format!("{status}, then {}", text(&came, "becomes")),
    })
}

/// When one goes on: a paused one by hand.
fn goes_on(document: &Value) -> String {
    let waits = document["waiting_for"].as_array().filter(|_| document["status"] != "paused");
    let events = waits.into_iter().flatten().filter_map(|wait| wait["event"].as_str());
    when(document["due"].as_str().filter(|_| waits.is_some()).map(|due| Line(due).to_string()), events)
}

fn waits(document: &Value) -> Vec<String> {
    let waits = document["waiting_for"].as_array().map(Vec::as_slice).unwrap_or_default();
    let wait = |wait: &Value| format!("{}[{}] {}", text(wait, "step"), wait["instance"], text(wait, "what"));
    waits.iter().map(wait).collect()
}

/// The same with the time until which each waits.
pub(in super::super) fn waits_until(document: &Value) -> Vec<String> {
    let all = document["waiting_for"].as_array().map(Vec::as_slice).unwrap_or_default();
    let until = all.iter().map(|wait| match text(wait, "until") {
        until if until.is_empty() => until,
        until => format!(" until {until}"),
    });
    waits(document).into_iter().zip(until).map(|(wait, until)| wait + &until).collect()
}

/// When it was started.
fn started(document: &Value) -> Option<String> {
    Some(date(document["accepted_ms"].as_u64()?.saturating_mul(1_000_000)))
}

fn stored(document: &Value) -> String {
    let bytes = document["checkpoint"]["bytes"].as_u64();
    bytes.map(|bytes| format!("{bytes} B")).unwrap_or_default()
}

/// `ps`.
pub(super) fn list(client: &Client, query: [(&str, Option<&str>); 3], limit: usize, json: bool) -> Result<(), Trouble> {
    let mut path = format!("/invocations?limit={limit}");
    for (name, value) in
        query.into_iter().filter_map(|(name, value)| Some((name, value.filter(|text| !text.is_empty())?)))
    {
        path += &format!("&{name}={}", encoded(value));
    }
    let page = client.get(&path)?.json()?;
    let rows = page["invocations"].as_array().cloned().unwrap_or_default();
    if json {
        output::json(&json!({ "invocations": rows, "after": page["next_cursor"] }));
        return Ok(());
    }
    let mut table = tables::invocations();
    for row in &rows {
        let reason = text(row, "reason");
        let waits = if reason.is_empty() { waits(row).join(", ") } else { reason };
        let [id, workflow, status, due] = ["id", "workflow", "status", "due"].map(|field| text(row, field));
        table.add_row([id, workflow, status, due, waits, stored(row)]);
    }
    output::text(format_args!("{}\n", table::text(&table)));
    if let Some(next) = page["next_cursor"].as_str() {
        output::note(format_args!("monohull: there are more: --after {}", Line(next)));
    }
    Ok(())
}

/// `show`.
pub(super) fn show(client: &Client, id: &InvocationId, json: bool) -> Result<(), Trouble> {
    let document = client.get(&path(id, ""))?.json()?;
    if json {
        output::json(&document);
        return Ok(());
    }
    let line = |name: &str, value: &str| output::text(format_args!("{name:<12}{value}\n"));
    for name in SHOWN {
        let value = match name {
            "started" => started(&document).unwrap_or_default(),
            _ => text(&document, name),
        };
        if !value.is_empty() {
            line(name, &value);
        }
    }
    for (name, value) in document["published"].as_object().into_iter().flatten() {
        line("published", &format!("{} = {}", shown(name), Line(value.as_str().unwrap_or_default())));
    }
    let parent = &document["parent"];
    if parent.is_object() {
        let (copy, copies) = (&parent["copy"], &parent["copies"]);
        line(
            "parent",
            &format!("{} at generation {}, copy {copy} of {copies}", text(parent, "id"), parent["generation"]),
        );
    }
    let forks: Vec<_> = document["forks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !forks.is_empty() {
        let more = document["fork_count"].as_u64().unwrap_or(0).saturating_sub(forks.len() as u64);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        line("forks", &format!("{}{more}", Line(&forks.join(", "))));
    }
    let by = &document["started_by"];
    if by.is_object() {
        line("started by", &format!("{}, as its child {}", text(by, "id"), text(by, "child")));
    }
    for child in document["children"].as_array().into_iter().flatten() {
        let status = child["status"].as_str().unwrap_or("removed");
        let [name, workflow, id] = ["child", "workflow", "id"].map(|field| text(child, field));
        line("child", &format!("{name} ({workflow}): {id} {status}"));
    }
    for lost in document["undelivered"].as_array().into_iter().flatten() {
        let [what, to, name, at, why] = ["what", "to", "name", "at", "why"].map(|field| text(lost, field));
        line("not sent", &format!("{what} {name} to {to} at {at}: {why}"));
    }
    if document["checkpoint"].is_object() {
        line("checkpoint", &format!("{} bytes", document["checkpoint"]["bytes"]));
    }
    for wait in waits_until(&document) {
        line("waits", &wait);
    }
    for (slot, output) in document["result"].as_object().into_iter().flatten() {
        line("result", &format!("{} ({} bytes)", shown(slot), output["bytes"]));
    }
    if document["error"].is_object() {
        line("error", &text(&document["error"], "message"));
    }
    Ok(())
}

/// `fork`.
pub(super) fn fork(client: &Client, id: &InvocationId, wanted: &Value, json: bool) -> Result<Exit, Trouble> {
    let made = order(client, &path(id, "/fork"), wanted)?;
    if json {
        output::json(&made);
    }
    let mut exit = Exit::Done;
    let is_taken = |copy: &Value| copy["came"] == "taken";
    let others = others_made(made["copies"].as_array().is_some_and(|copies| !copies.iter().all(is_taken)));
    for copy in made["copies"].as_array().into_iter().flatten() {
        let id = text(copy, "id");
        if is_taken(copy) {
            output::note(format_args!("monohull: copy `{id}` is not made: that is another invocation's id{others}"));
            exit = Exit::Usage;
        } else if !json {
            output::text(format_args!("{id}: {}\n", text(copy, "status")));
        }
    }
    Ok(exit)
}

/// `checkpoints`.
pub(super) fn checkpoints(client: &Client, id: &InvocationId, json: bool) -> Result<(), Trouble> {
    let listed = client.get(&path(id, "/checkpoints"))?.json()?;
    if json {
        output::json(&listed);
        return Ok(());
    }
    let mut table = tables::checkpoints();
    for kept in listed["checkpoints"].as_array().into_iter().flatten() {
        let back = kept["rewound_to"].as_u64().map(|to| format!(" (= {to})")).unwrap_or_default();
        let label = kept["label"].as_str().map(|label| format!(" {}", Line(label))).unwrap_or_default();
        let number = format!("{}{back}{label}", kept["generation"]);
        table.add_row([
            number,
            text(kept, "at"),
            format!("{} B", kept["bytes"]),
            waits(kept).join(", "),
            goes_on(kept),
        ]);
    }
    output::text(format_args!("{}\n", table::text(&table)));
    Ok(())
}

/// `timeline`: the document.
pub(super) fn timeline(client: &Client, id: &InvocationId, limit: u64, before: Option<u64>) -> Result<Value, Trouble> {
    let before = before.map(|before| format!("&cursor={before}")).unwrap_or_default();
    Ok(client.get(&path(id, &format!("/timeline?limit={limit}{before}")))?.json()?)
}

/// `checkpoints --label`.
pub(super) fn label(client: &Client, id: &InvocationId, label: &str, json: bool) -> Result<(), Trouble> {
    let made = order(client, &path(id, "/checkpoints"), &json!({ "label": label }))?;
    if json {
        output::json(&made);
    } else {
        output::text(format_args!("{id}: checkpoint {} is {}\n", made["generation"], quoted(label)));
    }
    Ok(())
}

/// `rewind`.
pub(super) fn rewind(client: &Client, id: &InvocationId, wanted: &Value, json: bool) -> Result<(), Trouble> {
    let rewound = order(client, &path(id, "/rewind"), wanted)?;
    if json {
        output::json(&rewound);
        return Ok(());
    }
    let to = text(wanted, "to");
    let (status, generation) = (text(&rewound, "status"), &rewound["generation"]);
    // What it waits for is in its document.
    let document = client.get(&path(id, ""))?.json()?;
    output::text(format_args!("{id}: {status}, generation {generation} (= {to}), goes on {}\n", goes_on(&document)));
    Ok(())
}

/// The document of an invocation, once it has ended or goes on by hand alone; without `wait` as it is.
pub(super) fn ended(client: &Client, id: &InvocationId, wait: bool) -> Result<Value, ClientError> {
    let mut document = client.get(&path(id, ""))?.json()?;
    while wait && matches!(document["status"].as_str(), Some("pending" | "running" | "suspended")) {
        document = client.get(&path(id, "?wait=60s"))?.json()?;
    }
    Ok(document)
}

/// The status code of an answer that would have had this error.
pub(super) fn failure(document: Value) -> ClientError {
    let status = document["error_status"].as_u64().and_then(|status| StatusCode::from_u16(status as u16).ok());
    ClientError::Refused { status: status.unwrap_or(StatusCode::BAD_GATEWAY), document }
}
