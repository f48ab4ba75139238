//! Texts of the operating system. This one's are UTF-8 without exception: names of files are, and so are arguments and
//! environment, which come from a JSON document. So an [`OsStr`] is a `str` by another name, and the conversions that may
//! fail in std never do.

use crate::borrow::{Borrow, Cow, ToOwned};
use crate::boxed::Box;
use crate::rc::Rc;
use crate::string::String;
use crate::sync::Arc;
use crate::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::str::FromStr;

/// A borrowed text of the operating system.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct OsStr(str);

/// An owned text of the operating system.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsString(String);

impl OsStr {
    /// Any text as one of the operating system.
    pub fn new<S: AsRef<OsStr> + ?Sized>(text: &S) -> &OsStr {
        text.as_ref()
    }

    #[allow(unsafe_code, reason = "a reference to a type around `str` has no other source")]
    pub(crate) fn from_str(text: &str) -> &OsStr {
        // SAFETY: `OsStr` is transparent around `str`, and the lifetime stays.
        unsafe { &*(text as *const str as *const OsStr) }
    }

    #[allow(unsafe_code, reason = "as above")]
    fn from_boxed(text: Box<str>) -> Box<OsStr> {
        // SAFETY: `OsStr` is transparent around `str`, so the allocation has the layout that freeing it needs.
        unsafe { Box::from_raw(Box::into_raw(text) as *mut OsStr) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, if it is UTF-8: always.
    pub fn to_str(&self) -> Option<&str> {
        Some(&self.0)
    }

    /// The text; what is not UTF-8 would be replaced.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    /// An owned copy.
    pub fn to_os_string(&self) -> OsString {
        OsString(self.0.to_owned())
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Makes the box an owned text.
    #[allow(clippy::boxed_local, reason = "std has it so")]
    pub fn into_os_string(self: Box<OsStr>) -> OsString {
        // One copy; the box is small.
        self.to_os_string()
    }

    /// The bytes.
    pub fn as_encoded_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Bytes that came from [`OsStr::as_encoded_bytes`], as a text again.
    ///
    /// # Safety
    /// They came from there, and were cut only beside what is UTF-8.
    #[allow(unsafe_code, reason = "std's name and condition")]
    pub unsafe fn from_encoded_bytes_unchecked(bytes: &[u8]) -> &OsStr {
        // SAFETY: the caller's promise: what was cut from UTF-8 beside UTF-8 is UTF-8.
        OsStr::from_str(unsafe { core::str::from_utf8_unchecked(bytes) })
    }

    /// ASCII letters become small.
    pub fn make_ascii_lowercase(&mut self) {
        self.0.make_ascii_lowercase();
    }

    /// ASCII letters become capital.
    pub fn make_ascii_uppercase(&mut self) {
        self.0.make_ascii_uppercase();
    }

    /// A copy with small ASCII letters.
    pub fn to_ascii_lowercase(&self) -> OsString {
        OsString(self.0.to_ascii_lowercase())
    }

    /// A copy with capital ASCII letters.
    pub fn to_ascii_uppercase(&self) -> OsString {
        OsString(self.0.to_ascii_uppercase())
    }

    /// Whether all of it is ASCII.
    pub fn is_ascii(&self) -> bool {
        self.0.is_ascii()
    }

    /// Compares without regard to the case of ASCII letters.
    pub fn eq_ignore_ascii_case<S: AsRef<OsStr>>(&self, other: S) -> bool {
        self.0.eq_ignore_ascii_case(&other.as_ref().0)
    }

    /// For `{}`.
    pub fn display(&self) -> Display<'_> {
        Display(self)
    }
}

/// What [`OsStr::display`] returns.
pub struct Display<'a>(&'a OsStr);

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.0, f)
    }
}

impl fmt::Debug for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.0, f)
    }
}

impl OsString {
    /// No text.
    pub const fn new() -> OsString {
        OsString(String::new())
    }

    /// No text, with room for some.
    pub fn with_capacity(capacity: usize) -> OsString {
        OsString(String::with_capacity(capacity))
    }

    /// It, borrowed.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_str(&self.0)
    }

    /// The text, if it is UTF-8: always.
    pub fn into_string(self) -> Result<String, OsString> {
        Ok(self.0)
    }

    /// The bytes.
    pub fn into_encoded_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    /// Appends.
    pub fn push<T: AsRef<OsStr>>(&mut self, text: T) {
        self.0.push_str(text.as_ref().as_str());
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes that fit without growing.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Makes room.
    pub fn reserve(&mut self, additional: usize) {
        self.0.reserve(additional);
    }

    /// Gives up room that is not needed.
    pub fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }

    /// As a box.
    pub fn into_boxed_os_str(self) -> Box<OsStr> {
        OsStr::from_boxed(self.0.into_boxed_str())
    }

    pub(crate) fn as_mut_string(&mut self) -> &mut String {
        &mut self.0
    }
}

impl Deref for OsString {
    type Target = OsStr;

    fn deref(&self) -> &OsStr {
        self.as_os_str()
    }
}

impl DerefMut for OsString {
    #[allow(unsafe_code, reason = "as in `OsStr::from_str`")]
    fn deref_mut(&mut self) -> &mut OsStr {
        // SAFETY: `OsStr` is transparent around `str`, and the lifetime stays.
        unsafe { &mut *(self.0.as_mut_str() as *mut str as *mut OsStr) }
    }
}

impl fmt::Debug for OsStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Debug for OsString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Write for OsString {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        Ok(())
    }
}

impl Borrow<OsStr> for OsString {
    fn borrow(&self) -> &OsStr {
        self
    }
}

impl ToOwned for OsStr {
    type Owned = OsString;

    fn to_owned(&self) -> OsString {
        self.to_os_string()
    }
}

impl Clone for Box<OsStr> {
    fn clone(&self) -> Box<OsStr> {
        self.to_os_string().into_boxed_os_str()
    }
}

impl Default for &OsStr {
    fn default() -> Self {
        OsStr::from_str("")
    }
}

impl AsRef<OsStr> for OsStr {
    fn as_ref(&self) -> &OsStr {
        self
    }
}

impl AsRef<OsStr> for OsString {
    fn as_ref(&self) -> &OsStr {
        self
    }
}

impl AsRef<OsStr> for str {
    fn as_ref(&self) -> &OsStr {
        OsStr::from_str(self)
    }
}

impl AsRef<OsStr> for String {
    fn as_ref(&self) -> &OsStr {
        OsStr::from_str(self)
    }
}

impl From<String> for OsString {
    fn from(text: String) -> OsString {
        OsString(text)
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for OsString {
    fn from(text: &T) -> OsString {
        text.as_ref().to_os_string()
    }
}

impl From<Box<OsStr>> for OsString {
    fn from(text: Box<OsStr>) -> OsString {
        text.into_os_string()
    }
}

impl From<OsString> for Box<OsStr> {
    fn from(text: OsString) -> Box<OsStr> {
        text.into_boxed_os_str()
    }
}

impl From<&OsStr> for Box<OsStr> {
    fn from(text: &OsStr) -> Box<OsStr> {
        text.to_os_string().into_boxed_os_str()
    }
}

impl From<OsString> for Arc<OsStr> {
    fn from(text: OsString) -> Arc<OsStr> {
        Arc::from(text.into_boxed_os_str())
    }
}

impl From<OsString> for Rc<OsStr> {
    fn from(text: OsString) -> Rc<OsStr> {
        Rc::from(text.into_boxed_os_str())
    }
}

impl From<Cow<'_, OsStr>> for OsString {
    fn from(text: Cow<'_, OsStr>) -> OsString {
        text.into_owned()
    }
}

impl From<OsString> for Cow<'_, OsStr> {
    fn from(text: OsString) -> Self {
        Cow::Owned(text)
    }
}

impl<'a> From<&'a OsStr> for Cow<'a, OsStr> {
    fn from(text: &'a OsStr) -> Cow<'a, OsStr> {
        Cow::Borrowed(text)
    }
}

impl<'a> TryFrom<&'a OsStr> for &'a str {
    type Error = core::str::Utf8Error;

    fn try_from(text: &'a OsStr) -> Result<&'a str, Self::Error> {
        Ok(&text.0)
    }
}

impl FromStr for OsString {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<OsString, Infallible> {
        Ok(OsString(text.into()))
    }
}

impl Extend<OsString> for OsString {
    fn extend<I: IntoIterator<Item = OsString>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.push(text));
    }
}

impl<'a> Extend<&'a OsStr> for OsString {
    fn extend<I: IntoIterator<Item = &'a OsStr>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.push(text));
    }
}

impl<'a> Extend<Cow<'a, OsStr>> for OsString {
    fn extend<I: IntoIterator<Item = Cow<'a, OsStr>>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.push(text));
    }
}

impl<'a> FromIterator<&'a OsStr> for OsString {
    fn from_iter<I: IntoIterator<Item = &'a OsStr>>(texts: I) -> OsString {
        let mut all = OsString::new();
        all.extend(texts);
        all
    }
}

impl<'a> FromIterator<Cow<'a, OsStr>> for OsString {
    fn from_iter<I: IntoIterator<Item = Cow<'a, OsStr>>>(texts: I) -> OsString {
        let mut all = OsString::new();
        all.extend(texts);
        all
    }
}

impl FromIterator<OsString> for OsString {
    fn from_iter<I: IntoIterator<Item = OsString>>(texts: I) -> OsString {
        let mut all = OsString::new();
        all.extend(texts);
        all
    }
}

/// Equality and order between the kinds of texts.
macro_rules! compare {
    ($($left:ty, $right:ty;)*) => {$(
        impl PartialEq<$right> for $left {
            fn eq(&self, other: &$right) -> bool {
                AsRef::<OsStr>::as_ref(self) == AsRef::<OsStr>::as_ref(other)
            }
        }

        impl PartialEq<$left> for $right {
            fn eq(&self, other: &$left) -> bool {
                AsRef::<OsStr>::as_ref(self) == AsRef::<OsStr>::as_ref(other)
            }
        }
    )*};
}

compare! {
    OsStr, str;
    OsString, str;
    OsString, &str;
    OsString, OsStr;
    OsString, &OsStr;
}

impl PartialOrd<str> for OsStr {
    fn partial_cmp(&self, other: &str) -> Option<core::cmp::Ordering> {
        self.0.partial_cmp(other)
    }
}

impl PartialOrd<str> for OsString {
    fn partial_cmp(&self, other: &str) -> Option<core::cmp::Ordering> {
        self.0.as_str().partial_cmp(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::string::ToString;

    #[test]
    fn texts_are_strings_by_another_name() {
        let mut text = OsString::from("grün");
        text.push("-");
        text.push(OsStr::new("blau"));
        assert_eq!(text, "grün-blau");
        assert_eq!((text.len(), text.to_str()), (10, Some("grün-blau")));
        assert_eq!(text.display().to_string(), "grün-blau");
        let boxed = text.clone().into_boxed_os_str();
        assert_eq!(boxed.clone().into_os_string(), text);
        text.make_ascii_uppercase();
        assert_eq!(&*text, "GRüN-BLAU");
        assert!(text.eq_ignore_ascii_case("grün-blau"));
    }
}
