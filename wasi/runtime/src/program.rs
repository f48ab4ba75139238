//! Where the compiled program lies.
//!
//! The linker of the program ([`PLACE`]'s name is what it looks for) appends the compiled program behind this image and writes its
//! distance and its length into the static below; the distance counts from that static. Both are zero in the runtime as it is built.

use core::num::NonZeroU64;
use core::ptr::NonNull;
use wasmtime::{Engine, Module, Result, bail};

/// The program's distance from this structure in bytes, and its length in bytes.
#[repr(C)]
struct Place {
    distance: u64,
    length: u64,
}

/// Written into the image file after it was linked. Volatile, because to the compiler it is a constant zero.
#[unsafe(no_mangle)]
static MONOHULL_WASI_PROGRAM: Place = Place { distance: 0, length: 0 };

/// The program, ready to be instantiated. The runtime without a program is no function.
pub(crate) fn module(engine: &Engine) -> Result<Module> {
    let place = &raw const MONOHULL_WASI_PROGRAM;
    // SAFETY: the static is there for ever, and nothing writes to it while the image runs.
    let (distance, length) =
        unsafe { ((&raw const (*place).distance).read_volatile(), (&raw const (*place).length).read_volatile()) };
    let (Some(distance), Some(length)) = (NonZeroU64::new(distance), NonZeroU64::new(length)) else {
        bail!("this is the runtime alone, without a program: `monohull build app.wasm` makes a function of both");
    };
    let address = place.cast::<u8>().cast_mut().wrapping_add(distance.get() as usize);
    let bytes =
        NonNull::slice_from_raw_parts(NonNull::new(address).expect("lies behind the image"), length.get() as usize);
    // SAFETY: the linker of an image writes the place of the artifact that the same release of Wasmtime has made of the program, and
    // the loader maps it read-only for as long as the instance lives. An image that is linked otherwise can harm only itself.
    unsafe { Module::deserialize_raw(engine, bytes) }
}
