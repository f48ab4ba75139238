//! `/workflows/NAME/versions`: the code that invocations are pinned to.
//!
//! A version is a document with the images of its functions, all by their hashes. An invocation goes on in the version that it was started
//! in, whatever is registered since; its files are kept until no invocation needs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::http::Response;
use monohull_durable::{MetaError, Status, StoreError};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::endpoints::known::date;
use crate::http::answer::Answer;
use crate::http::error::{ApiError, json};
use crate::http::routes::Call;
use crate::ids::hex;
use crate::invocations::ledger::{Ledger, Start, kept};
use crate::registry::Registry;
use crate::service::Watchdog;

/// The code of an invocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Version {
    document: [u8; 32],
    /// The workflow's functions, and the hash of each one's image.
    functions: Vec<(String, [u8; 32])>,
}

/// Who is in a version.
#[derive(Default)]
struct Members {
    by_status: [u64; Status::ALL.len()],
    /// When the first of them was started.
    oldest: Option<u64>,
}

impl Version {
    pub(crate) fn of(start: &Start) -> Version {
        Version { document: start.document, functions: start.functions.clone() }
    }

    /// The one in which invocations begin now, if they can.
    fn registered(registry: &Registry, name: &str) -> Option<Version> {
        let workflow = registry.workflow(name).ok()?;
        let ready = workflow.ready().ok()?;
        let hashes = ready.images().iter().map(|image| image.hash());
        let functions = ready.plan().functions.iter().zip(hashes).map(|(function, hash)| (function.name.clone(), hash));
        Some(Version { document: Sha256::digest(&workflow.document).into(), functions: functions.collect() })
    }

    /// Its name: a hash of all that it has.
    pub(crate) fn name(&self) -> String {
        let mut hash = Sha256::new_with_prefix(self.document);
        for (name, image) in &self.functions {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update(image);
        }
        hex(&hash.finalize()[..8])
    }

    fn shown(&self, is_current: bool, members: &Members) -> Value {
        let counted = Status::ALL.into_iter().zip(members.by_status).filter(|(status, _)| !status.is_end());
        let by_status: Map<String, Value> =
            counted.map(|(status, count)| (status.name().to_owned(), count.into())).collect();
        let function = |(name, hash): &(String, [u8; 32])| json!({ "name": name, "image": sha256(hash) });
        json!({
            "version": self.name(),
            "current": is_current,
            "document": sha256(&self.document),
            "functions": self.functions.iter().map(function).collect::<Vec<_>>(),
            "living": members.by_status.iter().sum::<u64>(),
            "invocations": by_status,
            "oldest": members.oldest.map(date),
        })
    }
}

fn sha256(hash: &[u8; 32]) -> String {
    format!("sha256:{}", hex(hash))
}

impl Ledger {
    /// The versions of a workflow that invocations which have not ended are in.
    fn versions(&self, workflow: &str) -> Result<BTreeMap<Version, Members>, StoreError> {
        // With a connection of its own: many rows may be read, and others go on meanwhile.
        let meta = self.store().meta()?;
        let mut versions = BTreeMap::<Version, Members>::new();
        meta.each_living(workflow, |status, started, start| {
            let start = Start::decode(start).ok_or(MetaError::Damaged { id: workflow.to_owned(), what: "start" })?;
            let members = versions.entry(Version::of(&start)).or_default();
            members.by_status[status as usize] += 1;
            members.oldest = Some(members.oldest.map_or(started, |oldest| oldest.min(started)));
            Ok(())
        })?;
        Ok(versions)
    }
}

impl Watchdog {
    /// `GET /workflows/NAME/versions`.
    pub(crate) async fn list_versions(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [] = call.parameters([])?;
        let name = call.name.clone();
        let document = self.with_ledger(move |watchdog, ledger| {
            let registered = watchdog.registry.workflow(&name);
            let current = Version::registered(&watchdog.registry, &name);
            let mut versions = ledger.versions(&name).map_err(kept)?;
            if versions.is_empty() {
                // Those that are gone are known as long as an invocation is in one.
                registered.as_ref().map_err(ApiError::clone)?;
            }
            if let Some(current) = &current {
                versions.entry(current.clone()).or_default();
            }
            let mut shown: Vec<_> = versions.iter().collect();
            shown.sort_by_key(|(version, members)| {
                (current.as_ref() != Some(*version), std::cmp::Reverse(members.oldest))
            });
            let is_current = |version: &Version| current.as_ref() == Some(version);
            let older: u64 = versions
                .iter()
                .filter(|(version, _)| !is_current(version))
                .map(|(_, members)| members.by_status.iter().sum::<u64>())
                .sum();
            let versions: Vec<_> =
                shown.into_iter().map(|(version, members)| version.shown(is_current(version), members)).collect();
            Ok(json!({ "workflow": name, "registered": registered.is_ok(), "older": older, "versions": versions }))
        });
        Ok(json(Response::builder(), &document.await?))
    }
}
