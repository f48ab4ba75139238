//! What a worker gives up before it knows its workflow.

use super::Settings;
use crate::report::Sandbox;
use std::path::PathBuf;

/// All that workers of the same settings have in common, made once before they are forked.
#[derive(Clone)]
pub(super) struct Preparation {
    /// The folder with the libos modules.
    pub(super) modules: PathBuf,
    /// Whether protection keys are to be in force.
    pub(super) keys: bool,
}

impl Preparation {
    /// Makes it; an error in words.
    pub(super) fn new(settings: &Settings) -> Result<Preparation, String> {
        Ok(Preparation { modules: settings.modules.clone(), keys: settings.keys })
    }

    /// The name of the isolation in reports.
    pub(super) fn isolation(&self) -> &'static str {
        if self.keys { "mpk" } else { "process" }
    }

    /// Gives up what a workflow does not need.
    pub(super) fn close_in(&self) -> Result<Sandbox, String> {
        Ok(Sandbox::default())
    }
}
