//! What has started an invocation, what it has started, and what it could not send or start: for `monohull show`.

use super::super::suspend::date;
use monohull_durable::{self as durable, Child, InvocationId, Lost, MetaError, Sqlite, Status};
use monohull_report::escape::shown;
use serde_json::{Value, json};
use std::fmt;

/// The invocations around another one, to be printed.
pub(super) struct Family(durable::Family);

impl Family {
    pub(super) fn of(meta: &Sqlite, id: &InvocationId) -> Result<Family, MetaError> {
        meta.family(id).map(Family)
    }

    /// Adds it to the document of an invocation.
    pub(super) fn add_to(&self, document: &mut Value) {
        let started_by = self.0.started_by.as_ref().map(|(id, name)| json!({ "id": id.as_str(), "child": name }));
        let child = |child: &Child| {
            json!({
                "child": child.name,
                "id": child.id.as_str(),
                "workflow": child.workflow,
                "detached": child.detached,
                "status": child.status.map(Status::name),
                "joined": child.joined,
            })
        };
        let lost = |lost: &Lost| json!({ "at": date(lost.at), "what": lost.what, "to": lost.to, "name": lost.name, "why": lost.why });
        document["started_by"] = started_by.unwrap_or_default();
        document["children"] = self.0.children.iter().map(child).collect();
        document["undelivered"] = self.0.undelivered.iter().map(lost).collect();
    }
}

impl fmt::Display for Family {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((id, name)) = &self.0.started_by {
            writeln!(to, "{:<12}{id}, as its child {name}", "started by")?;
        }
        for Child { name, id, workflow, detached, status, joined } in &self.0.children {
            let status = status.map_or("removed", Status::name);
            let detached = if *detached { ", detached" } else { "" };
            let joined = if *joined { ", joined" } else { "" };
            writeln!(to, "{:<12}{name} ({workflow}): {id} {status}{detached}{joined}", "child")?;
        }
        for Lost { at, what, to: receiver, name, why } in &self.0.undelivered {
            let [receiver, name, why] = [receiver, name, why].map(shown);
            let at = date(*at);
            match *what {
                "event" => writeln!(to, "{:<12}event {name} to {receiver} at {at}: {why}", "not sent")?,
                "start" => writeln!(to, "{:<12}child {receiver} of {name} at {at}: {why}", "not started")?,
                _ => writeln!(to, "{:<12}child {receiver} at {at}: {why}", "not ended")?,
            }
        }
        Ok(())
    }
}
