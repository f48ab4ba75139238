//! CPython as a WebAssembly program, and the function image that is made of it: the interpreter of `monohull build --wasi app.py`.
//!
//! ```text
//! source ─┬─ gcc ───────▶ host/python       compiles the library, and what the build itself needs
//!         └─ edits, clang and wasi-libc ──▶ libpython3.13.a, with zlib and bzip2
//! python/*.py, source/Lib ── host/python freeze.py --wasi ─▶ library.bin, library.c
//! python/*.c, python/wasi/*.c, wasi/lib/*.c ── clang, lld ─▶ python-wasi.wasm + library.bin as its attachment
//!                                                └─ monohull build ─▶ target/python/python-wasi.so
//! ```
//!
//! clang and wasi-libc are Debian's packages, as for other guests (`wasi_guests`). The library is an attachment because a program's own data is
//! copied into its memory at each start. The first two take five minutes on two processors, once: they lie in `target/python-wasi/HASH`.

use super::settings::{FLAGS, HOST_CONFIGURE, LEAVE, SOURCE};
use super::{edit, make};
use crate::c_programs::{BZIP2, Program, ZLIB};
use crate::wasi_guests::{Clang, INTERPRETER_LINK};
use crate::workspace::{Workspace, root};
use crate::{Result, apt, build, libc, shell, wasi};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Lines that become others: the file, the text, what takes its place. What they call is in `python/wasi/host.c`.
const EDITS: [(&str, &str, &str); 9] = [
    // As for the native interpreter: the stack is what the workflow says, and instances of one template have the secret of hashes in common.
    (
        "Include/cpython/pystate.h",
        "#  define Py_C_RECURSION_LIMIT 5000",
        "extern int monohull_c_recursion_limit;\n#  define Py_C_RECURSION_LIMIT monohull_c_recursion_limit",
    ),
    (
        "Python/bootstrap_hash.c",
        "        res = pyurandom(secret, secret_size, 0, 0);\n",
        "        extern int common_random(void *, size_t);\n        res = common_random(secret, (size_t)secret_size);\n",
    ),
    // The stack of compiled code is where the program cannot see it, so it asks: at each fourth level, and wherever Python's loop is entered again,
    // which takes most of it.
    (
        "Include/internal/pycore_ceval.h",
        "    return tstate->c_recursion_remaining-- < 0;\n",
        "    extern int monohull_stack_is_short(void);\n    \
         return tstate->c_recursion_remaining-- < 0 || ((tstate->c_recursion_remaining & 3) == 0 && monohull_stack_is_short());\n",
    ),
    ("Python/ceval.c", "#include \"Python.h\"\n", "#include \"Python.h\"\nextern int monohull_stack_is_short(void);\n"),
    (
        "Python/ceval.c",
        "        if (tstate->c_recursion_remaining <= 0) {\n",
        "        if (tstate->c_recursion_remaining <= 0 || monohull_stack_is_short()) {\n",
    ),
    (
        "Python/ceval.c",
        "    tstate->c_recursion_remaining -= (PY_EVAL_C_STACK_UNITS - 1);\n    if (_Py_EnterRecursiveCallTstate(tstate, \"\")) {\n",
        "    tstate->c_recursion_remaining -= PY_EVAL_C_STACK_UNITS;\n    \
         if ((tstate->c_recursion_remaining < 0 || monohull_stack_is_short()) && _Py_CheckRecursiveCall(tstate, \"\")) {\n",
    ),
    // The library's bytecode is in the attachment.
    (
        "Python/import.c",
        "    PyObject *co = PyMarshal_ReadObjectFromString(info->data, info->size);\n",
        "    extern PyObject *monohull_unmarshal(const char *, Py_ssize_t);\n    \
         PyObject *co = monohull_unmarshal(info->data, info->size);\n",
    ),
    LEAVE[0],
    LEAVE[1],
];

const CONFIGURE: &[&str] = &[
    "--host=wasm32-wasi",
    "--build=x86_64-linux-gnu",
    "--without-ensurepip",
    "--disable-test-modules",
    "--with-pymalloc",
    "--without-mimalloc",
    "MODULE_BUILDTYPE=static",
    "AR=ar",
    "RANLIB=true",
];

/// What `configure` cannot find out, besides what CPython's own file for WASI says: threads are stubs of CPython's. And modules that are left out.
const SITE: &str = "\
ac_cv_have_pthread_t=yes
ac_cv_sizeof_pthread_t=4
py_cv_module__ctypes=n/a
py_cv_module__multiprocessing=n/a
py_cv_module__posixshmem=n/a
py_cv_module__posixsubprocess=n/a
py_cv_module__socket=n/a
";

/// Parts of wasi-libc that Debian's package does not have, and CPython links by name. `python/wasi/libc.c` has what is needed of them.
const EMULATED: [&str; 2] = ["getpid", "process-clocks"];
const EMULATION: &str = "python/wasi/libc.c";
const EMULATE: [&str; 3] = ["-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_GETPID", "-D_WASI_EMULATED_PROCESS_CLOCKS"];
/// What `configure` calls each library, the archive without `lib` and `.a`, and headers.
const LIBRARIES: [(&str, Program, &str, &[&str]); 2] =
    [("ZLIB", ZLIB, "z", &["zlib.h", "zconf.h"]), ("BZIP2", BZIP2, "bz2", &["bzlib.h"])];
const ARCHIVES: [&str; 4] = super::ARCHIVES;
/// Our C files.
const OURS: [&str; 6] = [
    "python/main.c",
    "python/module.c",
    "python/wasi/host.c",
    "python/wasi/libc.c",
    "python/wasi/sockets.c",
    "wasi/lib/monohull.c",
];
/// Where the compiler of WebAssembly programs looks for what belongs to one.
const ATTACHMENT: &[u8] = b"monohull.attachment";

/// Builds the visor, the compiler of WebAssembly programs and the interpreter.
pub(crate) fn build() -> Result {
    let workspace = Workspace::load()?;
    build::visor()?;
    wasi::compiler(&workspace)?;
    let folder = root().join("target/python-wasi");
    apt::make(&folder)?;
    // Two builds at a time share the folder.
    let _held = apt::lock(&folder)?;
    let clang = Clang::fetch()?;
    let emulation = root().join(EMULATION);
    let emulation = fs::read(&emulation).map_err(|error| format!("{}: {error}", emulation.display()))?;
    let mut hasher = DefaultHasher::new();
    (SOURCE.sha256, EDITS, SITE, HOST_CONFIGURE, CONFIGURE, FLAGS, emulation, LIBRARIES).hash(&mut hasher);
    let interpreter = Interpreter { clang, folder: folder.join(format!("{:016x}", hasher.finish())) };
    interpreter.compile()?;
    interpreter.link(&folder.join("work"), &workspace.target().join("release/monohull"))?;
    for other in libc::list(&folder)? {
        if other.is_dir() && other != interpreter.folder {
            apt::remove(&other)?;
        }
    }
    Ok(())
}

/// A build of one version with one set of settings.
struct Interpreter {
    clang: Clang,
    folder: PathBuf,
}

impl Interpreter {
    /// The archives, if they are not there yet.
    fn compile(&self) -> Result {
        let done = self.folder.join("done");
        if done.exists() {
            return Ok(());
        }
        apt::remove(&self.folder)?;
        let [source, host, target, tools] = ["source", "host", "target", "tools"].map(|name| self.folder.join(name));
        SOURCE.unpack(&source)?;
        shell::heading(&format!("compile Python {} for WASI: five minutes, once", SOURCE.version));
        for folder in [&host, &target, &tools] {
            apt::make(folder)?;
        }
        shell::run(configure(&source, &host).args(HOST_CONFIGURE).env("CC", "gcc"))?;
        shell::run(make(&host).arg("python"))?;

        for (file, from, to) in EDITS {
            edit(&source.join(file), from, to)?;
        }
        let cc = self.clang.driver(&tools)?;
        for part in EMULATED {
            // An archive without files.
            apt::write(&tools.join(format!("libwasi-emulated-{part}.a")), "!<arch>\n")?;
        }
        let mut compiler = self.clang.compiler();
        compiler.args(EMULATE).arg("-c").arg(root().join(EMULATION)).arg("-o");
        shell::run(compiler.arg(tools.join("libwasi-emulated-signal.a")))?;
        self.libraries(&cc, &tools)?;
        let site = source.join("Tools/wasm/config.site-wasm32-wasi");
        let theirs = fs::read_to_string(&site).map_err(|error| format!("{}: {error}", site.display()))?;
        apt::write(&target.join("config.site"), &format!("{theirs}{SITE}"))?;
        let mut configure = configure(&source, &target);
        configure.args(CONFIGURE).arg(format!("--with-build-python={}", host.join("python").display()));
        configure.env("CONFIG_SITE", target.join("config.site")).env("CC", &cc).env("PKG_CONFIG", "false");
        for (library, _, archive, _) in LIBRARIES {
            configure.arg(format!("{library}_CFLAGS=-I{}", tools.display()));
            configure.arg(format!("{library}_LIBS=-L{} -l{archive}", tools.display()));
        }
        shell::run(configure.arg(format!("OPT={FLAGS}")))?;
        shell::run(make(&target).args(ARCHIVES))?;
        apt::write(&done, "")
    }

    /// The libraries with their headers. `configure` only asks whether they link, and the linker wants an index for that: each is one object.
    fn libraries(&self, cc: &Path, to: &Path) -> Result {
        let work = self.folder.join("library");
        for (_, library, archive, headers) in LIBRARIES {
            let compiler = || {
                let mut compiler = Command::new(cc);
                compiler.current_dir(&work);
                compiler
            };
            let files = library.compile_by(&cc.display().to_string(), compiler, &work)?;
            let mut whole = Command::new(cc);
            whole.args(["-nostdlib", "-Wl,--relocatable", "-o"]).arg(to.join(format!("lib{archive}.a"))).args(files);
            shell::run(&mut whole)?;
            for header in headers {
                shell::run(Command::new("cp").arg(work.join(header)).arg(to))?;
            }
            apt::remove(&work)?;
        }
        Ok(())
    }

    /// The program with its library, and the image.
    fn link(&self, work: &Path, monohull: &Path) -> Result {
        let ours = root().join("python");
        apt::remove(work)?;
        apt::make(work)?;
        let mut freeze = Command::new(self.folder.join("host/python"));
        let freeze = freeze.arg(ours.join("freeze.py")).arg("--wasi").arg(self.folder.join("source/Lib")).arg(work);
        shell::run(freeze)?;
        let (mut objects, mut compile) = (Vec::new(), Vec::new());
        for file in OURS.map(|file| root().join(file)).into_iter().chain([work.join("library.c")]) {
            let object = work.join(file.file_name().unwrap_or_default()).with_extension("o");
            let mut compiler = self.clang.compiler();
            compiler.args(["-Wall", "-Werror"]).args(EMULATE);
            for include in [
                self.folder.join("source/Include"),
                self.folder.join("target"),
                ours.clone(),
                root().join("function/include"),
            ] {
                compiler.arg("-I").arg(include);
            }
            compiler.arg("-c").arg(&file).arg("-o").arg(&object);
            objects.push(object);
            compile.push(compiler);
        }
        shell::run_all(compile)?;
        objects.extend(LIBRARIES.map(|(_, _, archive, _)| self.folder.join(format!("tools/lib{archive}.a"))));
        let program = work.join("python-wasi.wasm");
        let archives = ARCHIVES.map(|archive| self.folder.join("target").join(archive));
        self.clang.link(&INTERPRETER_LINK, &objects, &archives, &program)?;
        attach(&program, &work.join("library.bin"))?;
        let folder = root().join("target/python");
        apt::make(&folder)?;
        // It is installed on other machines too.
        let mut build = Command::new(monohull);
        build.arg("build").args(["--cpu", "x86-64-v2"]).arg(&program).arg("--out").arg(&folder);
        shell::output(&mut build)?;
        // The benchmark `wasi-python` runs it in wasmtime.
        build::install(&program, &folder.join("python-wasi.wasm"))?;
        build::install(&self.folder.join("source/LICENSE"), &folder.join("LICENSE-python"))?;
        let libc = self.clang.tree.join("usr/share/doc/wasi-libc/copyright");
        build::install(&libc, &folder.join("LICENSE-wasi-libc"))?;
        apt::remove(work)
    }
}

/// `configure`, quiet, in a folder.
fn configure(source: &Path, folder: &Path) -> Command {
    let mut configure = Command::new(source.join("configure"));
    configure.arg("--quiet").current_dir(folder).stdout(Stdio::null());
    configure
}

/// Adds a custom section with what is in the file to a module.
fn attach(module: &Path, attachment: &Path) -> Result {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let (mut bytes, attachment) = (read(module)?, read(attachment)?);
    let length = 1 + ATTACHMENT.len() + attachment.len();
    bytes.push(0);
    bytes.extend(leb128(length));
    bytes.push(ATTACHMENT.len() as u8);
    bytes.extend(ATTACHMENT.iter().chain(&attachment));
    fs::write(module, bytes).map_err(|error| format!("{}: {error}", module.display()))
}

/// A number as WebAssembly has it.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
