//! Which CPython, and how it is configured.

use crate::source::Source;

/// CPython, as Debian 13 has it.
pub(super) const SOURCE: Source = Source {
    name: "python",
    version: "3.13.5",
    addresses: [
        "http://deb.debian.org/debian/pool/main/p/python3.13/python3.13_3.13.5.orig.tar.xz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/p/python3.13/python3.13_3.13.5.orig.tar.xz",
    ],
    sha256: "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640",
};

/// Lines that become others: the file, the text, what takes its place.
pub(super) const EDITS: [(&str, &str, &str); 5] = [
    // A thread's stack is what the workflow says, and how deep C may call itself follows from that (`python/main.c`).
    (
        "Include/cpython/pystate.h",
        "#  define Py_C_RECURSION_LIMIT 10000",
        "extern int monohull_c_recursion_limit;\n#  define Py_C_RECURSION_LIMIT monohull_c_recursion_limit",
    ),
    // The secret of hashes is drawn before the program could say that it is ready: instances of one template have it in common, as processes
    // that are forked from one have.
    (
        "Python/bootstrap_hash.c",
        "        res = pyurandom(secret, secret_size, 0, 0);\n",
        "        res = getrandom(secret, secret_size, GRND_INSECURE) == secret_size ? 0 : -1;\n",
    ),
    ("Python/pystate.c", "#include \"Python.h\"\n", "#include \"Python.h\"\nint monohull_c_recursion_limit = 10000;\n"),
    LEAVE[0],
    LEAVE[1],
];

/// How a program ends that was ready for its inputs, natively and for WebAssembly: `python/module.c` has it. To take a whole interpreter apart takes longer
/// than many programs run, and all its memory is touched for that, which instances of a template have in common otherwise.
pub(super) const LEAVE: [(&str, &str, &str); 2] = [
    ("Python/pylifecycle.c", "#include \"Python.h\"\n", "#include \"Python.h\"\nvoid (*monohull_leave)(void);\n"),
    (
        "Python/pylifecycle.c",
        "    /* Disable signal handling */\n    _PySignal_Fini();\n",
        "    if (monohull_leave != NULL) {\n        monohull_leave();\n        return flush_std_files() < 0 ? -1 : status;\n    }\n\n    \
         /* Disable signal handling */\n    _PySignal_Fini();\n",
    ),
];

/// The interpreter that runs while the other is built: it is to be compiled fast.
pub(super) const HOST_CONFIGURE: &[&str] =
    &["--without-ensurepip", "--disable-test-modules", "--without-doc-strings", "CFLAGS=-O0 -w", "OPT="];

/// The interpreter of functions. All modules are a part of it.
pub(super) const CONFIGURE: &[&str] = &[
    "--host=x86_64-linux-musl",
    "--build=x86_64-linux-gnu",
    "--disable-shared",
    "--without-ensurepip",
    "--disable-test-modules",
    "--with-pymalloc",
    // Not used, and draws random numbers before `main`.
    "--without-mimalloc",
    "MODULE_BUILDTYPE=static",
];

/// One for the host that benchmarks compare with.
pub(super) const PEER_CONFIGURE: &[&str] = &[
    "--disable-shared",
    "--without-ensurepip",
    "--disable-test-modules",
    "--with-pymalloc",
    // Not used, and draws random numbers before `main`.
    "--without-mimalloc",
    "MODULE_BUILDTYPE=static",
];

/// What it is without: modules of libraries that the host may have or not.
pub(super) const PEER_SITE: &str = "\
py_cv_module__bz2=n/a
py_cv_module__hashlib=n/a
py_cv_module__lzma=n/a
py_cv_module__sqlite3=n/a
py_cv_module__ssl=n/a
py_cv_module_zlib=n/a
";

/// What the smaller interpreter is without: OpenSSL.
pub(super) const SMALL_SITE: &str = "\
py_cv_module__hashlib=n/a
py_cv_module__ssl=n/a
";

/// The interpreter's own optimisation.
pub(super) const FLAGS: &str = "-DNDEBUG -O2 -fwrapv";
/// That of the smaller one.
pub(super) const SMALL_FLAGS: &str = "-DNDEBUG -O1 -fwrapv";
/// What the function's interpreter is compiled with besides. `monohull cc` keeps frame pointers, and the interpreter's loop needs every
/// register. A fault in its C code is traced no further than the function in which it is.
pub(super) const FUNCTION_FLAGS: &str = "-fomit-frame-pointer";

/// What `configure` cannot find out without running a program, and modules that are left out: they need libraries (ctypes, curses, dbm, tk, readline,
/// uuid), other processes (multiprocessing, posixshmem), a terminal, or the system's log.
pub(super) const SITE: &str = "\
ac_cv_file__dev_ptmx=no
ac_cv_file__dev_ptc=no
ac_cv_buggy_getaddrinfo=no
ac_cv_computed_gotos=yes
ac_cv_aligned_required=no
ac_cv_working_tzset=yes
py_cv_module__ctypes=n/a
py_cv_module__curses=n/a
py_cv_module__curses_panel=n/a
py_cv_module__dbm=n/a
py_cv_module__gdbm=n/a
py_cv_module__multiprocessing=n/a
py_cv_module__posixshmem=n/a
py_cv_module__tkinter=n/a
py_cv_module__uuid=n/a
py_cv_module_readline=n/a
py_cv_module_syslog=n/a
py_cv_module_termios=n/a
";
