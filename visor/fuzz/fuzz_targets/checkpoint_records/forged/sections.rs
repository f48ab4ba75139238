//! A checkpoint's sections, each with its fields, and the file of sections that were changed.

use super::promises;
use monohull_checkpoint::Run;
use monohull_checkpoint::record::{
    ChainRecord, EngineRecord, FunctionRecord, HandlerRecord, Identity, InstanceRecord, MappedFileRecord, ModuleRecord,
    RegistersRecord, RequestsRecord, SchedulerRecord, ThreadRecord,
};
use monohull_saved::Engine;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Bytes of the header, and of an entry of the table.
const HEADER: usize = 128;
const ENTRY: usize = 64;
const PAGE: usize = 4096;
/// The number of the engine's section, and the version whose bytes are taken apart.
const ENGINE: u32 = 7;
const ENGINE_VERSION: u16 = 4;

#[derive(Clone)]
pub(super) struct Sections {
    /// The header as it was.
    header: Vec<u8>,
    pub(super) list: Vec<Section>,
    /// Stored pages, and whether they begin at a whole page.
    pub(super) pages: Vec<u8>,
    is_aligned: bool,
}

#[derive(Clone)]
pub(super) struct Section {
    pub(super) id: u32,
    pub(super) version: u16,
    pub(super) flags: u16,
    pub(super) body: Body,
}

#[derive(Clone)]
pub(super) enum Body {
    Fields(Value),
    Bytes(Vec<u8>),
}

impl Sections {
    /// Those of a file whose table can be read.
    pub(super) fn of(file: &[u8]) -> Option<Sections> {
        let word = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?) as usize);
        let range = |at: usize| {
            let (start, bytes) = (word(at)?, word(at + 8)?);
            file.get(start..start.checked_add(bytes)?)
        };
        let count = (word(8)? >> 32).min(256);
        let list = (0..count).map(|index| {
            let entry = HEADER + index * ENTRY;
            let head = word(entry)?;
            let (id, version, flags) = (head as u32, (head >> 32) as u16, (head >> 48) as u16);
            let bytes = range(entry + 8)?;
            let body = fields(id, bytes).map_or_else(|| Body::Bytes(bytes.to_vec()), Body::Fields);
            Some(Section { id, version, flags, body })
        });
        let list = list.collect::<Option<_>>()?;
        let pages = range(24)?.to_vec();
        let is_aligned = word(24)? % PAGE == 0;
        Some(Sections { header: file.get(..HEADER)?.to_vec(), list, pages, is_aligned })
    }

    /// A file of them, with hashes that fit; none if a field is no longer of its kind.
    pub(super) fn to_file(&self) -> Option<Vec<u8>> {
        let mut file = self.header.clone();
        file.resize(HEADER + self.list.len() * ENTRY, 0);
        for (index, section) in self.list.iter().enumerate() {
            let bytes = match &section.body {
                Body::Bytes(bytes) => bytes.clone(),
                Body::Fields(value) => record(section.id, value)?,
            };
            let head = u64::from(section.id) | u64::from(section.version) << 32 | u64::from(section.flags) << 48;
            let entry = [head, file.len() as u64, bytes.len() as u64, 0].map(u64::to_le_bytes).concat();
            file[HEADER + index * ENTRY..][..entry.len()].copy_from_slice(&entry);
            file.extend(bytes);
            file.resize(file.len().next_multiple_of(8), 0);
        }
        if self.is_aligned {
            file.resize(file.len().next_multiple_of(PAGE), 0);
        }
        let pages = [file.len() as u64, self.pages.len() as u64].map(u64::to_le_bytes).concat();
        file[24..40].copy_from_slice(&pages);
        file[12..16].copy_from_slice(&(self.list.len() as u32).to_le_bytes());
        file.extend(&self.pages);
        promises::repair(&mut file);
        Some(file)
    }
}

/// Calls a function with the type of a section's record.
macro_rules! with_record {
    ($id:expr, $call:ident, $bytes:expr) => {
        match $id {
            1 => $call::<Identity>($bytes),
            2 => $call::<Vec<FunctionRecord>>($bytes),
            3 => $call::<Vec<InstanceRecord>>($bytes),
            4 => $call::<Vec<ThreadRecord>>($bytes),
            5 => $call::<SchedulerRecord>($bytes),
            ENGINE => $call::<EngineRecord>($bytes),
            8 => $call::<ModuleRecord>($bytes),
            9 => $call::<Vec<Run>>($bytes),
            11 => $call::<Vec<HandlerRecord>>($bytes),
            12 => $call::<Vec<RegistersRecord>>($bytes),
            13 => $call::<ChainRecord>($bytes),
            14 => $call::<Vec<MappedFileRecord>>($bytes),
            15 => $call::<RequestsRecord>($bytes),
            _ => None,
        }
    };
}

fn fields(id: u32, bytes: &[u8]) -> Option<Value> {
    fn decoded<R: DeserializeOwned + Serialize>(bytes: &[u8]) -> Option<Value> {
        serde_json::to_value(postcard::from_bytes::<R>(bytes).ok()?).ok()
    }
    if id == ENGINE
        && let Some(parts) = of_engine(bytes)
    {
        return Some(parts);
    }
    with_record!(id, decoded, bytes)
}

/// The engine's state is a record of its own, and in that the state of the run is JSON.
fn of_engine(bytes: &[u8]) -> Option<Value> {
    let record: EngineRecord =
        postcard::from_bytes(bytes).ok().filter(|r: &EngineRecord| r.version == ENGINE_VERSION)?;
    let (engine, state): (Engine, Vec<u8>) = postcard::from_bytes(&record.bytes).ok()?;
    let state: Value = serde_json::from_slice(&state).ok()?;
    Some(json!({ "engine": serde_json::to_value(engine).ok()?, "state": state }))
}

fn record(id: u32, value: &Value) -> Option<Vec<u8>> {
    fn encoded<R: DeserializeOwned + Serialize>(value: &Value) -> Option<Vec<u8>> {
        postcard::to_allocvec(&serde_json::from_value::<R>(value.clone()).ok()?).ok()
    }
    if id == ENGINE
        && let (Some(engine), Some(state)) = (value.get("engine"), value.get("state"))
    {
        let engine: Engine = serde_json::from_value(engine.clone()).ok()?;
        let bytes = postcard::to_allocvec(&(engine, serde_json::to_vec(state).ok()?)).ok()?;
        return postcard::to_allocvec(&EngineRecord { version: ENGINE_VERSION, bytes }).ok();
    }
    with_record!(id, encoded, value)
}
