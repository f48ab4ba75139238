//! Memory for large inputs and outputs of a process that serves one job after the other: its pages are there already, where a file for
//! each of them takes new ones.
//!
//! ```text
//!   supervisor ── writes inputs, sends the job ──▶ worker, which clears them when it resets itself
//!   worker ── writes outputs, answers ──▶ supervisor, which copies and clears them before it does anything else with the answer
//! ```
//!
//! It belongs to one process and ends with it: what is written there reaches that process alone, and what that process writes changes no
//! answer but its own. Since the supervisor copies outputs at once, the process may have another job while a client still reads.

use monohull_domain::fault_injection::{self, Mitigation};
use monohull_ipc::Recycled;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One end's hold on both.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    pub(crate) inputs: Recycled,
    pub(crate) outputs: Recycled,
}

impl SlotMemory {
    /// For a new process.
    pub(crate) fn new() -> io::Result<SlotMemory> {
        Ok(SlotMemory { inputs: Recycled::new()?, outputs: Recycled::new()? })
    }

    /// What the supervisor has sent, in the order of [`SlotMemory::files`].
    pub(crate) fn of_files([inputs, outputs]: [OwnedFd; 2]) -> SlotMemory {
        SlotMemory { inputs: Recycled::of_file(inputs), outputs: Recycled::of_file(outputs) }
    }

    pub(crate) fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.inputs.as_fd(), self.outputs.as_fd()]
    }

    /// How much of it is there. Pages come when they are used for the first time.
    pub(crate) fn bytes(&self) -> u64 {
        self.inputs.bytes() + self.outputs.bytes()
    }

    /// The worker's part of the reset.
    pub(crate) fn clear_inputs(&mut self) -> io::Result<()> {
        self.outputs.forget();
        if fault_injection::disabled(Mitigation::ResetInputs) {
            self.inputs.forget();
            return Ok(());
        }
        self.inputs.clear()
    }

    /// The supervisor's, when it has copied them.
    pub(crate) fn clear_outputs(&mut self) -> io::Result<()> {
        if fault_injection::disabled(Mitigation::ResetOutputs) {
            self.outputs.forget();
            return Ok(());
        }
        self.outputs.clear()
    }
}
