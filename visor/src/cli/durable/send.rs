//! `monohull send`: an event from outside, for a durable invocation.

use super::super::exit::Exit;
use super::super::{concat_help, output};
use super::{Place, Trouble, Where, now, remote};
use clap::Args;
use monohull_abi::event::EVENT_BYTES_MAX;
use monohull_durable::{InvocationId, Meta, NewMail, Sent};
use monohull_report::escape::shown;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Send an event to a durable invocation
///
/// It is kept until a function of the invocation waits for an event of this name, also if that is later. `monohull wake` goes on with one
/// that waits for it. Events of a name are taken in the order in which they were sent.
#[derive(Debug, Args)]
#[command(after_help = concat_help!(
    "monohull send order-17 approved --data Smith --state sleepers",
    "monohull send order-17 paid --file receipt.json --key receipt-4711 --state sleepers"
))]
pub(in super::super) struct Send {
    /// The invocation
    id: InvocationId,
    /// The name of the event
    name: String,
    #[command(flatten)]
    place: Where,
    /// Its content, from this file; `-` is standard input. Without `--file` and `--data` it is empty
    #[arg(long, value_name = "PATH", conflicts_with = "data")]
    file: Option<PathBuf>,
    /// Its content
    #[arg(long, value_name = "TEXT")]
    data: Option<String>,
    /// Send it once: the same key again is no error and sends nothing
    #[arg(long)]
    key: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Send {
    pub(in super::super) fn run(&self) -> Exit {
        match self.send() {
            Ok(duplicate) => {
                if self.json {
                    let (id, name) = (self.id.as_str(), &self.name);
                    output::json(&json!({ "id": id, "event": name, "duplicate": duplicate }));
                } else {
                    let came = if duplicate { "was sent before" } else { "sent" };
                    output::text(format_args!("{}: event {} {came}\n", self.id, shown(&self.name)));
                }
                Exit::Done
            }
            Err(trouble) => self.place.at(trouble).report(self.json),
        }
    }

    /// Whether it was sent before.
    fn send(&self) -> Result<bool, Trouble> {
        let bytes = match (&self.file, &self.data) {
            (Some(path), _) => read(path).map_err(Trouble::unreadable(format!("event `{}`:", self.name), path))?,
            (None, Some(text)) => text.clone().into_bytes(),
            (None, None) => Vec::new(),
        };
        let mail = NewMail::new(&self.name, &bytes, self.key.as_deref())?;
        let store = match self.place.open()? {
            Place::Folder(store) => store,
            Place::Server(client) => {
                let path = remote::path(&self.id, &format!("/events/{}", remote::encoded(&self.name)));
                let sent = client.post_once(&path, self.key.as_deref(), bytes)?.json()?;
                return Ok(sent["duplicate"] == true);
            }
        };
        let id = self.id.clone();
        match store.meta()?.send(&id, &mail, now())? {
            Sent::New => Ok(false),
            Sent::Duplicate => Ok(true),
            Sent::KeyTaken => Err(Trouble::KeyTaken { id, key: self.key.clone().unwrap_or_default() }),
            Sent::Full => Err(Trouble::Full(id)),
            Sent::Ended(status) => Err(Trouble::Ended { id, status: status.name() }),
            Sent::Unknown => Err(Trouble::Unknown(id)),
        }
    }
}

/// `NAME=PATH` of an event.
pub(in super::super) fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or("it should be NAME=PATH")?;
    NewMail::new(name, b"", None).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), path.into()))
}

/// What an event says that is in a file.
pub(in super::super) fn read_event(name: &str, path: &Path) -> Result<Vec<u8>, String> {
    let bytes = read(path).map_err(|error| format!("event `{name}`: {} cannot be read: {error}", shown(path)))?;
    match NewMail::new(name, &bytes, None) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("event `{name}`: {}: {error}", shown(path))),
    }
}

/// A file's content, or standard input's; one byte more than an event may have, if there are more.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = EVENT_BYTES_MAX as u64 + 1;
    match path.as_os_str().to_str() {
        Some("-") => io::stdin().lock().take(most).read_to_end(&mut bytes)?,
        _ => File::open(path)?.take(most).read_to_end(&mut bytes)?,
    };
    Ok(bytes)
}
