//! For the std beneath and for what macros expand to. Not for direct use.

pub use crate::arguments::{arguments, members, parse};
pub use crate::end::{fail, set_before_end};
#[cfg(feature = "std")]
pub use crate::real_std::returned as std_returned;
pub use crate::report_returned;
pub use monohull_abi::types::AbortKind;

use crate::backoff::{FIRST, LONGEST};
use crate::durable::{self, EventError};
use crate::{ArgError, Permanent, branch, send};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt::Write;
use monohull_abi::Errno;

/// Ends the instance with an error, its sources, and whether a retry could succeed.
pub fn fail_with(error: &(dyn Error + 'static)) -> ! {
    let is_permanent = error.is::<Permanent>() || error.is::<ArgError>();
    let kind = if is_permanent { AbortKind::Permanent } else { AbortKind::Error };
    fail(kind, format_args!("{}", words(error)))
}

/// Takes the first event of several names: which one, and its content. `None` after so many nanoseconds, of which `u64::MAX` is no end. For a function that
/// runs programs of its own, whose names come as they run.
pub fn take_event(names: &[&str], timeout: u64) -> Result<Option<(usize, Vec<u8>)>, EventError> {
    durable::take_within(names, timeout)
}

/// Makes the key of the next step of a name. For programs whose steps are written in another language.
pub fn step_key(name: &str) -> String {
    durable::step_key(name)
}

/// Sleeps after so many failures of the step that has this key, as [`durable::step`] does unless it is told otherwise.
pub fn step_pause(key: &str, failures: u32) {
    durable::step_pause(key, failures, FIRST, LONGEST);
}

/// The callback that has this token; `None` if it is none.
pub fn callback_of(token: &str) -> Option<durable::Callback> {
    durable::Callback::of(token)
}

/// Asks for a save point. The name of the event that tells of it lies in the buffer then. The error has an explanation, which the system knows.
pub fn ask_checkpoint<'b>(label: &[u8], event: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    branch::ask_checkpoint(label, event)
}

/// The same for copies.
pub fn ask_fork(copies: u64, event: &mut [u8]) -> Result<&[u8], Errno> {
    branch::ask_fork(copies, event)
}

/// Sends an event to another invocation. The error has an explanation, which the system knows.
pub fn send_event(invocation: &[u8], name: &[u8], bytes: &[u8]) -> Result<(), Errno> {
    send::send_event(invocation, name, bytes)
}

/// The text of an error, and those of its sources that it does not hold.
fn words(error: &dyn Error) -> String {
    let mut text = format!("{error}");
    let mut source = error.source();
    while let Some(error) = source {
        let more = format!("{error}");
        if !text.contains(&*more) {
            let _ = write!(text, "\n  caused by: {more}");
        }
        source = error.source();
    }
    text
}

/// How `#[monohull::main]` reports what `main` has returned, for a std with this `Termination` and this `ExitCode`.
///
/// An error is reported by its `Display` text, with its sources, because that is the text for people. Types that have only
/// `Debug` are reported by that, as std does. Which traits a type has is known where the attribute is expanded: of the
/// traits below, method resolution takes the first that fits, as each needs one reference less than the one before.
#[doc(hidden)]
#[macro_export]
macro_rules! report_returned {
    ($termination:path, $exit_code:ty) => {
        use $crate::rt::{AbortKind, fail, fail_with};

        /// The type of what was returned.
        pub struct Returned<T>(::core::marker::PhantomData<T>);

        impl<T> Returned<T> {
            /// That of this value.
            pub fn of(_: &T) -> Returned<T> {
                Returned(::core::marker::PhantomData)
            }
        }

        /// Errors in a box that can be sent.
        pub trait ReportSendable<T> {
            /// Ends the instance if it is an error.
            fn report(&self, returned: T) -> $exit_code;
        }

        impl<T: $termination> ReportSendable<Result<T, Box<dyn Error + Send + Sync>>>
            for &&&Returned<Result<T, Box<dyn Error + Send + Sync>>>
        {
            fn report(&self, returned: Result<T, Box<dyn Error + Send + Sync>>) -> $exit_code {
                returned.map_or_else(|error| fail_with(&*error), <T as $termination>::report)
            }
        }

        /// Errors, and what becomes one.
        pub trait ReportError<T> {
            /// Ends the instance if it is an error.
            fn report(&self, returned: T) -> $exit_code;
        }

        impl<T: $termination, E: Into<Box<dyn Error>>> ReportError<Result<T, E>> for &&Returned<Result<T, E>> {
            fn report(&self, returned: Result<T, E>) -> $exit_code {
                returned.map_or_else(|error| fail_with(&*error.into()), <T as $termination>::report)
            }
        }

        /// What has a text for people.
        pub trait ReportDisplay<T> {
            /// Ends the instance if it is an error.
            fn report(&self, returned: T) -> $exit_code;
        }

        impl<T: $termination, E: ::core::fmt::Display> ReportDisplay<Result<T, E>> for &Returned<Result<T, E>> {
            fn report(&self, returned: Result<T, E>) -> $exit_code {
                let failed = |error: E| fail(AbortKind::Error, format_args!("{error}"));
                returned.map_or_else(failed, <T as $termination>::report)
            }
        }

        /// Everything else that `main` may return.
        pub trait ReportTermination<T> {
            /// Ends the instance if it is an error.
            fn report(&self, returned: T) -> $exit_code;
        }

        impl<T: $termination> ReportTermination<T> for Returned<T> {
            fn report(&self, returned: T) -> $exit_code {
                returned.report()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt;

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
    fn an_error_is_printed_with_its_sources() {
        let error = Outer("x".parse::<u8>().unwrap_err());
        let expected = "the count is wrong\n  caused by: invalid digit found in string";
        assert_eq!(words(&error), expected);
        let permanent = Permanent::new(error);
        assert_eq!(words(&permanent), expected);
        assert!((&permanent as &(dyn Error + 'static)).is::<Permanent>());
    }
}
