//! The real std before a program says that it is ready for inputs: hash maps with random keys, thread-local variables, arguments and
//! environment, files that are not there. Afterwards inputs, threads and random numbers are the instance's own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::{env, fs, thread};

thread_local! {
    static NOTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// `monohull.h`
#[repr(C)]
struct Buffer {
    data: *mut u8,
    len: usize,
    capacity: usize,
}

unsafe extern "C" {
    fn monohull_ready() -> c_int;
    fn monohull_take(slot: *const c_char, buffer: *mut Buffer) -> c_int;
    fn monohull_make(bytes: usize, buffer: *mut Buffer) -> c_int;
    fn monohull_publish(slot: *const c_char, buffer: *mut Buffer) -> c_int;
    fn monohull_discard(buffer: *mut Buffer);
    fn getrandom(buffer: *mut u8, len: usize, flags: u32) -> isize;
}

#[unsafe(no_mangle)]
pub extern "C" fn main() -> c_int {
    let before = RandomState::new();
    let mut weights: HashMap<char, u64> = HashMap::with_hasher(before.clone());
    weights.extend(('a'..='z').map(|letter| (letter, u64::from(letter).pow(3))));
    let label = env::var("LABEL").unwrap_or_default();
    let argument = env::args().nth(1).unwrap_or_default();
    NOTED.with_borrow_mut(|noted| noted.push("before".to_owned()));
    assert!(fs::metadata("/missing").is_err() && fs::read("/missing").is_err());

    // SAFETY: there is nothing to pass.
    let template = unsafe { monohull_ready() } == 1;
    let mut input = Buffer { data: std::ptr::null_mut(), len: 0, capacity: 0 };
    // SAFETY: the name ends with a zero; on success the buffer holds `len` bytes, until it is discarded.
    let text = unsafe {
        assert_eq!(monohull_take(c"in".as_ptr(), &mut input), 0);
        let text = String::from_utf8_lossy(std::slice::from_raw_parts(input.data, input.len)).into_owned();
        monohull_discard(&mut input);
        text
    };
    let sum: u64 = text.chars().filter_map(|letter| weights.get(&letter)).sum();
    weights.insert('ä', 1);
    NOTED.with_borrow_mut(|noted| noted.push("after".to_owned()));
    let noted = NOTED.with_borrow(|noted| noted.join(" "));
    let joined = thread::spawn(|| NOTED.with_borrow(Vec::len)).join().unwrap();
    let mut random = [0; 8];
    // SAFETY: the buffer has that many bytes.
    assert_eq!(unsafe { getrandom(random.as_mut_ptr(), random.len(), 0) }, 8);
    let random = u64::from_ne_bytes(random);
    // A thread draws keys once, for all its maps.
    let same = RandomState::new().hash_one(1);
    let later = thread::spawn(|| RandomState::new().hash_one(1)).join().unwrap();
    let seed = before.hash_one(1);
    let mut lines = String::new();
    write!(
        lines,
        "template={template}\nsum={sum}\nentries={}\nlabel={label}\nargument={argument}\nnoted={noted}\njoined={joined}\nrandom={random:016x}\n\
         seed={seed:016x}\nsame={same:016x}\nlater={later:016x}\n",
        weights.len(),
    )
    .unwrap();
    let mut out = Buffer { data: std::ptr::null_mut(), len: 0, capacity: 0 };
    // SAFETY: as above; a buffer that was made has room for as many bytes as were asked for.
    unsafe {
        assert_eq!(monohull_make(lines.len(), &mut out), 0);
        std::ptr::copy_nonoverlapping(lines.as_ptr(), out.data, lines.len());
        out.len = lines.len();
        assert_eq!(monohull_publish(c"out".as_ptr(), &mut out), 0);
    }
    0
}
