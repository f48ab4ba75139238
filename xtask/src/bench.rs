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
    pyperformance::ready();
    shell::run(&mut shell::cargo(["build", "--release", "-p", "monohull-bench", "-p", "bench-program"]))?;
    let program = Workspace::load()?.target().join("release/monohull-bench");
    shell::run(Command::new(program).args(arguments).current_dir(root()))
}
