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
    besides: &[],
    before: &[],
    files: Files::These(&["extsrc/sqlite3.c", "extsrc/shell.c"]),
    // With -O2 it takes twice as long to compile.
    flags: &["-O1", "-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE", "-DSQLITE_ENABLE_MATH_FUNCTIONS"],
};

/// For WASI: the library recognises it, the shell asks for this name. Its other system calls are replaced in `wasi/guests/programs`. For WASI the library
/// takes `fchmod` away, and still calls it for temporary files, at the address 0. So it stays, which is ours.
pub(super) const SQLITE_WASI: Program = Program {
    before: &["sed -i 's/^# undef HAVE_FCHMOD$/# define HAVE_FCHMOD 1/' extsrc/sqlite3.c"],
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

/// SQLite as its authors keep it, with its tests: another version than that of the one file.
pub(crate) const SQLITE_SOURCE: Source = Source {
    name: "sqlite3",
    version: "3.46.1",
    addresses: [
        "http://deb.debian.org/debian/pool/main/s/sqlite3/sqlite3_3.46.1.orig.tar.xz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/s/sqlite3/sqlite3_3.46.1.orig.tar.xz",
    ],
    sha256: "d0cdd2ece271b29e7ce18095745d892517ee26d0f270065b3a25c2e9eb11639c",
};

/// The part of its tests that is a program in C: it runs what fuzzers have found, tens of thousands of databases and scripts, and checks that SQLite
/// comes through. With the one file that the shell is made of, and compiled as its own makefile says.
pub(super) const FUZZCHECK: Program = Program {
    name: "fuzzcheck",
    source: &SQLITE_SOURCE,
    besides: &[SQLITE.source],
    before: &FUZZCHECK_FILES,
    files: Files::These(&[
        "test/fuzzcheck.c",
        "test/ossfuzz.c",
        "test/fuzzinvariants.c",
        "test/vt02.c",
        "ext/recover/dbdata.c",
        "ext/recover/sqlite3recover.c",
        "ext/misc/randomjson.c",
        "sqlite3.c",
    ]),
    flags: &FUZZCHECK_FLAGS,
};

/// The same for WASI.
pub(super) const FUZZCHECK_WASI: Program = Program {
    before: &[
        FUZZCHECK_FILES[0],
        FUZZCHECK_FILES[1],
        "sed -i 's/^# undef HAVE_FCHMOD$/# define HAVE_FCHMOD 1/' sqlite3.c",
    ],
    ..FUZZCHECK
};

/// Commands that put the one file and a header where they are looked for.
const FUZZCHECK_FILES: [&str; 2] = [
    "tar -xJf \"$SOURCES/fossil-2.26.tar.xz\" --strip-components=2 fossil-src-2.26/extsrc/sqlite3.c fossil-src-2.26/extsrc/sqlite3.h",
    "cp src/sqlite3ext.h .",
];

const FUZZCHECK_FLAGS: [&str; 34] = [
    "-O1",
    "-w",
    "-I.",
    "-Itest",
    "-Iext/recover",
    "-DSQLITE_THREADSAFE=0",
    "-DSQLITE_OSS_FUZZ",
    "-DSQLITE_ENABLE_BYTECODE_VTAB",
    "-DSQLITE_ENABLE_DBPAGE_VTAB",
    "-DSQLITE_ENABLE_DBSTAT_VTAB",
    "-DSQLITE_ENABLE_DESERIALIZE",
    "-DSQLITE_ENABLE_EXPLAIN_COMMENTS",
    "-DSQLITE_ENABLE_FTS3_PARENTHESIS",
    "-DSQLITE_ENABLE_FTS4",
    "-DSQLITE_ENABLE_FTS5",
    "-DSQLITE_ENABLE_GEOPOLY",
    "-DSQLITE_ENABLE_MATH_FUNCTIONS",
    "-DSQLITE_ENABLE_MEMSYS5",
    "-DSQLITE_ENABLE_NORMALIZE",
    "-DSQLITE_ENABLE_OFFSET_SQL_FUNC",
    "-DSQLITE_ENABLE_PREUPDATE_HOOK",
    "-DSQLITE_ENABLE_RTREE",
    "-DSQLITE_ENABLE_SESSION",
    "-DSQLITE_ENABLE_STMTVTAB",
    "-DSQLITE_ENABLE_UNKNOWN_SQL_FUNCTION",
    "-DSQLITE_ENABLE_STAT4",
    "-DSQLITE_ENABLE_STMT_SCANSTATUS",
    "-DSQLITE_MAX_MEMORY=50000000",
    "-DSQLITE_MAX_MMAP_SIZE=0",
    "-DSQLITE_OMIT_LOAD_EXTENSION",
    "-DSQLITE_PRINTF_PRECISION_LIMIT=1000",
    "-DSQLITE_PRIVATE=",
    "-DSQLITE_STRICT_SUBTYPE=1",
    "-DSQLITE_STATIC_RANDOMJSON",
];

/// Of the sources with their tests this is all that is read.
pub(super) const FUZZDATA_ALONE: &str =
    "find . -type f ! -name 'fuzzdata*.db' -delete; find . -mindepth 1 -type d -empty -delete";

/// SQLite without its shell.
pub(crate) const SQLITE_LIBRARY: Program =
    Program { name: "libsqlite3", files: Files::These(&["extsrc/sqlite3.c"]), ..SQLITE };
