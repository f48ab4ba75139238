//! Programs for WASI in other languages than Rust, compiled with Debian's packages of their compilers, which are fetched and never
//! installed.
//!
//! ```text
//! wasi/guests/c/tour.c     clang, wasi-libc    target/wasi/tour-c.wasm
//! wasi/guests/c/bench.c    clang, wasi-libc    target/wasi/bench.wasm, for the benchmark `wasi`, with mixed.c
//! wasi/guests/c/slots.c    clang, wasi-libc    target/wasi/bench-slots.wasm, for the benchmark `slot-large`
//! bench/guests/*.c         clang, wasi-libc    target/wasi/bench-words.wasm, -sort, -chain, for the benchmark `wasi-workflows`, with wasi/lib/monohull.c
//! wasi/guests/c/durable.c  clang, wasi-libc    target/wasi/durable-c.wasm, with wasi/lib/monohull.c
//! wasi/guests/c/serve.c    clang, wasi-libc    target/wasi/serve-c.wasm
//! wasi/guests/c/conformance.c  clang, wasi-libc    target/wasi/conformance.wasm, which runs here and in Wasmtime, with conformance_actions.c
//! wasi/guests/c/connect.c  clang, wasi-libc    target/wasi/connect-c.wasm, with wasi/lib/monohull.c
//! wasi/guests/js/*.c       clang, QuickJS      target/wasi/quickjs.wasm, the interpreter of `monohull build app.js`
//!                                              target/wasi/quickjs-tests, its own tests
//! wasi/guests/go           Go                  target/wasi/tour-go.wasm
//! ```
//!
//! clang would start the linker by its name; both are started here instead, each with the libraries of the tree that it came in. Go's
//! programs need none.

use crate::c_programs::QUICKJS_SOURCE;
use crate::workspace::root;
use crate::{Result, apt, shell};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiler, linker, libc, and what compiled code calls of the compiler.
const CLANG: [&str; 4] = ["clang-14", "lld-14", "wasi-libc", "libclang-rt-14-dev-wasm32"];
/// What these depend on and a program for WASI has no use for.
const WITHOUT: [&str; 9] = [
    "gcc-12",
    "cpp-12",
    "libgcc-12-dev",
    "libstdc++-12-dev",
    "libc6-dev",
    "linux-libc-dev",
    "libasan8",
    "binutils-x86-64-linux-gnu",
    "libobjc-12-dev",
];
/// What of QuickJS is the interpreter.
const QUICKJS: [&str; 5] = ["quickjs.c", "dtoa.c", "libregexp.c", "libunicode.c", "cutils.c"];
/// The main program of the interpreter, what is included of ours, and what is included before everything else.
const OURS: [&str; 9] = [
    "wasi/guests/js/main.c",
    "wasi/guests/js/children.c",
    "wasi/guests/js/connection.c",
    "wasi/guests/js/console.c",
    "wasi/guests/js/continuation.c",
    "wasi/guests/js/invocation.c",
    "wasi/guests/js/random.c",
    "wasi/guests/js/values.c",
    "wasi/lib/monohull.c",
];
const HEADERS: [&str; 10] = [
    "function/include/monohull.h",
    "wasi/include/monohull-wasi.h",
    "wasi/guests/js/children.h",
    "wasi/guests/js/connection.h",
    "wasi/guests/js/console.h",
    "wasi/guests/js/continuation.h",
    "wasi/guests/js/invocation.h",
    "wasi/guests/js/random.h",
    "wasi/guests/js/values.h",
    STACK,
];
const STACK: &str = "wasi/guests/js/stack.h";
/// Emscripten's programs have no threads either; unlike those, these check their stack.
const QUICKJS_FLAGS: [&str; 4] =
    ["-D_GNU_SOURCE", "-DEMSCRIPTEN", "-DCONFIG_STACK_CHECK", "-DCONFIG_VERSION=\"2025-04-26\""];
/// The stack is below everything else, so that it cannot grow into data.
pub(crate) const INTERPRETER_LINK: [&str; 4] = ["--stack-first", "-z", "stack-size=2097152", "--strip-debug"];
/// The first version of Go for WASI is 1.21.
const GO: [&str; 2] = ["golang-1.23-go", "golang-1.23-src"];

/// Compiles all of them into the folder.
pub(crate) fn build(to: &Path) -> Result {
    let guests = root().join("wasi/guests");
    let clang = Clang::fetch()?;
    let library = root().join("wasi/lib/monohull.c");
    for name in ["words", "sort", "chain"] {
        let source = root().join("bench/guests").join(name).with_extension("c");
        c(&clang, &[source, library.clone()], &to.join(format!("bench-{name}.wasm")))?;
    }
    for (source, more, program) in [
        ("c/tour.c", None, "tour-c.wasm"),
        ("c/bench.c", Some(guests.join("c/mixed.c")), "bench.wasm"),
        ("c/slots.c", None, "bench-slots.wasm"),
        ("c/durable.c", Some(library.clone()), "durable-c.wasm"),
        ("c/serve.c", None, "serve-c.wasm"),
        ("c/conformance.c", Some(guests.join("c/conformance_actions.c")), "conformance.wasm"),
        ("c/connect.c", Some(library), "connect-c.wasm"),
    ] {
        let sources: Vec<PathBuf> = [guests.join(source)].into_iter().chain(more).collect();
        c(&clang, &sources, &to.join(program))?;
    }
    quickjs(&clang, &to.join("quickjs.wasm"))?;
    go(&guests.join("go"), &to.join("tour-go.wasm"))
}

/// Debian's clang for WASI.
pub(crate) struct Clang {
    pub(crate) tree: PathBuf,
}

impl Clang {
    pub(crate) fn fetch() -> Result<Clang> {
        let what = "fetch clang and wasi-libc for a program in C: about 70 MB, once";
        let folder = apt::cached("wasi-c", what, |apt, folder| apt.unpack(&CLANG, &WITHOUT, &folder.join("tree")))?;
        Ok(Clang { tree: folder.join("tree") })
    }

    /// What belongs to the compiler: its own headers, and what compiled code calls.
    fn resources(&self) -> PathBuf {
        self.tree.join("usr/lib/llvm-14/lib/clang/14.0.6")
    }

    /// The compiler, to be given what to compile.
    pub(crate) fn compiler(&self) -> Command {
        let mut clang = apt::program(&self.tree, "usr/lib/llvm-14/bin/clang");
        clang.args(["--target=wasm32-wasi", "-O2", "-nostdinc", "-resource-dir"]).arg(self.resources());
        clang.arg("-isystem").arg(self.resources().join("include"));
        clang.arg("-isystem").arg(self.tree.join("usr/include/wasm32-wasi"));
        clang.arg("-I").arg(root().join("wasi/include"));
        clang
    }

    /// Links objects, and all that is in archives: the host's `ar` does not know what is in them, and so makes no index.
    pub(crate) fn link(&self, options: &[&str], objects: &[PathBuf], archives: &[PathBuf], program: &Path) -> Result {
        let libraries = self.tree.join("usr/lib/wasm32-wasi");
        let mut lld = apt::program(&self.tree, "usr/lib/llvm-14/bin/lld");
        lld.args(["-flavor", "wasm"]).args(options).arg(libraries.join("crt1.o")).args(objects);
        lld.arg("--whole-archive")
            .args(archives)
            .arg("--no-whole-archive")
            .arg("-L")
            .arg(libraries)
            .args(["-lc", "-lm"]);
        lld.arg(self.resources().join("lib/wasi/libclang_rt.builtins-wasm32.a"));
        shell::run(lld.arg("-o").arg(program))
    }

    /// A program that a `configure` can call as it calls a compiler: in this folder, with the linker that it starts. It starts itself as
    /// well, for each file of several, with `-cc1`.
    pub(crate) fn driver(&self, folder: &Path) -> Result<PathBuf> {
        let (tree, here, resources) = (self.tree.display(), folder.display(), self.resources());
        let mut libraries = apt::libraries(&self.tree).to_string_lossy().into_owned();
        libraries = format!("--inhibit-cache --library-path '{libraries}'");
        let loader = format!("'{tree}/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2' --argv0 \"$0\" {libraries}");
        let (clang, lld) = (format!("'{tree}/usr/lib/llvm-14/bin/clang'"), format!("'{tree}/usr/lib/llvm-14/bin/lld'"));
        let options = format!(
            "-no-canonical-prefixes --target=wasm32-wasi --sysroot='{tree}/usr' -B '{here}' -L '{here}' -resource-dir '{}' \
             -Wno-unused-command-line-argument",
            resources.display()
        );
        let cc = format!(
            "#!/bin/sh\ncase \"$1\" in\n-cc1*) exec {loader} {clang} \"$@\" ;;\nesac\nexec {loader} {clang} {options} \"$@\"\n"
        );
        let ld = format!("#!/bin/sh\nexec {loader} {lld} -flavor wasm \"$@\"\n");
        for (name, text) in [("cc", cc), ("wasm-ld-14", ld)] {
            let path = folder.join(name);
            apt::write(&path, &text)?;
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&path, executable).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(folder.join("cc"))
    }
}

fn c(clang: &Clang, sources: &[PathBuf], program: &Path) -> Result {
    let mut objects = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let object = program.with_extension(format!("{index}.o"));
        let mut compiler = clang.compiler();
        compiler.args(["-Wall", "-Werror", "-I"]).arg(root().join("function/include"));
        shell::run(compiler.arg("-c").arg(source).arg("-o").arg(&object))?;
        objects.push(object);
    }
    clang.link(&[], &objects, &[], program)
}

/// QuickJS without its library for systems that have processes and signals, and a main program in its place.
fn quickjs(clang: &Clang, program: &Path) -> Result {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut hasher = DefaultHasher::new();
    let ours = OURS.map(|file| root().join(file));
    let files = HEADERS.iter().map(|file| root().join(file)).chain(ours.clone());
    let files = files.map(|file| read(&file)).collect::<Result<Vec<_>>>()?;
    (QUICKJS_SOURCE.sha256, QUICKJS, QUICKJS_FLAGS, INTERPRETER_LINK, files).hash(&mut hasher);
    let (stamp, inputs) = (program.with_extension("inputs"), format!("{:016x}", hasher.finish()));
    let tests = program.with_file_name("quickjs-tests");
    if program.exists() && tests.exists() && fs::read_to_string(&stamp).is_ok_and(|known| known == inputs) {
        return Ok(());
    }
    let work = program.with_extension("work");
    apt::remove(&work)?;
    QUICKJS_SOURCE.unpack(&work)?;
    shell::heading(&format!("compile {} {} for WASI", QUICKJS_SOURCE.name, QUICKJS_SOURCE.version));
    // Named by one of its files, which uses nothing of it.
    apt::make(&work.join("none"))?;
    apt::write(&work.join("none/setjmp.h"), "")?;
    let (mut objects, mut compile) = (Vec::new(), Vec::new());
    for file in QUICKJS.iter().map(|name| work.join(name)).chain(ours.clone()) {
        let object = work.join(file.file_name().unwrap_or_default()).with_extension("o");
        let mut compiler = clang.compiler();
        compiler.args(QUICKJS_FLAGS).arg("-include").arg(root().join(STACK));
        compiler.arg("-I").arg(&work).arg("-I").arg(work.join("none"));
        compiler.arg("-I").arg(root().join("function/include"));
        compiler.args(if ours.contains(&file) { ["-Wall", "-Werror"] } else { ["-w", "-fwrapv"] });
        compiler.arg("-c").arg(&file).arg("-o").arg(&object);
        objects.push(object);
        compile.push(compiler);
    }
    shell::run_all(compile)?;
    let new = work.join("quickjs.wasm");
    clang.link(&INTERPRETER_LINK, &objects, &[], &new)?;
    // Both want their notices where the program is.
    let notices = [work.join("LICENSE"), clang.tree.join("usr/share/doc/wasi-libc/copyright")];
    let notices = [read(&notices[0])?, read(&notices[1])?].map(|text| String::from_utf8_lossy(&text).into_owned());
    apt::write(&program.with_file_name("LICENSE-quickjs"), &notices.join("\n"))?;
    apt::remove(&tests)?;
    apt::rename(&work.join("tests"), &tests)?;
    apt::rename(&new, program)?;
    apt::write(&stamp, &inputs)?;
    apt::remove(&work)
}

fn go_folder() -> Result<PathBuf> {
    let what = "fetch Go for a program in Go: about 50 MB, once";
    apt::cached("wasi-go", what, |apt, folder| apt.unpack(&GO, &[], &folder.join("tree")))
}

fn tree_of(folder: &Path) -> PathBuf {
    folder.join("tree/usr/lib/go-1.23")
}

/// Go, with its program `bin/go`.
pub(crate) fn go_tree() -> Result<PathBuf> {
    go_folder().map(|folder| tree_of(&folder))
}

fn go(source: &Path, program: &Path) -> Result {
    let folder = go_folder()?;
    let tree = tree_of(&folder);
    let mut go = Command::new(tree.join("bin/go"));
    // Nothing of the computer's or the user's decides what is built, and nothing is fetched.
    go.env_clear().envs([("GOOS", "wasip1"), ("GOARCH", "wasm"), ("GOTOOLCHAIN", "local"), ("GOPROXY", "off")]);
    go.envs([("GOENV", "off"), ("GOFLAGS", "-trimpath"), ("PATH", "/usr/bin:/bin")]);
    go.env("GOROOT", &tree).env("GOCACHE", folder.join("cache")).env("GOPATH", folder.join("path"));
    shell::run(go.current_dir(source).args(["build", "-ldflags=-s", "-o"]).arg(program).arg("."))
}
