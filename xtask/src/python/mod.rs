//! CPython as a function image: its source from Debian's pool, compiled by `monohull cc`, with the standard library as read-only data.
//!
//! ```text
//! source ── edits ─▶ source/ ─┬─ gcc ─────────▶ host/python       compiles the library, and what the build itself needs
//!                             └─ monohull cc ─▶ libpython3.13.a   every module that needs no library which is not here
//! OpenSSL, zlib, … ─ monohull cc ─────────────▶ libssl.a, libcrypto.a, libz.a, …
//! python/*.py, source/Lib ── host/python freeze.py ─▶ library.bin, library.c
//! python/*.c ─────────────────────────────────────────┴─▶ target/python/python.so, to which `monohull build app.py` adds a program
//! ```
//!
//! The first two take eight minutes on two processors, once: they lie in `target/python-build/HASH`, where the hash is that of what they
//! depend on. So this is no part of `cargo xtask build`. A smaller one takes half as long, for tests that run each time ([`Kind::Small`]).

mod kind;
mod numpy;
mod openssl;
mod settings;
pub(crate) mod wasi;

use crate::c_programs::{BZIP2, LIBLZMA, Program, SQLITE_LIBRARY, ZLIB};
use crate::workspace::{Workspace, root};
use crate::{Result, apt, build, cxx, libc, shell};
use kind::Kind;
use settings::{CONFIGURE, EDITS, FLAGS, FUNCTION_FLAGS, HOST_CONFIGURE, PEER_CONFIGURE, PEER_SITE, SITE, SOURCE};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The archives of which the interpreter consists, in the order of linking.
const ARCHIVES: [&str; 4] = [
    "libpython3.13.a",
    "Modules/_hacl/libHacl_Hash_SHA2.a",
    "Modules/expat/libexpat.a",
    "Modules/_decimal/libmpdec/libmpdec.a",
];
/// Libraries whose C files are compiled as they are: what `configure` calls each, the archive without `lib` and `.a`, and headers.
const LIBRARIES: [(&str, Program, &str, &[&str]); 4] = [
    ("ZLIB", ZLIB, "z", &["zlib.h", "zconf.h"]),
    ("LIBSQLITE3", SQLITE_LIBRARY, "sqlite3", &["extsrc/sqlite3.h"]),
    ("BZIP2", BZIP2, "bz2", &["bzlib.h"]),
    ("LIBLZMA", LIBLZMA, "lzma", &["src/liblzma/api/lzma.h", "src/liblzma/api/lzma"]),
];
/// Our C files, and the table that `freeze.py` writes.
const OURS: [&str; 4] = ["main.c", "module.c", "native.c", "program.c"];
/// Programs that are shipped with their workflows.
const EXAMPLES: [&str; 2] = ["invoices.py", "kinds.py"];
/// Where a program's archive will be in memory, from the image's start: behind everything else, of which there are 20 MiB.
const PROGRAM: &str = "-Wl,--section-start=.monohull.program=0x4000000";

/// How many paddings are tried, pages by which data and code are moved, until no address in the code spells an instruction that the checker
/// refuses.
const PADDINGS: usize = 32;

/// A package with modules in C that the interpreter can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Package {
    /// numpy, which takes three minutes more, and the C++ standard library
    Numpy,
}

/// Builds the visor, the libc and the interpreter with these packages.
pub(crate) fn build(packages: &[Package]) -> Result {
    let workspace = Workspace::load()?;
    build::visor()?;
    libc::build(&workspace)?;
    let has_numpy = packages.contains(&Package::Numpy);
    if has_numpy {
        cxx::build()?;
    }
    let folder = root().join("target/python-build");
    apt::make(&folder)?;
    // Two builds at a time share the folder.
    let _held = apt::lock(&folder)?;
    let build = Build::new(Kind::Whole, &workspace, &folder)?;
    build.interpreter()?;
    let packages = if has_numpy { Some(build.numpy()?) } else { None };
    build.link(&folder.join("work"), packages.as_deref())?;
    build.examples()?;
    build.forget_others(&folder)
}

/// Builds the visor, the libc and the smaller interpreter.
pub(crate) fn small() -> Result {
    build::visor()?;
    build::libc()?;
    build_small().map(drop)
}

/// Builds the smaller interpreter where the visor and the libc are there: both stay as they are. Gives its folder, for `MONOHULL_PYTHON`.
pub(crate) fn build_small() -> Result<PathBuf> {
    let workspace = Workspace::load()?;
    let folder = root().join("target/python-build");
    apt::make(&folder)?;
    let _held = apt::lock(&folder)?;
    let build = Build::new(Kind::Small, &workspace, &folder)?;
    build.interpreter()?;
    build.link(&folder.join("work"), None)?;
    build.forget_others(&folder)?;
    Ok(build.kind.folder())
}

/// An interpreter of the host for comparisons, from the same source and with the same options: minutes, once.
pub(crate) fn of_the_host() -> Result<PathBuf> {
    let folder = root().join("target/python-build");
    let _held = apt::lock(&folder)?;
    let folder = folder.join(Kind::Whole.name()?);
    Build { kind: Kind::Whole, monohull: PathBuf::new(), folder }.peer()
}

/// A build of one version with one set of settings.
struct Build {
    kind: Kind,
    monohull: PathBuf,
    folder: PathBuf,
}

impl Build {
    /// One whose folder is in this one.
    fn new(kind: Kind, workspace: &Workspace, folder: &Path) -> Result<Build> {
        Ok(Build { kind, monohull: workspace.target().join("release/monohull"), folder: folder.join(kind.name()?) })
    }

    /// The interpreter's archives, if they are not there yet.
    fn interpreter(&self) -> Result {
        let done = self.folder.join("done");
        if done.exists() {
            return Ok(());
        }
        apt::remove(&self.folder)?;
        let source = self.folder.join("source");
        SOURCE.unpack(&source)?;
        for (file, from, to) in EDITS {
            edit(&source.join(file), from, to)?;
        }
        shell::heading(&format!("compile Python {}: {} minutes, once", SOURCE.version, self.kind.minutes()));
        let target = self.make("target")?;
        self.libraries(&target)?;
        let host = self.make("host")?;
        shell::run(self.configure(&host).args(HOST_CONFIGURE).env("CC", "gcc"))?;
        shell::run(make(&host).arg("python"))?;

        apt::write(&target.join("config.site"), &self.kind.site())?;
        let here = |path: &str| target.join(path).display().to_string();
        let mut configure = self.configure(&target);
        configure.args(CONFIGURE).arg(format!("--with-build-python={}", host.join("python").display()));
        configure.env("CONFIG_SITE", target.join("config.site")).env("CC", format!("{} cc", self.monohull.display()));
        configure.env("MONOHULL_LIBC", libc::folder()).env("PKG_CONFIG", "false");
        for (library, _, archive, _) in LIBRARIES {
            configure.arg(format!("{library}_CFLAGS=-I{}", here("libraries")));
            configure.arg(format!("{library}_LIBS=-L{} -l{archive}", here("libraries")));
        }
        if self.kind.has_openssl() {
            configure.arg(format!("--with-openssl={}", here("openssl"))).arg("--with-openssl-rpath=no");
        }
        shell::run(configure.arg(format!("OPT={} {FUNCTION_FLAGS}", self.kind.flags())))?;
        shell::run(make(&target).env("MONOHULL_LIBC", libc::folder()).args(ARCHIVES))?;
        apt::write(&done, "")
    }

    /// The interpreter of the host, with the modules that need no other library.
    fn peer(&self) -> Result<PathBuf> {
        let source = self.folder.join("source");
        if !source.exists() {
            return Err(
                "`cargo xtask build --python` has to be repeated: what the interpreter is built from has changed"
                    .to_owned(),
            );
        }
        let folder = self.make("peer")?;
        let (python, done) = (folder.join("python"), folder.join("done"));
        if !done.exists() {
            shell::heading("compile Python for the host, to compare with: four minutes, once");
            apt::write(&folder.join("config.site"), &format!("{SITE}{PEER_SITE}"))?;
            let mut configure = self.configure(&folder);
            configure.args(PEER_CONFIGURE).env("CONFIG_SITE", folder.join("config.site")).env("CC", "gcc");
            shell::run(configure.env("PKG_CONFIG", "false").arg(format!("OPT={FLAGS}")))?;
            shell::run(make(&folder).arg("python"))?;
            apt::write(&done, "")?;
        }
        Ok(python)
    }

    fn make(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        apt::make(&folder).map(|()| folder)
    }

    /// `configure`, quiet, in a folder.
    fn configure(&self, folder: &Path) -> Command {
        let mut configure = Command::new(self.folder.join("source/configure"));
        configure.arg("--quiet").current_dir(folder).stdout(Stdio::null());
        configure
    }

    /// The libraries with their headers: OpenSSL as an installation has it, the others in `libraries`.
    fn libraries(&self, target: &Path) -> Result {
        let (folder, work) = (target.join("libraries"), target.join("library"));
        if self.kind.has_openssl() {
            openssl::build(&self.monohull, &work, &target.join("openssl"))?;
        }
        apt::make(&folder)?;
        for (_, library, archive, headers) in LIBRARIES {
            let files = library.compile(&self.monohull, &work)?;
            shell::run(Command::new("ar").arg("rcsD").arg(folder.join(format!("lib{archive}.a"))).args(files))?;
            for header in headers {
                shell::run(Command::new("cp").arg("-r").arg(work.join(header)).arg(&folder))?;
            }
            apt::remove(&work)?;
        }
        Ok(())
    }

    /// numpy's folder of packages, in a folder that is called after what decides how numpy is built.
    fn numpy(&self) -> Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        numpy::hash(&mut hasher);
        let folder = self.folder.join(format!("numpy-{:016x}", hasher.finish()));
        numpy::build(&self.monohull, &folder, &self.folder.join("host"), &self.folder.join("target"))?;
        Ok(folder.join("packages"))
    }

    /// The image, in the folder of its kind, with the licences beside it.
    fn link(&self, work: &Path, packages: Option<&Path>) -> Result {
        let (ours, target) = (root().join("python"), self.folder.join("target"));
        apt::remove(work)?;
        apt::make(work)?;
        let mut freeze = Command::new(self.folder.join("host/python"));
        shell::run(freeze.arg(ours.join("freeze.py")).arg(self.folder.join("source/Lib")).arg(work).args(packages))?;
        let files = OURS.map(|file| ours.join(file)).into_iter().chain([work.join("library.c")]);
        let mut objects = Vec::new();
        for file in files {
            let object = work.join(file.file_name().unwrap_or_default()).with_extension("o");
            let mut cc = self.driver("cc");
            cc.args(["-O2", "-Wall", "-Werror", "-I"]).arg(self.folder.join("source/Include")).arg("-I").arg(&target);
            shell::run(cc.arg("-c").arg(&file).arg("-o").arg(&object))?;
            objects.push(object);
        }
        if let Some(packages) = packages {
            let mut theirs = libc::list(&packages.join("objects"))?;
            theirs.sort();
            objects.extend(theirs);
            build::install(&packages.join("LICENSE"), &root().join("target/python/LICENSE-numpy"))?;
        }
        let image = work.join("python.so");
        let language = if packages.is_some() { "c++" } else { "cc" };
        let done = (0..PADDINGS).find_map(|pages| self.link_padded(&objects, &image, language, pages).transpose());
        done.unwrap_or_else(|| {
            Err("the code of the interpreter spells instructions that the checker refuses".to_owned())
        })?;
        let folder = self.kind.folder();
        build::install(&self.folder.join("source/LICENSE"), &folder.join("LICENSE-python"))?;
        if self.kind.has_openssl() {
            build::install(&target.join("openssl/LICENSE.txt"), &folder.join("LICENSE-openssl"))?;
        }
        build::install(&image, &folder.join("python.so"))?;
        apt::remove(work)
    }

    /// Links the image with so many pages in front of the other constants and variables, and between the code of `objects` and that of the
    /// archives; nothing if the checker refuses it.
    fn link_padded(&self, objects: &[PathBuf], image: &Path, language: &str, pages: usize) -> Result<Option<()>> {
        let (work, target) = (image.with_file_name(""), self.folder.join("target"));
        let (source, padding) = (work.join("padding.c"), work.join("padding.o"));
        let array = format!("[{pages} * 4096 + 1] = {{1}};\n");
        apt::write(&source, &format!("const char monohull_constants{array}char monohull_variables{array}"))?;
        shell::run(self.driver("cc").arg("-c").arg(&source).arg("-o").arg(&padding))?;
        let (source, between) = (work.join("between.s"), work.join("between.o"));
        let code = format!("\t.globl monohull_code\nmonohull_code:\n\t.skip {pages} * 4096, 0xcc\n");
        apt::write(&source, &format!("{code}\t.section .note.GNU-stack, \"\", @progbits\n"))?;
        shell::run(self.driver("cc").arg("-c").arg(&source).arg("-o").arg(&between))?;
        let mut link = self.driver(language);
        link.args([PROGRAM, "-Wl,-u,monohull_constants,-u,monohull_variables,-u,monohull_code"]);
        link.arg(padding).args(objects).arg(between);
        link.args(ARCHIVES.map(|archive| target.join(archive)));
        if self.kind.has_openssl() {
            link.args(openssl::ARCHIVES.map(|archive| target.join("openssl/lib").join(archive)));
        }
        link.args(LIBRARIES.map(|(_, _, archive, _)| target.join(format!("libraries/lib{archive}.a"))));
        shell::run(link.args(["-lm", "-Wl,-S", "-o"]).arg(image))?;
        let mut check = Command::new(&self.monohull);
        let check = check.arg("check").arg(image).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let accepted = check.map_err(|error| format!("{}: {error}", self.monohull.display()))?.success();
        Ok(accepted.then_some(()))
    }

    /// The programs of `workflows/python`, as a user builds them.
    fn examples(&self) -> Result {
        for example in EXAMPLES {
            let mut build = Command::new(&self.monohull);
            build.args(["build", "--out"]).arg(root().join("target/images"));
            shell::run(build.arg(root().join("workflows/python").join(example)))?;
        }
        Ok(())
    }

    /// `monohull cc` or `monohull c++`.
    fn driver(&self, language: &str) -> Command {
        let mut driver = Command::new(&self.monohull);
        driver.arg(language).env("MONOHULL_LIBC", libc::folder());
        driver
    }

    /// Removes builds of its kind with other settings: each takes up to 400 MB.
    fn forget_others(&self, folder: &Path) -> Result {
        for other in libc::list(folder)? {
            let name = other.file_name().unwrap_or_default().to_string_lossy();
            if other.is_dir() && Kind::of(&name) == self.kind && other != self.folder {
                apt::remove(&other)?;
            }
        }
        Ok(())
    }
}

/// Replaces a text that is there once.
fn edit(path: &Path, from: &str, to: &str) -> Result {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match text.matches(from).count() {
        1 => apt::write(path, &text.replace(from, to)),
        _ => Err(format!("{} does not contain {from:?} exactly once", path.display())),
    }
}

/// `make` on all processors.
fn make(folder: &Path) -> Command {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = Command::new("make");
    make.arg("--silent").arg(format!("--jobs={processors}")).current_dir(folder).stdout(Stdio::null());
    make
}
