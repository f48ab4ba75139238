//! What a function gives to those outside of its workflow: it leaves with the next checkpoint, or with the end.

use super::copies::{caller, read_bytes, write_bytes};
use crate::shared::Shared;
use monohull_abi::Errno;
use monohull_abi::branch::{CHECKPOINT_EVENT, COPIES_MAX, FORK_EVENT, LABEL_MAX, is_label};
use monohull_abi::child::{DETACHED, is_child_id};
use monohull_abi::event::{
    EVENT_BYTES_MAX, EVENT_NAME_MAX, EVENT_SEPARATOR, INVOCATION_ID_MAX, OUTBOX_BYTES, OUTBOX_EVENTS, RESERVED_EVENTS,
    is_invocation_id,
};
use monohull_abi::module::Call;
use monohull_abi::types::{PUBLISHED_BYTES, PUBLISHED_NAMES};
use monohull_report::{Outgoing, What, child_invocation, place_of};

pub(super) fn publish(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    caller(domain, call)?;
    let [name, name_len, text, len, ..] = call.args;
    let read = |what: &str, address, len, most: usize| {
        if len > most as u64 {
            domain.explain(call, format!("{what} has {len} bytes, more than {most}"));
            return Err(Errno::NoSpace);
        }
        String::from_utf8(read_bytes(domain, call, address, len)?).map_err(|_| {
            domain.explain(call, format!("{what} is not UTF-8"));
            Errno::Invalid
        })
    };
    let name = read("the name", name, name_len, EVENT_NAME_MAX)?;
    let text = read("what is published", text, len, PUBLISHED_BYTES)?;
    domain.published.set(&name, text).inspect_err(|errno| {
        let why = match errno {
            Errno::TooMany => format!("a workflow publishes under at most {PUBLISHED_NAMES} names"),
            Errno::NoSpace => format!("a workflow publishes at most {PUBLISHED_BYTES} bytes, with the names"),
            _ => "the name is empty, or has a control character".to_owned(),
        };
        domain.explain(call, why);
    })?;
    Ok(0)
}

pub(super) fn send(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let instance = caller(domain, call)?;
    if let Some(why) = domain.options.no_sending {
        domain.explain(call, why.to_owned());
        return Err(Errno::NotPermitted);
    }
    let [text, text_len, data, len, number, ..] = call.args;
    let wrong = || {
        let id = format!("the id of an invocation has 1 to {INVOCATION_ID_MAX} letters, digits, `-` and `_`");
        let name = format!("the name of an event 1 to {EVENT_NAME_MAX} bytes without control characters");
        domain.explain(call, format!("{id}, and {name}"));
        Errno::Invalid
    };
    if text_len > (INVOCATION_ID_MAX + 1 + EVENT_NAME_MAX) as u64 {
        return Err(wrong());
    }
    if len > EVENT_BYTES_MAX as u64 {
        domain.explain(call, format!("an event has at most {EVENT_BYTES_MAX} bytes"));
        return Err(Errno::NoSpace);
    }
    let text = String::from_utf8(read_bytes(domain, call, text, text_len)?).map_err(|_| wrong())?;
    let (to, name) = text.split_once(EVENT_SEPARATOR).ok_or_else(wrong)?;
    if let Some(begin) = RESERVED_EVENTS.iter().find(|begin| name.starts_with(**begin)) {
        domain.explain(call, format!("no function sends events whose names begin with `{begin}`"));
        return Err(Errno::Invalid);
    }
    let bytes = read_bytes(domain, call, data, len)?;
    let origin = format!("{}/{}/{number}", instance.config.labels.step, instance.config.index);
    let sent =
        domain.outbox.send(Outgoing { what: What::Event, to: to.to_owned(), name: name.to_owned(), bytes, origin });
    sent.map(|()| 0).inspect_err(|errno| match bound(*errno) {
        Some(why) => domain.explain(call, why),
        None => _ = wrong(),
    })
}

/// Which bound of what leaves with a checkpoint an error means, if it means one.
fn bound(errno: Errno) -> Option<String> {
    match errno {
        Errno::TooMany => Some(format!("a workflow sends at most {OUTBOX_EVENTS} events between two checkpoints")),
        Errno::NoSpace => Some(format!("a workflow sends at most {OUTBOX_BYTES} bytes between two checkpoints")),
        _ => None,
    }
}

pub(super) fn child_start(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    caller(domain, call)?;
    let workflows = startable(domain, call)?;
    let [text, text_len, input, len, flags, ..] = call.args;
    let wrong = |what: &str| {
        domain.explain(call, format!("{what} has 1 to {INVOCATION_ID_MAX} letters, digits, `-` and `_`"));
        Errno::Invalid
    };
    if flags & !DETACHED != 0 {
        domain.explain(call, format!("{flags:#x} are no flags of a child"));
        return Err(Errno::Invalid);
    }
    if text_len > (2 * INVOCATION_ID_MAX + 1) as u64 {
        return Err(wrong("the id of a child, and the name of its workflow,"));
    }
    if len > EVENT_BYTES_MAX as u64 {
        domain.explain(call, format!("the input of a child has at most {EVENT_BYTES_MAX} bytes"));
        return Err(Errno::NoSpace);
    }
    let text = String::from_utf8(read_bytes(domain, call, text, text_len)?).map_err(|_| wrong("the id of a child"))?;
    let (id, workflow) = text.split_once(EVENT_SEPARATOR).ok_or_else(|| wrong("the id of a child"))?;
    if !is_child_id(id) || !is_invocation_id(workflow) {
        return Err(wrong("the id of a child, and the name of its workflow,"));
    }
    if !workflows.iter().any(|name| name == workflow) {
        domain.explain(call, format!("`starts` of the workflow file does not name `{workflow}`"));
        return Err(Errno::NotPermitted);
    }
    let bytes = read_bytes(domain, call, input, len)?;
    let what = What::Start { detached: flags & DETACHED != 0 };
    let (to, name) = (id.to_owned(), workflow.to_owned());
    leave(domain, call, Outgoing { what, to, name, bytes, origin: String::new() })
}

pub(super) fn child_cancel(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    startable(domain, call)?;
    let to = child_of(domain, call)?;
    let (name, bytes, origin) = (String::new(), Vec::new(), String::new());
    leave(domain, call, Outgoing { what: What::Cancel, to, name, bytes, origin })
}

pub(super) fn child_id(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let child = child_of(domain, call)?;
    let id = child_invocation(&domain.options.invocation, &child);
    write_bytes(domain, call, call.args[2], call.args[3], id.as_bytes())
}

pub(super) fn checkpoint(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let origin = origin_of_branch(domain, call, call.args[2])?;
    let [label, len, _, buffer, room, ..] = call.args;
    let wrong = || {
        domain
            .explain(call, format!("a label has 1 to {LABEL_MAX} bytes without control characters, and is no number"));
        Errno::Invalid
    };
    if len > LABEL_MAX as u64 {
        return Err(wrong());
    }
    let label = String::from_utf8(read_bytes(domain, call, label, len)?).map_err(|_| wrong())?;
    if !is_label(&label) {
        return Err(wrong());
    }
    let event = format!("{CHECKPOINT_EVENT}{label}:{}", place_of(&origin));
    ask(
        domain,
        call,
        (buffer, room),
        Outgoing { what: What::Checkpoint, to: event, name: label, bytes: Vec::new(), origin },
    )
}

pub(super) fn fork(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let origin = origin_of_branch(domain, call, call.args[1])?;
    let [copies, _, buffer, room, ..] = call.args;
    if !(1..=COPIES_MAX).contains(&copies) {
        domain.explain(call, format!("1 to {COPIES_MAX} copies are made at once, and not {copies}"));
        return Err(Errno::Invalid);
    }
    let (what, event) = (What::Fork { copies: copies as u32 }, format!("{FORK_EVENT}{}", place_of(&origin)));
    ask(domain, call, (buffer, room), Outgoing { what, to: event, name: String::new(), bytes: Vec::new(), origin })
}

/// The place at which a function asks for a branch of this invocation, if that may be.
fn origin_of_branch(domain: &Shared, call: &Call, number: u64) -> Result<String, Errno> {
    let instance = caller(domain, call)?;
    if let Some(why) = domain.options.no_branches {
        domain.explain(call, why.to_owned());
        return Err(Errno::NotPermitted);
    }
    Ok(format!("{}/{}/{number}", instance.config.labels.step, instance.config.index))
}

/// Writes the name of the event by which it is told, and puts it among what leaves. If it does not, the name says nothing.
fn ask(domain: &Shared, call: &Call, (buffer, room): (u64, u64), what: Outgoing) -> Result<u64, Errno> {
    if room < what.to.len() as u64 {
        domain
            .explain(call, format!("there is room for {room} bytes, and the name of the event has {}", what.to.len()));
        return Err(Errno::NoSpace);
    }
    let len = write_bytes(domain, call, buffer, room, what.to.as_bytes())?;
    leave(domain, call, what)?;
    Ok(len)
}

/// The workflows that may be started.
fn startable<'d>(domain: &'d Shared, call: &Call) -> Result<&'d [String], Errno> {
    domain.options.starts.as_deref().map_err(|why| {
        domain.explain(call, (*why).to_owned());
        Errno::NotPermitted
    })
}

/// The child that the first two arguments name.
fn child_of(domain: &Shared, call: &Call) -> Result<String, Errno> {
    caller(domain, call)?;
    let [id, len, ..] = call.args;
    let wrong = || {
        domain.explain(call, format!("the id of a child has 1 to {INVOCATION_ID_MAX} letters, digits, `-` and `_`"));
        Errno::Invalid
    };
    if len > INVOCATION_ID_MAX as u64 {
        return Err(wrong());
    }
    let id = String::from_utf8(read_bytes(domain, call, id, len)?).map_err(|_| wrong())?;
    if is_child_id(&id) { Ok(id) } else { Err(wrong()) }
}

/// Puts what has been checked among what leaves with the next checkpoint.
fn leave(domain: &Shared, call: &Call, what: Outgoing) -> Result<u64, Errno> {
    let left = domain.outbox.send(what);
    left.map(|()| 0).inspect_err(|errno| bound(*errno).into_iter().for_each(|why| domain.explain(call, why)))
}
