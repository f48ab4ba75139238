//! What std promises, one line per behaviour: `area.behaviour = value`.
//!
//! Nothing here knows where it runs. A value is printed with `Debug`, so two lines are equal only if every byte of them is.
//! Behaviours that depend on the machine or on luck are put as questions whose answer is the same everywhere.
//!
//! Two signs say how lines are compared: ` = ` exactly; ` ~ ` as floating-point bits, which may lie a few units of the
//! last place apart, because a C library's elementary functions are not the same everywhere either.
#![allow(
    clippy::style,
    clippy::complexity,
    clippy::perf,
    clippy::correctness,
    clippy::unimplemented,
    reason = "std is asked in roundabout ways"
)]
#![allow(clippy::incompatible_msrv, reason = "the suite is about the std of the compiler at hand")]

mod addresses;
mod atomics;
mod channels;
mod collections;
mod endings;
mod environment;
mod errors;
mod files;
mod formatting;
mod hashed;
mod hashing;
mod io_buffered;
mod io_errors;
mod io_memory;
mod io_traits;
mod iterators;
mod locks;
mod maths;
mod memory;
mod numbers;
mod once;
mod panics;
mod paths;
mod standard_input;
mod strings;
mod thread_locals;
mod threads;
mod time;
mod vectors;

use std::fmt::Debug;

pub(crate) use endings::Ending;

/// Prints one behaviour of the module it stands in.
macro_rules! check {
    ($name:literal, $value:expr) => {
        $crate::suite::line(module_path!(), $name, "=", &$value)
    };
}
use check;

/// Prints one behaviour; `module` ends with the area's name.
fn line(module: &str, name: &str, sign: &str, value: &dyn Debug) {
    let area = module.rsplit("::").next().unwrap_or(module);
    println!("{area}.{name} {sign} {value:?}");
}

/// The areas in order, or the one ending that the argument `end` asks for.
pub(crate) fn main() -> Result<(), Ending> {
    if let Some(ending) = std::env::args().find_map(|word| word.strip_prefix("--end=").map(str::to_owned)) {
        return endings::end(&ending);
    }
    formatting::all();
    strings::all();
    numbers::all();
    maths::all();
    vectors::all();
    iterators::all();
    collections::all();
    hashed::all();
    hashing::all();
    memory::all();
    errors::all();
    io_errors::all();
    io_traits::all();
    io_memory::all();
    io_buffered::all();
    time::all();
    environment::all();
    standard_input::all();
    paths::all();
    files::all();
    addresses::all();
    atomics::all();
    locks::all();
    once::all();
    channels::all();
    threads::all();
    thread_locals::all();
    panics::all();
    println!("the end");
    Ok(())
}
