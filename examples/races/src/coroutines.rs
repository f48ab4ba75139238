//! Coroutines: threads that run on stacks of their own making, and stay the threads that they are.
//!
//! ```text
//!   the thread's own stack      a coroutine's stack, on the heap
//!   | resume() ─ switch ──────▶ | begin ─ body ─ pause()      |
//!   |          ◀──────────────────────────────── switch       |
//! ```
//!
//! What belongs to a thread (thread-locals, its name, its cache of free memory) is found wherever its stack pointer is.
#![allow(unsafe_code, reason = "switches stacks")]

use core::cell::Cell;
use monohull_std::prelude::*;
use monohull_std::sync::{Arc, Barrier, Mutex};
use monohull_std::{thread, thread_local};

const THREADS: usize = 4;
const COROUTINES: usize = 3;
const ROUNDS: usize = 200;
/// Pairs of words of a coroutine's stack: they have the alignment that the System V ABI asks for.
const STACK: usize = 1024;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    static LIST: Cell<Vec<usize>> = const { Cell::new(Vec::new()) };
}

/// A coroutine, paused or running. It does not move, because its own stack has its address.
struct Coroutine {
    stack: Box<[u128]>,
    /// The stack pointer of the side that does not run.
    other: u64,
    /// Runs on the coroutine's stack.
    body: fn(&mut Coroutine),
    done: bool,
}

impl Coroutine {
    fn new(body: fn(&mut Coroutine)) -> Box<Coroutine> {
        let mut coroutine = Box::new(Coroutine { stack: vec![0; STACK].into(), other: 0, body, done: false });
        let address = &raw mut *coroutine as u128;
        // What `switch` takes from a stack: r15 r14 r13 r12 rbx rbp and the address to go on at, in the upper word of a pair:
        // `begin` is entered with an aligned stack pointer, because it makes a call.
        let top = STACK - 2;
        coroutine.stack[top] = (begin as *const () as u128) << 64;
        coroutine.stack[top - 2] = address;
        coroutine.other = &raw const coroutine.stack[top - 3] as u64 + 8;
        coroutine
    }

    /// Runs it until it pauses or ends. Whether it has ended.
    fn resume(&mut self) -> bool {
        // SAFETY: `other` is where the coroutine paused, or its prepared first frame.
        unsafe { switch(&raw mut self.other, self.other) };
        self.done
    }

    /// Called on its own stack: goes back to where it was resumed.
    fn pause(&mut self) {
        // SAFETY: `other` is where `resume` waits.
        unsafe { switch(&raw mut self.other, self.other) };
    }
}

/// Saves what a callee must preserve on this stack, notes the stack pointer, and goes on where the stack `to` was left.
#[unsafe(naked)]
unsafe extern "C" fn switch(note: *mut u64, to: u64) {
    core::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// The first frame of a coroutine, whose address is in r14.
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    core::arch::naked_asm!("mov rdi, r14", "call {run}", "ud2", run = sym run)
}

extern "C" fn run(coroutine: &mut Coroutine) {
    (coroutine.body)(coroutine);
    coroutine.done = true;
    coroutine.pause();
}

/// Every thread resumes its coroutines in turn, and they make hostcalls, so that threads change their carriers while they are on
/// a coroutine's stack. In the end each thread goes on with coroutines of its neighbour.
pub(crate) fn run_on_many_stacks() {
    let handed_over: Arc<Mutex<Vec<Option<Handed>>>> = Arc::new(Mutex::new((0..THREADS).map(|_| None).collect()));
    let barrier = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (handed_over, barrier) = (handed_over.clone(), barrier.clone());
            let body = move || {
                NUMBER.set(number);
                let mut mine: Vec<_> = (0..COROUTINES).map(|_| Coroutine::new(works)).collect();
                for _ in 0..ROUNDS / 2 {
                    mine.iter_mut().for_each(|coroutine| assert!(!coroutine.resume()));
                }
                handed_over.lock().unwrap()[number] = Some(Handed(mine));
                barrier.wait();
                let Handed(mut theirs) = handed_over.lock().unwrap()[(number + 1) % THREADS].take().unwrap();
                for coroutine in &mut theirs {
                    while !coroutine.resume() {}
                }
                assert_eq!(NUMBER.get(), number);
                LIST.take().len()
            };
            thread::Builder::new().name(number.to_string()).spawn(body).unwrap()
        })
        .collect();
    let steps: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(steps, THREADS * COROUTINES * ROUNDS);
    println!("{steps} steps on {} stacks", THREADS * COROUTINES);
}

/// Paused coroutines on their way to another thread.
#[allow(clippy::vec_box, reason = "a coroutine does not move")]
struct Handed(Vec<Box<Coroutine>>);

// SAFETY: a paused coroutine is memory that one thread at a time touches, and `works` keeps nothing of its thread.
unsafe impl Send for Handed {}

/// The body of the coroutines: in every round it asks for whatever belongs to the thread.
fn works(this: &mut Coroutine) {
    for round in 0..ROUNDS {
        let number = NUMBER.get();
        assert_eq!(thread::current().name(), Some(number.to_string().as_str()));
        let kept: Vec<usize> = (0..=round).collect();
        thread::yield_now();
        assert_eq!(NUMBER.get(), number, "after a hostcall, perhaps on another carrier");
        let mut list = LIST.take();
        list.push(kept[round]);
        LIST.set(list);
        this.pause();
    }
}
