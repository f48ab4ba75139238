//! Oniguruma, the library of regular expressions that jq links: its source, and its own tests. Debian's source has no `configure`; what
//! that would find is in the flags. Of the encodings of text it has ASCII and UTF-8 here, which is what jq asks for.

use super::{Files, Program};
use crate::source::Source;

pub(super) const ONIGURUMA_SOURCE: Source = Source {
    name: "oniguruma",
    version: "6.9.9",
    addresses: [
        "http://deb.debian.org/debian/pool/main/libo/libonig/libonig_6.9.9.orig.tar.gz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/libo/libonig/libonig_6.9.9.orig.tar.gz",
    ],
    sha256: "001aa1202e78448f4c0bf1a48c76e556876b36f16d92ce3207eccfd61d99f2a0",
};

/// The library's C files in this folder, after these.
macro_rules! with_library {
    ($folder:literal, $($file:literal),* $(,)?) => {
        &[
            $($file,)*
            concat!($folder, "/ascii.c"),
            concat!($folder, "/onig_init.c"),
            concat!($folder, "/regcomp.c"),
            concat!($folder, "/regenc.c"),
            concat!($folder, "/regerror.c"),
            concat!($folder, "/regexec.c"),
            concat!($folder, "/regext.c"),
            concat!($folder, "/regparse.c"),
            concat!($folder, "/regsyntax.c"),
            concat!($folder, "/regtrav.c"),
            concat!($folder, "/regversion.c"),
            concat!($folder, "/st.c"),
            concat!($folder, "/unicode.c"),
            concat!($folder, "/unicode_fold1_key.c"),
            concat!($folder, "/unicode_fold2_key.c"),
            concat!($folder, "/unicode_fold3_key.c"),
            concat!($folder, "/unicode_unfold_key.c"),
            concat!($folder, "/utf8.c"),
        ]
    };
}

/// These flags, and what the library's `configure` would find.
macro_rules! with_flags {
    ($($flag:literal),* $(,)?) => {
        &[
            $($flag,)*
            "-DHAVE_ALLOCA_H",
            "-DHAVE_STDINT_H",
            "-DHAVE_INTTYPES_H",
            "-DHAVE_SYS_TIME_H",
            "-DHAVE_SYS_TYPES_H",
            "-DHAVE_UNISTD_H",
            "-DSIZEOF_INT=__SIZEOF_INT__",
            "-DSIZEOF_LONG=__SIZEOF_LONG__",
            "-DSIZEOF_LONG_LONG=__SIZEOF_LONG_LONG__",
            "-DSIZEOF_VOIDP=__SIZEOF_POINTER__",
        ]
    };
}

pub(super) use {with_flags, with_library};

/// The flags are in place of what this file would have.
const EMPTY_CONFIG: &[&str] = &[": > src/config.h"];

const TEST: Program = Program {
    name: "onig-utf8",
    source: &ONIGURUMA_SOURCE,
    besides: &[],
    before: EMPTY_CONFIG,
    files: Files::These(with_library!("src", "test/test_utf8.c")),
    flags: with_flags!["-O1", "-w", "-Isrc"],
};

/// Its own tests, for UTF-8.
pub(crate) const ONIGURUMA_TESTS: [Program; 5] = [
    TEST,
    Program { name: "onig-syntax", files: Files::These(with_library!("src", "test/test_syntax.c")), ..TEST },
    Program { name: "onig-options", files: Files::These(with_library!("src", "test/test_options.c")), ..TEST },
    Program { name: "onig-regset", files: Files::These(with_library!("src", "test/test_regset.c")), ..TEST },
    Program { name: "onig-back", files: Files::These(with_library!("src", "test/test_back.c")), ..TEST },
];
