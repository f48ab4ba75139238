//! Attribute and derive macros of monohull and monohull-std.

mod entry;
mod slot_data;

use proc_macro::TokenStream;

/// Makes `fn main` the function's entry, and takes its parameters from the step's `args` by name.
///
/// ```text
/// #[monohull::main]
/// fn main(count: u32, pattern: String, extra: Option<Vec<u64>>) -> Result<(), ParseError> { … }
/// ```
///
/// A parameter may have any type that serde can read; one whose type is `Option<…>` may be missing. A missing argument,
/// or one of another type, fails the function with a text that names it. `main` may return `()`, an
/// `ExitCode`, or a `Result` of these whose error is `Debug`.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(options.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The same for a function on Rust's own std, by the crate `monohull` with its feature `std`: `fn main` is an ordinary one.
#[proc_macro_attribute]
pub fn main_of_std(options: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand_on_std(options.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a crate with a plain `fn main()` a function, and gives it std's names. Its first line:
///
/// ```text
/// #![no_std] monohull_std::program!();
/// ```
///
/// Modules below the root start with `use std::prelude::v1::*;` (which changes nothing when the same source is compiled
/// with std). They need not if the dependency is renamed to `std`; then the line is `std::program!();` alone.
#[proc_macro]
pub fn program(options: TokenStream) -> TokenStream {
    entry::program(options.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Lets a type travel in a slot; see the trait of the same name.
#[proc_macro_derive(SlotData)]
pub fn derive_slot_data(input: TokenStream) -> TokenStream {
    slot_data::derive(syn::parse_macro_input!(input as syn::DeriveInput)).into()
}
