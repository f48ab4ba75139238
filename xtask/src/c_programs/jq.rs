//! jq, with Oniguruma for its regular expressions (`oniguruma.rs`). Debian's source has no `configure`, so what that would find in musl is
//! written here: all mathematical functions but six, which glibc or other systems have.

use super::oniguruma::{ONIGURUMA_SOURCE, with_flags, with_library};
use super::{Files, Program};
use crate::source::Source;

/// The source, with its tests.
pub(crate) const JQ_SOURCE: Source = Source {
    name: "jq",
    version: "1.7.1",
    addresses: [
        "http://deb.debian.org/debian/pool/main/j/jq/jq_1.7.1.orig.tar.gz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/j/jq/jq_1.7.1.orig.tar.gz",
    ],
    sha256: "fc75b1824aba7a954ef0886371d951c3bf4b6e0a921d1aefc553f309702d6ed1",
};

pub(super) const JQ: Program = Program {
    name: "jq",
    source: &JQ_SOURCE,
    besides: &[&ONIGURUMA_SOURCE],
    before: &[
        "mkdir oniguruma
            tar -xzf \"$SOURCES/oniguruma-6.9.9.tar.gz\" -C oniguruma --strip-components=2 --wildcards '*/src/*.[ch]'
            : > oniguruma/config.h",
        // As its makefile has them.
        r##"echo '#define JQ_VERSION "1.7.1"' > src/version.h
            echo '#define JQ_CONFIG ""' > src/config_opts.inc
            sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' src/builtin.jq > src/builtin.inc"##,
        "sed -n 's/^AC_CHECK_MATH_FUNC(\\([a-z_0-9]*\\)).*/\\1/p' configure.ac \
         | grep -v -x -E '__exp10|pow10|gamma|drem|significand|scalb' | tr a-z A-Z | sed 's/^/-DHAVE_/' > functions",
    ],
    files: Files::These(with_library![
        "oniguruma",
        "src/builtin.c",
        "src/bytecode.c",
        "src/compile.c",
        "src/execute.c",
        "src/jq_test.c",
        "src/jv.c",
        "src/jv_alloc.c",
        "src/jv_aux.c",
        "src/jv_dtoa.c",
        "src/jv_dtoa_tsd.c",
        "src/jv_file.c",
        "src/jv_parse.c",
        "src/jv_print.c",
        "src/jv_unicode.c",
        "src/lexer.c",
        "src/linker.c",
        "src/locfile.c",
        "src/main.c",
        "src/parser.c",
        "src/util.c",
        "src/decNumber/decContext.c",
        "src/decNumber/decNumber.c",
    ]),
    flags: with_flags![
        "-O1",
        "-w",
        "-I.",
        "-Ioniguruma",
        "-DHAVE_LIBONIG",
        "-D_GNU_SOURCE",
        "-DIEEE_8087",
        "-DUSE_DECNUM=1",
        "-DDECUSE64=1",
        "-DHAVE_ISATTY",
        "-DHAVE_MEMMEM",
        "-DHAVE_STRFTIME",
        "-DHAVE_STRPTIME",
        "-DHAVE_TIMEGM",
        "-DHAVE_MKTIME",
        "-DHAVE_GMTIME",
        "-DHAVE_GMTIME_R",
        "-DHAVE_LOCALTIME",
        "-DHAVE_LOCALTIME_R",
        "-DHAVE_SETLOCALE",
        "-DHAVE_TM_TM_GMT_OFF",
        "@functions",
    ],
};
