//! Error numbers of WASI preview 1. They have POSIX's names in alphabetical order, so they are not Linux's numbers.

use core::fmt;
use monohull_abi::Errno;

/// Why a function of WASI has failed: the number that the program gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WasiError(pub(crate) u16);

impl fmt::Display for WasiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error number {} of WASI", self.0)
    }
}

impl core::error::Error for WasiError {}

macro_rules! errors {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)*) => {
        impl WasiError { $($(#[$meta])* pub(crate) const $name: WasiError = WasiError($number);)* }
    };
}

errors! {
    ACCES = 2,
    ADDRINUSE = 3,
    ADDRNOTAVAIL = 4,
    AGAIN = 6,
    BADF = 8,
    BUSY = 10,
    CONNABORTED = 13,
    CONNREFUSED = 14,
    CONNRESET = 15,
    DEADLK = 16,
    EXIST = 20,
    FAULT = 21,
    FBIG = 22,
    HOSTUNREACH = 23,
    ILSEQ = 25,
    INVAL = 28,
    IO = 29,
    ISCONN = 30,
    ISDIR = 31,
    LOOP = 32,
    MFILE = 33,
    MSGSIZE = 35,
    NAMETOOLONG = 37,
    NETDOWN = 38,
    NETUNREACH = 40,
    NOBUFS = 42,
    NOENT = 44,
    NOMEM = 48,
    NOSPC = 51,
    NOSYS = 52,
    NOTCONN = 53,
    NOTDIR = 54,
    NOTEMPTY = 55,
    NOTSOCK = 57,
    NOTSUP = 58,
    PERM = 63,
    PIPE = 64,
    ROFS = 69,
    SPIPE = 70,
    TIMEDOUT = 73,
    XDEV = 75,
    /// The descriptor lacks a right.
    NOTCAPABLE = 76,
}

impl From<Errno> for WasiError {
    fn from(errno: Errno) -> WasiError {
        // Hostcalls have Linux's numbers.
        match errno as i32 {
            1 => WasiError::PERM,
            2 => WasiError::NOENT,
            5 => WasiError::IO,
            9 => WasiError::BADF,
            11 => WasiError::AGAIN,
            12 => WasiError::NOMEM,
            13 => WasiError::ACCES,
            14 => WasiError::FAULT,
            16 => WasiError::BUSY,
            17 => WasiError::EXIST,
            18 => WasiError::XDEV,
            20 => WasiError::NOTDIR,
            21 => WasiError::ISDIR,
            22 => WasiError::INVAL,
            24 => WasiError::MFILE,
            27 => WasiError::FBIG,
            28 => WasiError::NOSPC,
            30 => WasiError::ROFS,
            32 => WasiError::PIPE,
            35 => WasiError::DEADLK,
            36 => WasiError::NAMETOOLONG,
            38 => WasiError::NOSYS,
            39 => WasiError::NOTEMPTY,
            40 => WasiError::LOOP,
            84 => WasiError::ILSEQ,
            90 => WasiError::MSGSIZE,
            95 => WasiError::NOTSUP,
            98 => WasiError::ADDRINUSE,
            99 => WasiError::ADDRNOTAVAIL,
            100 => WasiError::NETDOWN,
            101 => WasiError::NETUNREACH,
            103 => WasiError::CONNABORTED,
            104 => WasiError::CONNRESET,
            105 => WasiError::NOBUFS,
            106 => WasiError::ISCONN,
            107 => WasiError::NOTCONN,
            110 => WasiError::TIMEDOUT,
            111 => WasiError::CONNREFUSED,
            113 => WasiError::HOSTUNREACH,
            _ => WasiError::IO,
        }
    }
}
