//! Errors of input and output: a kind, and what is known beyond it.

use crate::boxed::Box;
use crate::error;
use crate::fmt;
use crate::string::String;
use monohull_abi::Errno;

/// What readers and writers return.
pub type Result<T> = core::result::Result<T, Error>;

/// An error of input or output.
pub struct Error(Repr);

enum Repr {
    /// Only the kind is known.
    Simple(ErrorKind),
    /// A kind and a fixed text.
    Message(ErrorKind, &'static str),
    /// An error number: a hostcall's, which is Linux's where the two mean the same.
    Os(i32),
    /// A custom error.
    Custom(ErrorKind, Box<dyn error::Error + Send + Sync>),
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident = $text:literal,)*) => {
        /// What sort of error it is. The names are std's.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$meta])* #[doc = $text] $kind,)*
        }

        impl ErrorKind {
            const fn text(self) -> &'static str {
                match self { $(ErrorKind::$kind => $text,)* }
            }
        }
    };
}

kinds! {
    NotFound = "entity not found",
    PermissionDenied = "permission denied",
    ConnectionRefused = "connection refused",
    ConnectionReset = "connection reset",
    HostUnreachable = "host unreachable",
    NetworkUnreachable = "network unreachable",
    ConnectionAborted = "connection aborted",
    NotConnected = "not connected",
    AddrInUse = "address in use",
    AddrNotAvailable = "address not available",
    NetworkDown = "network down",
    BrokenPipe = "broken pipe",
    AlreadyExists = "entity already exists",
    WouldBlock = "operation would block",
    NotADirectory = "not a directory",
    IsADirectory = "is a directory",
    DirectoryNotEmpty = "directory not empty",
    ReadOnlyFilesystem = "read-only filesystem or storage medium",
    StaleNetworkFileHandle = "stale network file handle",
    InvalidInput = "invalid input parameter",
    InvalidData = "invalid data",
    TimedOut = "timed out",
    WriteZero = "write zero",
    StorageFull = "no storage space",
    NotSeekable = "seek on unseekable file",
    QuotaExceeded = "quota exceeded",
    FileTooLarge = "file too large",
    ResourceBusy = "resource busy",
    ExecutableFileBusy = "executable file busy",
    Deadlock = "deadlock",
    CrossesDevices = "cross-device link or rename",
    TooManyLinks = "too many links",
    InvalidFilename = "invalid filename",
    ArgumentListTooLong = "argument list too long",
    Interrupted = "operation interrupted",
    Unsupported = "unsupported",
    UnexpectedEof = "unexpected end of file",
    OutOfMemory = "out of memory",
    Other = "other error",
    #[doc(hidden)]
    Uncategorized = "uncategorized error",
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The kind that std gives to an error number of Linux; and the kinds of the numbers that are Monohull's own.
fn kind_of(number: i32) -> ErrorKind {
    use ErrorKind::*;
    match number {
        1 | 13 => PermissionDenied,
        2 => NotFound,
        4 => Interrupted,
        7 => ArgumentListTooLong,
        11 => WouldBlock,
        12 => OutOfMemory,
        14 | 22 => InvalidInput,
        16 => ResourceBusy,
        17 => AlreadyExists,
        18 => CrossesDevices,
        20 => NotADirectory,
        21 => IsADirectory,
        26 => ExecutableFileBusy,
        27 => FileTooLarge,
        28 => StorageFull,
        29 => NotSeekable,
        30 => ReadOnlyFilesystem,
        31 => TooManyLinks,
        32 => BrokenPipe,
        35 => Deadlock,
        36 | 84 => InvalidFilename,
        38 | 95 => Unsupported,
        39 => DirectoryNotEmpty,
        98 => AddrInUse,
        99 => AddrNotAvailable,
        100 => NetworkDown,
        101 => NetworkUnreachable,
        103 => ConnectionAborted,
        104 => ConnectionReset,
        105 | 122 => QuotaExceeded,
        107 => NotConnected,
        110 => TimedOut,
        111 => ConnectionRefused,
        113 => HostUnreachable,
        116 => StaleNetworkFileHandle,
        131 | 1002 => Other,
        1001 => InvalidData,
        _ => Uncategorized,
    }
}

/// The text of an error number.
fn words_of(number: i32) -> &'static str {
    if number == 0 {
        return "Success";
    }
    let known = Errno::ALL.into_iter().find(|errno| *errno as i32 == number);
    known.map_or_else(|| kind_of(number).text(), Errno::text)
}

impl Error {
    /// An error of this kind around another error (or a text).
    pub fn new<E>(kind: ErrorKind, error: E) -> Error
    where
        E: Into<Box<dyn error::Error + Send + Sync>>,
    {
        Error(Repr::Custom(kind, error.into()))
    }

    /// Another error, of no particular kind.
    pub fn other<E>(error: E) -> Error
    where
        E: Into<Box<dyn error::Error + Send + Sync>>,
    {
        Error::new(ErrorKind::Other, error)
    }

    /// An error of this kind with a fixed text, which costs no allocation.
    pub(crate) const fn constant(kind: ErrorKind, text: &'static str) -> Error {
        Error(Repr::Message(kind, text))
    }

    /// The error with this number, as hostcalls give it.
    pub fn from_raw_os_error(code: i32) -> Error {
        Error(Repr::Os(code))
    }

    /// The last error of a hostcall of this thread.
    pub fn last_os_error() -> Error {
        Error::from_raw_os_error(crate::rt::last_error::get())
    }

    /// The refusal of this thread's last hostcall, with the host's explanation.
    pub(crate) fn explained(errno: Errno) -> Error {
        let words: String = crate::sys::last_error_message();
        if words.is_empty() { Error::from(errno) } else { Error::new(kind_of(errno as i32), words) }
    }

    /// The same error as one of another kind.
    pub(crate) fn of_kind(self, kind: ErrorKind) -> Error {
        match self.0 {
            Repr::Custom(_, inner) => Error(Repr::Custom(kind, inner)),
            Repr::Os(number) => Error(Repr::Message(kind, words_of(number))),
            Repr::Simple(_) => Error(Repr::Simple(kind)),
            Repr::Message(_, text) => Error(Repr::Message(kind, text)),
        }
    }

    /// The number of the refusal, if a hostcall was refused.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self.0 {
            Repr::Os(number) => Some(number),
            _ => None,
        }
    }

    /// What sort of error it is.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Repr::Simple(kind) | Repr::Message(kind, _) | Repr::Custom(kind, _) => *kind,
            Repr::Os(number) => kind_of(*number),
        }
    }

    /// The error inside, if there is one.
    pub fn get_ref(&self) -> Option<&(dyn error::Error + Send + Sync + 'static)> {
        match &self.0 {
            Repr::Custom(_, error) => Some(&**error),
            _ => None,
        }
    }

    /// The error inside, if there is one.
    pub fn get_mut(&mut self) -> Option<&mut (dyn error::Error + Send + Sync + 'static)> {
        match &mut self.0 {
            Repr::Custom(_, error) => Some(&mut **error),
            _ => None,
        }
    }

    /// The error inside, if there is one.
    pub fn into_inner(self) -> Option<Box<dyn error::Error + Send + Sync>> {
        match self.0 {
            Repr::Custom(_, error) => Some(error),
            _ => None,
        }
    }
}

impl Error {
    /// The error inside as an `E`, or this error back.
    pub fn downcast<E>(self) -> core::result::Result<E, Error>
    where
        E: error::Error + Send + Sync + 'static,
    {
        match self.0 {
            Repr::Custom(kind, inner) => match inner.downcast() {
                Ok(inner) => Ok(*inner),
                Err(inner) => Err(Error(Repr::Custom(kind, inner))),
            },
            repr => Err(Error(repr)),
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error(Repr::Simple(kind))
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        Error(Repr::Os(errno as i32))
    }
}

impl From<alloc_crate::ffi::NulError> for Error {
    fn from(error: alloc_crate::ffi::NulError) -> Error {
        Error::new(ErrorKind::InvalidInput, error)
    }
}

impl From<alloc_crate::collections::TryReserveError> for Error {
    fn from(_: alloc_crate::collections::TryReserveError) -> Error {
        Error::from(ErrorKind::OutOfMemory)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Simple(kind) => f.debug_tuple("Kind").field(kind).finish(),
            Repr::Message(kind, message) => {
                f.debug_struct("Error").field("kind", kind).field("message", message).finish()
            }
            Repr::Os(number) => f
                .debug_struct("Os")
                .field("code", number)
                .field("kind", &kind_of(*number))
                .field("message", &words_of(*number))
                .finish(),
            Repr::Custom(kind, error) => f.debug_struct("Custom").field("kind", kind).field("error", error).finish(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Simple(kind) => kind.fmt(f),
            Repr::Message(_, message) => f.write_str(message),
            Repr::Os(number) => write!(f, "{} (os error {number})", words_of(*number)),
            Repr::Custom(_, error) => error.fmt(f),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.0 {
            Repr::Custom(_, error) => error.source(),
            _ => None,
        }
    }
}
