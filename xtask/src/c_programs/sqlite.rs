//! SQLite's shell. Debian's package of SQLite has the parts that the one file `sqlite3.c` is made of, by a program in Tcl; Fossil's has
//! the file itself, as SQLite's authors publish it.

use super::{Files, Program};
use crate::source::Source;

pub(super) const SQLITE: Program = Program {
    name: "sqlite3",
    source: &Source {
        name: "fossil",
        version: "2.26",
        addresses: [
            "http://deb.debian.org/debian/pool/main/f/fossil/fossil_2.26.orig.tar.xz",
            "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/f/fossil/fossil_2.26.orig.tar.xz",
        ],
        sha256: "ec0836bee5727017809d827c5dafc32c6450c513a8fa18f678e0a6b494e51ab6",
    },
    before: &[],
    files: Files::These(&["extsrc/sqlite3.c", "extsrc/shell.c"]),
    // With -O2 it takes twice as long to compile.
    flags: &["-O1", "-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE", "-DSQLITE_ENABLE_MATH_FUNCTIONS"],
};

/// For WASI: the library recognises it, the shell asks for this name. Its other system calls are replaced in `wasi/guests/programs`.
pub(super) const SQLITE_WASI: Program = Program {
    flags: &[
        "-O1",
        "-w",
        "-DSQLITE_WASI",
        "-DSQLITE_ENABLE_FTS5",
        "-DSQLITE_ENABLE_RTREE",
        "-DSQLITE_ENABLE_MATH_FUNCTIONS",
    ],
    ..SQLITE
};

/// SQLite without its shell.
pub(crate) const SQLITE_LIBRARY: Program =
    Program { name: "libsqlite3", files: Files::These(&["extsrc/sqlite3.c"]), ..SQLITE };
