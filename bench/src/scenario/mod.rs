//! The scenarios, one per file. A scenario gives one row per variant.

mod chain;
mod checker;
mod checkpoint;
mod cold_start;
mod deadlines;
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
mod word_count;

use crate::harness::{Effort, Result, Row};

/// Something that is measured.
pub(crate) struct Scenario {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What is measured against what.
    pub about: &'static str,
    /// Measures it.
    pub run: fn(Effort) -> Result<Vec<Row>>,
    /// What this computer lacks for it, if anything: then it is skipped, and the report says so.
    pub lacks: fn() -> Option<String>,
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
        run: hostcall::run,
        lacks: nothing,
    },
    Scenario {
        name: "park",
        about: "park and resume a function, against a pair of swapcontext",
        run: park::run,
        lacks: nothing,
    },
    Scenario {
        name: "cold-start",
        about: "a workflow in a process of its own, against posix_spawn of a static program",
        run: cold_start::run,
        lacks: nothing,
    },
    Scenario {
        name: "instance",
        about: "start and end an instance, against fork + exit + wait",
        run: instance::run,
        lacks: nothing,
    },
    Scenario {
        name: "slot-small",
        about: "4 KiB from function to function, against a pipe",
        run: slot_small::run,
        lacks: nothing,
    },
    Scenario {
        name: "slot-large",
        about: "16 MiB from function to function, against reading it",
        run: slot_large::run,
        lacks: nothing,
    },
    Scenario {
        name: "slot-holder",
        about: "the slowest slot call while an instance with 400 000 buffers ends, against 10 ms",
        run: slot_holder::run,
        lacks: nothing,
    },
    Scenario { name: "serve", about: "a no-op over HTTP, against Apache", run: serve::run, lacks: nothing },
    Scenario {
        name: "resident",
        about: "an invocation that goes on in the process that has stayed with it, against one that is restored",
        run: resident::run,
        lacks: nothing,
    },
    Scenario {
        name: "reused",
        about: "a process that serves many invocations over HTTP, against nginx, Apache and a function call",
        run: reused::run,
        lacks: nothing,
    },
    Scenario {
        name: "reused-wasmtime",
        about: "the same no-op, against `wasmtime serve`, which makes an instance for each request",
        run: reused::wasmtime,
        lacks: reused::lacks_wasmtime,
    },
    Scenario {
        name: "reused-memory",
        about: "what processes that wait for another invocation take of memory, against 1 MiB each",
        run: reused::memory,
        lacks: nothing,
    },
    Scenario {
        name: "open-loop",
        about: "1 MB sorted for requests that come at their own pace, against Apache and a process for each",
        run: open_loop::run,
        lacks: nothing,
    },
    Scenario {
        name: "wasmtime",
        about: "a no-op in a process of its own, against an instance of WebAssembly in wasmtime",
        run: sandboxes::wasmtime,
        lacks: sandboxes::lacks_wasmtime,
    },
    Scenario {
        name: "wasi",
        about: "programs for WASI as functions, against the same in wasmtime",
        run: wasi::run,
        lacks: sandboxes::lacks_wasmtime,
    },
    Scenario {
        name: "gvisor",
        about: "a no-op in a process of its own, against one under gVisor's kernel",
        run: sandboxes::gvisor,
        lacks: sandboxes::lacks_gvisor,
    },
    Scenario {
        name: "deadlines",
        about: "how late deadlines are kept in loops of long hostcalls, against what is allowed",
        run: deadlines::run,
        lacks: nothing,
    },
    Scenario {
        name: "checkpoint",
        about: "a suspended workflow: its file, against what is allowed; going on, against starting; a computation with checkpoints, against none",
        run: checkpoint::run,
        lacks: nothing,
    },
    Scenario {
        name: "rewind",
        about: "16 MiB taken back in place, of which some were written, against copying 16 MiB",
        run: rewind::run,
        lacks: nothing,
    },
    Scenario {
        name: "memory",
        about: "what a server and its processes take of memory",
        run: memory::run,
        lacks: nothing,
    },
    Scenario {
        name: "plan",
        about: "what a plan takes of memory for its instances, against their reports in a Vec",
        run: plan::run,
        lacks: nothing,
    },
    Scenario {
        name: "soak",
        about: "20 000 invocations that fail in every way; nothing may be left",
        run: soak::run,
        lacks: nothing,
    },
    Scenario {
        name: "soak-reused",
        about: "the same in processes that are used again",
        run: soak::reused,
        lacks: nothing,
    },
    Scenario {
        name: "chain",
        about: "15 functions hand on 1 MB, against processes and pipes",
        run: chain::run,
        lacks: nothing,
    },
    Scenario {
        name: "word-count",
        about: "the words of 10 MB, against one plain program",
        run: word_count::run,
        lacks: nothing,
    },
    Scenario { name: "sort", about: "1 million numbers, against one plain program", run: sort::run, lacks: nothing },
    Scenario {
        name: "programs",
        about: "maps, sorting, memory, threads and files of a usual program, against the same program on the host",
        run: programs::run,
        lacks: nothing,
    },
    Scenario {
        name: "files",
        about: "a file of 256 MiB from an image and from memory, against ext4",
        run: files::run,
        lacks: nothing,
    },
    Scenario {
        name: "mmap-file",
        about: "a file of 256 MiB mapped and touched, against the kernel's mapping of one on ext4",
        run: mmap_file::run,
        lacks: nothing,
    },
    Scenario {
        name: "network",
        about: "TCP over a device of the workflow's own, against the kernel's loopback",
        run: network::run,
        lacks: network::lacks,
    },
    Scenario {
        name: "modules",
        about: "modules loaded on demand, against all at once",
        run: modules::run,
        lacks: nothing,
    },
    Scenario {
        name: "checker",
        about: "the instruction checker, against objdump and plain reading",
        run: checker::run,
        lacks: nothing,
    },
];

/// The named ones, or all.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let find = |name: &String| {
        ALL.iter().find(|scenario| scenario.name == name).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
            format!("no scenario is called {name}; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}
