//! Where the compiled program lies.
//!
//! The linker of the program ([`PLACE`]'s name is what it looks for) appends the compiled program behind this image and writes where it is,
//! which part of it is code, and how it was compiled, into the static below; the distance counts from that static. All words are zero in the
//! runtime as it is built.

use core::hint::black_box;
use core::num::NonZeroU64;
use core::ops::Range;
use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use monohull_wasi_settings::Checks;
use wasmtime::component::Component;
use wasmtime::{Engine, Module, Precompiled, Result, bail, format_err};

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
    /// From this structure to the table of source lines.
    lines: u64,
    lines_length: u64,
}

/// Written into the image file after it was linked. Volatile, because to the compiler it is a constant zero.
#[unsafe(no_mangle)]
static MONOHULL_WASI_PROGRAM: Place = Place {
    distance: 0,
    length: 0,
    code: 0,
    code_length: 0,
    checks: 0,
    attachment: 0,
    attachment_length: 0,
    lines: 0,
    lines_length: 0,
};

/// The compiled program in memory.
pub(crate) struct Program {
    bytes: NonNull<[u8]>,
    /// The addresses of its code.
    code: Range<u64>,
    pub(crate) checks: Checks,
    /// What is attached to it.
    pub(crate) attachment: &'static [u8],
    /// Where in its source its instructions come from, as [`monohull_wasi_settings::lines`] has it. Without debug information it is empty.
    pub(crate) lines: &'static [u8],
}

/// A program that is ready to be instantiated.
pub(crate) enum Loaded {
    /// A module, for preview 1 of WASI.
    Module(Module),
    /// A component, for WASI 0.2.
    Component(Component),
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
        // What lies behind the image is no part of the static: to the compiler these are addresses that it knows nothing of.
        let here = black_box(at.expose_provenance());
        let address = with_exposed_provenance_mut::<u8>(here.wrapping_add(distance.get() as usize));
        let start = address as u64 + place.code;
        let checks = Checks::from_raw(place.checks).ok_or_else(|| format_err!("it was compiled in an unknown way"))?;
        let address = NonNull::new(address).expect("lies behind the image");
        let bytes = NonNull::slice_from_raw_parts(address, length.get() as usize);
        let part = |distance: u64, length: u64| {
            let start = with_exposed_provenance::<u8>(here.wrapping_add(distance as usize));
            // SAFETY: the linker of an image writes where it has put this part, and the loader maps it read-only for as long as the
            // instance lives. Without the part the length is 0, and the address that of what would come there.
            unsafe { core::slice::from_raw_parts(start, length as usize) }
        };
        let attachment = part(place.attachment, place.attachment_length);
        let lines = part(place.lines, place.lines_length);
        Ok(Program { bytes, code: start..start + place.code_length, checks, attachment, lines })
    }

    /// The addresses of its code.
    pub(crate) fn code(&self) -> Range<u64> {
        self.code.clone()
    }

    /// The program, ready to be instantiated.
    pub(crate) fn load(&self, engine: &Engine) -> Result<Loaded> {
        // SAFETY: the linker of an image writes where it has put the program, and the loader maps it read-only for as long as the
        // instance lives.
        let bytes = unsafe { self.bytes.as_ref() };
        if let Some(Precompiled::Component) = Engine::detect_precompiled(bytes) {
            // SAFETY: as below.
            return unsafe { Component::deserialize_raw(engine, self.bytes) }.map(Loaded::Component);
        }
        // SAFETY: the linker of an image writes the place of the artifact that the same release of Wasmtime has made of the program, and
        // the loader maps it read-only for as long as the instance lives. An image that is linked otherwise can harm only itself.
        unsafe { Module::deserialize_raw(engine, self.bytes) }.map(Loaded::Module)
    }
}
