//! Makes a function image of a Python program, a file or a folder, for `monohull build app.py` and for workflow files that name one
//! (`programs`).
//!
//! ```text
//!   app.py, or a folder ─── sources.rs ──▶ the slot `sources`
//!   requirements.txt in it ─ requirements.rs ──▶ wheels, in the same slot
//!   python/python.so ─────── a workflow of one step: `python/pack.py` compiles them ──▶ the slot `archive`
//!   python/python.so + archive ─── image.rs ──▶ app.so
//! ```
//!
//! A program that is built for WebAssembly has another interpreter, `python/python-wasi.so`, which compiles it in the same way. The compiler of
//! WebAssembly programs attaches the archive to it (`wasm`).
//!
//! The interpreter's image lies in the folder `python` beside the program, or in the one that `MONOHULL_PYTHON` names. It is not linked
//! again: the archive of bytecode becomes the contents of a segment that it has for that. The interpreter compiles the program itself, so nothing of the host's Python is
//! needed, and the bytecode is of the version that runs it.

mod image;
mod requirements;
mod sources;

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};

use super::build::{BuildError, Built, check, install};
use super::image_cache::{Entry, state_of};
use super::isolation::Isolation;
use super::wasm;
use monohull_domain::image::Image;
use monohull_engine::RunOptions;
use monohull_engine::options::folder_beside_program;
use monohull_ipc::sealed::{read_sealed, seal, seal_written};
use monohull_report::{RunReport, Stream};
use monohull_worker::cgroup::CgroupMode;
use monohull_worker::{self as worker, Continuing, Ran};
use monohull_workflow::{self as workflow, Target};

/// What the interpreters' images are called in their folder.
const INTERPRETER: &str = "python.so";
const INTERPRETER_FOR_WASI: &str = "python-wasi.so";
/// Names another folder than the one beside the program.
const OVERRIDE: &str = "MONOHULL_PYTHON";
/// For the compiler, whose parser calls itself.
const STACK: &str = "16MiB";

/// Whether the path is a Python program: a file that is called so, or a folder with one to run and no crate.
pub(super) fn is_program(path: &Path) -> bool {
    match path.is_dir() {
        true => !path.join("Cargo.toml").exists() && sources::main_of(path).is_some(),
        false => path.extension().is_some_and(|end| end == "py"),
    }
}

/// Puts the image of the program into `out`, or into its folder. It is called as the file or the folder is. One that the loader would refuse is
/// not put anywhere.
pub(super) fn build_program(program: &Path, out: Option<&Path>, target: Target) -> Result<Built, BuildError> {
    let interpreter = Interpreter::find(target)?;
    let whole = program.canonicalize().map_err(file(program))?;
    let name = whole.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let sources = sources::read(&whole)?;
    let archive = pack(&interpreter.path, program, &sources)?;
    let image = read_sealed(interpreter.image(&archive)?, u64::MAX).map_err(file(&interpreter.path))?;

    let own = if program.is_dir() { program } else { program.parent().unwrap_or(Path::new("")) };
    let folder = out.unwrap_or(own);
    let path = folder.join(format!("{name}.so"));
    let mut report = check(&path, &image)?;
    if target == Target::Wasi {
        wasm::without_system_calls(&image, &mut report);
    }
    if report.is_refused() {
        return Err(BuildError::Refused { path, report: Box::new(report) });
    }
    Image::parse(&name, &image).map_err(|source| BuildError::Unloadable {
        path: path.clone(),
        source,
        explanation: String::new(),
    })?;
    install(folder, &path, &image).map_err(file(&path))?;
    Ok(Built { path, report, layout: None, refused: Vec::new() })
}

/// The image of a program that a workflow file names, in sealed memory. What is cached is the archive: the interpreter is there already.
///
/// Of one for the processor also a hash that is another one whenever the image is: to hash the interpreter takes longer than to start it.
pub(super) fn cached_image(program: &Path, target: Target) -> Result<(OwnedFd, Option<[u8; 32]>), BuildError> {
    let interpreter = Interpreter::find(target)?;
    let sources = sources::read(&program.canonicalize().map_err(file(program))?)?;
    let entry = Entry::of("python", identity(&interpreter, &sources)?);
    let archive = match entry.as_ref().and_then(Entry::read) {
        Some(archive) => archive,
        None => {
            let archive = pack(&interpreter.path, program, &sources)?;
            // Without an entry the program is compiled again the next time.
            let _ = entry.map(|entry| entry.write(&archive));
            archive
        }
    };
    let state = state_of(&interpreter.file.metadata().map_err(file(&interpreter.path))?);
    let of_parts = || Sha256::new().chain_update("monohull python image").chain_update(state).chain_update(&archive);
    let known = (target == Target::Native).then(|| of_parts().finalize().into());
    Ok((interpreter.image(&archive)?, known))
}

/// The hash of all that decides what an archive is. It decides nothing but what the function does.
fn identity(interpreter: &Interpreter, sources: &sources::Sources) -> Result<[u8; 32], BuildError> {
    let mut hash = Sha256::new().chain_update(concat!("monohull python ", env!("CARGO_PKG_VERSION")));
    hash.update(state_of(&interpreter.file.metadata().map_err(file(&interpreter.path))?));
    hash.update(Sha256::digest(&sources.main));
    Ok(hash.chain_update(Sha256::digest(sources.framed())).finalize().into())
}

/// The files of a program in a folder. Nothing if it cannot be read.
pub(super) fn files_of(program: &Path) -> Vec<PathBuf> {
    sources::list(program).unwrap_or_default().into_iter().map(|(_, path)| path).collect()
}

/// The interpreter's image.
struct Interpreter {
    path: PathBuf,
    file: File,
    target: Target,
}

/// Where the interpreter is that programs run in, or that it is not there.
pub(super) fn interpreter(target: Target) -> Result<String, String> {
    let found = Interpreter::find(target).map(|found| monohull_report::escape::shown(&found.path).to_string());
    found.map_err(|_| "not found".to_owned())
}

impl Interpreter {
    fn find(target: Target) -> Result<Interpreter, BuildError> {
        let (name, missing) = match target {
            Target::Native => (INTERPRETER, BuildError::NoPython),
            Target::Wasi => (INTERPRETER_FOR_WASI, BuildError::NoPythonForWasi),
        };
        let named = std::env::var_os(OVERRIDE).map(PathBuf::from);
        let path = named.or_else(|| folder_beside_program("python")).map(|folder| folder.join(name));
        let path = path.filter(|image| image.is_file()).ok_or(missing)?;
        let file = File::open(&path).map_err(file(&path))?;
        Ok(Interpreter { path, file, target })
    }

    /// The image with a program, in sealed memory.
    fn image(&self, archive: &[u8]) -> Result<OwnedFd, BuildError> {
        if self.target == Target::Wasi {
            let image = wasm::attach(&self.path, archive)?;
            return seal(&image, 0).map_err(file(&self.path));
        }
        let image = seal_written(|mut memory| {
            (&self.file).rewind()?;
            io::copy(&mut &self.file, &mut memory)?;
            image::add_archive(memory, archive)
        });
        image.map_err(|error| BuildError::PythonInterpreter { path: self.path.clone(), why: error.to_string() })
    }
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_path_buf();
    |source| BuildError::File { path, source }
}

/// Has the interpreter compile the files: a workflow of one step, in a process of its own as any other.
fn pack(interpreter: &Path, program: &Path, sources: &sources::Sources) -> Result<Vec<u8>, BuildError> {
    if sources.has_wheels {
        requirements::note_unread(program);
    }
    let failed = |why: String| BuildError::PythonProgram { path: program.to_path_buf(), why };
    let folder = tempfile::tempdir().map_err(|source| BuildError::File { path: std::env::temp_dir(), source })?;
    let archive = folder.path().join("archive");
    let document = json!({
        "name": "pack",
        "functions": { "python": { "image": interpreter } },
        "steps": [{ "name": "pack", "function": "python", "stack": STACK, "args": { "argv": ["-m", "_monohull_pack", sources.main] } }],
        "inputs": ["sources"],
        "outputs": ["archive"],
    });
    let plan = workflow::check_bytes(&folder.path().join("pack.json"), document.to_string().as_bytes()).into_plan();
    let plan = plan.map_err(|error| failed(error.to_string()))?;
    let options = RunOptions {
        inline_inputs: vec![("sources".to_owned(), sources.framed())],
        outputs: vec![("archive".to_owned(), archive.clone())],
        isolation: Isolation::default().wish().map_err(failed)?,
        ..RunOptions::default()
    };
    let continuing = Continuing { continuation: None, suspend: None };
    match worker::run_from(&plan, &options, CgroupMode::Never, None, continuing, None) {
        Ok(Ran::Ended(report)) => match &report.error {
            None => fs::read(&archive).map_err(|source| BuildError::File { path: archive, source }),
            Some(error) => Err(failed(said(&report).unwrap_or_else(|| error.message.clone()))),
        },
        Ok(Ran::Suspended(_)) => Err(failed("its compiler waits".to_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// What the compiler has printed about the program.
fn said(report: &RunReport) -> Option<String> {
    let instances = report.steps.iter().flat_map(|step| &step.instances);
    let lines = instances.flat_map(|instance| &instance.lines).filter(|line| line.stream == Stream::Stderr);
    let lines: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
