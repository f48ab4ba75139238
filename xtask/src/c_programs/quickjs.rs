//! QuickJS's interpreter. A part of it is JavaScript, which its own compiler, a program of the host, makes C of.

use super::{Files, Program};
use crate::source::Source;

/// The source, with its tests. The interpreter for WASI is made of it as well.
pub(crate) const QUICKJS_SOURCE: Source = Source {
    name: "quickjs",
    version: "2025.04.26",
    addresses: [
        "http://deb.debian.org/debian/pool/main/q/quickjs/quickjs_2025.04.26.orig.tar.xz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/q/quickjs/quickjs_2025.04.26.orig.tar.xz",
    ],
    sha256: "ec81da5b3249ed648dbc7df4a1654988910e66a118d9b71cb63534216efcfbbe",
};

pub(super) const QUICKJS: Program = Program {
    name: "quickjs",
    source: &QUICKJS_SOURCE,
    besides: &[],
    before: &[
        "$HOSTCC -O0 -w -fwrapv -D_GNU_SOURCE -DCONFIG_VERSION='\"2025-04-26\"' -DCONFIG_CC='\"cc\"' -DCONFIG_PREFIX='\"/usr\"' \
         qjsc.c quickjs.c dtoa.c libregexp.c libunicode.c cutils.c quickjs-libc.c -o host-qjsc -lm -ldl -lpthread\n\
         ./host-qjsc -s -c -o repl.c -m repl.js",
    ],
    files: Files::These(&[
        "qjs.c",
        "repl.c",
        "quickjs.c",
        "dtoa.c",
        "libregexp.c",
        "libunicode.c",
        "cutils.c",
        "quickjs-libc.c",
    ]),
    flags: &["-O1", "-w", "-fwrapv", "-D_GNU_SOURCE", "-DCONFIG_VERSION=\"2025-04-26\""],
};
