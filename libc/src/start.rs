//! How a program starts: from the image's entry point to `main`.
//!
//! ```text
//!   gate ─▶ monohull_start ─▶ argc, argv, envp, auxv from the step's texts ─▶ __libc_start_main (musl)
//!             ─▶ thread-local storage ─▶ __libc_start_init: .init_array ─▶ main
//!             ─▶ exit ─▶ atexit ─▶ __libc_exit_fini: .fini_array ─▶ streams
//! ```
//!
//! `argv` is the function's name, then the elements of the argument `argv` if the step has one that is a list, then
//! `--name=value` for each other argument, in the order of the file: text as it is, other values as JSON.

use crate::host;
use crate::json::{self, Value};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use monohull_abi::layout::PAGE;
use monohull_abi::types::{ImageHeader, Info, InfoString};
use monohull_trampoline::thread_entry;

/// The image's description, by which the loader knows it.
#[unsafe(no_mangle)]
pub static MONOHULL_IMAGE: ImageHeader =
    ImageHeader { magic: monohull_abi::module::MAGIC, abi_version: monohull_abi::ABI_VERSION as u64 };

/// `argc` and `argv`, for the constructors.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static WORDS: AtomicPtr<u64> = AtomicPtr::new(core::ptr::null_mut());

/// The words of `argv`.
pub(crate) fn arguments() -> Vec<&'static str> {
    let words = WORDS.load(Ordering::Relaxed).cast::<*const c_char>();
    let word = |at| {
        // SAFETY: `begin` put as many texts there, which live as long as the instance.
        let text = unsafe { CStr::from_ptr(words.add(at).read()) };
        text.to_str().unwrap_or_default()
    };
    (0..COUNT.load(Ordering::Relaxed)).map(word).collect()
}

type Main = extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

unsafe extern "C" {
    /// The program's.
    fn main(count: c_int, arguments: *mut *mut c_char, environment: *mut *mut c_char) -> c_int;
    /// musl's.
    fn __libc_start_main(
        main: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int,
        count: c_int,
        arguments: *mut *mut c_char,
        init: *const c_void,
        fini: *const c_void,
        ldso: *const c_void,
    ) -> c_int;
    /// The image's first bytes, by the linker: its ELF header.
    static __ehdr_start: u8;
}

thread_entry! {
    /// Where the main thread begins.
    pub fn monohull_start => begin
}

/// The image's program headers: address, bytes of one, number.
pub(crate) fn program_headers() -> (u64, u64, u64) {
    let header = &raw const __ehdr_start;
    // SAFETY: the linker puts the ELF header at the image's first, readable page; these are its e_phoff, e_phentsize and
    // e_phnum.
    unsafe {
        let offset = header.add(32).cast::<u64>().read();
        let (size, count) = (header.add(54).cast::<u16>().read(), header.add(56).cast::<u16>().read());
        (header as u64 + offset, u64::from(size), u64::from(count))
    }
}

/// A text for C, which lives as long as the instance.
fn leak(text: &str) -> u64 {
    let mut bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    bytes.push(0);
    bytes.leak().as_ptr() as u64
}

fn push_arguments(words: &mut Vec<u64>) {
    words.push(leak(&host::text(InfoString::Function)));
    let arguments = host::text(InfoString::Args);
    let members = json::members(&arguments);
    let as_word = |value: &Value<'_>| match value {
        Value::Text(text) => text.clone(),
        Value::Other(json) => String::from(*json),
    };
    let list = members.iter().find_map(|(name, value)| match value {
        Value::Other(json) if name == "argv" => json::elements(json),
        _ => None,
    });
    let rest = members.iter().filter(|(name, _)| list.is_none() || name != "argv");
    let rest: Vec<String> = rest.map(|(name, value)| format!("--{name}={}", as_word(value))).collect();
    for word in list.iter().flatten().map(as_word).chain(rest) {
        words.push(leak(&word));
    }
}

extern "C" fn begin(_: u64) -> ! {
    crate::header::own().number.set(crate::threads::MAIN);
    crate::descriptors::table::open_standard();
    let mut words = Vec::new();
    push_arguments(&mut words);
    let count = words.len();
    words.push(0);
    for (name, value) in json::members(&host::text(InfoString::Env)) {
        if let Value::Text(value) = value {
            words.push(leak(&format!("{name}={value}")));
        }
    }
    words.push(0);
    let mut random = [0_u8; 16];
    // For the stack protector, before there is a function that could say that it is ready.
    let (to, len) = (random.as_mut_ptr() as u64, random.len() as u64);
    host::call(monohull_abi::number::GETRANDOM, [to, len, monohull_abi::types::RANDOM_SHARED]);
    let random = alloc::boxed::Box::leak(alloc::boxed::Box::new(random)).as_ptr() as u64;
    let (headers, size, number) = program_headers();
    // AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_RANDOM, AT_EXECFN, AT_NULL.
    for (name, value) in [(3, headers), (4, size), (5, number), (6, PAGE), (25, random), (31, words[0]), (0, 0)] {
        words.extend([name, value]);
    }
    let words = words.leak();
    COUNT.store(count, Ordering::Relaxed);
    WORDS.store(words.as_mut_ptr(), Ordering::Relaxed);
    let null = core::ptr::null();
    // SAFETY: the words are laid out as the kernel lays them out for a new program, and live as long as the instance.
    unsafe { __libc_start_main(main, count as c_int, words.as_mut_ptr().cast(), null, null, null) };
    host::exit(0)
}

/// Runs the image's constructors, in musl's stead: with the arguments of `main`, as glibc's start does.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_start_init() {
    let (count, words) = (COUNT.load(Ordering::Relaxed), WORDS.load(Ordering::Relaxed));
    let arguments: *mut *mut c_char = words.cast();
    let environment = arguments.wrapping_add(count + 1);
    let first = host::info(Info::InitArray) as *const Main;
    for at in 0..host::info(Info::InitCount) as usize {
        // SAFETY: the loader found the array in the image's dynamic section and has relocated it.
        unsafe { first.add(at).read()(count as c_int, arguments, environment) };
    }
}

/// Runs the image's destructors, in musl's stead: `exit` calls it behind the functions of `atexit`, and before it writes what is buffered.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_exit_fini() {
    monohull_trampoline::ends::run_destructors();
}
