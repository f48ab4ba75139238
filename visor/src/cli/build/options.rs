//! Options of cargo that `monohull build` passes on, with cargo's names.

use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use clap::Args;

use crate::cli::cargo;

/// What cargo is told besides what to build.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Options of cargo")]
pub(super) struct Options {
    /// Build as Cargo.lock says, and fail if it would change
    #[arg(long)]
    locked: bool,
    /// Do without the network
    #[arg(long)]
    offline: bool,
    /// `--locked` and `--offline`
    #[arg(long)]
    frozen: bool,
    /// Override a setting of cargo, or take those of a file
    #[arg(long, value_name = "KEY=VALUE|PATH")]
    config: Vec<String>,
    /// How many crates are compiled at the same time
    #[arg(long, short, value_name = "N", allow_hyphen_values = true)]
    jobs: Option<String>,
    /// Cargo's target folder, in which the folder `images` is as well
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Do not show what is compiled
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Show how the compiler is called; twice: also of dependencies, and what build scripts say
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Options {
    /// A command of cargo for the crate with this manifest, which finds the same crates and folders as all others.
    pub(super) fn command(&self, manifest: &Path) -> Command {
        let mut command = cargo::command(manifest);
        for (on, switch) in [(self.locked, "--locked"), (self.offline, "--offline"), (self.frozen, "--frozen")] {
            command.args(on.then_some(switch));
        }
        for setting in &self.config {
            // The command starts in another folder.
            let file = Some(Path::new(setting)).filter(|file| file.exists()).and_then(|file| absolute(file).ok());
            command.arg("--config").arg(file.unwrap_or_else(|| setting.into()));
        }
        if let Some(folder) = &self.target_dir {
            command.env("CARGO_TARGET_DIR", absolute(folder).unwrap_or_else(|_| folder.clone()));
        }
        command
    }

    /// What only a command that compiles takes.
    pub(super) fn to_compile(&self, command: &mut Command) {
        command.args(self.jobs.iter().flat_map(|jobs| ["--jobs", jobs]));
        command.args(self.quiet.then_some("--quiet"));
        command.args((0..self.verbose).map(|_| "--verbose"));
    }
}
