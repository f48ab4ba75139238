//! Input slots are filled before a run, and output slots read after it.

use super::workflow_io::{Filling, Source, WorkflowIo};
use monohull_abi::Errno;
use monohull_abi::types::FilledSlot;
use monohull_domain::{Domain, Shared};
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::{Failure, OutputReport};
use monohull_workflow::Plan;
use std::collections::BTreeMap;
use std::io;

/// Fills every input slot.
pub(super) fn fill(domain: &Domain, plan: &Plan, workflow_io: &mut dyn WorkflowIo) -> Result<(), Box<Failure>> {
    for input in &plan.inputs {
        let failed = |blame, text: String| Box::new(Failure::blamed(FailureKind::Input, blame, text));
        let unread = |error: String| failed(Blame::Workflow, format!("input slot `{}`: {error}", input.slot));
        let unreadable = |error: io::Error| unread(format!("cannot be read: {error}"));
        let filled = match workflow_io.input(input).map_err(unread)? {
            Filling::Whole(Source::Bytes(bytes)) => domain.fill_slot(&input.slot, &bytes),
            Filling::Whole(Source::File(file)) => {
                let len = file.metadata().map_err(unreadable)?.len();
                domain.fill_slot_from(&input.slot, &file, len).map_err(unreadable)?
            }
            Filling::Part(memory, part) => domain.fill_slot_from_memory(&input.slot, &memory, part),
        };
        filled.map_err(|errno| {
            let blame = if errno == Errno::OutOfMemory { Blame::Host } else { Blame::Monohull };
            failed(blame, format!("input slot `{}` cannot be filled: {errno}{}", input.slot, why(domain)))
        })?;
    }
    Ok(())
}

/// Hands every output slot out, if all of them are filled.
pub(super) fn collect(
    domain: &Domain,
    plan: &Plan,
    workflow_io: &mut dyn WorkflowIo,
) -> Result<BTreeMap<String, OutputReport>, Box<Failure>> {
    let mut reports = BTreeMap::new();
    for (name, bytes) in outputs(domain, plan)? {
        let report = workflow_io.output(name, bytes).map_err(|error| {
            let text = format!("output slot `{name}`: {error}");
            Box::new(Failure::blamed(FailureKind::Output, Blame::Host, text))
        })?;
        reports.insert(name.to_owned(), report);
    }
    Ok(reports)
}

/// Every output slot with its bytes.
pub(super) fn outputs<'d>(domain: &'d Domain, plan: &'d Plan) -> Result<Vec<(&'d str, &'d [u8])>, Box<Failure>> {
    let failed = |blame, text: String| Box::new(Failure::blamed(FailureKind::Output, blame, text));
    let outputs = plan.outputs.iter().map(|output| match domain.slot_bytes(&output.slot) {
        Ok(bytes) => Ok((&*output.slot, bytes)),
        Err(Errno::NotFound) => {
            Err(failed(Blame::Workflow, format!("no function filled the output slot `{}`", output.slot)))
        }
        Err(errno) => {
            let text = format!("output slot `{}` cannot be read: {errno}{}", output.slot, why(domain));
            Err(failed(Blame::Monohull, text))
        }
    });
    outputs.collect()
}

/// Every filled slot, in the order of the names, that comes after a name; an empty name comes before all others.
pub(super) fn filled(domain: &Shared, after: &str) -> impl Iterator<Item = Result<(String, FilledSlot), Errno>> {
    // Without slots the module that knows them is not loaded, and need not be.
    let mut after = domain.modules().iter().any(|module| module.name == "mm").then(|| after.to_owned());
    std::iter::from_fn(move || {
        let next = domain.next_filled_slot(after.as_deref()?);
        after = next.as_ref().ok().and_then(|next| Some(next.as_ref()?.0.clone()));
        next.transpose()
    })
}

/// The failures of modules, if there are any: they are the reason.
fn why(domain: &Domain) -> String {
    let failures = domain.modules().into_iter().filter_map(|module| module.failure);
    failures.map(|text| format!(" ({text})")).collect()
}
