//! `#[monohull::main]`: the function as written, and beside it a parameterless one that the image starts with.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Error, FnArg, Ident, ItemFn, Pat, Result, parse2};

/// Expands `program!()`.
pub(crate) fn program(options: TokenStream) -> Result<TokenStream> {
    refuse_options(options)?;
    let shim = shim_name();
    // Under the name `std` the compiler has brought in the crate and its prelude already.
    let names = (shim != "std").then(|| {
        quote! {
            extern crate #shim as std;
            #[allow(unused_imports, reason = "a program need not use all of std's names")]
            use ::#shim::prelude::v1::*;
        }
    });
    Ok(quote! {
        #names
        ::#shim::image!(crate::main);
    })
}

fn refuse_options(options: TokenStream) -> Result<()> {
    if options.is_empty() { Ok(()) } else { Err(Error::new_spanned(options, "there are no options")) }
}

/// A function's main: what it is, and how it is called with the step's arguments.
struct Main {
    function: ItemFn,
    /// The call, with each argument from `base`.
    call: TokenStream,
}

/// Reads the function that `#[main]` is on. `base` is the crate that has `arg`.
fn read(options: TokenStream, item: TokenStream, base: &Ident) -> Result<Main> {
    refuse_options(options)?;
    let function: ItemFn = parse2(item)?;
    let signature = &function.sig;
    let refuse = |what: &dyn quote::ToTokens, why: &str| Err(Error::new_spanned(what, why));
    if let Some(asyncness) = &signature.asyncness {
        return refuse(asyncness, "a function's main cannot be async: there is no executor");
    }
    if !signature.generics.params.is_empty() {
        return refuse(
            &signature.generics,
            "a function's main cannot be generic: there is no caller that chooses the types",
        );
    }
    if let Some(abi) = &signature.abi {
        return refuse(abi, "a function's main is an ordinary Rust function");
    }

    let mut names: Vec<&Ident> = Vec::new();
    for parameter in &signature.inputs {
        match parameter {
            FnArg::Typed(typed) => match &*typed.pat {
                Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => {
                    names.push(&pattern.ident)
                }
                other => return refuse(other, "a parameter needs a name: it is the name of the step's argument"),
            },
            FnArg::Receiver(receiver) => return refuse(receiver, "a function's main has no self"),
        }
    }
    let types = signature.inputs.iter().filter_map(|parameter| match parameter {
        FnArg::Typed(typed) => Some(&typed.ty),
        FnArg::Receiver(_) => None,
    });
    let texts = names.iter().map(|name| {
        let text = name.to_string();
        text.strip_prefix("r#").unwrap_or(&text).to_owned()
    });
    let main = &signature.ident;
    let call = quote! { #main(#(::#base::arg::<#types>(#texts)),*) };
    Ok(Main { function, call })
}

/// Expands `#[main]` on a function on monohull-std: an image's entry beside it.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let shim = shim_name();
    let Main { function, call } = read(options, item, &shim)?;
    Ok(quote! {
        #function

        const _: () = {
            #[allow(dead_code, reason = "called when the crate is linked as an image")]
            fn entry() -> ::#shim::process::ExitCode {
                #[allow(unused_imports, reason = "which of them reports depends on what main returns")]
                use ::#shim::rt::returned::{ReportDisplay, ReportError, ReportSendable, ReportTermination, Returned};
                let returned = #call;
                (&&&&Returned::of(&returned)).report(returned)
            }
            ::#shim::image!(entry);
        };
    })
}

/// Expands `#[main]` on a function on Rust's own std: an ordinary `main` without parameters, around it.
pub(crate) fn expand_on_std(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let base = match crate_name("monohull") {
        Ok(FoundCrate::Name(name)) => format_ident!("{name}"),
        Ok(FoundCrate::Itself) | Err(_) => format_ident!("monohull"),
    };
    let Main { function, call } = read(options, item, &base)?;
    let (visibility, main) = (&function.vis, &function.sig.ident);
    Ok(quote! {
        #visibility fn #main() -> ::std::process::ExitCode {
            #[allow(unused_imports, reason = "which of them reports depends on what main returns")]
            use ::#base::rt::std_returned::{ReportDisplay, ReportError, ReportSendable, ReportTermination, Returned};
            #function
            let returned = #call;
            (&&&&Returned::of(&returned)).report(returned)
        }
    })
}

/// How the crate at hand calls the shim: by its own name unless `Cargo.toml` renames it.
fn shim_name() -> Ident {
    match crate_name("monohull-std") {
        Ok(FoundCrate::Name(name)) => format_ident!("{name}"),
        Ok(FoundCrate::Itself) | Err(_) => format_ident!("monohull_std"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(item: TokenStream) -> String {
        expand(TokenStream::new(), item).unwrap_err().to_string()
    }

    #[test]
    fn parameters_become_arguments_by_name() {
        let expanded = expand(quote!(), quote! { fn main(count: u32, r#type: Option<String>) {} }).unwrap().to_string();
        assert!(expanded.contains(r#"arg :: < u32 > ("count")"#), "{expanded}");
        assert!(expanded.contains(r#"arg :: < Option < String > > ("type")"#), "{expanded}");
        assert!(expanded.contains(":: monohull_std :: image !"), "{expanded}");
    }

    #[test]
    fn on_rusts_own_std_it_is_an_ordinary_main() {
        let item = quote! { fn main(count: u32) -> Result<(), String> { Ok(()) } };
        let expanded = expand_on_std(quote!(), item).unwrap().to_string();
        assert!(expanded.starts_with("fn main () -> :: std :: process :: ExitCode {"), "{expanded}");
        assert!(expanded.contains(r#"main (:: monohull :: arg :: < u32 > ("count"))"#), "{expanded}");
    }

    #[test]
    fn what_cannot_be_started_is_refused_with_a_reason() {
        assert!(message(quote! { async fn main() {} }).contains("async"));
        assert!(message(quote! { fn main<T>() {} }).contains("generic"));
        assert!(message(quote! { fn main((a, b): (u32, u32)) {} }).contains("needs a name"));
        assert!(message(quote! { fn main(&self) {} }).contains("no self"));
    }
}
