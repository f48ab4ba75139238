//! What a domain is to do with a template, and what has become of it: see [`super::template`].

use super::restore_error::RestoreError;
use super::template_memory::TemplateMemory;
use crate::hostcall::Binding;
use monohull_report::StartKind;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Mutex};

/// What a domain has to do with templates.
#[derive(Clone, Debug, Default)]
pub enum TemplateUse {
    /// Its instances start from their images.
    #[default]
    No,
    /// It ends with a template of the instance that begins in this cell ([`Options::template_instances`](crate::Options)), where that says that it is
    /// ready, or before that ([`Options::template_at_first_wait`](crate::Options)). It has no inputs, and no other instance.
    Make(usize),
    /// The first attempts of the instances that begin in these cells start from these.
    From(Vec<(usize, Arc<TemplateMemory>)>),
}

/// Where an instance that may have a template has begun in this domain.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning {
    /// It has begun, and where.
    pub(super) kind: Option<StartKind>,
    /// It has said that it is ready.
    pub(super) is_ready: bool,
    /// Why it could not start from the template that there was.
    pub(super) unfit: Option<String>,
}

/// What has become of it.
#[derive(Default)]
pub(crate) struct TemplateState {
    /// By the cells in which instances with templates begin.
    pub(super) beginnings: Mutex<BTreeMap<usize, Beginning>>,
    pub(super) unfit: Mutex<Option<RestoreError>>,
    /// The call in which the thread of a template is, and its arguments, if it is left to later domains.
    pub(super) unserved: Mutex<Option<(u32, [u64; 6])>>,
    /// What serves `FILE_OPEN`, in a domain that makes a template, once its module is loaded.
    pub(super) opens: AtomicPtr<Binding>,
}
