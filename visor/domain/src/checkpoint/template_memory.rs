//! The memory of a template as instances take it: the record of the one that made it, and its pages where they lie.
//!
//! The pages of a program with an interpreter are some megabytes. They are in sealed memory, which instances map privately: a page that is only
//! read is shared with all others, and one that is written to becomes a copy.

use super::captured_pages::CapturedPages;
use super::record::{Continuation, InstanceRecord};

/// A template for instances of later domains. Nothing in it is trusted.
#[derive(Debug)]
pub struct TemplateMemory {
    pub(super) instances: Vec<InstanceRecord>,
    pub(super) pages: CapturedPages,
}

impl TemplateMemory {
    /// One with these pages.
    pub fn new(instances: Vec<InstanceRecord>, pages: CapturedPages) -> TemplateMemory {
        TemplateMemory { instances, pages }
    }
}

impl<P: Into<CapturedPages>> From<Continuation<P>> for TemplateMemory {
    fn from(made: Continuation<P>) -> TemplateMemory {
        TemplateMemory::new(made.instances, made.pages.into())
    }
}
