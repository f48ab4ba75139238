//! What comes into a workflow from outside, and what leaves it.
//!
//! A run asks its [`Border`] for the bytes of each input slot and gives it those of each output slot. [`Files`] is the one
//! for runs in the caller's own process.

use super::RunOptions;
use crate::escape::shown;
use crate::report::{Content, OutputReport};
use crate::workflow::plan::{Input, Plan};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The outside of a workflow. Errors are words for people.
pub trait Border {
    /// What an input slot is filled with. It may be asked for again, if the whole workflow is run again.
    fn input(&mut self, input: &Input) -> Result<Source, String>;
    /// Takes an output slot's bytes, and says what became of them.
    fn output(&mut self, slot: &str, bytes: &[u8]) -> Result<OutputReport, String>;
}

/// What an input slot is filled with.
#[derive(Debug)]
pub enum Source {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A regular file's content, from its beginning.
    File(File),
}

/// Slots that come from files and go to files, or into the report.
pub(super) struct Files<'o>(pub(super) &'o RunOptions);

impl Border for Files<'_> {
    fn input(&mut self, input: &Input) -> Result<Source, String> {
        match self.0.inline_inputs.iter().find(|(slot, _)| *slot == input.slot) {
            Some((_, bytes)) => Ok(Source::Bytes(bytes.clone())),
            None => self.0.open(input),
        }
    }

    fn output(&mut self, slot: &str, bytes: &[u8]) -> Result<OutputReport, String> {
        let path = self.0.output_path(slot);
        let content = match &path {
            Some(path) => write_whole(path, |file| file.write_all(bytes)).map(|()| None)?,
            None => Some(Content::from(bytes.to_vec())),
        };
        Ok(OutputReport { bytes: bytes.len() as u64, path, content })
    }
}

impl RunOptions {
    /// Opens the file of an input slot. What is no regular file, such as a pipe, is read to its end.
    pub fn open(&self, input: &Input) -> Result<Source, String> {
        let chosen = self.inputs.iter().find(|(slot, _)| *slot == input.slot).map(|(_, path)| path);
        let path = chosen.or(input.path.as_ref()).ok_or("has no file")?;
        let open = || {
            let mut file = File::open(path)?;
            if file.metadata()?.is_file() {
                return Ok(Source::File(file));
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(Source::Bytes(bytes))
        };
        open().map_err(|error: io::Error| format!("{} cannot be read: {error}", shown(&path)))
    }

    /// The file an output slot is to be written to.
    pub fn output_path(&self, slot: &str) -> Option<PathBuf> {
        self.outputs.iter().find(|(name, _)| name == slot).map(|(_, path)| path.clone())
    }
}

/// Every input slot's content, as these options say.
pub fn open_inputs(plan: &Plan, options: &RunOptions) -> Result<Vec<(String, Source)>, String> {
    let open = |input: &Input| match options.open(input) {
        Ok(source) => Ok((input.slot.clone(), source)),
        Err(error) => Err(format!("input slot `{}`: {error}", input.slot)),
    };
    plan.inputs.iter().map(open).collect()
}

/// Has a file written: beside the target, then renamed, so that a full disk leaves the old file whole.
pub fn write_whole(path: &Path, write_to: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
    let write = || {
        if path.exists() && !path.is_file() {
            // A device or a pipe: there is nothing to replace.
            return write_to(&mut File::options().write(true).open(path)?);
        }
        let mut name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let written =
            File::create(&part).and_then(|mut file| write_to(&mut file)).and_then(|()| std::fs::rename(&part, path));
        written.inspect_err(|_| {
            let _ = std::fs::remove_file(&part);
        })
    };
    write().map_err(|error: io::Error| format!("{} cannot be written: {error}", shown(&path)))
}
