//! bzip2, and its library alone.

use super::{Files, Program};
use crate::source::Source;

/// The source, with its tests.
pub(crate) const BZIP2_SOURCE: Source = Source {
    name: "bzip2",
    version: "1.0.8",
    addresses: [
        "http://deb.debian.org/debian/pool/main/b/bzip2/bzip2_1.0.8.orig.tar.gz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/b/bzip2/bzip2_1.0.8.orig.tar.gz",
    ],
    sha256: "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
};

const LIBRARY: &[&str] =
    &["blocksort.c", "bzlib.c", "compress.c", "crctable.c", "decompress.c", "huffman.c", "randtable.c"];

/// The library.
pub(crate) const BZIP2: Program = Program {
    name: "libbz2",
    source: &BZIP2_SOURCE,
    besides: &[],
    before: &[],
    files: Files::These(LIBRARY),
    flags: &["-O2", "-w"],
};

/// The program.
pub(super) const BZIP2_PROGRAM: Program = Program { name: "bzip2", files: Files::With(LIBRARY, "bzip2.c"), ..BZIP2 };
