//! xz's own program, for one thread. As for its library alone (`liblzma.rs`), what its `configure` would find is in the flags.

use super::{Files, Program};
use crate::source::Source;

/// The source, with its tests.
pub(crate) const XZ_SOURCE: Source = Source {
    name: "xz",
    version: "5.8.1",
    addresses: [
        "http://deb.debian.org/debian/pool/main/x/xz-utils/xz-utils_5.8.1.orig.tar.xz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/x/xz-utils/xz-utils_5.8.1.orig.tar.xz",
    ],
    sha256: "0b54f79df85912504de0b14aec7971e3f964491af1812d83447005807513cd9e",
};

/// The flags, and more.
macro_rules! flags {
    ($($more:literal),*) => {
        &[
            "-O2",
            "-w",
            "-std=gnu11",
            "-DHAVE_STDINT_H",
            "-DHAVE_INTTYPES_H",
            "-DHAVE_STDBOOL_H",
            "-DHAVE__BOOL",
            "-DHAVE_BYTESWAP_H",
            "-DHAVE___BUILTIN_BSWAPXX",
            "-DHAVE___BUILTIN_ASSUME_ALIGNED",
            "-DHAVE_VISIBILITY=1",
            "-DHAVE_CLOCK_GETTIME",
            "-DHAVE_CLOCK_MONOTONIC",
            "-DHAVE_FUTIMENS",
            "-DHAVE_STRUCT_STAT_ST_ATIM_TV_NSEC",
            "-DHAVE_MBRTOWC",
            "-DHAVE_WCWIDTH",
            "-DTUKLIB_FAST_UNALIGNED_ACCESS",
            "-DTUKLIB_SYMBOL_PREFIX=lzma_",
            "-DASSUME_RAM=128",
            "-D_GNU_SOURCE",
            "-DNDEBUG",
            "-DHAVE_ENCODERS",
            "-DHAVE_DECODERS",
            "-DHAVE_LZIP_DECODER",
            "@parts",
            "-DPACKAGE=\"xz\"",
            "-DPACKAGE_NAME=\"XZ Utils\"",
            "-DPACKAGE_BUGREPORT=\"xz@tukaani.org\"",
            "-DPACKAGE_URL=\"https://tukaani.org/xz/\"",
            "-Isrc/liblzma/api",
            "-Isrc/liblzma/common",
            "-Isrc/liblzma/check",
            "-Isrc/liblzma/lz",
            "-Isrc/liblzma/rangecoder",
            "-Isrc/liblzma/lzma",
            "-Isrc/liblzma/delta",
            "-Isrc/liblzma/simple",
            "-Isrc/common",
            $($more),*
        ]
    };
}

/// For native programs, to compare with.
pub(super) const XZ: Program = Program {
    name: "xz",
    source: &XZ_SOURCE,
    besides: &[],
    before: &[
        // All kinds of checks, filters and match finders.
        "for name in CHECK_CRC32 CHECK_CRC64 CHECK_SHA256 MF_BT2 MF_BT3 MF_BT4 MF_HC3 MF_HC4; do echo -DHAVE_$name; done >parts\n\
         for name in LZMA1 LZMA2 DELTA X86 ARM ARM64 ARMTHUMB IA64 POWERPC RISCV SPARC; do echo -DHAVE_ENCODER_$name -DHAVE_DECODER_$name; done >>parts",
    ],
    files: Files::Of(
        &[
            "src/xz",
            "src/common",
            "src/liblzma/check",
            "src/liblzma/common",
            "src/liblzma/delta",
            "src/liblzma/lz",
            "src/liblzma/lzma",
            "src/liblzma/rangecoder",
            "src/liblzma/simple",
        ],
        // Those for threads, smaller ones with the same functions, and programs that print tables.
        &[
            "hardware_cputhreads.c",
            "outqueue.c",
            "stream_decoder_mt.c",
            "stream_encoder_mt.c",
            "tuklib_cpucores.c",
            "crc32_small.c",
            "crc64_small.c",
            "crc32_tablegen.c",
            "crc64_tablegen.c",
            "crc_clmul_consts_gen.c",
            "fastpos_tablegen.c",
            "price_tablegen.c",
        ],
    ),
    flags: flags!(),
};

/// For WASI. Its header knows that WebAssembly has no masks of signals, and its program asks for them all the same. The pipe is the one by which a
/// handler of signals would wake it.
pub(super) const XZ_WASI: Program =
    Program { flags: flags!("-Dmythread_sigmask=sigprocmask", "-Dpipe=missing_pipe_of_signals"), ..XZ };
