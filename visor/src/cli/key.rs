//! `monohull key`: files with keys that encrypt state folders.

use super::durable::Trouble;
use super::exit::Exit;
use super::{concat_help, fail, output};
use clap::{Args, Subcommand};
use monohull_durable::Store;
use monohull_report::escape::shown;
use monohull_state_key::KeyFile;
use monohull_watchdog::durable_folder;
use std::path::{Path, PathBuf};

/// Make and change keys that encrypt state folders
#[derive(Debug, Args)]
#[command(after_help = concat_help!(
    "monohull key new state.key",
    "monohull key change --state sleepers --state-key state.key --to new.key"
))]
pub(super) struct Key {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a file with a new key, which only its owner can read
    ///
    /// With the key, what it encrypts can be read; without it, it cannot. Keep a copy where the state folder is not.
    #[command(after_help = concat_help!("monohull key new state.key"))]
    New {
        /// The file, which must not exist yet
        file: PathBuf,
    },
    /// Let another key open an encrypted state folder, in the place of the one that does now
    ///
    /// The folder may be in use. A copy of it that was made before needs the old key.
    #[command(after_help = concat_help!("monohull key change --state sleepers --state-key state.key --to new.key"))]
    Change {
        /// The state folder, of `monohull run --state` or of a server
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        /// The file of its key
        #[arg(long, value_name = "FILE")]
        state_key: PathBuf,
        /// The file of the other key
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
}

impl Key {
    pub(super) fn run(&self) -> Exit {
        let done = match &self.verb {
            Verb::New { file } => KeyFile::create(file).map_err(Trouble::from),
            Verb::Change { state, state_key, to } => change(state, state_key, to),
        };
        match done {
            Ok(()) => Exit::Done,
            Err(trouble) => fail(trouble.exit(), &trouble),
        }
    }
}

fn change(state: &Path, from: &Path, to: &Path) -> Result<(), Trouble> {
    let (from, to) = (KeyFile::load(from)?, KeyFile::load(to)?);
    let of_server = durable_folder(state);
    let store = match of_server.exists() {
        true => Store::open_served(&of_server, Some(&from))?,
        false => Store::open_existing(state, Some(&from))?,
    };
    store.change_key(&from, &to)?;
    output::text(format_args!("{}: {} opens it now\n", shown(state), shown(to.path())));
    Ok(())
}
