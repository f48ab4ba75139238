//! A workflow that does nothing, run once by the spawner before it enters its sandbox.
//!
//! Workers inherit the state after it: pages of the program that are mapped, memory of the allocator, values that are computed
//! once. The function is a hostcall and nothing else, so no tenant's code runs in the spawner.

use super::error::{ProcessError, host};
use super::job::Job;
use super::protocol::{FromWorker, WorkerChannel};
use super::worker::{self, DomainSettings};
use monohull_abi::layout::PAGE;
use monohull_abi::number;
use monohull_domain::ReservedDomain;
use monohull_domain::image::map::LoadedImage;
use monohull_domain::image::{Access, Image, Relocations, Segment};
use monohull_engine::{HostError, Ready};
use monohull_ipc::sealed::seal;
use monohull_workflow as workflow;
use std::path::Path;
use std::sync::Arc;

/// The workflow.
const DOCUMENT: &str = r#"{"name":"warm-up","functions":{"f":{"image":"-"}},"steps":[{"name":"main","function":"f"}],"limits":{"carriers":1}}"#;
/// The function: `mov eax, EXIT; xor edi, edi; call gs:[0]`, which is how functions call (`monohull_trampoline::user`).
const CODE: [u8; 15] = [0xb8, number::EXIT as u8, 0, 0, 0, 0x31, 0xff, 0x65, 0xff, 0x14, 0x25, 0, 0, 0, 0];

/// Does all that a worker does from its job to its answer.
pub(super) fn run(settings: DomainSettings) -> Result<(), ProcessError> {
    let address_space = ReservedDomain::reserve(settings.keys).map_err(HostError::from)?;
    let (ours, theirs) = WorkerChannel::pair().map_err(host("making a socket"))?;
    let job = Job::new(Arc::new(workflow().map_err(host("making a workflow"))?), Vec::new());
    job.send(&ours, false, None)?;
    let theirs = Arc::new(theirs);
    let job = worker::take_job(&theirs, None, None).map_err(|error| ProcessError::Refused(error.why))?;
    let mut job = job.ok_or(ProcessError::SpawnerEnded)?;
    let workflow = job.workflow.take().ok_or(ProcessError::SpawnerEnded)?;
    worker::run(theirs, address_space, &settings, (&workflow, None), job, |_| ()).map_err(host("answering"))?;
    match ours.receive().ok().flatten().and_then(|packet| packet.read().ok()) {
        Some(FromWorker::Done { .. }) => Ok(()),
        _ => Err(ProcessError::Refused("a workflow that does nothing failed".to_owned())),
    }
}

fn workflow() -> std::io::Result<Ready> {
    let plan = workflow::load_str(Path::new("warm-up"), DOCUMENT).map_err(std::io::Error::other)?;
    let code = Segment { address: 0, memory_size: PAGE, file_offset: 0, file_size: PAGE, access: Access::ReadExecute };
    let image = Image {
        name: "f".to_owned(),
        bytes: 0,
        segments: vec![code],
        relro: None,
        relocations: Relocations::default(),
        start: 0,
        init_array: None,
        tls: None,
        span: PAGE,
    };
    let image = LoadedImage::of_sealed(image, seal(&CODE, PAGE)?)?;
    Ok(Ready::of_parts(Arc::new(plan), vec![Arc::new(image)], 1))
}
