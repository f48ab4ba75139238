//! A program's root source file, compiled as a library that exports C's `main`.
//!
//! rustc compiles programs for thread-local variables that only programs have, and refuses to make a program and a shared library of
//! one source. So cargo calls this in place of rustc (`RUSTC_WORKSPACE_WRAPPER`), and it compiles a copy of the root with
//! one line more:
//!
//! ```text
//!   cargo ── rustc-wrapper rustc --crate-type bin src/main.rs … ──▶ src/.monohull-main-PID.rs   main.rs and the line [`EXPORT`]
//!                                                                     │ rustc --crate-type cdylib …
//!                                            target/…/deps/main-HASH ◀┘ (libmain-HASH.so, renamed)
//! ```
//!
//! The copy lies beside the root, so that modules and included files are found. It has the root's name in messages, and is gone
//! afterwards. Everything else that cargo has compiled goes to rustc as it is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, SystemTime};
use std::{env, fs, io, process};

use clap::Args;

use super::exit::Exit;
use super::real_std::TARGET;
use monohull_report::escape::shown;

/// What is added: C's `main`, which calls the function of std by which rustc's own would start the program, so panics, exit codes and
/// the main thread are as in any program. `@START@` is the name of that function ([`start_of_std`]). It is called by its address, so that link-time
/// optimization leaves it a function of std: what it does for std is no wish of the program's (`missing.rs`).
const EXPORT: &str = r#"
#[allow(warnings, clippy::all, unsafe_code)] const _: () = { unsafe extern "Rust" { #[link_name = "@START@"] fn monohull_lang_start(main: &(dyn Fn() -> i32 + Sync + ::std::panic::RefUnwindSafe), argc: isize, argv: *const *const u8, sigpipe: u8) -> isize; } #[unsafe(export_name = "main")] extern "C" fn start(argc: i32, argv: *const *const u8) -> i32 { let run = || { let code = ::std::process::Termination::report(main()); (0..=255u8).find(|status| ::std::process::ExitCode::from(*status) == code).map_or(1, i32::from) }; let start = ::std::hint::black_box(monohull_lang_start as unsafe extern "Rust" fn(&(dyn Fn() -> i32 + Sync + ::std::panic::RefUnwindSafe), isize, *const *const u8, u8) -> isize); unsafe { start(&run, argc as isize, argv, 0) as i32 } } };
"#;

/// Says to the linker, in the environment, what it is called for.
pub(super) const LINKED: &str = "MONOHULL_LINKED";
/// For the function.
const IMAGE: &str = "image";
/// For a library that cargo builds on the way, because its manifest says so (`crate-type = ["cdylib", "rlib"]`), and that is not looked at.
pub(super) const BESIDES: &str = "besides";

/// Compile for `monohull build`, in place of rustc
#[derive(Debug, Args)]
#[command(hide = true, disable_help_flag = true)]
pub(super) struct Wrapper {
    /// rustc and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// Why the root cannot be compiled. Compilers say for themselves what is wrong with a source.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
enum RootError {
    #[error("{}: {source}", shown(path))]
    File { path: PathBuf, source: io::Error },
    #[error(
        "{}: {source}. While {} is compiled, a copy of it lies in its folder; `monohull build` has to be able to write there",
        shown(path),
        shown(root)
    )]
    NoCopy { path: PathBuf, root: PathBuf, source: io::Error },
}

impl Wrapper {
    pub(super) fn run(&self) -> Exit {
        let Some((rustc, arguments)) = self.command.split_first() else { return Exit::Usage };
        match compile(Path::new(rustc), arguments) {
            Ok(status) if status.success() => Exit::Done,
            Ok(_) => Exit::Usage,
            Err(error) => super::fail(Exit::Host, &error),
        }
    }
}

fn compile(rustc: &Path, arguments: &[OsString]) -> Result<ExitStatus, RootError> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| RootError::File { path, source }
    };
    let Some(unit) = Unit::of(arguments) else {
        return Command::new(rustc).args(arguments).status().map_err(at(rustc));
    };
    let text = fs::read_to_string(&unit.root).map_err(at(&unit.root))?;
    let mut command = Command::new(rustc);
    command.env(LINKED, IMAGE);
    if !unit.is_program && !has_main(&text) {
        return command.args(arguments).status().map_err(at(rustc));
    }
    let copy = if has_mains_symbol(&text) {
        Copy::make(&unit.root, &text)?
    } else {
        let start = start_of_std(rustc).map_err(at(rustc))?;
        Copy::make(&unit.root, &(without_forbid(&text) + &EXPORT.replace("@START@", &start)))?
    };
    let mut before = "";
    for argument in arguments {
        let text = argument.to_str().unwrap_or_default();
        match text {
            "bin" if before == "--crate-type" => command.arg("cdylib"),
            _ if Path::new(argument) == unit.root => command.arg(&copy.path),
            // What cannot be allowed again further down would refuse the added line.
            _ if text.starts_with("--forbid") => command.arg(text.replacen("forbid", "deny", 1)),
            _ if text.starts_with("-F") => command.arg(text.replacen("-F", "-D", 1)),
            _ => command.arg(argument),
        };
        before = text;
    }
    let mut names = OsString::from("--remap-path-prefix=");
    names.push(&copy.path);
    names.push("=");
    names.push(&unit.root);
    command.arg(names);
    let status = command.status().map_err(at(rustc))?;
    if status.success() {
        unit.settle(&copy.path).map_err(at(&unit.folder))?;
    }
    Ok(status)
}

/// A call of rustc for the root of what is built.
#[derive(Debug)]
struct Unit {
    root: PathBuf,
    is_program: bool,
    /// Where rustc puts what it makes, and how it calls it.
    folder: PathBuf,
    name: String,
}

impl Unit {
    /// Of a call of rustc, if it is for the function's own crate: not for a build script or a macro, which run here, and not for one
    /// of the workspace's other crates.
    fn of(arguments: &[OsString]) -> Option<Unit> {
        let texts: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap_or_default()).collect();
        let values = |option: &str| {
            let pairs = texts.windows(2).filter(move |pair| pair[0] == option);
            pairs.map(|pair| pair[1].to_owned()).collect::<Vec<_>>()
        };
        let types = values("--crate-type");
        let is_program = types == ["bin"];
        if !(is_program || types == ["cdylib"]) || !texts.contains(&"--target") || texts.contains(&"--test") {
            return None;
        }
        let root = texts.iter().position(|text| text.ends_with(".rs") && !text.starts_with('-'))?;
        let suffix =
            values("-C").into_iter().find_map(|value| value.strip_prefix("extra-filename=").map(str::to_owned));
        Some(Unit {
            root: PathBuf::from(&arguments[root]),
            is_program,
            folder: PathBuf::from(values("--out-dir").pop()?),
            name: format!("{}{}", values("--crate-name").pop()?, suffix.unwrap_or_default()),
        })
    }

    /// Puts what rustc has made where cargo expects it, and the root's name into the list of sources.
    fn settle(&self, copy: &Path) -> io::Result<()> {
        if self.is_program {
            fs::rename(self.folder.join(format!("lib{}.so", self.name)), self.folder.join(&self.name))?;
        }
        let list = self.folder.join(format!("{}.d", self.name));
        let text = fs::read_to_string(&list)?;
        let text = text.replace(&*copy.to_string_lossy(), &self.root.to_string_lossy());
        let text = if self.is_program { text.replace(&format!("lib{}.so", self.name), &self.name) } else { text };
        fs::write(&list, text)
    }
}

/// How much of a root comes before its first item: comments, and the attributes of the crate.
fn head(text: &str) -> &str {
    let is_item = |line: &str| line.starts_with(|first: char| first.is_ascii_alphabetic()) || line.starts_with("#[");
    let (mut end, mut in_comment) = (0, false);
    for line in text.split_inclusive('\n') {
        if !in_comment && is_item(line) {
            break;
        }
        in_comment = (in_comment || line.trim_start().starts_with("/*")) && !line.contains("*/");
        end += line.len();
    }
    &text[..end]
}

/// A root whose lints can be allowed again further down: the length of lines is the same.
fn without_forbid(text: &str) -> String {
    let head = head(text);
    head.replace("forbid(", "deny  (") + &text[head.len()..].replace("#![forbid(", "#![deny  (")
}

/// Whether a program's root has C's function `main` itself: `#![no_main]`. Where that depends on a condition, Rust's `main` stands for another.
fn has_mains_symbol(text: &str) -> bool {
    let mut attributes = head(text).lines().map(str::trim_start).filter(|line| line.starts_with("#!["));
    attributes.any(|line| line.starts_with("#![no_main]") || line.contains("no_main") && !has_main(text))
}

/// Whether a library's root has a function `main` of its own.
fn has_main(text: &str) -> bool {
    const STARTS: [&str; 4] = ["fn main(", "pub fn main(", "async fn main(", "pub async fn main("];
    text.lines().any(|line| STARTS.iter().any(|start| line.starts_with(start)))
}

/// The name of the function in this rustc's std that starts a program. It is internal to std and its name is mangled, so it is looked
/// up in std's archive.
fn start_of_std(rustc: &Path) -> io::Result<String> {
    let output = Command::new(rustc).args(["--print=target-libdir", "--target", TARGET]).output()?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libstd-")
            && name.ends_with(".rlib")
            && let Some(symbol) = symbol_around(&fs::read(&path)?, b"2rt19lang_start_internal")
        {
            return Ok(symbol);
        }
    }
    Err(io::Error::other(format!("no std that can start a program is in {}", shown(&folder))))
}

/// The first symbol of a file that holds this part of a mangled name.
fn symbol_around(file: &[u8], part: &[u8]) -> Option<String> {
    let at = file.windows(part.len()).position(|window| window == part)?;
    let is_symbol = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.$".contains(byte);
    let start = at - file[..at].iter().rev().take_while(|byte| is_symbol(byte)).count();
    let end = at + file[at..].iter().take_while(|byte| is_symbol(byte)).count();
    String::from_utf8(file[start..end].to_vec()).ok()
}

/// A copy that is so old was left by a build that was killed.
const LEFT: Duration = Duration::from_secs(24 * 60 * 60);

/// The copy of a root; removed when it goes out of scope. The time at which its folder has changed stays what it was: cargo runs a build script again
/// if a folder that it names has changed (`cargo::rerun-if-changed=src`).
struct Copy {
    path: PathBuf,
    /// The folder's time. None if something else has changed the folder.
    changed: Option<SystemTime>,
}

impl Copy {
    fn make(root: &Path, text: &str) -> Result<Copy, RootError> {
        let stem = root.file_stem().unwrap_or_default().to_string_lossy();
        let path = root.with_file_name(format!(".monohull-{stem}-{}.rs", process::id()));
        let changed = changed(folder_of(root));
        remove_left(root, &format!(".monohull-{stem}-"));
        let written = fs::write(&path, text);
        set_changed(root, changed);
        let copy = Copy { path, changed };
        match written {
            Ok(()) => Ok(copy),
            Err(source) => Err(RootError::NoCopy { path: copy.path.clone(), root: root.to_path_buf(), source }),
        }
    }
}

/// The folder of a file.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// When a folder has changed.
fn changed(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder).ok()?.modified().ok()
}

/// Sets that time of a file's folder. Where that fails a build script runs once more.
fn set_changed(file: &Path, time: Option<SystemTime>) {
    if let Some(time) = time {
        let _ = fs::File::open(folder_of(file)).and_then(|folder| folder.set_modified(time));
    }
}

/// Removes copies of this root that builds have left which were killed.
fn remove_left(root: &Path, prefix: &str) {
    for entry in fs::read_dir(folder_of(root)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(".rs"));
        let is_copy = process.is_some_and(|process| process.parse::<u32>().is_ok());
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_copy && age().is_some_and(|age| age >= LEFT) {
            // One that stays is hidden, and harms nothing.
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let before = changed(folder_of(&self.path)).filter(|now| Some(*now) == self.changed);
        // The same.
        let _ = fs::remove_file(&self.path);
        set_changed(&self.path, before);
    }
}

/// The program that runs now.
pub(super) fn this_program() -> PathBuf {
    env::current_exe().unwrap_or_else(|_| PathBuf::from("monohull"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(line: &str) -> Option<Unit> {
        Unit::of(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn only_the_root_for_the_functions_target_is_copied() {
        const TAIL: &str = "-C extra-filename=-1f --out-dir /t/deps --target x86_64-unknown-linux-gnu";
        let program =
            unit(&format!("--crate-name a_b --edition=2021 src/main.rs --crate-type bin {TAIL}")).expect("a program");
        assert_eq!((&*program.root, program.is_program), (Path::new("src/main.rs"), true));
        assert_eq!((&*program.folder, &*program.name), (Path::new("/t/deps"), "a_b-1f"));
        let library = unit(&format!("--crate-name l src/lib.rs --crate-type cdylib {TAIL}")).expect("a library");
        assert!(!library.is_program);
        for other in [
            format!("--crate-name l src/lib.rs --crate-type lib {TAIL}"),
            format!("--crate-name t src/main.rs --crate-type bin --test {TAIL}"),
            "--crate-name build_script_build build.rs --crate-type bin --out-dir /t/build".to_owned(),
            "-vV".to_owned(),
        ] {
            assert!(unit(&other).is_none(), "{other}");
        }
    }

    #[test]
    fn lints_that_are_forbidden_are_denied() {
        let root = "//! A program.\n#![cfg_attr(\n    not(test),\n    forbid(unsafe_code)\n)]\n#![forbid(warnings)]\n\nfn main() { forbid(1) }\n";
        let denied = "//! A program.\n#![cfg_attr(\n    not(test),\n    deny  (unsafe_code)\n)]\n#![deny  (warnings)]\n\nfn main() { forbid(1) }\n";
        assert_eq!(without_forbid(root), denied);
        assert_eq!(without_forbid("#![forbid(unsafe_code)]"), "#![deny  (unsafe_code)]");
        // An attribute may come after what looks like an item.
        for before in ["/*\nmod of words\n*/\n", "/* a */ /*\nmod of words\n*/\n"] {
            let denied = format!("{before}#![deny  (unsafe_code)]\nfn main() {{}}\n");
            assert_eq!(without_forbid(&denied.replace("deny  (", "forbid(")), denied);
        }
    }

    #[test]
    fn a_root_may_have_the_main_of_c() {
        const MAIN: &str = "#[unsafe(no_mangle)]\nextern \"C\" fn main() -> i32 { 0 }\n";
        assert!(has_mains_symbol(&format!("#![no_std]\n#![no_main]\n{MAIN}")));
        assert!(has_mains_symbol(&format!("#![cfg_attr(not(test), no_main)]\n{MAIN}")));
        assert!(has_mains_symbol(&format!("/*\nLicense\n*/\n#![no_main]\n{MAIN}")));
        assert!(!has_mains_symbol("#![cfg_attr(fuzzing, no_main)]\nfn main() {}\n"));
        assert!(!has_mains_symbol(&format!("#![cfg_attr(fuzzing, no_main)]\n#[cfg(fuzzing)]\n{MAIN}fn main() {{}}\n")));
        assert!(!has_mains_symbol("fn main() {\n    print(TEXT);\n}\nconst TEXT: &str = \"\n#![no_main]\n\";\n"));
        assert!(!has_mains_symbol("fn main() {\n    println!(\"#![no_main]\");\n}\n"));
    }

    #[test]
    fn copies_that_killed_builds_have_left_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in
            [".monohull-main-1.rs", ".monohull-main-2.rs", ".monohull-main-x.rs", ".monohull-lib-1.rs", "main.rs"]
        {
            fs::write(path(name), "").expect("written");
        }
        let old = SystemTime::now() - 2 * LEFT;
        for name in [".monohull-main-1.rs", ".monohull-main-x.rs", ".monohull-lib-1.rs", "main.rs"] {
            let file = fs::File::options().write(true).open(path(name)).expect("opened");
            file.set_modified(old).expect("made older");
        }
        fs::File::open(folder.path()).and_then(|folder| folder.set_modified(old)).expect("made older");
        let before = changed(folder.path());
        let copy = Copy::make(&path("main.rs"), "text").expect("copied");
        assert_eq!(fs::read_to_string(&copy.path).expect("read"), "text");
        drop(copy);
        assert!(before.is_some() && changed(folder.path()) == before, "the folder is as it was");
        // But not if something else has changed it.
        let copy = Copy::make(&path("main.rs"), "text").expect("copied");
        fs::write(path("other.rs"), "").expect("written");
        fs::remove_file(path("other.rs")).expect("removed");
        drop(copy);
        assert!(changed(folder.path()) > before);
        let mut left: Vec<_> = fs::read_dir(folder.path()).expect("a list").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, [".monohull-lib-1.rs", ".monohull-main-2.rs", ".monohull-main-x.rs", "main.rs"]);
    }

    #[test]
    fn a_symbol_is_cut_out_of_a_file() {
        let file = b"\0\x01_ZN3std2rt19lang_start_internal17h0123456789abcdefE\0other";
        let symbol = symbol_around(file, b"2rt19lang_start_internal");
        assert_eq!(symbol.as_deref(), Some("_ZN3std2rt19lang_start_internal17h0123456789abcdefE"));
        assert_eq!(symbol_around(b"nothing", b"2rt19lang_start_internal"), None);
    }
}
