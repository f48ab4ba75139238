//! minigzip, zlib's example of a `gzip`: what is compiled is what its `configure` found.

use super::{Files, Program};
use crate::source::Source;

/// The library.
const FILES: &[&str] = &[
    "adler32.c",
    "compress.c",
    "crc32.c",
    "deflate.c",
    "gzclose.c",
    "gzlib.c",
    "gzread.c",
    "gzwrite.c",
    "infback.c",
    "inffast.c",
    "inflate.c",
    "inftrees.c",
    "trees.c",
    "uncompr.c",
    "zutil.c",
];

pub(super) const MINIGZIP: Program = Program {
    name: "minigzip",
    source: &Source {
        name: "zlib",
        version: "1.3.1",
        addresses: [
            "http://deb.debian.org/debian/pool/main/z/zlib/zlib_1.3.dfsg+really1.3.1.orig.tar.gz",
            "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/z/zlib/zlib_1.3.dfsg+really1.3.1.orig.tar.gz",
        ],
        sha256: "60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb",
    },
    besides: &[],
    // It ends with an error if the compiler does not make a program.
    before: &["./configure --static"],
    files: Files::With(FILES, "test/minigzip.c"),
    flags: &["-O3", "-D_LARGEFILE64_SOURCE=1", "-DHAVE_HIDDEN", "-I."],
};

/// zlib alone, without its files in the format of `gzip`.
pub(crate) const ZLIB: Program = Program {
    name: "libz",
    files: Files::These(&[
        "adler32.c",
        "compress.c",
        "crc32.c",
        "deflate.c",
        "infback.c",
        "inffast.c",
        "inflate.c",
        "inftrees.c",
        "trees.c",
        "uncompr.c",
        "zutil.c",
    ]),
    ..MINIGZIP
};

/// zlib's own tests: of its functions, and of what reads compressed data.
pub(crate) const ZLIB_TESTS: [Program; 2] = [
    Program { name: "example", files: Files::With(FILES, "test/example.c"), ..MINIGZIP },
    Program { name: "infcover", files: Files::With(FILES, "test/infcover.c"), ..MINIGZIP },
];
