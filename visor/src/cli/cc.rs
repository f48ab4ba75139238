//! `monohull cc`, `monohull c++` and `monohull ld`: the host's compiler with the libc of functions.
//!
//! They take the arguments of the compiler, so build systems use them as they use `cc`. What they link is a function image:
//!
//! ```text
//!   monohull cc -c a.c        headers of the libc, position-independent
//!   monohull cc a.o -o a      the same flags, objects, libc: a shared object that exports MONOHULL_IMAGE and monohull_start
//!   monohull ld …             a linker for rustc: what it would link as a shared library becomes an image
//! ```

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use clap::Args;
use goblin::elf::Elf;
use goblin::elf::sym::STB_WEAK;

use super::build::{self, BuildError};
use super::c_toolchain::{Language, Toolchain, ToolchainError};
use super::exit::Exit;
use super::file_state::state;
use super::host_libraries::Opened;
use super::program_root::{BESIDES, LINKED};
use super::smaller_std::SmallerStd;
use super::{cargo, imports, missing};
use monohull_domain::image::Image;

/// Compile and link C as a function image: the host's compiler (or MONOHULL_CC) with Monohull's libc
///
/// The compiler gets all arguments, and says which there are: `cc --help`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = super::concat_help!("monohull cc -O2 hello.c -o hello.so && monohull check hello.so"))]
pub(super) struct Cc {
    /// What the compiler takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Compile and link C++ as a function image: the host's compiler (or MONOHULL_CXX) with Monohull's libc
///
/// The compiler gets all arguments, and says which there are: `c++ --help`.
#[derive(Debug, Args)]
#[command(name = "c++", disable_help_flag = true, after_help = super::concat_help!("monohull c++ -O2 hello.cpp -o hello.so"))]
pub(super) struct Cxx {
    /// What the compiler takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Link objects as a function image, as rustc calls a linker
///
/// A C compiler gets all arguments, and says which there are: `cc --help`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = super::concat_help!("monohull ld hello.o -o hello.so"))]
pub(super) struct Ld {
    /// What a C compiler takes as a linker
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

impl Cc {
    pub(super) fn run(&self) -> Exit {
        help("cc", &self.arguments)
            .unwrap_or_else(|| finish(drive(compiler("MONOHULL_CC", "cc"), Language::C, &self.arguments)))
    }
}

impl Cxx {
    pub(super) fn run(&self) -> Exit {
        help("c++", &self.arguments)
            .unwrap_or_else(|| finish(drive(compiler("MONOHULL_CXX", "c++"), Language::Cxx, &self.arguments)))
    }
}

impl Ld {
    pub(super) fn run(&self) -> Exit {
        help("ld", &self.arguments).unwrap_or_else(|| finish(link(compiler("MONOHULL_CC", "cc"), &self.arguments)))
    }
}

/// Says what a verb does, if nothing else is asked for. With other arguments `--help` is the compiler's.
fn help(verb: &str, arguments: &[OsString]) -> Option<Exit> {
    let is_asked = matches!(arguments, [only] if only == "--help");
    is_asked.then(|| {
        super::output::text(super::help_of(verb));
        Exit::Done
    })
}

pub(super) fn compiler(variable: &str, usual: &str) -> OsString {
    env::var_os(variable).unwrap_or_else(|| usual.into())
}

fn finish(done: Result<Exit, ToolchainError>) -> Exit {
    done.unwrap_or_else(|error| super::fail(Exit::Host, &error))
}

/// What the headers of the libc are for.
const SYSTEM: &str = "x86_64-linux-musl";

/// What an image needs, whatever a build system asks for: its place is chosen when it is loaded, its thread-local variables are found by a call,
/// and what guards its stack (`-fstack-protector`) is compared with a variable of the libc. A compiler's own choice is `fs:40`, and `fs` is the
/// system's: that word is another one after a suspension, and out of reach where protection keys are in force.
const INSISTED: [&str; 4] =
    ["-fPIC", "-ftls-model=global-dynamic", "-mtls-dialect=gnu", "-mstack-protector-guard=global"];

/// What an image begins with.
const ELF: &[u8] = b"\x7fELF";

/// What a command line of a compiler asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Request {
    /// Something about the compiler itself.
    Question,
    /// Objects, or what comes before them.
    Compile,
    /// An image.
    Link,
    /// A shared library, which a function cannot load.
    SharedLibrary,
}

impl Request {
    fn of(arguments: &[OsString]) -> Request {
        let mut request = Request::Link;
        let mut has_input = false;
        let mut is_value = false;
        for argument in arguments.iter().map(|argument| argument.to_string_lossy()) {
            if std::mem::take(&mut is_value) {
                continue;
            }
            match &*argument {
                "-c" | "-S" | "-E" | "-M" | "-MM" | "-fsyntax-only" | "-r" => request = Request::Compile,
                "-shared" if request == Request::Link => request = Request::SharedLibrary,
                "-o" | "--output" | "-x" | "-include" | "-isystem" | "-I" | "-L" | "-D" | "-U" | "-MF" | "-MT"
                | "-MQ" => {
                    is_value = argument != "-x";
                }
                "-" => has_input = true,
                other => has_input |= !other.starts_with('-'),
            }
        }
        if has_input { request } else { Request::Question }
    }
}

/// What contradicts a shared object, or would search the host's libraries first.
fn is_dropped(argument: &OsStr) -> bool {
    let argument = argument.to_string_lossy();
    matches!(&*argument, "-static" | "-static-pie" | "-pie" | "-no-pie" | "-rdynamic" | "-Wl,--export-dynamic")
}

/// What the compiler is asked for the name of the system, in front of the folders of its libraries: Python's `configure`, for example,
/// compares it with what the headers say.
fn asks_for_system(arguments: &[OsString]) -> bool {
    matches!(arguments, [question] if question == "-print-multiarch" || question == "--print-multiarch")
}

fn drive(program: OsString, language: Language, arguments: &[OsString]) -> Result<Exit, ToolchainError> {
    let request = Request::of(arguments);
    if asks_for_system(arguments) {
        super::output::text(format_args!("{SYSTEM}\n"));
        return Ok(Exit::Done);
    }
    if request == Request::SharedLibrary {
        let text =
            "-shared: a function image loads no libraries; link the objects, or an archive of them, into the program";
        return Ok(super::fail(Exit::Usage, &text));
    }
    let mut command = Command::new(&program);
    if request == Request::Question {
        return run(command.args(arguments), program);
    }
    let toolchain = Toolchain::find()?;
    // The compiler's messages go through a pipe, so it has to be told.
    command.args(cargo::has_colours().then_some("-fdiagnostics-color=always"));
    command.args(toolchain.compile_flags(&program, language)?);
    if request == Request::Compile {
        let exit = run(command.args(arguments).args(INSISTED), program)?;
        note_missing_library(exit, language, &toolchain);
        return Ok(exit);
    }
    let opened = Opened::new(&program, arguments);
    command.args(toolchain.link_flags()?).args(opened.arguments().into_iter().flatten());
    command.args(arguments.iter().filter(|argument| !is_dropped(argument))).args(INSISTED);
    command.args(toolchain.link_end(language));
    let output = linked(arguments);
    let before = output.and_then(state);
    let exit = run(&mut command, program.clone())?;
    if let Some(library) = opened.of_host(arguments, toolchain.folder()) {
        if let Some(output) = output.filter(|output| state(output) != before) {
            let _ = std::fs::remove_file(output);
        }
        return Ok(super::fail(Exit::Usage, &library));
    }
    note_missing_library(exit, language, &toolchain);
    match output {
        // A question such as `-###` has inputs, and links nothing.
        Some(path) if exit == Exit::Done && state(path) != before => {
            let found = weak_references(path, &toolchain);
            if !found.is_empty() && run(command.args(found), program)? != Exit::Done {
                return Ok(Exit::Usage);
            }
            Ok(judge(path))
        }
        _ => Ok(exit),
    }
}

/// What has the linker take from the libc what an image refers to by weak references alone. It takes nothing from an archive for these, and then a program
/// believes that its libc has no threads, say. In a libc that is a shared library they are found.
fn weak_references(image: &Path, toolchain: &Toolchain) -> Vec<OsString> {
    let Ok(bytes) = std::fs::read(image) else { return Vec::new() };
    let Ok(elf) = Elf::parse(&bytes) else { return Vec::new() };
    let weak = elf.dynsyms.iter().filter(|symbol| symbol.is_import() && symbol.st_bind() == STB_WEAK);
    let names: Vec<&str> = weak.filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name)).collect();
    if names.is_empty() {
        return Vec::new();
    }
    toolchain.defined(&names).into_iter().map(|name| format!("-Wl,-u,{name}").into()).collect()
}

/// Says what a failure of the compiler or the linker may come from.
fn note_missing_library(exit: Exit, language: Language, toolchain: &Toolchain) {
    if exit != Exit::Done && language == Language::Cxx && toolchain.cxx().is_none() {
        super::output::note("there is no C++ standard library beside the libc: `cargo xtask build --cxx` makes one");
    }
}

/// Judges a new image as the loader will, so that the checks of a build system for a library find none that cannot be loaded. What is refused
/// is removed, as a linker does with what it cannot link. Then warns of code that will be refused when it runs, as `monohull build` does.
fn judge(path: &Path) -> Exit {
    // What cannot be read is no image: a device, as some builds use for a try.
    let Ok(image) = std::fs::read(path) else { return Exit::Done };
    if !image.starts_with(ELF) {
        return Exit::Done;
    }
    let judged = Image::parse(&path.to_string_lossy(), &image).map_err(|source| {
        let explanation = imports::explain(&source, &image).unwrap_or_default();
        BuildError::Unloadable { path: path.to_path_buf(), source, explanation }
    });
    match judged.and_then(|_| build::check(path, &image)) {
        Ok(report) => {
            // In another order of the objects they may be gone: the caller may try one.
            build::show_refusals("warning: ", &report);
            build::show_warnings(&missing::warnings(&image), &report);
            Exit::Done
        }
        Err(refused) => {
            let _ = std::fs::remove_file(path);
            super::fail(refused.exit(), &refused)
        }
    }
}

/// What a command line that links makes, if that can be told: an argument `@FILE` stands for more of them.
fn linked(arguments: &[OsString]) -> Option<&Path> {
    let names_output =
        |argument: &OsString| [&b"-o"[..], b"--output"].iter().any(|o| argument.as_bytes().starts_with(o));
    match arguments.iter().rposition(names_output) {
        Some(at) if arguments[at] == "-o" || arguments[at] == "--output" => arguments.get(at + 1).map(Path::new),
        Some(at) => {
            let argument = arguments[at].as_bytes();
            let name = argument.strip_prefix(b"--output=").or_else(|| argument.strip_prefix(b"-o"));
            name.map(|name| Path::new(OsStr::from_bytes(name)))
        }
        None if arguments.iter().any(|argument| argument.as_bytes().starts_with(b"@")) => None,
        None => Some(Path::new("a.out")),
    }
}

/// Links what rustc gives. What is not the function is linked as on the host: it may have no `main`, and is not run.
fn link(program: OsString, arguments: &[OsString]) -> Result<Exit, ToolchainError> {
    if env::var_os(LINKED).is_some_and(|linked| linked == BESIDES) {
        return run(Command::new(&program).args(arguments), program);
    }
    let toolchain = Toolchain::find()?;
    let mut command = Command::new(&program);
    let is_for_images = |argument: &&OsString| !is_rustcs_own(argument) && !is_dropped(argument);
    let given: Vec<OsString> = arguments.iter().filter(is_for_images).cloned().collect();
    let opened = Opened::new(&program, &given);
    command.args(toolchain.link_flags()?).args(opened.arguments().into_iter().flatten());
    let output = arguments.iter().skip_while(|argument| *argument != "-o").nth(1);
    let smaller = output.and_then(|output| SmallerStd::make(arguments, Path::new(output)));
    for argument in &given {
        command.arg(smaller.as_ref().map_or(argument.as_os_str(), |smaller| smaller.in_place_of(argument)));
    }
    let exit = run(command.args(toolchain.link_end(Language::C)), program)?;
    match opened.of_host(arguments, toolchain.folder()) {
        Some(library) => Ok(super::fail(Exit::Usage, &library)),
        None => Ok(exit),
    }
}

/// The linker that rustc prefers, and its list of exports, which would hide the start of the image.
fn is_rustcs_own(argument: &OsStr) -> bool {
    let argument = argument.to_string_lossy();
    argument.starts_with("-fuse-ld=") || argument.starts_with("-B") || argument.starts_with("-Wl,--version-script=")
}

/// Runs the compiler. It has said itself what is wrong with its input, in words that others chose, such as names of symbols: what a
/// terminal may act on is escaped.
fn run(command: &mut Command, program: OsString) -> Result<Exit, ToolchainError> {
    let status = cargo::relayed(command).map_err(|source| ToolchainError::NoCompiler { program, source })?;
    Ok(if status.success() { Exit::Done } else { Exit::Usage })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_understood_as_the_compiler_does() {
        let of = |line: &str| Request::of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("--version"), Request::Question);
        assert_eq!(of("-print-file-name=include"), Request::Question);
        assert_eq!(of("-dumpmachine -o out"), Request::Question);
        assert_eq!(of("-c a.c -o a.o"), Request::Compile);
        assert_eq!(of("-E -"), Request::Compile);
        assert_eq!(of("a.c b.o -lm -o program"), Request::Link);
        assert_eq!(of("-shared a.o -o liba.so"), Request::SharedLibrary);
        assert_eq!(of("-shared -c a.c"), Request::Compile);
    }

    #[test]
    fn what_is_linked_has_a_name() {
        let of = |line: &str| {
            let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
            linked(&arguments).map(Path::to_path_buf)
        };
        assert_eq!(of("a.c"), Some("a.out".into()));
        assert_eq!(of("a.c -o b"), Some("b".into()));
        assert_eq!(of("-ob a.c"), Some("b".into()));
        assert_eq!(of("--output b a.c"), Some("b".into()));
        assert_eq!(of("--output=b a.c"), Some("b".into()));
        assert_eq!(of("@rest"), None);
    }

    #[test]
    fn the_system_is_that_of_the_headers() {
        let asks = |line: &str| asks_for_system(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks("--print-multiarch") && asks("-print-multiarch"));
        assert!(!asks("-dumpmachine") && !asks("-print-multiarch -o out"));
    }
}
