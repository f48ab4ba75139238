//! `monohull resume`: goes on with a workflow that `monohull run --suspend` has ended while it waited.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::apart;
use super::checkpoint::{self, Trouble};
use super::client::Server;
use super::copies::{self, Copy};
use super::durable;
use super::durable::send::{named_file, read_event};
use super::exit::Exit;
use super::given::{Given, Giving};
use super::isolation::{Isolation, granted};
use super::programs::replace_programs_of;
use super::progress::Terminal;
use super::setting::saved_plan;
use super::slots::one_standard_input;
use super::suspend::{self, Begin, Origin};
use monohull_abi::event::EVENT_SEPARATOR;
use monohull_abi::number::EVENT_WAIT;
use monohull_checkpoint::Key;
use monohull_domain::checkpoint::Lineage;
use monohull_domain::checkpoint::record::ThreadState;
use monohull_durable::{InvalidId, InvocationId};
use monohull_engine::{Event, RunOptions};
use monohull_report::Progress;
use monohull_report::escape::shown;
use monohull_saved::{Engine, FileError, Saved, prepare_folder};
use monohull_worker::cgroup::CgroupMode;
use monohull_worker::{ProcessError, Rest, read_record};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// Go on with a suspended workflow
///
/// The functions' images must be those of the run. The checkpoint stays: resumed again, the workflow goes on from there once more.
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull resume waiting/sleeper-0123456789abcdef.checkpoint --suspend waiting",
    "monohull resume waiting/sleeper-0123456789abcdef.checkpoint --count 3",
    "monohull resume waiting/approval-0123456789abcdef.checkpoint --event approved=signature.txt"
))]
pub(super) struct Resume {
    /// The checkpoint; with `--state` or `--server` the id of a durable invocation
    checkpoint: PathBuf,
    /// Let a paused invocation of this state folder go on when it is due, which `monohull wake` does
    #[arg(long, value_name = "DIR", conflicts_with_all = ["suspend", "key", "raw", "isolation", "cgroup", "count", "copy", "server"])]
    state: Option<PathBuf>,
    /// The file of the key that the state folder is encrypted with
    #[arg(long, value_name = "FILE", requires = "state", conflicts_with_all = ["suspend", "events", "key", "raw", "isolation", "cgroup", "count", "copy", "server"])]
    state_key: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
    /// Suspend the workflow again if it only waits, for longer than a second; the user's own key seals that checkpoint
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    suspend: Option<PathBuf>,
    /// Give it an event with what is in a file; `-` is standard input. Events are kept until they are waited for
    #[arg(long = "event", value_name = "NAME=PATH", value_parser = named_file, conflicts_with_all = ["state", "server"])]
    events: Vec<(String, PathBuf)>,
    /// Move the workflow's clock where it only waits for a time, instead of waiting: a month passes in milliseconds
    #[arg(long, conflicts_with_all = ["suspend", "state", "server"])]
    skip_time: bool,
    /// Resume this many copies, up to 1000, each in a process of its own; each output file has the copy's number before its extension
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=copies::COUNT_MAX), conflicts_with = "server")]
    count: Option<u32>,
    /// Which of these this process is
    #[arg(long, value_name = "INDEX/COUNT", hide = true, conflicts_with = "count")]
    copy: Option<Copy>,
    /// The checkpoint, as the process has read it that has started this one
    #[arg(long, value_name = "DESCRIPTORS", hide = true, requires = "copy")]
    given: Option<Given>,
    /// The key that must have sealed the checkpoint; without it the user's own
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    key: Option<PathBuf>,
    /// How functions are isolated from the system; without it as `run` was asked to
    #[arg(long, value_enum, conflicts_with = "server")]
    isolation: Option<Isolation>,
    /// Whether the process of the workflow has a control group of its own; without it as `run` was asked to
    #[arg(long, value_enum, conflicts_with = "server")]
    cgroup: Option<CgroupMode>,
    /// Print one JSON document; what functions print is in it
    #[arg(long)]
    json: bool,
    /// Print control characters in what functions print as they are; without it they are escaped, because a terminal acts on them
    #[arg(long, conflicts_with_all = ["json", "server"])]
    raw: bool,
}

/// The events that a thread waits for, without an end, of which none is there, if nothing else happens by itself.
fn waits_in_vain(continuation: &OwnedFd, events: &[Event]) -> Option<String> {
    // What cannot be read is refused by the process that is to go on with it.
    let mut continuation = read_record(continuation).ok()?;
    // The workflow's own end is no reason to wait for it.
    continuation.run_deadline = None;
    if continuation.due().is_some() {
        return None;
    }
    let mut threads = continuation.instances.into_iter().flat_map(|instance| instance.threads);
    threads.find_map(|thread| {
        let has_no_end = matches!(&thread.state, ThreadState::Waits { until: None });
        let names = thread.name.filter(|_| has_no_end && thread.call == EVENT_WAIT)?;
        let is_there = names.split(EVENT_SEPARATOR).any(|name| events.iter().any(|event| event.name == name));
        (!is_there).then_some(names)
    })
}

/// Why there is nothing to resume.
enum Unread {
    Key(Trouble),
    File(FileError),
}

impl Unread {
    fn say(self, json: bool) -> Exit {
        match self {
            Unread::Key(trouble) => suspend::refuse(trouble.exit(), "host", &trouble, json),
            Unread::File(error) if error.is_hosts() => suspend::refuse(Exit::Host, "host", &error, json),
            Unread::File(error) => suspend::refuse(Exit::Usage, "invocation", &error, json),
        }
    }
}

impl Resume {
    pub(super) fn run(&self) -> Exit {
        if let Some(state) = &self.state {
            return match self.checkpoint.to_string_lossy().parse() {
                Ok(id) => durable::control::resume(state, self.state_key.as_deref(), &id, self.json),
                Err(error @ InvalidId) => super::fail(Exit::Usage, &error),
            };
        }
        if self.server.is_named() {
            return match self.checkpoint.to_string_lossy().parse() {
                Ok(id) => durable::control::resume_remote(&self.server, &id, self.json),
                Err(error @ InvalidId) => super::fail(Exit::Usage, &error),
            };
        }
        if let Some(option) = self.server.option_without_server() {
            return super::fail(Exit::Usage, &format!("{option} is for --server: a checkpoint is a file"));
        }
        if let Err(why) = one_standard_input(self.events.iter().map(|(_, path)| path.as_os_str())) {
            return super::fail(Exit::Usage, &why);
        }
        if self.copy.is_some() {
            // A copy ends with the process that has asked for it.
            let _ = prctl::set_pdeathsig(Signal::SIGKILL);
        }
        if let Some(count) = self.count {
            if self.events.iter().any(|(_, path)| path.as_os_str() == "-") {
                return super::fail(
                    Exit::Usage,
                    &"an event from standard input is for one run: `--count` needs a file",
                );
            }
            return self.copies(count);
        }
        let read = match self.given {
            Some(given) => {
                given.take().map(|saved| (saved, None, None)).map_err(|error| self.refuse(Exit::Host, "host", &error))
            }
            None => self.read(|path, key| Saved::read_for_one(path, key, saved_plan)).map_err(|unread| {
                let exit = unread.say(self.json);
                if !self.checkpoint.exists() && self.checkpoint.to_string_lossy().parse::<InvocationId>().is_ok() {
                    super::output::note("  the id of a durable invocation needs --state DIR or --server ADDRESS");
                }
                exit
            }),
        };
        let (mut saved, later, _) = match read {
            Ok(read) => read,
            Err(exit) => return exit,
        };
        let sealing = match self.suspend.as_ref().map(|_| checkpoint::own_key()).transpose() {
            Ok(key) => key,
            Err(trouble) => return self.refuse(trouble.exit(), "host", &trouble),
        };
        if let Some(Err(error)) = self.suspend.as_deref().map(prepare_folder) {
            return self.refuse(Exit::Host, "host", &error);
        }
        let mut plan = match saved_plan(&saved.document, &saved.engine) {
            Ok(plan) => plan,
            Err(error) => return self.refuse(Exit::Usage, "workflow", &error),
        };
        let images: Vec<[u8; 32]> = saved.functions.iter().map(|(_, hash, _)| *hash).collect();
        let _programs = match replace_programs_of(&mut plan, &images) {
            Ok(images) => images,
            Err(error) => return self.refuse(error.exit(), "workflow", &error),
        };
        let mut confined = saved.engine.confined;
        confined.cgroup = self.cgroup.map_or(confined.cgroup, suspend::kept_mode);
        let wish = self.isolation.map_or_else(|| granted(confined.isolation), Isolation::wish);
        confined.isolation = match wish {
            Ok(isolation) => isolation,
            Err(why) => return self.refuse(Exit::Host, "host", &why),
        };
        let generation = saved.generation.saturating_add(1);
        if let Some(Copy { index, count }) = self.copy {
            saved.engine.copy = (index, count);
            saved.engine.outputs = apart::outputs(&saved.engine.outputs, &index.to_string());
        }
        let (copy, copies) = saved.engine.copy;
        let lineage = Some(Lineage { generation, copy, copies });
        let continuation = Rest { memory: saved.continuation, later, may_leave: false, lineage, moved: 0 };
        let Engine { file, settings, outputs, inputs, mut events, mut given, copy, published, .. } = saved.engine;
        for (name, path) in &self.events {
            match read_event(name, path) {
                Ok(bytes) => events.push(Event { number: given, name: name.clone(), bytes }),
                Err(why) => return self.refuse(Exit::Usage, "invocation", &why),
            }
            given += 1;
        }
        if self.suspend.is_none()
            && let Some(waits) = waits_in_vain(&continuation.memory, &events)
        {
            let names = waits.split(EVENT_SEPARATOR).map(|name| format!("`{}`", shown(name))).collect::<Vec<_>>();
            let why = format_args!(
                "it waits for event {} for any length of time: give it one with --event, or suspend it again with --suspend",
                names.join(" or ")
            );
            return self.refuse(Exit::Usage, "invocation", &why);
        }
        let options = RunOptions {
            inline_inputs: inputs,
            outputs: outputs.clone(),
            isolation: confined.isolation,
            events: events.clone(),
            skip_time: self.skip_time,
            published,
            ..RunOptions::default()
        };
        let terminal = Terminal::new(self.raw);
        let watcher = (!self.json).then_some(&terminal as &dyn Progress);
        let begin = Begin { options: &options, watcher, continuation: Some((continuation, images)), templates: None };
        let document = saved.document;
        let key = sealing;
        let origin = Origin { file, document, settings, outputs, generation, events, given, copy, confined, key };
        match suspend::run(&plan, begin, origin, self.suspend.as_deref(), self.json) {
            Ok(exit) => exit,
            Err(error @ ProcessError::ImageChanged { .. }) => self.refuse(Exit::Usage, "workflow", &error),
            Err(ProcessError::Unfit(why)) => {
                let why = format_args!("{}: {why}", shown(&self.checkpoint));
                self.refuse(Exit::Usage, "invocation", &why)
            }
            Err(ProcessError::NotResumed { why, passing }) => {
                let why = format_args!("{}: it cannot go on now: {why}", shown(&self.checkpoint));
                self.refuse(if passing { Exit::Host } else { Exit::Usage }, "host", &why)
            }
            Err(error) => self.refuse(Exit::Host, "host", &error),
        }
    }

    /// Says why nothing runs.
    fn refuse(&self, exit: Exit, blame: &str, error: &dyn Display) -> Exit {
        suspend::refuse(exit, blame, error, self.json)
    }

    /// Reads the checkpoint, as `read` does that.
    fn read<R>(&self, read: impl FnOnce(&Path, &Key) -> Result<R, FileError>) -> Result<R, Unread> {
        let key = checkpoint::checking_key(self.key.as_deref()).map_err(Unread::Key)?;
        read(&self.checkpoint, &key).map_err(Unread::File)
    }

    /// Resumes so many copies. If the checkpoint cannot be read, each of them says so.
    fn copies(&self, count: u32) -> Exit {
        let giving =
            self.read(|path, key| Saved::read(path, key, saved_plan)).ok().and_then(|saved| Giving::new(saved).ok());
        let given = giving.as_ref().map(|giving| OsString::from(giving.argument()));
        let arguments: Vec<_> = given.into_iter().chain(self.arguments()).collect();
        copies::run(&arguments, count, self.json)
    }

    /// The arguments of a process for one copy, but for its number.
    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut option = |name: &str, value: &OsStr| {
            let mut argument = OsString::from(format!("--{name}="));
            argument.push(value);
            arguments.push(argument);
        };
        if let Some(folder) = &self.suspend {
            option("suspend", folder.as_os_str());
        }
        if let Some(key) = &self.key {
            option("key", key.as_os_str());
        }
        if let Some(isolation) = self.isolation.and_then(|isolation| isolation.to_possible_value()) {
            option("isolation", OsStr::new(isolation.get_name()));
        }
        if let Some(cgroup) = self.cgroup.and_then(|cgroup| cgroup.to_possible_value()) {
            option("cgroup", OsStr::new(cgroup.get_name()));
        }
        for (name, path) in &self.events {
            let mut value = OsString::from(format!("{name}="));
            value.push(path);
            option("event", &value);
        }
        let flags = [("--json", self.json), ("--raw", self.raw), ("--skip-time", self.skip_time)];
        arguments.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.into()));
        // A path is no option, whatever it begins with.
        arguments.extend(["--".into(), self.checkpoint.clone().into_os_string()]);
        arguments
    }
}
