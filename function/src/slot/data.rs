//! Which data may travel in a slot: what means the same in another function's memory.

#![allow(unsafe_code, reason = "promises about the layout of types; bytes of other functions are read as such types")]

use super::name::{Layout, TypeName};
use core::mem::offset_of;
use monohull_abi::continuation::{CONTINUATION_FINGERPRINT, CONTINUATION_NAME};
use monohull_abi::types::{BYTES_FINGERPRINT, TEXT_FINGERPRINT};

/// Data that can be handed to another function by reference.
///
/// Derive it for structs, and for enums without data (which need a `#[repr(u8)]` or the like):
///
/// ```
/// use monohull::slot::SlotData;
///
/// #[derive(SlotData)]
/// struct Pixel { x: u32, y: u32, colour: [u8; 3], visible: bool }
/// ```
///
/// A slot is taken as a type with the same name and layout, whatever crate it is defined in. The bytes
/// are checked before they are seen as the type, because the function that filled the slot may be malicious. Destructors of what lies in
/// a slot are not run.
///
/// # Safety
/// Values hold everything they mean inline: no pointers, references or handles. [`is_valid`](SlotData::is_valid) is true
/// only for valid values of the type, [`ALWAYS_VALID`](SlotData::ALWAYS_VALID) only if all bytes are, and
/// [`ZERO_VALID`](SlotData::ZERO_VALID) only if all-zero bytes are. There is no interior mutability.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel in a slot",
    label = "not plain data",
    note = "references, `Box`, `Vec`, `String` and pointers lead into the private memory of one function; another one cannot follow them",
    note = "use numbers, `bool`, `char`, arrays, tuples, and structs of these with `#[derive(SlotData)]`; `SlotVec` and `SlotString` for what grows"
)]
pub unsafe trait SlotData: Sized + 'static {
    /// The type's name, for messages.
    const NAME: TypeName;
    /// Hash of name and layout.
    const FINGERPRINT: u64;
    /// Whether all bytes are valid values.
    const ALWAYS_VALID: bool;
    /// Whether zeros are a valid value.
    const ZERO_VALID: bool;

    /// Whether the bytes are a valid value.
    ///
    /// # Safety
    /// `at` is aligned, and readable for the size of the type.
    unsafe fn is_valid(at: *const Self) -> bool;
}

macro_rules! always_valid {
    ($($type:ident)*) => { $(
        // SAFETY: a number: inline, and all its bit patterns are valid.
        unsafe impl SlotData for $type {
            const NAME: TypeName = TypeName::new(stringify!($type));
            const FINGERPRINT: u64 = Layout::primitive(&Self::NAME);
            const ALWAYS_VALID: bool = true;
            const ZERO_VALID: bool = true;

            unsafe fn is_valid(_: *const Self) -> bool {
                true
            }
        }
    )* };
}

always_valid! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }

// SAFETY: inline; 0 and 1 are all its values.
unsafe impl SlotData for bool {
    const NAME: TypeName = TypeName::new("bool");
    const FINGERPRINT: u64 = Layout::primitive(&Self::NAME);
    const ALWAYS_VALID: bool = false;
    const ZERO_VALID: bool = true;

    unsafe fn is_valid(at: *const Self) -> bool {
        // SAFETY: the caller's promise; a byte may have any value.
        unsafe { at.cast::<u8>().read() <= 1 }
    }
}

// SAFETY: inline; `from_u32` knows its values.
unsafe impl SlotData for char {
    const NAME: TypeName = TypeName::new("char");
    const FINGERPRINT: u64 = Layout::primitive(&Self::NAME);
    const ALWAYS_VALID: bool = false;
    const ZERO_VALID: bool = true;

    unsafe fn is_valid(at: *const Self) -> bool {
        // SAFETY: the caller's promise; `char` is as large and aligned as `u32`.
        char::from_u32(unsafe { at.cast::<u32>().read() }).is_some()
    }
}

// SAFETY: as its elements.
unsafe impl<T: SlotData, const N: usize> SlotData for [T; N] {
    const NAME: TypeName = TypeName::new("[").name(&T::NAME).text("; ").number(N).text("]");
    const FINGERPRINT: u64 = Layout::of::<Self>(&Self::NAME).part("", N, T::FINGERPRINT).finish();
    const ALWAYS_VALID: bool = T::ALWAYS_VALID;
    const ZERO_VALID: bool = T::ZERO_VALID;

    unsafe fn is_valid(at: *const Self) -> bool {
        // SAFETY: an array's elements lie one after the other; the caller's promise covers each.
        T::ALWAYS_VALID || (0..N).all(|i| unsafe { T::is_valid(at.cast::<T>().add(i)) })
    }
}

macro_rules! tuples {
    ($( ($($type:ident $index:tt),*) )*) => { $(
        // SAFETY: as its fields.
        unsafe impl<$($type: SlotData),*> SlotData for ($($type,)*) {
            const NAME: TypeName = TypeName::new("(")$(.name(&$type::NAME).text(","))*.text(")");
            const FINGERPRINT: u64 = Layout::of::<Self>(&Self::NAME)
                $(.part(stringify!($index), offset_of!(Self, $index), $type::FINGERPRINT))*
                .finish();
            const ALWAYS_VALID: bool = true $(&& $type::ALWAYS_VALID)*;
            const ZERO_VALID: bool = true $(&& $type::ZERO_VALID)*;

            unsafe fn is_valid(at: *const Self) -> bool {
                let _ = at;
                // SAFETY: the fields lie inside the tuple, which the caller's promise covers.
                true $(&& unsafe { $type::is_valid(&raw const (*at).$index) })*
            }
        }
    )* };
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// What a slot holds: one value, or a slice of a length known at run time.
#[diagnostic::on_unimplemented(
    message = "a slot cannot hold `{Self}`",
    label = "not plain data",
    note = "references, `Box`, `Vec`, `String` and pointers lead into the private memory of one function; another one cannot follow them",
    note = "a slot holds a `T` or a `[T]` where `T: SlotData`; use `SlotVec` and `SlotString` for what grows"
)]
pub trait SlotContent: sealed::Sealed {
    /// What it consists of.
    type Element: SlotData;
    /// The type as the other side knows it.
    #[doc(hidden)]
    const TAG: &'static Tag;
    /// The types under which a slot may hold it.
    #[doc(hidden)]
    const ACCEPTED: &'static [&'static Tag] = &[Self::TAG];

    /// Whether a slot with so many elements can be this.
    #[doc(hidden)]
    fn can_be(count: u64) -> bool;
    /// Sees `count` elements as one.
    #[doc(hidden)]
    fn at(first: *mut Self::Element, count: usize) -> *mut Self;
}

mod sealed {
    pub trait Sealed {}
    impl<T: super::SlotData> Sealed for T {}
    impl<T: super::SlotData> Sealed for [T] {}
}

/// Name, layout and element size of a slot's contents.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Tag {
    pub(super) name: TypeName,
    pub(super) fingerprint: u64,
    pub(super) element_size: u64,
}

impl<T: SlotData> SlotContent for T {
    type Element = T;
    const TAG: &'static Tag = &Tag { name: T::NAME, fingerprint: T::FINGERPRINT, element_size: size_of::<T>() as u64 };

    fn can_be(count: u64) -> bool {
        count == 1
    }

    fn at(first: *mut T, _: usize) -> *mut T {
        first
    }
}

impl<T: SlotData> SlotContent for [T] {
    type Element = T;
    const TAG: &'static Tag = &{
        let name = TypeName::new("[").name(&T::NAME).text("]");
        // A slice of primitives is known by its name, which is how trusted code knows bytes.
        let fingerprint = if T::FINGERPRINT == Layout::primitive(&T::NAME) {
            Layout::primitive(&name)
        } else {
            Layout::of::<T>(&name).part("", 0, T::FINGERPRINT).finish()
        };
        Tag { name, fingerprint, element_size: size_of::<T>() as u64 }
    };
    // Text is bytes, too.
    const ACCEPTED: &'static [&'static Tag] =
        if Self::TAG.fingerprint == BYTES_FINGERPRINT { &[Self::TAG, TEXT] } else { &[Self::TAG] };

    fn can_be(_: u64) -> bool {
        true
    }

    fn at(first: *mut T, count: usize) -> *mut [T] {
        core::ptr::slice_from_raw_parts_mut(first, count)
    }
}

/// A continuation in a slot.
pub(super) const CONTINUATION: &Tag =
    &Tag { name: TypeName::new(CONTINUATION_NAME), fingerprint: CONTINUATION_FINGERPRINT, element_size: 1 };

/// UTF-8 text, which is what [`SlotString`](super::SlotString) travels as.
pub(super) const TEXT: &Tag = &Tag { name: TypeName::new("str"), fingerprint: TEXT_FINGERPRINT, element_size: 1 };

const _: () = assert!(<[u8]>::TAG.fingerprint == BYTES_FINGERPRINT);
