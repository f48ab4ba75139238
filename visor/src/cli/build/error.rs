//! Why an image cannot be built, and who is at fault.

use std::io;
use std::path::{Path, PathBuf};

use crate::cli::cargo;
use crate::cli::exit::Exit;
use crate::cli::host_libraries::HostLibrary;
use crate::cli::languages::{Lang, Template};
use crate::cli::real_std::PrepareError;
use monohull_checker::Report;
use monohull_domain::image::ImageError;
use monohull_report::escape::{Lines, shown};
use monohull_workflow::Blame;

/// Why an image cannot be built.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(in super::super) enum BuildError {
    /// there is no crate; the invocation is at fault
    #[error("{} is no crate: it has no Cargo.toml{}", shown(path), if remedy.is_empty() { String::new() } else { format!("; {remedy}") })]
    NoCrate {
        /// The folder.
        path: PathBuf,
        /// What to do.
        remedy: String,
    },
    /// there is no program of that name; the invocation is at fault
    #[error("{}: there is no such file", shown(.0))]
    NoFile(PathBuf),
    /// a source file is given in place of a crate; the invocation is at fault
    #[error("{} is a source file and no crate: {}", shown(path), remedy)]
    SourceFile {
        /// The file.
        path: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// the folder is that of a workspace; the invocation is at fault
    #[error("{} is a workspace without a crate of its own: name the folder of one of {}", shown(path), members.join(", "))]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// The folders of its crates.
        members: Vec<String>,
    },
    /// the crate has no library; its manifest is at fault
    #[error("the crate {0} is on monohull-std and has no library (src/lib.rs), which is what its image is made of")]
    NoLibrary(String),
    /// the crate has nothing to make an image of; its manifest is at fault
    #[error("the crate {0} has no program (src/main.rs) and no library with a function `main`")]
    NoProgram(String),
    /// the crate has no program of that name; the invocation is at fault
    #[error("the crate {package} has no program {wanted}; it has {}", programs.join(", "))]
    UnknownProgram {
        /// The crate.
        package: String,
        /// The name that was given.
        wanted: String,
        /// What it has.
        programs: Vec<String>,
    },
    /// the crate has no example of that name; the invocation is at fault
    #[error("the crate {package} has no example {wanted}; it has {}", if examples.is_empty() { "none".to_owned() } else { examples.join(", ") })]
    UnknownExample {
        /// The crate.
        package: String,
        /// The name that was given.
        wanted: String,
        /// What it has.
        examples: Vec<String>,
    },
    /// the workspace has no crate of that name; the invocation is at fault
    #[error("the workspace has no crate {wanted}; it has {}", packages.join(", "))]
    UnknownPackage {
        /// The name that was given.
        wanted: String,
        /// What it has.
        packages: Vec<String>,
    },
    /// the crate has several programs; the invocation is at fault
    #[error("the crate {package} has several programs: --bin NAME chooses one of {}", programs.join(", "))]
    ManyPrograms {
        /// The crate.
        package: String,
        /// What it has.
        programs: Vec<String>,
    },
    /// cargo cannot be prepared for the real std; the host is at fault
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// cargo cannot be started; the host is at fault
    #[error("cannot start {}: {source}", shown(program))]
    NoCargo {
        /// What was started.
        program: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// cargo finds no crate of ours; the crate's folder does not say where it lies
    #[error(
        "the crate `{0}` is published nowhere yet, and cargo has not been told where it lies on this machine: `monohull init` in the \
         crate's folder writes it down"
    )]
    Unpublished(String),
    /// cargo failed; it has said why, and the crate is at fault
    #[error("cargo could not build {}; the crate is at fault", shown(.0))]
    Cargo(PathBuf),
    /// a crate brings the real std along; the function's manifest is at fault
    #[error("{0}")]
    RealStd(String),
    /// a crate links a static library of the host; the crate is at fault
    #[error(transparent)]
    HostLibrary(#[from] HostLibrary),
    /// cargo's answer cannot be read; Monohull is at fault
    #[error("cargo's answer is not understood: {0}")]
    Answer(#[from] serde_json::Error),
    /// the image is no ELF file the checker can read; Monohull is at fault
    #[error("the image {} cannot be checked: {source}", shown(path))]
    Unchecked {
        /// The image.
        path: PathBuf,
        /// What is wrong with it.
        source: monohull_checker::CheckError,
    },
    /// the loader would refuse the image; the function, or a crate that it uses, is at fault
    #[error("the image {} cannot be loaded: {source}\n{explanation}", shown(path))]
    Unloadable {
        /// The image.
        path: PathBuf,
        /// What the loader says.
        source: ImageError,
        /// Which function asks for it, and what to do.
        explanation: String,
    },
    #[error("the image {} holds instructions that user code must not contain; the function is at fault", shown(path))]
    Refused {
        /// The image.
        path: PathBuf,
        /// What the checker found.
        report: Box<Report>,
    },
    /// other instructions hold the bytes of forbidden ones, in every layout; the function is at fault
    #[error(
        "instructions of the image {} happen to hold the bytes of forbidden ones, also in {} other layouts; the \
         function's code has to change there",
        shown(path),
        layouts
    )]
    Accidents {
        /// The image.
        path: PathBuf,
        /// What the checker found, in the usual layout.
        report: Box<Report>,
        /// How many others were tried.
        layouts: usize,
    },
    /// instructions of a WebAssembly program's compiled code hold forbidden bytes, however it is compiled; the program is at fault
    #[error(
        "the compiled code of {} happens to hold the bytes of forbidden instructions, in each way to compile it. What \
         has to change: {}",
        shown(path),
        shown(&refused_functions(report))
    )]
    AccidentsInProgram {
        /// The program.
        path: PathBuf,
        /// What the checker found the first time.
        report: Box<Report>,
    },
    /// an option is for a program, and this is none; the invocation is at fault
    #[error("{}: `{option}` is for a WebAssembly program, and this is none", shown(path))]
    NoWasm {
        /// What is none.
        path: PathBuf,
        /// The option.
        option: &'static str,
    },
    /// a workflow file names a crate; the workflow file is at fault
    #[error(
        "{} is a crate and no image: `monohull build` makes one of it, for the workflow file to name. No other command does: a \
         crate's build scripts run on this host",
        shown(_0)
    )]
    Crate(PathBuf),
    /// a workflow file names a folder that is no program; the workflow file is at fault
    #[error("{} is a folder without a program: a Python program has `main.py` or `__main__.py`", shown(_0))]
    NoProgramInFolder(PathBuf),
    /// a workflow file names a source file; the workflow file is at fault
    #[error("{} is source and no image: {remedy}, for the workflow file to name", shown(path))]
    Source {
        /// What the workflow file names.
        path: PathBuf,
        /// What makes an image or a program of it.
        remedy: &'static str,
    },
    /// the folder `wasi` is missing; the installation is at fault
    #[error("there is no folder `wasi` with the compiler of WebAssembly programs; `cargo xtask build` makes one")]
    NoWasi,
    /// the compiler refuses the program; the program is at fault
    #[error("{} cannot be compiled: {}", shown(program), shown(why))]
    WasiCompiler {
        /// The program.
        program: PathBuf,
        /// What the compiler says.
        why: String,
    },
    /// the folder `python` is missing; the installation is at fault
    #[error(
        "there is no folder `python` with the interpreter of Python programs, and MONOHULL_PYTHON names none; \
         `cargo xtask build --python` makes one"
    )]
    NoPython,
    /// the folder `python` lacks the interpreter that is a WebAssembly program; the installation is at fault
    #[error("there is no interpreter of Python programs for WebAssembly; `cargo xtask build --python-wasi` makes one")]
    NoPythonForWasi,
    /// something else than a Python program is to be built for WebAssembly by its interpreter; the invocation or the workflow file is at fault
    #[error("{} is no Python program: `wasi` is how one is built", shown(_0))]
    NoPythonProgram(PathBuf),
    /// the program's source is wrong, or it needs what a function does not have; the program is at fault
    #[error("{} cannot be built:\n{}", shown(path), Lines(why))]
    PythonProgram {
        /// The program.
        path: PathBuf,
        /// What the interpreter says.
        why: String,
    },
    /// the interpreter's image has no place for a program; the installation is at fault
    #[error("{} is no interpreter that a program can be put into: {why}", shown(path))]
    PythonInterpreter {
        /// The interpreter's image.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// binutils' objcopy cannot be started, or fails; the host is at fault
    #[error("cannot separate debug information from {}: objcopy (binutils): {why}", shown(path))]
    Objcopy {
        /// The image.
        path: PathBuf,
        /// What the host or objcopy said.
        why: String,
    },
    /// a file cannot be read or written; the host is at fault
    #[error("{}: {source}", shown(path))]
    File {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
}

/// The functions in which something was refused, each once.
fn refused_functions(report: &Report) -> String {
    let mut functions: Vec<String> = Vec::new();
    for finding in report.refusals() {
        let function = finding.symbol.clone().unwrap_or_else(|| format!("code at file offset {:#x}", finding.offset));
        let words = format!("{function} ({})", finding.kind);
        if !functions.contains(&words) {
            functions.push(words);
        }
    }
    functions.join(", ")
}

/// What makes an image or a program of a source file, by how it is called.
fn what_makes_source(path: &Path) -> Option<&'static str> {
    Some(match path.extension()?.to_str()? {
        "c" => "`monohull cc FILE -o IMAGE.so` makes an image of C",
        "cc" | "cpp" | "cxx" => "`monohull c++ FILE -o IMAGE.so` makes an image of C++",
        "rs" => "`monohull build` takes the folder with its Cargo.toml",
        "go" => "`GOOS=wasip1 GOARCH=wasm go build -o app.wasm` in its folder makes a WebAssembly program",
        "wat" | "wast" => "`wat2wasm FILE` (wabt) makes a program of WebAssembly as text",
        _ => return None,
    })
}

/// What makes an image or a program of a folder that is no crate, or makes a crate.
fn instead_of_crate(path: &Path) -> String {
    let (text, is_here) = (shown(path), path == Path::new(".") || path.as_os_str().is_empty());
    let enter = if is_here { String::new() } else { format!("cd {text} && ") };
    match Lang::of_folder(path).and_then(|lang| lang.template("", false)) {
        Some(Template { build: Some(build), .. }) => format!("`{enter}{build}` builds what is in it"),
        Some(Template { image, .. }) => {
            let workflow = path.join("workflow.json");
            let (run, what) =
                if workflow.is_file() { (workflow, "its workflow") } else { (path.join(image), "its program") };
            let run = run.strip_prefix(".").unwrap_or(&run);
            format!("it needs no build: `monohull run {}` runs {what}", shown(run))
        }
        None if path.is_dir() => "`monohull new NAME` makes one".to_owned(),
        None => String::new(),
    }
}

impl BuildError {
    /// That a workflow file names a source file, if this is one.
    pub(in super::super) fn of_source(path: &Path) -> Option<BuildError> {
        let remedy = what_makes_source(path).filter(|_| path.is_file())?;
        Some(BuildError::Source { path: path.to_path_buf(), remedy })
    }

    /// What a path without a manifest is.
    pub(super) fn no_crate(path: &Path) -> BuildError {
        let Some(remedy) = what_makes_source(path) else {
            return match path.extension().and_then(|end| end.to_str()) {
                Some("wasm" | "js" | "mjs" | "cjs" | "py") if !path.exists() => BuildError::NoFile(path.to_path_buf()),
                _ => BuildError::NoCrate { path: path.to_path_buf(), remedy: instead_of_crate(path) },
            };
        };
        match path.is_file() {
            true => BuildError::SourceFile { path: path.to_path_buf(), remedy },
            false => BuildError::NoCrate { path: path.to_path_buf(), remedy: String::new() },
        }
    }

    pub(super) fn no_cargo(source: io::Error) -> BuildError {
        BuildError::NoCargo { program: cargo::program().into(), source }
    }

    /// Who is at fault where a workflow file names the program: the file, or the function.
    pub(in super::super) fn blame(&self) -> Blame {
        match self {
            BuildError::Crate(_)
            | BuildError::NoProgramInFolder(_)
            | BuildError::NoPythonProgram(_)
            | BuildError::Source { .. } => Blame::Workflow,
            _ => Blame::Function,
        }
    }

    pub(in super::super) fn exit(&self) -> Exit {
        match self {
            BuildError::NoCargo { .. } | BuildError::Objcopy { .. } | BuildError::File { .. } => Exit::Host,
            BuildError::Prepare(_) => Exit::Host,
            _ => Exit::Usage,
        }
    }
}
