//! Input slots are filled and output slots read, straight into and out of their buffers.

use super::border::{Border, Source};
use monohull_abi::types::{BYTES_FINGERPRINT, FilledSlot, SLOT_NAME_MAX, SlotInfo, TypeDesc};
use monohull_abi::{Errno, number};
use monohull_domain::{Domain, Shared};
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::{Failure, OutputReport};
use monohull_workflow::Plan;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Fills every input slot.
pub(super) fn fill(domain: &Domain, plan: &Plan, border: &mut dyn Border) -> Result<(), Box<Failure>> {
    for input in &plan.inputs {
        let failed = |blame, text: String| Box::new(Failure::blamed(FailureKind::Input, blame, text));
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

/// Hands every output slot out, if all of them are filled.
pub(super) fn collect(
    domain: &Domain,
    plan: &Plan,
    border: &mut dyn Border,
) -> Result<BTreeMap<String, OutputReport>, Box<Failure>> {
    let mut reports = BTreeMap::new();
    for (name, bytes) in outputs(domain, plan)? {
        let report = border.output(name, bytes).map_err(|error| {
            let text = format!("output slot `{name}`: {error}");
            Box::new(Failure::blamed(FailureKind::Output, Blame::Host, text))
        })?;
        reports.insert(name.to_owned(), report);
    }
    Ok(reports)
}

/// Every output slot with its bytes.
pub(super) fn outputs<'d>(domain: &'d Domain, plan: &'d Plan) -> Result<Vec<(&'d str, &'d [u8])>, Box<Failure>> {
    let failed = |blame, text: String| Box::new(Failure::blamed(FailureKind::Output, blame, text));
    let outputs = plan.outputs.iter().map(|output| match look(domain, &output.slot) {
        Ok(bytes) => Ok((&*output.slot, bytes)),
        Err(Errno::NotFound) => {
            Err(failed(Blame::Workflow, format!("no function filled the output slot `{}`", output.slot)))
        }
        Err(errno) => {
            let text = format!("output slot `{}` cannot be read: {errno}{}", output.slot, why(domain));
            Err(failed(Blame::Monohull, text))
        }
    });
    outputs.collect()
}

/// Every filled slot, in the order of the names, that comes after a name; an empty name comes before all others.
pub(super) fn filled(domain: &Shared, after: &str) -> impl Iterator<Item = Result<(String, FilledSlot), Errno>> {
    // Without slots the module that knows them is not loaded, and need not be.
    let mut after = domain.modules().iter().any(|module| module.name == "mm").then(|| after.to_owned());
    std::iter::from_fn(move || {
        let next = next(domain, after.as_deref()?);
        after = next.as_ref().ok().and_then(|next| Some(next.as_ref()?.0.clone()));
        next.transpose()
    })
}

/// The filled slot that follows a name.
fn next(domain: &Shared, name: &str) -> Result<Option<(String, FilledSlot)>, Errno> {
    let mut filled = FilledSlot::default();
    let mut text = [0_u8; SLOT_NAME_MAX];
    let (out, to) = (&raw mut filled as u64, text.as_mut_ptr() as u64);
    let args = [name.as_ptr() as u64, name.len() as u64, out, to, text.len() as u64, 0];
    let len = domain.call(number::SLOT_NEXT, args)? as usize;
    let name = text.get(..len).ok_or(Errno::Invalid)?;
    Ok((len > 0).then(|| (String::from_utf8_lossy(name).into_owned(), filled)))
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
    domain.call(number::SLOT_PEEK, [name.as_ptr() as u64, name.len() as u64, out, 0, 0, 0])?;
    let len = info.count.checked_mul(info.element_size).ok_or(Errno::Invalid)?;
    // SAFETY: the module has checked that so many bytes lie in the buffer, and nothing runs that could free it.
    Ok(unsafe { std::slice::from_raw_parts(info.address as *const u8, len as usize) })
}

/// What failed modules say, if that is why.
fn why(domain: &Domain) -> String {
    let failures = domain.modules().into_iter().filter_map(|module| module.failure);
    failures.map(|text| format!(" ({text})")).collect()
}
