//! Builds everything and hands over to the benchmark program.

use crate::workspace::{Workspace, root};
use crate::{Result, apache, build, network, nginx, pyperformance, sandboxes, shell};
use std::process::Command;

/// Runs `monohull-bench` with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result {
    build::everything()?;
    apache::ready()?;
    nginx::ready()?;
    network::peers()?;
    sandboxes::ready();
    if needs_wasmtime_program(arguments) {
        sandboxes::wasmtime_program();
    }
    pyperformance::ready();
    shell::run(&mut shell::cargo(["build", "--release", "-p", "monohull-bench", "-p", "bench-program"]))?;
    let program = Workspace::load()?.target().join("release/monohull-bench");
    shell::run(Command::new(program).args(arguments).current_dir(root()))
}

/// Whether these arguments have a scenario measured for which wasmtime's program is compiled: if it is named, or in a full run.
fn needs_wasmtime_program(arguments: &[String]) -> bool {
    const SCENARIO: &str = "reused-wasmtime";
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let is_scenario = |argument: &&String| !argument.starts_with('-') && argument.parse::<u64>().is_err();
    let names_none = arguments.iter().find(is_scenario).is_none() && !has("--list");
    has(SCENARIO) || (names_none && !has("--smoke"))
}

#[cfg(test)]
mod tests {
    use super::needs_wasmtime_program;

    #[test]
    fn a_program_that_takes_minutes_to_compile_is_compiled_where_it_is_needed() {
        let needs =
            |line: &str| needs_wasmtime_program(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert!(
            needs("") && needs("--rounds 5") && needs("hostcall reused-wasmtime") && needs("reused-wasmtime --smoke")
        );
        assert!(!needs("--smoke") && !needs("hostcall") && !needs("--list") && !needs("reused --rounds 5"));
    }
}
