//! `/workflows/NAME/migrate`: invocations of older versions are moved to the registered one.

use std::sync::Arc;

use hyper::http::Response;
use monohull_durable::{InvocationId, Meta};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::endpoints::durable::{id_of, in_vain, refuse_key};
use crate::endpoints::known::unknown;
use crate::endpoints::versions::{Version, version_name};
use crate::execution::migrate::{Moved, Target};
use crate::http::answer::Answer;
use crate::http::error::{ApiError, json};
use crate::http::routes::Call;
use crate::invocations::ledger::{Ledger, kept, meta_kept};
use crate::invocations::stored::Start;
use crate::service::Watchdog;

/// Invocations of one request, unless it says otherwise, and the most there can be. Each is run to its first wait meanwhile.
const MOVED: usize = 10;
const MOVED_MAX: usize = 100;

/// The body of a request.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MigrateOrder {
    /// Only this invocation.
    id: Option<String>,
    /// Only those of this version.
    from: Option<String>,
    /// They are tried, and stay where they are.
    dry_run: bool,
    /// So many.
    limit: Option<usize>,
    /// Those of the next page: `next_cursor` of the one before.
    cursor: Option<String>,
}

impl Watchdog {
    /// `POST /workflows/NAME/migrate`.
    pub(crate) async fn migrate(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        refuse_key(call.request.headers(), "one that names its invocation (`id`) moves it once")?;
        self.refuse_if_draining()?;
        let name = call.name.clone();
        let order: MigrateOrder = self.order(call).await?;
        let limit = order.limit.unwrap_or(MOVED);
        if !(1..=MOVED_MAX).contains(&limit) {
            return Err(ApiError::bad_request(format!("limit is a number from 1 to {MOVED_MAX}")));
        }
        let from = order.from.map(version_name).transpose()?;
        let workflow = self.registry.workflow(&name)?;
        let (ready, document) = (workflow.ready()?, workflow.document.clone());
        // An image may have to be hashed, which takes seconds for a large one.
        let (of_document, of_ready) = (document.clone(), ready.clone());
        let version = self.blocking(move |_| Version::of_parts(&of_document, &of_ready)).await?;
        let target = Arc::new(Target { version: version.clone(), document, ready });
        let (of_name, id, cursor) = (name.clone(), order.id.as_deref().map(id_of).transpose()?, order.cursor);
        let of_version = version.clone();
        let watchdog = self.clone();
        let mut ids = self
            .blocking(move |_| match id {
                Some(id) => watchdog.ledger.one_of(&of_name, id),
                None => watchdog.ledger.others(&of_name, (&of_version, from.as_deref()), cursor.as_deref(), limit + 1),
            })
            .await?;
        let next = (ids.len() > limit).then(|| ids[limit - 1].to_string());
        ids.truncate(limit);
        let mut results = Vec::new();
        for id in ids {
            let (watchdog, target, guard) = (self.clone(), target.clone(), self.work.track());
            let (moved, is_trial) = (id.clone(), order.dry_run);
            // It is not left half done if the client goes away.
            let moved = tokio::spawn(async move {
                let _guard = guard;
                watchdog.move_to(&target, moved, is_trial).await
            });
            let moved = moved.await.map_err(|error| ApiError::monohull(error.to_string()))??;
            results.push(shown(&id, moved));
        }
        let document = json!({ "workflow": name, "version": version.name(), "dry_run": order.dry_run, "results": results, "next_cursor": next });
        Ok(json(Response::builder(), &document))
    }
}

fn shown(id: &InvocationId, moved: Moved) -> Value {
    let (came, reason) = match moved {
        Moved::Yes => ("migrated", None),
        Moved::Could => ("possible", None),
        Moved::Already => ("same", None),
        Moved::No(reason) => ("failed", Some(reason)),
    };
    json!({ "id": id.as_str(), "came": came, "reason": reason })
}

impl Ledger {
    /// An invocation of a workflow that has not ended.
    fn one_of(&self, workflow: &str, id: InvocationId) -> Result<Vec<InvocationId>, ApiError> {
        let row =
            self.meta().get(&id).map_err(meta_kept)?.filter(|row| row.workflow == workflow).ok_or_else(unknown)?;
        if row.status.is_end() {
            return Err(in_vain(&id, row.status, "migrated: an invocation that has failed can be taken back first"));
        }
        Ok(vec![id])
    }

    /// The first invocations of a workflow behind a name, by name, that have not ended and are in other versions than this, or in that version.
    fn others(
        &self,
        workflow: &str,
        (version, from): (&Version, Option<&str>),
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<InvocationId>, ApiError> {
        // With a connection of its own: many rows may be read, and others go on meanwhile.
        let meta = self.store().meta().map_err(kept)?;
        let mut found = Vec::new();
        let look = |id: &InvocationId, member: monohull_durable::Member<'_>| {
            // One that cannot be read is paused when it is to go on.
            if let Some(start) = Start::decode(member.start) {
                let of = Version::of(&start);
                if of != *version && from.is_none_or(|from| of.name() == from) {
                    found.push(id.clone());
                }
            }
            Ok(found.len() < most)
        };
        meta.living_members(workflow, after.unwrap_or_default(), look).map_err(meta_kept)?;
        Ok(found)
    }
}
