//! `monohull backup`: a copy of a state folder, which may be in use.

use super::durable::Trouble;
use super::exit::Exit;
use super::{concat_help, output};
use clap::Args;
use monohull_durable::{BackedUp, Store, StoreError};
use monohull_report::escape::shown;
use monohull_watchdog::{back_up, durable_folder};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Copy a state folder, while it is in use
///
/// The copy has all invocations as they were at one moment, and all that they need. `serve --state`, `wake --state` and the other commands take it as
/// they take the folder itself. Run only one of the two: both would go on with the same invocations.
#[derive(Debug, Args)]
#[command(after_help = concat_help!(
    "monohull backup /backup/monday --state /var/lib/monohull",
    "monohull backup monday --state sleepers"
))]
pub(super) struct Backup {
    /// The folder for the copy, which must not exist yet; it has this name when it is whole, and `.part` behind it until then
    to: PathBuf,
    /// The state folder, of `monohull run --state` or of a server
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(super) fn run(&self) -> Exit {
        match self.back_up() {
            Ok(made) => {
                self.show(&made);
                Exit::Done
            }
            Err(trouble) => trouble.report(self.json),
        }
    }

    fn back_up(&self) -> Result<BackedUp, Trouble> {
        let part = part_of(&self.to);
        if fs::symlink_metadata(&self.to).is_ok() {
            return Err(Trouble::Usage(format!("{} is there already", shown(&self.to))));
        }
        if fs::symlink_metadata(&part).is_ok() {
            let left = "another backup is being made there, or has not come to its end; in that case remove it";
            return Err(Trouble::Usage(format!("{} is there already: {left}", shown(&part))));
        }
        // What is in a state folder belongs to it: a copy there would be copied, and removed, with it.
        let real = |path: &Path| fs::canonicalize(path).map_err(|error| at(path, error));
        let folder = self.to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if self.state.exists() && real(folder)?.starts_with(real(&self.state)?) {
            let why = format!("{} is in the state folder itself: a backup is made elsewhere", shown(&self.to));
            return Err(Trouble::Usage(why));
        }
        let copied = match durable_folder(&self.state).exists() {
            true => back_up(&self.state, &part),
            false => Store::back_up(&self.state, &part),
        };
        let made = match copied.and_then(|made| Store::sync_backup(&part).map(|()| made)) {
            // Another backup has made it since: it is that one's.
            Err(error) if is_there(&error, &part) => return Err(error.into()),
            Err(error) => {
                // It is of no use, and has what room there is.
                let _ = fs::remove_dir_all(&part);
                return Err(error.into());
            }
            Ok(made) => made,
        };
        fs::rename(&part, &self.to).map_err(|error| at(&self.to, error))?;
        fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| at(folder, error))?;
        Ok(made)
    }

    fn show(&self, made: &BackedUp) {
        let BackedUp { invocations, files, bytes, missing } = made;
        for name in missing {
            output::note(format_args!(
                "monohull: the checkpoint {} is missing in the state folder",
                shown(Path::new(name))
            ));
        }
        if self.json {
            let missing: Vec<_> = missing.iter().map(String::as_str).collect();
            output::json(&json!({ "invocations": invocations, "files": files, "bytes": bytes, "missing": missing }));
        } else {
            let to = shown(&self.to);
            output::text(format_args!("{to}: {invocations} invocations, {files} files, {bytes} bytes\n"));
        }
    }
}

/// Whether a folder could not be made because there is one.
fn is_there(error: &StoreError, folder: &Path) -> bool {
    matches!(error, StoreError::File { path, source } if path == folder && source.kind() == io::ErrorKind::AlreadyExists)
}

/// What a copy is called until it is whole.
fn part_of(to: &Path) -> PathBuf {
    let mut name = OsString::from(to.as_os_str());
    name.push(".part");
    name.into()
}

fn at(path: &Path, source: io::Error) -> StoreError {
    StoreError::File { path: path.to_owned(), source }
}
