//! How a table of services is declared: once, as a list of function signatures with their documentation.
//!
//! ```text
//!                         ┌─▶ struct: one C function pointer per service    what the visor passes to a module
//!                         ├─▶ methods of the struct: call the pointers      what the safe wrapper uses
//!  service_table! { … } ──┤
//!                         ├─▶ trait: one required function per service      what the visor and the test double implement
//!                         └─▶ SIGNATURES: a hash of the list                what is compared when a module is loaded
//! ```
//!
//! A new service is one line in the list and one function in each implementation; without the latter the crate with the
//! implementation does not compile.

/// Declares a table of services. `&domain` as the first parameter passes the table's domain; a table may contain another one.
macro_rules! service_table {
    (
        $(#[$table_doc:meta])*
        struct $table:ident;
        $(#[$services_doc:meta])*
        trait $services:ident;
        $( contains $inner:ident: $inner_table:ident from $inner_services:ident; )?
        $(
            $(#[$doc:meta])*
            fn $name:ident($(&$domain:ident $(,)?)? $($parameter:ident: $type:ty),*) $(-> $result:ty)?;
        )*
    ) => {
        $(#[$table_doc])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $table {
            domain: *mut ::core::ffi::c_void,
            $(
                $(#[$doc])*
                pub $name:
                    unsafe extern "C" fn($($domain: *mut ::core::ffi::c_void,)? $($parameter: $type),*) $(-> $result)?,
            )*
            $(
                #[doc = concat!("The table [`", stringify!($inner_table), "`].")]
                pub $inner: $inner_table,
            )?
        }

        // SAFETY: the services may be called from any carrier; that is part of the contract above.
        unsafe impl Send for $table {}
        // SAFETY: as above.
        unsafe impl Sync for $table {}

        impl $table {
            /// A hash of the names, order and types of the services.
            pub const SIGNATURES: u32 = $crate::services::hash(&[
                $(
                    concat!(
                        stringify!($name), $("&", stringify!($domain),)? $(stringify!($type), ",",)*
                        $("->", stringify!($result))?
                    ),
                )*
            ]) $( ^ $inner_table::SIGNATURES.rotate_left(16) )?;

            /// The table of one implementation.
            ///
            /// # Safety
            /// `domain` is what the functions of `S` expect as their first argument, for as long as the table is used.
            pub const unsafe fn of<S: $services $(+ $inner_services)?>(domain: *mut ::core::ffi::c_void) -> $table {
                $table {
                    domain,
                    $( $name: <S as $services>::$name, )*
                    // SAFETY: the caller's promise.
                    $( $inner: unsafe { $inner_table::of::<S>(domain) }, )?
                }
            }

            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// Pointers are valid for what the service reads or writes through them.
                #[inline]
                pub unsafe fn $name(&self, $($parameter: $type),*) $(-> $result)? {
                    // SAFETY: the caller's promise; the domain is the table's own.
                    unsafe { (self.$name)($(self.$domain,)? $($parameter),*) }
                }
            )*
        }

        $(#[$services_doc])*
        pub trait $services {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The domain is that of the table; pointers are valid for what the service reads or writes through them.
                unsafe extern "C" fn $name(
                    $($domain: *mut ::core::ffi::c_void,)? $($parameter: $type),*
                ) $(-> $result)?;
            )*
        }
    };
}

pub(crate) use service_table;

/// FNV-1a over the texts, without blanks: how a compiler spaces the tokens of a type is its own affair.
pub(crate) const fn hash(texts: &[&str]) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    let mut text = 0;
    while text < texts.len() {
        let bytes = texts[text].as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] != b' ' {
                hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
            }
            at += 1;
        }
        // The end of a text counts, too.
        hash = (hash ^ 0xff).wrapping_mul(0x0100_0193);
        text += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "the tables of these tests are used here alone")]

    use super::hash;

    service_table! {
        /// A table.
        struct Two;
        /// Its services.
        trait TwoServices;
        /// One.
        fn first(&domain, value: u64) -> u64;
        /// The other.
        fn second(value: u64) -> u64;
    }

    struct Adds;

    impl TwoServices for Adds {
        unsafe extern "C" fn first(domain: *mut core::ffi::c_void, value: u64) -> u64 {
            domain as u64 + value
        }

        unsafe extern "C" fn second(value: u64) -> u64 {
            value + 1
        }
    }

    #[test]
    fn a_table_passes_its_domain_to_the_services_that_take_one() {
        // SAFETY: `Adds` takes any number for its domain.
        unsafe {
            let table = Two::of::<Adds>(core::ptr::without_provenance_mut(40));
            assert_eq!((table.first(2), table.second(2)), (42, 3));
        }
    }

    #[test]
    fn the_signatures_are_those_of_the_list() {
        assert_eq!(Two::SIGNATURES, hash(&["first&domainu64,->u64", "secondu64,->u64"]));
    }

    #[test]
    fn the_hash_knows_texts_and_their_order_but_not_blanks() {
        assert_eq!(hash(&["f(*mut u8)"]), hash(&["f( *mut  u8 )"]));
        assert_ne!(hash(&["f(u8)"]), hash(&["f(u16)"]));
        assert_ne!(hash(&["a", "b"]), hash(&["b", "a"]));
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }
}
