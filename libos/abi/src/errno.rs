//! Error numbers of hostcalls. A call returns a value ≥ 0, or one of these negated.
//!
//! Where Linux has the same meaning the number is Linux's, so that WASI and C guests need no table.

/// Why a hostcall was refused or failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum Errno {
    /// The caller may not do this.
    NotPermitted = 1,
    /// Nothing by that name.
    NotFound = 2,
    /// Input or output failed.
    Io = 5,
    /// No open file has this descriptor, or it was not opened for this.
    BadDescriptor = 9,
    /// Try again: what was expected has changed.
    Again = 11,
    /// The memory limit, or the machine's memory, is exhausted.
    OutOfMemory = 12,
    /// An address is null, misaligned, wraps, or is not the caller's.
    Fault = 14,
    /// It is in use: a mount point lies there, or another thread's call is reading or writing the buffer.
    Busy = 16,
    /// The name is taken.
    Exists = 17,
    /// The two paths lie on different mounts.
    CrossesMounts = 18,
    /// Something on the path is no directory.
    NotDirectory = 20,
    /// It is a directory.
    IsDirectory = 21,
    /// An argument is out of its range.
    Invalid = 22,
    /// The instance has as many files open as it may.
    TooManyOpen = 24,
    /// The file would get larger than its file system allows.
    FileTooLarge = 27,
    /// The file system is full.
    NoSpace = 28,
    /// The file system may only be read.
    ReadOnly = 30,
    /// A path or a name in it is too long.
    NameTooLong = 36,
    /// No hostcall has this number, or its module is missing.
    NoSuchCall = 38,
    /// The directory holds something.
    NotEmpty = 39,
    /// A symbolic link is in the way.
    Link = 40,
    /// The name is not one that this file system can hold.
    InvalidName = 84,
    /// The table for this kind of thing is full.
    TooMany = 105,
    /// The time allowed has passed.
    TimedOut = 110,
    /// Waiting would never end: no thread is left that could wake the caller.
    Deadlock = 35,
    /// The module that serves this call failed (it panicked, or has another version).
    ModuleFailed = 131,
    /// The other side reads no more.
    BrokenPipe = 32,
    /// A datagram without an address, from a socket without a peer.
    NoDestination = 89,
    /// A datagram is longer than can be sent.
    MessageTooLong = 90,
    /// This kind of descriptor cannot do that.
    NotSupported = 95,
    /// The address is in use already.
    AddressInUse = 98,
    /// The address does not belong to this network.
    AddressNotAvailable = 99,
    /// The network device was removed.
    NetworkDown = 100,
    /// No way leads to that network.
    NetworkUnreachable = 101,
    /// The connection was given up on this side.
    ConnectionAborted = 103,
    /// The other side gave the connection up.
    ConnectionReset = 104,
    /// The socket is connected already.
    IsConnected = 106,
    /// The socket is not connected.
    NotConnected = 107,
    /// No socket listens at the address.
    ConnectionRefused = 111,
    /// No way leads to that host.
    HostUnreachable = 113,
    /// A slot holds another type than the one asked for.
    WrongType = 1001,
    /// No instance is left that could fill this slot.
    NeverFilled = 1002,
    /// What the caller's memory names has been closed or given away.
    GivenAway = 1003,
}

impl Errno {
    /// All error numbers, for the conversion back and for the documentation test.
    pub const ALL: [Errno; 43] = [
        Errno::NotPermitted,
        Errno::NotFound,
        Errno::Io,
        Errno::BadDescriptor,
        Errno::Again,
        Errno::OutOfMemory,
        Errno::Fault,
        Errno::Busy,
        Errno::Exists,
        Errno::CrossesMounts,
        Errno::NotDirectory,
        Errno::IsDirectory,
        Errno::Invalid,
        Errno::TooManyOpen,
        Errno::FileTooLarge,
        Errno::NoSpace,
        Errno::ReadOnly,
        Errno::NameTooLong,
        Errno::NoSuchCall,
        Errno::NotEmpty,
        Errno::Link,
        Errno::InvalidName,
        Errno::TooMany,
        Errno::TimedOut,
        Errno::Deadlock,
        Errno::ModuleFailed,
        Errno::BrokenPipe,
        Errno::NoDestination,
        Errno::MessageTooLong,
        Errno::NotSupported,
        Errno::AddressInUse,
        Errno::AddressNotAvailable,
        Errno::NetworkDown,
        Errno::NetworkUnreachable,
        Errno::ConnectionAborted,
        Errno::ConnectionReset,
        Errno::IsConnected,
        Errno::NotConnected,
        Errno::ConnectionRefused,
        Errno::HostUnreachable,
        Errno::WrongType,
        Errno::NeverFilled,
        Errno::GivenAway,
    ];

    /// The value a hostcall returns for this error.
    pub const fn to_value(self) -> i64 {
        -(self as i32 as i64)
    }

    /// Splits a hostcall's return value. A negative number that no version of this crate knows reads as [`Errno::Io`].
    pub fn from_value(value: i64) -> Result<u64, Errno> {
        if value >= 0 {
            return Ok(value as u64);
        }
        Err(Self::ALL.into_iter().find(|e| e.to_value() == value).unwrap_or(Errno::Io))
    }

    /// One phrase for people.
    pub const fn text(self) -> &'static str {
        match self {
            Errno::NotPermitted => "not permitted",
            Errno::NotFound => "not found",
            Errno::Io => "input or output failed",
            Errno::BadDescriptor => "no such open file, or not opened for this",
            Errno::Again => "the value has changed; try again",
            Errno::OutOfMemory => "out of memory",
            Errno::Fault => "an address is not the caller's to use",
            Errno::Busy => "it is in use",
            Errno::Exists => "the name is taken",
            Errno::CrossesMounts => "the paths lie on different mounts",
            Errno::NotDirectory => "not a directory",
            Errno::IsDirectory => "is a directory",
            Errno::Invalid => "an argument is out of range",
            Errno::TooManyOpen => "too many open files",
            Errno::FileTooLarge => "the file is too large",
            Errno::NoSpace => "the file system is full",
            Errno::ReadOnly => "the file system is read-only",
            Errno::NameTooLong => "a path or name is too long",
            Errno::NoSuchCall => "no such hostcall",
            Errno::NotEmpty => "the directory is not empty",
            Errno::Link => "a symbolic link is in the way",
            Errno::InvalidName => "not a name that this file system can hold",
            Errno::TooMany => "the table is full",
            Errno::TimedOut => "timed out",
            Errno::Deadlock => "waiting would never end",
            Errno::ModuleFailed => "the libos module failed",
            Errno::BrokenPipe => "the other side reads no more",
            Errno::NoDestination => "the datagram has no destination",
            Errno::MessageTooLong => "the message is too long",
            Errno::NotSupported => "not supported here",
            Errno::AddressInUse => "the address is in use",
            Errno::AddressNotAvailable => "the address is not available",
            Errno::NetworkDown => "the network is down",
            Errno::NetworkUnreachable => "the network cannot be reached",
            Errno::ConnectionAborted => "the connection was aborted",
            Errno::ConnectionReset => "the other side reset the connection",
            Errno::IsConnected => "the socket is connected",
            Errno::NotConnected => "the socket is not connected",
            Errno::ConnectionRefused => "the connection was refused",
            Errno::HostUnreachable => "the host cannot be reached",
            Errno::WrongType => "the slot holds another type",
            Errno::NeverFilled => "no instance is left that could fill this slot",
            Errno::GivenAway => "what the memory names has been closed or given away",
        }
    }
}

impl core::fmt::Display for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Errno {}
