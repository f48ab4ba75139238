//! What an invocation leaves behind on purpose, in a process that serves others after it, and whether a later one finds any of it.
//!
//! A process serves one workflow only, so what an invocation is to do stands in the input slot `todo`, on its first line:
//!
//! ```text
//!   nothing                 ends well
//!   wait                    sleeps for two seconds
//!   leave WHAT MARK         leaves it, and ends well
//!   look WHAT MARK          says `got …` for each thing that it finds, or `intact`
//!   both WHAT MARK          the positive control: leaves it and looks, in one invocation
//!   hold WHAT MARK          leaves it and stays
//!   strike KIND WHAT HOW    one of the other attacks; the lines after the first are its places
//! ```
//!
//! `MARK` is a text that occurs nowhere else. `WHAT` is the name of one of [`WAYS`].

use crate::places::Places;
use crate::{Attack, leftovers, strike_of};
use core::arch::{asm, naked_asm};
use core::hint::{black_box, spin_loop};
use core::mem::forget;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use monohull_abi::file::FileStat;
use monohull_abi::layout::PAGE;
use monohull_abi::number;
use monohull_abi::types::{MapAccess, MemoryStats};
use monohull_std::continuation::{Captured, capture};
use monohull_std::env;
use monohull_std::error::Error;
use monohull_std::fs::{self, File};
use monohull_std::mmap::MmapOptions;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};
use monohull_std::sync::Barrier;
use monohull_std::thread;
use monohull_std::time::{Duration, Instant};
use monohull_trampoline::user::{hostcall, stack_pointer};

type Done = Result<(), Box<dyn Error>>;
/// What was found, each thing in words.
type Found = Result<Vec<String>, Box<dyn Error>>;

/// One kind of thing to leave: its name, how it is left, how it is looked for. What is found is a list of texts.
struct Way {
    name: &'static str,
    leave: fn(&str) -> Done,
    look: fn(&str) -> Found,
}

const WAYS: [Way; 12] = [
    Way { name: "threads", leave: threads, look: turns },
    Way { name: "lines", leave: print_on, look: keep_quiet },
    Way { name: "files", leave: files, look: find_files },
    Way { name: "mapped", leave: map_file, look: find_mapped },
    Way { name: "memory", leave: memory, look: find_in_memory },
    Way { name: "kinds", leave: kinds, look: find_in_data },
    Way { name: "copied", leave: copy, look: find_in_data },
    Way { name: "interrupted", leave: be_interrupted, look: find_registers },
    Way { name: "names", leave: names, look: find_names },
    Way { name: "handler", leave: handle_faults, look: fault },
    Way { name: "registers", leave: control_words, look: find_registers },
    Way { name: "hoard", leave: hoard, look: find_hoard },
];

/// Where files in memory are.
const FOLDER: &str = "/mem";

pub(crate) fn serve() -> Done {
    let todo = SlotBuffer::<[u8]>::from_slot("todo")?;
    let text = String::from_utf8_lossy(&todo).into_owned();
    todo.discard();
    let (first, places) = text.split_once('\n').unwrap_or((&text, ""));
    let words: Vec<&str> = first.split(' ').collect();
    let way = |what: &str| WAYS.iter().find(|way| way.name == what).ok_or("there is no such way");
    match words[..] {
        ["nothing"] => Ok(()),
        ["wait"] => {
            println!("before");
            thread::sleep(Duration::from_secs(2));
            println!("after");
            Ok(())
        }
        ["leave", what, mark] => {
            (way(what)?.leave)(mark)?;
            end(what)
        }
        ["look", what, mark] => say(&(way(what)?.look)(mark)?),
        ["both", what, mark] => {
            (way(what)?.leave)(mark)?;
            say(&(way(what)?.look)(mark)?)
        }
        ["hold", what, mark] => {
            (way(what)?.leave)(mark)?;
            println!("holds it");
            thread::sleep(Duration::from_secs(3600));
            Ok(())
        }
        ["strike", kind, what, ref how @ ..] => {
            let (what, how) = (what.to_string(), how.concat());
            let places = Places::of(places);
            println!("got {}", strike_of(kind)?(&Attack { what, how, attempt: 1, places, crowd: Barrier::new(1) })?);
            Ok(())
        }
        _ => Err("there is no such thing to do".into()),
    }
}

/// Says what was found.
fn say(found: &[String]) -> Done {
    for one in found {
        println!("got {one}");
    }
    if found.is_empty() {
        println!("intact");
    }
    Ok(())
}

/// Ends the invocation well, in the way that is hardest to clean up after.
fn end(what: &str) -> Done {
    match what {
        // Another thread ends it, while this one is in a call.
        "threads" => {
            thread::spawn(|| hostcall(number::EXIT, [0; 6]));
            thread::park();
        }
        "registers" => end_with_dirty_registers(),
        _ => {}
    }
    Ok(())
}

/// Turns of threads that have nothing to do with this invocation.
static TURNS: AtomicU64 = AtomicU64::new(0);

fn turn() {
    TURNS.fetch_add(1, Ordering::Relaxed);
}

/// Threads that compute, that sleep for all kinds of times, that wait for what never comes, and that are in long calls.
fn threads(mark: &str) -> Done {
    thread::spawn(|| {
        loop {
            turn();
            spin_loop();
        }
    });
    for ms in [1, 2, 3, 5, 10, 50, 100, 1000, 3_600_000] {
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(ms));
                turn();
            }
        });
    }
    let name = mark.to_string();
    thread::spawn(move || SlotBuffer::<[u8]>::from_slot(&name).map(SlotBuffer::discard));
    for _ in 0..8 {
        thread::spawn(|| {
            thread::park();
            turn();
        });
        thread::spawn(|| {
            thread::park_timeout(Duration::from_millis(30));
            turn();
        });
    }
    let (path, block) = (format!("{FOLDER}/{mark}-long"), mark.repeat((1 << 20) / mark.len()));
    thread::spawn(move || {
        while fs::write(&path, &block).is_ok() {
            turn();
        }
    });
    thread::spawn(|| {
        let mut room = [0u8; 4096];
        while hostcall(number::GETRANDOM, [room.as_mut_ptr() as u64, room.len() as u64, 0, 0, 0, 0]) > 0 {
            turn();
        }
    });
    thread::sleep(Duration::from_millis(5));
    Ok(())
}

/// Nothing else runs here, and a thread that waits is woken when it is time.
fn turns(_: &str) -> Found {
    let mut found = Vec::new();
    let begin = Instant::now();
    let word = 0u32;
    let ns = 40_000_000;
    hostcall(number::FUTEX_WAIT, [&raw const word as u64, 0, ns, 0, 0, 0]);
    if begin.elapsed() < Duration::from_nanos(ns) {
        found.push("a wake-up of another's".to_string());
    }
    match TURNS.load(Ordering::Relaxed) {
        0 => {}
        turns => found.push(format!("{turns} turns")),
    }
    Ok(found)
}

/// Threads that print.
fn print_on(mark: &str) -> Done {
    for thread in 0..4 {
        let mark = mark.to_string();
        thread::spawn(move || {
            loop {
                println!("got a line of {mark}, thread {thread}");
                thread::sleep(Duration::from_millis(1));
            }
        });
    }
    thread::sleep(Duration::from_millis(5));
    Ok(())
}

/// Lines of others would be among this invocation's.
fn keep_quiet(_: &str) -> Found {
    thread::sleep(Duration::from_millis(30));
    Ok(Vec::new())
}

/// Files and directories with the mark in their names, one of which is the working directory, and descriptors.
fn files(mark: &str) -> Done {
    let (file, folder) = (format!("{FOLDER}/{mark}"), format!("{FOLDER}/{mark}-folder"));
    fs::write(&file, mark.repeat(1000))?;
    fs::create_dir(&folder)?;
    fs::write(format!("{folder}/{mark}"), mark)?;
    for _ in 0..50 {
        forget(File::open(&file)?);
    }
    Ok(env::set_current_dir(&folder)?)
}

fn find_files(_: &str) -> Found {
    let mut found = Vec::new();
    let here = env::current_dir()?;
    if here.as_os_str() != "/" {
        found.push(format!("the working directory {}", here.display()));
    }
    for entry in fs::read_dir(FOLDER)? {
        found.push(format!("a file {}", entry?.path().display()));
    }
    let open = |descriptor: &u64| {
        let mut stat = [0u64; size_of::<FileStat>().div_ceil(8)];
        hostcall(number::FILE_FSTAT, [*descriptor, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) >= 0
    };
    found.extend((0..200).filter(open).map(|descriptor| format!("descriptor {descriptor}")));
    Ok(found)
}

/// A mapped file, of which some pages are there, some are changed, and some are not there.
fn map_file(mark: &str) -> Done {
    let path = format!("{FOLDER}/mapped");
    fs::write(&path, mark.repeat((1 << 20) / mark.len()))?;
    let mut map = MmapOptions::new().map_copy(&File::open(&path)?)?;
    for page in (0..map.len() / 2).step_by(PAGE as usize) {
        map[page] = map[page].wrapping_add(page as u8 & 1);
    }
    // It is in a call when the invocation ends: the pages come one by one.
    thread::spawn(move || {
        loop {
            black_box(map.iter().map(|byte| u64::from(*byte)).sum::<u64>());
            turn();
        }
    });
    thread::sleep(Duration::from_millis(1));
    Ok(())
}

fn find_mapped(mark: &str) -> Found {
    let path = format!("{FOLDER}/mapped");
    let there = fs::exists(&path)?;
    if !there {
        fs::write(&path, vec![0; 1 << 20])?;
    }
    let map = MmapOptions::new().map_copy(&File::open(&path)?)?;
    let found = contains(&map, mark.as_bytes());
    Ok(if found { vec!["a page of a file".to_string()] } else { Vec::new() })
}

/// How much is left in the heap, and on the stack.
const IN_HEAP: usize = 8 << 20;
const ON_STACK: usize = 32 << 10;

/// Blocks that were used and freed, a stack that was used, and a slot buffer that is still there.
fn memory(mark: &str) -> Done {
    let filled = |len: usize| mark.bytes().cycle().take(len).collect::<Vec<u8>>();
    drop(black_box(filled(IN_HEAP)));
    drop(black_box((0..1000).map(|_| filled(100)).collect::<Vec<_>>()));
    forget(SlotBuffer::<[u8]>::with_slot_from("kept", &filled(1 << 20)));
    moved(&filled(MOVED))?;
    use_stack(mark.as_bytes());
    Ok(())
}

/// Bytes of memory that is moved.
const MOVED: usize = 1 << 20;

/// Memory of the cell in a slot buffer, and that of a slot buffer in the cell.
fn moved(bytes: &[u8]) -> Done {
    let (len, call) =
        (bytes.len() as u64, |number, args: [u64; 3]| match hostcall(number, [args[0], args[1], args[2], 0, 0, 0]) {
            value @ 0.. => Ok(value as u64),
            refused => Err(format!("memory is not moved: {refused}")),
        });
    let [out, into] = [(); 2].map(|()| call(number::MAP, [len, 0, MapAccess::ReadWrite as u64]));
    let (out, into, buffer) = (out?, into?, call(number::SLOT_ALLOC, [len, 8, 0])?);
    for to in [out, buffer] {
        // SAFETY: memory of this size that nothing else uses.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
    }
    call(number::SLOT_MOVE_OUT, [out, len, 0])?;
    call(number::SLOT_MOVE_IN, [buffer, into, len])?;
    Ok(())
}

/// Data that the image initializes.
static DATA: [AtomicU8; 64] = [const { AtomicU8::new(1) }; 64];
/// Data that it does not, some pages of it.
static ZEROS: [AtomicU8; 16 << 10] = [const { AtomicU8::new(0) }; 16 << 10];
/// So much that it is given back to the host and not written to.
static LARGE: [AtomicU8; 256 << 10] = [const { AtomicU8::new(0) }; 256 << 10];
/// A thread has used its stack.
static HAS_USED: AtomicBool = AtomicBool::new(false);

/// Memory of each kind that an instance has. The mark is followed by the name of the kind.
fn kinds(mark: &str) -> Done {
    let named = |kind: &str| format!("{mark}-{kind}");
    write(&DATA, &named("data"));
    write(&ZEROS[ZEROS.len() / 2..], &named("zeros"));
    // The first blocks are in zeroed data.
    forget(named("heap").repeat(8 << 10));
    let mapped = hostcall(number::MAP, [PAGE, 0, MapAccess::ReadWrite as u64, 0, 0, 0]);
    if mapped < 0 {
        return Err("a page is refused".into());
    }
    let text = named("mapped");
    // SAFETY: the page has just been mapped, and nothing else uses it.
    unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), mapped as *mut u8, text.len()) };
    use_stack(named("stack").as_bytes());
    let text = named("thread");
    thread::spawn(move || {
        use_stack(text.as_bytes());
        HAS_USED.store(true, Ordering::Release);
        thread::park();
    });
    while !HAS_USED.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn write(to: &[AtomicU8], text: &str) {
    to.iter().zip(text.bytes()).for_each(|(to, byte)| to.store(byte, Ordering::Relaxed));
}

/// Data that the instance has a copy of, to go back to: it is a mapping of the copy then.
fn copy(mark: &str) -> Done {
    write(&LARGE[LARGE.len() / 2..], &format!("{mark}-copied"));
    match capture()? {
        Captured::Original(point) => forget(point),
        Captured::Resumed { .. } => return Err("nothing goes back".into()),
    }
    Ok(())
}

fn find_in_data(_: &str) -> Found {
    let differs = |bytes: &[AtomicU8], first: u8| bytes.iter().any(|byte| byte.load(Ordering::Relaxed) != first);
    let found = [("initialized", differs(&DATA, 1)), ("zeroed", differs(&ZEROS, 0)), ("much", differs(&LARGE, 0))];
    Ok(found.into_iter().filter(|(_, found)| *found).map(|(data, _)| format!("what was in {data} data")).collect())
}

/// Threads that compute with the mark in their registers, for many slices of time.
fn be_interrupted(mark: &str) -> Done {
    const TURNS: u64 = 1 << 27;
    let mut text = [0u8; 64];
    text.iter_mut().zip(mark.bytes().cycle()).for_each(|(to, byte)| *to = byte);
    let threads = (0..8).map(|_| {
        thread::spawn(move || {
            // SAFETY: reads the text into registers that the compiler is told of, and counts.
            unsafe {
                asm!(
                    "movups xmm0, [{text}]",
                    "movups xmm1, [{text} + 16]",
                    "movups xmm2, [{text} + 32]",
                    "movups xmm3, [{text} + 48]",
                    "2:",
                    "dec {turns}",
                    "jnz 2b",
                    text = in(reg) &raw const text,
                    turns = inout(reg) TURNS => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                )
            };
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread has panicked")?;
    }
    Ok(())
}

/// Looks where the next block would lie, and below the stack.
fn find_in_memory(mark: &str) -> Found {
    let mut found = Vec::new();
    // What follows uses little of it.
    let below = stack_pointer() - ON_STACK as u64;
    let stack = bytes_at(below, ON_STACK - 4096);
    if contains(stack, mark.as_bytes()) {
        found.push("what was on the stack".to_string());
    }
    let room = Vec::<u8>::with_capacity(IN_HEAP);
    if contains(bytes_at(room.as_ptr() as u64, IN_HEAP), mark.as_bytes()) {
        found.push("what was in the heap".to_string());
    }
    Ok(found)
}

/// Fills a part of the stack that is unused when this has returned.
#[inline(never)]
fn use_stack(mark: &[u8]) {
    let mut room = [0u8; ON_STACK];
    room.iter_mut().zip(mark.iter().cycle()).for_each(|(to, byte)| *to = *byte);
    black_box(&room);
}

/// Memory of this instance, whether it is in use or not.
fn bytes_at<'m>(address: u64, len: usize) -> &'m [u8] {
    // SAFETY: none; it is an attack.
    unsafe { core::slice::from_raw_parts(black_box(address) as *const u8, len) }
}

fn contains(bytes: &[u8], mark: &[u8]) -> bool {
    bytes.windows(mark.len()).any(|part| part == mark)
}

/// A slot, a thread and an error that have the mark in their names.
fn names(mark: &str) -> Done {
    let mut slot = SlotVec::<u8>::with_slot(mark);
    slot.extend_from_slice(mark.as_bytes());
    slot.publish()?;
    thread::Builder::new().name(mark.to_string()).spawn(thread::park)?;
    // Its explanation has the path.
    let _ = File::open(format!("{FOLDER}/{mark}/{mark}"));
    Ok(())
}

fn find_names(mark: &str) -> Found {
    let mut found = Vec::new();
    let mut text = [0u8; 256];
    let len = hostcall(number::LAST_ERROR_MESSAGE, [text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0, 0]);
    if len != 0 {
        found.push(format!("an explanation of {len} bytes"));
    }
    if let Some(slot) = SlotVec::<u8>::try_from_slot(mark)? {
        found.push("a slot".to_string());
        slot.discard();
    }
    Ok(found)
}

monohull_trampoline::thread_entry!(pub(crate) fn attacks_caught => caught);

/// Faults of this code, and only of this, are handled.
#[unsafe(naked)]
extern "C" fn attacks_fault() {
    naked_asm!("ud2", "ret")
}

extern "C" fn caught(_: u64) -> ! {
    println!("got the fault");
    hostcall(number::EXIT, [0; 6]);
    unreachable!("EXIT does not come back")
}

/// A handler for a fault that does not occur.
fn handle_faults(_: &str) -> Done {
    let (entry, code) = (attacks_caught as *const () as u64, attacks_fault as *const () as u64);
    match hostcall(number::FAULT_HANDLER, [entry, code, 2, 0, 0, 0]) {
        0 => Ok(()),
        _ => Err("the handler is refused".into()),
    }
}

/// The fault. Without a handler it ends the invocation.
fn fault(_: &str) -> Found {
    attacks_fault();
    Ok(Vec::new())
}

/// Control words that round and trap in another way.
static MXCSR: u32 = 0x7f80;
static X87: u16 = 0x0f7f;
/// The usual ones.
const USUAL: (u32, u16) = (0x1f80, 0x37f);

fn control_words(_: &str) -> Done {
    // SAFETY: none; it is an attack.
    unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const MXCSR, in(reg) &raw const X87) };
    Ok(())
}

/// Ends the invocation with every flag set that a function can set, and with all registers full.
fn end_with_dirty_registers() -> ! {
    /// The alignment-check, nested-task and direction flags.
    const FLAGS: u64 = 1 << 18 | 1 << 14 | 1 << 10;
    // SAFETY: none; it is an attack. It does not come back.
    unsafe {
        asm!(
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "movq xmm\\n, {mark}",
            ".endr",
            "fld1",
            "fld1",
            "pushfq",
            "or [rsp], {flags}",
            "popfq",
            "mov rdx, {mark}",
            "mov rsi, {mark}",
            "mov r8, {mark}",
            "mov r9, {mark}",
            "mov r10, {mark}",
            "mov r11, {mark}",
            "mov r12, {mark}",
            "mov r13, {mark}",
            "mov r14, {mark}",
            "mov r15, {mark}",
            "mov rbp, {mark}",
            "xor edi, edi",
            "mov eax, {exit}",
            "call qword ptr gs:[0]",
            "ud2",
            mark = in(reg) crate::MARK,
            flags = in(reg) FLAGS,
            exit = const number::EXIT,
            options(noreturn),
        )
    }
}

fn find_registers(_: &str) -> Found {
    let mut found = Vec::new();
    let (mut mxcsr, mut x87, flags) = (0u32, 0u16, 0u64);
    // SAFETY: writes two variables and reads the flags.
    let flags = unsafe {
        let mut flags = flags;
        asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr, in(reg) &raw mut x87, options(nostack));
        asm!("pushfq", "pop {}", out(reg) flags);
        flags
    };
    if (mxcsr & !0x3f, x87) != USUAL {
        found.push(format!("control words {mxcsr:#x} and {x87:#x}"));
    }
    if flags & (1 << 18 | 1 << 14 | 1 << 10) != 0 {
        found.push(format!("flags {flags:#x}"));
    }
    let attack =
        Attack { what: String::new(), how: String::new(), attempt: 1, places: Places::of(""), crowd: Barrier::new(1) };
    found.extend(leftovers::strike(&attack).ok());
    Ok(found)
}

/// How much memory is taken, and in how many mappings.
const HOARD: usize = 48 << 20;
const RANGES: u64 = 500;

/// As much memory as there is reason to take, and more.
fn hoard(mark: &str) -> Done {
    let filled = |len: usize| mark.bytes().cycle().take(len).collect::<Vec<u8>>();
    forget(filled(HOARD));
    forget(SlotBuffer::<[u8]>::with_slot_from("hoard", &filled(HOARD / 2)));
    for range in 0..RANGES {
        // Neighbours differ, so each is a mapping of its own.
        let access = if range % 2 == 0 { MapAccess::Read } else { MapAccess::ReadWrite };
        if hostcall(number::MAP, [PAGE, 0, access as u64, 0, 0, 0]) < 0 {
            return Err("a range is refused".into());
        }
    }
    Ok(())
}

fn find_hoard(_: &str) -> Found {
    let mut stats = [0u64; size_of::<MemoryStats>() / 8];
    hostcall(number::MEMORY_STATS, [stats.as_mut_ptr() as u64, 0, 0, 0, 0, 0]);
    let [heap, owned, _, _, arena] = stats;
    let taken = heap + owned + arena;
    Ok(if taken > HOARD as u64 / 4 { vec![format!("{taken} bytes")] } else { Vec::new() })
}
