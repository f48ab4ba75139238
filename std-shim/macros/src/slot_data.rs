//! `#[derive(SlotData)]`: what may travel in a slot, and under which fingerprint.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DataStruct, DeriveInput, Error, Fields, GenericParam, Generics, Index, Member, parse_quote};

/// The parts of the generated implementation.
struct Parts {
    /// A chain of calls that adds the type's parts to its layout.
    layout: TokenStream,
    always_valid: TokenStream,
    zero_valid: TokenStream,
    is_valid: TokenStream,
}

/// The implementation, or a compile error with a remedy.
pub(crate) fn derive(input: DeriveInput) -> TokenStream {
    expand(&input).unwrap_or_else(|error| error.to_compile_error())
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let slot = slot_module();
    let name = &input.ident;
    let parts = match &input.data {
        Data::Struct(data) => of_struct(data, &slot),
        Data::Enum(data) => of_enum(input, data)?,
        Data::Union(_) => {
            return Err(Error::new_spanned(name, "a union cannot travel in a slot: its contents cannot be checked"));
        }
    };
    let generics = bounded(&input.generics, &slot)?;
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let type_name = type_name(input);
    let Parts { layout, always_valid, zero_valid, is_valid } = parts;
    Ok(quote! {
        const _: () = {
            use #slot::{Layout as __Layout, SlotData as __SlotData, TypeName as __TypeName};

            // SAFETY: the value consists of its parts, each of which may travel and is checked; there is nothing else in
            // it but padding.
            #[automatically_derived]
            unsafe impl #impl_generics __SlotData for #name #type_generics #where_clause {
                const NAME: __TypeName = #type_name;
                const FINGERPRINT: u64 = __Layout::of::<Self>(&Self::NAME) #layout .finish();
                const ALWAYS_VALID: bool = #always_valid;
                const ZERO_VALID: bool = #zero_valid;

                unsafe fn is_valid(at: *const Self) -> bool {
                    let _ = at;
                    // SAFETY: the parts lie inside the value, which the caller promises to be readable and aligned.
                    unsafe { #is_valid }
                }
            }
        };
    })
}

fn of_struct(data: &DataStruct, slot: &TokenStream) -> Parts {
    let mut parts =
        Parts { layout: quote!(), always_valid: quote!(true), zero_valid: quote!(true), is_valid: quote!(true) };
    for (index, field) in data.fields.iter().enumerate() {
        let member = field.ident.clone().map_or_else(|| Member::from(Index::from(index)), Member::from);
        let label = member.to_token_stream().to_string();
        let ty = &field.ty;
        // Where the field's type stands is where an unfit one is reported.
        let data = quote_spanned!(ty.span()=> <#ty as #slot::SlotData>);
        parts.layout.extend(quote! { .part(#label, ::core::mem::offset_of!(Self, #member), #data::FINGERPRINT) });
        parts.always_valid.extend(quote! { && #data::ALWAYS_VALID });
        parts.zero_valid.extend(quote! { && #data::ZERO_VALID });
        parts.is_valid.extend(quote! { && #data::is_valid(&raw const (*at).#member) });
    }
    parts
}

fn of_enum(input: &DeriveInput, data: &DataEnum) -> Result<Parts, Error> {
    if let Some(variant) = data.variants.iter().find(|variant| !matches!(variant.fields, Fields::Unit)) {
        let why = "an enum with data cannot travel in a slot: use a struct with a field for its kind";
        return Err(Error::new_spanned(variant, why));
    }
    let number = representation(input)?.ok_or_else(|| {
        Error::new_spanned(&input.ident, "an enum that travels in a slot needs a fixed layout: add `#[repr(u8)]`")
    })?;
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let layout = variants.iter().map(|variant| {
        let label = variant.to_string();
        quote! { .variant(#label, Self::#variant as i128) }
    });
    Ok(Parts {
        layout: quote! { #(#layout)* },
        always_valid: quote!(false),
        zero_valid: quote! { false #(|| Self::#variants as i128 == 0)* },
        is_valid: quote! {{
            let value = at.cast::<#number>().read() as i128;
            false #(|| value == Self::#variants as i128)*
        }},
    })
}

/// The number type in `#[repr(…)]`.
fn representation(input: &DeriveInput) -> Result<Option<syn::Ident>, Error> {
    const NUMBERS: [&str; 10] = ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"];
    let mut found = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            if let Some(ident) = meta.path.get_ident().filter(|ident| NUMBERS.contains(&ident.to_string().as_str())) {
                found = Some(ident.clone());
            } else if meta.input.peek(syn::token::Paren) {
                // `align(8)` and the like.
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Every type parameter must be able to travel; borrowed data cannot.
fn bounded(generics: &Generics, slot: &TokenStream) -> Result<Generics, Error> {
    let mut generics = generics.clone();
    for parameter in &mut generics.params {
        match parameter {
            GenericParam::Type(parameter) => parameter.bounds.push(parse_quote!(#slot::SlotData)),
            GenericParam::Lifetime(lifetime) => {
                let why = "a reference cannot travel in a slot: it leads into the private memory of one function";
                return Err(Error::new_spanned(lifetime, why));
            }
            GenericParam::Const(_) => {}
        }
    }
    Ok(generics)
}

/// `Pair<u32,u8>`, as an expression.
fn type_name(input: &DeriveInput) -> TokenStream {
    let name = input.ident.to_string();
    let types: Vec<_> = input.generics.type_params().map(|parameter| &parameter.ident).collect();
    if types.is_empty() {
        return quote! { __TypeName::new(#name) };
    }
    let (first, rest) = (&types[0], &types[1..]);
    quote! {
        __TypeName::new(#name).text("<").name(&<#first as __SlotData>::NAME)
            #(.text(",").name(&<#rest as __SlotData>::NAME))*
            .text(">")
    }
}

/// The module `slot` of `monohull` or of `monohull-std`, under the name that the deriving crate gave the dependency.
fn slot_module() -> TokenStream {
    let name = match crate_name("monohull").or_else(|_| crate_name("monohull-std")) {
        Ok(FoundCrate::Name(name)) => name,
        // The crate's own tests and documentation, or a build without a manifest.
        Ok(FoundCrate::Itself) | Err(_) => "monohull".into(),
    };
    let name = format_ident!("{}", name, span = Span::call_site());
    quote! { ::#name::slot }
}
