//! `monohull schema`: the JSON Schemas of the files that people write.

use clap::Args;

use super::exit::Exit;
use monohull_workflow as workflow;

/// Print the JSON Schema of workflow files, or of grants files
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull schema > workflows/workflow.schema.json"))]
pub(super) struct Schema {
    /// That of the file for `monohull serve --grants`
    #[arg(long)]
    grants: bool,
}

impl Schema {
    pub(super) fn run(&self) -> Exit {
        super::output::json(&if self.grants { workflow::grants::schema() } else { workflow::schema() });
        Exit::Done
    }
}
