//! The peers: what a user would do without Monohull, each in a process of its own.
//!
//! The benchmark starts itself again as `monohull-bench --peer NAME ARGUMENTS`: the price of a fork depends on the
//! size of the process, and a process that has run workflows has syscall dispatch and signal handlers. A peer prints
//! one number: nanoseconds per operation.

mod bare_relay;
mod calls;
mod cell;
mod copy;
mod dropped;
mod files;
mod fork;
mod mapped;
mod page_reads;
mod peak;
mod pipe;
mod processes;
mod relay;
mod sort;
mod spawn;
pub(crate) mod traffic;
mod words;
mod written;

use crate::forks::Asleep;
use crate::harness::Result;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) use processes::{build_cgi, build_floor, build_link, build_nothing, build_sort, build_wasi, build_wasmtime};
pub(crate) use sort::sorted_text;

/// Runs peer `name` in this process, and gives its nanoseconds per operation.
pub(crate) fn serve(name: &str, arguments: &[String]) -> Result<f64> {
    let number = |index: usize| -> Result<usize> {
        let text = arguments.get(index).ok_or_else(|| format!("peer {name} needs argument {index}"))?;
        text.parse().map_err(|error| format!("peer {name}: {text}: {error}"))
    };
    let path = |index: usize| -> Result<&Path> {
        arguments.get(index).map(Path::new).ok_or_else(|| format!("peer {name} needs argument {index}"))
    };
    match name {
        "getppid" => Ok(calls::getppid(number(0)?)),
        "key-switches" => calls::key_switches(number(0)?),
        "swapcontext" => calls::swapcontext_pairs(number(0)?),
        "cell" => cell::instances(number(0)?),
        "copy" => Ok(copy::copies(number(0)?, number(1)?)),
        "look" => Ok(copy::looks(number(0)?, number(1)?, number(2)?)),
        "dropped" => dropped::written_and_dropped(number(0)?, number(1)?, number(2)?),
        "written" => {
            written::found_and_copied(number(0)?, number(1)?, number(2)?, Duration::from_millis(number(3)? as u64))
        }
        "cold" => crate::cold::measure(arguments.first().map_or("", String::as_str), number(1)?),
        "spawn" => spawn::spawn_wait(number(0)?, arguments.get(1..).unwrap_or_default()),
        "fork" => fork::fork_exit_wait(number(0)?, 0),
        "fork-touched" => fork::fork_exit_wait(number(0)?, number(1)?),
        "restored" => {
            let file = Asleep { path: path(0)?, key: path(1)?, bytes: number(2)?, times: number(3)? as u32 };
            crate::forks::restored(&file, number(5)?, arguments.get(4).is_some_and(|what| what == "cached"))
        }
        "asleep-again" => {
            let file = Asleep { path: path(0)?, key: path(1)?, bytes: number(2)?, times: number(3)? as u32 };
            let whole = arguments.get(6).is_some_and(|what| what == "whole");
            crate::forks::sleep_again(&file, arguments.get(4).map_or("again", String::as_str), number(5)?, whole)
        }
        "forks" => crate::forks::measure(number(0)?, number(1)?, arguments.get(2).map_or("", String::as_str)),
        "page-reads" => page_reads::some(path(0)?, number(1)?, number(2)?, number(3)?),
        "page-faults" => page_reads::touched(path(0)?, number(1)?, number(2)?, number(3)?),
        "file-reads" => page_reads::whole(path(0)?, number(1)?),
        "files" => files::pass(path(0)?, number(1)?, number(2)?, number(3)?),
        "growth" => files::growth(path(0)?, number(1)?, number(2)?),
        "mapped" => mapped::sweep(path(0)?, number(1)?, number(2)?, number(3)?, number(4)? == 1),
        "peak-memory" => peak::of_run(path(0)?),
        "pipe" => pipe::ping_pong(number(0)?, number(1)?),
        "processes" => processes::chain(path(0)?, number(1)?, number(2)?),
        "words" => words::count_file(path(0)?, path(1)?, number(2)?),
        "traffic" => traffic::run(arguments.first().map_or("", String::as_str), number(1)?, number(2)?),
        "bare-relay" => bare_relay::serve(number(0)?),
        "relay" => relay::serve(number(0)?),
        "echo" => relay::echo(),
        "sort" => sort::sort_file(path(0)?, path(1)?, number(2)?),
        _ => Err(format!("no peer is called {name}")),
    }
}

/// Runs peer `name` in a new process.
pub(crate) fn measure(name: &str, arguments: &[&str]) -> Result<f64> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    figure(name, Command::new(program).arg("--peer").arg(name).args(arguments))
}

/// The number that a program prints.
pub(crate) fn figure(name: &str, command: &mut Command) -> Result<f64> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start peer {name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match output.status.success() {
        true => text.trim().parse().map_err(|error| format!("peer {name} said {text:?}: {error}")),
        false => Err(format!("peer {name} ended with {}", output.status)),
    }
}

/// The error of the last system call, in words.
fn last_error(what: &str) -> String {
    format!("{what}: {}", std::io::Error::last_os_error())
}
