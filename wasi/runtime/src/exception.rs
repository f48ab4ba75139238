//! What is said of an exception of WebAssembly that the program has thrown and not caught.
//!
//! Such an exception leaves all calls of the program, as a trap does. Wasmtime keeps it in the store, and says of it that there was one.
//! What it carries are numbers, of which a language's runtime knows the meaning: of C++ and of Rust an address in the program's memory.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};
use wasmtime::{Error, ExnRef, GcHeapOutOfMemory, Rooted, Store, ThrownException, Val};

/// The error of a call; of an exception with what it carries, and of an object for which there is no room with what limits it.
pub(crate) fn explain<T: 'static>(error: Error, store: &mut Store<T>) -> Error {
    if error.is::<GcHeapOutOfMemory<()>>() {
        return error.context("out of memory: the step's `memory` has no room for what the program keeps");
    }
    if !error.is::<ThrownException>() {
        return error;
    }
    let thrown = store.take_pending_exception();
    error.context(Uncaught(thrown.map(|thrown| values(&thrown, store)).unwrap_or_default()))
}

/// An exception that was not caught, and the values in it.
#[derive(Debug)]
struct Uncaught(Vec<String>);

impl Display for Uncaught {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the program has thrown an exception of WebAssembly that nothing catches")?;
        match &self.0[..] {
            [] => Ok(()),
            values => write!(f, ": {}", values.join(", ")),
        }
    }
}

fn values<T: 'static>(thrown: &Rooted<ExnRef>, store: &mut Store<T>) -> Vec<String> {
    let Ok(fields) = thrown.fields(store) else { return Vec::new() };
    fields.take(VALUES_MAX).map(|value| shown(&value)).collect()
}

/// Values that are shown.
const VALUES_MAX: usize = 8;

fn shown(value: &Val) -> String {
    match value {
        Val::I32(value) => format!("i32 {value}"),
        Val::I64(value) => format!("i64 {value}"),
        Val::F32(bits) => format!("f32 {}", f32::from_bits(*bits)),
        Val::F64(bits) => format!("f64 {}", f64::from_bits(*bits)),
        Val::V128(value) => format!("v128 {:#034x}", value.as_u128()),
        _ => String::from("a reference"),
    }
}
