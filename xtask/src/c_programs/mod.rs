//! C programs that know nothing of Monohull, built as a user builds them: from their own source, unchanged, with `monohull cc`.
//!
//! ```text
//! Debian's pool ── source.rs ─▶ target/sources/NAME-VERSION.tar.gz or .xz
//!                                   │ what comes before the compiler: `configure`, files that are made of others
//!                                   │ monohull cc, once for each C file, and once to link
//!                                   ▼
//!                  target/c-programs/NAME-HASH.so ── copied ─▶ target/images/NAME.so
//! ```
//!
//! `HASH` is that of everything an image depends on: the source, the flags, the compiler, its driver and the libc.

mod bzip2;
mod ffmpeg;
mod jq;
mod liblzma;
mod lua;
mod minigzip;
mod oniguruma;
mod quickjs;
mod sqlite;
pub(crate) mod wasi;
mod xz;
mod zstd;

use crate::source::Source;
use crate::workspace::{Workspace, root};
use crate::{Result, apt, build, libc, shell};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How `monohull cc` calls the compiler.
const DRIVER: [&str; 2] = ["visor/src/cli/cc.rs", "visor/src/cli/c_toolchain.rs"];
/// Flags of the compiler, and what is linked.
const LIBC: [&str; 4] = ["cc-flags", "ld-flags", "image.map", "libmonohull_c.a"];

pub(crate) use bzip2::BZIP2;
pub(crate) use jq::JQ_SOURCE;
pub(crate) use liblzma::LIBLZMA;
pub(crate) use lua::unpack_lua_tests;
pub(crate) use minigzip::{ZLIB, ZLIB_TESTS};
pub(crate) use oniguruma::ONIGURUMA_TESTS;
pub(crate) use quickjs::QUICKJS_SOURCE;
pub(crate) use sqlite::{SQLITE_LIBRARY, SQLITE_SOURCE};

/// A program, or the objects of a library.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Program {
    /// The image's name.
    name: &'static str,
    /// Where the source comes from.
    source: &'static Source,
    /// Tarballs that its commands unpack, too.
    besides: &'static [&'static Source],
    /// Commands of a shell that come first, in the source's folder. `CC` is `monohull cc` there, `COMPILE` the same with what it is always given, `HOSTCC` the
    /// host's compiler, and `SOURCES` the folder of all tarballs that were fetched.
    before: &'static [&'static str],
    /// Its C files.
    files: Files,
    /// Flags of the compiler, in the source's folder.
    flags: &'static [&'static str],
}

/// Which of a source's C files are the program.
#[derive(Clone, Copy, Debug, Hash)]
enum Files {
    /// Those of these folders, but for some that belong to other programs.
    Of(&'static [&'static str], &'static [&'static str]),
    /// These.
    These(&'static [&'static str]),
    /// These, and one more.
    With(&'static [&'static str], &'static str),
    /// None: the commands before make the objects, in these folders and all that is in them.
    Made(&'static [&'static str]),
}

/// All of them.
const PROGRAMS: [Program; 5] = [lua::LUA, sqlite::SQLITE, quickjs::QUICKJS, jq::JQ, minigzip::MINIGZIP];

/// Fetches the source of all.
pub(crate) fn fetch() -> Result {
    PROGRAMS.iter().try_for_each(Program::fetch)
}

/// Builds those whose inputs have changed.
pub(crate) fn build(workspace: &Workspace) -> Result {
    images(&PROGRAMS, workspace, &root().join("target/images"))
}

/// Builds these, and puts their images into the folder `to`.
fn images(programs: &[Program], workspace: &Workspace, to: &Path) -> Result {
    let folder = root().join("target/c-programs");
    apt::make(&folder)?;
    // Two builds at a time share the folder of the objects.
    let _held = apt::lock(&folder)?;
    programs.iter().try_for_each(|program| {
        let image = folder.join(format!("{}-{:016x}.so", program.name, program.inputs()?));
        if !image.exists() {
            program.build(&workspace.target().join("release/monohull"), &folder, &image)?;
        }
        build::install(&image, &to.join(program.name).with_extension("so"))
    })
}

impl Program {
    /// Fetches all that it is made of.
    fn fetch(&self) -> Result {
        self.source.fetch()?;
        self.besides.iter().try_for_each(|source| source.fetch())
    }

    /// A hash of everything that decides what the image is.
    fn inputs(&self) -> Result<u64> {
        let compiler = shell::output(Command::new("gcc").arg("--version"))?;
        let mut hasher = DefaultHasher::new();
        (self.source.sha256, self.before, &self.files, self.flags, compiler).hash(&mut hasher);
        self.besides.iter().for_each(|source| source.sha256.hash(&mut hasher));
        let driver = DRIVER.map(|file| root().join(file));
        let libc = LIBC.map(|file| libc::folder().join("lib").join(file));
        for path in driver.iter().chain(&libc) {
            fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// The image's name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Compiles and links it as `image`.
    pub(crate) fn build(&self, monohull: &Path, folder: &Path, image: &Path) -> Result {
        let work = folder.join("work");
        let objects = self.compile(monohull, &work)?;
        let new = work.join("image.so");
        shell::run(cc(monohull, &work).args(objects).args(["-lm", "-o"]).arg(&new))?;
        apt::rename(&new, image)?;
        apt::remove(&work)
    }

    /// Unpacks its source into the folder `work`, and compiles it there: the objects.
    pub(crate) fn compile(&self, monohull: &Path, work: &Path) -> Result<Vec<PathBuf>> {
        self.compile_by(&format!("{} cc", monohull.display()), || cc(monohull, work), work)
    }

    /// The same by another compiler: what it is called, and a command in the folder.
    pub(crate) fn compile_by(&self, name: &str, cc: impl Fn() -> Command, work: &Path) -> Result<Vec<PathBuf>> {
        apt::remove(work)?;
        self.fetch()?;
        self.source.unpack(work)?;
        shell::heading(&format!("compile {} {}", self.source.name, self.source.version));
        let compile = words(&cc());
        for command in self.before {
            let mut shell = Command::new("sh");
            shell.args(["-e", "-c", command]).current_dir(work).stdout(Stdio::null());
            shell.env("MONOHULL_LIBC", libc::folder()).env("HOSTCC", "gcc");
            shell.env("SOURCES", root().join("target/sources"));
            shell::run(shell.env("CC", name).env("COMPILE", &compile))?;
        }
        if let Files::Made(folders) = self.files {
            return made(work, folders);
        }
        let files = self.files(work)?;
        let object = |file: &PathBuf| file.with_extension("o");
        let compile = files.iter().map(|file| {
            let mut cc = cc();
            cc.args(self.flags).arg("-c").arg(file).arg("-o").arg(object(file));
            cc
        });
        shell::run_all(compile.collect())?;
        Ok(files.iter().map(object).collect())
    }

    /// Its C files, in an order that does not change.
    fn files(&self, source: &Path) -> Result<Vec<PathBuf>> {
        let (folders, without) = match self.files {
            Files::These(files) => return Ok(files.iter().map(|file| source.join(file)).collect()),
            Files::With(files, last) => return Ok(files.iter().chain([&last]).map(|file| source.join(file)).collect()),
            Files::Of(folders, without) => (folders, without),
            Files::Made(_) => return Ok(Vec::new()),
        };
        let files = folders.iter().map(|folder| libc::list(&source.join(folder))).collect::<Result<Vec<_>>>()?;
        let mut files = files.concat();
        let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.retain(|file| {
            file.extension().is_some_and(|extension| extension == "c") && !without.contains(&&*name(file))
        });
        files.sort();
        Ok(files)
    }
}

/// A command as a shell reads it.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The objects in these folders, in an order that does not change.
fn made(source: &Path, folders: &[&str]) -> Result<Vec<PathBuf>> {
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| source.join(folder)).collect();
    let mut objects = Vec::new();
    while let Some(folder) = open.pop() {
        let (folders, files): (Vec<_>, Vec<_>) = libc::list(&folder)?.into_iter().partition(|path| path.is_dir());
        open.extend(folders);
        objects.extend(files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "o")));
    }
    objects.sort();
    Ok(objects)
}

/// `monohull cc` in a source's folder.
fn cc(monohull: &Path, work: &Path) -> Command {
    let mut cc = Command::new(monohull);
    cc.arg("cc").env("MONOHULL_LIBC", libc::folder()).current_dir(work);
    cc
}
