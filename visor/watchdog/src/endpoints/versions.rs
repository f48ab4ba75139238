//! `/workflows/NAME/versions`: the code that invocations are pinned to.
//!
//! A version is a document with the images of its functions, all by their hashes. An invocation goes on in the version that it was started
//! in, whatever is registered since; its files are kept until no invocation needs them. The list of invocations has those of a version.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::http::Response;
use monohull_durable::{InvocationId, Member, Status, StoreError};
use monohull_engine::Ready;
use monohull_report::text::quoted;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::endpoints::known::date;
use crate::execution::basis::functions_of;
use crate::http::answer::Answer;
use crate::http::error::{ApiError, json};
use crate::http::routes::Call;
use crate::ids::hex;
use crate::invocations::ledger::{Ledger, kept, meta_kept, now};
use crate::invocations::stored::Start;
use crate::registry::Registry;
use crate::service::Watchdog;

/// Versions in a list unless the request says otherwise, and the most there can be.
const LISTED: usize = 100;
const LISTED_MAX: usize = 1000;

/// The code of an invocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Version {
    document: [u8; 32],
    /// The workflow's functions, and the hash of each one's image.
    functions: Vec<(String, [u8; 32])>,
}

/// The invocations in a version.
#[derive(Default)]
struct Members {
    by_status: [u64; Status::ALL.len()],
    /// When the first of those that have not ended was started.
    oldest: Option<u64>,
    /// When the first of those that wait goes on by itself.
    due: Option<u64>,
    /// When the version was registered, if that is known.
    deployed: Option<u64>,
}

impl Members {
    fn add(&mut self, member: &Member<'_>) {
        let Member { status, started, due, .. } = *member;
        self.by_status[status as usize] += 1;
        if status.is_end() {
            return;
        }
        let first = |known: Option<u64>, new: u64| Some(known.map_or(new, |known| known.min(new)));
        self.oldest = first(self.oldest, started);
        if let Some(due) = due.filter(|_| status.is_waiting()) {
            self.due = first(self.due, due);
        }
    }

    /// How many have not ended.
    fn living(&self) -> u64 {
        let counted = Status::ALL.into_iter().zip(self.by_status).filter(|(status, _)| !status.is_end());
        counted.map(|(_, count)| count).sum()
    }
}

/// Where an older version is in the list: the last registered first, and those of which that is not known at the end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place(Reverse<u64>, String);

impl Place {
    /// Before all others.
    fn first() -> Place {
        Place(Reverse(u64::MAX), String::new())
    }

    fn cursor(&self) -> String {
        format!("{}-{}", self.0.0, self.1)
    }

    fn parse(cursor: &str) -> Result<Place, ApiError> {
        let parts = cursor.split_once('-').and_then(|(at, name)| Some((at.parse().ok()?, name)));
        let (at, name) = parts.ok_or_else(|| ApiError::bad_request("cursor is the `next_cursor` of another list"))?;
        Ok(Place(Reverse(at), name.to_owned()))
    }
}

impl Version {
    pub(crate) fn of(start: &Start) -> Version {
        Version { document: start.document, functions: start.functions.clone() }
    }

    /// The one in which invocations begin now, if they can.
    fn registered(registry: &Registry, name: &str) -> Option<Version> {
        let workflow = registry.workflow(name).ok()?;
        Version::of_parts(&workflow.document, &*workflow.ready().ok()?).ok()
    }

    /// That of a document with its images.
    pub(crate) fn of_parts(document: &[u8], ready: &Ready) -> Result<Version, ApiError> {
        Ok(Version { document: Sha256::digest(document).into(), functions: functions_of(ready)? })
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
            "deployed": members.deployed.map(date),
            "document": sha256(&self.document),
            "functions": self.functions.iter().map(function).collect::<Vec<_>>(),
            "living": members.living(),
            "invocations": by_status,
            "failed": members.by_status[Status::Failed as usize],
            "oldest": members.oldest.map(date),
            "due": members.due.map(date),
        })
    }
}

fn sha256(hash: &[u8; 32]) -> String {
    format!("sha256:{}", hex(hash))
}

/// The name of a version in a parameter.
pub(crate) fn version_name(text: String) -> Result<String, ApiError> {
    let is_name = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match is_name {
        true => Ok(text),
        false => {
            Err(ApiError::bad_request(format!("{} is not the name of a version: 16 digits of 0-9a-f", quoted(&text))))
        }
    }
}

impl Ledger {
    /// The versions of a workflow that are needed: invocations are in them which have not ended, or can be taken back.
    fn versions(&self, workflow: &str) -> Result<BTreeMap<Version, Members>, StoreError> {
        // With a connection of its own: many rows may be read, and others go on meanwhile.
        let meta = self.store().meta()?;
        let mut versions = BTreeMap::<Version, Members>::new();
        meta.each_member(workflow, |_: &InvocationId, member| {
            // One that cannot be read is named in lists.
            let Some(start) = Start::decode(member.start) else { return Ok(()) };
            versions.entry(Version::of(&start)).or_default().add(&member);
            Ok(())
        })?;
        Ok(versions)
    }
}

impl Watchdog {
    /// Keeps that these workflows have the versions that they have now. Without it their times are not known, which stops nothing.
    pub(crate) fn note_versions<'n>(&self, workflows: impl IntoIterator<Item = &'n str>) {
        for workflow in workflows {
            let Some(version) = Version::registered(&self.registry, workflow) else { continue };
            if let Err(error) = self.ledger.meta().registered(workflow, &version.name(), now()) {
                tracing::warn!(workflow, %error, "when a version was registered is not kept");
            }
        }
    }

    /// `GET /workflows/NAME/versions`.
    pub(crate) async fn list_versions(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [limit, cursor] = call.parameters(["limit", "cursor"])?;
        let limit = match limit {
            None => LISTED,
            Some(text) => {
                let limit = text.parse().ok().filter(|limit| (1..=LISTED_MAX).contains(limit));
                limit.ok_or_else(|| ApiError::bad_request(format!("limit is a number from 1 to {LISTED_MAX}")))?
            }
        };
        let after = cursor.as_deref().map(Place::parse).transpose()?;
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
            let times = ledger.meta().registrations(&name).map_err(meta_kept)?;
            let mut shown = Vec::new();
            let (mut older, mut of_older) = (0, 0);
            for (version, mut members) in versions {
                let named = version.name();
                members.deployed = times.iter().find(|(name, _)| *name == named).map(|(_, at)| *at);
                let place = Place(Reverse(members.deployed.unwrap_or(0)), named);
                let is_current = current.as_ref() == Some(&version);
                if !is_current {
                    older += members.living();
                    of_older += 1;
                }
                // The registered one is the first, and on the first page alone.
                let is_behind = after.as_ref().is_none_or(|after| !is_current && place > *after);
                if is_behind {
                    shown.push((!is_current, place, version, members));
                }
            }
            shown.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
            let is_whole = shown.len() <= limit;
            shown.truncate(limit);
            let last = shown.last().filter(|_| !is_whole);
            // Behind the registered one are all others.
            let next =
                last.map(|(is_older, place, ..)| if *is_older { place.cursor() } else { Place::first().cursor() });
            let listed: Vec<_> =
                shown.iter().map(|(is_older, _, version, members)| version.shown(!is_older, members)).collect();
            Ok(json!({
                "workflow": name,
                "registered": registered.is_ok(),
                "older": older,
                "older_versions": of_older,
                "versions": listed,
                "next_cursor": next,
            }))
        });
        Ok(json(Response::builder(), &document.await?))
    }
}
