//! Maps files and does with them what its arguments say. It prints a line for each check that passes; the first that fails ends it.
#![no_std]
#![deny(unsafe_code)]

mod model;
mod shows;
mod together;
#[allow(unsafe_code, reason = "wrong uses of mappings are this module's purpose")]
mod wrong;

use monohull_std::error::Error;
use monohull_std::fs::{self, File, OpenOptions};
use monohull_std::io::{Seek, SeekFrom, Write};
use monohull_std::prelude::*;

pub(crate) type Result<T> = monohull_std::result::Result<T, Box<dyn Error>>;

#[monohull::main]
fn main(how: String, folder: String, naps: Option<usize>) -> Result<()> {
    let naps = naps.unwrap_or(1);
    match how.as_str() {
        "make" => make(&format!("{folder}/big"), BIG).map(drop),
        "everything" => shows::everything(&folder).and_then(|()| shows::cut(&folder)),
        "everything-but-cut" => shows::everything(&folder),
        "read" => shows::the_same_as_read(&folder),
        "model" => model::walk(&folder, 10_000, true, None),
        "model-but-cut" => model::walk(&folder, 10_000, false, None),
        "model-with-naps" => model::walk(&folder, naps * NAP_EVERY, true, Some(NAP_EVERY)),
        "model-but-cut-with-naps" => model::walk(&folder, naps * NAP_EVERY, false, Some(NAP_EVERY)),
        "nap" => shows::over_a_nap(&folder),
        "watch" => together::watch(&folder),
        "change" => together::change(&folder),
        "threads" => shows::many_threads(&folder),
        "write-read-only" => wrong::write_read_only(&folder),
        "write-after-read-only" => wrong::write_after_read_only(&folder),
        "execute" => wrong::execute(&folder),
        "after-unmap" => wrong::after_unmap(&folder),
        "past-the-end" => wrong::past_the_end(&folder),
        "in-the-gap" => wrong::in_the_gap(&folder),
        "touch-late" => wrong::touch_late(&folder),
        "write-out" => wrong::write_out(&folder),
        "too-many" => wrong::too_many(&folder),
        "too-large" => wrong::too_large(&folder),
        "unmap-under-touch" => wrong::unmap_under_touch(&folder),
        "wait-for-file" => wrong::wait_for_file(&folder),
        _ => Err(format!("there is no way `{how}`").into()),
    }
}

/// Steps of the model between two naps.
const NAP_EVERY: usize = 16;

/// Bytes of a large file: some windows of reading ahead, and a page that is not full.
pub(crate) const BIG: usize = (5 << 20) + 1234;

/// The byte that is at a place of every file made here; no two pages look the same.
pub(crate) fn byte(place: usize) -> u8 {
    ((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(byte).collect()
}

/// Makes a file of this length, open to read and write.
pub(crate) fn make(path: &str, len: usize) -> Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all(&bytes(len))?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// Removes a file.
pub(crate) fn remove(path: &str) -> Result<()> {
    Ok(fs::remove_file(path)?)
}
