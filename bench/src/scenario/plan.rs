//! What the visor takes for each instance of a plan: the most memory of a run of very many, less that of a run of few;
//! against the same reports in a plain `Vec`.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::ours::{nothing_document, scratch};
use crate::peer;
use monohull_visor::report::InstanceReport;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let few = 1000;
    let many = effort.size(100_000, 2000);
    let peak = |instances: u32| -> Result<f64> {
        let file = scratch()?.join(format!("plan, {instances}.json"));
        std::fs::write(&file, nothing_document(instances).to_string()).map_err(|error| error.to_string())?;
        let file = file.to_str().ok_or("the path of the build folder is not UTF-8")?;
        peer::measure("peak-memory", &[file])
    };
    let sides = take_turns(
        effort,
        || Ok(peak(many)? - peak(few)?),
        || Ok(f64::from(many - few) * size_of::<InstanceReport>() as f64),
    )?;
    let name = "their reports in a Vec";
    Ok(vec![Row::new(format!("memory, plan of {many} instances"), sides, name, Unit::Kibibytes, Some(4.0))])
}
