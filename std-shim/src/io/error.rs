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
    /// A hostcall was refused.
    Host(Errno),
    /// Somebody's own error.
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

        impl fmt::Display for ErrorKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(ErrorKind::$kind => $text,)* })
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
}

/// The kind that std gives to an error number.
fn kind_of(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NotPermitted => ErrorKind::PermissionDenied,
        Errno::NotFound => ErrorKind::NotFound,
        Errno::Again => ErrorKind::WouldBlock,
        Errno::OutOfMemory => ErrorKind::OutOfMemory,
        Errno::Busy => ErrorKind::ResourceBusy,
        Errno::Exists => ErrorKind::AlreadyExists,
        Errno::CrossesMounts => ErrorKind::CrossesDevices,
        Errno::NotDirectory => ErrorKind::NotADirectory,
        Errno::IsDirectory => ErrorKind::IsADirectory,
        Errno::Invalid | Errno::Fault => ErrorKind::InvalidInput,
        Errno::FileTooLarge => ErrorKind::FileTooLarge,
        Errno::NoSpace => ErrorKind::StorageFull,
        Errno::ReadOnly => ErrorKind::ReadOnlyFilesystem,
        Errno::NameTooLong | Errno::InvalidName => ErrorKind::InvalidFilename,
        Errno::NoSuchCall => ErrorKind::Unsupported,
        Errno::NotEmpty => ErrorKind::DirectoryNotEmpty,
        Errno::TooMany => ErrorKind::QuotaExceeded,
        Errno::TimedOut => ErrorKind::TimedOut,
        Errno::Deadlock => ErrorKind::Deadlock,
        Errno::WrongType => ErrorKind::InvalidData,
        // std has kinds for these that cannot be named.
        Errno::Io
        | Errno::BadDescriptor
        | Errno::TooManyOpen
        | Errno::Link
        | Errno::ModuleFailed
        | Errno::NobodyFills => ErrorKind::Other,
    }
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

    /// The error with this number, as hostcalls give it.
    pub fn from_raw_os_error(code: i32) -> Error {
        Errno::from_value(-i64::from(code)).err().map_or(Error(Repr::Simple(ErrorKind::Other)), Error::from)
    }

    /// The refusal of this thread's last hostcall, with what the host has to say about it.
    pub(crate) fn explained(errno: Errno) -> Error {
        let words: String = crate::sys::explain();
        if words.is_empty() { Error::from(errno) } else { Error::new(kind_of(errno), words) }
    }

    /// The number of the refusal, if a hostcall was refused.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self.0 {
            Repr::Host(errno) => Some(errno as i32),
            _ => None,
        }
    }

    /// What sort of error it is.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Repr::Simple(kind) | Repr::Custom(kind, _) => *kind,
            Repr::Host(errno) => kind_of(*errno),
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

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error(Repr::Simple(kind))
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        Error(Repr::Host(errno))
    }
}

impl From<alloc_crate::ffi::NulError> for Error {
    fn from(error: alloc_crate::ffi::NulError) -> Error {
        Error::new(ErrorKind::InvalidInput, error)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Simple(kind) => f.debug_tuple("Kind").field(kind).finish(),
            Repr::Host(errno) => f
                .debug_struct("Os")
                .field("code", &(*errno as i32))
                .field("kind", &kind_of(*errno))
                .field("message", &errno.text())
                .finish(),
            Repr::Custom(kind, error) => f.debug_struct("Custom").field("kind", kind).field("error", error).finish(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Simple(kind) => kind.fmt(f),
            Repr::Host(errno) => write!(f, "{} (os error {})", errno.text(), *errno as i32),
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
