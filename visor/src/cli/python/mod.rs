//! Makes a function image of a Python program, for `monohull build app.py` and for a folder with a program.
//!
//! ```text
//!   app.py, or a folder ─── sources.rs ──▶ the slot `sources`
//!   python/python.so ─────── a workflow of one step: `python/pack.py` compiles them ──▶ the slot `archive`
//!   python/python.so + archive ─── image.rs ──▶ app.so
//! ```
//!
//! The interpreter's image lies in the folder `python` beside the program. It is not linked again: the archive of bytecode becomes the
//! contents of a segment that it has for that. The interpreter compiles the program itself, so nothing of the host's Python is
//! needed, and the bytecode is of the version that runs it.

mod image;
mod sources;

use std::fs;
use std::path::Path;

use serde_json::json;

use super::build::{BuildError, Built, check, install};
use super::isolation::Isolation;
use monohull_domain::image::Image;
use monohull_engine::RunOptions;
use monohull_engine::options::folder_beside_program;
use monohull_report::{RunReport, Stream};
use monohull_worker::cgroup::CgroupMode;
use monohull_worker::{self as worker, Continuing, Ran};
use monohull_workflow as workflow;

/// What the interpreter's image is called in its folder.
const INTERPRETER: &str = "python.so";
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
pub(super) fn build_program(program: &Path, out: Option<&Path>) -> Result<Built, BuildError> {
    let file = |path: &Path| {
        let path = path.to_path_buf();
        |source| BuildError::File { path, source }
    };
    let interpreter = folder_beside_program("python").map(|folder| folder.join(INTERPRETER));
    let interpreter = interpreter.filter(|image| image.is_file()).ok_or(BuildError::NoPython)?;
    let whole = program.canonicalize().map_err(file(program))?;
    let name = whole.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let sources = sources::read(&whole)?;
    let archive = pack(&interpreter, program, &sources)?;
    let runtime = fs::read(&interpreter).map_err(file(&interpreter))?;
    let image = image::with_archive(runtime, &archive)
        .map_err(|error| BuildError::PythonInterpreter { path: interpreter, why: error.to_string() })?;

    let own = if program.is_dir() { program } else { program.parent().unwrap_or(Path::new("")) };
    let folder = out.unwrap_or(own);
    let path = folder.join(format!("{name}.so"));
    let report = check(&path, &image)?;
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

/// Has the interpreter compile the files: a workflow of one step, in a process of its own as any other.
fn pack(interpreter: &Path, program: &Path, sources: &sources::Sources) -> Result<Vec<u8>, BuildError> {
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
    match worker::run_from(&plan, &options, CgroupMode::Never, None, continuing) {
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
