//! bzip2's library.

use super::{Files, Program};
use crate::source::Source;

pub(crate) const BZIP2: Program = Program {
    name: "libbz2",
    source: &Source {
        name: "bzip2",
        version: "1.0.8",
        addresses: [
            "http://deb.debian.org/debian/pool/main/b/bzip2/bzip2_1.0.8.orig.tar.gz",
            "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/b/bzip2/bzip2_1.0.8.orig.tar.gz",
        ],
        sha256: "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
    },
    before: &[],
    files: Files::These(&[
        "blocksort.c",
        "bzlib.c",
        "compress.c",
        "crctable.c",
        "decompress.c",
        "huffman.c",
        "randtable.c",
    ]),
    flags: &["-O2", "-w"],
};
