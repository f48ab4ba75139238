//! Templates: what a process has made for later ones of the same workflow.
//!
//! ```text
//!   Job { template: Make }, no inputs ──▶ worker ── Suspended: sealed memory ──▶ Template::of: copied, bound to the workflow
//!   Job { template: From(…) }         ──▶ worker, if it is the job's own workflow
//! ```
//!
//! It is of the instance of the step with which the workflow begins; all others start from their images.
//!
//! A template belongs to one version of one workflow: it is never sent with another one, not even an equal one. Its bytes are sealed, so no
//! process that has got it can change it for the next. They are a copy, so that they are charged to this process, and not to the one that
//! made them.

use super::captured::read_template;
use super::error::ProcessError;
use monohull_domain::checkpoint::{TemplateMemory, TemplateUse};
use monohull_engine::Ready;
use monohull_ipc::sealed::{read_sealed, seal, sealed_size};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

/// A captured instance at the point where its function was ready.
#[derive(Debug)]
pub struct Template {
    of: Weak<Ready>,
    file: OwnedFd,
    bytes: u64,
}

impl Template {
    /// The template that a process of this workflow has made, the continuation with which it ended, if it has no more than so many bytes.
    pub fn of(workflow: &Arc<Ready>, continuation: &OwnedFd, most: u64) -> io::Result<Template> {
        let bytes = read_sealed(continuation, most)?;
        let file = seal(&bytes, 0)?;
        Ok(Template { of: Arc::downgrade(workflow), file, bytes: bytes.len() as u64 })
    }

    /// One that was kept, as sealed memory. An error if it is none.
    pub fn kept(workflow: &Arc<Ready>, file: OwnedFd) -> io::Result<Template> {
        read_template(file.try_clone()?).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        let bytes = sealed_size(&file)?;
        Ok(Template { of: Arc::downgrade(workflow), file, bytes })
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
    /// It makes one, and ends with it ([`Message::Suspended`](super::Message::Suspended)). It has no inputs.
    Make,
    /// The instance of its first step starts from this one.
    From(Arc<Template>),
}

impl JobTemplate {
    /// The form in the message.
    pub(super) fn wire(&self) -> WireTemplate {
        match self {
            JobTemplate::No => WireTemplate::No,
            JobTemplate::Make => WireTemplate::Make,
            JobTemplate::From(_) => WireTemplate::Attached,
        }
    }

    /// The template to be attached.
    pub(super) fn template(&self) -> Option<&Arc<Template>> {
        match self {
            JobTemplate::From(template) => Some(template),
            _ => None,
        }
    }

    /// Refuses one of another workflow.
    pub(super) fn check(&self, workflow: &Arc<Ready>) -> Result<(), ProcessError> {
        match self.template() {
            Some(template) if !template.is_of(workflow) => {
                Err(ProcessError::Unfit("a template is of another workflow, or of another version".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// What a job in a message has to do with templates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum WireTemplate {
    /// Nothing.
    No,
    /// It makes one.
    Make,
    /// The instance of its first step starts from the one that is attached, behind the events.
    Attached,
}

impl WireTemplate {
    /// The form that the engine takes. `read` reads what is attached.
    pub(super) fn unpack(self, read: impl FnOnce() -> Result<TemplateMemory, String>) -> Result<TemplateUse, String> {
        Ok(match self {
            WireTemplate::No => TemplateUse::No,
            WireTemplate::Make => TemplateUse::Make,
            WireTemplate::Attached => TemplateUse::From(Arc::new(read()?)),
        })
    }
}

/// Whether there can be a template of a workflow: it begins with one instance, whose cell is the same in each process, and needs nothing of the
/// host before its inputs.
pub fn may_have_template(workflow: &Ready) -> bool {
    workflow.plan().template_step().is_some() && workflow.is_self_contained()
}
