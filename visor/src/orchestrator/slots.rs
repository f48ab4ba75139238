//! Input slots are filled and output slots read, straight into and out of their buffers.

use super::border::{Border, Source};
use crate::domain::Domain;
use crate::domain::failure::{Blame, FailureKind};
use crate::report::{Failure, OutputReport};
use crate::workflow::Plan;
use monohull_abi::types::{BYTES_FINGERPRINT, SlotInfo, TypeDesc};
use monohull_abi::{Errno, number};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Fills every input slot.
pub(super) fn fill(domain: &Domain, plan: &Plan, border: &mut dyn Border) -> Result<(), Box<Failure>> {
    for input in &plan.inputs {
        let failed = |blame, text: String| Box::new(Failure::of_workflow(FailureKind::Input, blame, text));
        let unread = |error: String| failed(Blame::Workflow, format!("input slot `{}`: {error}", input.slot));
        let address = match border.input(input).map_err(unread)? {
            Source::Bytes(bytes) => from_bytes(domain, &bytes),
            Source::File(file) => {
                from_file(domain, &file).map_err(|error| unread(format!("cannot be read: {error}")))?
            }
        };
        let published = address.and_then(|(address, len)| publish(domain, &input.slot, address, len));
        published.map_err(|errno| {
            let blame = if errno == Errno::OutOfMemory { Blame::Host } else { Blame::Monohull };
            failed(blame, format!("input slot `{}` cannot be filled: {errno}{}", input.slot, why(domain)))
        })?;
    }
    Ok(())
}

/// Hands every output slot out.
pub(super) fn collect(
    domain: &Domain,
    plan: &Plan,
    border: &mut dyn Border,
) -> Result<BTreeMap<String, OutputReport>, Box<Failure>> {
    let mut reports = BTreeMap::new();
    for output in &plan.outputs {
        let name = &output.slot;
        let failed = |blame, text: String| Box::new(Failure::of_workflow(FailureKind::Output, blame, text));
        let bytes = match look(domain, name) {
            Ok(bytes) => bytes,
            Err(Errno::NotFound) => {
                let text = format!("no function filled the output slot `{name}`");
                return Err(failed(Blame::Workflow, text));
            }
            Err(errno) => {
                let text = format!("output slot `{name}` cannot be read: {errno}{}", why(domain));
                return Err(failed(Blame::Monohull, text));
            }
        };
        let report = border.output(name, bytes);
        let report = report.map_err(|error| failed(Blame::Host, format!("output slot `{name}`: {error}")))?;
        reports.insert(name.clone(), report);
    }
    Ok(reports)
}

/// A new buffer with these bytes: address and length.
fn from_bytes(domain: &Domain, bytes: &[u8]) -> Result<(u64, u64), Errno> {
    let address = allocate(domain, bytes.len() as u64)?;
    // SAFETY: a buffer of at least this size that only we know of yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    Ok((address, bytes.len() as u64))
}

/// A new buffer with a file's content. The outer error is the file's, the inner one the arena's.
fn from_file(domain: &Domain, file: &File) -> std::io::Result<Result<(u64, u64), Errno>> {
    let len = file.metadata()?.len();
    let address = match allocate(domain, len) {
        Ok(address) => address,
        Err(errno) => return Ok(Err(errno)),
    };
    // SAFETY: a buffer of at least this size, zeroed, that only we know of yet.
    let buffer = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len as usize) };
    file.read_exact_at(buffer, 0)?;
    Ok(Ok((address, len)))
}

fn allocate(domain: &Domain, len: u64) -> Result<u64, Errno> {
    domain.call(number::SLOT_ALLOC, [len.max(1), 1, 0, 0, 0, 0])
}

fn publish(domain: &Domain, name: &str, address: u64, len: u64) -> Result<(), Errno> {
    let kind = "[u8]";
    let desc = TypeDesc {
        fingerprint: BYTES_FINGERPRINT,
        name: kind.as_ptr() as u64,
        name_len: kind.len() as u64,
        element_size: 1,
    };
    let desc = std::ptr::from_ref(&desc) as u64;
    let args = [name.as_ptr() as u64, name.len() as u64, address, len, desc, 0];
    domain.call(number::SLOT_PUBLISH, args).map(drop)
}

/// The bytes of a published slot; they stay until the domain ends, as no function runs any more.
fn look<'d>(domain: &'d Domain, name: &str) -> Result<&'d [u8], Errno> {
    let mut info = SlotInfo::default();
    let out = &raw mut info as u64;
    domain.call(number::SLOT_LOOK, [name.as_ptr() as u64, name.len() as u64, out, 0, 0, 0])?;
    let len = info.count.checked_mul(info.element_size).ok_or(Errno::Invalid)?;
    // SAFETY: the module has checked that so many bytes lie in the buffer, and nothing runs that could free it.
    Ok(unsafe { std::slice::from_raw_parts(info.address as *const u8, len as usize) })
}

/// What failed modules say, if that is why.
fn why(domain: &Domain) -> String {
    let failures = domain.modules().into_iter().filter_map(|module| module.failure);
    failures.map(|text| format!(" ({text})")).collect()
}
