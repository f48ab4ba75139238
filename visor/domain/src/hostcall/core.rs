//! The hostcalls the visor serves itself: instances, threads, futexes, facts.

use super::copies::{caller, read_bytes, refused, write_bytes};
use super::effects::perform;
use super::leaving::{checkpoint as save_point, child_cancel, child_id, child_start, fork, publish, send};
use crate::checkpoint;
use crate::dispatcher::SchedulerGuard;
use crate::fault::{FaultHandler, add_place_of_call};
use crate::instance::Instance;
use crate::processor;
use crate::sched::wait_key;
use crate::shared::Shared;
use monohull_abi::layout::MAPPINGS_OFFSET;
use monohull_abi::module::{Call, NEVER, Outcome, Wake};
use monohull_abi::types::{AbortKind, Info, InfoString};
use monohull_abi::user::{CheckedSlice, UserSlice};
use monohull_abi::{Errno, number};
use monohull_report::failure::{Failure, FailureKind};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// The name under which the number table lists these calls.
pub(crate) const NAME: &str = "core";
/// Longest message of a failing function.
const MESSAGE_MAX: u64 = 64 * 1024;
/// Most random bytes of one call.
const RANDOM_MAX: u64 = 64 * 1024;

/// Requests up to this size are filled whole, whatever signals come (`getrandom(2)`).
const GETRANDOM_WHOLE: usize = 256;

/// Binds all of them.
pub(crate) fn bind(domain: &Shared) {
    /// Gives each number a handler of its own, which runs this code on the domain and the call.
    macro_rules! bind {
        ($( $number:ident => $serve:expr, )*) => { $({
            unsafe extern "C" fn handler(state: *mut c_void, call: *mut Call) -> Outcome {
                let serve: fn(&Shared, &mut Call) -> Outcome = $serve;
                // SAFETY: bound with the domain as its state; the call is the carrier's while its handler runs.
                serve(unsafe { &*state.cast::<Shared>() }, unsafe { &mut *call })
            }
            domain.hostcalls.table.bind([number::$number], handler, domain.as_state());
        })* };
    }
    bind! {
        NULL => |_, _| Outcome::ready(0),
        EXIT => exit,
        ABORT => fail,
        THREAD_SPAWN => |domain, call| thread_spawn(domain, call).into(),
        THREAD_EXIT => thread_exit,
        THREAD_JOIN => thread_join,
        THREAD_YIELD => |_, _| Outcome { tag: Outcome::YIELD, value: 0 },
        // Served by the run loop itself (see `futex_wait`); other callers have no thread to park.
        FUTEX_WAIT => |_, _| Outcome::error(Errno::Invalid),
        FUTEX_WAKE => |domain, call| futex_wake(domain, call).into(),
        GET_STRING_LEN => |domain, call| common(domain, call, |domain, call| Ok(text(domain, call)?.len() as u64)),
        GET_STRING => |domain, call| common(domain, call, text_read),
        GET_INFO => |domain, call| common(domain, call, info),
        GETRANDOM => |domain, call| common(domain, call, random),
        LAST_ERROR_MESSAGE => |domain, call| explain(domain, call).into(),
        EVENTS_OPEN => |domain, _| Outcome::ready(domain.options.may_wait_for_events.into()),
        FAULT_HANDLER => |domain, call| fault_handler(domain, call).into(),
        PUBLISH => |domain, call| publish(domain, call).into(),
        SEND => |domain, call| common(domain, call, send),
        PERFORM => |domain, call| perform(domain, call).into(),
        CHILD_START => |domain, call| common(domain, call, child_start),
        CHILD_CANCEL => |domain, call| common(domain, call, child_cancel),
        CHILD_ID => |domain, call| common(domain, call, child_id),
        CHECKPOINT => |domain, call| common(domain, call, save_point),
        FORK => |domain, call| common(domain, call, fork),
        READY => checkpoint::ready,
        CAPTURE => super::rewind::capture,
        REWIND => super::rewind::rewind,
        HOST_FILES => |domain, call| super::host_files::serve(domain, call).into(),
    }
}

fn exit(domain: &Shared, call: &mut Call) -> Outcome {
    let Ok(instance) = caller(domain, call) else { return Outcome::error(Errno::Invalid) };
    let status = call.args[0] as i32;
    let ending = match status {
        0 => Ok(()),
        _ => Err(Box::new(Failure::new(FailureKind::Exit, format!("exited with status {status}")))),
    };
    domain.end(instance, ending);
    Outcome { tag: Outcome::ENDED, value: 0 }
}

fn fail(domain: &Shared, call: &mut Call) -> Outcome {
    let Ok(instance) = caller(domain, call) else { return Outcome::error(Errno::Invalid) };
    let Some(kind) = AbortKind::from_raw(call.args[0]) else { return Outcome::error(Errno::Invalid) };
    let message = match read_bytes(domain, call, call.args[1], call.args[2].min(MESSAGE_MAX)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(errno) => format!("(its message cannot be read: {errno})"),
    };
    let mut failure = match kind {
        AbortKind::Panic => Failure::new(FailureKind::Panic, message),
        AbortKind::Error => Failure::new(FailureKind::Error, message),
        AbortKind::Permanent => Failure::new(FailureKind::Permanent, message),
        AbortKind::OutOfMemory => {
            let limit = instance.config.memory_limit;
            let used = domain.account(instance.id).map_or(0, |account| account.charged());
            let text = format!("could not allocate {message}: it uses {used} bytes, its memory limit is {limit} bytes");
            Failure::new(FailureKind::MemoryLimit, text)
        }
    };
    // An error that `main` returns, or that a program ends with by name, is told there: how it came to be is not on the stack any more.
    if !matches!(kind, AbortKind::Error | AbortKind::Permanent) {
        add_place_of_call(instance, call, &mut failure);
    }
    domain.end(instance, Err(Box::new(failure)));
    Outcome { tag: Outcome::ENDED, value: 0 }
}

fn thread_spawn(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let instance = caller(domain, call)?;
    let [entry, argument, ..] = call.args;
    let most = instance.config.max_threads as usize;
    let too_many = || {
        domain.explain(call, format!("no more than {most} threads at a time"));
        Errno::TooMany
    };
    if domain.lock().threads_of(instance.id) >= most {
        return Err(too_many());
    }
    let (stack, user_rsp) = stack_for_thread(domain, call, instance, entry)?;
    let mut scheduler = domain.lock();
    // Another thread of the instance may have started one meanwhile.
    let thread = match scheduler.threads_of(instance.id) < most {
        true => scheduler.spawn(instance.id, Some(stack), user_rsp, argument as i64),
        false => None,
    };
    let Some(thread) = thread else {
        drop(scheduler);
        instance.with_cell(|cell| cell.close_stack(stack));
        return Err(too_many());
    };
    scheduler.enqueue(thread);
    let number = scheduler.number(thread);
    domain.call_carrier(scheduler);
    Ok(u64::from(number))
}

/// A stack for a thread, and the stack pointer to enter it with. The instance is charged for a stack when a thread first gets it, and for as long as
/// it lives: it keeps what was written there, and its rights.
fn stack_for_thread(domain: &Shared, call: &Call, instance: &Instance, entry: u64) -> Result<(u32, u64), Errno> {
    let charge = instance.config.stack_size as i64;
    let account = domain.account(instance.id).ok_or(Errno::Invalid)?;
    let opened = instance.with_cell(|cell| {
        let is_new = cell.needs_stack();
        if is_new && !account.charge(charge) {
            domain.explain(call, format!("a stack of {charge} bytes does not fit into the memory limit"));
            return Err(Errno::OutOfMemory);
        }
        match cell.open_stack(&domain.space) {
            Ok(Some(stack)) => Ok((stack, cell.prepare_stack(Some(stack), entry))),
            Ok(None) => {
                account.charge(-charge);
                Err(Errno::TooMany)
            }
            // Its pages may have rights, so the charge stays.
            Err(error) => {
                domain.explain(call, error.to_string());
                Err(Errno::OutOfMemory)
            }
        }
    });
    opened.unwrap_or(Err(Errno::TooMany))
}

/// The stack slot of the calling thread; `None` for a main thread.
pub(super) fn stack_of_caller(domain: &Shared, call: &Call) -> Option<u32> {
    let scheduler = domain.lock();
    domain.thread_of(&scheduler, call).and_then(|thread| scheduler.stack(thread))
}

fn thread_exit(domain: &Shared, call: &mut Call) -> Outcome {
    let Ok(instance) = caller(domain, call) else { return Outcome::error(Errno::Invalid) };
    let Some(stack) = stack_of_caller(domain, call) else {
        domain.end(instance, Ok(()));
        return Outcome { tag: Outcome::ENDED, value: 0 };
    };
    instance.with_cell(|cell| cell.close_stack(stack));
    instance.explanations.take(call.thread);
    Outcome { tag: Outcome::ENDED, value: 0 }
}

fn thread_join(domain: &Shared, call: &mut Call) -> Outcome {
    let Ok(number) = u32::try_from(call.args[0]) else { return Outcome::error(Errno::Invalid) };
    let mut scheduler = domain.lock();
    let Some(own) = domain.thread_of(&scheduler, call) else { return Outcome::error(Errno::Invalid) };
    match scheduler.find(number, call.instance) {
        Some(other) if other != own => {}
        Some(_) => return Outcome::error(Errno::Deadlock),
        None => return Outcome::ready(0),
    }
    if call.wake == Wake::Deadlock {
        drop(scheduler);
        return deadlock(domain, call, "waits for a thread");
    }
    let armed = scheduler.wait(own, wait_key::join(number), NEVER);
    domain.sched.announce(&mut scheduler, armed);
    Outcome::park()
}

/// Waits on a futex. The most frequent way to park, so it does not go through the table: it reads the word and queues the
/// thread, and the run loop chooses the next one, all under one hold of the scheduler's lock.
///
/// The word lies in the caller's image, heap or stacks. One in a slot buffer would change owners with it, and threads that
/// wait there would get wake-ups of the new owner. One in a mapped file might have to be read from the host's
/// disk first, while the lock is held.
pub(crate) fn futex_wait<'d>(domain: &'d Shared, call: &mut Call) -> Result<SchedulerGuard<'d>, Outcome> {
    match call.wake {
        Wake::TimedOut => return Err(Outcome::error(Errno::TimedOut)),
        Wake::Deadlock => return Err(deadlock(domain, call, "waits for a lock or a signal")),
        Wake::First | Wake::Woken => {}
    }
    let [address, expected, timeout, ..] = call.args;
    let slice = match futex_word(domain, call, address) {
        Ok(slice) => slice,
        Err(errno) => return Err(Outcome::error(errno)),
    };
    let Ok(expected) = u32::try_from(expected) else {
        domain.explain(call, format!("{expected:#x} is no value of a 32-bit word"));
        return Err(Outcome::error(Errno::Invalid));
    };
    let deadline = match timeout {
        NEVER => NEVER,
        _ => domain.clock.host_now().saturating_add(timeout),
    };
    // Under the lock, so that a wake-up between looking and waiting is not lost.
    let mut scheduler = domain.lock();
    let mut word = [MaybeUninit::uninit()];
    match slice.read_at(0, &mut word) {
        Ok(word) if word[0] == expected => {}
        Ok(_) => return Err(Outcome::error(Errno::Again)),
        Err(refusal) => {
            drop(scheduler);
            return Err(Outcome::error(refused(domain, call, refusal)));
        }
    }
    let Some(thread) = domain.thread_of(&scheduler, call) else { return Err(Outcome::error(Errno::Invalid)) };
    let armed = scheduler.wait(thread, address, deadline);
    domain.sched.announce(&mut scheduler, armed);
    Ok(scheduler)
}

/// A word that threads may wait on.
fn futex_word<'d>(domain: &'d Shared, call: &Call, address: u64) -> Result<CheckedSlice<'d, u32>, Errno> {
    let slice = UserSlice::<u32>::new(address, 1).check_cell(domain.host(), call);
    let slice = slice.map_err(|refusal| refused(domain, call, refusal))?;
    let mapped = domain.caller(call).is_some_and(|caller| address >= caller.bounds().start + MAPPINGS_OFFSET);
    if mapped {
        domain.explain(call, "threads cannot wait on a word in a mapped file".into());
        return Err(Errno::Fault);
    }
    Ok(slice)
}

fn futex_wake(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let [address, most, ..] = call.args;
    futex_word(domain, call, address)?;
    let mut scheduler = domain.lock();
    // The waiter is recognised: its call is done, it need not run its handler again.
    let woken = scheduler.wake(address, most, Some(0), call.carrier as usize);
    Ok(domain.sched.notify(&mut scheduler, woken))
}

/// All threads wait: nothing that this instance does can end the wait.
fn deadlock(domain: &Shared, call: &Call, what: &str) -> Outcome {
    let Ok(instance) = caller(domain, call) else { return Outcome::error(Errno::Deadlock) };
    let text = format!("{what}, and no thread is left that could end the wait");
    let mut failure = Failure::new(FailureKind::Deadlock, text);
    add_place_of_call(instance, call, &mut failure);
    domain.end(instance, Err(Box::new(failure)));
    Outcome { tag: Outcome::ENDED, value: 0 }
}

fn text<'d>(domain: &'d Shared, call: &Call) -> Result<&'d str, Errno> {
    let config = &caller(domain, call)?.config;
    Ok(match InfoString::from_raw(call.args[0]).ok_or(Errno::Invalid)? {
        InfoString::Args => &config.args,
        InfoString::Env => &config.env,
        InfoString::Function => &config.labels.function,
        InfoString::Step => &config.labels.step,
        InfoString::Workflow => &config.labels.workflow,
        InfoString::Stdin => &config.stdin,
        InfoString::Invocation => &domain.options.invocation,
        InfoString::HandedOver => &domain.options.handed_over,
        InfoString::PublicUrl => &domain.options.public_url,
    })
}

fn text_read(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let text = text(domain, call)?;
    write_bytes(domain, call, call.args[1], call.args[2], text.as_bytes())
}

fn info(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let instance = caller(domain, call)?;
    let config = &instance.config;
    let init = config.image.image.init_array;
    let tls = config.image.image.tls;
    if let Some(answer) = processor::cpuid_fact(call.args[0]) {
        return Ok(answer);
    }
    Ok(match Info::from_raw(call.args[0]).ok_or(Errno::Invalid)? {
        Info::InstanceIndex => config.index.into(),
        Info::InstanceCount => config.count.into(),
        Info::StackSize => config.stack_size,
        Info::Thread => match stack_of_caller(domain, call) {
            None => 0,
            Some(_) => call.thread.into(),
        },
        Info::MemoryLimit => config.memory_limit,
        Info::Parallelism => domain.options.carriers as u64,
        Info::Attempt => config.attempt.into(),
        Info::InitArray => init.map_or(0, |(offset, _)| instance.image_base + offset),
        Info::InitCount => init.map_or(0, |(_, count)| count),
        Info::TlsAddress => tls.map_or(0, |tls| instance.image_base + tls.address),
        Info::TlsFileSize => tls.map_or(0, |tls| tls.file_size),
        Info::TlsMemorySize => tls.map_or(0, |tls| tls.memory_size),
        Info::TlsAlign => tls.map_or(0, |tls| tls.align),
        Info::Generation => domain.lineage().generation,
        Info::ForkIndex => domain.lineage().copy.into(),
        Info::ForkCount => domain.lineage().copies.into(),
    })
}

fn fault_handler(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let instance = caller(domain, call)?;
    let [entry, start, bytes, ..] = call.args;
    let handler = FaultHandler { entry, start, bytes };
    let handler = match bytes {
        0 => None,
        _ => {
            handler.check(&instance.config.image.image, instance.image_base).map_err(|refusal| {
                domain.explain(call, refusal.to_string());
                Errno::from(refusal)
            })?;
            Some(handler)
        }
    };
    *instance.fault_handler.lock().expect("fault handler") = handler;
    Ok(0)
}

/// Serves a call, unless a template is being made of which this would not be a part of all instances.
fn common(domain: &Shared, call: &mut Call, serve: fn(&Shared, &mut Call) -> Result<u64, Errno>) -> Outcome {
    domain.refuse_own(call).unwrap_or_else(|| serve(domain, call).into())
}

fn random(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let [buffer, len, ..] = call.args;
    if len > RANDOM_MAX {
        return Err(Errno::Invalid);
    }
    let mut bytes = vec![0u8; len as usize];
    for piece in bytes.chunks_mut(GETRANDOM_WHOLE) {
        // SAFETY: the piece is writable for its length.
        let got = unsafe { libc::getrandom(piece.as_mut_ptr().cast(), piece.len(), 0) };
        if usize::try_from(got) != Ok(piece.len()) {
            return Err(Errno::Io);
        }
    }
    write_bytes(domain, call, buffer, len, &bytes)
}

fn explain(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let [buffer, len, ..] = call.args;
    let text = domain.explanation(call);
    write_bytes(domain, call, buffer, len, text.as_bytes())
}
