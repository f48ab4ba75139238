//! `monohull run`: runs a workflow file and ends with the workflow's outcome.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::checkpoint;
use super::durable;
use super::durable::leg::How;
use super::durable::started_with::Start;
use super::exit::Exit;
use super::isolation::Isolation;
use super::programs::replace_programs;
use super::progress::Terminal;
use super::run_templates::RunTemplates;
use super::setting::Setting;
use super::single::{self, Given};
use super::slots::{self, one_standard_input};
use super::suspend::{self, Begin, Origin};
use super::validate;
use monohull_durable::{InvocationId, KEEP_MAX};
use monohull_engine::{Event, IsolationWish, RunOptions, output_file};
use monohull_report::Progress;
use monohull_report::escape::shown;
use monohull_report::text::{quoted, suggestion};
use monohull_saved::{Confined, prepare_folder};
use monohull_worker::ProcessError;
use monohull_worker::cgroup::CgroupMode;
use monohull_workflow::{self as workflow, Blame, Mistake, Plan, WorkflowError};

/// Run a workflow
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull run workflows/word-count.json --input text=book.txt --output counts=counts.txt",
    "monohull run workflows/word-count.json --input text=book.txt --set split.parts=8 --set map:instances=8 --json",
    "monohull run workflows/durable/order.json --input order=order.txt --skip-time --event paid=receipt.txt",
    "monohull run app.wasm --dir data::/data --input stdin=- -- --verbose"
))]
pub(super) struct Run {
    /// The workflow file, or a program (an image, WebAssembly, Python, JavaScript), which is then the only step of a workflow
    file: PathBuf,
    #[command(flatten)]
    program: Given,
    /// Fill an input slot from a file or pipe; `SLOT=-` is standard input, `SLOT=` an empty input. A path alone is for the only input slot
    #[arg(long = "input", value_name = "SLOT=PATH", value_parser = slots::input())]
    inputs: Vec<(String, PathBuf)>,
    /// Write an output slot to a file; one that is there keeps its rights, and a symbolic link what it leads to. A path alone is for the only
    /// output slot
    #[arg(long = "output", value_name = "SLOT=PATH", value_parser = slots::output())]
    outputs: Vec<(String, PathBuf)>,
    /// Set an argument of a step (STEP.ARG=VALUE), or its field instances, timeout, memory, retry or stack (STEP:FIELD=VALUE);
    /// a value that is not JSON is taken as a string
    #[arg(long = "set", value_name = "STEP.ARG=VALUE", value_parser = Setting::parse)]
    settings: Vec<Setting>,
    /// How functions are isolated from the system
    #[arg(long, value_enum, default_value_t)]
    isolation: Isolation,
    /// Whether the process of the workflow has a control group of its own, with limits of memory and tasks; it starts later then
    #[arg(long, value_enum, default_value_t = CgroupMode::Never)]
    cgroup: CgroupMode,
    /// When libos modules are loaded: each on its first call, or all at the start (to measure the difference)
    #[arg(long, value_enum, default_value_t)]
    load: Load,
    /// Print one JSON document; what functions print is in it
    #[arg(long)]
    json: bool,
    /// Print control characters in what functions print as they are; without it they are escaped, because a terminal acts on them
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// If the workflow only waits, for longer than a second, end with exit code 4: what is left of it becomes a file in this folder,
    /// for `monohull resume`
    #[arg(long, value_name = "DIR", conflicts_with = "watch")]
    suspend: Option<PathBuf>,
    /// Keep the workflow in this state folder: it outlives this process, which suspends it whenever it only waits for longer than a second
    #[arg(long, value_name = "DIR", conflicts_with_all = ["watch", "suspend", "load"])]
    state: Option<PathBuf>,
    /// The file of the key that the state folder is encrypted with; `monohull key new` makes one. A new folder is encrypted if there is one
    #[arg(long, value_name = "FILE", requires = "state", conflicts_with_all = ["watch", "suspend", "load"])]
    state_key: Option<PathBuf>,
    /// The id of the invocation in the state folder: 1 to 64 letters, digits, `-` and `_`. The same invocation again is not started twice
    #[arg(long, value_name = "ID", requires = "state", conflicts_with_all = ["watch", "suspend", "load"])]
    id: Option<InvocationId>,
    /// End with exit code 4 when the workflow waits for the first time; `monohull wake` goes on with it
    #[arg(long, requires = "state", conflicts_with_all = ["watch", "suspend", "load"])]
    detach: bool,
    /// Keep the last N checkpoints of the invocation, which `monohull fork` and `monohull rewind` can go back to; by default 16
    #[arg(long, value_name = "N", requires = "state", conflicts_with_all = ["watch", "suspend", "load"], value_parser = clap::value_parser!(u32).range(1..=i64::from(KEEP_MAX)))]
    keep: Option<u32>,
    /// Make a checkpoint this often while the workflow computes (`2s`, `500ms`), not only when it waits: after a kill, `monohull wake` goes
    /// on from the last one
    #[arg(long, value_name = "TIME", requires = "state", conflicts_with_all = ["watch", "suspend", "load"], value_parser = interval)]
    checkpoint_every: Option<Duration>,
    /// Move the workflow's clock where it only waits for a time, instead of waiting: a month passes in milliseconds
    #[arg(long, conflicts_with_all = ["watch", "suspend", "checkpoint_every"])]
    skip_time: bool,
    /// The file of a workflow that functions start as a child; without it `NAME.json` beside the file that names it
    #[arg(long = "child", value_name = "FILE", requires = "state", conflicts_with_all = ["watch", "suspend", "load"])]
    children: Vec<PathBuf>,
    /// Give the workflow an event at its start: `NAME=PATH` says what is in the file
    #[arg(long = "event", value_name = "NAME=PATH", value_parser = durable::send::named_file, conflicts_with_all = ["watch", "suspend", "state"])]
    events: Vec<(String, PathBuf)>,
    /// Start from the image: use no template that an earlier run has made, and make none. A function that says when it is ready has one, in
    /// the user's cache
    #[arg(long)]
    no_template: bool,
    /// Run again whenever the workflow file or one of its images changes, until a signal ends it
    #[arg(long)]
    watch: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Load {
    #[default]
    OnDemand,
    All,
}

/// A time between two checkpoints. Shorter ones would leave no time for the workflow.
fn interval(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(100);
    match workflow::units::duration(text) {
        Some(every) if every >= SHORTEST => Ok(every),
        Some(_) => Err("expected 100ms or more".to_owned()),
        None => Err("expected a time such as `2s` or `500ms`".to_owned()),
    }
}

/// Why `-` is no file of an output.
const NO_FILE: &str = "`-` stands for standard output, which has the report; `./-` is a file of that name, and `/dev/stdout` is written \
                       before the report";

/// Why an invocation is wrong although the workflow file is right.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
enum InvocationError {
    /// the workflow file is wrong or cannot be read
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    /// an argument cannot be set
    #[error("--set: {0}")]
    Set(#[from] workflow::SetError),
    /// a slot is not one of the workflow's
    #[error("--{option}: the workflow has no {option} slot {slot}{hint}")]
    UnknownSlot { option: &'static str, slot: String, hint: String },
    /// a path is given without a slot
    #[error("{0}")]
    NoSlot(String),
    #[error("--{option}: slot {slot} is given twice")]
    SlotTwice { option: &'static str, slot: String },
    /// an input slot has no file
    #[error("the input slot {slot} needs a file: --input {name}=PATH (--input {name}= for an empty input)")]
    InputMissing { slot: String, name: String },
    /// standard input is read twice
    #[error("{0}")]
    Standard(&'static str),
    /// an output cannot be written
    #[error("--output: slot {slot}: {why}")]
    Output { slot: String, why: String },
    /// what a program is given is wrong
    #[error("{0}")]
    Program(String),
    #[error("{}: {option} is for a program, and this is none", shown(path))]
    NoProgram { path: PathBuf, option: &'static str },
    /// what is given looks like a program and is none
    #[error("{} is {why}", shown(path))]
    NoImage { path: PathBuf, why: &'static str },
    #[error("{}: --watch is for workflow files", shown(_0))]
    Watched(PathBuf),
    /// a path cannot be kept with a workflow that goes on later
    #[error("with --state and --suspend paths are kept as text, and {} is not UTF-8", shown(_0))]
    NotText(PathBuf),
}

impl InvocationError {
    fn blame(&self) -> &'static str {
        match self {
            InvocationError::Workflow(WorkflowError::Mistakes { .. }) => "workflow",
            _ => "invocation",
        }
    }
}

impl Run {
    pub(super) fn run(mut self) -> Exit {
        if self.watch && self.inputs.iter().any(|(_, path)| path.as_os_str() == "-") {
            return self.refuse(Exit::Usage, "invocation", &"standard input is read once, and --watch runs again");
        }
        if self.watch && !single::is_program(&self.file) {
            return super::watch::run(&self.file);
        }
        let (mut plan, document) = match self.plan() {
            Ok(plan) => plan,
            Err(error) => return self.refuse(Exit::Usage, error.blame(), &error),
        };
        let images = match replace_programs(&mut plan) {
            Ok(images) => images,
            Err(error) => {
                let blame = if error.blame() == Blame::Workflow { "workflow" } else { "function" };
                return self.refuse(error.exit(), blame, &error);
            }
        };
        let isolation = match self.isolation.wish() {
            Ok(isolation) => isolation,
            Err(why) => return self.refuse(Exit::Host, "host", &why),
        };
        // What runs here is checked when it is loaded. What a state folder keeps is checked before it is written there.
        let judge = if self.state.is_some() { validate::judge_image } else { validate::is_there };
        let refused = validate::image_mistakes(&self.file, &document, &plan, judge);
        if let Some(exit) = self.refuse_images(refused) {
            return exit;
        }
        if let Some(state) = &self.state {
            return self.run_durably(state, &plan, document, isolation);
        }
        let events = match self.events() {
            Ok(events) => events,
            Err(why) => return self.refuse(Exit::Usage, "invocation", &why),
        };
        let is_empty = |(_, path): &&(String, PathBuf)| path.as_os_str().is_empty();
        let (empty, files) = (self.inputs.iter().filter(is_empty), self.inputs.iter().filter(|input| !is_empty(input)));
        let options = RunOptions {
            inputs: files.cloned().collect(),
            inline_inputs: empty.map(|(slot, _)| (slot.clone(), Vec::new())).collect(),
            outputs: self.outputs.clone(),
            isolation,
            load_all: self.load == Load::All,
            skip_time: self.skip_time,
            events,
            ..RunOptions::default()
        };
        let terminal = Terminal::new(self.raw);
        let watcher = (!self.json).then_some(&terminal as &dyn Progress);
        let key = match self.suspend.as_ref().map(|_| checkpoint::own_key()).transpose() {
            Ok(key) => key,
            Err(error) => return self.refuse(Exit::Host, "host", &error),
        };
        if let Some(Err(error)) = self.suspend.as_deref().map(prepare_folder) {
            return self.refuse(Exit::Host, "host", &error);
        }
        let templates = self.may_use_template().then(|| RunTemplates::new(images.known.clone()));
        let begin = Begin { options: &options, watcher, continuation: None, templates };
        let confined = Confined { isolation, cgroup: suspend::kept_mode(self.cgroup) };
        let origin = Origin { confined, key, ..self.origin(document.clone()) };
        let ran = suspend::run(&plan, begin, origin, self.suspend.as_deref(), self.json);
        ran.unwrap_or_else(|error| {
            if matches!(error, ProcessError::Image(_)) {
                // The loader says no more than the first reason, and not where in the file.
                let refused = validate::image_mistakes(&self.file, &document, &plan, validate::judge_image);
                if let Some(exit) = self.refuse_images(refused) {
                    return exit;
                }
            }
            let (exit, blame) = match &error {
                ProcessError::Input { slot, .. } if options.chooses(slot) => (Exit::Usage, "invocation"),
                ProcessError::Input { .. } => (Exit::Usage, "workflow"),
                ProcessError::Image(_) => (Exit::Usage, "function"),
                _ => (Exit::Host, "host"),
            };
            self.refuse(exit, blame, &error)
        })
    }

    /// What the command line sets in the environment may be a secret, and is not written to a disk unasked. Arguments are not secret: others see
    /// them in the host's list of processes.
    fn may_use_template(&self) -> bool {
        !self.no_template && !self.program.has_environment()
    }

    fn run_durably(&self, state: &Path, plan: &Plan, document: Vec<u8>, isolation: IsolationWish) -> Exit {
        let (children, _images) = match durable::child_files::find(plan, &self.file, &self.children) {
            Ok(found) => found,
            Err(error) => return self.refuse(Exit::Usage, "workflow", &error),
        };
        let Origin { file, document, settings, outputs, .. } = self.origin(document);
        durable::start::run(durable::start::Request {
            state,
            state_key: self.state_key.as_deref(),
            id: self.id.as_ref(),
            plan,
            inputs: &self.inputs,
            start: Start {
                file,
                document,
                settings,
                outputs,
                inputs: Vec::new(),
                functions: Vec::new(),
                checkpoint_every: self.checkpoint_every,
                children: Vec::new(),
            },
            children,
            detach: self.detach,
            keep: self.keep,
            json: self.json,
            how: How {
                isolation,
                cgroup: self.cgroup,
                lines: (!self.json).then_some(self.raw),
                skip_time: self.skip_time,
                goes_on: !self.detach,
            },
        })
    }

    /// The events that the workflow has from its start.
    fn events(&self) -> Result<Vec<Event>, String> {
        let read = |(number, (name, path)): (u64, &(String, PathBuf))| {
            let bytes = durable::send::read_event(name, path)?;
            Ok(Event { number, name: name.clone(), bytes })
        };
        (0..).zip(&self.events).map(read).collect()
    }

    /// What is kept if the workflow is suspended. It may be resumed from another folder.
    fn origin(&self, document: Vec<u8>) -> Origin {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Origin {
            file: absolute(&self.file),
            document,
            settings: self.settings.iter().map(|setting| setting.text.clone()).collect(),
            outputs: self.outputs.iter().map(|(slot, path)| (slot.clone(), absolute(path))).collect(),
            generation: 0,
            events: Vec::new(),
            given: 0,
            copy: (0, 0),
            confined: Confined::default(),
            key: None,
        }
    }

    /// The plan with what the command line adds to it, every name checked, and the document.
    fn plan(&mut self) -> Result<(Plan, Vec<u8>), InvocationError> {
        let document = self.document()?;
        let checked = workflow::check_bytes(&self.file, &document);
        if checked.plan.is_some() {
            workflow::first_mistakes(&checked.mistakes).0.iter().for_each(super::output::note);
        }
        let mut plan = checked.into_plan()?;
        for setting in &self.settings {
            setting.apply(&mut plan)?;
        }
        slots::name_only_slot("input", &mut self.inputs, plan.inputs.iter().map(|input| input.slot.as_str()))
            .map_err(InvocationError::NoSlot)?;
        slots::name_only_slot("output", &mut self.outputs, plan.outputs.iter().map(|output| output.slot.as_str()))
            .map_err(InvocationError::NoSlot)?;
        check_slots("input", &self.inputs, plan.inputs.iter().map(|input| input.slot.as_str()))?;
        check_slots("output", &self.outputs, plan.outputs.iter().map(|output| output.slot.as_str()))?;
        let given = self.inputs.iter().chain(&self.events).map(|(_, path)| path);
        one_standard_input(given.chain([&self.file]).map(|path| path.as_os_str()))
            .map_err(InvocationError::Standard)?;
        for input in &plan.inputs {
            if input.path.is_none() && !self.inputs.iter().any(|(slot, _)| *slot == input.slot) {
                return Err(InvocationError::InputMissing { slot: quoted(&input.slot), name: input.slot.clone() });
            }
        }
        self.check_outputs()?;
        Ok((plan, document))
    }

    /// The workflow file, or the workflow of a program.
    fn document(&self) -> Result<Vec<u8>, InvocationError> {
        match (single::is_program(&self.file), self.program.first()) {
            (false, option) => {
                if let Some(why) = single::looks_like_a_program(&self.file) {
                    return Err(InvocationError::NoImage { path: self.file.clone(), why });
                }
                match option {
                    // Where there is no such file, that is what is wrong.
                    Some(option) if self.file.exists() || self.file == Path::new("-") => {
                        Err(InvocationError::NoProgram { path: self.file.clone(), option })
                    }
                    _ => Ok(workflow::read_file(&self.file)?),
                }
            }
            (true, _) if self.watch => Err(InvocationError::Watched(self.file.clone())),
            (true, _) => {
                let has_input = self.inputs.iter().any(|(slot, _)| Given::is_input(slot));
                self.program.document(&self.file, has_input).map_err(InvocationError::Program)
            }
        }
    }

    /// Checks that outputs can be written, as far as that can be told before anything runs.
    fn check_outputs(&self) -> Result<(), InvocationError> {
        if self.suspend.is_some() || self.state.is_some() {
            let mut kept = self.outputs.iter().map(|(_, path)| path).chain([&self.file]);
            if let Some(path) = kept.find(|path| path.to_str().is_none()) {
                return Err(InvocationError::NotText(path.clone()));
            }
        }
        for (slot, path) in &self.outputs {
            let checked = match path.as_os_str() {
                dash if dash == "-" => Err(NO_FILE.to_owned()),
                _ if self.json && is_standard_output(path) => {
                    Err("standard output has the report's document".to_owned())
                }
                _ => output_file::check(path),
            };
            checked.map_err(|why| InvocationError::Output { slot: quoted(slot), why })?;
        }
        let files: Vec<_> = self.outputs.iter().map(|(_, path)| one_file(path)).collect();
        for (index, (slot, _)) in self.outputs.iter().enumerate() {
            if let Some(other) = files[..index].iter().position(|file| file.is_some() && *file == files[index]) {
                let why = format!("slot {} is written to the same file", quoted(&self.outputs[other].0));
                return Err(InvocationError::Output { slot: quoted(slot), why });
            }
        }
        Ok(())
    }

    /// Says that images cannot be loaded, if there are such: at their places in the workflow file, if there is one.
    fn refuse_images(&self, mistakes: Vec<Mistake>) -> Option<Exit> {
        let first = mistakes.first()?;
        let blame = if first.blame == Blame::Workflow { "workflow" } else { "function" };
        let text = match single::is_program(&self.file) {
            true => first.message.clone(),
            false => WorkflowError::Mistakes { mistakes }.to_string(),
        };
        Some(self.refuse(Exit::Usage, blame, &text))
    }

    /// Says why nothing runs.
    fn refuse(&self, exit: Exit, blame: &str, error: &dyn Display) -> Exit {
        suspend::refuse(exit, blame, error, self.json)
    }
}

fn is_standard_output(path: &Path) -> bool {
    let of = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let output = of(Path::new("/dev/stdout"));
    output.is_some() && of(path) == output
}

/// What a path leads to, if that is a file or will be one: not a device, which may take several.
fn one_file(path: &Path) -> Option<PathBuf> {
    match fs::canonicalize(path) {
        Ok(file) => Some(file).filter(|file| file.is_file()),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
        }
    }
}

/// Checks that every slot given is one of the workflow's, and is given once.
fn check_slots<'p>(
    option: &'static str,
    given: &[(String, PathBuf)],
    known: impl Iterator<Item = &'p str> + Clone,
) -> Result<(), InvocationError> {
    for (index, (slot, _)) in given.iter().enumerate() {
        if !known.clone().any(|name| name == slot) {
            let hint = suggestion(slot, known);
            return Err(InvocationError::UnknownSlot { option, slot: quoted(slot), hint });
        }
        if given[..index].iter().any(|(other, _)| other == slot) {
            return Err(InvocationError::SlotTwice { option, slot: quoted(slot) });
        }
    }
    Ok(())
}
