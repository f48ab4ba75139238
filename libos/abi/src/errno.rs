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
    /// Try again: what was expected has changed.
    Again = 11,
    /// The memory limit, or the machine's memory, is exhausted.
    OutOfMemory = 12,
    /// An address is null, misaligned, wraps, or is not the caller's.
    Fault = 14,
    /// The name is taken.
    Exists = 17,
    /// An argument is out of its range.
    Invalid = 22,
    /// No hostcall has this number, or its module is missing.
    NoSuchCall = 38,
    /// The table for this kind of thing is full.
    TooMany = 105,
    /// The time allowed has passed.
    TimedOut = 110,
    /// Waiting would never end: nobody is left who could wake the caller.
    Deadlock = 35,
    /// The module that serves this call failed (it panicked, or has another version).
    ModuleFailed = 131,
    /// A slot holds another type than the one asked for.
    WrongType = 1001,
    /// Nobody is left who could fill this slot.
    NobodyFills = 1002,
}

impl Errno {
    /// All error numbers, for the conversion back and for the documentation test.
    pub const ALL: [Errno; 15] = [
        Errno::NotPermitted,
        Errno::NotFound,
        Errno::Io,
        Errno::Again,
        Errno::OutOfMemory,
        Errno::Fault,
        Errno::Exists,
        Errno::Invalid,
        Errno::NoSuchCall,
        Errno::TooMany,
        Errno::TimedOut,
        Errno::Deadlock,
        Errno::ModuleFailed,
        Errno::WrongType,
        Errno::NobodyFills,
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
            Errno::Again => "the value has changed; try again",
            Errno::OutOfMemory => "out of memory",
            Errno::Fault => "an address is not the caller's to use",
            Errno::Exists => "the name is taken",
            Errno::Invalid => "an argument is out of range",
            Errno::NoSuchCall => "no such hostcall",
            Errno::TooMany => "the table is full",
            Errno::TimedOut => "timed out",
            Errno::Deadlock => "waiting would never end",
            Errno::ModuleFailed => "the libos module failed",
            Errno::WrongType => "the slot holds another type",
            Errno::NobodyFills => "nobody is left who could fill this slot",
        }
    }
}

impl core::fmt::Display for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Errno {}
