//! Random bytes, with the names that `std::random` has (there they are not stable yet). They come from the host's kernel, and are good
//! enough for keys.
//!
//! Published crates get theirs from the crate getrandom. Versions 0.3 and 0.4 of it call the function [`__getrandom_v03_custom`] when
//! they are compiled with `--cfg getrandom_backend="custom"`, as `monohull build` does: so uuid, rand and ahash work as published.

use core::num::NonZeroU32;

/// A source of random bytes.
pub trait RandomSource {
    /// Fills `bytes`.
    fn fill_bytes(&mut self, bytes: &mut [u8]);
}

/// The host's source.
///
/// ```rust,ignore
/// use std::random::{DefaultRandomSource, RandomSource};
///
/// let mut key = [0; 32];
/// DefaultRandomSource.fill_bytes(&mut key);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultRandomSource;

impl RandomSource for DefaultRandomSource {
    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        crate::sys::random(bytes);
    }
}

/// Fills `bytes` from the host's source.
pub fn fill(bytes: &mut [u8]) {
    DefaultRandomSource.fill_bytes(bytes);
}

/// What getrandom calls; its errors are non-zero numbers, and this never gives one.
///
/// # Safety
///
/// The caller owns `len` bytes at `to`. They need not be initialized.
#[doc(hidden)]
// SAFETY: the name is getrandom's, for exactly this function, and no other crate of a function defines it.
#[unsafe(no_mangle)]
pub unsafe extern "Rust" fn __getrandom_v03_custom(to: *mut u8, len: usize) -> Result<(), NonZeroU32> {
    // SAFETY: the caller owns these bytes; zeros make them initialized.
    let bytes = unsafe {
        to.write_bytes(0, len);
        core::slice::from_raw_parts_mut(to, len)
    };
    fill(bytes);
    Ok(())
}
