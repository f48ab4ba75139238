//! `std::io::Error` and its kinds.

use super::check;
use std::error::Error as _;
use std::io::{self, Error, ErrorKind};

/// Every kind that programs can name.
const KINDS: [ErrorKind; 38] = [
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
    ErrorKind::ConnectionAborted,
    ErrorKind::NotConnected,
    ErrorKind::AddrInUse,
    ErrorKind::AddrNotAvailable,
    ErrorKind::NetworkDown,
    ErrorKind::BrokenPipe,
    ErrorKind::AlreadyExists,
    ErrorKind::WouldBlock,
    ErrorKind::NotADirectory,
    ErrorKind::IsADirectory,
    ErrorKind::DirectoryNotEmpty,
    ErrorKind::ReadOnlyFilesystem,
    ErrorKind::StaleNetworkFileHandle,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidData,
    ErrorKind::TimedOut,
    ErrorKind::WriteZero,
    ErrorKind::StorageFull,
    ErrorKind::NotSeekable,
    ErrorKind::QuotaExceeded,
    ErrorKind::FileTooLarge,
    ErrorKind::ResourceBusy,
    ErrorKind::ExecutableFileBusy,
    ErrorKind::Deadlock,
    ErrorKind::CrossesDevices,
    ErrorKind::TooManyLinks,
    ErrorKind::InvalidFilename,
    ErrorKind::ArgumentListTooLong,
    ErrorKind::Interrupted,
    ErrorKind::Unsupported,
    ErrorKind::UnexpectedEof,
    ErrorKind::OutOfMemory,
];

pub(super) fn all() {
    check!("kinds_displayed", KINDS.map(|kind| kind.to_string()));
    check!("kinds_debugged", (KINDS, ErrorKind::Other, ErrorKind::Other.to_string()));
    check!("kinds_ordered", (ErrorKind::NotFound < ErrorKind::PermissionDenied, KINDS.is_sorted()));
    let simple = Error::from(ErrorKind::TimedOut);
    check!(
        "simple",
        (simple.to_string(), format!("{simple:?}"), simple.kind(), simple.get_ref().is_some(), simple.raw_os_error())
    );
    check!("last_os_error", {
        let missing = std::fs::File::open("/no/such/plank").map(drop).unwrap_err();
        let last = Error::last_os_error();
        (missing.raw_os_error(), last.raw_os_error(), last.kind())
    });
    let custom = Error::new(ErrorKind::InvalidData, "bad plank");
    check!("custom", (custom.to_string(), format!("{custom:?}"), custom.kind(), custom.raw_os_error()));
    check!("custom_pretty", format!("{custom:#?}"));
    check!(
        "custom_inside",
        (
            custom.get_ref().map(ToString::to_string),
            custom.source().is_none(),
            custom.into_inner().map(|e| e.to_string())
        )
    );
    check!("other", (Error::other("x").kind(), Error::other(std::fmt::Error).to_string()));
    let wrapped = Error::other(Error::new(ErrorKind::NotFound, "inner"));
    check!("wrapped", (wrapped.kind(), wrapped.to_string(), wrapped.downcast::<Error>().map(|e| e.kind())));
    check!("downcast_to_another", Error::other("text").downcast::<std::fmt::Error>().map_err(|e| e.to_string()));
    check!("get_mut", {
        let mut error = Error::other(Counter(1));
        if let Some(counter) = error.get_mut().and_then(|e| e.downcast_mut::<Counter>()) {
            counter.0 += 1;
        }
        error.to_string()
    });
    let numbers = [1, 2, 5, 11, 12, 13, 17, 22, 28, 32, 35, 38, 110, 111];
    check!("os_error_kinds", numbers.map(|number| Error::from_raw_os_error(number).kind()));
    check!("os_error_numbers", numbers.map(|number| Error::from_raw_os_error(number).raw_os_error()));
    check!(
        "os_error_in_words",
        (Error::from_raw_os_error(2).to_string(), format!("{:?}", Error::from_raw_os_error(17)))
    );
    check!(
        "from_others",
        (
            Error::from(std::ffi::CString::new("a\0").unwrap_err()).kind(),
            Error::from(
                io::BufWriter::with_capacity(1, Refuses)
                    .into_inner()
                    .map(drop)
                    .map_err(|e| e.into_error())
                    .err()
                    .unwrap_or(ErrorKind::Other.into())
            )
            .kind()
        )
    );
    check!("from_reserve_error", Error::from(Vec::<u64>::new().try_reserve(usize::MAX).unwrap_err()).kind());
    fn is_send_sync<T: Send + Sync + 'static>() -> bool {
        true
    }
    check!("send_and_sync", (is_send_sync::<Error>(), size_of::<Error>() <= 24));
    check!("result_alias", (|| -> io::Result<u8> { Err(ErrorKind::Unsupported.into()) })().map_err(|e| e.kind()));
}

#[derive(Debug)]
struct Counter(u32);

impl std::fmt::Display for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "counted {}", self.0)
    }
}

impl std::error::Error for Counter {}

/// A writer that never takes anything.
struct Refuses;

impl io::Write for Refuses {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(ErrorKind::BrokenPipe.into())
    }
}
