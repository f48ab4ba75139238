//! Who makes a call of the visor's own, and the bytes that it passes.

use crate::instance::Instance;
use crate::shared::Shared;
use monohull_abi::Errno;
use monohull_abi::module::Call;
use monohull_abi::user::{AccessError, UserSlice};
use std::mem::MaybeUninit;

/// The instance that makes a call; system callers have none.
pub(super) fn caller<'d>(domain: &'d Shared, call: &Call) -> Result<&'d Instance, Errno> {
    domain.caller(call).ok_or(Errno::Invalid)
}

pub(super) fn refused(domain: &Shared, call: &Call, refusal: AccessError) -> Errno {
    domain.explain(call, refusal.to_string());
    refusal.into()
}

/// Copies as much as fits into a function's buffer.
pub(super) fn write_bytes(domain: &Shared, call: &Call, buffer: u64, len: u64, bytes: &[u8]) -> Result<u64, Errno> {
    let part = &bytes[..bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
    let slice = UserSlice::<u8>::new(buffer, part.len() as u64);
    let slice = slice.check(domain.host(), call).map_err(|r| refused(domain, call, r))?;
    slice.write(part).map_err(|r| refused(domain, call, r))?;
    Ok(part.len() as u64)
}

pub(super) fn read_bytes(domain: &Shared, call: &Call, address: u64, len: u64) -> Result<Vec<u8>, Errno> {
    let slice = UserSlice::<u8>::new(address, len);
    let slice = slice.check(domain.host(), call).map_err(|r| refused(domain, call, r))?;
    let mut bytes = vec![MaybeUninit::uninit(); len as usize];
    let bytes = slice.read_at(0, &mut bytes).map_err(|r| refused(domain, call, r))?;
    Ok(bytes.to_vec())
}
