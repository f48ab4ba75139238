//! `/invocations/ID/timeline`: what has happened to a durable invocation across its suspensions.

use std::sync::Arc;

use hyper::http::Response;
use monohull_durable::{ENTRIES_KEPT, InvocationId, Meta as _, Sqlite, timeline_document};
use serde_json::Value;

use crate::endpoints::durable::id_of;
use crate::endpoints::known::{date, unknown};
use crate::http::answer::Answer;
use crate::http::error::{ApiError, json};
use crate::http::routes::Call;
use crate::invocations::ledger::{Ledger, meta_kept};
use crate::invocations::redact::Redactor;
use crate::service::Watchdog;

/// Entries of a page unless the request says otherwise.
const LISTED: u64 = 100;

impl Watchdog {
    /// `GET …/timeline`: the newest entries, or those before the ones of another page.
    pub(crate) async fn show_timeline(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [limit, cursor] = call.parameters(["limit", "cursor"])?;
        let limit = match limit {
            None => LISTED,
            Some(text) => {
                let limit = text.parse().ok().filter(|limit| (1..=ENTRIES_KEPT).contains(limit));
                limit.ok_or_else(|| ApiError::bad_request(format!("limit is a number from 1 to {ENTRIES_KEPT}")))?
            }
        };
        let before = match cursor {
            None => u64::MAX,
            Some(text) => {
                text.parse().map_err(|_| ApiError::bad_request("cursor is the `next_cursor` of another page"))?
            }
        };
        self.refuse_if_not_durable(&call.name)?;
        let id = id_of(&call.name)?;
        let redactor = self.secrets.redactor();
        let document = self.with_ledger(move |_, ledger| ledger.timeline(&id, before, limit, &redactor)).await?;
        Ok(json(Response::builder(), &document))
    }
}

impl Ledger {
    fn timeline(&self, id: &InvocationId, before: u64, limit: u64, redactor: &Redactor) -> Result<Value, ApiError> {
        let all = |meta: &Sqlite| {
            let Some(row) = meta.get(id)? else { return Ok(None) };
            let entries = meta.timeline(id, before, limit as usize)?;
            Ok(Some((row, entries)))
        };
        let (row, entries) = self.reader().at_one_time(all).map_err(meta_kept)?.ok_or_else(unknown)?;
        Ok(timeline_document(&row, &entries, date, |text| redactor.text(text.to_owned())))
    }
}
