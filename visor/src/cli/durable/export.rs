//! `monohull export` and `import`: an invocation leaves a state folder or a server as one file, and comes into another.

use super::super::client::{Client, ClientError};
use super::super::exit::Exit;
use super::super::setting::saved_plan;
use super::super::slots::file;
use super::super::{checkpoint, concat_help, output};
use super::fork::{done, find};
use super::started_with::Start;
use super::{Place, Trouble, Where, key_file, now, remote};
use clap::Args;
use monohull_checkpoint::{NewFile, Replace};
use monohull_domain::image::map::LoadedImage;
use monohull_durable::{Checkpoint, Export as Exported, InvocationId, Kept, Meta, Point, Started, Store, is_export};

use monohull_host_files::input;
use monohull_saved::{Engine, Keys, Saved};
use monohull_worker::{Bounds, copy_continuation};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Write a durable invocation that waits, is paused or has failed to a file, with its checkpoint and its mailbox
///
/// The invocation itself stays as it is: pause it before, and cancel it once it goes on elsewhere. Its memory is in the file, with whatever it has. From an
/// encrypted state folder it is encrypted with the same key.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull export order-17 --to order-17.invocation --state sleepers"))]
pub(in super::super) struct Export {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    place: Where,
    /// The new file
    #[arg(long, value_name = "FILE", value_parser = file())]
    to: PathBuf,
    /// From this checkpoint, or the last one with this label; without it the newest
    #[arg(long, value_name = "GENERATION")]
    at: Option<Point>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Take a durable invocation from a file that `export` has written
///
/// A state folder that is not there is made.
/// The file is one that the same user, or a server with the same `checkpoint.key`, has written. An id that is another invocation's is refused.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull import order-17.invocation --state others", "monohull import order-17.invocation --paused --server https://host.example"))]
pub(in super::super) struct Import {
    /// The file
    #[arg(value_parser = file())]
    file: PathBuf,
    #[command(flatten)]
    place: Where,
    /// The id that it has from now on, if not its own
    #[arg(long)]
    id: Option<InvocationId>,
    /// It goes on only after `monohull resume`
    #[arg(long)]
    paused: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Export {
    pub(in super::super) fn run(&self) -> Exit {
        match self.place.open().and_then(|place| self.export(&place)) {
            Ok(bytes) => {
                if self.json {
                    let file = self.to.to_string_lossy();
                    output::json(&json!({ "id": self.id.as_str(), "file": file, "bytes": bytes }));
                } else {
                    output::text(format_args!("{}: exported, {bytes} bytes\n", self.id));
                }
                Exit::Done
            }
            Err(trouble) => self.place.at(trouble).report(self.json),
        }
    }

    /// How many bytes were written.
    fn export(&self, place: &Place) -> Result<u64, Trouble> {
        let bytes = match place {
            Place::Folder(store) => self.of_folder(store)?,
            Place::Server(client) => {
                let at = self.at.as_ref().map(|at| match at {
                    Point::Generation(generation) => generation.to_string(),
                    Point::Label(label) => label.clone(),
                });
                let query = at.map(|at| format!("?at={}", remote::encoded(&at))).unwrap_or_default();
                let answer = client.get(&remote::path(&self.id, &format!("/checkpoint{query}")))?.body;
                if !is_export(&answer) {
                    return Err(ClientError::Answer("it is no exported invocation".to_owned()).into());
                }
                answer
            }
        };
        let unwritable = |source| Trouble::Unwritable { path: self.to.clone(), source };
        let new = NewFile::beside(&self.to).map_err(unwritable)?;
        new.file().write_all(&bytes).map_err(unwritable)?;
        new.publish(Replace::No).map_err(unwritable)?;
        Ok(bytes.len() as u64)
    }

    fn of_folder(&self, store: &Store) -> Result<Vec<u8>, Trouble> {
        let refused = |why: String| Trouble::NotExported { id: self.id.clone(), why };
        // One that leaves an encrypted folder is encrypted with its key file.
        let key_file = key_file(self.place.state_key.as_deref())?;
        let mut meta = store.meta()?;
        store.expire_the_dead(&mut meta)?;
        // No file goes meanwhile.
        let _adding = store.adding()?;
        let (_, kept) = find(store, &meta, &self.id, self.at.as_ref(), "exported")?;
        if meta.children(&self.id)?.iter().any(|child| !child.joined && !child.detached) {
            return Err(refused("it has children that it has not joined, and they would stay behind".to_owned()));
        }
        let invocation = *done(meta.export(&self.id, Some(kept.generation))?, &self.id, kept.generation, "exported")?;
        let seal = checkpoint::own_key()?;
        let path = store.checkpoints().join(&kept.checkpoint.file);
        let mut plan = None;
        let planned =
            |document: &[u8], engine: &Engine| saved_plan(document, engine).inspect(|it| plan = Some(it.clone()));
        let keys = Keys { seal: &seal, state: store.key().map(|key| &**key) };
        let saved = Saved::read(&path, keys, planned).map_err(Box::new)?;
        let bounds = plan.map(|plan| Bounds::of(&plan)).ok_or_else(|| refused("it has no plan".to_owned()))?;
        let lost = |what: &str| Trouble::unreadable(what.to_owned(), &path);
        let saved = saved.with(|memory| copy_continuation(&memory, bounds)).map_err(lost("its memory"))?;
        let checkpoint = saved.to_bytes(&path, keys).map_err(Box::new)?;
        let code = Start::decode(&invocation.start).map(|start| start.code()).unwrap_or_default();
        let files = Start::files(&invocation.start).into_iter().map(|hash| {
            let mut bytes = Vec::new();
            let read = match code.contains(&hash) {
                true => store.read_code(&hash).map(|code| bytes = code),
                false => store.open_whole_data(&hash).and_then(|mut file| file.read_to_end(&mut bytes)).map(drop),
            };
            read.map(|()| bytes).map_err(Trouble::unreadable("its file", &store.file(&hash)))
        });
        let export = Exported { invocation, checkpoint, files: files.collect::<Result<_, _>>()? };
        let bytes = export.to_bytes(&seal);
        let bytes = bytes.and_then(|bytes| match &key_file {
            Some(key) => Exported::encrypt(&bytes, key),
            None => Ok(bytes),
        });
        bytes.map_err(|error| refused(error.to_string()))
    }
}

impl Import {
    pub(in super::super) fn run(&self) -> Exit {
        match self.import() {
            Ok((id, status)) => {
                if self.json {
                    output::json(&json!({ "id": id, "status": status }));
                } else {
                    output::text(format_args!("{id}: {status}\n"));
                }
                Exit::Done
            }
            Err(trouble) => self.place.at(trouble).report(self.json),
        }
    }

    /// Its id, and what it is.
    fn import(&self) -> Result<(String, String), Trouble> {
        let unreadable = |error: input::InputError| Trouble::unreadable("the file", &self.file)(error.into());
        let bytes = input::read(&self.file, input::FILE_MAX).map_err(unreadable)?;
        match &self.place.folder {
            Some(folder) => {
                let id = self.take_into(folder, &bytes)?;
                Ok((id.to_string(), if self.paused { "paused" } else { "suspended" }.to_owned()))
            }
            None => {
                let client = Client::new(&self.place.server)?;
                let id = self.id.as_ref().map(|id| format!("&id={id}")).unwrap_or_default();
                let path = format!("/invocations?paused={}{id}", self.paused);
                let came = client.post_once(&path, None, bytes)?.json()?;
                let text = |field: &str| came[field].as_str().unwrap_or_default().to_owned();
                Ok((text("id"), text("status")))
            }
        }
    }

    /// A folder that is not there is made, once the file has turned out to be sound.
    fn take_into(&self, folder: &Path, bytes: &[u8]) -> Result<InvocationId, Trouble> {
        let key_file = key_file(self.place.state_key.as_deref())?;
        let open = || Store::open(folder, key_file.as_ref());
        let store = if folder.exists() { Some(open()?) } else { None };
        let refused = |why: String| Trouble::NotImported { path: self.file.clone(), why };
        let seal = checkpoint::own_key()?;
        let plain = Exported::decrypt(bytes, key_file.as_ref());
        let export = plain.and_then(|plain| Exported::parse(plain.as_deref().unwrap_or(bytes), &seal));
        let export = export.map_err(|error| refused(error.to_string()))?;
        let Exported { mut invocation, checkpoint, files } = export;
        if invocation.served {
            return Err(refused("it was a server's, and needs one".to_owned()));
        }
        let id = match &self.id {
            Some(id) => id.clone(),
            None => invocation.id.parse().map_err(|_| refused("its id is none".to_owned()))?,
        };
        let start =
            Start::decode(&invocation.start).ok_or_else(|| refused("another version has made it".to_owned()))?;
        let hashes = Start::files(&invocation.start);
        if files.len() != hashes.len() {
            return Err(refused("another version has made it".to_owned()));
        }
        let mut plan = None;
        let planned =
            |document: &[u8], engine: &Engine| saved_plan(document, engine).inspect(|it| plan = Some(it.clone()));
        let saved = Saved::from_bytes(checkpoint, &self.file, &seal, planned).map_err(Box::new)?;
        let bounds = plan.map(|plan| Bounds::of(&plan)).ok_or_else(|| refused("it has no plan".to_owned()))?;
        let (code, data) = (start.code(), start.data());
        for (hash, bytes) in hashes.iter().zip(&files) {
            // The bytes that are checked are those that are kept.
            if code.contains(hash) {
                LoadedImage::new("its image", bytes).map_err(|error| refused(error.to_string()))?;
            }
        }
        let store = match store {
            Some(store) => store,
            None => open()?,
        };
        let adding = store.adding()?;
        let mut meta = store.meta()?;
        if meta.get(&id)?.is_some() {
            return Err(Trouble::There(id));
        }
        let mut names = BTreeMap::new();
        for (hash, bytes) in hashes.iter().zip(&files) {
            if code.contains(hash) && store.add_file(&adding, &mut &bytes[..])? != *hash {
                return Err(refused("a file in it is another one".to_owned()));
            }
            // The same bytes may be code and an input.
            if data.contains(hash) {
                names.insert(*hash, store.add_data(&adding, &mut &bytes[..])?);
            }
        }
        let lost = Trouble::unreadable("its memory", &self.file);
        let saved = saved.with(|memory| copy_continuation(&memory, bounds)).map_err(lost)?;
        let checkpoints = store.checkpoints();
        let name = new_name(&checkpoints, &id);
        let keys = Keys { seal: &seal, state: store.key().map(|key| &**key) };
        let written = saved.write(&checkpoints, &name, keys, None).map_err(Box::new)?;
        let file = written.base.file().to_owned();
        let kept = Kept { checkpoint: Checkpoint { file, bytes: written.bytes }, ..invocation.kept };
        invocation.kept = kept;
        let start = start.renamed(&names).encode().map_err(|error| refused(error.to_string()))?;
        match meta.import(&id, &invocation, &start, self.paused, now())? {
            Started::New => Ok(id),
            Started::Same(_) | Started::Taken => {
                // One that stays is removed by the next sweep.
                let _ = fs::remove_file(&written.path);
                Err(Trouble::There(id))
            }
        }
    }
}

/// A name for a checkpoint that no file has.
fn new_name(folder: &Path, id: &InvocationId) -> String {
    let names = (0..).map(|number: u64| format!("{id}.0-{number}"));
    let mut free = names.filter(|name| !folder.join(format!("{name}.checkpoint")).exists());
    free.next().unwrap_or_default()
}
