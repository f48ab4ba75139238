//! An invocation as JSON: a line of a list, and its whole document.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::http::content::{Content, SMALL};
use crate::invocations::invocation::Invocation;
use crate::invocations::record::End;

/// An invocation's document. Its report, which may be long, is serialized in place.
pub(crate) struct Shown {
    rest: Map<String, Value>,
    end: Option<Arc<End>>,
}

impl Shown {
    /// With more fields.
    pub(crate) fn with(mut self, more: Map<String, Value>) -> Shown {
        self.rest.extend(more);
        self
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (name, value) in &self.rest {
            map.serialize_entry(name, value)?;
        }
        if let Some(end) = &self.end {
            map.serialize_entry("report", &end.report)?;
        }
        map.end()
    }
}

impl Invocation {
    /// A line of a list.
    pub(crate) fn summary(&self) -> Map<String, Value> {
        let inner = self.lock();
        let mut shown = Map::new();
        let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        put("id", json!(self.id));
        put("call_id", json!(self.call_id));
        put("workflow", json!(self.workflow));
        put("mode", json!(self.mode));
        put("status", json!(inner.status));
        put("accepted_ms", json!(self.accepted_ms));
        put("traceparent", json!(self.trace.to_string()));
        put("durable", json!(self.is_durable()));
        if let Some(end) = inner.end.as_ref().filter(|end| end.status.is_final()) {
            put("duration_us", json!(end.duration_us));
            if let Err(refusal) = &end.result {
                put("http_status", json!(refusal.status.as_u16()));
                put("error_kind", json!(refusal.error.kind));
            }
        }
        shown
    }

    /// The whole document, to be written as JSON.
    pub(crate) fn show(&self) -> Shown {
        let mut shown = self.summary();
        shown.insert("points".to_owned(), json!(self.points()));
        let inner = self.lock();
        shown.insert("lines".to_owned(), json!(inner.lines.kept().len()));
        shown.insert("lines_dropped".to_owned(), json!(inner.lines.dropped()));
        let end = inner.end.clone().filter(|end| end.status.is_final());
        drop(inner);
        let Some(end) = end else { return Shown { rest: shown, end: None } };
        match &end.result {
            Ok(outputs) => {
                let stored = end.stored.iter().map(|(name, bytes)| (name.clone(), self.show_stored(name, *bytes)));
                let slots = outputs.iter().map(|(name, content)| (name.clone(), self.show_output(name, content)));
                shown.insert("result".to_owned(), slots.chain(stored).collect());
            }
            Err(refusal) => {
                // The report stands beside the error here.
                shown.insert("error".to_owned(), json!(refusal.error));
                shown.insert("error_status".to_owned(), json!(refusal.status.as_u16()));
            }
        }
        Shown { rest: shown, end: Some(end) }
    }

    /// An output of so many bytes by its address.
    fn show_stored(&self, name: &str, bytes: u64) -> Value {
        let path = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        let href = format!("/invocations/{}/outputs/{path}", self.id);
        json!({ "bytes": bytes, "content_type": self.content_type(name), "href": href })
    }

    /// A small output as it is, a large one by its address.
    fn show_output(&self, name: &str, content: &Content) -> Value {
        let mut shown = self.show_stored(name, content.len());
        if let Content::Small(bytes) = content
            && content.len() <= SMALL
        {
            match std::str::from_utf8(bytes) {
                Ok(text) => shown["text"] = text.into(),
                Err(_) => shown["base64"] = BASE64.encode(bytes).into(),
            }
        }
        shown
    }

    /// What an output slot's bytes are.
    pub(crate) fn content_type(&self, slot: &str) -> &str {
        let typed = self.content_types.iter().find(|(name, _)| name == slot);
        typed.map_or("application/octet-stream", |(_, content_type)| content_type)
    }
}
