//! Parts of files as anonymous pages.

use super::pages::{self, Run};
use crate::errno::Answer;
use crate::host;
use monohull_abi::layout::page_up;
use monohull_abi::number;

/// New pages with what the file has there, and zeros beyond its end.
pub(super) fn of(file: u64, offset: u64, len: u64) -> Answer {
    let start = pages::take(page_up(len));
    if start < 0 {
        return start;
    }
    let memory = Run { start: start as u64, len: page_up(len) };
    let read = match pages::are_of_a_file(memory.start, memory.len) {
        Ok(()) => read(file, memory.start, len, offset),
        Err(error) => error,
    };
    if read < 0 {
        // What cannot be given back is lost, as long as the program has no memory at all.
        let _ = pages::release(memory);
        return read;
    }
    start
}

/// Reads into memory until the range or the file ends: bytes.
pub(super) fn read(file: u64, to: u64, len: u64, offset: u64) -> Answer {
    let mut done = 0;
    while done < len {
        match host::call(number::FILE_PREAD, [file, to + done, len - done, offset + done]) {
            error @ ..0 => return error,
            0 => break,
            read => done += read as u64,
        }
    }
    done as Answer
}
