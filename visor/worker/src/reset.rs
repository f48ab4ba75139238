//! What a process that stays for another job resets after each one.
//!
//! ```text
//!   first job with `stay`    freed memory is wiped from here on (`wiping`); its workflow is kept
//!   ended as done            answer ─▶ domain ─▶ stacks ─▶ large inputs, descriptors ─▶ Clean
//!     with little memory               domain ─▶ stacks ─▶ large inputs, descriptors ─▶ answer, which says so; it is wiped as all
//!                                      freed memory is
//!   ended otherwise          answer ─▶ the process ends
//! ```
//!
//! All of this is done by the process itself, with trusted code. With protection keys functions cannot read or change it. Without
//! them a function could have changed anything in its process, so that a reset is tidiness there and no wall.
//!
//! If any part fails the process ends, and says why on its standard error.

use super::job::{Data, Given, Received};
use super::sandbox::SandboxTemplate;
use super::slot_memory::SlotMemory;
use monohull_domain::fault_injection::{self, Mitigation};
use monohull_domain::{Domain, ReservedDomain};
use monohull_engine::Ready;
use monohull_ipc::Room;
use monohull_sys::descriptors;
use std::hint::black_box;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};

/// The workflow of a process that stays.
pub(super) struct Kept {
    pub(super) workflow: Ready,
    /// Where jobs are received after the first.
    pub(super) room: Option<Room>,
    /// Where large inputs are, and where large outputs go.
    pub(super) memory: Option<SlotMemory>,
    /// The first descriptor after those of the workflow: what a job brings or makes comes behind them.
    first_of_job: i32,
}

impl Kept {
    /// Keeps the workflow and the memory that have come with the first job.
    pub(super) fn new(workflow: Ready, memory: Option<SlotMemory>) -> Kept {
        let images = workflow.images().iter().map(|image| image.sealed().as_raw_fd());
        let files = memory.iter().flat_map(|memory| memory.files().map(|file| file.as_raw_fd()));
        // And the list of the process's pages, which comes behind the channel.
        let last = images.chain(files).fold(super::worker::CHANNEL_FD + 1, i32::max);
        Kept { workflow, room: None, memory, first_of_job: last + 1 }
    }
}

/// Wipes what the functions have left on the stack that the caller has called. Not part of [`finish`], whose frame would cover some.
#[inline(always)]
pub(super) fn stack(template: &SandboxTemplate) -> Result<(), String> {
    if fault_injection::disabled(Mitigation::ResetStacks) {
        return Ok(());
    }
    template.stack.wipe_below().map_err(|error| format!("the stack cannot be wiped: {error}"))
}

/// Resets the domain of the job; what the next one is made in.
pub(super) fn domain(domain: Domain) -> Result<ReservedDomain, String> {
    domain.reset().map_err(|error| format!("there cannot be another domain: {error}"))
}

/// Resets the rest, after the domain.
pub(super) fn finish(kept: &mut Kept) -> Result<(), String> {
    if let Some(memory) = &mut kept.memory {
        memory.clear_inputs().map_err(|error| format!("the inputs of the last job cannot be cleared: {error}"))?;
    }
    if fault_injection::disabled(Mitigation::ResetDescriptors) {
        return Ok(());
    }
    let closed = descriptors::close_from(kept.first_of_job);
    closed.map_err(|error| format!("the files of the last job cannot be closed: {error}"))
}

/// What the program with which tests switch parts of the reset off leaves behind on purpose, so that each part has something to find.
/// Nothing in any other.
pub(super) struct Planted(Option<Vec<u8>>);

/// How much of an input is planted.
const PLANTED_MAX: usize = 4096;

impl Planted {
    /// Copies an input of the job.
    pub(super) fn of(job: &Received) -> Planted {
        if !fault_injection::is_unhardened() || !job.wire.stay {
            return Planted(None);
        }
        Planted(job.inputs.iter().find_map(|(_, given)| match given {
            Given::Data(Data::Bytes(bytes)) => Some(bytes[..bytes.len().min(PLANTED_MAX)].to_vec()),
            Given::Data(Data::File(_)) | Given::Recycled(_) => None,
        }))
    }

    /// Leaves it on the stack, and a descriptor that nothing owns.
    #[inline(never)]
    pub(super) fn leave(self, descriptor: &impl AsFd) {
        let Planted(Some(input)) = self else { return };
        let mut copy = [0; PLANTED_MAX];
        copy[..input.len()].copy_from_slice(&input);
        black_box(&copy);
        if let Ok(copy) = descriptor.as_fd().try_clone_to_owned() {
            black_box(copy.into_raw_fd());
        }
    }
}
