//! Durable invocations leave a server as one file, and come into another: `GET …/checkpoint`, `POST /invocations`.
//!
//! The file has the invocation's row and mailbox, its checkpoint as a whole one, and all that its start names: document, images, inputs. So the other
//! server need not know its workflow. Images are checked there as registered ones are.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS};
use hyper::http::Response;
use monohull_domain::image::map::LoadedImage;
use monohull_durable::{Checkpoint, Export, ExportError, InvocationId, Kept, Meta as _, Point, Started};
use monohull_saved::{Engine, FileError, Saved};
use monohull_worker::{Bounds, Data, copy_continuation};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::endpoints::branches::done;
use crate::endpoints::durable::{full, id_of, refuse_key};
use crate::execution::checkpoints::unwritten;
use crate::http::answer::Answer;
use crate::http::content::Content;
use crate::http::error::{ApiError, Blame, json};
use crate::http::routes::Call;
use crate::invocations::ledger::{Ledger, kept as store_kept, meta_kept, now};
use crate::invocations::stored::Start;
use crate::registry::documents::plan_once_registered;
use crate::service::Watchdog;

/// The media type of an exported invocation.
const EXPORT_TYPE: &str = "application/vnd.monohull.invocation";

/// The body of an import is wrong.
fn refused(why: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(Blame::Client, format!("the invocation cannot be imported: {why}"))
}

fn of_file(error: ExportError) -> ApiError {
    match error {
        ExportError::Unwritable(_) => ApiError::host(error.to_string()),
        _ => refused(error),
    }
}

/// The images that a start names, each once.
fn images(start: &Start) -> Vec<(String, [u8; 32])> {
    let mut seen = HashSet::new();
    start.functions.iter().filter(|(_, hash)| seen.insert(*hash)).cloned().collect()
}

impl Watchdog {
    /// `GET …/checkpoint`: the invocation as one file.
    pub(crate) async fn export(self: &Arc<Self>, call: &Call) -> Result<Response<Answer>, ApiError> {
        let [at] = call.parameters(["at"])?;
        self.refuse_if_not_durable(&call.name)?;
        let id = id_of(&call.name)?;
        let at = at.map(|at| at.parse::<Point>()).transpose();
        let at = at.map_err(|why| ApiError::bad_request(format!("at: {why}")))?;
        let name = format!("attachment; filename=\"{id}.invocation\"");
        let content = self.with_ledger(move |_, ledger| ledger.export(&id, at.as_ref())).await?;
        let response = Response::builder()
            .header(CONTENT_TYPE, EXPORT_TYPE)
            .header(X_CONTENT_TYPE_OPTIONS, "nosniff")
            .header(CONTENT_DISPOSITION, HeaderValue::try_from(name).unwrap_or(HeaderValue::from_static("attachment")));
        Ok(response.body(Answer::from(content)).expect("the headers are constants"))
    }

    /// `POST /invocations`: an invocation that was exported goes on here.
    pub(crate) async fn import(self: &Arc<Self>, call: Call) -> Result<Response<Answer>, ApiError> {
        let [id, paused] = call.parameters(["id", "paused"])?;
        let id = id.map(|id| id.parse::<InvocationId>()).transpose();
        let id = id.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let paused = match paused.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(ApiError::bad_request("paused is true or false")),
        };
        refuse_key(call.request.headers(), "one with the same id is imported once, and the next time is 409")?;
        self.refuse_if_draining()?;
        let received = self.body_of(call, self.settings.body).await?;
        let most = self.settings.durable;
        let (id, generation) = self
            .with_ledger(move |_, ledger| {
                let bytes = received.content.read().map_err(|error| ApiError::host(error.to_string()))?;
                let export = ledger.opened(&bytes).map_err(of_file)?;
                let id = match id {
                    Some(id) => id,
                    None => export.invocation.id.parse().map_err(refused)?,
                };
                let generation = ledger.import(&id, export, paused, most)?;
                ledger.changed(&id);
                Ok((id, generation))
            })
            .await?;
        let location = format!("/invocations/{id}");
        let status = if paused { "paused" } else { "suspended" };
        let document = json!({ "id": id.as_str(), "location": location, "status": status, "generation": generation });
        Ok(json(Response::builder().status(StatusCode::CREATED).header(LOCATION, location), &document))
    }
}

impl Ledger {
    fn export(&self, id: &InvocationId, at: Option<&Point>) -> Result<Content, ApiError> {
        // No file goes meanwhile.
        let _adding = self.adding()?;
        let kept = self.branch(id, at, "exported")?;
        let children = self.reader().children(id).map_err(meta_kept)?;
        if children.iter().any(|child| !child.joined && !child.detached) {
            let message =
                format!("the invocation {id} has children that it has not joined, and they would stay behind");
            return Err(ApiError::conflict(message));
        }
        let invocation = self.reader().export(id, Some(kept.generation)).map_err(meta_kept)?;
        let invocation = *done(invocation, id, kept.generation, "exported")?;
        let start = Start::decode(&invocation.start).ok_or_else(|| ApiError::host("its start cannot be read"))?;
        let lost = |what: &str, error: io::Error| ApiError::host(format!("{what} cannot be read: {error}"));
        let document = self.read(&start.document).map_err(|error| lost("its document", error))?;
        let plan = plan_once_registered(start.head.workflow(), &document).map_err(ApiError::conflict)?;
        let has_secrets = plan.steps.iter().any(|step| !step.secrets.is_empty());
        if has_secrets && self.store().key().is_none() {
            // What an operator grants to functions alone is in no answer, and may be in their memory.
            let message = format!(
                "the invocation {id} has secrets of this server, and would have them in the file: only one of an encrypted state folder is exported"
            );
            return Err(ApiError::conflict(message));
        }
        let path = self.checkpoint(&kept.checkpoint.file).map_err(store_kept)?;
        let of_checkpoint = |document: &[u8], _: &Engine| plan_once_registered(start.head.workflow(), document);
        let unread = |error: FileError| ApiError::host(error.to_string());
        let saved = Saved::read(&path, self.keys(), of_checkpoint).map_err(unread)?;
        let saved = saved.with(|memory| copy_continuation(&memory, Bounds::of(&plan)));
        let saved = saved.map_err(|error| lost("its memory", error))?;
        let checkpoint = saved.to_bytes(&path, self.keys()).map_err(unread)?;
        let mut files = vec![document];
        for (name, hash) in images(&start) {
            files.push(self.read(&hash).map_err(|error| lost(&format!("the image of {name}"), error))?);
        }
        for (slot, hash) in &start.inputs {
            let mut bytes = Vec::new();
            let read = self.store().open_whole_data(hash).and_then(|mut file| file.read_to_end(&mut bytes));
            read.map_err(|error| lost(&format!("input slot {slot}"), error))?;
            files.push(bytes);
        }
        let export = Export { invocation, checkpoint, files };
        let bytes = export.to_bytes(self.keys().seal).and_then(|bytes| self.closed(bytes)).map_err(of_file)?;
        Ok(Content::Small(bytes.into()))
    }

    fn import(&self, id: &InvocationId, export: Export, paused: bool, most: u64) -> Result<u64, ApiError> {
        let Export { mut invocation, checkpoint, files } = export;
        let mut start = Start::decode(&invocation.start).ok_or_else(|| refused(ExportError::Other))?;
        let images = images(&start);
        if files.len() != 1 + images.len() + start.inputs.len() {
            return Err(refused(ExportError::Other));
        }
        let (document, others) = files.split_first().ok_or_else(|| refused(ExportError::Other))?;
        let (of_images, of_inputs) = others.split_at(images.len());
        let plan = plan_once_registered(start.head.workflow(), document).map_err(refused)?;
        let folder = self.store().checkpoints();
        let plan_of = |document: &[u8], _: &Engine| plan_once_registered(start.head.workflow(), document);
        let saved = Saved::from_bytes(checkpoint, &folder.join("imported"), self.keys().seal, plan_of);
        let saved = saved.map_err(|error| match error.is_hosts() {
            true => ApiError::host(error.to_string()),
            false => refused(error),
        })?;
        if !saved.functions.iter().map(|(_, hash, _)| hash).eq(start.functions.iter().map(|(_, hash)| hash)) {
            return Err(refused("its checkpoint is one of other images"));
        }
        for ((name, hash), bytes) in images.iter().zip(of_images) {
            // The bytes that are checked are those that are kept.
            let image = LoadedImage::new(name, bytes).map_err(refused)?;
            if image.hash().map_err(|error| ApiError::host(error.to_string()))? != *hash {
                return Err(refused(format!("the image of {name} is another one")));
            }
        }
        if Sha256::digest(document)[..] != start.document {
            return Err(refused("its document is another one"));
        }
        let taken = || ApiError::conflict(format!("the id {id} is another invocation's: /invocations/{id}"));
        let adding = self.adding()?;
        if self.meta().get(id).map_err(meta_kept)?.is_some() {
            return Err(taken());
        }
        if !self.has_room(1, most)? {
            return Err(full(most));
        }
        start.document = self.add_bytes(&adding, document)?;
        for bytes in of_images {
            self.add_bytes(&adding, bytes)?;
        }
        for ((_, hash), bytes) in start.inputs.iter_mut().zip(of_inputs) {
            *hash = self.add_data(&adding, &Data::Bytes(bytes.clone()))?;
        }
        let lost = |error: io::Error| ApiError::host(format!("its memory cannot be copied: {error}"));
        let saved = saved.with(|memory| copy_continuation(&memory, Bounds::of(&plan))).map_err(lost)?;
        let name = self.new_name(&folder, id, 0);
        let written = saved.write(&folder, &name, self.keys(), None).map_err(unwritten)?;
        let file = written.base.file().to_owned();
        invocation.kept = Kept { checkpoint: Checkpoint { file, bytes: written.bytes }, ..invocation.kept };
        let imported = self.meta().import(id, &invocation, &start.encode()?, paused, now()).map_err(meta_kept);
        match imported {
            Ok(Started::New) => Ok(invocation.kept.generation),
            other => {
                // One that stays is removed by the next sweep.
                let _ = fs::remove_file(&written.path);
                other.and(Err(taken()))
            }
        }
    }
}
