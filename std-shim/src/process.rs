//! How a function ends, as in `std::process`.

use crate::fmt::{self, Debug};
use crate::{format, io, sys};
use core::convert::Infallible;
use monohull_abi::types::{AbortKind, Info};

/// What `main` ends with: 0 is success.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ExitCode(u8);

impl ExitCode {
    /// The function has done its work.
    pub const SUCCESS: ExitCode = ExitCode(0);
    /// The function has failed.
    pub const FAILURE: ExitCode = ExitCode(1);

    /// Ends the instance with this status.
    pub fn exit_process(self) -> ! {
        exit(self.to_i32())
    }

    pub(crate) fn to_i32(self) -> i32 {
        i32::from(self.0)
    }
}

impl From<u8> for ExitCode {
    fn from(status: u8) -> ExitCode {
        ExitCode(status)
    }
}

/// What `main` may return.
pub trait Termination {
    /// The status to end with. An error ends the instance here, with its `Debug` text in the report, as with std;
    /// `#[monohull::main]` takes its `Display` text.
    fn report(self) -> ExitCode;
}

impl Termination for () {
    fn report(self) -> ExitCode {
        ExitCode::SUCCESS
    }
}

impl Termination for ExitCode {
    fn report(self) -> ExitCode {
        self
    }
}

impl Termination for Infallible {
    fn report(self) -> ExitCode {
        match self {}
    }
}

impl<T: Termination, E: Debug> Termination for Result<T, E> {
    fn report(self) -> ExitCode {
        match self {
            Ok(value) => value.report(),
            Err(error) => fail(AbortKind::Error, format_args!("{error:?}")),
        }
    }
}

/// Ends the instance as failed with an error.
pub(crate) fn fail(kind: AbortKind, error: fmt::Arguments<'_>) -> ! {
    let text = format!("{error}");
    io::flush_before_the_end();
    sys::fail(kind, &text)
}

/// Ends the instance, all its threads included. Status 0 is success; destructors do not run.
pub fn exit(status: i32) -> ! {
    #[cfg(not(panic = "unwind"))]
    monohull_trampoline::ends::run_destructors();
    io::flush_before_the_end();
    sys::exit(status)
}

/// Ends the instance as if by a panic, at once.
pub fn abort() -> ! {
    sys::fail(AbortKind::Panic, "the function called abort()")
}

/// Which of its step's instances this is, counted from 1: the nearest a function has to a process number.
pub fn id() -> u32 {
    sys::info(Info::InstanceIndex) as u32 + 1
}
