//! Static libraries of the host, which an image cannot have.
//!
//! They are compiled for the host's libc: with its structures, and mostly with a check of the stack that reads `fs:0x28`, which is the
//! system's. A linker takes them all the same, and the image would fail when it runs. So they are refused by name:
//!
//! | what asks for one | how it is found |
//! | --- | --- |
//! | `monohull cc`, or the root of a crate | the linker lists all files that it has opened |
//! | a build script, for the crate of its own | cargo says so; rustc has put the objects into the crate's archive |

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use monohull_report::escape::{Line, shown};
use tempfile::NamedTempFile;

use super::file_state::{State, state};

/// Where a host has libraries that its packages bring.
const FOLDERS: [&str; 8] =
    ["/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32"];
/// Where its administrator puts some, which may be for functions: these are taken if their folder is asked for.
const LOCAL: [&str; 2] = ["/usr/local/lib", "/usr/local/lib64"];
/// Folders of compilers.
const COMPILERS: [&str; 2] = ["gcc", "clang"];
/// How the libraries in them begin that use no libc. The others there, such as `libstdc++.a` and `libgomp.a`, use the host's.
const WITHOUT_LIBC: [&str; 3] = ["libgcc.", "libgcc_", "libclang_rt.builtins"];

/// What cargo may say before the name of a folder in which rustc looks for such a library. In those of other kinds it does not.
const SEARCHED: [&str; 2] = ["native=", "all="];

/// A library was asked for that is the host's.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}{} is a static library of the host: it is compiled for the host's libc, and cannot be in an image\n  To do: link a library that `monohull cc` has \
     compiled{}. A crate often builds its own copy from source with a feature `bundled`, `vendored` or `static`",
    by.as_ref().map(|by| format!("the crate `{}` asks for a library that it cannot have: ", Line(by))).unwrap_or_default(),
    shown(path),
    if is_local(path) { "; if it has compiled this one, name its folder with `-L`" } else { "" }
)]
pub(super) struct HostLibrary {
    path: PathBuf,
    /// The crate whose build script asks for it.
    by: Option<String>,
}

/// What a linker has opened: it writes the names into a file.
pub(super) enum Opened {
    /// A file for one call of a linker.
    Ours(NamedTempFile),
    /// The file that the arguments name: a linker writes one. It was in this state before the call.
    Theirs(PathBuf, Option<State>),
    /// Nothing is listed: there is no folder for a file, or the linker cannot do it.
    Nothing,
}

impl Opened {
    /// For a call of a linker by this compiler with these arguments.
    pub(super) fn new(compiler: &OsStr, arguments: &[OsString]) -> Opened {
        if let Some(path) = dependency_file(arguments) {
            let before = state(&path);
            return Opened::Theirs(path, before);
        }
        if !lists_files(compiler, arguments) {
            return Opened::Nothing;
        }
        NamedTempFile::with_prefix("monohull-linked-").map_or(Opened::Nothing, Opened::Ours)
    }

    /// What a compiler is given for its linker. The name of the file may have a comma, which `-Wl,` would split.
    pub(super) fn arguments(&self) -> Option<[OsString; 2]> {
        let Opened::Ours(file) = self else { return None };
        let mut argument = OsString::from("--dependency-file=");
        argument.push(file.path());
        Some(["-Xlinker".into(), argument])
    }

    /// The first library of the host. `own` is the folder of the libc.
    pub(super) fn of_host(&self, arguments: &[OsString], own: &Path) -> Option<HostLibrary> {
        let own = own.canonicalize().ok();
        let path = self.libraries().into_iter().find(|path| is_refused(path, arguments, own.as_deref()))?;
        Some(HostLibrary { path, by: None })
    }

    /// All static libraries that the linker has opened, where they really lie.
    fn libraries(&self) -> Vec<PathBuf> {
        let path = match self {
            Opened::Ours(file) => file.path(),
            // One that has not changed is of an earlier call.
            Opened::Theirs(path, before) if state(path) != *before => path,
            _ => return Vec::new(),
        };
        let Ok(rules) = fs::read(path) else { return Vec::new() };
        inputs(&rules).iter().filter_map(|path| place(path).or_else(|| place(&unescaped(path)))).collect()
    }
}

/// Whether a library is the host's, by where it really lies. That in the folder of the libc, `own`, is not.
fn is_refused(path: &Path, arguments: &[OsString], own: Option<&Path>) -> bool {
    !own.is_some_and(|own| path.starts_with(own))
        && (is_hosts(path) || is_local(path) && !is_asked_for(path, &asked_for(arguments)))
}

/// Whether the linker of a compiler knows the option: that of GNU before binutils 2.35 does not, and would not link. What cannot be asked
/// is taken to know it.
fn lists_files(compiler: &OsStr, arguments: &[OsString]) -> bool {
    let which = arguments.iter().filter(|argument| argument.as_bytes().starts_with(b"-fuse-ld="));
    let help = Command::new(compiler).args(which).arg("-Wl,--help").stdin(Stdio::null()).output();
    help.map_or(true, |help| {
        !help.status.success()
            || help.stdout.is_empty()
            || String::from_utf8_lossy(&help.stdout).contains("dependency-file")
    })
}

/// The arguments of a compiler, with those for its linker as the linker has them.
fn flattened(arguments: &[OsString]) -> impl Iterator<Item = &OsStr> {
    arguments.iter().filter(|argument| *argument != "-Xlinker").flat_map(|argument| {
        let argument = argument.as_bytes();
        let (list, one) = match argument.strip_prefix(b"-Wl,") {
            Some(list) => (Some(list), None),
            None => (None, Some(argument)),
        };
        let list = list.into_iter().flat_map(|list| list.split(|byte| *byte == b','));
        list.chain(one).map(OsStr::from_bytes)
    })
}

/// The file that a linker writes by these arguments: the last one, and with one dash as with two.
fn dependency_file(arguments: &[OsString]) -> Option<PathBuf> {
    let mut found = None;
    let mut arguments = flattened(arguments);
    while let Some(argument) = arguments.next() {
        let argument = argument.as_bytes();
        let name = argument.strip_prefix(b"--").or(argument.strip_prefix(b"-")).unwrap_or_default();
        match name.strip_prefix(b"dependency-file") {
            Some(b"") => found = arguments.next().or(found),
            Some([b'=', file @ ..]) => found = Some(OsStr::from_bytes(file)),
            _ => {}
        }
    }
    found.map(PathBuf::from)
}

/// The folders that arguments name, or `LIBRARY_PATH`; and files that arguments name.
fn asked_for(arguments: &[OsString]) -> Vec<PathBuf> {
    let given = flattened(arguments).map(|argument| {
        let argument = argument.as_bytes();
        let folder = argument.strip_prefix(b"-L").or(argument.strip_prefix(b"--library-path="));
        PathBuf::from(OsStr::from_bytes(folder.unwrap_or(argument)))
    });
    let variable = env::var_os("LIBRARY_PATH").unwrap_or_default();
    given.chain(env::split_paths(&variable)).filter_map(|path| path.canonicalize().ok()).collect()
}

/// Whether a library in [`LOCAL`] is one of these, or lies in one that is there itself.
fn is_asked_for(path: &Path, asked_for: &[PathBuf]) -> bool {
    let is_in_local = |folder: &PathBuf| LOCAL.iter().any(|local| folder.starts_with(local));
    asked_for.iter().any(|folder| is_in_local(folder) && path.starts_with(folder))
}

/// The library of the host that a build script asks for, by cargo's words for what is linked and where it is searched for. The script
/// writes into `out`.
pub(super) fn asked_for_by(by: &str, libraries: &[String], folders: &[String], out: &Path) -> Option<HostLibrary> {
    let path = found(libraries, folders, out).into_iter().find(|path| is_hosts(path))?;
    Some(HostLibrary { path, by: Some(by.to_owned()) })
}

/// All static libraries that a build script asks for, where rustc finds them.
fn found(libraries: &[String], folders: &[String], out: &Path) -> Vec<PathBuf> {
    let folders = folders.iter().map(|folder| {
        let name = SEARCHED.iter().find_map(|kind| folder.strip_prefix(kind));
        Path::new(name.unwrap_or(folder))
    });
    // Cargo puts the script's own folders before the others.
    let (mut folders, others): (Vec<_>, Vec<_>) = folders.partition(|folder| folder.starts_with(out));
    folders.extend(others);
    let names = libraries.iter().filter_map(|library| static_name(library));
    names
        .filter_map(|name| {
            let path = folders.iter().map(|folder| folder.join(&name)).find(|path| path.is_file())?;
            place(&path)
        })
        .collect()
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
    !is_compilers(path) && FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Whether a file is one that the host's administrator has put there.
fn is_local(path: &Path) -> bool {
    !is_compilers(path) && LOCAL.iter().any(|folder| path.starts_with(folder))
}

/// Whether a file is a compiler's own library, for what it makes of the language itself.
fn is_compilers(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    WITHOUT_LIBC.iter().any(|start| name.starts_with(start.as_bytes()))
        && path.components().any(|part| COMPILERS.iter().any(|name| part.as_os_str() == *name))
}

/// The files in a rule of make, as linkers write one, each on a line of its own: the first is followed by an empty one for each file.
fn inputs(rules: &[u8]) -> Vec<PathBuf> {
    let mut lines = rules.split(|byte| *byte == b'\n');
    let mut inputs = Vec::new();
    let mut continues = lines.next().is_some_and(|target| target.ends_with(b"\\"));
    while continues && let Some(line) = lines.next() {
        let path = line.strip_suffix(b"\\");
        continues = path.is_some();
        inputs.push(PathBuf::from(OsStr::from_bytes(path.unwrap_or(line).trim_ascii())));
    }
    inputs
}

/// A path as it is, of one that is written for make: LLVM's linker does so, that of GNU does not.
fn unescaped(path: &Path) -> PathBuf {
    let path = path.to_string_lossy();
    PathBuf::from(path.replace("\\ ", " ").replace("\\#", "#").replace("$$", "$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_rule_names_the_files() {
        let gnus = b"a.so: \\\n  a.o \\\n  /t/my lib/libz.a \\\n  $x.o\n\na.o:\n\n/t/my lib/libz.a:\n";
        assert_eq!(inputs(gnus), ["a.o", "/t/my lib/libz.a", "$x.o"].map(PathBuf::from));
        let llvms = b"a.so: \\\n  a.o \\\n  /t/my\\ lib/libz.a\n\na.o:\n";
        assert_eq!(inputs(llvms), ["a.o", "/t/my\\ lib/libz.a"].map(PathBuf::from));
        assert_eq!(unescaped(Path::new("/t/my\\ \\#lib/$$x.a")), Path::new("/t/my #lib/$x.a"));
        assert!(inputs(b"").is_empty());
    }

    #[test]
    fn libraries_of_packages_are_the_hosts() {
        for path in [
            "/usr/lib/x86_64-linux-gnu/libz.a",
            "/lib64/libz.a",
            "/usr/lib/llvm-14/lib/libLLVMCore.a",
            "/usr/lib/gcc/x86_64-linux-gnu/12/libstdc++.a",
        ] {
            assert!(is_hosts(Path::new(path)), "{path}");
        }
        for path in [
            "/usr/lib/gcc/x86_64-linux-gnu/12/libgcc_eh.a",
            "/usr/lib/llvm-14/lib/clang/14/lib/linux/libclang_rt.builtins-x86_64.a",
            "/usr/library/libz.a",
            "/home/a/lib/libz.a",
        ] {
            assert!(!is_hosts(Path::new(path)), "{path}");
        }
        let packaged = Path::new("/usr/lib/monohull/libc.a");
        assert!(is_refused(packaged, &[], None));
        assert!(!is_refused(packaged, &[], Some(Path::new("/usr/lib/monohull"))), "the libc of functions");
        for path in ["/usr/local/lib/libz.a", "/usr/local/lib64/libz.a", "/usr/local/lib/gcc/x86_64/14/libgomp.a"] {
            assert!(is_local(Path::new(path)), "{path}");
        }
        assert!(!is_local(Path::new("/usr/local/lib/gcc/x86_64-pc-linux-gnu/14.2.0/libgcc.a")));
    }

    #[test]
    fn a_local_library_is_asked_for_by_its_folder() {
        let library = Path::new("/usr/local/lib/ours/libz.a");
        for (folder, is_asked) in [
            ("/usr/local/lib", true),
            ("/usr/local/lib/ours", true),
            ("/usr/local/lib/ours/libz.a", true),
            ("/usr/local/lib/theirs", false),
            ("/usr/local/lib64", false),
            ("/usr", false),
        ] {
            assert_eq!(is_asked_for(library, &[PathBuf::from(folder)]), is_asked, "{folder}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a place");
        let name = folder.to_string_lossy();
        for asks in [
            format!("-L{name}"),
            format!("-L {name}/../{}", folder.file_name().expect("a name").to_string_lossy()),
            format!("-Wl,-L{name}"),
            format!("-Xlinker -L{name}"),
            format!("-Wl,--library-path={name}"),
        ] {
            assert!(asked_for(&arguments(&asks)).contains(&folder), "{asks}");
        }
        assert!(is_local(library) && !is_asked_for(library, &[]));
        let message = |path: &str| HostLibrary { path: path.into(), by: None }.to_string();
        assert!(message("/usr/local/lib/libz.a").contains("if it has compiled this one, name its folder with `-L`"));
        assert!(!message("/usr/lib/libz.a").contains("`-L`"));
    }

    #[test]
    fn a_file_that_the_arguments_name_is_read() {
        for (line, file) in [
            ("a.c -Wl,--dependency-file=a.d", Some("a.d")),
            ("a.c -Wl,-z,now,--dependency-file,a.d,-O1", Some("a.d")),
            ("a.c -Xlinker --dependency-file -Xlinker a.d", Some("a.d")),
            ("a.c -Xlinker --dependency-file=a,b.d", Some("a,b.d")),
            ("-Wl,--dependency-file=b.d a.c -Wl,-dependency-file,a.d", Some("a.d")),
            ("a.c -Wl,--dependency-files", None),
        ] {
            assert_eq!(dependency_file(&arguments(line)), file.map(PathBuf::from), "{line}");
        }
        // A linker that does not know the option has no such word in its help.
        assert!(Opened::new("echo".as_ref(), &arguments("a.c")).arguments().is_none());
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a place");
        let (list, library) = (folder.join("a.d"), folder.join("libz.a"));
        fs::write(&library, "").expect("written");
        let asks = arguments(&format!("a.c -Wl,--dependency-file={}", list.to_string_lossy()));
        fs::write(&list, format!("a: \\\n  {}\n", library.to_string_lossy())).expect("written");
        let opened = Opened::new("cc".as_ref(), &asks);
        assert!(opened.arguments().is_none());
        assert!(opened.libraries().is_empty(), "that of an earlier call was read");
        fs::write(&list, format!("a: \\\n  a.o \\\n  {}\n", library.to_string_lossy())).expect("written");
        assert_eq!(opened.libraries(), [library]);
    }

    #[test]
    fn a_build_scripts_library_is_searched_for_as_rustc_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a place");
        let (out, host) = (folder.join("out"), folder.join("host"));
        for made in [&out, &host] {
            fs::create_dir(made).expect("made");
        }
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (host, own) = (host.to_string_lossy(), format!("native={}", out.to_string_lossy()));
        let hosts = format!("native={host}");
        let asked = |libraries: &[&str], folders: &[&str]| found(&strings(libraries), &strings(folders), &out);
        let library = PathBuf::from(format!("{host}/libz.a"));
        fs::write(&library, "").expect("written");
        assert_eq!(asked(&["static=z"], &[&hosts]), [library.as_path()]);
        assert_eq!(asked(&["static=z"], &[&host]), [library.as_path()]);
        assert!(asked(&["dylib=z", "static=other"], &[&hosts]).is_empty());
        let scripts = out.join("libown.a");
        fs::write(&scripts, "").expect("written");
        assert_eq!(asked(&["static=own", "static=z"], &[&own, &hosts]), [scripts, library]);
        for kind in ["dependency", "crate"] {
            assert!(asked(&["static=z"], &[&format!("{kind}={host}")]).is_empty());
        }
        let scripts = out.join("libz.a");
        fs::write(&scripts, "").expect("written");
        assert_eq!(asked(&["static=z"], &[&hosts, &own]), [scripts], "the script's own comes first");
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
