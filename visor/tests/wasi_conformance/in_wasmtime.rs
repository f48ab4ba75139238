//! The program in Wasmtime.

use super::cases::{Case, Run, Subject};
use super::here::program;
use super::outcome::{Outcome, RETURNED, trap};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What `cargo xtask test` has fetched.
fn fetched() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasmtime/fetched")
}

/// What came of all cases: one process runs them all when the first is asked for.
pub(super) struct Wasmtime {
    place: PathBuf,
    ran: OnceLock<Result<(), String>>,
}

impl Wasmtime {
    pub(super) fn new(place: PathBuf) -> Wasmtime {
        Wasmtime { place, ran: OnceLock::new() }
    }

    /// What came of a case.
    pub(super) fn outcome(&self, subjects: &[Subject], subject: &Subject, case: &Case) -> Result<Outcome, String> {
        self.ran.get_or_init(|| self.run_all(subjects)).clone()?;
        let folder = self.folder(subject, case.settings.as_ref().map(|_| case));
        whole(&folder)?.of_case(&case.name, &folder, case.settings.is_some())
    }

    /// The folder of a run: of one case, or of those of a subject that run together.
    fn folder(&self, subject: &Subject, case: Option<&Case>) -> PathBuf {
        self.place.join(case.map_or(subject.name.clone(), |case| format!("{}.{}", subject.name, case.name)))
    }

    fn run_all(&self, subjects: &[Subject]) -> Result<(), String> {
        let mut runs = Vec::new();
        for subject in subjects {
            runs.push(prepared(&self.folder(subject, None), &subject.together())?);
            for case in &subject.cases {
                if let Some(run) = case.alone() {
                    let folder = self.folder(subject, Some(case));
                    case.prepare(&folder.join("root"))?;
                    runs.push(prepared(&folder, &run)?);
                }
            }
        }
        run_all(&runs)
    }
}

/// Has Wasmtime run all of these, of which each says what and in which folder.
pub(super) fn run_all(runs: &[Value]) -> Result<(), String> {
    let wasmtime = fetched();
    if !wasmtime.exists() {
        return Err(format!("there is no {}: Wasmtime is fetched first, run `cargo xtask test`", wasmtime.display()));
    }
    let mut python = Command::new("python3");
    python.arg(super::cases::folder().join("in_wasmtime.py"));
    python.env("PYTHONPATH", wasmtime).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped());
    let mut python = python.stderr(Stdio::piped()).spawn().map_err(|error| format!("python3: {error}"))?;
    let asked = json!({ "module": program(), "returned": RETURNED, "runs": runs }).to_string();
    // If it ends early it says why.
    let _ = python.stdin.take().expect("piped").write_all(asked.as_bytes());
    let ended = python.wait_with_output().map_err(|error| error.to_string())?;
    if ended.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ended.stderr).into_owned()) }
}

/// What a run has printed, and how it has ended.
pub(super) fn whole(folder: &Path) -> Result<Outcome, String> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let lines = |text: String| text.lines().map(str::to_owned).collect();
    let end = match read("end")? {
        status if status.starts_with("status ") => status,
        message => trap(&message),
    };
    Ok(Outcome { output: lines(read("stdout")?), errors: lines(read("stderr")?), end, files: Vec::new() })
}

/// Makes the folder of a run, and says what is to be run there.
fn prepared(folder: &Path, run: &Run) -> Result<Value, String> {
    fs::create_dir_all(folder.join("root")).map_err(|error| error.to_string())?;
    let stdin = run.settings.stdin.as_ref().map(|text| {
        let file = folder.join("stdin");
        fs::write(&file, text).expect("written");
        file
    });
    let argv: Vec<&str> =
        ["app", &run.script].into_iter().chain(run.settings.args.iter().map(String::as_str)).collect();
    Ok(json!({ "folder": folder, "argv": argv, "env": run.settings.env, "stdin": stdin }))
}
