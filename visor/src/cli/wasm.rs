//! Makes a function image of a WebAssembly program, for `monohull build app.wasm` and for workflow files that name one (`programs`).
//!
//! The compiler and the runtime's image lie in the folder `wasi` beside the program. The compiler is a program of its own: it reads
//! untrusted programs, and would otherwise be a part of every process of the visor. Its output is checked as any image is.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::build::{BuildError, Built, check, install, is_accident};
use super::image_cache::Entry;
use monohull_checker::Report;
use monohull_domain::image::Image;
use monohull_engine::options::folder_beside_program;

/// What every WebAssembly module begins with.
const MAGIC: [u8; 4] = *b"\0asm";
/// Ways in which the compiler can generate code; the first is the usual one.
const VARIANTS: [&str; 4] = ["0", "1", "2", "3"];

/// What keeps a program in its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Checks {
    /// Pages without access around it.
    Guards,
    /// Instructions that compare each address.
    Explicit,
}

/// Whether the path is a file that claims to be a WebAssembly module, by its name or its first bytes.
pub(super) fn is_program(path: &Path) -> bool {
    let begins = || {
        let mut start = [0; MAGIC.len()];
        File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == MAGIC
    };
    path.is_file() && (path.extension().is_some_and(|end| end == "wasm") || begins())
}

/// Compiles the program and puts its image into `out`, or beside it. The image is called as the program is, and ends in `.so`. One that
/// the loader would refuse is not put anywhere.
pub(super) fn build_program(program: &Path, out: Option<&Path>, checks: Checks) -> Result<Built, BuildError> {
    let name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let beside = program.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = out.unwrap_or(beside);
    let path = folder.join(format!("{name}.so"));
    let (image, report) = compile_program(&tools()?, program, &read(program)?, &path, checks)?;
    install(folder, &path, &image).map_err(|source| BuildError::File { path: path.clone(), source })?;
    Ok(Built { path, report, layout: None, refused: Vec::new() })
}

/// The image of a program that a workflow file names: from the cache, or compiled now.
pub(super) fn cached_image(program: &Path) -> Result<Vec<u8>, BuildError> {
    let tools = tools()?;
    let bytes = read(program)?;
    let entry = Entry::of("wasi", identity(&tools, &bytes)?);
    if let Some(image) = entry.as_ref().and_then(Entry::read) {
        return Ok(image);
    }
    let (image, _) = compile_program(&tools, program, &bytes, &program.with_extension("so"), Checks::Guards)?;
    // Without an entry the program is compiled again the next time.
    let _ = entry.map(|entry| entry.write(&image));
    Ok(image)
}

/// The hash of all that decides what is compiled: this program's version has the list of variants, the compiler its settings and the
/// processor's level.
fn identity(tools: &Path, program: &[u8]) -> Result<[u8; 32], BuildError> {
    let mut hash = Sha256::new().chain_update(concat!("monohull wasi ", env!("CARGO_PKG_VERSION")));
    for part in ["compile", "runtime.so"] {
        hash.update(Sha256::digest(read(&tools.join(part))?));
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
    checks: Checks,
) -> Result<(Vec<u8>, Report), BuildError> {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let mut first = None;
    for variant in VARIANTS {
        let image = compile(tools, program, bytes, variant, checks)?;
        let report = check(path, &image)?;
        if !report.is_refused() {
            Image::parse(&name, &image).map_err(|source| BuildError::Unloadable {
                path: path.to_path_buf(),
                source,
                explanation: String::new(),
            })?;
            return Ok((image, report));
        }
        // The compiler emits no forbidden instruction, so others than accidents can only come from a broken compiler.
        if !report.refusals().all(is_accident) {
            return Err(BuildError::Refused { path: path.to_path_buf(), report: Box::new(report) });
        }
        first.get_or_insert(Box::new(report));
    }
    Err(BuildError::AccidentsInProgram { path: program.to_path_buf(), report: first.unwrap_or_default() })
}

/// What the compiler makes of the program. It reads a copy of `bytes`: the file may change while it works.
fn compile(tools: &Path, program: &Path, bytes: &[u8], variant: &str, checks: Checks) -> Result<Vec<u8>, BuildError> {
    let folder = tempfile::tempdir().map_err(|source| BuildError::File { path: std::env::temp_dir(), source })?;
    let (copy, image) = (folder.path().join("program"), folder.path().join("image"));
    fs::write(&copy, bytes).map_err(|source| BuildError::File { path: copy.clone(), source })?;
    let compiler = tools.join("compile");
    let failed = |why: String| BuildError::WasiCompiler { program: program.to_path_buf(), why };
    let output = Command::new(&compiler)
        .arg("--runtime")
        .arg(tools.join("runtime.so"))
        .arg("--output")
        .args([&image, &copy])
        .args(["--variant", variant])
        .args((checks == Checks::Explicit).then_some("--explicit-checks"))
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|source| BuildError::File { path: compiler, source })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // The copy has a name that says nothing.
        let said = said.replace(&*copy.to_string_lossy(), &program.to_string_lossy());
        return Err(failed(if said.is_empty() { format!("it ended with {}", output.status) } else { said }));
    }
    read(&image)
}
