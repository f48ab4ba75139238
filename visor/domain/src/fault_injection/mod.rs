//! Switches a mitigation off, so that tests can show that an attack it stops succeeds without it.
//!
//! ```text
//! MONOHULL_UNHARDEN=dispatch monohull-unhardened run …
//! ```
//!
//! For those tests only: it takes the feature `unharden`, with which the program `monohull` does not compile, and
//! `monohull-unhardened` warns: on standard error, in reports, whose isolation is `unhardened`, and in `doctor`.
//! Without the feature [`disabled`] is a constant, and nothing of this is left in the program.

#[cfg(feature = "unharden")]
mod compiled_in;
#[cfg(not(feature = "unharden"))]
mod compiled_out;

#[cfg(feature = "unharden")]
pub use compiled_in::{begin, disabled, warning};
#[cfg(not(feature = "unharden"))]
pub use compiled_out::{begin, disabled, warning};

/// What can be switched off outside of the gates; `monohull_trampoline::system::fault_injection` has what can be in there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mitigation {
    /// The checker's verdict: images are loaded whatever is in them.
    Checker,
    /// Keys on memory of the system's within the layout: it gets the functions' key.
    Tagging,
    /// A key for each instance: all have the same.
    SeparateKeys,
    /// That pages of a buffer without an owner are the system's: they keep the key of the last owner.
    HandingOn,
    /// The bound on buffers that instances with keys of their own hold at a time.
    HeldBuffers,
    /// The pins of buffers that hostcalls read or write: they change hands meanwhile.
    Pins,
    /// The lists of slots that a step may take and fill.
    SlotLists,
    /// Syscall user dispatch: functions' system calls are made.
    Dispatch,
    /// The key on the info page, where the selectors of dispatch are: functions may write there.
    Selector,
    /// That the kernel switches a carrier's signal stack off while a handler runs.
    SignalStack,
    /// That a handler asks whether the kernel has called it.
    SignalDelivery,
    /// The removal of instructions from trusted code that would change keys.
    Gadgets,
    /// The comparison of addresses with what the caller may name.
    Arguments,
    /// That entry frames are emptied when their instance ends.
    Frames,
    /// The end of time slices. The kernel gives signal handlers the usual control words, so the thread that runs after one has them: that
    /// would hide that the exit does not set them.
    TimeSlices,
    /// Between two uses of a process: that freed blocks of trusted memory are wiped.
    ResetHeap,
    /// That the room in which messages are received is.
    ResetRoom,
    /// That the stack of the thread that serves one job after the other is.
    ResetStacks,
    /// That the stacks of trusted threads are which end.
    ResetThreadStacks,
    /// That data, heap and mapped memory which show a copy of them, or captured memory, are memory of their own again.
    ResetCellCopies,
    /// That the initialized data of an image is put back.
    ResetCellData,
    /// That the zeroed data of an image is.
    ResetCellZeros,
    /// That the heap of an instance is unmapped.
    ResetCellHeap,
    /// That memory which an instance has mapped is.
    ResetCellMapped,
    /// That the main stack of an instance is wiped.
    ResetCellStack,
    /// That the stacks of its other threads are unmapped.
    ResetCellThreads,
    /// That cells which are not kept are.
    ResetOtherCells,
    /// That the memory of slot buffers is given back.
    ResetArena,
    /// That entry frames are.
    ResetFrames,
    /// That the blocks of all carriers but the first are.
    ResetBlocks,
    /// That the info page is zero again.
    ResetInfo,
    /// That the first carrier's context and state are written anew.
    ResetContext,
    /// That what handled signals leave is removed: what they hold on the signal stack, signals that are blocked.
    ResetSignals,
    /// That the carriers' timers are deleted, and that of the first one is switched off.
    ResetTimers,
    /// That the state of modules is dropped.
    ResetModules,
    /// That the modules' static data is put back.
    ResetStatics,
    /// That large inputs are cleared in the memory in which they come.
    ResetInputs,
    /// That large outputs are cleared in the memory in which they go.
    ResetOutputs,
    /// That descriptors are closed which nothing owns any more.
    ResetDescriptors,
}

/// What the program in which mitigations can be switched off leaves on the stacks of trusted threads that end, so that there is something to
/// find: in capitals, as the program itself has it in small letters.
pub const PLANTED: &str = "planted-on-the-stack-of-a-thread";

/// Whether this program is one in which mitigations can be switched off.
pub const fn is_unhardened() -> bool {
    cfg!(feature = "unharden")
}
