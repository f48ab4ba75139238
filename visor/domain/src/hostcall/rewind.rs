//! `CAPTURE` and `REWIND`: checkpoints that a function makes of its own instance, and goes back to.
//!
//! What the system knows of an instance does not go back: descriptors stay open, slots stay filled, lines stay printed. Where the memory
//! of then would name something that is gone, a rewind is refused, and nothing has changed. The refusal says what is gone.

use super::copies::{read_bytes, refused};
use super::core::stack_of_caller;
use crate::instance::Instance;
use crate::rewinding::{Kind, Number, PointError, Record};
use crate::shared::Shared;
use monohull_abi::module::{Call, Outcome};
use monohull_abi::number::{self, FILE_HELD, SLOT_FREE, SLOT_HELD};
use monohull_abi::types::{CHECKPOINTS_MAX, Captured, HeldBuffer, REWIND_FORGET, REWIND_VALUE_MAX};
use monohull_abi::user::{CheckedSlice, UserSlice};
use monohull_abi::{Errno, file};
use monohull_report::failure::{Blame, Failure, FailureKind};
use monohull_trampoline::system::copy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// What a call ends with other than a value.
enum Stop {
    /// It is refused.
    Refused(Errno),
    /// The host has refused something half-way: the instance has ended.
    Ended,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Refused(errno)
    }
}

fn outcome(done: Result<u64, Stop>) -> Outcome {
    match done {
        Ok(value) => Outcome::ready(value as i64),
        Err(Stop::Refused(errno)) => Outcome::error(errno),
        Err(Stop::Ended) => Outcome { tag: Outcome::ENDED, value: 0 },
    }
}

/// Serves `CAPTURE`.
pub(super) fn capture(domain: &Shared, call: &mut Call) -> Outcome {
    outcome(add(domain, call))
}

/// Serves `REWIND`.
pub(super) fn rewind(domain: &Shared, call: &mut Call) -> Outcome {
    outcome(match call.args[3] {
        0 => go_back(domain, call),
        REWIND_FORGET => forget(domain, call),
        _ => Err(Errno::Invalid.into()),
    })
}

fn add(domain: &Shared, call: &mut Call) -> Result<u64, Stop> {
    let instance = domain.caller(call).ok_or(Errno::Invalid)?;
    let account = domain.account(instance.id).ok_or(Errno::Invalid)?;
    let refuse = |errno: Errno, why: String| {
        domain.explain(call, why);
        Stop::Refused(errno)
    };
    alone(domain, call, instance)?;
    let [out, value, room, ..] = call.args;
    if room > REWIND_VALUE_MAX as u64 {
        return Err(refuse(Errno::Invalid, format!("a value has at most {REWIND_VALUE_MAX} bytes")));
    }
    let places = places(domain, call, out, (value, room))?;
    // It can be written to, and will be then.
    places.value.write(&vec![0; room as usize]).map_err(|refusal| refused(domain, call, refusal))?;
    places.out.write(&[Captured::default()]).map_err(|refusal| refused(domain, call, refusal))?;
    if domain.files.pager.has_any(instance.bounds()) {
        return Err(refuse(Errno::NotSupported, "an instance that has mapped files cannot be captured".into()));
    }
    let shape = instance.with_cell(|cell| {
        let hidden = cell.mapped().ranges().any(|(_, state)| state == crate::checkpoint::record::RangeState::Hidden);
        (cell.mapped().has_images(), hidden, cell.live_stack(call.user_rsp))
    });
    let stack = match shape.ok_or(Errno::Invalid)? {
        (true, ..) => {
            let why = "an instance that has mapped its image into memory cannot be captured";
            return Err(refuse(Errno::NotSupported, why.into()));
        }
        (_, true, _) => {
            let why = "mapped memory that is inaccessible and holds something cannot be captured";
            return Err(refuse(Errno::NotSupported, why.into()));
        }
        (.., None) => {
            return Err(refuse(Errno::Fault, "the stack pointer does not lie in the thread's own stack".into()));
        }
        (.., Some(stack)) => stack,
    };
    let held = held_buffers(domain, instance);
    let bytes = Record::bytes_of(stack.end - stack.start, held.values().map(|held| held.capacity).sum());
    // Before there is a copy: it must fit. It is charged when it is added, and no other thread of the instance can be charged meanwhile.
    let points = instance.with_cell(|cell| cell.points().map_or(0, |points| points.len()));
    let fits = |bytes: i64| {
        let fits = account.charge(bytes);
        if fits {
            account.charge(-bytes);
        }
        fits
    };
    if points.ok_or(Errno::Invalid)? >= CHECKPOINTS_MAX {
        return Err(denied(domain, call, instance, PointError::TooMany));
    }
    if !i64::try_from(bytes).is_ok_and(fits) {
        return Err(denied(domain, call, instance, PointError::Limit));
    }
    let lacks = |what: &str| refuse(Errno::OutOfMemory, format!("there is no memory for a copy of {what}"));
    let mut buffers = Vec::new();
    for held in held.into_values() {
        let bytes = copied(held.address, held.capacity).ok_or_else(|| lacks("the slot buffers"))?;
        buffers.push((held, bytes));
    }
    let record = Record {
        user_rsp: call.user_rsp,
        stack: copied(stack.start, stack.end - stack.start).ok_or_else(|| lacks("the stack"))?,
        out,
        value: (value, room),
        buffers,
        files: open_files(domain, instance),
        fault_handler: *instance.fault_handler.lock().expect("fault handler"),
        ..Record::default()
    };
    let added = instance.with_cell(|cell| cell.add_point(&domain.space, record, |bytes| account.charge(bytes)));
    let checkpoint = added.ok_or(Errno::Invalid)?.map_err(|error| denied(domain, call, instance, error))?;
    instance.watched.store(true, Ordering::Relaxed);
    let here = Captured { checkpoint, rewinds: 0, len: 0 };
    places.out.write(&[here]).map_err(|refusal| refused(domain, call, refusal))?;
    Ok(0)
}

fn go_back(domain: &Shared, call: &mut Call) -> Result<u64, Stop> {
    let instance = domain.caller(call).ok_or(Errno::Invalid)?;
    let account = domain.account(instance.id).ok_or(Errno::Invalid)?;
    alone(domain, call, instance)?;
    let [checkpoint, value, len, ..] = call.args;
    let too_long = |room: u64| {
        domain.explain(call, format!("the value has {len} bytes, and there was room for {room}"));
        Errno::MessageTooLong
    };
    if len > REWIND_VALUE_MAX as u64 {
        return Err(too_long(REWIND_VALUE_MAX as u64).into());
    }
    let value = read_bytes(domain, call, value, len)?;
    let held = held_buffers(domain, instance);
    let is_mapped = domain.files.pager.has_any(instance.bounds());
    // All that can be refused is refused before anything changes.
    let cost = instance.with_cell(|cell| {
        let gone = |why: String| {
            domain.explain(call, why);
            Stop::Refused(Errno::GivenAway)
        };
        let images = cell.mapped().images_made();
        let unknown = || denied(domain, call, instance, PointError::Unknown(checkpoint));
        let points = cell.points().ok_or_else(unknown)?;
        let (record, missing) = points.find(checkpoint).map_err(|error| denied(domain, call, instance, error))?;
        if len > record.value.1 {
            return Err(too_long(record.value.1).into());
        }
        if let Some((kind, number)) = missing {
            return Err(gone(format!("{kind} {number}, which was open at the checkpoint, has been closed")));
        }
        if is_mapped {
            return Err(gone("a file has been mapped since the checkpoint".into()));
        }
        if images != record.images {
            return Err(gone("the image has been mapped into memory since the checkpoint".into()));
        }
        let is_held = |then: &HeldBuffer| held.get(&then.address) == Some(then);
        if let Some((then, _)) = record.buffers.iter().find(|(then, _)| !is_held(then)) {
            let HeldBuffer { address, capacity, continuation } = then;
            let why = match continuation {
                0 => format!("the slot buffer of {capacity} bytes at {address:#x} has been given away, freed or resized since the checkpoint"),
                _ => format!("the continuation at {address:#x} has been given away, used or freed since the checkpoint"),
            };
            return Err(gone(why));
        }
        cell.cost_of_point(&domain.space, checkpoint).map_err(|error| denied(domain, call, instance, error))
    });
    let cost = cost.ok_or(Errno::Invalid)??;
    if !account.charge(cost) {
        return Err(denied(domain, call, instance, PointError::Limit));
    }
    let back = instance.with_cell(|cell| {
        let (record, rewinds) = cell.go_back(&domain.space, checkpoint, |bytes| account.charge(bytes))?;
        let put_back = record.buffers.iter().all(|(held, bytes)| put_back(held.address, bytes));
        *instance.fault_handler.lock().expect("fault handler") = record.fault_handler;
        let kept: BTreeSet<u64> = record.buffers.iter().map(|(held, _)| held.address).collect();
        Ok((record.user_rsp, record.out, record.value, rewinds, kept, put_back))
    });
    let (user_rsp, out, place, rewinds, kept, put_back) =
        back.ok_or(Errno::Invalid)?.map_err(|error| denied(domain, call, instance, error))?;
    for address in held.into_keys().filter(|address| !kept.contains(address)) {
        // Nothing in memory names it any more.
        let args = [address, 0, 0, 0, 0, 0];
        let mut free = Call { instance: call.instance, thread: call.thread, ..Call::system(SLOT_FREE, args) };
        let _ = domain.dispatch(&mut free);
    }
    let places = places(domain, call, out, place)?;
    let here = Captured { checkpoint, rewinds, len };
    let written = places.value.write(&value).and_then(|()| places.out.write(&[here]));
    drop(places);
    if !put_back || written.is_err() {
        let lost = std::io::Error::from_raw_os_error(libc::EFAULT);
        return Err(denied(domain, call, instance, PointError::Memory(lost)));
    }
    call.user_rsp = user_rsp;
    Ok(1)
}

fn forget(domain: &Shared, call: &mut Call) -> Result<u64, Stop> {
    let instance = domain.caller(call).ok_or(Errno::Invalid)?;
    let account = domain.account(instance.id).ok_or(Errno::Invalid)?;
    let checkpoint = call.args[0];
    let forgotten = instance.with_cell(|cell| match cell.points() {
        Some(points) => points.forget(checkpoint, |bytes| account.charge(bytes)).map(|()| points.len()),
        None => Err(PointError::Unknown(checkpoint)),
    });
    let left = forgotten.ok_or(Errno::Invalid)?.map_err(|error| denied(domain, call, instance, error))?;
    instance.watched.store(left > 0, Ordering::Relaxed);
    Ok(0)
}

/// Refuses a call of an instance that has other threads.
fn alone(domain: &Shared, call: &Call, instance: &Instance) -> Result<(), Stop> {
    let threads = domain.lock().threads_of(instance.id);
    if threads == 1 && stack_of_caller(domain, call).is_none() {
        return Ok(());
    }
    let others = threads.saturating_sub(1);
    domain.explain(
        call,
        format!("the instance has {others} other threads, whose stacks cannot be captured or gone back to"),
    );
    Err(Errno::Busy.into())
}

/// Where a function is told where it is.
struct Places<'h> {
    out: CheckedSlice<'h, Captured>,
    value: CheckedSlice<'h, u8>,
}

/// They lie in the cell: a slot buffer may be another instance's at the time of a rewind.
fn places<'d>(domain: &'d Shared, call: &Call, out: u64, (value, room): (u64, u64)) -> Result<Places<'d>, Stop> {
    let out = UserSlice::new(out, 1).check_cell(domain.host(), call).map_err(|r| refused(domain, call, r))?;
    let value = UserSlice::new(value, room).check_cell(domain.host(), call).map_err(|r| refused(domain, call, r))?;
    Ok(Places { out, value })
}

/// The slot buffers that an instance holds, by address.
fn held_buffers(domain: &Shared, instance: &Instance) -> BTreeMap<u64, HeldBuffer> {
    let mut held = BTreeMap::new();
    // Without buffers the module that knows them is not loaded, and need not be.
    while domain.hostcalls.table.is_bound(SLOT_HELD) {
        let mut next = HeldBuffer::default();
        let behind = held.last_key_value().map_or(0, |(address, _)| *address);
        let args = [instance.id.into(), behind, (&raw mut next) as u64, 0, 0, 0];
        if domain.call(SLOT_HELD, args) != Ok(1) {
            break;
        }
        held.insert(next.address, next);
    }
    held
}

/// The descriptors that an instance has open.
fn open_files(domain: &Shared, instance: &Instance) -> BTreeSet<u64> {
    let mut open = BTreeSet::new();
    while domain.hostcalls.table.is_bound(FILE_HELD) {
        let behind = open.last().copied().unwrap_or(0);
        match domain.call(FILE_HELD, [instance.id.into(), behind, 0, 0, 0, 0]) {
            Ok(descriptor) if descriptor > behind => open.insert(descriptor),
            _ => break,
        };
    }
    open
}

/// A copy of memory of the calling instance; `None` if there is no memory for it.
fn copied(address: u64, len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    // SAFETY: a buffer that the instance holds, or its stack; a fault is survived.
    unsafe { copy(bytes.as_mut_ptr(), address as *const u8, len) }.then_some(bytes)
}

/// Makes a slot buffer what it was. What has not changed is not written to.
fn put_back(address: u64, bytes: &[u8]) -> bool {
    const STEP: usize = 4096;
    let mut now = [0; STEP];
    (address..).step_by(STEP).zip(bytes.chunks(STEP)).all(|(address, then)| {
        let now = &mut now[..then.len()];
        // SAFETY: a buffer that the calling instance holds; a fault is survived.
        unsafe {
            copy(now.as_mut_ptr(), address as *const u8, then.len())
                && (now == then || copy(address as *mut u8, then.as_ptr(), then.len()))
        }
    })
}

/// The answer to what went wrong with checkpoints.
fn denied(domain: &Shared, call: &Call, instance: &Instance, error: PointError) -> Stop {
    let errno = match &error {
        PointError::Limit => {
            let limit = instance.config.memory_limit;
            let text = format!(
                "checkpoints and the memory that they are of do not fit into the memory limit of {limit} bytes"
            );
            domain.explain(call, text);
            return Errno::OutOfMemory.into();
        }
        PointError::TooMany | PointError::Mappings => Errno::TooMany,
        PointError::Unknown(_) => Errno::NotFound,
        PointError::Host(_) | PointError::Memory(_) => {
            domain.end(instance, Err(Box::new(Failure::blamed(FailureKind::Load, Blame::Host, error.to_string()))));
            return Stop::Ended;
        }
    };
    domain.explain(call, error.to_string());
    errno.into()
}

/// Tells the checkpoints of an instance of a number that its call has opened or closed.
#[cold]
pub(crate) fn note_numbers(instance: &Instance, call: &Call) {
    if call.value < 0 {
        return;
    }
    let Ok(made) = u32::try_from(call.number) else { return };
    let (opened, closed): (Option<Number>, Option<Number>) = match made {
        number::FILE_OPEN => (Some((Kind::File, call.value as u64)), None),
        number::FILE_CLOSE => (None, Some((Kind::File, call.args[0]))),
        number::FILE_DUP => {
            // What had this number before is closed.
            let target = Some(call.args[1]).filter(|target| *target != file::LOWEST_FREE);
            if target == Some(call.args[0]) {
                return;
            }
            (Some((Kind::File, call.value as u64)), target.map(|target| (Kind::File, target)))
        }
        number::TCP_LISTEN | number::TCP_CONNECT | number::TCP_ACCEPT | number::UDP_BIND | number::SOCKET_DUP => {
            (Some((Kind::Socket, call.value as u64)), None)
        }
        number::SOCKET_CLOSE => (None, Some((Kind::Socket, call.args[0]))),
        number::QUEUE_NEW => (Some((Kind::Queue, call.value as u64)), None),
        number::QUEUE_CLOSE => (None, Some((Kind::Queue, call.args[0]))),
        _ => return,
    };
    instance.with_cell(|cell| {
        if let Some(points) = cell.points() {
            closed.into_iter().for_each(|number| points.closed(number));
            opened.into_iter().for_each(|number| points.opened(number));
        }
    });
}

const _: () = assert!(CHECKPOINTS_MAX <= 1024, "they are looked for one after the other");
