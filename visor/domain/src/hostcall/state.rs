//! From the pointer that modules pass back to the domain.

use crate::shared::Shared;
use std::ffi::c_void;

/// The domain that a service is called for.
///
/// # Safety
/// `domain` is the pointer this domain put into its `Host`; modules use it only between `start` and `stop`.
pub(super) unsafe fn shared<'d>(domain: *mut c_void) -> &'d Shared {
    // SAFETY: the callers' promise.
    unsafe { &*domain.cast() }
}
