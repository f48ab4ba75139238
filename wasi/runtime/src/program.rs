//! Where the compiled program lies.
//!
//! The linker of the program ([`PLACE`]'s name is what it looks for) appends the compiled program behind this image and writes where it is,
//! which part of it is code, and how it was compiled, into the static below; the distance counts from that static. All words are zero in the
//! runtime as it is built.

use core::num::NonZeroU64;
use core::ops::Range;
use core::ptr::NonNull;
use monohull_wasi_settings::Checks;
use wasmtime::{Engine, Module, Result, bail, format_err};

/// The program's place. Numbers are bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    /// From this structure to the program.
    distance: u64,
    length: u64,
    /// From the program's start to its code.
    code: u64,
    code_length: u64,
    /// [`Checks::to_raw`].
    checks: u64,
    /// From this structure to what is attached to the program.
    attachment: u64,
    attachment_length: u64,
}

/// Written into the image file after it was linked. Volatile, because to the compiler it is a constant zero.
#[unsafe(no_mangle)]
static MONOHULL_WASI_PROGRAM: Place =
    Place { distance: 0, length: 0, code: 0, code_length: 0, checks: 0, attachment: 0, attachment_length: 0 };

/// The compiled program in memory.
pub(crate) struct Program {
    bytes: NonNull<[u8]>,
    /// The addresses of its code.
    code: Range<u64>,
    pub(crate) checks: Checks,
    /// What is attached to it.
    pub(crate) attachment: &'static [u8],
}

impl Program {
    /// The program of this image. The runtime without a program is no function.
    pub(crate) fn of_image() -> Result<Program> {
        let at = &raw const MONOHULL_WASI_PROGRAM;
        // SAFETY: the static is there for ever, and nothing writes to it while the image runs.
        let place = unsafe { at.read_volatile() };
        let (Some(distance), Some(length)) = (NonZeroU64::new(place.distance), NonZeroU64::new(place.length)) else {
            bail!("this is the runtime alone, without a program: `monohull build app.wasm` makes a function of both");
        };
        let address = at.cast::<u8>().cast_mut().wrapping_add(distance.get() as usize);
        let start = address as u64 + place.code;
        let checks = Checks::from_raw(place.checks).ok_or_else(|| format_err!("it was compiled in an unknown way"))?;
        let address = NonNull::new(address).expect("lies behind the image");
        let bytes = NonNull::slice_from_raw_parts(address, length.get() as usize);
        let attachment = at.cast::<u8>().wrapping_add(place.attachment as usize);
        // SAFETY: the linker of an image writes where it has put the attachment, and the loader maps it read-only for as long as the
        // instance lives. Without an attachment the length is 0, and the address that of what would come there.
        let attachment = unsafe { core::slice::from_raw_parts(attachment, place.attachment_length as usize) };
        Ok(Program { bytes, code: start..start + place.code_length, checks, attachment })
    }

    /// The addresses of its code.
    pub(crate) fn code(&self) -> Range<u64> {
        self.code.clone()
    }

    /// The program, ready to be instantiated.
    pub(crate) fn module(&self, engine: &Engine) -> Result<Module> {
        // SAFETY: the linker of an image writes the place of the artifact that the same release of Wasmtime has made of the program, and
        // the loader maps it read-only for as long as the instance lives. An image that is linked otherwise can harm only itself.
        unsafe { Module::deserialize_raw(engine, self.bytes) }
    }
}
