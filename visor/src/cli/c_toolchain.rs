//! The libc that unchanged programs link: where it lies, and the options that make the host's compiler use nothing else.
//!
//! ```text
//!   libc/include/               headers
//!   libc/kernel/                links to the host's headers of the kernel (linux, asm)
//!   libc/lib/libmonohull_c.a    the libc, its start and its memory
//!   libc/lib/cc-flags, ld-flags one argument a line; @FOLDER@ stands for `libc`
//!   libc/c++/include, lib       the C++ standard library, if it was built
//! ```

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use goblin::archive::Archive;
use goblin::elf::section_header::SHN_UNDEF;
use goblin::elf::{Elf, Sym};
use monohull_report::escape::shown;

/// The libc, its start and its memory.
const LIBC: &str = "libmonohull_c.a";
/// Names another folder than the one beside the program.
const OVERRIDE: &str = "MONOHULL_LIBC";

/// Why there is no toolchain. The host is at fault: the installation is not complete.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(super) enum ToolchainError {
    #[error(
        "the libc for functions is not there: expected the folder `libc` beside the program or beside its folder, or at \
         {OVERRIDE}; `cargo xtask build` and `cargo xtask install` make it"
    )]
    Missing,
    #[error("{}: {source}", shown(path))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot start the compiler {}: {source} (package gcc or g++)", shown(Path::new(program)))]
    NoCompiler { program: OsString, source: io::Error },
}

/// What is compiled and linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Language {
    C,
    Cxx,
}

/// A folder with the libc.
#[derive(Debug)]
pub(super) struct Toolchain(PathBuf);

impl Toolchain {
    /// The folder that the environment names, or the first that is there: `libc` beside the program, or beside its folder. A program
    /// with debug assertions lies one level deeper.
    pub(super) fn find() -> Result<Toolchain, ToolchainError> {
        if let Some(folder) = env::var_os(OVERRIDE) {
            return Toolchain::at(PathBuf::from(folder)).ok_or(ToolchainError::Missing);
        }
        let program = env::current_exe().ok();
        let levels = if cfg!(debug_assertions) { 3 } else { 2 };
        let mut folders = program.iter().flat_map(|program| program.ancestors().skip(1).take(levels));
        folders.find_map(|folder| Toolchain::at(folder.join("libc"))).ok_or(ToolchainError::Missing)
    }

    fn at(folder: PathBuf) -> Option<Toolchain> {
        folder.join("lib").join(LIBC).is_file().then_some(Toolchain(folder))
    }

    /// What images are linked with: the libc, and how.
    pub(super) fn content(&self) -> Result<Vec<u8>, ToolchainError> {
        let mut content = Vec::new();
        for file in [LIBC, "ld-flags", "image.map"] {
            let path = self.libraries().join(file);
            content.extend(fs::read(&path).map_err(|source| ToolchainError::Unreadable { path, source })?);
        }
        Ok(content)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// Where a search for libraries begins and ends.
    pub(super) fn libraries(&self) -> PathBuf {
        self.0.join("lib")
    }

    /// The names of the libc's functions, its local ones too. Names decide nothing but words, so what cannot be read has none.
    pub(super) fn functions(&self) -> HashSet<String> {
        let Ok(bytes) = fs::read(self.libraries().join(LIBC)) else { return HashSet::new() };
        let Ok(archive) = Archive::parse(&bytes) else { return HashSet::new() };
        let members = (0..archive.len()).filter_map(|index| archive.get_at(index)).filter_map(|member| {
            let start = usize::try_from(member.offset).ok()?;
            Elf::parse(bytes.get(start..start.checked_add(member.size())?)?).ok()
        });
        let functions = members.flat_map(|member| {
            // In an object the value of a symbol is an offset: it is 0 at the start of a section, too.
            let is_defined = |symbol: &Sym| symbol.is_function() && symbol.st_shndx != SHN_UNDEF as usize;
            let functions = member.syms.iter().filter(is_defined);
            functions.filter_map(|symbol| member.strtab.get_at(symbol.st_name).map(str::to_owned)).collect::<Vec<_>>()
        });
        functions.collect()
    }

    /// Those of these names that the libc has for programs. If it cannot be read it has none.
    pub(super) fn defined<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let Ok(bytes) = fs::read(self.libraries().join(LIBC)) else { return Vec::new() };
        let Ok(archive) = Archive::parse(&bytes) else { return Vec::new() };
        names.iter().copied().filter(|name| archive.member_of_symbol(name).is_some()).collect()
    }

    /// The folder with the C++ standard library.
    pub(super) fn cxx(&self) -> Option<PathBuf> {
        let folder = self.0.join("c++");
        folder.join("lib/libc++.a").is_file().then_some(folder)
    }

    /// The options of a compiler. Its own headers come after the libc's, those of the C++ standard library before, and the kernel's last.
    pub(super) fn compile_flags(&self, compiler: &OsStr, language: Language) -> Result<Vec<OsString>, ToolchainError> {
        let mut flags: Vec<OsString> = Vec::new();
        if let (Language::Cxx, Some(library)) = (language, self.cxx()) {
            flags.extend(["-nostdinc++".into(), "-isystem".into(), library.join("include").into()]);
        }
        let no_compiler = |source| ToolchainError::NoCompiler { program: compiler.to_owned(), source };
        let own = Command::new(compiler).arg("-print-file-name=include").output().map_err(no_compiler)?;
        let own = String::from_utf8_lossy(&own.stdout).trim().to_owned();
        flags.extend(self.flags("cc-flags")?);
        flags.extend(["-isystem".into(), own.into(), "-idirafter".into(), self.0.join("kernel").into()]);
        Ok(flags)
    }

    /// What comes before the objects when an image is linked.
    pub(super) fn link_flags(&self) -> Result<Vec<OsString>, ToolchainError> {
        let mut flags = self.flags("ld-flags")?;
        flags.push("-Wl,--build-id".into());
        if let Some(library) = self.cxx() {
            flags.extend(["-L".into(), library.join("lib").into()]);
        }
        Ok(flags)
    }

    /// What comes after them.
    pub(super) fn link_end(&self, language: Language) -> impl Iterator<Item = OsString> {
        let cxx = (language == Language::Cxx && self.cxx().is_some()).then_some("-lc++");
        let libc = ["-lmonohull_c", "-lgcc_eh", "-lgcc", "-Wl,--end-group"];
        ["-Wl,--start-group"].into_iter().chain(cxx).chain(libc).map(OsString::from)
    }

    fn flags(&self, file: &str) -> Result<Vec<OsString>, ToolchainError> {
        let path = self.0.join("lib").join(file);
        let text = fs::read_to_string(&path).map_err(|source| ToolchainError::Unreadable { path, source })?;
        let folder = self.0.to_string_lossy();
        Ok(text.lines().map(|line| line.replace("@FOLDER@", &folder).into()).collect())
    }
}
