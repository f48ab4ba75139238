//! Makes a function image of a WebAssembly program, for `monohull build app.wasm` and for workflow files that name one (`programs`).
//!
//! The compiler and the runtime's image lie in the folder `wasi` beside the program. The compiler is a program of its own: it reads
//! untrusted programs, and would otherwise be a part of every process of the visor. It confines itself before it does
//! (`monohull_sandbox::computing`), ends with this process, and its output is checked as any image is.
//!
//! ```text
//!   program ── sealed memory ──▶ stdin  compiler  stdout ── memory file ──▶ image ──▶ checker, loader
//!                                          └ stderr ──▶ why not
//! ```

mod functions;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use clap::ValueEnum;
use nix::libc::{SIGABRT, SIGSEGV, SIGSYS, SIGXCPU, SIGXFSZ};
use nix::sys::memfd::{MFdFlags, memfd_create};

use sha2::{Digest, Sha256};

use super::build::{BuildError, Built, check, install};
use super::image_cache::{Entry, state_of};
use monohull_checker::Report;
use monohull_checkpoint::Processor;
use monohull_domain::image::Image;
use monohull_engine::options::folder_beside_program;
use monohull_ipc::sealed::seal;
use monohull_workflow::Checks;
use monohull_workflow::units::show_size;

/// What every WebAssembly program begins with, module or component.
const MAGIC: [u8; 4] = *b"\0asm";
/// What a module begins with, and no component.
const MODULE: [u8; 8] = *b"\0asm\x01\0\0\0";
/// Ways in which the compiler can generate code; the first is the usual one, and the last two move constants out of it.
const VARIANTS: [&str; 6] = ["0", "1", "2", "3", "4", "5"];
/// Largest image that is read; a larger one is none that the loader would take.
pub(super) const IMAGE_MAX: u64 = 1 << 30;
/// Bytes of memory that the compiler may use, if nothing else is said.
pub(super) const MEMORY: u64 = 4 << 30;
/// Seconds of processor time that it may take, likewise.
pub(super) const SECONDS: u64 = 300;
/// Most of what the compiler says that is kept.
const SAID_MAX: u64 = 16 << 10;

/// Which instructions the code may have: a level of the x86-64 ABI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Level {
    /// For every processor of the last fifteen years
    #[value(name = "x86-64-v2")]
    V2,
    /// With AVX2 and BMI2
    #[value(name = "x86-64-v3")]
    V3,
}

impl Level {
    /// The highest one that this host's processor has.
    pub(super) fn here() -> Level {
        match Processor::here().level() {
            "x86-64-v3" | "x86-64-v4" => Level::V3,
            _ => Level::V2,
        }
    }

    /// This one, and those below it.
    fn and_lower(self) -> &'static [Level] {
        match self {
            Level::V2 => &[Level::V2],
            Level::V3 => &[Level::V3, Level::V2],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Level::V2 => "x86-64-v2",
            Level::V3 => "x86-64-v3",
        }
    }
}

/// Which image of a program is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The level that it is compiled for.
    pub(super) level: Level,
    /// The hash of the image that a run had before. If one for a lower level has it, that is the one.
    pub(super) known: Option<&'a [u8; 32]>,
}

impl Wanted<'_> {
    /// One for this host.
    pub(super) fn here() -> Self {
        Wanted { level: Level::here(), known: None }
    }
}

/// How a program is compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) checks: Checks,
    pub(super) level: Level,
    /// Bytes of memory that the compiler may use.
    pub(super) memory: u64,
    /// Seconds of processor time that it may take.
    pub(super) seconds: u64,
}

impl Settings {
    /// What workflow files that name a program get.
    pub(super) fn usual(level: Level, checks: Checks) -> Settings {
        Settings { checks, level, memory: MEMORY, seconds: SECONDS }
    }
}

/// The interpreter of JavaScript, in the folder with the compiler.
const INTERPRETER: &str = "quickjs.wasm";
/// The custom section of a module in which the compiler looks for what belongs to the program.
const ATTACHMENT: &[u8] = b"monohull.attachment";

/// Whether the path is a file that claims to be a WebAssembly program, by its name or its first bytes, or a program in JavaScript.
pub(super) fn is_program(path: &Path) -> bool {
    let begins = || {
        let mut start = [0; MAGIC.len()];
        File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == MAGIC
    };
    path.is_file() && (is_script(path) || path.extension().is_some_and(|end| end == "wasm") || begins())
}

fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "js" || end == "mjs" || end == "cjs")
}

/// The module of a program: the file, or for JavaScript the interpreter with the file attached.
pub(super) fn module(tools: &Path, program: &Path) -> Result<Vec<u8>, BuildError> {
    let bytes = read(program)?;
    if !is_script(program) {
        return if bytes.starts_with(&MAGIC) { Ok(bytes) } else { Err(no_program(program, &bytes)) };
    }
    let name = program.file_name().unwrap_or_default().as_encoded_bytes();
    let mut module = read(&tools.join(INTERPRETER))?;
    let section = [&leb128(ATTACHMENT.len()), ATTACHMENT, name, b"\0", &bytes].concat();
    module.push(0);
    module.extend(leb128(section.len()));
    module.extend(section);
    Ok(module)
}

/// A file that is called as a WebAssembly program, and is none.
fn no_program(program: &Path, bytes: &[u8]) -> BuildError {
    const SHOWN: usize = 16;
    let is_text =
        || ["(module", "(component"].iter().any(|begin| bytes.trim_ascii_start().starts_with(begin.as_bytes()));
    let why = match bytes.is_empty() {
        true => "it is no WebAssembly program: it is empty".to_owned(),
        false if is_text() => "it is WebAssembly as text and no program: `wat2wasm FILE` (wabt) makes one".to_owned(),
        false => {
            let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).escape_debug().to_string();
            format!("it is no WebAssembly program: it begins with `{begin}`")
        }
    };
    BuildError::WasiCompiler { program: program.to_path_buf(), why }
}

/// A number as WebAssembly has it.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Compiles the program and puts its image into `out`, or beside it. The image is called as the program is, and ends in `.so`. One that
/// the loader would refuse is not put anywhere.
pub(super) fn build_program(program: &Path, out: Option<&Path>, settings: Settings) -> Result<Built, BuildError> {
    let name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let beside = program.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = out.unwrap_or(beside);
    let path = folder.join(format!("{name}.so"));
    if is_same_file(program, &path) {
        let why = "its image would take its place, as it is called like an image itself: call it `.wasm`, or put the image into another folder (`--out`)";
        return Err(BuildError::WasiCompiler { program: program.to_path_buf(), why: why.to_owned() });
    }
    let tools = tools()?;
    let (image, mut report) = compile_program(&tools, program, &module(&tools, program)?, &path, settings)?;
    without_system_calls(&image, &mut report);
    install(folder, &path, &image).map_err(|source| BuildError::File { path: path.clone(), source })?;
    Ok(Built { path, report, layout: None, refused: Vec::new() })
}

/// Whether both paths lead to one file, which is there.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    of(one).is_ok_and(|one| of(other).is_ok_and(|other| one == other))
}

/// The image of a program that a workflow file names: from the cache, or compiled now.
pub(super) fn cached_image(program: &Path, checks: Checks, wanted: Wanted<'_>) -> Result<Vec<u8>, BuildError> {
    let tools = tools()?;
    let bytes = module(&tools, program)?;
    choose(wanted, |level| {
        let entry = Entry::of("wasi", identity(&tools, &bytes, level, checks)?);
        if let Some(image) = entry.as_ref().and_then(Entry::read) {
            return Ok(image);
        }
        let settings = Settings::usual(level, checks);
        let (image, _) = compile_program(&tools, program, &bytes, &program.with_extension("so"), settings)?;
        // Without an entry the program is compiled again the next time.
        let _ = entry.map(|entry| entry.write(&image));
        Ok(image)
    })
}

/// The image for the wanted level, or for a lower one if that is the known one.
fn choose<E>(wanted: Wanted<'_>, mut image_for: impl FnMut(Level) -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
    let usual = image_for(wanted.level)?;
    let is_known = |image: &[u8]| wanted.known.is_none_or(|known| Sha256::digest(image)[..] == known[..]);
    if is_known(&usual) {
        return Ok(usual);
    }
    for level in &wanted.level.and_lower()[1..] {
        let image = image_for(*level)?;
        if is_known(&image) {
            return Ok(image);
        }
    }
    // The program has changed, which is said of this one.
    Ok(usual)
}

/// Leaves out system calls that are found in a compiled program: the compiler emits none, and so these are parts of other instructions, or numbers beside the code.
pub(super) fn without_system_calls(image: &[u8], report: &mut Report) {
    let Some(start) = functions::compiled_program(image) else { return };
    report.findings.retain(|finding| !finding.kind.is_system_call() || finding.offset < start as u64);
}

/// The hash of all that decides what is compiled: this program's version has the list of variants, and the compiler its settings.
fn identity(tools: &Path, program: &[u8], level: Level, checks: Checks) -> Result<[u8; 32], BuildError> {
    let mut hash = Sha256::new().chain_update(concat!("monohull wasi ", env!("CARGO_PKG_VERSION")));
    hash.update(level.name());
    if checks == Checks::Explicit {
        hash.update("explicit");
    }
    for part in ["compile", "runtime.so"] {
        let path = tools.join(part);
        hash.update(state_of(&fs::metadata(&path).map_err(|source| BuildError::File { path, source })?));
    }
    Ok(hash.chain_update(Sha256::digest(program)).finalize().into())
}

/// The folder with the compiler and the runtime.
fn tools() -> Result<PathBuf, BuildError> {
    folder_beside_program("wasi").ok_or(BuildError::NoWasi)
}

fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    fs::read(path).map_err(|source| BuildError::File { path: path.to_path_buf(), source })
}

/// An image of the program that the loader takes, and what the checker says of it. Errors call it `path`.
fn compile_program(
    tools: &Path,
    program: &Path,
    bytes: &[u8],
    path: &Path,
    settings: Settings,
) -> Result<(Vec<u8>, Report), BuildError> {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let mut first = None;
    for variant in VARIANTS {
        let image = match compile(tools, program, bytes, variant, settings) {
            // What was found first says more: a program is compiled in a later way because of that.
            Err(BuildError::WasiCompiler { .. }) if first.is_some() => break,
            image => image?,
        };
        let mut report = check(path, &image)?;
        if !report.is_refused() {
            Image::parse(&name, &image).map_err(|source| BuildError::Unloadable {
                path: path.to_path_buf(),
                source,
                explanation: String::new(),
            })?;
            return Ok((image, report));
        }
        // The compiler emits no forbidden instruction: these bytes are parts of others, or constants beside the code.
        functions::name(&image, bytes, &mut report);
        first.get_or_insert(Box::new(report));
    }
    Err(BuildError::AccidentsInProgram { path: program.to_path_buf(), report: first.unwrap_or_default() })
}

/// What the compiler makes of the program.
fn compile(
    tools: &Path,
    program: &Path,
    bytes: &[u8],
    variant: &str,
    settings: Settings,
) -> Result<Vec<u8>, BuildError> {
    let mut compiler = Command::new(tools.join("compile"));
    compiler.arg("--runtime").arg(tools.join("runtime.so")).args(["--variant", variant]);
    compiler.args(["--level", settings.level.name()]);
    compiler.args((settings.checks == Checks::Explicit).then_some("--explicit-checks"));
    output_of(compiler, program, bytes, settings)
}

/// A copy of the image of an interpreter, with a program attached to it. Nothing is compiled.
pub(super) fn attach(interpreter: &Path, program: &[u8]) -> Result<Vec<u8>, BuildError> {
    let mut compiler = Command::new(tools()?.join("compile"));
    compiler.arg("--attach").arg("--runtime").arg(interpreter);
    output_of(compiler, interpreter, program, Settings::usual(Level::V2, Checks::Guards))
}

/// The image that the compiler makes of these bytes. Errors call them `program`.
fn output_of(mut compiler: Command, program: &Path, bytes: &[u8], settings: Settings) -> Result<Vec<u8>, BuildError> {
    let path = PathBuf::from(compiler.get_program());
    let host = |source: io::Error| BuildError::File { path: path.clone(), source };
    let output = memfd_create(c"monohull-image", MFdFlags::MFD_CLOEXEC).map_err(|errno| host(errno.into()))?;
    let image = File::from(output.try_clone().map_err(host)?);
    let mut compiler = compiler
        .args(["--memory", &settings.memory.to_string()])
        .args(["--seconds", &settings.seconds.to_string()])
        .args(["--output", &IMAGE_MAX.to_string()])
        .args(["--parent", &std::process::id().to_string()])
        .env_clear()
        .stdin(seal(bytes, 0).map_err(host)?)
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(host)?;
    let mut said = Vec::new();
    if let Some(stderr) = compiler.stderr.take() {
        // One that says more cannot write any further.
        stderr.take(SAID_MAX).read_to_end(&mut said).map_err(host)?;
    }
    let status = compiler.wait().map_err(host)?;
    if !status.success() {
        let why = why(status, &String::from_utf8_lossy(&said), settings);
        return Err(BuildError::WasiCompiler { program: program.to_path_buf(), why });
    }
    // It has ended and had no children, so the file does not change any more.
    let length = image.metadata().map_err(host)?.len().min(IMAGE_MAX);
    let mut bytes = vec![0; length as usize];
    image.read_exact_at(&mut bytes, 0).map_err(host)?;
    Ok(bytes)
}

/// Why the compiler has given no image. What it says may be an attacker's words.
fn why(status: ExitStatus, said: &str, settings: Settings) -> String {
    let Settings { memory, seconds, .. } = settings;
    match status.signal() {
        Some(SIGXCPU) => format!(
            "it takes more than {seconds} s of processor time; `monohull build --compile-time` sets how much it may take"
        ),
        Some(SIGABRT) if said.contains("memory allocation") => format!(
            "it takes more than {} of memory; `monohull build --compile-memory` sets how much it may take",
            show_size(memory)
        ),
        Some(SIGABRT | SIGSEGV) if said.contains("overflowed its stack") => {
            "a function in it is nested too deeply for the compiler".to_owned()
        }
        Some(SIGXFSZ) => format!("its image is larger than {}", show_size(IMAGE_MAX)),
        Some(SIGSYS) => {
            "the compiler was stopped at a system call that it never makes by itself: a program that causes \
                         this may be an attack on it"
                .to_owned()
        }
        _ => match said.trim() {
            // With too little memory to start there is none to say so either.
            "" => format!(
                "the compiler ended with {status}; it may use {} of memory (`monohull build --compile-memory`)",
                show_size(memory)
            ),
            said => said.strip_prefix("monohull-wasi-compile: ").unwrap_or(said).to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin::elf64::header::{ELFCLASS64, ELFDATA2LSB, EM_X86_64, ET_DYN, SIZEOF_EHDR};
    use goblin::elf64::program_header::{PF_R, PF_X, PT_LOAD, SIZEOF_PHDR};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_run_that_goes_on_gets_the_image_that_it_had_on_another_host() {
        let image_for = |level: Level| Ok::<_, BuildError>(level.name().as_bytes().to_vec());
        let hash = |image: &str| <[u8; 32]>::from(Sha256::digest(image));
        let (second, third) = (Level::V2, Level::V3);
        for (level, known, expected) in [
            (third, None, third),
            (third, Some(hash(third.name())), third),
            (third, Some(hash(second.name())), second),
            (third, Some(hash("another program")), third),
            (second, Some(hash(third.name())), second),
        ] {
            let image = choose(Wanted { level, known: known.as_ref() }, image_for).expect("an image");
            assert_eq!(image, expected.name().as_bytes(), "{level:?} {known:?}");
        }
    }

    /// An image of which all is code, and these bytes a part of it.
    fn image_with(code: &[u8]) -> Vec<u8> {
        let (page, start) = (4096_u64, 1024);
        let mut image = [&b"\x7fELF"[..], &[ELFCLASS64, ELFDATA2LSB, 1], &[0; 9]].concat();
        image.extend([ET_DYN, EM_X86_64].map(u16::to_le_bytes).concat());
        image.extend([&1_u32.to_le_bytes()[..], &[0; 8], &(SIZEOF_EHDR as u64).to_le_bytes(), &[0; 12]].concat());
        image.extend([SIZEOF_EHDR as u16, SIZEOF_PHDR as u16, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
        image.extend([PT_LOAD, PF_R | PF_X].map(u32::to_le_bytes).concat());
        image.extend([0, 0, 0, page, page, page].map(u64::to_le_bytes).concat());
        image.resize(page as usize, 0x90);
        image[start..start + code.len()].copy_from_slice(code);
        image
    }

    /// A compiler whose code is always refused, and that takes too long in the last two ways.
    #[test]
    fn a_program_that_is_refused_and_then_takes_too_long_is_told_what_was_refused() {
        let tools = tempfile::TempDir::new().expect("a folder");
        let (compiler, image) = (tools.path().join("compile"), tools.path().join("image"));
        fs::write(&image, image_with(&[0x0f, 0x01, 0xef])).expect("written");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *'--variant 4'*) kill -XCPU $$;; *) exec /bin/cat '{}';; esac\n",
            image.to_str().expect("UTF-8")
        );
        fs::write(&compiler, script).expect("written");
        fs::set_permissions(&compiler, fs::Permissions::from_mode(0o700)).expect("set");
        let program = Path::new("app.wasm");
        let built = compile_program(
            tools.path(),
            program,
            b"",
            Path::new("app.so"),
            Settings::usual(Level::V2, Checks::Guards),
        );
        match built {
            Err(BuildError::AccidentsInProgram { report, .. }) => assert_eq!(report.refusals().count(), 1),
            other => panic!("{other:?}"),
        }
    }

    /// An entry of the cache belongs to one level: where a home is shared by hosts, each has its own.
    #[test]
    fn the_cache_knows_the_level_the_program_and_the_tools() {
        let tools = tempfile::TempDir::new().expect("a folder");
        for name in ["compile", "runtime.so"] {
            fs::write(tools.path().join(name), name).expect("written");
        }
        let with = |program: &[u8], level, checks| identity(tools.path(), program, level, checks).expect("readable");
        let of = |program: &[u8], level| with(program, level, Checks::Guards);
        let (second, third) = (of(b"one", Level::V2), of(b"one", Level::V3));
        assert_eq!(second, of(b"one", Level::V2));
        assert!(second != third && second != of(b"two", Level::V2));
        assert_ne!(second, with(b"one", Level::V2, Checks::Explicit));
        fs::write(tools.path().join("compile"), "a later one").expect("written");
        assert_ne!(second, of(b"one", Level::V2));
    }
}
