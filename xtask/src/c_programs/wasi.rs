//! C programs of other projects as WebAssembly programs: from the same source as the native ones, by Debian's clang and wasi-libc.
//!
//! ```text
//! Debian's pool ── source.rs ─▶ target/sources
//!     │ clang, for each C file; what wasi-libc lacks is in wasi/guests/programs
//!     ▼
//! target/wasi/programs/NAME.wasm ── monohull build ─▶ target/wasi/programs/NAME.so
//!                                   monohull cc ────▶ target/wasi/programs/native/NAME.so, of those that are not in target/images
//!                                   unpacked ───────▶ target/wasi/programs/tests/NAME, the sources with their tests
//! ```
//!
//! Workflows in `workflows/wasi` name the images, and `visor/tests/wasi_programs.rs` compares them with the native ones. The first two are built each
//! time, the others by `cargo xtask build --c-programs-wasi`. A program is compiled again when its inputs have changed, and its image is made again when
//! the program, the compiler of WebAssembly or the runtime has.

use super::{Program, bzip2, ffmpeg, images, jq, lua, minigzip, sqlite, xz, zstd};
use crate::source::Source;
use crate::wasi_guests::{Clang, INTERPRETER_LINK};
use crate::workspace::{Workspace, root};
use crate::{Result, apt, shell};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// All of them, own tests of SQLite and zlib among them; first those that are a part of every build.
const GUESTS: [Program; 11] = [
    bzip2::BZIP2_PROGRAM,
    sqlite::FUZZCHECK_WASI,
    xz::XZ_WASI,
    zstd::ZSTD_WASI,
    jq::JQ,
    minigzip::MINIGZIP,
    minigzip::ZLIB_TESTS[0],
    minigzip::ZLIB_TESTS[1],
    lua::LUA_WASI,
    sqlite::SQLITE_WASI,
    ffmpeg::FFMPEG,
];
/// Those whose native images nothing else needs.
const NATIVE: [Program; 6] =
    [bzip2::BZIP2_PROGRAM, sqlite::FUZZCHECK, xz::XZ, zstd::ZSTD, minigzip::ZLIB_TESTS[0], ffmpeg::FFMPEG];

/// The sources whose tests are read, where they are unpacked, and the commands of a shell that make what else is read.
const TESTS: [(Source, &str, &str); 6] = [
    (bzip2::BZIP2_SOURCE, "bzip2", ""),
    (sqlite::SQLITE_SOURCE, "sqlite", sqlite::FUZZDATA_ALONE),
    (xz::XZ_SOURCE, "xz", ""),
    (zstd::ZSTD_SOURCE, "zstd", ""),
    (jq::JQ_SOURCE, "jq", ""),
    (ffmpeg::FFMPEG_SOURCE, "ffmpeg", ffmpeg::FFMPEG_INPUTS),
];

/// What is ours: the folder, the file that is compiled with each program, and what is included before each of its files.
const OURS: &str = "wasi/guests/programs";
const MISSING: [&str; 2] = ["missing.c", "missing.h"];
const HEADERS: [&str; 4] = ["include/pthread.h", "include/setjmp.h", "lua_wasi.h", "../../include/monohull-wasi.h"];
/// wasi-libc's emulations of what WASI has not: a program that asks for one says so, and links it.
const EMULATED: [(&str, &str); 4] = [
    ("-D_WASI_EMULATED_SIGNAL", "-lwasi-emulated-signal"),
    ("-D_WASI_EMULATED_PROCESS_CLOCKS", "-lwasi-emulated-process-clocks"),
    ("-D_WASI_EMULATED_GETPID", "-lwasi-emulated-getpid"),
    ("-D_WASI_EMULATED_MMAN", "-lwasi-emulated-mman"),
];
/// `protect` of the runtime calls functions of the table.
const TABLE: &str = "--export-table";

/// Builds the first two, which are tested each time.
pub(crate) fn build_first(workspace: &Workspace) -> Result {
    make(workspace, &GUESTS[..2], &NATIVE[..2], &TESTS[..2])
}

/// Builds all of them, and what they are compared with. The native programs in `target/images` are there already.
pub(crate) fn build(workspace: &Workspace) -> Result {
    make(workspace, &GUESTS, &NATIVE, &TESTS)?;
    let folder = root().join("target/wasi/programs");
    let _held = apt::lock(&folder)?;
    lua::unpack_lua_tests(&folder.join("tests/lua"))
}

fn make(workspace: &Workspace, guests: &[Program], native: &[Program], tests: &[(Source, &str, &str)]) -> Result {
    let folder = root().join("target/wasi/programs");
    apt::make(&folder)?;
    images(native, workspace, &folder.join("native"))?;
    // Two builds at a time share the folder.
    let _held = apt::lock(&folder)?;
    let place = Guests::new(folder)?;
    let monohull = workspace.target().join("release/monohull");
    guests.iter().try_for_each(|program| {
        place.compile(program)?;
        place.image(program, &monohull)
    })?;
    tests.iter().try_for_each(|(source, name, more)| place.unpack(source, name, more))
}

/// The compiler, and where programs go.
struct Guests {
    clang: Clang,
    /// A program that `configure` can call, too.
    cc: PathBuf,
    folder: PathBuf,
}

impl Guests {
    fn new(folder: PathBuf) -> Result<Guests> {
        let clang = Clang::fetch()?;
        let tools = folder.join("tools");
        apt::make(&tools)?;
        let cc = clang.driver(&tools)?;
        Ok(Guests { clang, cc, folder })
    }

    fn program(&self, program: &Program) -> PathBuf {
        self.folder.join(program.name).with_extension("wasm")
    }

    /// The compiler in a folder, with what is included before each file.
    fn compiler(&self, work: &Path) -> Command {
        let ours = root().join(OURS);
        let mut compiler = Command::new(&self.cc);
        compiler.current_dir(work).args(EMULATED.map(|(define, _)| define));
        compiler.arg("-I").arg(ours.join("include")).arg("-I").arg(&ours).arg("-I").arg(root().join("wasi/include"));
        compiler.arg("-include").arg(ours.join(MISSING[1]));
        compiler
    }

    /// The program, if it is not what its inputs say.
    fn compile(&self, program: &Program) -> Result {
        let to = self.program(program);
        let mut hasher = DefaultHasher::new();
        (program.source.sha256, program.before, &program.files, program.flags).hash(&mut hasher);
        program.besides.iter().for_each(|source| source.sha256.hash(&mut hasher));
        (EMULATED, INTERPRETER_LINK, TABLE).hash(&mut hasher);
        for file in MISSING.iter().chain(&HEADERS) {
            read(&root().join(OURS).join(file))?.hash(&mut hasher);
        }
        let stamp = Stamp { path: to.with_extension("inputs"), inputs: hasher.finish() };
        if to.exists() && stamp.holds() {
            return Ok(());
        }
        let work = self.folder.join("work");
        let mut objects = program.compile_by(&self.cc.display().to_string(), || self.compiler(&work), &work)?;
        let missing = work.join("missing.o");
        let mut compiler = self.compiler(&work);
        compiler.args(["-O2", "-Wall", "-Werror", "-c"]).arg(root().join(OURS).join(MISSING[0]));
        shell::run(compiler.arg("-o").arg(&missing))?;
        objects.push(missing);
        let libraries = format!("-L{}", self.clang.tree.join("usr/lib/wasm32-wasi").display());
        let mut options = INTERPRETER_LINK.to_vec();
        options.extend([TABLE, libraries.as_str()]);
        options.extend(EMULATED.map(|(_, library)| library));
        self.clang.link(&options, &objects, &[], &to)?;
        stamp.set()?;
        apt::remove(&work)
    }

    /// The image, if it is not of this program, compiler and runtime.
    fn image(&self, program: &Program, monohull: &Path) -> Result {
        let from = self.program(program);
        let image = from.with_extension("so");
        let mut hasher = DefaultHasher::new();
        for file in [&from, &root().join("target/wasi/compile"), &root().join("target/wasi/runtime.so")] {
            read(file)?.hash(&mut hasher);
        }
        let stamp = Stamp { path: from.with_extension("image"), inputs: hasher.finish() };
        if image.exists() && stamp.holds() {
            return Ok(());
        }
        shell::output(Command::new(monohull).arg("build").arg(&from).arg("--out").arg(&self.folder))?;
        stamp.set()
    }

    /// Unpacks a source for its tests, and makes what else they need.
    fn unpack(&self, source: &Source, name: &str, more: &str) -> Result {
        let to = self.folder.join("tests").join(name);
        let mut hasher = DefaultHasher::new();
        source.sha256.hash(&mut hasher);
        if !more.is_empty() {
            more.hash(&mut hasher);
        }
        let stamp = Stamp { path: to.with_extension("source"), inputs: hasher.finish() };
        if stamp.holds() {
            return Ok(());
        }
        apt::remove(&to)?;
        source.unpack(&to)?;
        shell::run(Command::new("sh").args(["-e", "-c", more]).current_dir(&to))?;
        stamp.set()
    }
}

/// A file that says what something was made of.
struct Stamp {
    path: PathBuf,
    inputs: u64,
}

impl Stamp {
    fn holds(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|known| known == self.text())
    }

    fn set(&self) -> Result {
        apt::write(&self.path, &self.text())
    }

    fn text(&self) -> String {
        format!("{:016x}", self.inputs)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
