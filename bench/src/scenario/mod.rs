//! The scenarios, one per file. A scenario gives one row per variant.

mod chain;
mod checker;
mod checkpoint;
mod checkpoint_file;
mod checkpoint_forks;
mod cold_start;
mod deadlines;
mod durable;
mod figures;
mod files;
mod hostcall;
mod instance;
mod memory;
mod mmap_file;
mod modules;
mod network;
mod open_loop;
mod park;
mod plan;
mod programs;
mod python;
mod resident;
mod reused;
mod rewind;
mod sandboxes;
mod serve;
mod slot_holder;
mod slot_large;
mod slot_small;
mod soak;
mod sort;
mod wasi;
mod wasi_memory;
mod wasi_python;
mod wasi_python_workflows;
mod wasi_workflows;
mod word_count;

use crate::harness::{Effort, Result, Row};
use crate::report::Table;

/// Something that is measured.
pub(crate) struct Scenario {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What is measured against what.
    pub about: &'static str,
    /// Measures it.
    pub run: Run,
    /// What this computer lacks for it, if anything: then it is skipped, and the report says so.
    pub lacks: fn() -> Option<String>,
}

/// What a scenario gives.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// A row for each variant.
    Rows(fn(Effort) -> Result<Vec<Row>>),
    /// A table.
    Table(fn(Effort) -> Result<Table>),
}

/// For scenarios that bring along all they need.
fn nothing() -> Option<String> {
    None
}

/// All of them, from small to large.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "hostcall",
        about: "a hostcall there and back, against a system call",
        run: Run::Rows(hostcall::run),
        lacks: nothing,
    },
    Scenario {
        name: "park",
        about: "park and resume a function, against a pair of swapcontext",
        run: Run::Rows(park::run),
        lacks: nothing,
    },
    Scenario {
        name: "cold-start",
        about: "a workflow in a process of its own, against posix_spawn of a static program",
        run: Run::Rows(cold_start::run),
        lacks: nothing,
    },
    Scenario {
        name: "instance",
        about: "start and end an instance, against fork + exit + wait",
        run: Run::Rows(instance::run),
        lacks: nothing,
    },
    Scenario {
        name: "slot-small",
        about: "4 KiB from function to function, against a pipe",
        run: Run::Rows(slot_small::run),
        lacks: nothing,
    },
    Scenario {
        name: "slot-large",
        about: "16 MiB from function to function, against reading it",
        run: Run::Rows(slot_large::run),
        lacks: nothing,
    },
    Scenario {
        name: "slot-holder",
        about: "the slowest slot call while an instance with 400 000 buffers ends, against 10 ms",
        run: Run::Rows(slot_holder::run),
        lacks: nothing,
    },
    Scenario { name: "serve", about: "a no-op over HTTP, against Apache", run: Run::Rows(serve::run), lacks: nothing },
    Scenario {
        name: "resident",
        about: "an invocation that goes on in the process that has stayed with it, against one that is restored",
        run: Run::Rows(resident::run),
        lacks: nothing,
    },
    Scenario {
        name: "reused",
        about: "a process that serves many invocations over HTTP, against nginx, Apache and a function call",
        run: Run::Rows(reused::run),
        lacks: nothing,
    },
    Scenario {
        name: "reused-wasmtime",
        about: "the same no-op, against `wasmtime serve`, which makes an instance for each request",
        run: Run::Rows(reused::wasmtime),
        lacks: reused::lacks_wasmtime,
    },
    Scenario {
        name: "reused-memory",
        about: "what processes that wait for another invocation take of memory, against 1 MiB each",
        run: Run::Rows(reused::memory),
        lacks: nothing,
    },
    Scenario {
        name: "open-loop",
        about: "1 MB sorted for requests that come at their own pace, against Apache and a process for each",
        run: Run::Rows(open_loop::run),
        lacks: nothing,
    },
    Scenario {
        name: "wasmtime",
        about: "a no-op in a process of its own, against an instance of WebAssembly in wasmtime",
        run: Run::Rows(sandboxes::wasmtime),
        lacks: sandboxes::lacks_wasmtime,
    },
    Scenario {
        name: "wasi",
        about: "programs for WASI as functions, against the same in wasmtime",
        run: Run::Rows(wasi::run),
        lacks: sandboxes::lacks_wasmtime,
    },
    Scenario {
        name: "wasi-python",
        about: "`print('hello')` by Python in WebAssembly, alone and from a template, against the same module in wasmtime",
        run: Run::Rows(wasi_python::run),
        lacks: wasi_python::lacks,
    },
    Scenario {
        name: "wasi-workflows",
        about: "word count, sort and chain by functions in C in WebAssembly, against the same C as native functions",
        run: Run::Rows(wasi_workflows::run),
        lacks: nothing,
    },
    Scenario {
        name: "wasi-python-workflows",
        about: "word count, sort and chain by functions in Python in WebAssembly, against the native interpreter",
        run: Run::Rows(wasi_python_workflows::run),
        lacks: wasi_python_workflows::lacks,
    },
    Scenario {
        name: "gvisor",
        about: "a no-op in a process of its own, against one under gVisor's kernel",
        run: Run::Rows(sandboxes::gvisor),
        lacks: sandboxes::lacks_gvisor,
    },
    Scenario {
        name: "deadlines",
        about: "how late deadlines are kept in loops of long hostcalls, against what is allowed",
        run: Run::Rows(deadlines::run),
        lacks: nothing,
    },
    Scenario {
        name: "checkpoint",
        about: "a suspended workflow: its file, against what is allowed; going on, against starting; a computation with checkpoints, against none",
        run: Run::Rows(checkpoint::run),
        lacks: nothing,
    },
    Scenario {
        name: "checkpoint-file",
        about: "a checkpoint written durably, against write + fdatasync; and restored, against reading a file",
        run: Run::Rows(checkpoint_file::run),
        lacks: nothing,
    },
    Scenario {
        name: "checkpoint-forks",
        about: "processes that go on from one sleeper with 100 MiB, against fork of a process with 100 MiB",
        run: Run::Rows(checkpoint_forks::run),
        lacks: nothing,
    },
    Scenario {
        name: "rewind",
        about: "16 MiB taken back in place, of which some were written, against copying 16 MiB",
        run: Run::Rows(rewind::run),
        lacks: nothing,
    },
    Scenario {
        name: "durable-latency",
        about: "steps, sleeps and events of durable workflows, against Restate, DBOS and duroxide",
        run: Run::Rows(durable::latency),
        lacks: nothing,
    },
    Scenario {
        name: "durable-rate",
        about: "suspensions of 16 clients' workflows, against steps of the same engines, and the disk",
        run: Run::Rows(durable::rate),
        lacks: nothing,
    },
    Scenario {
        name: "durable-recovery",
        about: "a server that is killed with 1000 sleepers, until it serves again, against the same engines",
        run: Run::Rows(durable::recovery),
        lacks: nothing,
    },
    Scenario {
        name: "durable-sleepers",
        about: "what 10 000 sleepers take of the disk and of memory, against the same engines",
        run: Run::Rows(durable::sleepers),
        lacks: nothing,
    },
    Scenario {
        name: "durable-million",
        about: "a million sleepers: memory, and one that is due when the server is started for it",
        run: Run::Rows(durable::million),
        lacks: nothing,
    },
    Scenario {
        name: "durable-ten",
        about: "ten things that durable workflows can do, of the same engines: a table",
        run: Run::Table(durable::ten),
        lacks: nothing,
    },
    Scenario {
        name: "memory",
        about: "what a server and its processes take of memory",
        run: Run::Rows(memory::run),
        lacks: nothing,
    },
    Scenario {
        name: "plan",
        about: "what a plan takes of memory for its instances, against their reports in a Vec",
        run: Run::Rows(plan::run),
        lacks: nothing,
    },
    Scenario {
        name: "soak",
        about: "20 000 invocations that fail in every way; nothing may be left",
        run: Run::Rows(soak::run),
        lacks: nothing,
    },
    Scenario {
        name: "soak-reused",
        about: "the same in processes that are used again",
        run: Run::Rows(soak::reused),
        lacks: nothing,
    },
    Scenario {
        name: "chain",
        about: "15 functions hand on 1 MB, against processes and pipes",
        run: Run::Rows(chain::run),
        lacks: nothing,
    },
    Scenario {
        name: "word-count",
        about: "the words of 10 MB, against one plain program",
        run: Run::Rows(word_count::run),
        lacks: nothing,
    },
    Scenario {
        name: "sort",
        about: "1 million numbers, against one plain program",
        run: Run::Rows(sort::run),
        lacks: nothing,
    },
    Scenario {
        name: "programs",
        about: "maps, sorting, memory, threads and files of a usual program, against the same program on the host",
        run: Run::Rows(programs::run),
        lacks: nothing,
    },
    Scenario {
        name: "files",
        about: "a file of 256 MiB from an image and from memory, against ext4",
        run: Run::Rows(files::run),
        lacks: nothing,
    },
    Scenario {
        name: "mmap-file",
        about: "a file of 256 MiB mapped and touched, against the kernel's mapping of one on ext4",
        run: Run::Rows(mmap_file::run),
        lacks: nothing,
    },
    Scenario {
        name: "network",
        about: "TCP over a device of the workflow's own, against the kernel's loopback",
        run: Run::Rows(network::run),
        lacks: network::lacks,
    },
    Scenario {
        name: "modules",
        about: "modules loaded on demand, against all at once",
        run: Run::Rows(modules::run),
        lacks: nothing,
    },
    Scenario {
        name: "checker",
        about: "the instruction checker, against objdump and plain reading",
        run: Run::Rows(checker::run),
        lacks: nothing,
    },
];

/// The named ones, or all. A name that several have as their first word is all of these.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let find = |name: &String| {
        let one = ALL.iter().filter(|scenario| scenario.name == name);
        // `durable` is all of `durable-…`.
        let family =
            ALL.iter().filter(|scenario| scenario.name.strip_prefix(&**name).is_some_and(|rest| rest.starts_with('-')));
        let (one, family): (Vec<_>, Vec<_>) = (one.collect(), family.collect());
        match (one.is_empty(), family.is_empty()) {
            (false, _) => Ok(one),
            (true, false) => Ok(family),
            (true, true) => {
                let known: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
                Err(format!("no scenario is called {name}; there are {}", known.join(", ")))
            }
        }
    };
    names.iter().map(find).collect::<Result<Vec<_>>>().map(|found| found.concat())
}
