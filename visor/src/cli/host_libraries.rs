//! Static libraries of the host, which an image cannot have.
//!
//! They are compiled for the host's libc: with its structures, and mostly with a check of the stack that reads `fs:0x28`, which is the
//! system's. A linker takes them all the same, and the image would fail when it runs. So they are refused by name:
//!
//! | what asks for one | how it is found |
//! | --- | --- |
//! | `monohull cc`, or the root of a crate | the linker lists all files that it has opened |
//! | a build script, for the crate of its own | cargo says so; rustc has put the objects into the crate's archive |

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use monohull_report::escape::{Line, shown};
use tempfile::NamedTempFile;

/// Where a host has libraries that its packages bring.
const FOLDERS: [&str; 8] =
    ["/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32"];
/// Where its administrator puts some, which may be for functions: these are taken if their folder is asked for.
const LOCAL: &str = "/usr/local/lib";
/// Folders of compilers, whose own libraries use no libc.
const COMPILERS: [&str; 2] = ["gcc", "clang"];

/// What cargo may say of a folder before its name.
const KINDS: [&str; 5] = ["native", "all", "dependency", "crate", "framework"];

/// A library was asked for that is the host's.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}{} is a static library of the host: it is compiled for the host's libc, and cannot be in an image\n  To do: link a library that `monohull cc` has \
     compiled. A crate often builds its own copy from source with a feature `bundled`, `vendored` or `static`",
    by.as_ref().map(|by| format!("the crate `{}` asks for a library that it cannot have: ", Line(by))).unwrap_or_default(),
    shown(path)
)]
pub(super) struct HostLibrary {
    path: PathBuf,
    /// The crate whose build script asks for it.
    by: Option<String>,
}

/// What a linker has opened: it writes the names into a file.
pub(super) struct Opened(Option<NamedTempFile>);

impl Opened {
    /// The file for one call of a linker. Without a folder for it nothing is listed.
    pub(super) fn new() -> Opened {
        Opened(NamedTempFile::with_prefix("monohull-linked-").ok())
    }

    /// What a compiler is given for its linker.
    pub(super) fn argument(&self) -> Option<OsString> {
        let mut argument = OsString::from("-Wl,--dependency-file=");
        argument.push(self.0.as_ref()?.path());
        Some(argument)
    }

    /// The first library of the host. `own` is the folder of the libc.
    pub(super) fn of_host(&self, arguments: &[OsString], own: &Path) -> Option<HostLibrary> {
        let text = fs::read(self.0.as_ref()?.path()).ok()?;
        let inputs = inputs(&String::from_utf8_lossy(&text));
        let is_local_asked_for = arguments.iter().any(|argument| {
            let argument = argument.to_string_lossy();
            Path::new(argument.strip_prefix("-L").unwrap_or(&argument)).starts_with(LOCAL)
        });
        let own = own.canonicalize().ok();
        let is_own = |path: &PathBuf| own.as_ref().is_some_and(|own| path.starts_with(own));
        let places = inputs.iter().filter_map(|path| place(path));
        let path = places
            .filter(|path| !is_own(path))
            .find(|path| is_hosts(path) || path.starts_with(LOCAL) && !is_local_asked_for)?;
        Some(HostLibrary { path, by: None })
    }
}

/// The library of the host that a build script asks for, by cargo's words for what is linked and where it is searched for.
pub(super) fn asked_for_by(by: &str, libraries: &[String], folders: &[String]) -> Option<HostLibrary> {
    let path = libraries.iter().filter_map(|library| static_name(library)).find_map(|name| {
        let candidates = folders.iter().map(|folder| {
            let kind = KINDS.iter().find_map(|kind| folder.strip_prefix(kind)?.strip_prefix('='));
            Path::new(kind.unwrap_or(folder)).join(&name)
        });
        candidates.into_iter().find(|path| path.is_file())
    })?;
    let path = place(&path).filter(|path| is_hosts(path))?;
    Some(HostLibrary { path, by: Some(by.to_owned()) })
}

/// The name of the file of a static library: of `static=z`, `static:-bundle=z`, `static:+verbatim=libz.a`.
fn static_name(library: &str) -> Option<String> {
    let (kind, name) = library.split_once('=')?;
    let modifiers = kind.strip_prefix("static")?;
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    Some(if modifiers.contains("+verbatim") { name.to_owned() } else { format!("lib{name}.a") })
}

/// Where a static library really lies.
fn place(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.extension().is_some_and(|end| end == "a"))
}

/// Whether a file belongs to the host's packages.
fn is_hosts(path: &Path) -> bool {
    let is_compilers = path.components().any(|part| COMPILERS.iter().any(|name| part.as_os_str() == *name));
    !is_compilers && FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// The files in a rule of make, as linkers write one: the first is followed by an empty one for each file.
fn inputs(rules: &str) -> Vec<PathBuf> {
    let rules = rules.replace("\\\n", " ");
    let Some((_, inputs)) = rules.lines().next().and_then(|rule| rule.split_once(": ")) else { return Vec::new() };
    // No path has this byte.
    let inputs = inputs.replace("\\ ", "\0");
    inputs.split_whitespace().map(|path| PathBuf::from(path.replace('\0', " ").replace("$$", "$"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_the_files() {
        let rules = "a.so: \\\n  a.o \\\n  /t/my\\ lib/libz.a \\\n  $$x.o\n\na.o:\n\n/t/my\\ lib/libz.a:\n";
        assert_eq!(inputs(rules), ["a.o", "/t/my lib/libz.a", "$x.o"].map(PathBuf::from));
        assert!(inputs("").is_empty());
    }

    #[test]
    fn libraries_of_packages_are_the_hosts() {
        for path in ["/usr/lib/x86_64-linux-gnu/libz.a", "/lib64/libz.a", "/usr/lib/llvm-14/lib/libLLVMCore.a"] {
            assert!(is_hosts(Path::new(path)), "{path}");
        }
        for path in ["/usr/lib/gcc/x86_64-linux-gnu/12/libgcc_eh.a", "/usr/library/libz.a", "/home/a/lib/libz.a"] {
            assert!(!is_hosts(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_library_of_a_build_script_has_a_file() {
        assert_eq!(static_name("static=z").as_deref(), Some("libz.a"));
        assert_eq!(static_name("static:-bundle,+whole-archive=z:other").as_deref(), Some("libz.a"));
        assert_eq!(static_name("static:+verbatim=z.lib").as_deref(), Some("z.lib"));
        assert_eq!(static_name("dylib=z"), None);
        assert_eq!(static_name("z"), None);
    }
}
