//! Names of hosts: `getaddrinfo` over `HOST_LOOKUP`, by the workflow's rules, instead of musl's resolver.

use crate::host;
use core::ffi::{CStr, c_char, c_int};
use monohull_abi::errno::Errno;
use monohull_abi::network::{LOOKUP_MAX, SocketAddress};
use monohull_abi::number;

/// musl's `struct address`.
#[repr(C)]
pub struct Address {
    family: c_int,
    scope: u32,
    bytes: [u8; 16],
    sort_key: c_int,
}

pub(crate) const AF_INET: c_int = 2;
pub(crate) const AF_INET6: c_int = 10;
const EAI_NONAME: c_int = -2;
const EAI_AGAIN: c_int = -3;
const EAI_FAIL: c_int = -4;

/// Fills `out`, which has room for 48, with the addresses of a name: how many, or one of `getaddrinfo`'s errors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __monohull_lookup(
    out: *mut Address,
    canonical: *mut c_char,
    name: *const c_char,
    family: c_int,
) -> c_int {
    // SAFETY: musl's caller has checked that it is a string of at most 254 bytes; `canonical` has room for 256.
    let bytes = unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), canonical.cast(), bytes.len());
        &bytes[..bytes.len() - 1]
    };
    let mut found = [SocketAddress::default(); LOOKUP_MAX];
    let (address, len) = (bytes.as_ptr() as u64, bytes.len() as u64);
    let answer = host::call(number::HOST_LOOKUP, [address, len, found.as_mut_ptr() as u64, LOOKUP_MAX as u64]);
    if answer < 0 {
        let errors = [(Errno::TimedOut, EAI_AGAIN), (Errno::NotFound, EAI_NONAME), (Errno::Invalid, EAI_NONAME)];
        return errors.iter().find(|(error, _)| error.to_value() == answer).map_or(EAI_FAIL, |(_, error)| *error);
    }
    let as_musl = |found: &SocketAddress| Address {
        family: if found.family == 4 { AF_INET } else { AF_INET6 },
        scope: found.scope,
        bytes: found.address,
        sort_key: 0,
    };
    let wanted = |address: &Address| family == 0 || address.family == family;
    let mut count = 0;
    for address in found[..answer as usize].iter().map(as_musl).filter(wanted) {
        // SAFETY: musl's array has room for 48, and there are at most 32.
        unsafe { out.add(count).write(address) };
        count += 1;
    }
    if count == 0 { EAI_NONAME } else { count as c_int }
}
