//! Threads: musl's `__clone` over `THREAD_SPAWN`.
//!
//! ```text
//!   musl's mapping of a thread      | start_args, Start |  TLS | struct pthread | keys |    a page or two
//!   Monohull's stack of a thread    | guard | … frames … | header: gs:[16] |              its limit decides
//! ```
//!
//! The thread runs on Monohull's stack, whose size is the step's `stack`. musl's own mapping, which holds its variables, is cut to what they
//! need. A thread that asks for a larger stack begins on Monohull's, and goes over to one in its mapping:
//!
//! ```text
//!   musl's mapping                  | guard | … frames … | start_args, Start |  TLS | struct pthread | keys |
//!   Monohull's stack                | guard | begin        last frames: `exit` | header: gs:[16] |
//! ```
//!
//! When a thread ends, the word that musl named (`CLONE_CHILD_CLEARTID`) is cleared and its waiter woken, as Linux does.

use crate::errno::{Answer, EAGAIN, EINVAL, ENOSYS};
use crate::refuse::{Missing, refuse};
use crate::{futex, header, heap, host, memory};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use monohull_abi::layout::{PAGE, THREAD_HEADER_SIZE};
use monohull_abi::number;
use monohull_abi::types::Info;
use monohull_trampoline::thread_entry;

/// The main thread's number, and the process's.
pub(crate) const MAIN: u64 = 1;
/// The part of a thread's number that is the program's number for it: musl keeps two bits of its own beside one, which is an `int`. The number's
/// low 20 bits, where the thread is in the system's table, tell it from all other living threads.
const NUMBER: u64 = (1 << 29) - 1;
/// `CLONE_THREAD`.
const THREAD: c_int = 0x10000;

/// How many threads there are.
static RUNNING: AtomicU32 = AtomicU32::new(1);

/// What a new thread is given, in musl's mapping: its first frame uses it up.
#[repr(C)]
struct Start {
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
    /// Where the thread's number goes before anything of the thread runs.
    number: *const AtomicU32,
    thread_pointer: u64,
    clear: *const AtomicU32,
    /// Bytes of the stack below this, if the thread runs there.
    stack: u64,
}

thread_entry! {
    /// Where every other thread begins; the word is the address of its [`Start`].
    pub fn monohull_libc_thread => begin
}

extern "C" fn begin(word: u64) -> ! {
    // SAFETY: `__clone` wrote it for this thread; the mapping lives until the thread has ended.
    let start = unsafe { (word as *const Start).read() };
    let own = header::own();
    own.thread_pointer.set(start.thread_pointer);
    own.clear.set(start.clear);
    own.number.set(number_of(host::info(Info::Thread)));
    store_number(start.number, own.number.get());
    if start.stack == 0 {
        run(word, 0)
    }
    let end = word & !15;
    own.stack.set((end, start.stack));
    // SAFETY: the stack below is the thread's alone, and `run` needs nothing of this one.
    unsafe { go_on(end, run, word, 0) }
}

/// Runs what the thread was started for, to its end.
extern "C" fn run(word: u64, _: u64) -> ! {
    // SAFETY: as in `begin`.
    let start = unsafe { (word as *const Start).read() };
    (start.function)(start.argument);
    exit()
}

/// Goes on with `act(a, b)` on the stack that ends at `end`, a multiple of 16. The chain of frames ends there.
///
/// # Safety
/// There is room below `end`, and nothing is needed of the stack that is left.
#[unsafe(naked)]
unsafe extern "C" fn go_on(end: u64, act: extern "C" fn(u64, u64) -> !, a: u64, b: u64) -> ! {
    core::arch::naked_asm!(
        "mov rsp, rdi",
        "mov rax, rsi",
        "mov rdi, rdx",
        "mov rsi, rcx",
        "xor ebp, ebp",
        "push 0",
        "jmp rax",
    )
}

/// Where frames end on the stack of Monohull's that the calling thread began on.
fn first_stack() -> u64 {
    header::own() as *const header::Header as u64 & !15
}

/// What `pthread_create` asks before it maps anything: whether a thread with a stack of so many bytes is to have its own. It is zero where the
/// program brings a stack along.
///
/// The std of Rust asks for 2 MiB where a program does not say anything: that is the step's `stack`, as it is for C.
#[unsafe(no_mangle)]
pub extern "C" fn __monohull_large_stack(bytes: u64) -> c_int {
    const USUAL_OF_STD: u64 = 2 << 20;
    let is_large = bytes > host::info(Info::StackSize) && bytes != USUAL_OF_STD;
    header::own().asked.set(if is_large { bytes } else { 0 });
    c_int::from(is_large)
}

/// The program's number of a thread that is not the main one.
const fn number_of(thread: u64) -> u64 {
    MAIN + 1 + (thread & NUMBER)
}

fn store_number(at: *const AtomicU32, number: u64) {
    // SAFETY: musl's field for the number, in the thread's `struct pthread`.
    unsafe { (*at).store(number as u32, Ordering::Release) };
}

/// musl's way to start a thread. The flags of a new process are refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __clone(
    function: extern "C" fn(*mut c_void) -> c_int,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    number: *const AtomicU32,
    thread_pointer: u64,
    clear: *const AtomicU32,
) -> c_int {
    if flags & THREAD == 0 {
        return refuse(Missing::Fork, ENOSYS) as c_int;
    }
    let start = ((stack as usize - size_of::<Start>()) & !15) as *mut Start;
    // SAFETY: the stack that musl passes has room below its top, and is the new thread's alone.
    unsafe {
        start.write(Start { function, argument, number, thread_pointer, clear, stack: header::own().asked.take() })
    };
    let spawned = host::call(number::THREAD_SPAWN, [monohull_libc_thread as *const () as u64, start as u64]);
    if spawned < 0 {
        return EAGAIN as c_int;
    }
    RUNNING.fetch_add(1, Ordering::Relaxed);
    let spawned = number_of(spawned as u64);
    store_number(number, spawned);
    spawned as c_int
}

/// `exit`: ends the calling thread.
pub(crate) fn exit() -> ! {
    if header::own().stack.get().0 != 0 {
        // What joins it frees its stack as soon as it is told.
        // SAFETY: nothing of the thread is on Monohull's stack any more.
        unsafe { go_on(first_stack(), end, 0, 0) }
    }
    end(0, 0)
}

extern "C" fn end(_: u64, _: u64) -> ! {
    let own = header::own();
    own.drop_rare();
    heap::drop_cache();
    let clear = own.clear.get();
    if !clear.is_null() {
        // SAFETY: musl's word, a static one.
        unsafe { (*clear).store(0, Ordering::Release) };
        futex::wake(clear, 1);
    }
    if own.number.get() == MAIN {
        // The instance lives as long as its main thread: wait until the last thread ends the program.
        let never = AtomicU32::new(0);
        loop {
            futex::wait(&never, 0, u64::MAX);
        }
    }
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    loop {
        host::call(number::THREAD_EXIT, []);
    }
}

/// How many threads there are.
pub(crate) fn count() -> u32 {
    RUNNING.load(Ordering::Relaxed)
}

/// Ends a detached thread, which nothing waits for, and frees musl's mapping of it.
#[unsafe(no_mangle)]
pub extern "C" fn __unmapself(base: *mut c_void, len: usize) -> ! {
    // SAFETY: nothing of the thread is on Monohull's stack any more, or it is this function's frame, which is not needed.
    unsafe { go_on(first_stack(), unmap, base as u64, len as u64) }
}

extern "C" fn unmap(base: u64, len: u64) -> ! {
    // The thread's caches hang off its header, on Monohull's stack: nothing below touches the mapping.
    memory::munmap([base, len, 0, 0, 0, 0]);
    end(0, 0)
}

/// The thread pointer of the main thread; that of others is set as they begin.
#[unsafe(no_mangle)]
pub extern "C" fn __set_thread_area(pointer: *mut c_void) -> c_int {
    header::own().thread_pointer.set(pointer as u64);
    0
}

/// `set_tid_address(word)` → the thread's number.
pub(crate) fn set_tid_address([word, ..]: [u64; 6]) -> Answer {
    header::own().clear.set(word as *const AtomicU32);
    gettid([0; 6])
}

/// `gettid()`.
pub(crate) fn gettid(_: [u64; 6]) -> Answer {
    header::own().number.get() as Answer
}

/// `sched_yield()`.
pub(crate) fn sched_yield(_: [u64; 6]) -> Answer {
    host::call(number::THREAD_YIELD, [])
}

/// `sched_getaffinity(thread, bytes, mask)`: as many processors as run functions of the workflow.
pub(crate) fn sched_getaffinity([_, bytes, mask, ..]: [u64; 6]) -> Answer {
    if bytes < 8 || !bytes.is_multiple_of(8) {
        return EINVAL;
    }
    let processors = host::info(Info::Parallelism).clamp(1, 64);
    // SAFETY: the caller's mask of at least eight bytes.
    unsafe { (mask as *mut u64).write_unaligned(u64::MAX >> (64 - processors)) };
    8
}

/// `pthread_attr_t`, as far as it is filled in here.
#[repr(C)]
pub struct Attributes {
    stack_size: u64,
    guard_size: u64,
    stack_end: u64,
    others: [u64; 4],
}

/// `pthread_getattr_np`: the stack that the calling thread runs on. Of other threads it gives the same size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(_thread: *mut c_void, out: *mut Attributes) -> c_int {
    let (stack_end, stack_size) = match header::own().stack.get() {
        (0, _) => {
            let end = header::own() as *const header::Header as u64 + THREAD_HEADER_SIZE;
            (end, host::info(Info::StackSize) - PAGE)
        }
        own => own,
    };
    let attributes = Attributes { stack_size, guard_size: PAGE, stack_end, others: [0; 4] };
    // SAFETY: the caller's `pthread_attr_t`, 56 bytes.
    unsafe { out.write(attributes) };
    0
}

/// `pthread_cancel`: refused.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_cancel(_thread: *mut c_void) -> c_int {
    -refuse(Missing::Cancel, ENOSYS) as c_int
}
