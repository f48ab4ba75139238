//! What a program is started with, in both versions of WASI.

use alloc::string::String;
use alloc::vec::Vec;
use monohull_std::env;

/// Name of the function, and the step's arguments as `--name=value`. As in programs in C, the elements of an argument `argv` that is a list of
/// texts come first, as they are.
pub(crate) fn of_step() -> Vec<String> {
    let mut words: Vec<String> = env::args().collect();
    if let Ok(list) = env::try_arg::<Vec<String>>("argv") {
        words.retain(|word| !word.starts_with("--argv="));
        words.splice(1..1, list);
    }
    words
}
