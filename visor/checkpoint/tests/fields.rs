//! Each field of a good file, changed: by one who can make digests and has no key, and by a worker whose file is not sealed yet.
//!
//! The first is always refused. The second is refused unless the field is one of [`FREE`], whose meaning the records alone do not
//! determine: the restoring side compares these with plan, registry and modules, or they can do no harm.

mod support;

use monohull_checkpoint::record::*;
use monohull_checkpoint::{Checkpoint, Error, Packing, Run, Trust};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use support::{KEY, Parts, child, files, interrupted, record, requests, sample, seal_of, sealed};

/// Fields that may have other values, with what they are checked by.
const FREE: &[(&str, &str)] = &[
    // What a checkpoint is: the order that a worker was given, the registry, or for people alone.
    ("identity.id", "order"),
    ("identity.generation", "order"),
    ("identity.parent.id", "order"),
    ("identity.parent.digest", "order"),
    ("identity.label", "order"),
    ("identity.workflow", "order"),
    ("identity.tenant", "order"),
    ("identity.wall_ns", "people"),
    ("identity.domain_ns", "a clock may show anything"),
    ("identity.processor.words", "the restoring processor"),
    ("identity.processor.words[]", "the restoring processor"),
    ("identity.program", "people"),
    ("functions", "one that no instance runs"),
    ("functions[].name", "plan"),
    ("functions[].image", "registry"),
    ("functions[].image_bytes", "registry"),
    ("engine.version", "engine"),
    ("engine.bytes", "engine"),
    ("engine.bytes[]", "engine"),
    ("module.name", "module"),
    ("module.bytes[]", "module"),
    ("module.bytes", "module"),
    ("module.pages", "module"),
    ("module.pages[].start", "module"),
    ("module.pages[].count", "module"),
    // What an instance is: the plan.
    ("instances[].token", "engine"),
    ("instances[].step", "plan"),
    ("instances[].index", "plan"),
    ("instances[].count", "plan"),
    ("instances[].attempt", "engine"),
    ("instances[].deadline", "plan"),
    ("instances[].refusal", "people"),
    ("instances[].mapped", "limit"),
    ("instances[].mapped[].pages.start", "limit"),
    ("instances[].mapped[].pages.count", "limit"),
    ("instances[].mapped[].state", "limit"),
    ("instances[].heap_start", "image"),
    ("instances[].heap_end", "limit"),
    ("instances[].stacks", "limit"),
    ("instances[].free_stacks", "a stack that is never used again"),
    // For the report.
    ("instances[].usage.started_ns", "people"),
    ("instances[].usage.load_ns", "people"),
    ("instances[].usage.run_ns", "people"),
    ("instances[].usage.park_ns", "people"),
    ("instances[].usage.bytes_in", "people"),
    ("instances[].usage.bytes_out", "people"),
    ("instances[].lines", "limit"),
    ("instances[].lines[].stream", "people"),
    ("instances[].lines[].text", "limit"),
    ("instances[].lines_cost", "limit"),
    ("instances[].lines_full", "limit"),
    ("threads[].run_ns", "people"),
    ("threads[].park_ns", "people"),
    // What a function may choose for itself.
    ("threads[].position", "the order in a report"),
    ("threads[].waits", "its own count"),
    ("threads[].frame.user_rsp", "on its own stack"),
    ("threads[].frame.value", "function"),
    ("threads[].frame.number", "a call that functions may make"),
    ("threads[].frame.args", "function"),
    ("threads[].frame.args[]", "function"),
    ("threads[].state.Ready", "function"),
    ("threads[].state.Ready.Value", "function"),
    ("threads[].state.Waiting.deadline", "function"),
    ("threads[].state.Waiting.on.Slot.name", "the plan's `takes`"),
    // Orders: each is one in which they may have come.
    ("instances", "order"),
    ("threads", "order"),
    ("scheduler.ready", "order"),
    ("scheduler.queues", "order"),
    ("scheduler.queues[]", "order"),
    ("scheduler.free", "order"),
    ("scheduler.timers", "engine"),
    ("scheduler.timers[].at", "engine"),
    ("scheduler.timers[].what", "engine"),
    ("scheduler.timers[].what.Driver", "engine"),
    ("scheduler.pending", "engine"),
    ("scheduler.pending[].token", "engine"),
    ("scheduler.pending[].attempt", "engine"),
    ("scheduler.started", "numbers that are given later"),
    // Zeros in place of the image's or the parent's pages can be no worse than what a function writes.
    ("runs[].address", "a page of its owner"),
    ("runs[].count", "function"),
    ("runs[].content", "function"),
    ("runs[].content.Here.stored", "function"),
    // Where an instance's own code goes on: it is in the code of its image, or it is refused.
    ("handlers", "function"),
    ("handlers[].entry", "image"),
    ("handlers[].start", "image"),
    ("handlers[].bytes", "image"),
    ("registers", "function"),
    ("registers[].ip", "image"),
    ("registers[].sp", "function"),
    ("registers[].flags", "flags that user code can have"),
    ("registers[].general", "function"),
    ("registers[].general[]", "function"),
    ("registers[].extended[]", "function, and the restoring processor"),
    // A file is taken for the parent if it has the digest that the identity names, and its own place before this one.
    ("chain.file", "parent"),
    ("chain.depth", "parent"),
    // Of requests whose replies are not in the module's slots there is no reply.
    ("requests.last", "engine"),
    ("requests.answered", "engine"),
    ("requests.answered[].number", "engine"),
    // Which file it is, of how many bytes from where: the module that has its descriptors.
    ("files", "module"),
    ("files[].start", "module"),
    ("files[].bytes", "module"),
    ("files[].offset", "module"),
    ("files[].path", "people"),
    ("files[].writable", "function"),
    ("files[].there", "limit"),
    ("files[].there[].start", "limit"),
    ("files[].there[].count", "limit"),
];

/// Other values for one that is no list and no object.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(flag) => vec![(!flag).into()],
        Value::Number(number) => match number.as_u64() {
            Some(n) => {
                let mut others = vec![0, 1, n ^ 0x8000, u64::from(u32::MAX), 1 << 36, u64::MAX, u64::MAX / 2];
                others.extend([n.wrapping_add(1), n.wrapping_sub(1), n.wrapping_add(4096), n.wrapping_mul(2), n ^ 1]);
                others.into_iter().map(Value::from).collect()
            }
            None => vec![0.into(), i64::MIN.into()],
        },
        Value::String(_) => {
            ["", "x", &"y".repeat(5000), "Woken", "First", "Time", "Run", "Zero", "Base", "Parent", "Reserved", "Read"]
                .into_iter()
                .map(Value::from)
                .collect()
        }
        Value::Null => vec![5.into(), 0.into()],
        Value::Array(list) => {
            let mut others = vec![Value::Array(Vec::new())];
            others.extend(list.split_last().map(|(_, rest)| rest.to_vec().into()));
            others.extend(list.last().map(|last| [list.clone(), vec![last.clone()]].concat().into()));
            others.push(list.iter().rev().cloned().collect());
            others
        }
        Value::Object(_) => vec![Value::Null, "Woken".into(), "Time".into(), "Run".into(), "Zero".into()],
    }
}

/// All places of a document: how each is called, and a pointer to it.
fn places(value: &Value, name: String, pointer: String, found: &mut Vec<(String, String)>) {
    found.push((name.clone(), pointer.clone()));
    match value {
        Value::Array(list) => {
            let all = list.iter().enumerate().step_by(list.len().div_ceil(MANY).max(1));
            all.for_each(|(at, item)| places(item, format!("{name}[]"), format!("{pointer}/{at}"), found));
        }
        Value::Object(fields) => {
            let all = fields.iter();
            all.for_each(|(key, item)| places(item, format!("{name}.{key}"), format!("{pointer}/{key}"), found));
        }
        _ => {}
    }
}

/// The numbers of the sections that may be absent.
const HANDLERS: u32 = 11;
const REGISTERS: u32 = 12;
const CHAIN: u32 = 13;
const FILES: u32 = 14;
const REQUESTS: u32 = 15;

/// Of numbers of which there are more than this side by side, as many are changed, all over them.
const MANY: usize = 64;

/// Changes each field of a section; collects the names of those that may have another value.
fn change_all<T: Serialize + DeserializeOwned>(section: u32, name: &str, free: &mut BTreeSet<String>) -> usize {
    // Those that may be absent are in other samples.
    let good = match section {
        HANDLERS | REGISTERS => interrupted(),
        CHAIN => child(),
        FILES => files(),
        REQUESTS => requests(),
        _ => sample(Packing::Raw),
    };
    let seal = seal_of(&sealed(&good));
    let parts = Parts::of(&good);
    let bytes = parts.clone().section(section).bytes.clone();
    let original: T = postcard::from_bytes(&bytes).expect("the sample's own");
    let document = serde_json::to_value(&original).expect("plain data");
    let mut found = Vec::new();
    places(&document, name.to_owned(), String::new(), &mut found);
    let mut changes = 0;
    for (name, pointer) in found {
        let old = document.pointer(&pointer).expect("it is there").clone();
        for new in others(&old) {
            let mut changed = document.clone();
            *changed.pointer_mut(&pointer).expect("it is there") = new.clone();
            let Ok(changed) = serde_json::from_value::<T>(changed) else { continue };
            let mut parts = parts.clone();
            parts.section(section).bytes = record(&changed);
            if parts.section(section).bytes == bytes {
                continue;
            }
            changes += 1;
            match Checkpoint::read(parts.file(&seal).as_slice(), Trust::Key(&KEY)) {
                Err(Error::Edited(_)) => {}
                other => panic!("{name}{pointer}: {old} → {new}: {other:?}"),
            }
            match Checkpoint::read(parts.unsealed().as_slice(), Trust::NotSealed) {
                Ok(_) => drop(free.insert(name.clone())),
                Err(error) => assert!(error.to_string().len() > 20, "{error}"),
            }
        }
    }
    changes
}

#[test]
fn every_field_is_checked_or_known_to_be_free() {
    let mut free = BTreeSet::new();
    let changes = change_all::<Identity>(1, "identity", &mut free)
        + change_all::<Vec<FunctionRecord>>(2, "functions", &mut free)
        + change_all::<Vec<InstanceRecord>>(3, "instances", &mut free)
        + change_all::<Vec<ThreadRecord>>(4, "threads", &mut free)
        + change_all::<SchedulerRecord>(5, "scheduler", &mut free)
        + change_all::<EngineRecord>(7, "engine", &mut free)
        + change_all::<ModuleRecord>(8, "module", &mut free)
        + change_all::<Vec<Run>>(9, "runs", &mut free)
        + change_all::<Vec<HandlerRecord>>(HANDLERS, "handlers", &mut free)
        + change_all::<Vec<RegistersRecord>>(REGISTERS, "registers", &mut free)
        + change_all::<ChainRecord>(CHAIN, "chain", &mut free)
        + change_all::<Vec<MappedFileRecord>>(FILES, "files", &mut free)
        + change_all::<RequestsRecord>(REQUESTS, "requests", &mut free);
    assert!(changes > 1000, "{changes}");
    // Single bytes of hashes are the hash.
    let free: BTreeSet<String> = free
        .into_iter()
        .map(|name| match name.strip_suffix("[]") {
            Some(whole) if ["id", "digest", "image"].iter().any(|end| whole.ends_with(end)) => whole.to_owned(),
            _ => name,
        })
        .collect();
    let expected: BTreeSet<String> = FREE.iter().map(|(name, _)| (*name).to_owned()).collect();
    let unexpected: Vec<_> = free.difference(&expected).collect();
    let checked: Vec<_> = expected.difference(&free).collect();
    assert!(unexpected.is_empty() && checked.is_empty(), "accepted: {unexpected:#?}\nalways refused: {checked:#?}");
}
