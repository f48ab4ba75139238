//! `monohull resume`: goes on with a workflow that `monohull run --suspend` has ended while it waited.

use std::path::PathBuf;

use clap::Args;

use super::checkpoint;
use super::checkpoint_file::{Engine, Saved};
use super::durable;
use super::durable::send::{named_file, read_event};
use super::exit::Exit;
use super::isolation::Isolation;
use super::progress::Terminal;
use super::run::Setting;
use super::suspend::{self, Origin, SHORTEST_WAIT};
use super::wasm_cache::replace_programs;
use monohull_durable::InvalidId;
use monohull_engine::{Event, RunOptions};
use monohull_ipc::sealed::seal;
use monohull_report::Progress;
use monohull_worker::cgroup::CgroupMode;
use monohull_worker::{self as worker, Continuing};
use monohull_workflow::{self as workflow, Plan};

/// Go on with a suspended workflow
///
/// The functions' images must be those of the run. The checkpoint stays: resumed again, the workflow goes on from there once more.
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull resume waiting/sleeper-0123456789abcdef.checkpoint --suspend waiting",
    "monohull resume waiting/approval-0123456789abcdef.checkpoint --event approved=signature.txt"
))]
pub(super) struct Resume {
    /// The checkpoint; with `--state` the id of a durable invocation
    checkpoint: PathBuf,
    /// Let a paused invocation of this state folder go on when it is due, which `monohull wake` does
    #[arg(long, value_name = "DIR", conflicts_with_all = ["suspend", "key", "raw", "isolation"])]
    state: Option<PathBuf>,
    /// Suspend the workflow again if it only waits, for a second or longer
    #[arg(long, value_name = "DIR")]
    suspend: Option<PathBuf>,
    /// Give it an event with what is in a file; `-` is standard input. Events are kept until they are waited for
    #[arg(long = "event", value_name = "NAME=PATH", value_parser = named_file, conflicts_with = "state")]
    events: Vec<(String, PathBuf)>,
    /// The key that must have sealed the checkpoint; without it the user's own
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// What keeps functions from the system
    #[arg(long, value_enum, default_value_t)]
    isolation: Isolation,
    /// Print one JSON document; what functions print is in it
    #[arg(long)]
    json: bool,
    /// Print control characters in what functions print as they are; without it they are escaped, because a terminal acts on them
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

impl Resume {
    pub(super) fn run(&self) -> Exit {
        if let Some(state) = &self.state {
            return match self.checkpoint.to_string_lossy().parse() {
                Ok(id) => durable::control::resume(state, &id, self.json),
                Err(error @ InvalidId) => super::fail(Exit::Usage, &error),
            };
        }
        let key = match checkpoint::checking_key(self.key.as_deref()) {
            Ok(key) => key,
            Err(trouble) => return super::fail(trouble.exit(), &trouble),
        };
        let saved = match Saved::read(&self.checkpoint, &key) {
            Ok(saved) => saved,
            Err(error) => return super::fail(if error.is_hosts() { Exit::Host } else { Exit::Usage }, &error),
        };
        let sealing = match self.suspend.as_ref().map(|_| checkpoint::own_key()).transpose() {
            Ok(key) => key,
            Err(trouble) => return super::fail(trouble.exit(), &trouble),
        };
        let mut plan = match plan(&saved) {
            Ok(plan) => plan,
            Err(error) => return super::fail(Exit::Usage, &error),
        };
        let _images = match replace_programs(&mut plan) {
            Ok(images) => images,
            Err(error) => return super::fail(error.exit(), &error),
        };
        let isolation = match self.isolation.wish() {
            Ok(isolation) => isolation,
            Err(why) => return super::fail(Exit::Host, &why),
        };
        let encoded = postcard::to_extend(&saved.continuation, Vec::new()).map_err(std::io::Error::other);
        let continuation = match encoded.and_then(|encoded| seal(&encoded, 0)) {
            Ok(continuation) => continuation,
            Err(error) => return super::fail(Exit::Host, &error),
        };
        let images = saved.functions.iter().map(|(_, hash, _)| *hash).collect();
        let generation = saved.generation.saturating_add(1);
        let Engine { file, settings, outputs, inputs, mut events, mut given } = saved.engine;
        for (name, path) in &self.events {
            match read_event(name, path) {
                Ok(bytes) => events.push(Event { number: given, name: name.clone(), bytes }),
                Err(why) => return super::fail(Exit::Usage, &why),
            }
            given += 1;
        }
        let options = RunOptions {
            inline_inputs: inputs,
            outputs: outputs.clone(),
            isolation,
            events: events.clone(),
            ..RunOptions::default()
        };
        let terminal = Terminal::new(self.raw);
        let watcher = (!self.json).then_some(&terminal as &dyn Progress);
        let continuing = Continuing {
            continuation: Some((continuation, images)),
            suspend: self.suspend.as_ref().map(|_| SHORTEST_WAIT),
        };
        let document = saved.document;
        let origin = Origin { file, document, settings, outputs, generation, events, given, key: sealing };
        match worker::run_from(&plan, &options, CgroupMode::Never, watcher, continuing) {
            Ok(ran) => suspend::finish(ran, &plan, origin, self.suspend.as_deref(), self.json),
            Err(error @ worker::ProcessError::ImageChanged { .. }) => super::fail(Exit::Usage, &error),
            Err(error) => super::fail(Exit::Host, &error),
        }
    }
}

/// The workflow of a checkpoint, checked as any other.
fn plan(saved: &Saved) -> Result<Plan, String> {
    let checked = workflow::check_bytes(&saved.engine.file, &saved.document);
    let mut plan = checked.into_plan().map_err(|error| error.to_string())?;
    for text in &saved.engine.settings {
        Setting::parse(text)?.apply(&mut plan).map_err(|error| error.to_string())?;
    }
    Ok(plan)
}
