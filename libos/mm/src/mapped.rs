//! The hostcalls on memory that a function maps: arguments in, the visor's answer out, a refusal put into words.
//!
//! The visor knows what is mapped where, because faults are reported from it and the cell is wiped by it.

use crate::Memory;
use core::fmt;
use monohull_abi::Errno;
use monohull_abi::layout::{PAGE, page_up};
use monohull_abi::module::Call;
use monohull_abi::types::{MAP_ALIGN_MAX, MAP_RANGES_MAX, MapAccess};

impl Memory {
    pub(crate) fn map(&self, call: &mut Call) -> Result<u64, Errno> {
        let [bytes, align, access, ..] = call.args;
        let access = self.access(call, access)?;
        if bytes == 0 {
            return Err(self.invalid(call, format_args!("nothing to map: 0 bytes")));
        }
        if align != 0 && (!align.is_power_of_two() || align > MAP_ALIGN_MAX) {
            let why = format_args!("an alignment of {align} is neither 0 nor a power of two up to {MAP_ALIGN_MAX}");
            return Err(self.invalid(call, why));
        }
        let map = || self.host.map_pages(call.instance, bytes, align, access);
        self.with_retained_freed(call.instance, map).map_err(|errno| self.refuse_mapped(call, errno, 0, bytes))
    }

    pub(crate) fn unmap(&self, call: &mut Call) -> Result<u64, Errno> {
        let (address, bytes) = self.pages(call)?;
        let unmapped = self.host.unmap_pages(call.instance, address, bytes);
        unmapped.map(|()| 0).map_err(|errno| self.refuse_mapped(call, errno, address, bytes))
    }

    pub(crate) fn discard(&self, call: &mut Call) -> Result<u64, Errno> {
        let (address, bytes) = self.pages(call)?;
        let discarded = self.host.discard_pages(call.instance, address, bytes);
        discarded.map(|()| 0).map_err(|errno| self.refuse_mapped(call, errno, address, bytes))
    }

    pub(crate) fn protect(&self, call: &mut Call) -> Result<u64, Errno> {
        let access = self.access(call, call.args[2])?;
        let (address, bytes) = self.pages(call)?;
        let protect = || self.host.protect_pages(call.instance, address, bytes, access);
        let protected = self.with_retained_freed(call.instance, protect);
        protected.map(|()| 0).map_err(|errno| self.refuse_mapped(call, errno, address, bytes))
    }

    pub(crate) fn map_image(&self, call: &mut Call) -> Result<u64, Errno> {
        let (address, bytes) = self.pages(call)?;
        let source = call.args[2];
        let map = || self.host.map_image(call.instance, address, bytes, source);
        let mapped = self.with_retained_freed(call.instance, map).map(|()| 0);
        mapped.map_err(|errno| match errno {
            Errno::NotPermitted => {
                let why =
                    format_args!("{bytes} bytes at {source:#x} are not whole pages of constants of the caller's image");
                self.host.explain(call, errno, why)
            }
            errno => self.refuse_mapped(call, errno, address, bytes),
        })
    }

    fn access(&self, call: &Call, raw: u64) -> Result<MapAccess, Errno> {
        MapAccess::from_raw(raw).ok_or_else(|| {
            let why = "is no access: 0 none, 1 read, 2 read and write; mapped memory is never executable";
            self.invalid(call, format_args!("{raw} {why}"))
        })
    }

    /// The pages that the first two arguments name. Whose they are is for the visor to say.
    fn pages(&self, call: &Call) -> Result<(u64, u64), Errno> {
        let [address, bytes, ..] = call.args;
        if bytes == 0 {
            return Err(self.invalid(call, format_args!("no page lies in 0 bytes")));
        }
        if !address.is_multiple_of(PAGE) {
            let why = format_args!("{address:#x} is not the start of a page of {PAGE} bytes");
            return Err(self.host.explain(call, Errno::Fault, why));
        }
        Ok((address, page_up(bytes)))
    }

    #[cold]
    fn invalid(&self, call: &Call, why: fmt::Arguments<'_>) -> Errno {
        self.host.explain(call, Errno::Invalid, why)
    }

    #[cold]
    fn refuse_mapped(&self, call: &Call, errno: Errno, address: u64, bytes: u64) -> Errno {
        match errno {
            Errno::OutOfMemory => self.over_limit(call, page_up(bytes)),
            // To the function it is the same: there is no more of it.
            Errno::NoSpace => {
                let why = format_args!("there is no room for {bytes} bytes in the cell");
                self.host.explain(call, Errno::OutOfMemory, why)
            }
            Errno::TooMany => {
                let why =
                    format_args!("an instance may have {MAP_RANGES_MAX} mapped ranges, and all together not many more");
                self.host.explain(call, errno, why)
            }
            Errno::Fault => {
                let why = format_args!("{bytes} bytes at {address:#x} are not memory that the caller has mapped");
                self.host.explain(call, errno, why)
            }
            errno => self.host.explain(call, errno, format_args!("{errno}")),
        }
    }
}
