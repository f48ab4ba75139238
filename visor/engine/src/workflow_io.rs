//! Inputs and outputs of a workflow.
//!
//! A run asks its [`WorkflowIo`] for the bytes of each input slot and gives it those of each output slot. [`Files`] is the one
//! for runs in the caller's own process.

use super::RunOptions;
use super::output_file::write_whole;
use monohull_host_files::input::{self, InputError, Opened};
use monohull_report::escape::shown;
use monohull_report::{Content, OutputReport};
use monohull_sys::shared_memory::SharedMemory;
use monohull_workflow::plan::Input;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Where inputs come from and outputs go. Errors are texts for people.
pub trait WorkflowIo {
    /// What an input slot is filled with. It may be asked for again, if the whole workflow is run again.
    fn input(&mut self, input: &Input) -> Result<Filling, String>;
    /// Takes an output slot's bytes, and returns the report about them.
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

/// What an input slot is filled with, whatever it is a part of.
#[derive(Debug)]
pub enum Filling {
    /// All of this.
    Whole(Source),
    /// These bytes of memory that another process has written to.
    Part(Arc<SharedMemory>, Range<u64>),
}

/// Slots that come from files and go to files, or into the report.
pub(super) struct Files<'o> {
    pub(super) options: &'o RunOptions,
    /// The most bytes that are read from a pipe.
    pub(super) limit: u64,
}

impl WorkflowIo for Files<'_> {
    fn input(&mut self, input: &Input) -> Result<Filling, String> {
        self.options.open(input, self.limit, None).map(Filling::Whole).map_err(|error| error.to_string())
    }

    fn output(&mut self, slot: &str, bytes: &[u8]) -> Result<OutputReport, String> {
        let path = self.options.output_path(slot);
        let content = match &path {
            Some(path) => write_whole(path, |file| file.write_all(bytes)).map(|()| None)?,
            None => Some(Content::from(bytes.to_vec())),
        };
        Ok(OutputReport { bytes: bytes.len() as u64, path, content })
    }
}

/// Why an input slot cannot be filled.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum OpenError {
    /// It was given no file. The invocation is at fault.
    #[error("has no file")]
    NoFile,
    #[error("{} cannot be read: {source}", shown(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: InputError,
    },
}

impl RunOptions {
    /// What an input slot is filled with. A pipe is read to its end, which has to come before the deadline, and at most as much as
    /// `limit` says.
    pub fn open(&self, input: &Input, limit: u64, deadline: Option<Instant>) -> Result<Source, OpenError> {
        if let Some((_, bytes)) = self.inline_inputs.iter().find(|(slot, _)| *slot == input.slot) {
            return Ok(Source::Bytes(bytes.clone()));
        }
        let chosen = self.inputs.iter().find(|(slot, _)| *slot == input.slot).map(|(_, path)| path);
        let path = chosen.or(input.path.as_ref()).ok_or(OpenError::NoFile)?;
        let open = || match input::open(path)? {
            Opened::Regular(file) => Ok(Source::File(file)),
            Opened::Stream(stream) => {
                // Not on the heap: the process that runs the workflow gets it as a file.
                let mut kept =
                    File::from(memfd_create(c"monohull-input", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?);
                input::read_stream(stream, limit, deadline, |piece| kept.write_all(piece))?;
                Ok(Source::File(kept))
            }
        };
        open().map_err(|source| OpenError::Unreadable { path: path.clone(), source })
    }

    /// Whether the file of an input slot is one that the caller has chosen, not the workflow file.
    pub fn chooses(&self, slot: &str) -> bool {
        self.inputs.iter().any(|(name, _)| name == slot)
    }

    /// The file an output slot is to be written to.
    pub fn output_path(&self, slot: &str) -> Option<PathBuf> {
        self.outputs.iter().find(|(name, _)| name == slot).map(|(_, path)| path.clone())
    }
}
