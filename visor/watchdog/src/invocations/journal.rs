//! The journal of asynchronous calls on disk: which were accepted, their results, and the callbacks still to be made.
//!
//! ```text
//! POST ─▶ accept: a record without an end ─▶ 202 ─▶ runs ─▶ end: the record with its end ─▶ shown ─▶ callback ─▶ done
//!                       │                                     │
//!     killed here: failed, `interrupted`          killed here: its end, and the callback once more
//! ```
//!
//! A call runs at most once. Its inputs are not kept. A record without an end, found at the start of a server, belongs to a
//! call that was running when the server died. Its progress is unknown: it has failed as `interrupted`, and the client decides
//! whether to send it again. A callback is made at least once, unless it is given up; its record stays until then.
//!
//! A record is a line of JSON, then the output slots' bytes, one after the other. Everything here waits for the disk.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::ms_since_1970;
use crate::http::content::{Content, SMALL, memory_file};
use crate::http::error::ApiError;
use crate::ids::is_id;
use crate::invocations::callback::Callback;
use crate::invocations::invocation::Invocation;
use crate::invocations::record::{End, Head, Printed};
use crate::invocations::report::Report;
use crate::invocations::status::Status;
use crate::store::atomic_file::{CorruptFile, ReadError, list, name_of, put_marked, read_marked, remove};
use crate::store::error::{StateError, at};
use crate::store::state_folder::{CALLBACKS, INVOCATIONS, StateFolder, quarantine};
use monohull_report::RunReport;
use monohull_report::escape::shown;
use monohull_state_key::{Error as DecryptError, Place, StateKey};

/// The first word of every record; the number is the format's.
const MAGIC: &str = "monohull-invocation-1";
/// The same of a callback.
const CALLBACK_MAGIC: &str = "monohull-callback-1";

/// The records of this server.
pub(crate) struct Journal {
    folder: Arc<StateFolder>,
    records: PathBuf,
    callbacks: PathBuf,
    /// What encrypts records, if the state folder has a key.
    key: Option<Arc<StateKey>>,
    corrupt_files: Vec<CorruptFile>,
}

/// A call of an earlier server.
pub(crate) struct Found {
    pub(crate) invocation: Arc<Invocation>,
    /// How long ago it ended.
    pub(crate) age: Duration,
    /// The address of the callback that has not been made.
    pub(crate) callback: Option<String>,
}

/// A record's first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    head: Head,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<RecordedEnd>,
}

/// What came of a call.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedEnd {
    status: Status,
    duration_us: u64,
    /// Milliseconds since 1970.
    ended_ms: u64,
    printed: Printed,
    report: Option<RunReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<ApiError>,
    /// Names and lengths of the output slots, in the order of their bytes.
    outputs: Vec<(String, u64)>,
}

impl Journal {
    /// Reads what an earlier server has left, the oldest end first. Calls without an end get theirs. Corrupt files are
    /// moved away and reported; a file that could not be read is an error.
    ///
    /// Calls that have become durable are the ledger's.
    pub(crate) fn open(
        folder: &Arc<StateFolder>,
        key: Option<Arc<StateKey>>,
        is_durable: impl Fn(&str) -> bool,
    ) -> Result<(Journal, Vec<Found>), StateError> {
        let root = folder.path();
        let (records, callbacks) = (root.join(INVOCATIONS), root.join(CALLBACKS));
        let mut journal = Journal { folder: folder.clone(), records, callbacks, key, corrupt_files: Vec::new() };
        let mut pending = HashMap::new();
        for path in list(&journal.callbacks)? {
            match journal.read_callback(&path) {
                Ok(url) => drop(pending.insert(name_of(&path), url)),
                Err(trouble) => journal.quarantine(root, path, trouble)?,
            }
        }
        let mut found = Vec::new();
        for path in list(&journal.records)? {
            if is_durable(&name_of(&path)) {
                // Its server was killed before it had removed the record.
                remove(&path)?;
                continue;
            }
            let (invocation, age) = match journal.read_record(&path) {
                Ok((invocation, Some(age))) => (invocation, age),
                Ok((invocation, None)) => (journal.interrupt(invocation), Duration::ZERO),
                Err(trouble) => {
                    journal.quarantine(root, path, trouble)?;
                    continue;
                }
            };
            let callback = pending.remove(&invocation.id);
            found.push(Found { invocation: Arc::new(invocation), age, callback });
        }
        // Of calls that were never acknowledged, or have been forgotten.
        pending.keys().try_for_each(|id| remove(&journal.callbacks.join(id)))?;
        found.sort_by_key(|found| std::cmp::Reverse(found.age));
        Ok((journal, found))
    }

    /// The corrupt files that were moved away at the start.
    pub(crate) fn corrupt_files(&self) -> &[CorruptFile] {
        &self.corrupt_files
    }

    fn quarantine(&mut self, root: &Path, path: PathBuf, trouble: ReadError) -> Result<(), StateError> {
        let reason = match trouble {
            ReadError::Corrupt(reason) => reason,
            ReadError::Host(error) => return Err(error),
        };
        let kept = quarantine(root, &path)?;
        tracing::error!(path = %shown(&path), reason, "set aside");
        self.corrupt_files.push(CorruptFile { path, reason: format!("{reason}; kept as {}", shown(&kept)) });
        Ok(())
    }

    /// The end of a call whose server ended first.
    fn interrupt(&self, invocation: Invocation) -> Invocation {
        let end = End { status: Status::Failed, duration_us: 0, report: None, result: Err(ApiError::interrupted()) };
        // If it cannot be recorded, the next start finds the same again.
        let kept = self.end(&invocation, &end);
        if let Err(error) = &kept {
            tracing::warn!(id = invocation.id, %error, "its result could not be recorded");
        }
        tracing::warn!(id = invocation.id, call_id = invocation.call_id, "interrupted");
        invocation.end(Arc::new(end), kept.is_ok());
        invocation
    }

    /// Records that a call has been accepted. It may be acknowledged once this has returned.
    pub(crate) fn accept(&self, invocation: &Invocation, callback: Option<&Callback>) -> Result<(), StateError> {
        self.folder.change(|| self.put_accepted(invocation, callback))
    }

    fn put_accepted(&self, invocation: &Invocation, callback: Option<&Callback>) -> Result<(), StateError> {
        if let Some(callback) = callback {
            let write = |to: &mut dyn Write| to.write_all(callback.url().as_bytes());
            self.put_marked(&self.callbacks.join(&invocation.id), CALLBACK_MAGIC, write)?;
        }
        let kept = self.put(invocation, &Record { head: invocation.head(), end: None }, &[]);
        if kept.is_err() && callback.is_some() {
            // A refused call has no callback.
            let _ = remove(&self.callbacks.join(&invocation.id));
        }
        kept
    }

    /// Records the result of a call. It may be shown, and its callback made, once this has returned.
    pub(crate) fn end(&self, invocation: &Invocation, end: &End) -> Result<(), StateError> {
        let (outputs, refusal) = match &end.result {
            Ok(outputs) => (outputs.as_slice(), None),
            Err(refusal) => (&[][..], Some(refusal.clone())),
        };
        let recorded = RecordedEnd {
            status: end.status,
            duration_us: end.duration_us,
            ended_ms: now_ms(),
            printed: invocation.printed(),
            report: end.report.clone().and_then(Report::into_whole),
            refusal,
            outputs: outputs.iter().map(|(name, content)| (name.clone(), content.len())).collect(),
        };
        let record = Record { head: invocation.head(), end: Some(recorded) };
        self.folder.change(|| self.put(invocation, &record, outputs))
    }

    fn put(&self, invocation: &Invocation, record: &Record, outputs: &[(String, Content)]) -> Result<(), StateError> {
        let path = self.records.join(&invocation.id);
        let mut line = serde_json::to_vec(record).map_err(io::Error::from).map_err(at(&path))?;
        line.push(b'\n');
        self.put_marked(&path, MAGIC, |to| {
            to.write_all(&line)?;
            outputs.iter().try_for_each(|(_, content)| content.write_to(to))
        })
    }

    /// [`put_marked`], of what is encrypted if there is a key: in memory first, as it is looked at twice.
    fn put_marked(
        &self,
        path: &Path,
        magic: &str,
        content: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StateError> {
        let Some(key) = &self.key else { return put_marked(path, magic, content) };
        let encrypt = || {
            let file = memory_file()?;
            let mut to = key.encrypting(&file)?;
            content(&mut to)?;
            to.finish(Place { kind: magic, name: &name_of(path) })?;
            let len = file.metadata()?.len();
            Content::of_file(file, len)
        };
        let encrypted = encrypt().map_err(at(path))?;
        put_marked(path, magic, |to| encrypted.write_to(to))
    }

    /// What it has written.
    fn read_marked(&self, path: &Path, magic: &str) -> Result<Vec<u8>, ReadError> {
        let content = read_marked(path, magic)?;
        let Some(key) = &self.key else { return Ok(content) };
        let mut plain = Vec::new();
        match key.decrypt_file(Place { kind: magic, name: &name_of(path) }, &mut &*content, &mut plain) {
            Ok(()) => Ok(plain),
            Err(DecryptError::Io(error)) => Err(ReadError::Host(at(path)(error))),
            Err(error) => Err(ReadError::corrupt(error)),
        }
    }

    /// Removes the record of a callback that was made or given up.
    pub(crate) fn callback_done(&self, id: &str) -> Result<(), StateError> {
        self.folder.change(|| remove(&self.callbacks.join(id)))
    }

    /// Forgets calls. If the machine stops now some may come back; then they are too old, or too many, once more.
    pub(crate) fn forget(&self, ids: &[String]) -> Result<(), StateError> {
        self.folder.change(|| ids.iter().try_for_each(|id| remove(&self.records.join(id))))
    }

    fn read_callback(&self, path: &Path) -> Result<String, ReadError> {
        named(path)?;
        String::from_utf8(self.read_marked(path, CALLBACK_MAGIC)?).map_err(ReadError::corrupt)
    }

    /// A call, and how long ago it ended if it has.
    fn read_record(&self, path: &Path) -> Result<(Invocation, Option<Duration>), ReadError> {
        let id = named(path)?;
        let content = self.read_marked(path, MAGIC)?;
        let line = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let record: Record = serde_json::from_slice(line).map_err(ReadError::corrupt)?;
        let mut rest = content.get(line.len() + 1..).unwrap_or_default();
        let invocation = Invocation::recalled(id, record.head);
        let Some(end) = record.end else { return Ok((invocation, None)) };
        let mut outputs = Vec::new();
        for (name, len) in end.outputs {
            let split = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
            let (bytes, more) = split.ok_or_else(|| ReadError::corrupt("it is shorter than its first line says"))?;
            rest = more;
            outputs.push((name, Content::of_bytes(bytes).map_err(|error| ReadError::Host(at(path)(error)))?));
        }
        if line.len() as u64 > SMALL {
            invocation.set_long(None);
        }
        let result = end.refusal.map_or(Ok(outputs), Err);
        let (status, duration_us, report) = (end.status, end.duration_us, end.report.map(Report::from));
        if !status.is_final() {
            return Err(ReadError::corrupt("its status is not final"));
        }
        invocation.print(end.printed);
        invocation.end(Arc::new(End { status, duration_us, report, result }), true);
        // A clock that was set back makes it younger than it is.
        Ok((invocation, Some(Duration::from_millis(now_ms().saturating_sub(end.ended_ms)))))
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    ms_since_1970(std::time::SystemTime::now())
}

fn named(path: &Path) -> Result<String, ReadError> {
    let name = name_of(path);
    if is_id(&name) { Ok(name) } else { Err(ReadError::corrupt("its name is not that of a call")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::http::trace::Trace;
    use crate::invocations::status::Mode;
    use hyper::HeaderMap;
    use monohull_workflow as workflow;
    use std::fs;
    use tempfile::TempDir;

    const NO_OP: &str = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[{"name":"s","function":"f"}]}"#;

    fn invocation() -> Invocation {
        let plan = workflow::load_str(Path::new("w.json"), NO_OP).expect("a workflow");
        Invocation::new(Moment::now(), None, Trace::of(&HeaderMap::new()), &plan, Mode::Async)
    }

    fn folder() -> (TempDir, Arc<StateFolder>) {
        let root = TempDir::new().expect("a folder");
        let folder = StateFolder::take(root.path()).expect("suitable");
        for name in [INVOCATIONS, CALLBACKS, crate::store::state_folder::DAMAGED] {
            fs::create_dir(folder.path().join(name)).expect("made");
        }
        (root, folder)
    }

    /// Whole, but not what this server writes: as one of another version may be.
    #[test]
    fn records_that_contradict_themselves_are_damaged() {
        let (_root, folder) = folder();
        let (journal, _) = Journal::open(&folder, None, |_| false).expect("empty");
        let written = |change: &dyn Fn(&str) -> String| {
            let invocation = invocation();
            let outputs = vec![("out".to_owned(), Content::of_bytes(b"12345").expect("bytes"))];
            journal.end(&invocation, &invocation.ending(Status::Completed, None, Ok(outputs))).expect("kept");
            let path = journal.records.join(&invocation.id);
            let content = String::from_utf8(read_marked(&path, MAGIC).expect("whole")).expect("text");
            let changed = change(&content);
            put_marked(&path, MAGIC, |to| to.write_all(changed.as_bytes())).expect("written");
            journal.read_record(&path)
        };
        assert!(matches!(written(&str::to_owned), Ok((_, Some(_)))));
        let older = |content: &str| content.replace(r#""status":"completed""#, r#""status":"done""#);
        assert!(matches!(written(&older), Ok((_, Some(_)))), "the word of earlier versions");
        let changes: [(&str, &str); 6] = [
            (r#"["out",5]"#, r#"["out",6]"#),
            (r#"["out",5]"#, r#"["out",18446744073709551615]"#),
            (r#""status":"completed""#, r#""status":"running""#),
            (r#""status":"completed""#, r#""status":"lost""#),
            (r#""head":"#, r#""more":1,"head":"#),
            ("\n12345", ""),
        ];
        for (from, to) in changes {
            let read = written(&|content| {
                assert!(content.contains(from), "{from} in {content}");
                content.replace(from, to)
            });
            assert!(matches!(read, Err(ReadError::Corrupt(_))), "{from} {to}");
        }
    }

    #[test]
    fn a_call_that_was_never_acknowledged_has_no_callback() {
        let (_root, folder) = folder();
        let allowed = ["hooks.example".to_owned()];
        let callback = Callback::to(b"http://hooks.example/done", &allowed).expect("allowed");
        let (journal, _) = Journal::open(&folder, None, |_| false).expect("empty");
        let (kept, lost) = (invocation(), invocation());
        journal.accept(&kept, Some(&callback)).expect("kept");
        journal.accept(&lost, Some(&callback)).expect("kept");
        fs::remove_file(journal.records.join(&lost.id)).expect("removed");
        let (journal, found) = Journal::open(&folder, None, |_| false).expect("readable");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].callback.as_deref(), Some("http://hooks.example/done"));
        assert_eq!(found[0].invocation.status(), Status::Failed);
        assert_eq!(list(&journal.callbacks).expect("a folder"), [journal.callbacks.join(&kept.id)]);
    }
}
