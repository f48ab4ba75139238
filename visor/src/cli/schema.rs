//! `monohull schema`: the JSON Schema of workflow files.

use clap::Args;

use super::exit::Exit;
use crate::workflow;

/// Print the JSON Schema of workflow files
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull schema > workflows/workflow.schema.json"))]
pub(super) struct Schema {}

impl Schema {
    pub(super) fn run(&self) -> Exit {
        super::output::json(&workflow::schema());
        Exit::Done
    }
}
