//! The arguments of a function's step, by name.
//!
//! The step's `args` are a JSON object. A program sees them as `std::env::args()`; a function asks by name: [`arg`], or the parameters of
//! `#[monohull::main]`.
#![allow(unsafe_code, reason = "they are read once and kept behind a pointer: `core` has no `OnceLock`")]

use crate::{end, sys};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, Ordering};
use core::{any, fmt};
use monohull_abi::types::{AbortKind, InfoString};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Reads a map's members in the order of the text, into whatever can be extended by them.
pub fn members<'de, D, K, V, C>(deserializer: D) -> Result<C, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de>,
    V: Deserialize<'de>,
    C: Default + Extend<(K, V)>,
{
    struct Collect<K, V, C>(core::marker::PhantomData<(K, V, C)>);

    impl<'de, K: Deserialize<'de>, V: Deserialize<'de>, C: Default + Extend<(K, V)>> Visitor<'de> for Collect<K, V, C> {
        type Value = C;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<C, A::Error> {
            let mut members = C::default();
            while let Some(member) = map.next_entry()? {
                members.extend([member]);
            }
            Ok(members)
        }
    }

    deserializer.deserialize_map(Collect(core::marker::PhantomData))
}

/// The members of a JSON object; none if there is no text.
pub fn parse<T: DeserializeOwned>(text: &str) -> Vec<(String, T)> {
    // The visor has checked the workflow file, so this is an object, or empty.
    members(&mut serde_json::Deserializer::from_str(text)).unwrap_or_default()
}

/// The step's arguments, in the order of the file.
pub fn arguments() -> &'static [(String, Value)] {
    static ARGUMENTS: AtomicPtr<Vec<(String, Value)>> = AtomicPtr::new(core::ptr::null_mut());
    let known = ARGUMENTS.load(Ordering::Acquire);
    let known = if known.is_null() {
        let read = Box::into_raw(Box::new(parse(&sys::info_string(InfoString::Args))));
        match ARGUMENTS.compare_exchange(known, read, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => read,
            Err(first) => {
                // SAFETY: it came from a box just now, and nothing else knows it.
                drop(unsafe { Box::from_raw(read) });
                first
            }
        }
    } else {
        known
    };
    // SAFETY: only a box's contents are stored there, once, and are never freed or changed.
    unsafe { &*known }
}

/// An argument is missing or is not what the function expects. The workflow file is at fault. If `main` returns it, no other attempt follows, as of a
/// [`Permanent`](crate::Permanent).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgError(String);

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ArgError {}

/// Finds `name` among `members` and reads it as a `T`. A type that can be null, such as `Option`, may be missing.
fn find<T: DeserializeOwned>(members: &[(String, Value)], name: &str) -> Result<T, ArgError> {
    match members.iter().find(|(member, _)| member == name) {
        Some((_, value)) => T::deserialize(value).map_err(|error| ArgError(format!("argument `{name}`: {error}"))),
        None => T::deserialize(&Value::Null).map_err(|_| {
            ArgError(format!(
                "argument `{name}` is missing: a value of type `{}` is expected",
                short(any::type_name::<T>())
            ))
        }),
    }
}

/// A type's name without the paths of its parts.
fn short(name: &str) -> String {
    let pieces = name.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    pieces.map(|piece| piece.rsplit("::").next().unwrap_or(piece)).collect()
}

/// The step's argument `name`, read as a `T`; `Option` if it may be missing.
pub fn try_arg<T: DeserializeOwned>(name: &str) -> Result<T, ArgError> {
    find(arguments(), name)
}

/// The step's argument `name`, read as a `T`. Ends the function as failed if it is missing or of another type. No other attempt follows: it would have the
/// same arguments.
pub fn arg<T: DeserializeOwned>(name: &str) -> T {
    try_arg(name).unwrap_or_else(|error| end::fail(AbortKind::Permanent, format_args!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    const TEXT: &str = r#"{"count": 3, "pattern": "a b", "sizes": [1, 2], "on": true, "nothing": null, "wide": -1}"#;

    #[test]
    fn arguments_are_found_by_name_and_type() {
        let members = parse(TEXT);
        assert_eq!(find::<u32>(&members, "count"), Ok(3));
        assert_eq!(find::<Option<Vec<u64>>>(&members, "sizes"), Ok(Some(vec![1, 2])));
        assert_eq!(find::<Option<String>>(&members, "absent"), Ok(None));
        assert_eq!(find::<Option<u8>>(&members, "nothing"), Ok(None));
    }

    #[test]
    fn errors_name_the_argument_and_what_was_expected() {
        let members = parse(TEXT);
        let text = |result: Result<u32, ArgError>| result.unwrap_err().to_string();
        assert_eq!(text(find(&members, "pattern")), r#"argument `pattern`: invalid type: string "a b", expected u32"#);
        assert_eq!(text(find(&members, "wide")), "argument `wide`: invalid value: integer `-1`, expected u32");
        assert_eq!(short(any::type_name::<Vec<Option<String>>>()), "Vec<Option<String>>");
        assert_eq!(text(find(&members, "absent")), "argument `absent` is missing: a value of type `u32` is expected");
    }

    #[test]
    fn no_arguments_is_no_members() {
        assert!(parse::<Value>("").is_empty());
        assert!(parse::<Value>("{}").is_empty());
    }
}
