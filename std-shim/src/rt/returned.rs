//! How `#[monohull::main]` reports what `main` has returned.
//!
//! An error is reported by its `Display` text, with its sources, because that is the text for people. Types that have only
//! `Debug` are reported by that, as std does. Which traits a type has is known where the macro is expanded: of the
//! traits below, method resolution takes the first that fits, as each needs one reference less than the one before.

use crate::boxed::Box;
use crate::error::Error;
use crate::fmt::{Display, Write};
use crate::process::{ExitCode, Termination, fail};
use crate::string::String;
use crate::{Permanent, format_args};
use core::marker::PhantomData;
use monohull_abi::types::AbortKind;

/// The type of what was returned.
pub struct Returned<T>(PhantomData<T>);

impl<T> Returned<T> {
    /// That of this value.
    pub fn of(_: &T) -> Returned<T> {
        Returned(PhantomData)
    }
}

/// Errors in a box that can be sent.
pub trait ReportSendable<T> {
    /// Ends the instance if it is an error.
    fn report(&self, returned: T) -> ExitCode;
}

impl<T: Termination> ReportSendable<Result<T, Box<dyn Error + Send + Sync>>>
    for &&&Returned<Result<T, Box<dyn Error + Send + Sync>>>
{
    fn report(&self, returned: Result<T, Box<dyn Error + Send + Sync>>) -> ExitCode {
        returned.map_or_else(|error| fail_with(&*error), Termination::report)
    }
}

/// Errors, and what becomes one.
pub trait ReportError<T> {
    /// Ends the instance if it is an error.
    fn report(&self, returned: T) -> ExitCode;
}

impl<T: Termination, E: Into<Box<dyn Error>>> ReportError<Result<T, E>> for &&Returned<Result<T, E>> {
    fn report(&self, returned: Result<T, E>) -> ExitCode {
        returned.map_or_else(|error| fail_with(&*error.into()), Termination::report)
    }
}

/// What has a text for people.
pub trait ReportDisplay<T> {
    /// Ends the instance if it is an error.
    fn report(&self, returned: T) -> ExitCode;
}

impl<T: Termination, E: Display> ReportDisplay<Result<T, E>> for &Returned<Result<T, E>> {
    fn report(&self, returned: Result<T, E>) -> ExitCode {
        returned.map_or_else(|error| fail(AbortKind::Error, format_args!("{error}")), Termination::report)
    }
}

/// Everything else that `main` may return.
pub trait ReportTermination<T> {
    /// Ends the instance if it is an error.
    fn report(&self, returned: T) -> ExitCode;
}

impl<T: Termination> ReportTermination<T> for Returned<T> {
    fn report(&self, returned: T) -> ExitCode {
        returned.report()
    }
}

/// Ends the instance with an error, its sources, and whether a retry could succeed.
fn fail_with(error: &(dyn Error + 'static)) -> ! {
    let kind = if error.is::<Permanent>() { AbortKind::Permanent } else { AbortKind::Error };
    fail(kind, format_args!("{}", words(error)))
}

/// The text of an error, and those of its sources that it does not hold.
fn words(error: &dyn Error) -> String {
    let mut text = String::new();
    let _ = write!(text, "{error}");
    let mut source = error.source();
    while let Some(error) = source {
        let mut more = String::new();
        let _ = write!(more, "{error}");
        if !text.contains(&*more) {
            let _ = write!(text, "\n  caused by: {more}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fmt;

    #[derive(Debug)]
    struct Outer(core::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the count is wrong")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_is_told_with_its_sources() {
        let error = Outer("x".parse::<u8>().unwrap_err());
        let expected = "the count is wrong\n  caused by: invalid digit found in string";
        assert_eq!(words(&error), expected);
        let permanent = Permanent::new(error);
        assert_eq!(words(&permanent), expected);
        assert!((&permanent as &(dyn Error + 'static)).is::<Permanent>());
    }
}
