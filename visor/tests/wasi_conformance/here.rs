//! The program as a function.

use super::cases::{Case, Run, Subject};
use super::outcome::{Outcome, RETURNED, trap};
use monohull_visor::domain::keys::support;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The program; `cargo xtask build` compiles it.
pub(super) fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasi/conformance.wasm")
}

/// What the program finds at `/`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Mount {
    /// Files in memory.
    Memory,
    /// A directory of the host.
    Directory,
}

impl Mount {
    pub(super) const ALL: [Mount; 2] = [Mount::Memory, Mount::Directory];
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mount::Memory => "memory",
            Mount::Directory => "directory",
        })
    }
}

/// The image, and what came of runs.
pub(super) struct Here {
    place: PathBuf,
    image: OnceLock<Result<PathBuf, String>>,
    /// Of the cases of a subject that run together.
    together: HashMap<(Mount, String), OnceLock<Result<Outcome, String>>>,
}

impl Here {
    pub(super) fn new(place: PathBuf, subjects: &[Subject]) -> Here {
        let both = subjects.iter().flat_map(|subject| Mount::ALL.map(|mount| (mount, subject.name.clone())));
        Here { place, image: OnceLock::new(), together: both.map(|key| (key, OnceLock::new())).collect() }
    }

    /// What came of a case.
    pub(super) fn outcome(&self, mount: Mount, subject: &Subject, case: &Case) -> Result<Outcome, String> {
        match case.alone() {
            Some(run) => {
                let folder = self.place.join(format!("{mount}.{}.{}", subject.name, case.name));
                case.prepare(&folder.join("root"))?;
                self.run(mount, &folder, &run)?.of_case(&case.name, &folder, true)
            }
            None => {
                let folder = self.place.join(format!("{mount}.{}", subject.name));
                let known = &self.together[&(mount, subject.name.clone())];
                let whole = known.get_or_init(|| self.run(mount, &folder, &subject.together())).as_ref();
                whole.map_err(Clone::clone)?.of_case(&case.name, &folder, false)
            }
        }
    }

    fn run(&self, mount: Mount, folder: &Path, run: &Run) -> Result<Outcome, String> {
        let image = self.image.get_or_init(|| self.build()).clone()?;
        fs::create_dir_all(folder.join("root")).map_err(|error| error.to_string())?;
        let mut files = match mount {
            Mount::Memory => json!({ "memory": "16MiB" }),
            Mount::Directory => json!({ "directory": "root", "access": "write" }),
        };
        files["at"] = json!("/");
        let argv: Vec<&String> = [&run.script].into_iter().chain(&run.settings.args).collect();
        let env: Map<String, Value> =
            run.settings.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut document = json!({
            "name": "conformance",
            "functions": { "app": { "image": image } },
            "files": [files],
            "steps": [{ "name": "app", "function": "app", "args": { "argv": argv }, "env": env }],
        });
        let file = folder.join("run.json");
        let mut options = vec!["run".to_owned(), "--json".to_owned(), file.display().to_string()];
        if let Some(stdin) = &run.settings.stdin {
            document["inputs"] = json!(["in"]);
            document["steps"][0]["stdin"] = json!("in");
            fs::write(folder.join("in"), stdin).map_err(|error| error.to_string())?;
            options.extend(["--input".to_owned(), format!("in={}", folder.join("in").display())]);
        }
        if support().is_available() {
            options.extend(["--isolation".to_owned(), "mpk".to_owned()]);
        }
        fs::write(&file, document.to_string()).map_err(|error| error.to_string())?;
        Ok(outcome(&report(&options)?))
    }

    fn build(&self) -> Result<PathBuf, String> {
        let (program, copy) = (program(), self.place.join("conformance.wasm"));
        fs::create_dir_all(&self.place).map_err(|error| error.to_string())?;
        fs::copy(&program, &copy)
            .map_err(|error| format!("{}: {error}: it is built first, run `cargo xtask test`", program.display()))?;
        let built = monohull(&["build".to_owned(), copy.display().to_string()]);
        if !built.status.success() {
            return Err(String::from_utf8_lossy(&built.stderr).into_owned());
        }
        Ok(copy.with_extension("so"))
    }
}

/// The report of a run.
pub(super) fn report(options: &[String]) -> Result<Value, String> {
    let ended = monohull(options);
    serde_json::from_slice(&ended.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&ended.stderr)))
}

/// What the only instance has printed, and how it has ended.
pub(super) fn outcome(report: &Value) -> Outcome {
    let instance = &report["steps"][0]["instances"][0];
    let lines = |stream: &str| -> Vec<String> {
        let of = instance["lines"].as_array().into_iter().flatten().filter(|line| line["stream"] == stream);
        of.filter_map(|line| line["text"].as_str()).map(str::to_owned).collect()
    };
    Outcome { output: lines("stdout"), errors: lines("stderr"), end: end_of(report), files: Vec::new() }
}

pub(super) fn monohull(arguments: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.args(arguments).stdin(Stdio::null()).output().expect("monohull starts")
}

/// The end by the words that both have.
fn end_of(report: &Value) -> String {
    if report["status"] == "done" {
        return RETURNED.to_owned();
    }
    let message = report["error"]["message"].as_str().unwrap_or_default();
    match message.strip_prefix("exited with status ") {
        Some(status) => format!("status {status}"),
        None => trap(message),
    }
}
