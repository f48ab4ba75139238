//! What a domain is to do with a template, and what has become of it: see [`super::template`].

use super::restore_error::RestoreError;
use super::template_memory::TemplateMemory;
use crate::hostcall::Binding;
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::sync::{Arc, Mutex};

/// What a domain has to do with templates.
#[derive(Clone, Debug, Default)]
pub enum TemplateUse {
    /// Its instances start from their images.
    #[default]
    No,
    /// It ends with a template, where the instance that may have one ([`Options::template_instance`](crate::Options)) says that it is ready, or
    /// before that ([`Options::template_at_first_wait`](crate::Options)). It has no inputs, and no other instance.
    Make,
    /// The first attempt of that instance starts from this one.
    From(Arc<TemplateMemory>),
}

/// What has become of it.
#[derive(Default)]
pub(crate) struct TemplateState {
    pub(super) is_ready: AtomicBool,
    pub(super) is_used: AtomicBool,
    pub(super) unfit: Mutex<Option<RestoreError>>,
    /// The call in which the thread of a template is, and its arguments, if it is left to later domains.
    pub(super) unserved: Mutex<Option<(u32, [u64; 6])>>,
    /// What serves `FILE_OPEN`, in a domain that makes a template, once its module is loaded.
    pub(super) opens: AtomicPtr<Binding>,
}
