//! C programs that know nothing of Monohull, built as a user builds them: from their own source, unchanged, with `monohull cc`.
//!
//! ```text
//! Debian's pool ── source.rs ─▶ target/sources/NAME-VERSION.tar.gz
//!                                   │ monohull cc, once for each C file, and once to link
//!                                   ▼
//!                  target/c-programs/NAME-HASH.so ── copied ─▶ target/images/NAME.so
//! ```
//!
//! `HASH` is that of everything an image depends on: the source, the flags, the compiler, its driver and the libc.

mod lua;

use crate::source::Source;
use crate::workspace::{Workspace, root};
use crate::{Result, apt, build, libc, shell};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How `monohull cc` calls the compiler.
const DRIVER: [&str; 2] = ["visor/src/cli/cc.rs", "visor/src/cli/c_toolchain.rs"];
/// Flags of the compiler, and what is linked.
const LIBC: [&str; 4] = ["cc-flags", "ld-flags", "image.map", "libmonohull_c.a"];

/// A program.
#[derive(Debug)]
struct Program {
    /// The image's name.
    name: &'static str,
    /// Where the source comes from.
    source: &'static Source,
    /// The folder of its C files.
    folder: &'static str,
    /// The C files there that belong to other programs.
    without: &'static [&'static str],
    /// Flags of the compiler.
    flags: &'static [&'static str],
}

/// All of them.
const PROGRAMS: [Program; 1] = [lua::LUA];

/// Fetches the source of all.
pub(crate) fn fetch() -> Result {
    PROGRAMS.iter().try_for_each(|program| program.source.fetch())
}

/// Builds those whose inputs have changed.
pub(crate) fn build(workspace: &Workspace) -> Result {
    let folder = root().join("target/c-programs");
    apt::make(&folder)?;
    // Two builds at a time share the folder of the objects.
    let _held = apt::lock(&folder)?;
    PROGRAMS.iter().try_for_each(|program| {
        let image = folder.join(format!("{}-{:016x}.so", program.name, program.inputs()?));
        if !image.exists() {
            program.build(&workspace.target().join("release/monohull"), &folder, &image)?;
        }
        build::install(&image, &root().join("target/images").join(program.name).with_extension("so"))
    })
}

impl Program {
    /// A hash of everything that decides what the image is.
    fn inputs(&self) -> Result<u64> {
        let compiler = shell::output(Command::new("gcc").arg("--version"))?;
        let mut hasher = DefaultHasher::new();
        (self.source.sha256, self.folder, self.without, self.flags, compiler).hash(&mut hasher);
        let driver = DRIVER.map(|file| root().join(file));
        let libc = LIBC.map(|file| libc::folder().join("lib").join(file));
        for path in driver.iter().chain(&libc) {
            fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// Compiles and links it as `image`.
    fn build(&self, monohull: &Path, folder: &Path, image: &Path) -> Result {
        let work = folder.join("work");
        apt::remove(&work)?;
        self.source.unpack(&work)?;
        shell::heading(&format!("compile {} {}", self.source.name, self.source.version));
        let cc = || {
            let mut cc = Command::new(monohull);
            cc.arg("cc").env("MONOHULL_LIBC", libc::folder());
            cc
        };
        let files = self.files(&work)?;
        let object = |file: &PathBuf| file.with_extension("o");
        let compile = files.iter().map(|file| {
            let mut cc = cc();
            cc.args(self.flags).arg("-c").arg(file).arg("-o").arg(object(file));
            cc
        });
        shell::run_all(compile.collect())?;
        let new = work.join("image.so");
        shell::run(cc().args(files.iter().map(object)).args(["-lm", "-o"]).arg(&new))?;
        apt::rename(&new, image)?;
        apt::remove(&work)
    }

    /// Its C files, in an order that does not change.
    fn files(&self, source: &Path) -> Result<Vec<PathBuf>> {
        let mut files = libc::list(&source.join(self.folder))?;
        let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.retain(|file| {
            file.extension().is_some_and(|extension| extension == "c") && !self.without.contains(&&*name(file))
        });
        files.sort();
        Ok(files)
    }
}
