//! `monohull completions` and `monohull man`: what a package installs beside the program, made from the command line's own
//! description.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::exit::Exit;
use super::{Cli, output};
use monohull_report::escape::shown;

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull completions bash > ~/.local/share/bash-completion/completions/monohull"
))]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Exit {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "monohull", &mut script);
        let _ = output::bytes(&script);
        Exit::Done
    }
}

/// Print the manual page, or write the pages of all verbs
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull man | man -l -", "monohull man --out ~/.local/share/man/man1"))]
pub(super) struct Man {
    /// Write the pages of the program and of each verb into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self) -> Exit {
        match &self.out {
            None => {
                let mut page = Vec::new();
                // Writing to memory does not fail.
                let _ = clap_mangen::Man::new(Cli::command()).render(&mut page);
                let _ = output::bytes(&page);
                Exit::Done
            }
            Some(folder) => match write(folder) {
                Ok(()) => Exit::Done,
                Err(error) => super::fail(Exit::Host, &format!("{}: {error}", shown(folder))),
            },
        }
    }
}

fn write(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}
