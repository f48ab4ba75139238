//! `monohull invoke`: runs a workflow that a server knows.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::client::{Ask, Client, ClientError, Server, read};
use super::durable::remote;
use super::exit::Exit;
use super::output::Data;
use super::slots;
use monohull_engine::output_file;
use monohull_report::escape::{Line, Notation, Pieces, shown};
use monohull_watchdog::{MISSING_INPUT, SLOTS_TYPE};

/// The content type of an input without a description.
const BYTES_TYPE: &str = "application/octet-stream";

/// Run a workflow of a server
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull invoke word-count --input book.txt --output counts.txt",
    "echo hello | monohull invoke echo --input -",
    "monohull invoke word-count --input book.txt --async --follow",
    "monohull invoke approval --input order.txt --async --id order-17 --delay 1d"
))]
pub(super) struct Invoke {
    /// The workflow's name
    name: String,
    /// The file that is the workflow's one input, or SLOT=FILE for each of several; `-` is standard input, and SLOT= an
    /// empty input. A file with `=` in its name is given with its folder, as `./a=b.txt`
    #[arg(long = "input", value_name = "FILE")]
    inputs: Vec<OsString>,
    /// Write the result to a file instead of standard output, which is `-`; SLOT=FILE says which output slot, as --slot does. A file with
    /// `=` in its name is given with its folder, as `./a=b.txt`
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    output: Option<OsString>,
    /// Which output slot, if the workflow has several
    #[arg(long, value_name = "SLOT")]
    slot: Option<String>,
    /// Run it once: the same call again with this key has the first one's result
    #[arg(long)]
    key: Option<String>,
    /// Do not wait: print the invocation's id
    #[arg(long = "async")]
    is_async: bool,
    /// Give the invocation this id. The same again starts no other one
    #[arg(long, conflicts_with = "key")]
    id: Option<String>,
    /// Start it so much later, for example 10s or 1d, and do not wait for that
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    delay: Option<String>,
    /// Start it at this time, for example 2027-01-31T09:00:00Z, and do not wait for that
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Show its id and what functions print while it runs, then the result
    #[arg(long)]
    follow: bool,
    /// Print the result to a terminal as it is; without it control characters are escaped there, and only there
    #[arg(long, conflicts_with_all = ["json", "output"])]
    raw: bool,
    /// Print one JSON document: the invocation, with its result, timeline and report
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Invoke {
    pub(super) fn run(&self) -> Exit {
        match self.invoke() {
            Ok(exit) => exit,
            Err(error) => {
                let exit = error.report(self.json);
                if error.kind() == Some(MISSING_INPUT) {
                    super::output::note(
                        "  --input FILE gives a workflow its one input, --input SLOT=FILE each of several, SLOT= an empty one",
                    );
                }
                exit
            }
        }
    }

    fn invoke(&self) -> Result<Exit, ClientError> {
        if self.is_async && !self.follow && (self.output.is_some() || self.slot.is_some() || self.raw) {
            return Err(ClientError::Usage("with --async there is no result yet; --follow waits for it".to_owned()));
        }
        let chosen = [("id", &self.id), ("delay", &self.delay), ("at", &self.at)];
        let chosen = chosen.map(|(name, value)| Some(format!("{name}={}", encoded(value.as_ref()?))));
        let mut chosen: Vec<String> = chosen.into_iter().flatten().collect();
        let (slot, output) = self.wanted()?;
        if let Some(path) = output {
            output_file::check(path).map_err(|why| ClientError::Usage(format!("--output: {why}")))?;
        }
        let client = Client::new(&self.server)?;
        let (media, body) = self.body()?;
        if self.is_async || self.follow {
            let path = format!("/async-invoke/{}{}", encoded(&self.name), query(&chosen));
            let accepted = client.send_keyed(self.ask(&path, media, body))?.json()?;
            let id = accepted["id"].as_str().unwrap_or_default();
            if self.follow {
                // With the id, a user who interrupts this can ask for the result later.
                super::output::note(format_args!("invocation {id}"));
                return self.follow(&client, id);
            }
            if self.json {
                super::output::json(&accepted);
            } else {
                super::output::text(format_args!("{id}\n"));
            }
            return Ok(Exit::Done);
        }
        chosen.extend(slot.map(|slot| format!("output={}", encoded(slot))));
        let path = format!("/invoke/{}{}", encoded(&self.name), query(&chosen));
        if self.json {
            let reply = client.send_keyed(self.ask(&path, media, body))?;
            let id = reply.header("x-invocation-id")?;
            match client.get(&format!("/invocations/{id}")) {
                Ok(shown) => {
                    let shown = shown.json()?;
                    super::output::json(&shown);
                    if shown["durable"] == true && shown.get("result").is_none() {
                        return Ok(Exit::Suspended);
                    }
                }
                // A server may be configured to keep no invocations: then only the result is known.
                Err(ClientError::Refused { status: StatusCode::NOT_FOUND, .. }) => {
                    let content = match std::str::from_utf8(&reply.body) {
                        Ok(text) => json!({ "text": text }),
                        Err(_) => json!({ "base64": BASE64.encode(&reply.body) }),
                    };
                    super::output::json(
                        &json!({ "id": id, "workflow": self.name, "status": "completed", "body": content }),
                    );
                }
                Err(error) => return Err(error),
            }
        } else {
            let mut output = Output::new(output, self.raw);
            let mut waits = false;
            let headers = client.pass_answer(self.ask(&path, media, body), &mut |status, piece| {
                waits |= status == StatusCode::ACCEPTED;
                if waits { Ok(()) } else { output.put(piece) }
            })?;
            if waits {
                let id = headers.get("x-invocation-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
                super::output::note(format_args!("monohull: invocation {id} {}", waits_for(&client, id)));
                super::output::note(format_args!("  `monohull result {id} --wait` prints what comes of it"));
                return Ok(Exit::Suspended);
            }
            output.finish()?;
        }
        Ok(Exit::Done)
    }

    fn ask<'a>(&'a self, path: &'a str, media: Option<&'a str>, body: Vec<u8>) -> Ask<'a> {
        Ask { method: Method::POST, path, media, key: self.key.as_deref(), body }
    }

    /// Shows lines until the invocation ends, then its result.
    fn follow(&self, client: &Client, id: &str) -> Result<Exit, ClientError> {
        let mut shown_lines = Pieces::new(Notation::Lines);
        client.stream(&format!("/invocations/{id}/logs?follow=true"), &mut |lines| {
            super::output::note_bytes(shown_lines.push(lines).as_bytes());
            Ok(())
        })?;
        // One that only waits has no lines to follow, and may go on for days.
        let shown = loop {
            let shown = client.get(&format!("/invocations/{id}?wait=60s"))?.json()?;
            match shown["status"].as_str() {
                Some("paused") => break shown,
                // An earlier server says `queued`, and `done` below.
                Some("queued" | "pending" | "running" | "suspended") => {}
                _ => break shown,
            }
        };
        if shown["status"] == "paused" {
            let reason = shown["reason"].as_str().unwrap_or_default();
            super::output::note(format_args!("monohull: invocation {id} is paused: {}", Line(reason)));
            return Ok(Exit::Suspended);
        }
        if shown["status"] != "done" && shown["status"] != "completed" {
            return Err(ClientError::Refused { status: would_be(&shown), document: shown });
        }
        if self.json {
            super::output::json(&shown);
        } else {
            self.put_result(client, &shown["result"])?;
        }
        Ok(Exit::Done)
    }

    fn put_result(&self, client: &Client, result: &Value) -> Result<(), ClientError> {
        let (slot, output) = self.wanted()?;
        let mut to = Output::new(output, self.raw);
        let slots = result.as_object().cloned().unwrap_or_default();
        let chosen = match slot {
            Some(slot) => slots.get(slot),
            None if slots.len() == 1 => slots.values().next(),
            None => None,
        };
        match chosen {
            Some(output) => {
                let href = output["href"].as_str().unwrap_or_default();
                client.stream(href, &mut |piece| to.put(piece))?;
            }
            None if slots.is_empty() => return Ok(()),
            None => to.put(format!("{result:#}\n").as_bytes())?,
        }
        to.finish()
    }

    /// Which output slot is wanted, if that is said, and the file that it goes to, if that is not standard output.
    fn wanted(&self) -> Result<(Option<&str>, Option<&Path>), ClientError> {
        let chosen = self.slot.as_deref();
        let Some(to) = &self.output else { return Ok((chosen, None)) };
        let (slot, path) = slots::of_output(to, chosen).map_err(|why| ClientError::Usage(why.to_owned()))?;
        Ok((slot, Some(path).filter(|path| path.as_os_str() != "-")))
    }

    /// The inputs as a request's body: one file as it is, named slots as JSON.
    fn body(&self) -> Result<(Option<&'static str>, Vec<u8>), ClientError> {
        let paths = self.inputs.iter().map(|input| slots::split(input).map_or(&**input, |(_, path)| path));
        slots::one_standard_input(paths).map_err(|why| ClientError::Usage(why.to_owned()))?;
        match self.inputs.as_slice() {
            [] => Ok((None, Vec::new())),
            // With a type, so that an empty file is an empty input and not a missing one.
            [path] if is_file(path) => Ok((Some(BYTES_TYPE), read(path.as_ref())?)),
            several => {
                let mut contents = Map::new();
                for input in several {
                    let (slot, path) = slots::split(input).ok_or_else(|| {
                        let input = shown(input);
                        ClientError::Usage(format!("of several inputs each is SLOT=FILE, and {input} has no slot"))
                    })?;
                    let bytes = if path.is_empty() { Vec::new() } else { read(path.as_ref())? };
                    let content = json!({ "base64": BASE64.encode(bytes) });
                    if contents.insert(slot.to_owned(), content).is_some() {
                        return Err(ClientError::Usage(format!("slot {slot} is given twice")));
                    }
                }
                Ok((Some(SLOTS_TYPE), Value::Object(contents).to_string().into_bytes()))
            }
        }
    }
}

/// Whether an input is a file alone, and not SLOT=FILE. The name of a slot does not look like a path that leads to a file.
fn is_file(input: &OsStr) -> bool {
    match slots::split(input) {
        Some((slot, _)) => slot.contains('/') && Path::new(input).exists(),
        None => true,
    }
}

/// What a call that waits would have been answered for an invocation that has failed. Servers of earlier versions do not say.
fn would_be(shown: &Value) -> StatusCode {
    let said = shown["error_status"].as_u64().and_then(|code| u16::try_from(code).ok());
    said.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_GATEWAY)
}

/// What an invocation waits for, for people. A server that does not say is not asked again: the invocation has not ended.
fn waits_for(client: &Client, id: &str) -> String {
    let shown = client.get(&format!("/invocations/{id}")).and_then(|reply| reply.json()).unwrap_or_default();
    let (waits, due) = (remote::waits_until(&shown), shown["due"].as_str());
    match (shown["status"].as_str(), due) {
        (Some("suspended"), _) if !waits.is_empty() => format!("waits: {}", waits.join(", ")),
        (Some("pending"), Some(at)) => format!("begins at {}", Line(at)),
        _ => "has not ended".to_owned(),
    }
}

/// Where a result goes, piece by piece. A file is opened when the first piece comes: an invocation that fails leaves it as it was.
enum Output<'o> {
    /// A file, open once there is something to write.
    File(&'o Path, Option<File>),
    /// Standard output.
    Standard(Data),
}

impl<'o> Output<'o> {
    /// A file, or else standard output.
    fn new(path: Option<&'o Path>, raw: bool) -> Output<'o> {
        path.map_or_else(|| Output::Standard(Data::for_programs(raw)), |path| Output::File(path, None))
    }

    fn put(&mut self, piece: &[u8]) -> Result<(), ClientError> {
        match self {
            // If nothing more can be written, that is reported at the end.
            Output::Standard(data) => drop(data.put(piece)),
            Output::File(path, file) => {
                let open = |file: &mut Option<File>| {
                    let file = match file {
                        Some(file) => file,
                        None => file.insert(File::create(*path)?),
                    };
                    file.write_all(piece)
                };
                let unwritten = |source| ClientError::Output { path: shown(*path).to_string(), source };
                open(file).map_err(unwritten)?;
            }
        }
        Ok(())
    }

    /// Nothing more comes; a result may be empty.
    fn finish(mut self) -> Result<(), ClientError> {
        self.put(&[])?;
        if let Output::Standard(data) = self {
            data.finish();
        }
        Ok(())
    }
}

/// Parameters of a request, if there are any.
fn query(parameters: &[String]) -> String {
    if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) }
}

fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}
