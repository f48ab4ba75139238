//! The hostcall that waits for an event from outside.
//!
//! Trusted code publishes an event in a slot that functions cannot name ([`monohull_abi::event`]). A function takes the first of a
//! name: its buffer is the function's then, as one from any other slot is.
//!
//! ```text
//!            publish           take                 the instance fails
//!   outside ─────────▶ given ─────────▶ held by A ───────────────────▶ taken ──▶ held by B …
//!                        ▲                                               │
//!   a checkpoint:        └ not in it: the mailbox has it                └ in it
//! ```
//!
//! A thread that waits for the first of several events has a queue of its own, which each event wakes: the handler looks for its names again.
//!
//! So each event is in one place: in the mailbox until a checkpoint has it as taken. Those that have come back are taken before newer
//! ones.

use crate::Memory;
use crate::slots::KEY_TAG;
use crate::table::{Buffer, BufferState, Denied, Found, Table};
use crate::texts::TextBuffer;
use alloc::format;
use alloc::sync::Arc;
use core::ops::Bound;
use monohull_abi::event::{
    ANY_EVENT, EVENT_LIST_MAX, EVENT_SEPARATOR, EventQueue, EventSlot, EventState, event_queue_of, is_event_list,
};
use monohull_abi::module::{Call, SYSTEM_INSTANCE, Wake};
use monohull_abi::types::{BYTES_FINGERPRINT, SlotView, fingerprint};
use monohull_abi::{Errno, Outcome, number};

/// What waiters for events of a name wait on.
pub(crate) fn key_of(name: &str) -> u64 {
    let queue = format!("{}", EventQueue { name, state: EventState::Given });
    fingerprint(queue.as_bytes()) | KEY_TAG
}

impl Memory {
    /// Wakes those that wait for what lies in a slot now.
    pub(crate) fn wake_for(&self, slot: &str) {
        // All of them: another name may have the same key, and a waiter that asks for the wrong type does not take the buffer.
        self.host.wake(crate::slots::key_of(slot), u64::MAX);
        if EventSlot::parse(slot).is_some() {
            self.host.wake(key_of(ANY_EVENT), u64::MAX);
        }
    }

    /// The deadline is a time and not a duration, so that the handler can run again with nothing but its arguments.
    pub(crate) fn event_wait(&self, call: &mut Call) -> Outcome {
        match self.try_event(call) {
            Ok(Some(which)) => Outcome::ready(which as i64),
            Ok(None) => Outcome::park(),
            Err(errno) => Outcome::error(errno),
        }
    }

    /// `None` if the call has been registered to wait.
    fn try_event(&self, call: &mut Call) -> Result<Option<usize>, Errno> {
        // What trusted code takes has no place to which it could go back.
        if call.instance == SYSTEM_INSTANCE {
            return Err(Errno::Invalid);
        }
        let [names, names_len, out, deadline, ..] = call.args;
        let mut room = TextBuffer::<EVENT_LIST_MAX>::new();
        let names = room.read(self, call, names, names_len, "the event's name")?;
        if !is_event_list(names) {
            let why = format_args!("the event's name is empty, too long, or has a control character");
            return Err(self.host.explain(call, Errno::Invalid, why));
        }
        // Checked before ownership changes: can the answer be written?
        self.write_out(call, out, SlotView::default(), "the address for the event's view")?;
        let is_late = call.wake == Wake::TimedOut || deadline <= self.host.now();
        // A wait that goes on from a checkpoint is waited out, whatever this run receives.
        let has_waited = call.wake != Wake::First;
        let may_arrive = has_waited || matches!(self.host.call(number::EVENTS_OPEN, [0; 6]), Ok((1, _)));
        let may_wait = may_arrive && call.wake != Wake::Deadlock && !is_late;
        let (instance, mut waits) = (call.instance, false);
        let found = self.with_room(instance, |table, _| {
            let found = table.take_event(instance, names);
            if matches!(found, Ok(None)) && may_wait {
                // Under the lock, so that an event that comes back now finds the waiter.
                self.host.wait(call, key_of(event_queue_of(names)), deadline);
                waits = true;
            }
            found
        });
        if waits {
            return Ok(None);
        }
        let Some((which, found)) = found.map_err(|denied| self.deny(call, denied))? else {
            return Err(self.no_event(call, names, may_arrive, is_late));
        };
        self.host.count_taken(instance, found.bytes);
        self.write_out(call, out, found.view, "the address for the event's view")?;
        Ok(Some(which))
    }

    fn no_event(&self, call: &Call, names: &str, may_arrive: bool, is_late: bool) -> Errno {
        let name = names.replace(EVENT_SEPARATOR, "` or `");
        if !may_arrive {
            let why = format_args!(
                "event `{name}` cannot arrive: this run receives none. `monohull run --event NAME=FILE` gives it one, `--state` or \
                 `--suspend` starts one that waits for it"
            );
            return self.host.explain(call, Errno::NotPermitted, why);
        }
        if is_late {
            return self.host.explain(call, Errno::TimedOut, format_args!("no event `{name}` has arrived in time"));
        }
        let why = format_args!(
            "event `{name}` cannot arrive: nothing else runs, and the workflow cannot be suspended until it is sent"
        );
        self.host.explain(call, Errno::Deadlock, why)
    }
}

impl Buffer {
    /// Whether an event lies there that has not been taken.
    pub(crate) fn is_given_event(&self) -> bool {
        let BufferState::InSlot { slot } = &self.state else { return false };
        EventSlot::parse(&slot.name).is_some_and(|event| event.state == EventState::Given)
    }
}

impl Table {
    /// The slot in which the first event of a name lies that is in this state.
    fn first_event(&self, name: &str, state: EventState) -> Option<Arc<str>> {
        let queue = format!("{}", EventQueue { name, state });
        let slots = self.names.range::<str, _>((Bound::Included(&*queue), Bound::Unbounded)).map(|(slot, _)| slot);
        let mut own = slots.take_while(|slot| slot.starts_with(&*queue));
        own.find(|slot| self.filled(slot).is_some()).cloned()
    }

    /// The event of a list of names that was sent first, among those that have come back, or else those that have not been taken: which
    /// name it has, and the slot in which it lies.
    fn first_of(&self, names: &str) -> Option<(usize, Arc<str>)> {
        let number = |(_, slot): &(usize, Arc<str>)| EventSlot::parse(slot).map(|event| event.number);
        [EventState::Taken, EventState::Given].into_iter().find_map(|state| {
            let firsts = names.split(EVENT_SEPARATOR).enumerate();
            firsts.filter_map(|(which, name)| Some((which, self.first_event(name, state)?))).min_by_key(number)
        })
    }

    /// Takes the first event of a list of names.
    fn take_event(&mut self, by: u32, names: &str) -> Result<Option<(usize, Found)>, Denied> {
        let Some((which, slot)) = self.first_of(names) else { return Ok(None) };
        let found = self.take(by, &slot, BYTES_FINGERPRINT)?;
        // If it comes back it is the domain's own.
        let taken = EventSlot::parse(&slot).map(|event| format!("{}", EventSlot { state: EventState::Taken, ..event }));
        let origin = found.as_ref().and_then(|found| self.buffers.get_mut(&found.view.address));
        if let (Some(Buffer { state: BufferState::Held { origin: Some(slot), .. }, .. }), Some(taken)) = (origin, taken)
        {
            slot.name = taken.into();
        }
        Ok(found.map(|found| (which, found)))
    }
}
