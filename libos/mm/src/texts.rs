//! Texts of functions: names of slots, of events and of types, copied once and checked.

use crate::Memory;
use core::fmt;
use core::mem::MaybeUninit;
use monohull_abi::Errno;
use monohull_abi::module::Call;
use monohull_abi::user::UserSlice;

/// A buffer for a text of at most `N` bytes.
pub(crate) struct TextBuffer<const N: usize>([MaybeUninit<u8>; N]);

impl<const N: usize> TextBuffer<N> {
    pub(crate) const fn new() -> TextBuffer<N> {
        TextBuffer([MaybeUninit::uninit(); N])
    }

    /// Copies a text out of user memory: not empty, not longer than the room, UTF-8.
    pub(crate) fn read(
        &mut self,
        memory: &Memory,
        call: &Call,
        address: u64,
        len: u64,
        what: &str,
    ) -> Result<&str, Errno> {
        let invalid = |why: fmt::Arguments<'_>| Err(memory.host.explain(call, Errno::Invalid, why));
        if len == 0 {
            return invalid(format_args!("{what} is empty"));
        }
        if len > N as u64 {
            return invalid(format_args!("{what} has {len} bytes, more than {N}"));
        }
        let copied = UserSlice::<u8>::new(address, len)
            .check(memory.host.raw(), call)
            .and_then(|claim| claim.read_at(0, &mut self.0[..len as usize]))
            .map_err(|refusal| memory.refuse(call, what, refusal))?;
        match core::str::from_utf8(copied) {
            Ok(text) => Ok(text),
            Err(_) => invalid(format_args!("{what} is not UTF-8")),
        }
    }
}
