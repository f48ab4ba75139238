//! Our side of a cold start: a supervisor in a process of its own, whose spawner is forked before anything else happens.
//!
//! ```text
//! idle worker made │ request: job given … first instruction … answer … process reaped │ idle worker made │ …
//!            └────────────────────── what is measured ─────────────────────────┘
//! ```

use crate::harness::Result;
use crate::ours::{image, nothing_document};
use monohull_visor::engine::{IsolationWish, Ready};
use monohull_visor::worker::{
    Data, Job, JobTemplate, Message, Running, Settings, Spawner, Template, template_instances,
};
use monohull_visor::workflow;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A program that imports what many do, and answers.
const PYTHON: &str = "\
import json, re
import monohull
word = re.compile('[a-z]+')
monohull.ready()
monohull.slots.put('out', json.dumps(word.findall(str(monohull.slots.get('in'), 'utf-8'))))
";

/// What is run by the interpreter that is a WebAssembly program, alone and where a template is made.
pub(crate) const HELLO: &str = "print('hello')";
const HELLO_READY: &str = "import monohull; monohull.ready(); print('hello')";

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    /// A function that does nothing.
    Nothing,
    /// One that builds a table first, which takes a few milliseconds.
    Prepared,
    /// The same from a template, where the table is there.
    FromTemplate,
    /// A program in Python that imports a part of the library.
    Python,
    /// The same from a template, where that has been done.
    PythonFromTemplate,
    /// One that says hello, by the interpreter that is a WebAssembly program.
    Hello,
    /// The same from a template, where the interpreter has started.
    HelloFromTemplate,
    /// Five steps that do next to nothing, one after the other.
    Chain,
    /// The same, each step from a template before its first call that is its own.
    ChainFromTemplates,
    /// Its steps at once: each waits for what the one before it hands on, in a cell of its own.
    ChainAtOnce,
    /// Five steps, of which the first, the third and the last build a table first.
    Tables,
    /// The same from templates, where the tables are there.
    TablesFromTemplates,
}

/// Steps of a chain.
const LINKS: usize = 5;

impl Function {
    fn document(self) -> String {
        let document = match self {
            Function::Nothing => nothing_document(1),
            Function::Prepared | Function::FromTemplate => json!({
                "name": "bench-prepared",
                "functions": {"prepared": {"image": image("prepared")}},
                "steps": [{
                    "name": "main", "function": "prepared", "args": {"entries": 100_000, "before": "", "label": ""},
                }],
                "inputs": ["in"],
                "outputs": ["out"],
                "limits": {"carriers": 1},
            }),
            Function::Hello => hello_document(HELLO),
            Function::HelloFromTemplate => hello_document(HELLO_READY),
            Function::Chain => chain_document(true),
            Function::ChainAtOnce => chain_document(false),
            Function::ChainFromTemplates => at_first_wait(chain_document(true)),
            Function::Tables => tables_document(),
            Function::TablesFromTemplates => at_first_wait(tables_document()),
            Function::Python | Function::PythonFromTemplate => json!({
                "name": "bench-python",
                "functions": {"python": {"image": format!("{}/../target/python/python.so", env!("CARGO_MANIFEST_DIR"))}},
                "steps": [{ "name": "main", "function": "python", "args": {"argv": ["-c", PYTHON]} }],
                "inputs": ["in"],
                "outputs": ["out"],
                "limits": {"carriers": 1},
            }),
        };
        document.to_string()
    }

    /// Whether its instances start from templates.
    fn has_templates(self) -> bool {
        match self {
            Function::FromTemplate
            | Function::PythonFromTemplate
            | Function::HelloFromTemplate
            | Function::ChainFromTemplates
            | Function::TablesFromTemplates => true,
            Function::Nothing
            | Function::Prepared
            | Function::Python
            | Function::Hello
            | Function::Chain
            | Function::ChainAtOnce
            | Function::Tables => false,
        }
    }

    fn job(self, ready: &Arc<Ready>, template: JobTemplate) -> Job {
        let inputs = match self {
            Function::Nothing
            | Function::Hello
            | Function::HelloFromTemplate
            | Function::Chain
            | Function::ChainAtOnce
            | Function::ChainFromTemplates => Vec::new(),
            _ => vec![("in".to_owned(), Data::Bytes(b"input".to_vec()))],
        };
        Job { template, ..Job::new(ready.clone(), inputs) }
    }
}

/// A workflow of a program in Python that is run by the interpreter in WebAssembly.
pub(crate) fn hello_document(program: &str) -> Value {
    json!({
        "name": "bench-python-wasi",
        "functions": {"python": {"image": format!("{}/../target/python/python-wasi.so", env!("CARGO_MANIFEST_DIR"))}},
        "steps": [{ "name": "main", "function": "python", "args": {"argv": ["-c", program]} }],
        "limits": {"carriers": 1},
    })
}

/// A chain of steps that hand on a few bytes, one after the other or at once.
fn chain_document(in_turn: bool) -> Value {
    let step = |link: usize| {
        let after = if link == 0 || !in_turn { vec![] } else { vec![format!("link-{}", link - 1)] };
        let args = json!({"link": link, "links": LINKS, "bytes": 64});
        json!({"name": format!("link-{link}"), "function": "link", "after": after, "args": args})
    };
    json!({
        "name": "bench-chain-small",
        "functions": {"link": {"image": image("chain-link")}},
        "steps": (0..LINKS).map(step).collect::<Vec<_>>(),
        "outputs": ["result"],
        "limits": {"carriers": 1},
    })
}

/// A chain in which every other step builds a table, and those between them pass on what it has written.
fn tables_document() -> Value {
    let step = |link: usize| {
        let after = if link == 0 { vec![] } else { vec![format!("link-{}", link - 1)] };
        let (function, args) = match link % 2 {
            0 => ("prepared", json!({"entries": 1_000_000, "before": "", "label": ""})),
            _ => ("sleeper", json!({"naps": 0, "milliseconds": 0, "takes": "out", "fills": "in"})),
        };
        json!({"name": format!("link-{link}"), "function": function, "after": after, "args": args})
    };
    json!({
        "name": "bench-chain-tables",
        "functions": {"prepared": {"image": image("prepared")}, "sleeper": {"image": image("sleeper")}},
        "steps": (0..LINKS).map(step).collect::<Vec<_>>(),
        "inputs": ["in"],
        "outputs": ["out"],
        "limits": {"carriers": 1},
    })
}

/// The same workflow, each of whose steps has a template.
fn at_first_wait(mut document: Value) -> Value {
    document["template"] = json!("after-first-wait");
    document
}

/// Has the template of the instance of a cell made.
fn make_template(spawner: &Spawner, ready: &Arc<Ready>, cell: usize) -> Result<Template> {
    let worker = spawner.idle_worker().map_err(|error| error.to_string())?;
    let job = Job { template: JobTemplate::Make(cell), ..Job::new(ready.clone(), Vec::new()) };
    let mut running = worker.assign(&job).map_err(|error| error.to_string())?;
    listen(&mut running, |message| match message {
        Message::Suspended(made) => {
            Some(Template::of(ready, cell, &made.continuation, 1 << 30).map_err(|error| error.to_string()))
        }
        Message::Ended { report, .. } => Some(Err(format!("there is no template: {:?}", report.error))),
        Message::Done { .. } => Some(Err("there is no template: it has ended".to_owned())),
        _ => None,
    })?
}

/// What of a cold start is wanted; a prefix says of which function.
pub(crate) fn measure(what: &str, count: usize) -> Result<f64> {
    let (function, what) = match what.split_once(':') {
        None => (Function::Nothing, what),
        Some(("prepared", what)) => (Function::Prepared, what),
        Some(("template", what)) => (Function::FromTemplate, what),
        Some(("python", what)) => (Function::Python, what),
        Some(("python-template", what)) => (Function::PythonFromTemplate, what),
        Some(("hello", what)) => (Function::Hello, what),
        Some(("hello-template", what)) => (Function::HelloFromTemplate, what),
        Some(("chain", what)) => (Function::Chain, what),
        Some(("chain-at-once", what)) => (Function::ChainAtOnce, what),
        Some(("chain-templates", what)) => (Function::ChainFromTemplates, what),
        Some(("tables", what)) => (Function::Tables, what),
        Some(("tables-templates", what)) => (Function::TablesFromTemplates, what),
        Some(_) => return Err(format!("unknown measurement {what}")),
    };
    let settings = Settings::usual(IsolationWish::Auto).map_err(|error| wrong(&error))?;
    let spawner = Spawner::start(&settings).map_err(|error| wrong(&error))?;
    let document = function.document();
    let plan = workflow::load_str(Path::new("bench.json"), &document).map_err(|error| wrong(&error))?;
    let ready = Arc::new(Ready::new(plan).map_err(|error| wrong(&error))?);
    if what == "made" {
        return time_to_make(&spawner, &ready, count);
    }
    let template = if function.has_templates() {
        JobTemplate::From(templates(&spawner, &ready)?.into_iter().map(Arc::new).collect())
    } else {
        JobTemplate::No
    };
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        let worker = spawner.idle_worker().map_err(|error| wrong(&error))?;
        let made = start.elapsed();
        // The new process goes to sleep before its job comes.
        std::thread::yield_now();
        let job = function.job(&ready, template.clone());
        let start = Instant::now();
        let mut running = worker.assign(&job).map_err(|error| wrong(&error))?;
        let first = listen(&mut running, |message| {
            let timeline = match message {
                Message::Ended { report, .. } if report.error.is_some() => {
                    return Some(Err(format!("it has failed: {:?}", report.error)));
                }
                Message::Ended { report, .. } => report.timeline.clone(),
                Message::Done { report, .. } => report.timeline(),
                _ => return None,
            };
            let at = timeline.iter().find(|point| point.name == "first-instruction");
            at.map(|point| Ok(point.at_ns.saturating_sub(job.requested_ns) as f64))
        })??;
        let answered = start.elapsed();
        listen(&mut running, |message| matches!(message, Message::Died(_)).then_some(()))?;
        let reaped = start.elapsed();
        samples.push(match what {
            "first-instruction" => first,
            "answered" => answered.as_nanos() as f64,
            "reaped" => reaped.as_nanos() as f64,
            "idle-worker" => made.as_nanos() as f64,
            _ => return Err(format!("unknown measurement {what}")),
        });
    }
    Ok(middle(samples))
}

/// A template of each instance that may have one.
fn templates(spawner: &Spawner, ready: &Arc<Ready>) -> Result<Vec<Template>> {
    (0..template_instances(ready).len()).map(|cell| make_template(spawner, ready, cell)).collect()
}

/// How long it takes until a workflow has all of its templates.
fn time_to_make(spawner: &Spawner, ready: &Arc<Ready>, count: usize) -> Result<f64> {
    let one = || {
        let start = Instant::now();
        templates(spawner, ready)?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    Ok(middle((0..count).map(|_| one()).collect::<Result<Vec<_>>>()?))
}

fn middle(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// An error in words.
pub(crate) fn wrong(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

/// Waits for a message that gives something.
pub(crate) fn listen<T>(running: &mut Running, mut wanted: impl FnMut(&Message) -> Option<T>) -> Result<T> {
    loop {
        running.wait(None).map_err(|error| error.to_string())?;
        while let Some(message) = running.next_message().map_err(|error| error.to_string())? {
            if let Some(found) = wanted(&message) {
                return Ok(found);
            }
            if let Message::Died(death) = message {
                return Err(death.failure().message);
            }
        }
    }
}
