//! Templates: what a process has made for later ones of the same workflow.
//!
//! ```text
//!   Job { template: Make(cell) }, no inputs ──▶ worker ── Suspended: sealed memory ──▶ Template::of: copied, bound to the workflow
//!   Job { template: From(…) }               ──▶ worker, if they are of the job's own workflow
//! ```
//!
//! Each is of one instance, known by the cell in which that begins in every process
//! ([`Plan::template_instances`](monohull_workflow::Plan::template_instances)). All others start from their images.
//!
//! A template belongs to one version of one workflow: it is never sent with another one, not even an equal one. Its bytes are sealed, so no
//! process that has got it can change it for the next. They are a copy, so that they are charged to this process, and not to the one that
//! made them.

use super::captured::read_template;
use super::error::ProcessError;
use monohull_domain::checkpoint::{TemplateMemory, TemplateUse};
use monohull_engine::Ready;
use monohull_ipc::sealed::{read_sealed, seal, sealed_size};
use monohull_workflow::plan::TemplateInstance;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

/// A captured instance at the point where its function was ready.
#[derive(Debug)]
pub struct Template {
    of: Weak<Ready>,
    cell: usize,
    file: OwnedFd,
    bytes: u64,
}

impl Template {
    /// The template that a process of this workflow has made of the instance of this cell: the continuation with which it ended, if it has no more
    /// than so many bytes.
    pub fn of(workflow: &Arc<Ready>, cell: usize, continuation: &OwnedFd, most: u64) -> io::Result<Template> {
        let bytes = read_sealed(continuation, most)?;
        let file = seal(&bytes, 0)?;
        Ok(Template { of: Arc::downgrade(workflow), cell, file, bytes: bytes.len() as u64 })
    }

    /// One that was kept, as sealed memory. An error if it is none.
    pub fn kept(workflow: &Arc<Ready>, cell: usize, file: OwnedFd) -> io::Result<Template> {
        read_template(file.try_clone()?).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        let bytes = sealed_size(&file)?;
        Ok(Template { of: Arc::downgrade(workflow), cell, file, bytes })
    }

    /// The cell of the instance that it is of.
    pub fn cell(&self) -> usize {
        self.cell
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is of this very workflow, and not of another version of it.
    pub fn is_of(&self, workflow: &Arc<Ready>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(workflow))
    }

    /// Whether that workflow exists still.
    pub fn is_needed(&self) -> bool {
        self.of.strong_count() > 0
    }

    /// Its memory.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }
}

/// What a job has to do with templates.
#[derive(Clone, Debug, Default)]
pub enum JobTemplate {
    /// Instances start from their images.
    #[default]
    No,
    /// It makes one of the instance of this cell, and ends with it ([`Message::Suspended`](super::Message::Suspended)). It has no inputs.
    Make(usize),
    /// Instances start from these.
    From(Vec<Arc<Template>>),
}

impl JobTemplate {
    /// The form in the message.
    pub(super) fn wire(&self) -> WireTemplate {
        match self {
            JobTemplate::No => WireTemplate::No,
            JobTemplate::Make(cell) => WireTemplate::Make(*cell),
            JobTemplate::From(templates) => WireTemplate::Attached(templates.iter().map(|one| one.cell()).collect()),
        }
    }

    /// The templates to be attached.
    pub(super) fn templates(&self) -> &[Arc<Template>] {
        match self {
            JobTemplate::From(templates) => templates,
            JobTemplate::No | JobTemplate::Make(_) => &[],
        }
    }

    /// Refuses one of another workflow.
    pub(super) fn check(&self, workflow: &Arc<Ready>) -> Result<(), ProcessError> {
        match self.templates().iter().all(|template| template.is_of(workflow)) {
            true => Ok(()),
            false => Err(ProcessError::Unfit("a template is of another workflow, or of another version".to_owned())),
        }
    }
}

impl From<Vec<Arc<Template>>> for JobTemplate {
    fn from(templates: Vec<Arc<Template>>) -> JobTemplate {
        if templates.is_empty() { JobTemplate::No } else { JobTemplate::From(templates) }
    }
}

/// What a job in a message has to do with templates.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum WireTemplate {
    /// Nothing.
    No,
    /// It makes one, of the instance of this cell.
    Make(usize),
    /// The instances of these cells start from those that are attached, behind the events.
    Attached(Vec<usize>),
}

impl WireTemplate {
    /// The form that the engine takes. `read` reads what is attached.
    pub(super) fn unpack(
        &self,
        mut read: impl FnMut() -> Result<TemplateMemory, String>,
    ) -> Result<TemplateUse, String> {
        Ok(match self {
            WireTemplate::No => TemplateUse::No,
            WireTemplate::Make(cell) => TemplateUse::Make(*cell),
            WireTemplate::Attached(cells) => {
                let templates = cells.iter().map(|cell| Ok((*cell, Arc::new(read()?))));
                TemplateUse::From(templates.collect::<Result<_, String>>()?)
            }
        })
    }
}

/// Why a workflow has no templates that needs more than its inputs.
pub const OF_THE_HOST: &str = "the workflow has something of the host: a network, a directory or a disk image";

/// The instances of a workflow that may have templates, by the cells in which they begin: none if the workflow needs something of the host besides
/// its inputs.
pub fn template_instances(workflow: &Ready) -> Vec<TemplateInstance> {
    if workflow.is_self_contained() { workflow.plan().template_instances() } else { Vec::new() }
}
