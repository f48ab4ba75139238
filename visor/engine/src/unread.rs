//! Slots that a run has filled and not read: usually work that got lost.
//!
//! A fan-out that is one instance short, or a misspelt name, loses data without any function noticing. The workflow
//! succeeds only if each slot that remains is an output, or one that the workflow file exempts.

use super::slots::filled;
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_domain::Domain;
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::{Failure, Unread, UnreadSlot};
use monohull_workflow::Plan;
use monohull_workflow::plan::OnUnread;
use std::collections::HashSet;
use std::fmt::Write;

/// The most unread slots that a report lists.
const LISTED_MAX: usize = 100;
/// The most unread slots that a message names.
const NAMED_MAX: usize = 3;

/// The unread slots of a run whose steps are all done, and the failure that they are, if they are one. `producer` knows the
/// step and instance that had an id in the domain.
pub(super) fn find(
    domain: &Domain,
    plan: &Plan,
    producer: impl FnOnce() -> Box<dyn Fn(u32) -> Option<(String, u32)>>,
) -> (Option<Unread>, Option<Box<Failure>>) {
    let outputs: HashSet<&str> = plan.outputs.iter().map(|output| output.slot.as_str()).collect();
    let (mut count, mut bytes) = (0, 0);
    // Those that fail the run come first in the list.
    let (mut failing, mut others) = (Vec::new(), Vec::new());
    for next in filled(domain, "") {
        let (name, slot) = match next {
            Ok(next) => next,
            Err(errno) => {
                let text = format!("the filled slots cannot be listed: {errno}");
                return (None, Some(Box::new(Failure::blamed(FailureKind::Unread, Blame::Monohull, text))));
            }
        };
        let outcome = plan.unread.outcome(&name);
        if outcome == OnUnread::Ignore || outputs.contains(&*name) {
            continue;
        }
        count += 1;
        bytes += slot.bytes;
        let list = if outcome == OnUnread::Fail { &mut failing } else { &mut others };
        if list.len() < LISTED_MAX {
            let left = UnreadSlot { slot: name, bytes: slot.bytes, step: None, instance: None, outcome };
            list.push((left, slot.producer as u32));
        }
    }
    if count == 0 {
        return (None, None);
    }
    let producer = producer();
    let listed = failing.into_iter().chain(others).take(LISTED_MAX);
    let slots = listed.map(|(mut slot, id)| {
        (slot.step, slot.instance) = if id == SYSTEM_INSTANCE { None } else { producer(id) }.unzip();
        slot
    });
    let unread = Unread { count, bytes, slots: slots.collect() };
    let fails = unread.slots.iter().any(|slot| slot.outcome == OnUnread::Fail);
    let failure = fails.then(|| Box::new(Failure::blamed(FailureKind::Unread, Blame::Workflow, message(&unread))));
    (Some(unread), failure)
}

/// What is unread, and what to do about it.
fn message(unread: &Unread) -> String {
    let mut text = match unread.count {
        1 => "a slot was filled and never taken: ".to_owned(),
        count => format!("{count} slots were filled and never taken: "),
    };
    let failing = unread.slots.iter().filter(|slot| slot.outcome == OnUnread::Fail);
    let mut named = 0;
    for slot in failing.take(NAMED_MAX) {
        let comma = if named > 0 { ", " } else { "" };
        let _ = write!(text, "{comma}{slot}");
        named += 1;
    }
    if unread.count > named {
        let _ = write!(text, " and {} more", unread.count - named);
    }
    text.push_str("; a step should take it, or the workflow file name it in `outputs` or `unread`");
    text
}
