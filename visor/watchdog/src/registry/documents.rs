//! Documents that come over HTTP: what is checked beyond what any workflow file is checked for.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::http::error::{ApiError, Blame};
use monohull_network as network;
use monohull_workflow::plan::MountSource;
use monohull_workflow::{self as workflow, Plan, Server, WorkflowError};

/// The plan of a document that is to be registered, with a timeout that is the server's at most.
pub(super) fn check_document(
    name: &str,
    document: &[u8],
    server: &Server<'_>,
    timeout: Duration,
) -> Result<Plan, ApiError> {
    let mut plan = check_own(name, document, server)?;
    // So the workflow itself can say that it took too long, and where it was.
    plan.limits.timeout = Some(plan.limits.timeout.map_or(timeout, |own| own.min(timeout)));
    Ok(plan)
}

/// The same, with the workflow's own timeout.
fn check_own(name: &str, document: &[u8], server: &Server<'_>) -> Result<Plan, ApiError> {
    let file = format!("{name}.json");
    let checked = workflow::check_registered(Path::new(&file), document, server).into_plan();
    let plan = checked.map_err(|error| mistaken(&error))?;
    check_host(&plan)?;
    Ok(plan)
}

/// The plan of a document that was registered once, whatever is registered and granted now.
pub(crate) fn plan_once_registered(name: &str, document: &[u8]) -> Result<Plan, String> {
    let server = Server { functions: &|_| true, grants: &|_| Ok(()), deploying: false };
    check_own(name, document, &server).map_err(|refusal| refusal.error.message)
}

/// Refuses a plan that names what is this host's, and not a client's to give away.
pub(super) fn check_host(plan: &Plan) -> Result<(), ApiError> {
    for mount in &plan.files {
        // The check has refused what names something of this host; here no kind of source can be forgotten.
        match mount.source {
            MountSource::Memory { .. } | MountSource::Granted { .. } => {}
            MountSource::Image { .. } | MountSource::Directory { .. } => {
                let message = format!("the files at {} are this host's, and not a client's to use", mount.point);
                return Err(ApiError::invalid(Blame::Workflow, message));
            }
        }
    }
    match plan.network {
        network::Plan::None | network::Plan::Granted(_) => Ok(()),
        network::Plan::Host(_) | network::Plan::Tap { .. } => {
            let message = "`network`: a workflow that came over HTTP gets of this host's network only what the operator \
                           grants (`\"network\": { \"grant\": NAME }`)";
            Err(ApiError::invalid(Blame::Workflow, message.to_owned()))
        }
    }
}

/// A document that gives no plan. Of very many mistakes the first errors are reported.
pub(super) fn mistaken(error: &WorkflowError) -> ApiError {
    let refusal = ApiError::invalid(Blame::Workflow, error.to_string());
    match error {
        WorkflowError::Mistakes { mistakes } => refusal.with_mistakes(json!(workflow::first_mistakes(mistakes).0)),
        WorkflowError::Unreadable { .. } => refusal,
    }
}
