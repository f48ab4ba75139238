//! The workflow's border: files become input slots, output slots become files or part of the report.

use super::RunOptions;
use crate::domain::Domain;
use crate::domain::failure::{Blame, FailureKind};
use crate::report::{Content, Failure, OutputReport};
use crate::workflow::Plan;
use monohull_abi::types::{BYTES_FINGERPRINT, SlotInfo, TypeDesc};
use monohull_abi::{Errno, number};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Fills every input slot from its file, straight into the slot's buffer.
pub(super) fn fill(domain: &Domain, plan: &Plan, options: &RunOptions) -> Result<(), Box<Failure>> {
    for input in &plan.inputs {
        let chosen = options.inputs.iter().find(|(slot, _)| *slot == input.slot).map(|(_, path)| path);
        let bytes = options.inline_inputs.iter().find(|(slot, _)| *slot == input.slot).map(|(_, bytes)| bytes);
        let failed = |blame, text: String| Box::new(Failure::of_workflow(FailureKind::Input, blame, text));
        let address = match (bytes, chosen.or(input.path.as_ref())) {
            (Some(bytes), _) => from_bytes(domain, bytes),
            (None, Some(path)) => match File::open(path).and_then(|file| from_file(domain, file)) {
                Ok(address) => address,
                Err(error) => {
                    let text = format!("input slot `{}`: {} cannot be read: {error}", input.slot, path.display());
                    return Err(failed(Blame::Workflow, text));
                }
            },
            (None, None) => {
                return Err(failed(Blame::Workflow, format!("input slot `{}` has no file", input.slot)));
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

/// Writes every output slot to its file, or puts it into the report.
pub(super) fn collect(
    domain: &Domain,
    plan: &Plan,
    options: &RunOptions,
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
        let path = options.outputs.iter().find(|(slot, _)| slot == name).map(|(_, path)| path.clone());
        let content = match &path {
            Some(path) => {
                write_whole(path, bytes).map_err(|error| {
                    failed(Blame::Host, format!("output slot `{name}`: {} cannot be written: {error}", path.display()))
                })?;
                None
            }
            None => Some(Content::from(bytes.to_vec())),
        };
        reports.insert(name.clone(), OutputReport { bytes: bytes.len() as u64, path, content });
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
fn from_file(domain: &Domain, mut file: File) -> std::io::Result<Result<(u64, u64), Errno>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        // A pipe or a device: its length is known only at its end.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        return Ok(from_bytes(domain, &bytes));
    }
    let len = metadata.len();
    let address = match allocate(domain, len) {
        Ok(address) => address,
        Err(errno) => return Ok(Err(errno)),
    };
    // SAFETY: a buffer of at least this size, zeroed, that only we know of yet.
    let buffer = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len as usize) };
    file.read_exact(buffer)?;
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

/// Writes beside the target and renames, so that a full disk leaves the old file whole.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if path.exists() && !path.is_file() {
        // A device or a pipe: there is nothing to replace.
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let mut name = path.file_name().ok_or(std::io::ErrorKind::IsADirectory)?.to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written =
        File::create(&part).and_then(|mut file| file.write_all(bytes)).and_then(|()| std::fs::rename(&part, path));
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}
