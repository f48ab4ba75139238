//! Parts of files as anonymous pages.

use super::pages;
use crate::errno::Answer;
use crate::host;
use monohull_abi::layout::page_up;
use monohull_abi::number;

/// New pages with what the file has there, and zeros beyond its end.
pub(super) fn of(file: u64, offset: u64, len: u64) -> Answer {
    let start = pages::take(page_up(len));
    if start > 0
        && let error @ ..0 = read(file, start as u64, len, offset)
    {
        pages::release(start as u64, page_up(len));
        return error;
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
