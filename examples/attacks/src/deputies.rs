//! Hostcalls as confused deputies: addresses that the libos may use and the function may not, or that change while it looks.
//!
//! `what` is `print` (have the memory at the place that `how` names printed), `fill` (have it filled), `store` (have it written to
//! a file of the host) or `load` (have a file read into it). The place may be `own`.

use crate::{Attack, Booty};
use monohull_abi::file::{WORKING_DIRECTORY, open};
use monohull_abi::number;
use monohull_std::prelude::*;
use monohull_std::{fs, thread};
use monohull_trampoline::user::hostcall;

pub(crate) fn strike(attack: &Attack) -> Booty {
    let own = Box::new(*b"a line.\n");
    let address = match attack.how.as_str() {
        "own" => own.as_ptr() as u64,
        place => attack.places.find(place)?,
    };
    match attack.what.as_str() {
        "print" => print(address),
        "fill" => fill(address),
        "store" => move_file(number::FILE_PWRITE, address),
        "load" => move_file(number::FILE_PREAD, address),
        _ => Err("what is print, fill, store or load".into()),
    }
}

/// Has memory printed.
fn print(address: u64) -> Booty {
    let taken = hostcall(number::STDIO_WRITE, [1, address, 8, 0, 0, 0]);
    if taken < 0 { Err(explain().into()) } else { Ok(format!("{taken} bytes printed")) }
}

/// Has memory filled with random bytes.
fn fill(address: u64) -> Booty {
    let filled = hostcall(number::GETRANDOM, [address, 8, 0, 0, 0, 0]);
    if filled < 0 { Err(explain().into()) } else { Ok(format!("{filled} bytes filled")) }
}

/// Has memory written to a file, or a file read into it, by this call.
fn move_file(number: u32, address: u64) -> Booty {
    // Each thread has its own file, with something in it.
    let path = format!("/host/{:?}", thread::current().id());
    fs::write(&path, [7u8; 8])?;
    let (text, len) = (path.as_ptr() as u64, path.len() as u64);
    let file = hostcall(number::FILE_OPEN, [WORKING_DIRECTORY, text, len, open::READ | open::WRITE, 0, 0]);
    let moved = hostcall(number, [file as u64, address, 8, 0, 0, 0]);
    if moved < 0 { Err(explain().into()) } else { Ok(format!("{moved} bytes moved")) }
}

/// Why this thread's last hostcall was refused.
fn explain() -> String {
    let mut text = [0u8; 256];
    let len = hostcall(number::LAST_ERROR_MESSAGE, [text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0, 0]);
    String::from_utf8_lossy(&text[..len.max(0) as usize]).into_owned()
}
