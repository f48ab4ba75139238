//! Hostcalls of a WebAssembly program for WASI preview 1, by the imports of the module `monohull` that do the same.
//!
//! A slot's buffer is memory of the program's allocator here: what is taken is moved there, and what is published is moved away. Bytes and texts are all
//! that there is, and [continuations](continuations): a type of its own, which a native function checks, has no import.
//!
//! ```text
//!   hostcalls                      import
//!   CHECKPOINT, then EVENT_WAIT    checkpoint
//!   FORK, then EVENT_WAIT          fork
//!   PERFORM, then SLOT_TAKE        perform
//! ```
//!
//! Such an import gives at once what the first call asks for and the second one waits for. It is kept until then, under a name that begins with a zero byte.

#[cfg(any(target_feature = "atomics", not(target_env = "p1"), not(feature = "alloc")))]
compile_error!("for WebAssembly this crate needs the feature `alloc` and the target `wasm32-wasip1`, without threads");

mod continuations;

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use monohull_abi::child::DETACHED;
use monohull_abi::continuation::CONTINUATION_FINGERPRINT;
use monohull_abi::effect::EFFECT_SLOT_LEN;
use monohull_abi::layout::PAGE;
use monohull_abi::types::{
    AbortKind, BYTES_FINGERPRINT, Captured, Clock, MOVED_MIN, REWIND_FORGET, SlotView, TAKE_NOW, TEXT_FINGERPRINT,
    TypeDesc,
};
use monohull_abi::{Errno, number};

/// A handle and a length.
#[repr(C)]
#[derive(Default)]
struct Pair {
    handle: u32,
    len: u32,
}

#[link(wasm_import_module = "monohull")]
unsafe extern "C" {
    fn slot_take(name: *const u8, name_len: usize, wait: u32, out: *mut Pair) -> i32;
    fn slot_move(handle: u32, to: *mut u8, len: usize) -> i32;
    fn slot_free(handle: u32) -> i32;
    fn slot_publish_moved(name: *const u8, name_len: usize, bytes: *mut u8, len: usize, is_text: u32) -> i32;
    fn event(names: *const u8, names_len: usize, timeout: u64, out: *mut Pair) -> i32;
    fn send(id: *const u8, id_len: usize, name: *const u8, name_len: usize, bytes: *const u8, len: usize) -> i32;
    fn state(name: *const u8, name_len: usize, text: *const u8, len: usize) -> i32;
    fn start_child(
        workflow: *const u8,
        workflow_len: usize,
        id: *const u8,
        id_len: usize,
        input: *const u8,
        len: usize,
        detached: u32,
    ) -> i32;
    fn cancel_child(id: *const u8, id_len: usize) -> i32;
    fn child_id(id: *const u8, id_len: usize, to: *mut u8, room: usize) -> i32;
    fn perform(effect: *const u8, effect_len: usize, request: *const u8, len: usize, out: *mut Pair) -> i32;
    fn checkpoint(label: *const u8, len: usize) -> i32;
    fn fork(copies: u32, out: *mut Pair) -> i32;
    fn capture(checkpoint: *mut u64, value: *mut u8, len: *mut u32) -> i32;
    fn rewind(checkpoint: u64, value: *const u8, len: usize) -> i32;
    fn forget(checkpoint: u64) -> i32;
    #[link_name = "number"]
    fn number_of(which: u32) -> i64;
    fn text(which: u32, to: *mut u8, room: usize) -> i32;
    fn last_error(to: *mut u8, room: usize) -> i32;
    fn ready() -> u32;
    fn fail(is_permanent: u32, text: *const u8, len: usize) -> !;
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn clock_time_get(clock: u32, precision: u64, out: *mut u64) -> i32;
    fn random_get(to: *mut u8, len: usize) -> i32;
    fn poll_oneoff(subscriptions: *const Subscription, events: *mut [u64; 4], count: usize, out: *mut u32) -> i32;
    fn sched_yield() -> i32;
}

/// A subscription of WASI to a clock.
#[repr(C)]
struct Subscription {
    user: u64,
    kind: u64,
    clock: u64,
    timeout: u64,
    precision: u64,
    flags: u64,
}

/// Clocks of WASI.
const REALTIME: u32 = 0;
const MONOTONIC: u32 = 1;

/// The name of what is kept for the next call.
const KEPT: u8 = 0;
/// Before each buffer is its layout, in so many bytes or its alignment, if that is more.
const HEAD: usize = 16;

/// What is between two calls.
#[derive(Default)]
struct Between {
    /// What an import has given: what the second call returns, and the buffer.
    told: Option<(u64, SlotView)>,
    /// What was in a slot and is no text, with the slot's name, until it is taken as bytes.
    no_text: Option<(Box<[u8]>, SlotView)>,
    /// The handle of a continuation that is to be freed at once.
    discarded: Option<u32>,
    /// The last error was found here, about a slot: there is no explanation of it.
    is_unexplained: bool,
}

struct OneThread(RefCell<Between>);

// SAFETY: without atomics, as is checked above, a program has one thread.
unsafe impl Sync for OneThread {}

static BETWEEN: OneThread =
    OneThread(RefCell::new(Between { told: None, no_text: None, discarded: None, is_unexplained: false }));

/// What an import has answered that has the numbers of hostcalls.
fn answered(answer: i32) -> Result<u64, Errno> {
    Errno::from_value(answer.into())
}

/// The same of one with the numbers of WASI.
fn of_slots(error: i32) -> Result<(), Errno> {
    Err(match error {
        0 => return Ok(()),
        2 | 63 => Errno::NotPermitted,
        6 => Errno::NotFound,
        10 => Errno::Busy,
        20 => Errno::Exists,
        21 => Errno::Fault,
        22 | 35 => Errno::MessageTooLong,
        25 | 28 => Errno::Invalid,
        42 => Errno::TooMany,
        44 => Errno::NeverFilled,
        48 => Errno::OutOfMemory,
        _ => Errno::Io,
    })
}

/// Bytes that the caller of a hostcall has given by address and length.
///
/// # Safety
/// There are so many, and they do not change for as long as they are used.
unsafe fn bytes<'a>(at: u64, len: u64) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { core::slice::from_raw_parts(at as *const u8, len as usize) },
    }
}

/// A buffer of zeros.
fn alloc(len: u64, align: u64) -> Result<SlotView, Errno> {
    let align = if len >= MOVED_MIN { align.max(PAGE) } else { align.max(HEAD as u64) } as usize;
    let size = usize::try_from(len).ok().and_then(|len| len.max(1).checked_add(align)).ok_or(Errno::OutOfMemory)?;
    let layout = Layout::from_size_align(size, align).map_err(|_| Errno::OutOfMemory)?;
    // SAFETY: the layout has a size.
    let base = unsafe { alloc_zeroed(layout) };
    if base.is_null() {
        return Err(Errno::OutOfMemory);
    }
    // SAFETY: the first `align` bytes of it, 16 or more, come before the buffer, which is aligned to 16 bytes or more as well.
    let start = unsafe {
        let start = base.add(align);
        start.cast::<Layout>().sub(1).write(layout);
        start
    };
    Ok(SlotView { address: start as u64, count: len, capacity: len })
}

/// Frees a buffer.
fn free(address: u64) {
    let start = address as *mut u8;
    // SAFETY: the address is one that `alloc` has given: `Raw` and `c` free what they own, once. So its layout comes before.
    unsafe {
        let layout = start.cast::<Layout>().sub(1).read();
        dealloc(start.sub(layout.align()), layout);
    }
}

/// The layout that a buffer was allocated with.
fn layout_of(address: u64) -> Layout {
    // SAFETY: as in `free`.
    unsafe { (address as *const Layout).sub(1).read() }
}

/// How long a buffer is.
fn size_of_buffer(address: u64) -> u64 {
    let layout = layout_of(address);
    (layout.size() - layout.align()) as u64
}

/// A buffer with what an import has given a handle of.
fn fetch(pair: &Pair) -> Result<SlotView, Errno> {
    let fetched = alloc(pair.len.into(), 1).and_then(|view| {
        // SAFETY: the buffer has so many bytes.
        let moved = of_slots(unsafe { slot_move(pair.handle, view.address as *mut u8, pair.len as usize) });
        moved.map(|()| view).inspect_err(|_| free(view.address))
    });
    if fetched.is_err() {
        // SAFETY: it takes a number.
        unsafe { slot_free(pair.handle) };
    }
    fetched
}

/// A buffer with these bytes.
fn holding(bytes: &[u8]) -> Result<SlotView, Errno> {
    let view = alloc(bytes.len() as u64, 1)?;
    // SAFETY: a new buffer with room for as many.
    unsafe { (view.address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(view)
}

/// Keeps what an import has given for the call that asks for it.
fn keep(answer: u64, view: SlotView) {
    let before = BETWEEN.0.borrow_mut().told.replace((answer, view));
    if let Some((_, view)) = before {
        free(view.address);
    }
}

/// Takes what was kept, if it is asked for by this name.
fn kept(name: &[u8]) -> Option<(u64, SlotView)> {
    name.first().filter(|first| **first == KEPT)?;
    BETWEEN.0.borrow_mut().told.take()
}

/// Both parts of a text of two lines.
fn lines(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    (&text[..end], text.get(end + 1..).unwrap_or_default())
}

/// Takes a slot as bytes, as a text or as a continuation.
fn take(name: &[u8], fingerprint: u64, now: bool) -> Result<(u64, SlotView), Errno> {
    if let Some(number) = continuations::number_of(name) {
        return continuations::wait(number).map(|view| (0, view));
    }
    if let Some(told) = kept(name) {
        return Ok(told);
    }
    if fingerprint == CONTINUATION_FINGERPRINT {
        return continuations::take(name, now).map(|view| (0, view));
    }
    let is_text = fingerprint == TEXT_FINGERPRINT;
    if !is_text && fingerprint != BYTES_FINGERPRINT {
        return Err(Errno::NotSupported);
    }
    let mut between = BETWEEN.0.borrow_mut();
    if let Some((_, view)) = between.no_text.take_if(|(slot, _)| **slot == *name && !is_text) {
        return Ok((0, view));
    }
    let mut pair = Pair::default();
    // SAFETY: a name of this length, and room for the answer.
    let taken = of_slots(unsafe { slot_take(name.as_ptr(), name.len(), (!now).into(), &raw mut pair) });
    between.is_unexplained &= taken.is_ok();
    taken?;
    let view = fetch(&pair)?;
    // SAFETY: the buffer has so many bytes, and nothing else refers to them.
    if is_text && core::str::from_utf8(unsafe { bytes(view.address, view.count) }).is_err() {
        between.no_text = Some((name.into(), view));
        return Err(Errno::WrongType);
    }
    Ok((0, view))
}

/// Takes the first event of a list before a time of the monotonic clock.
fn wait(names: &[u8], deadline: u64) -> Result<(u64, SlotView), Errno> {
    if let Some(told) = kept(names) {
        return Ok(told);
    }
    let timeout = match deadline {
        0 | u64::MAX => deadline,
        _ => deadline.saturating_sub(clock(MONOTONIC)?),
    };
    let mut pair = Pair::default();
    // SAFETY: names of this length, and room for the answer.
    let which = answered(unsafe { event(names.as_ptr(), names.len(), timeout, &raw mut pair) })?;
    Ok((which, fetch(&pair)?))
}

fn clock(clock: u32) -> Result<u64, Errno> {
    let mut time = 0;
    // SAFETY: there is room for the answer.
    of_slots(unsafe { clock_time_get(clock, 1, &raw mut time) })?;
    Ok(time)
}

fn sleep(ns: u64) -> Result<(), Errno> {
    let subscription = Subscription { user: 0, kind: 0, clock: MONOTONIC.into(), timeout: ns, precision: 1, flags: 0 };
    let (mut event, mut count) = ([0; 4], 0);
    // SAFETY: one subscription, and room for one answer.
    of_slots(unsafe { poll_oneoff(&raw const subscription, &raw mut event, 1, &raw mut count) })
}

/// Makes hostcall `number` with up to six arguments.
pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, Errno> {
    const { assert!(N <= 6) }
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    if number == number::LAST_ERROR_MESSAGE {
        if BETWEEN.0.borrow().is_unexplained {
            return Ok(0);
        }
        // SAFETY: the caller of this hostcall gives room for so many bytes.
        return answered(unsafe { last_error(all[0] as *mut u8, all[1] as usize) }).map(|len| len.min(all[1]));
    }
    BETWEEN.0.borrow_mut().is_unexplained = matches!(
        number,
        number::SLOT_ALLOC | number::SLOT_RESIZE | number::SLOT_FREE | number::SLOT_TAKE | number::SLOT_PUBLISH
    );
    // SAFETY: this crate makes hostcalls with addresses that are right for them; `abi.md` says what each takes.
    unsafe { serve(number, all) }
}

/// # Safety
/// The arguments are as the hostcall wants them.
unsafe fn serve(number: u32, [a, b, c, d, e, _]: [u64; 6]) -> Result<u64, Errno> {
    // SAFETY: the caller's promise, here and below.
    let first = || unsafe { bytes(a, b) };
    match number {
        number::SLOT_ALLOC => alloc(a, b).map(|view| view.address),
        number::SLOT_RESIZE => {
            let view = alloc(b, layout_of(a).align() as u64)?;
            let len = b.min(size_of_buffer(a)) as usize;
            // SAFETY: both have so many bytes, and the second is new.
            unsafe { (view.address as *mut u8).copy_from_nonoverlapping(a as *const u8, len) };
            free(a);
            Ok(view.address)
        }
        number::SLOT_FREE => match continuations::handle_of(a) {
            Some(handle) => continuations::free(handle),
            None => {
                free(a);
                Ok(0)
            }
        },
        number::SLOT_MARK_WRITTEN => {
            if let Some(handle) = continuations::handle_of(a) {
                continuations::discard(handle);
            }
            Ok(0)
        }
        number::SLOT_TAKE | number::EVENT_WAIT => {
            let (answer, view) = match number {
                number::EVENT_WAIT => wait(first(), d)?,
                // SAFETY: the description of a type.
                _ => take(first(), unsafe { (*(c as *const TypeDesc)).fingerprint }, e == TAKE_NOW)?,
            };
            let out = if number == number::EVENT_WAIT { c } else { d };
            // SAFETY: there is room for the answer.
            unsafe { (out as *mut SlotView).write(view) };
            Ok(answer)
        }
        number::SLOT_PUBLISH => {
            // SAFETY: the description of a type.
            let fingerprint = unsafe { (*(e as *const TypeDesc)).fingerprint };
            if fingerprint == CONTINUATION_FINGERPRINT {
                return continuations::publish(first(), c);
            }
            let is_text = fingerprint == TEXT_FINGERPRINT;
            if !is_text && fingerprint != BYTES_FINGERPRINT {
                return Err(Errno::NotSupported);
            }
            let (name, at) = (first(), c as *mut u8);
            // SAFETY: a name of this length, and a buffer of the caller's with so many bytes in use.
            let published =
                of_slots(unsafe { slot_publish_moved(name.as_ptr(), name.len(), at, d as usize, is_text.into()) });
            BETWEEN.0.borrow_mut().is_unexplained &= published.is_ok();
            published?;
            free(c);
            Ok(0)
        }
        number::PERFORM => {
            let (effect, mut pair) = (first(), Pair::default());
            // SAFETY: a name of this length, a buffer of the caller's with so many bytes in use, and room for the answer.
            let failed =
                answered(unsafe { perform(effect.as_ptr(), effect.len(), c as *const u8, d as usize, &raw mut pair) })?;
            keep(failed, fetch(&pair)?);
            free(c);
            // SAFETY: there is room for the name of a slot.
            unsafe { (e as *mut [u8; EFFECT_SLOT_LEN]).write([KEPT; EFFECT_SLOT_LEN]) };
            Ok(0)
        }
        number::CONTINUATION => {
            let (address, name) = continuations::make()?;
            // SAFETY: there is room for the name of a slot.
            unsafe { (a as *mut [u8; EFFECT_SLOT_LEN]).write(name) };
            Ok(address)
        }
        // SAFETY: a buffer of the caller's with so many bytes in use.
        number::RESUME => unsafe { continuations::resume(a, b, c) },
        number::CHECKPOINT => {
            let label = first();
            // SAFETY: a label of this length.
            let came = answered(unsafe { checkpoint(label.as_ptr(), label.len()) })?;
            keep(0, holding(&[came as u8])?);
            // SAFETY: there is room for the name of an event.
            unsafe { (d as *mut u8).write(KEPT) };
            Ok(1)
        }
        number::FORK => {
            let mut pair = Pair::default();
            let copies = u32::try_from(a).map_err(|_| Errno::Invalid)?;
            // SAFETY: there is room for the answer.
            let which = answered(unsafe { fork(copies, &raw mut pair) })?;
            let ids = fetch(&pair)?;
            // SAFETY: a buffer with so many bytes in use.
            let names = unsafe { bytes(ids.address, ids.count) };
            let told: Vec<u8> = match which {
                0 => [b"original\n", names].concat(),
                _ => alloc::format!("copy\n{which}").into_bytes(),
            };
            free(ids.address);
            keep(0, holding(&told)?);
            // SAFETY: there is room for the name of an event.
            unsafe { (c as *mut u8).write(KEPT) };
            Ok(1)
        }
        number::SEND => {
            let (id, name) = lines(first());
            // SAFETY: texts of these lengths, and so many bytes.
            answered(unsafe { send(id.as_ptr(), id.len(), name.as_ptr(), name.len(), c as *const u8, d as usize) })
        }
        number::PUBLISH => {
            let name = first();
            // SAFETY: texts of these lengths.
            answered(unsafe { state(name.as_ptr(), name.len(), c as *const u8, d as usize) })
        }
        number::CHILD_START => {
            let ((id, workflow), detached) = (lines(first()), u32::from(e == DETACHED));
            let (at, len) = (workflow.as_ptr(), workflow.len());
            // SAFETY: texts of these lengths, and so many bytes.
            answered(unsafe { start_child(at, len, id.as_ptr(), id.len(), c as *const u8, d as usize, detached) })
        }
        // SAFETY: texts of these lengths, and room for an id.
        number::CHILD_CANCEL => answered(unsafe { cancel_child(a as *const u8, b as usize) }),
        number::CHILD_ID => {
            // SAFETY: as above.
            answered(unsafe { child_id(a as *const u8, b as usize, c as *mut u8, d as usize) })
        }
        number::CLOCK_GETTIME => clock(if a == Clock::Realtime as u64 { REALTIME } else { MONOTONIC }),
        number::NANOSLEEP => sleep(a).map(|()| 0),
        number::GETRANDOM => {
            // SAFETY: there is room for so many.
            of_slots(unsafe { random_get(a as *mut u8, b as usize) })?;
            Ok(b)
        }
        // SAFETY: it takes a number.
        number::GET_INFO => Errno::from_value(unsafe { number_of(a as u32) }),
        // SAFETY: no byte is written.
        number::GET_STRING_LEN => answered(unsafe { text(a as u32, core::ptr::null_mut(), 0) }),
        // SAFETY: there is room for so many.
        number::GET_STRING => answered(unsafe { text(a as u32, b as *mut u8, c as usize) }),
        // SAFETY: it takes nothing.
        number::READY => Ok(unsafe { ready() }.into()),
        // SAFETY: it takes nothing.
        number::THREAD_YIELD => of_slots(unsafe { sched_yield() }).map(|()| 0),
        number::CAPTURE => {
            let (mut checkpoint, mut len) = (0, c as u32);
            // SAFETY: there is room for so many bytes, and for the answers.
            let rewinds = answered(unsafe { capture(&raw mut checkpoint, b as *mut u8, &raw mut len) })?;
            // SAFETY: there is room for the answer.
            unsafe { (a as *mut Captured).write(Captured { checkpoint, rewinds, len: len.into() }) };
            Ok(rewinds.min(1))
        }
        // SAFETY: it takes a number.
        number::REWIND if d == REWIND_FORGET => answered(unsafe { forget(a) }),
        // SAFETY: so many bytes.
        number::REWIND => answered(unsafe { rewind(a, b as *const u8, c as usize) }),
        number::ABORT => {
            // SAFETY: a text of this length.
            unsafe { fail((a == AbortKind::Permanent as u64).into(), b as *const u8, c as usize) }
        }
        _ => Err(Errno::NoSuchCall),
    }
}
