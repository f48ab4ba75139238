//! Running a shipped workflow, as it is or with other numbers of instances.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root")
}

/// A shipped workflow that a test may change before it runs it.
pub(crate) struct Workflow {
    document: Value,
}

/// What a run left behind.
pub(crate) struct Ran {
    /// The exit code.
    pub(crate) code: i32,
    /// The document that `--json` prints.
    pub(crate) report: Value,
    /// The output slot's bytes, if it was written.
    pub(crate) output: Option<Vec<u8>>,
}

impl Workflow {
    /// `workflows/NAME.json`, with its images named in full.
    pub(crate) fn shipped(name: &str) -> Workflow {
        let path = root().join("workflows").join(name).with_extension("json");
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut document: Value = serde_json::from_slice(&text).expect("a shipped workflow is JSON");
        for function in document["functions"].as_object_mut().expect("functions are an object").values_mut() {
            let image = root().join("workflows").join(function["image"].as_str().expect("an image is a path"));
            let image = image.canonicalize().unwrap_or_else(|error| {
                panic!("{}: {error}; images are built first: run `cargo xtask test`", image.display())
            });
            function["image"] = image.to_str().expect("the repository's path is UTF-8").into();
        }
        for mount in document.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(directory) = mount["directory"].as_str().map(|path| root().join("workflows").join(path)) {
                mount["directory"] = directory.to_str().expect("the repository's path is UTF-8").into();
            }
        }
        Workflow { document }
    }

    /// The document, to be changed.
    pub(crate) fn document(&mut self) -> &mut Value {
        &mut self.document
    }

    /// Changes one field of one step.
    pub(crate) fn set(&mut self, step: &str, pointer: &str, value: impl Into<Value>) -> &mut Workflow {
        let steps = self.document["steps"].as_array_mut().expect("steps are a list");
        let step = steps.iter_mut().find(|s| s["name"] == step).unwrap_or_else(|| panic!("no step {step}"));
        *step.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value.into();
        self
    }

    /// Gives it other steps.
    pub(crate) fn with_steps(mut self, steps: Vec<Value>) -> Workflow {
        self.document["steps"] = steps.into();
        self
    }

    /// Runs it with these inputs, and with one output slot or without.
    pub(crate) fn run<'s>(
        &self,
        inputs: impl IntoIterator<Item = (&'s str, &'s [u8])>,
        output: impl Into<Option<&'s str>>,
    ) -> Ran {
        let folder = fresh_folder();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).expect("the test's folder takes files");
            path
        };
        let file = write("workflow.json", self.document.to_string().as_bytes());
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.arg("run").arg(file).arg("--json");
        for (slot, bytes) in inputs {
            command.arg("--input").arg(format!("{slot}={}", write(&format!("input-{slot}"), bytes).display()));
        }
        let result = folder.join("output");
        if let Some(output) = output.into() {
            command.arg("--output").arg(format!("{output}={}", result.display()));
        }
        let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("monohull starts");
        let report = serde_json::from_slice(&stdout).unwrap_or_else(|error| {
            let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            panic!("{status}, no report ({error})\nstdout: {stdout}\nstderr: {stderr}")
        });
        let output = std::fs::read(result).ok();
        std::fs::remove_dir_all(folder).expect("the test's folder is the test's");
        Ran { code: status.code().unwrap_or(-1), report, output }
    }
}

impl Ran {
    /// The output of a run that must have succeeded.
    #[track_caller]
    pub(crate) fn output(self) -> Vec<u8> {
        assert_eq!((self.code, self.report["status"].as_str()), (0, Some("done")), "{:#}", self.report);
        self.output.expect("a run that is done has written its output")
    }

    /// The message of a run that must have failed.
    #[track_caller]
    pub(crate) fn failure(&self) -> &str {
        assert_eq!((self.code, self.report["status"].as_str()), (1, Some("failed")), "{:#}", self.report);
        self.report["error"]["message"].as_str().expect("a failure has a message")
    }
}

/// What the first instance of the first step printed to its standard output.
pub(crate) fn printed(ran: &Ran) -> Vec<&str> {
    written(ran, "stdout")
}

/// What it wrote to one of its streams.
pub(crate) fn written<'r>(ran: &'r Ran, stream: &str) -> Vec<&'r str> {
    let lines = ran.report["steps"][0]["instances"][0]["lines"].as_array().expect("it prints");
    let lines = lines.iter().filter(|line| line["stream"] == stream).map(|line| line["text"].as_str());
    lines.map(|text| text.expect("lines are text")).collect()
}

/// What an example prints that is compiled with std, `examples/with_std.rs` of its crate.
pub(crate) fn with_std(package: &str, environment: &[(&str, &Path)]) -> String {
    let cargo = ["run", "--quiet", "--package", package, "--example", "with_std"];
    let mut program = Command::new(env!("CARGO"));
    program.args(cargo).envs(environment.iter().copied());
    let output = program.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

/// What a shell pipeline makes of `input`, in the C locale.
pub(crate) fn shell(pipeline: &str, input: &[u8]) -> Vec<u8> {
    let folder = fresh_folder();
    let path = folder.join("input");
    std::fs::write(&path, input).expect("the test's folder takes files");
    let stdin = std::fs::File::open(path).expect("just written");
    let output = Command::new("sh").args(["-c", pipeline]).env("LC_ALL", "C").stdin(stdin).output().expect("sh starts");
    assert!(output.status.success(), "{pipeline}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_dir_all(folder).expect("the test's folder is the test's");
    output.stdout
}

/// A new empty folder.
pub(crate) fn fresh_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("e2e-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("cargo's folder for tests takes folders");
    folder
}

/// Numbers that are the same in every run of a test.
pub(crate) struct Random(u64);

impl Random {
    /// Another seed, other numbers.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
