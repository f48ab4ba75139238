//! zstd's own program, for one thread, as its makefile builds it without the formats of other libraries.

use super::{Files, Program};
use crate::source::Source;

/// The source, with its tests.
pub(crate) const ZSTD_SOURCE: Source = Source {
    name: "zstd",
    version: "1.5.7",
    addresses: [
        "http://deb.debian.org/debian/pool/main/libz/libzstd/libzstd_1.5.7+dfsg.orig.tar.xz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/libz/libzstd/libzstd_1.5.7+dfsg.orig.tar.xz",
    ],
    sha256: "0c092ef267edce57ba7f3f2645c861f72eaf5e76273c6c3632869423464b90a5",
};

/// For native programs, to compare with.
pub(super) const ZSTD: Program = Program {
    name: "zstd",
    source: &ZSTD_SOURCE,
    besides: &[],
    before: &[],
    files: Files::These(&[
        "lib/common/debug.c",
        "lib/common/entropy_common.c",
        "lib/common/error_private.c",
        "lib/common/fse_decompress.c",
        "lib/common/pool.c",
        "lib/common/threading.c",
        "lib/common/xxhash.c",
        "lib/common/zstd_common.c",
        "lib/compress/fse_compress.c",
        "lib/compress/hist.c",
        "lib/compress/huf_compress.c",
        "lib/compress/zstd_compress.c",
        "lib/compress/zstd_compress_literals.c",
        "lib/compress/zstd_compress_sequences.c",
        "lib/compress/zstd_compress_superblock.c",
        "lib/compress/zstd_double_fast.c",
        "lib/compress/zstd_fast.c",
        "lib/compress/zstd_lazy.c",
        "lib/compress/zstd_ldm.c",
        "lib/compress/zstd_opt.c",
        "lib/compress/zstd_preSplit.c",
        "lib/compress/zstdmt_compress.c",
        "lib/decompress/huf_decompress.c",
        "lib/decompress/zstd_ddict.c",
        "lib/decompress/zstd_decompress.c",
        "lib/decompress/zstd_decompress_block.c",
        "lib/dictBuilder/cover.c",
        "lib/dictBuilder/divsufsort.c",
        "lib/dictBuilder/fastcover.c",
        "lib/dictBuilder/zdict.c",
        "programs/benchfn.c",
        "programs/benchzstd.c",
        "programs/datagen.c",
        "programs/dibio.c",
        "programs/fileio.c",
        "programs/fileio_asyncio.c",
        "programs/lorem.c",
        "programs/timefn.c",
        "programs/util.c",
        "programs/zstdcli.c",
        "programs/zstdcli_trace.c",
    ]),
    // It has a part in assembly for x86-64, beside the same in C.
    flags: &["-O2", "-w", "-DXXH_NAMESPACE=ZSTD_", "-DZSTD_DISABLE_ASM"],
};

/// For WASI. It does not recognise that as a Unix system, nor that no priority can be set there.
pub(super) const ZSTD_WASI: Program = Program {
    flags: &[
        "-O2",
        "-w",
        "-DXXH_NAMESPACE=ZSTD_",
        "-DZSTD_DISABLE_ASM",
        "-DPLATFORM_POSIX_VERSION=200112L",
        "-DZSTD_SETPRIORITY_SUPPORT=0",
    ],
    ..ZSTD
};
