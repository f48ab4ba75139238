//! Builds everything and hands over to the benchmark program.

use crate::workspace::{Workspace, root};
use crate::{Result, apache, build, durable_peers, network, nginx, programs, pyperformance, sandboxes, shell};
use std::process::Command;

/// Runs `monohull-bench` with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result {
    if arguments.iter().any(|argument| argument == "--list") {
        return program(arguments);
    }
    build::everything()?;
    apache::ready()?;
    nginx::ready()?;
    network::peers()?;
    sandboxes::ready();
    if measures(arguments, "reused-wasmtime") {
        sandboxes::wasmtime_program();
    }
    if measures(arguments, "programs") {
        programs::servers_of_host(&Workspace::load()?);
    }
    if measures_family(arguments, "durable") {
        durable_peers::ready();
    }
    if measures_family(arguments, "programs") {
        pyperformance::ready();
    }
    program(arguments)
}

/// Builds the program itself, and runs it.
fn program(arguments: &[String]) -> Result {
    shell::run(&mut shell::cargo(["build", "--release", "-p", "monohull-bench", "-p", "bench-program"]))?;
    let program = Workspace::load()?.target().join("release/monohull-bench");
    shell::run(Command::new(program).args(arguments).current_dir(root()))
}

/// Whether these arguments have a scenario measured for which something is compiled that takes minutes: if it is named, or in a full run.
fn measures(arguments: &[String], scenario: &str) -> bool {
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let is_scenario = |argument: &&String| !argument.starts_with('-') && argument.parse::<u64>().is_err();
    let names_none = arguments.iter().find(is_scenario).is_none() && !has("--list");
    has(scenario) || (names_none && !has("--smoke"))
}

/// The same of scenarios whose names begin with this word. A smoke run has no peers that are fetched for them alone.
fn measures_family(arguments: &[String], word: &str) -> bool {
    let is_one = |argument: &&String| argument.as_str() == word || argument.starts_with(&format!("{word}-"));
    let named = arguments.iter().find(is_one).map_or(word, String::as_str);
    measures(arguments, named) && !arguments.iter().any(|argument| argument == "--smoke")
}

#[cfg(test)]
mod tests {
    use super::{measures, measures_family};

    #[test]
    fn a_program_that_takes_minutes_to_compile_is_compiled_where_it_is_needed() {
        let needs = |line: &str| {
            let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            measures(&arguments, "reused-wasmtime")
        };
        assert!(
            needs("") && needs("--rounds 5") && needs("hostcall reused-wasmtime") && needs("reused-wasmtime --smoke")
        );
        assert!(!needs("--smoke") && !needs("hostcall") && !needs("--list") && !needs("reused --rounds 5"));
    }

    #[test]
    fn peers_of_a_family_are_fetched_for_each_of_it_and_for_no_smoke_run() {
        let needs = |line: &str| {
            let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            measures_family(&arguments, "durable")
        };
        assert!(needs("") && needs("durable") && needs("hostcall durable-rate --rounds 5"));
        assert!(!needs("--smoke") && !needs("durable --smoke") && !needs("hostcall") && !needs("--list"));
    }
}
