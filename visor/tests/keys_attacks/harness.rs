//! Runs an attack beside its victim, in a process of its own, and says what must come of it.
//!
//! ```text
//!   works    the positive control: where nothing is meant to stop it, the attack gets what it is after
//!   fails    three attempts, two with eight threads at once: each ends the attacker, the last for the stated reason;
//!            the victim is intact and the process goes on
//! ```
//!
//! On kernels that cannot report a fault by themselves workflows are traced, and all of this is the same.

#[path = "again.rs"]
mod again;

use crate::places;
use monohull_abi::layout::{CELL_SIZE, CELLS_BASE, CELLS_END, KEY_COUNT};
use monohull_trampoline::system::FIRST_FUNCTION_KEY;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// What names the defence that is switched off.
pub(crate) const VARIABLE: &str = "MONOHULL_UNHARDEN";
/// What `examples/attacks` prints with the direction flag set.
pub(crate) const LINE: &str = "this line is longer than what is copied in one or two words";
/// How many threads attack in each attempt: one, then a crowd, and a crowd for the report, after the victim has looked.
const ATTEMPTS: &str = "1,8,8";

/// Doors of the kernel past all keys, as `examples/attacks` calls them, and the system call that opens each.
pub(crate) const DOORS: [(&str, u32); 15] = [
    ("getpid", 39),
    ("proc-self-mem", 257),
    ("process-vm-writev", 311),
    ("ptrace", 101),
    ("io-uring", 425),
    ("userfaultfd", 323),
    ("memfd", 319),
    ("mremap", 25),
    ("personality", 135),
    ("prctl", 157),
    ("mprotect", 10),
    ("pkey-mprotect", 329),
    ("arch-prctl", 158),
    ("rt-sigreturn", 15),
    ("modify-ldt", 154),
];

/// Whether attacks happen after a restore: in the test program `keys_restored`, which has the modules of `keys_attacks`.
pub(crate) const RESTORED: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"keys_restored");
/// Whether they happen in a process that has served an invocation before: in the test program `keys_reused`, likewise.
pub(crate) const REUSED: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"keys_reused");
/// Whether modules are elsewhere than [`places`] finds them: a restored process has them below the checkpoint that it was made of, and one
/// of a server loads those alone that its workflow needs.
pub(crate) const MODULES_ELSEWHERE: bool = RESTORED || REUSED;
/// How long an attacker sleeps whose workflow is to be suspended: a second in which a workflow only waits is enough for that.
const NAP_MS: u64 = 1500;
/// The exit code of a workflow that was suspended.
const SUSPENDED: i32 = 4;

/// What a report says of an attacker that was interrupted in code that is not its own.
pub(crate) const INTERRUPTED: &str = "was there when its slice of time was over";
/// Most runs of an attack that is interrupted.
const RUNS_MAX: usize = 10;

/// Keys that functions can have.
pub(crate) const KEYS: u32 = KEY_COUNT as u32 - FIRST_FUNCTION_KEY;
/// The step that runs before all others, and its image.
const BEFORE: &str = "before";
const OTHER_IMAGE: &str = "before.so";

/// One attack; `examples/attacks` describes the arguments.
#[derive(Clone)]
pub(crate) struct Attack {
    kind: &'static str,
    what: String,
    how: String,
    image: PathBuf,
    /// Who runs it.
    visor: PathBuf,
    /// The isolation: `workflow` or `function`.
    separation: &'static str,
    /// How the victim spends its time.
    victim: &'static str,
    /// The defence that is switched off.
    disabled: Option<String>,
    pub(crate) attempts: String,
    carriers: u32,
    /// Limits and retries of the attacker's step beyond the usual.
    attacker: Value,
    /// Instances that run before all others, under names of their own.
    before: Option<Value>,
    /// A directory of the host is granted, for writing.
    granted: bool,
    /// Fields of the workflow beyond the usual.
    workflow: Value,
    /// It is the second invocation of a process.
    reused: bool,
    /// The attacker sleeps first, while its victim waits. Meanwhile the workflow is suspended, and the rest happens in another process.
    restored: bool,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    /// Absent if the process died.
    pub(crate) report: Value,
    /// What it wrote, report included.
    pub(crate) output: String,
}

/// An attack on what is not the attacker's in a workflow whose functions share a key.
pub(crate) fn attack(kind: &'static str, what: impl Into<String>, how: impl Into<String>) -> Attack {
    Attack {
        kind,
        what: what.into(),
        how: how.into(),
        image: image("attacks"),
        visor: visor(),
        separation: "workflow",
        victim: "watch",
        disabled: None,
        attempts: ATTEMPTS.into(),
        carriers: 8,
        attacker: json!({}),
        before: None,
        granted: false,
        workflow: json!({}),
        reused: REUSED,
        restored: RESTORED,
    }
}

/// The visor that is attacked: the one that ships, from `cargo xtask build`.
pub(crate) fn visor() -> PathBuf {
    let profiles = Path::new(env!("CARGO_BIN_EXE_monohull")).ancestors().nth(2);
    profiles.expect("cargo builds in folders").join("release/monohull")
}

/// The visor in which a defence can be switched off, for the negative control.
pub(crate) fn unhardened_visor() -> PathBuf {
    visor().with_file_name("monohull-unhardened")
}

/// The image of an example.
pub(crate) fn image(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images").join(name).with_extension("so")
}

/// Runs a workflow with keys in force; with this defence switched off, if one is named.
pub(crate) fn run(document: &Value, off: Option<&str>) -> Ran {
    if REUSED {
        return again::run(document);
    }
    let folder = tempfile::tempdir().expect("a folder for the workflow");
    let file = folder.path().join("workflow.json");
    std::fs::write(&file, document.to_string()).expect("the workflow");
    let mut command = Command::new(if off.is_some() { unhardened_visor() } else { visor() });
    command.envs(off.map(|defence| (VARIABLE, defence)));
    command.args(["run", "--json", "--isolation", "mpk"]).arg(&file).stdin(Stdio::null());
    Ran::of(command)
}

impl Attack {
    /// Every instance has a key of its own.
    pub(crate) fn apart(mut self) -> Attack {
        self.separation = "function";
        self
    }

    /// With this image instead.
    pub(crate) fn image(mut self, image: &Path) -> Attack {
        image.clone_into(&mut self.image);
        self
    }

    /// The victim spends its time so.
    pub(crate) fn victim(mut self, how: &'static str) -> Attack {
        self.victim = how;
        self
    }

    /// Under this visor.
    pub(crate) fn visor(mut self, visor: &Path) -> Attack {
        visor.clone_into(&mut self.visor);
        self
    }

    /// The same with this defence switched off.
    pub(crate) fn without(&self, defence: &str) -> Attack {
        let disabled = Some(defence.to_owned());
        Attack { visor: unhardened_visor(), disabled, ..self.clone() }
    }

    /// So many threads in each attempt.
    pub(crate) fn attempts(mut self, threads: &str) -> Attack {
        self.attempts = threads.into();
        self
    }

    /// So many host threads.
    pub(crate) fn carriers(mut self, carriers: u32) -> Attack {
        self.carriers = carriers;
        self
    }

    /// The attacker's step has these fields too.
    pub(crate) fn attacker(mut self, fields: Value) -> Attack {
        self.attacker = fields;
        self
    }

    /// A directory of the host is at `/host`: what is read and written there the kernel copies.
    pub(crate) fn granted(mut self) -> Attack {
        self.granted = true;
        self
    }

    /// The workflow has these fields too.
    pub(crate) fn workflow(mut self, fields: Value) -> Attack {
        self.workflow = fields;
        self
    }

    /// In the process that began with the workflow, also where the others are restored, and in one of its own: it comes to no wait, and to no end.
    pub(crate) fn at_once(mut self) -> Attack {
        (self.restored, self.reused) = (false, false);
        self
    }

    /// So many instances of another image run before, the first so many of which are there at once.
    pub(crate) fn after(mut self, instances: u32, together: u32) -> Attack {
        self.before = Some(json!({
            "name": BEFORE, "function": BEFORE, "instances": instances,
            "args": { "role": "gather", "how": together.to_string() }
        }));
        self
    }

    /// The workflow.
    fn document(&self, attempts: &str) -> Value {
        let mut attacker = json!({
            "name": "attacker", "function": "attacks",
            "args": { "role": "attacker", "kind": self.kind, "what": self.what, "how": self.how, "threads": attempts },
            "retry": { "max_attempts": attempts.split(',').count(), "interval": "0s" }
        });
        let fields = attacker.as_object_mut().expect("an object");
        fields.extend(self.attacker.as_object().expect("an object").clone());
        let mut victim =
            json!({ "name": "victim", "function": "attacks", "args": { "role": "victim", "what": self.victim } });
        let mut functions = json!({ "attacks": { "image": self.image } });
        if self.restored {
            attacker["args"]["nap"] = json!(NAP_MS);
            // Every other victim waits.
            if self.victim == "busy" {
                victim["args"]["nap"] = json!(NAP_MS);
            }
        }
        let mut steps = vec![victim, attacker];
        if let Some(before) = &self.before {
            steps.iter_mut().for_each(|step| step["after"] = json!([BEFORE]));
            steps.push(before.clone());
            functions[BEFORE] = json!({ "image": OTHER_IMAGE });
        }
        // A process of a workflow with something of the host is not used again.
        let granted = match self.reused {
            true => json!({ "at": "/host", "memory": "16MiB" }),
            false => json!({ "at": "/host", "directory": "granted", "access": "write" }),
        };
        let mut document = json!({
            "name": "attack",
            "isolation": self.separation,
            "functions": functions,
            "steps": steps,
            "inputs": ["places"],
            "unread": "ignore",
            "files": if self.granted { vec![granted] } else { Vec::new() },
            "limits": { "carriers": self.carriers, "slots": "256MiB", "timeout": "600s" }
        });
        let fields = document.as_object_mut().expect("an object");
        fields.extend(self.workflow.as_object().expect("an object").clone());
        document
    }

    /// Runs it, for the report. Where the attacker's slice of time was over in code that is not its own, the attack has come to nothing,
    /// and is made again.
    pub(crate) fn run(&self, isolation: &str, attempts: &str) -> Ran {
        let mut ran = self.run_once(isolation, attempts);
        for _ in 1..RUNS_MAX {
            if !ran.output.contains(INTERRUPTED) {
                break;
            }
            ran = self.run_once(isolation, attempts);
        }
        ran
    }

    fn run_once(&self, isolation: &str, attempts: &str) -> Ran {
        if self.reused {
            return again::attack(self, isolation, attempts);
        }
        let folder = tempfile::tempdir().expect("a folder for the workflow");
        std::fs::create_dir(folder.path().join("granted")).expect("a folder to grant");
        // The same file under another name is another image.
        std::fs::copy(image("attacks"), folder.path().join(OTHER_IMAGE)).expect("another image");
        let file = folder.path().join("workflow.json");
        std::fs::write(&file, self.document(attempts).to_string()).expect("the workflow");
        let places = folder.path().join("places");
        std::fs::write(&places, places::places(&self.visor)).expect("the places");
        let mut command = self.command("run", isolation, folder.path());
        command.args(["--load", "all"]).arg(&file).arg("--input").arg(format!("places={}", places.display()));
        if !self.restored {
            return Ran::of(command);
        }
        command.arg("--suspend").arg(folder.path());
        let mut suspended = Ran::of_command(&mut command);
        for _ in 1..RUNS_MAX {
            if suspended.status.code() == Some(SUSPENDED) {
                break;
            }
            // On a busy machine the nap may be over before all others wait: then it comes to its end here, and is begun again.
            suspended = Ran::of_command(&mut command);
        }
        assert_eq!(suspended.status.code(), Some(SUSPENDED), "{}: {}", self.name(), suspended.output);
        let files = std::fs::read_dir(folder.path()).expect("the folder").map(|file| file.expect("a file").path());
        let checkpoint = files.into_iter().find(|file| file.extension().is_some_and(|kind| kind == "checkpoint"));
        let mut command = self.command("resume", isolation, folder.path());
        command.arg(checkpoint.expect("a checkpoint"));
        Ran::of(command)
    }

    /// A command of the visor that is attacked. The key that seals checkpoints is in this folder.
    fn command(&self, verb: &str, isolation: &str, folder: &Path) -> Command {
        let mut command = places::at_fixed_addresses(&self.visor);
        command.envs(self.disabled.iter().map(|defence| (VARIABLE, defence)));
        if self.restored {
            command.env("XDG_STATE_HOME", folder);
        }
        command.args([verb, "--json", "--isolation", isolation]).stdin(Stdio::null());
        command
    }

    /// The attack works: nothing is meant to stop it here, so the attacker is able to do what fails elsewhere.
    #[track_caller]
    pub(crate) fn works(&self, isolation: &str) -> Ran {
        let ran = self.run(isolation, "1");
        ran.is_done(&self.name());
        let got = ran.printed("attacker").into_iter().any(|line| line.starts_with("got "));
        assert!(got, "{}: the attack says what it got: {}", self.name(), ran.output);
        ran
    }

    /// The attack ends the attacker, by this kind of failure and for these reasons, whether one thread attacks or eight; the
    /// victim is intact, and the process goes on.
    #[track_caller]
    pub(crate) fn fails(&self, kind: &str, reasons: &[&str]) -> Ran {
        self.fails_by(&[kind], reasons)
    }

    /// The same where what is found first, or the processor, makes a difference.
    #[track_caller]
    pub(crate) fn fails_by(&self, kinds: &[&str], reasons: &[&str]) -> Ran {
        let ran = self.run("mpk", &self.attempts);
        self.has_failed(&ran, kinds, reasons);
        ran
    }

    /// The same of an attack that comes to nothing if its thread is interrupted in the midst of it: what it has changed is set again when it goes on.
    #[track_caller]
    pub(crate) fn fails_unless_interrupted(&self, kind: &str, reasons: &[&str]) {
        for _ in 0..10 {
            let ran = self.run("mpk", &self.attempts);
            if ran.report["status"] != "done" {
                return self.has_failed(&ran, &[kind], reasons);
            }
            assert_eq!(ran.printed("victim"), ["intact"], "{}: {}", self.name(), ran.output);
        }
        panic!("{}: it was interrupted each time", self.name());
    }

    /// That came of it.
    #[track_caller]
    pub(crate) fn has_failed(&self, ran: &Ran, kinds: &[&str], reasons: &[&str]) {
        ran.is_refused(&self.name(), kinds, reasons);
        assert_eq!(ran.printed("victim"), ["intact"], "{}: {}", self.name(), ran.output);
        let attempts = self.attempts.split(',').count();
        assert_eq!(ran.step("attacker")["attempts"], attempts, "{}: {}", self.name(), ran.output);
    }

    /// The attack fails without harm: all instances end well.
    #[track_caller]
    pub(crate) fn is_harmless(&self) {
        for threads in ["1", "8"] {
            let ran = self.run("mpk", threads);
            ran.is_done(&self.name());
            assert_eq!(ran.printed("victim"), ["intact"], "{}: {}", self.name(), ran.output);
        }
    }

    /// The image is refused before anything runs.
    #[track_caller]
    pub(crate) fn is_not_loaded(&self, reasons: &[&str]) {
        let ran = self.clone().at_once().run("mpk", "1");
        let error = &ran.report["error"];
        assert_eq!(
            (ran.status.code(), &error["kind"]),
            (Some(2), &"refused".into()),
            "{}: {}",
            self.name(),
            ran.output
        );
        let message = error["message"].as_str().unwrap_or_default();
        for reason in reasons {
            assert!(message.contains(reason), "{}: {message}", self.name());
        }
        ran.got_nothing(&self.name());
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {} {} ({})", self.kind, self.what, self.how, self.separation)
    }
}

impl Ran {
    /// Runs a visor to its end.
    fn of(mut command: Command) -> Ran {
        Ran::of_command(&mut command)
    }

    fn of_command(command: &mut Command) -> Ran {
        let output = command.output().expect("the visor starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        Ran { status: output.status, report, output: text(&output.stdout) + &text(&output.stderr) }
    }

    /// A step of the report.
    pub(crate) fn step(&self, name: &str) -> &Value {
        let steps = self.report["steps"].as_array().into_iter().flatten();
        steps.into_iter().find(|step| step["name"] == name).unwrap_or(&Value::Null)
    }

    /// Where the instances that ran before lived, and with which keys.
    #[track_caller]
    pub(crate) fn homes(&self) -> HashSet<(u64, u32)> {
        let instances = self.step(BEFORE)["instances"].as_array().into_iter().flatten();
        let words = instances.map(|instance| instance["lines"][0]["text"].as_str().unwrap_or_default());
        let home = |words: &str| {
            let (cell, key) = words.strip_prefix("cell ")?.split_once(" key ")?;
            Some((cell.parse().ok()?, key.parse().ok()?))
        };
        words.map(|words| home(words).unwrap_or_else(|| panic!("{words:?}: {}", self.output))).collect()
    }

    /// The cell in which the memory lies that the attacker touched.
    pub(crate) fn cell_touched(&self) -> Option<u64> {
        let address = self.report["error"]["address"].as_u64()?;
        (CELLS_BASE..CELLS_END).contains(&address).then(|| (address - CELLS_BASE) / CELL_SIZE)
    }

    /// What a step printed.
    pub(crate) fn printed(&self, step: &str) -> Vec<&str> {
        let lines = self.step(step)["instances"][0]["lines"].as_array();
        lines.into_iter().flatten().filter_map(|line| line["text"].as_str()).collect()
    }

    /// The run ended well.
    #[track_caller]
    pub(crate) fn is_done(&self, name: &str) {
        let ended = (self.status.code(), &self.report["status"]);
        assert_eq!(ended, (Some(0), &"done".into()), "{name}: {}: {}", self.status, self.output);
    }

    /// The attacker failed so, and got nothing before.
    #[track_caller]
    pub(crate) fn is_refused(&self, name: &str, kinds: &[&str], reasons: &[&str]) {
        let error = &self.report["error"];
        let ended = (self.status.code(), &error["step"]);
        assert_eq!(ended, (Some(1), &"attacker".into()), "{name}: {}: {}", self.status, self.output);
        assert!(kinds.iter().any(|kind| error["kind"] == *kind), "{name}: not one of {kinds:?}: {error:#}");
        let message = error["message"].as_str().unwrap_or_default();
        for reason in reasons {
            assert!(message.contains(reason), "{name}: {message}");
        }
        assert_eq!(self.report["isolation"], "mpk");
        self.got_nothing(name);
    }

    /// No attempt came as far as to say what it got.
    #[track_caller]
    pub(crate) fn got_nothing(&self, name: &str) {
        // What is printed of trusted memory stands before it, on the same line.
        let got = self.output.lines().any(|line| line.contains("\"text\": ") && line.contains("got "));
        assert!(!got, "{name}: {}", self.output);
    }
}
