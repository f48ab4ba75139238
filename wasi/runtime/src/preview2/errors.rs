//! `error-code` of `wasi:filesystem`: the error numbers of preview 1 have the same meanings under other names.

use crate::errno::WasiError;
use wasmtime::component::{ComponentType, Lift, Lower};

macro_rules! codes {
    ($($code:ident = $name:literal: $($number:literal)|*,)*) => {
        /// Why a function of `wasi:filesystem` has failed.
        #[derive(ComponentType, Lift, Lower, Clone, Copy)]
        #[component(enum)]
        #[repr(u8)]
        pub(super) enum ErrorCode {
            $(#[component(name = $name)] $code,)*
        }

        impl From<WasiError> for ErrorCode {
            fn from(error: WasiError) -> ErrorCode {
                match error.0 {
                    $($($number)|* => ErrorCode::$code,)*
                    _ => ErrorCode::Io,
                }
            }
        }
    };
}

// In the order of the interface, with the numbers that each stands for.
codes! {
    Access = "access": 2,
    WouldBlock = "would-block": 6,
    Already = "already": 7,
    BadDescriptor = "bad-descriptor": 8,
    Busy = "busy": 10,
    Deadlock = "deadlock": 16,
    Quota = "quota": 19,
    Exist = "exist": 20,
    FileTooLarge = "file-too-large": 22,
    IllegalByteSequence = "illegal-byte-sequence": 25,
    InProgress = "in-progress": 26,
    Interrupted = "interrupted": 27,
    Invalid = "invalid": 28,
    Io = "io": 29,
    IsDirectory = "is-directory": 31,
    Loop = "loop": 32,
    TooManyLinks = "too-many-links": 34,
    MessageSize = "message-size": 35,
    NameTooLong = "name-too-long": 37,
    NoDevice = "no-device": 43,
    NoEntry = "no-entry": 44,
    NoLock = "no-lock": 46,
    // Among them that there are too many descriptors, for which there is no code.
    InsufficientMemory = "insufficient-memory": 33 | 48,
    InsufficientSpace = "insufficient-space": 51,
    NotDirectory = "not-directory": 54,
    NotEmpty = "not-empty": 55,
    NotRecoverable = "not-recoverable": 56,
    Unsupported = "unsupported": 52 | 58,
    NoTty = "no-tty": 59,
    NoSuchDevice = "no-such-device": 60,
    Overflow = "overflow": 61,
    // Among them that a path leads out of its directory.
    NotPermitted = "not-permitted": 63,
    Pipe = "pipe": 64,
    ReadOnly = "read-only": 69,
    InvalidSeek = "invalid-seek": 70,
    TextFileBusy = "text-file-busy": 74,
    CrossDevice = "cross-device": 75,
}
