//! One mitigation is off: the one that the environment names.

use super::Mitigation;
use monohull_trampoline::system::fault_injection::{Check, sites};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The environment variable.
const VARIABLE: &str = "MONOHULL_UNHARDEN";

/// What a name switches off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Off {
    Mitigation(Mitigation),
    Check(Check),
}

const NAMES: [(&str, Off); 48] = [
    ("checker", Off::Mitigation(Mitigation::Checker)),
    ("tagging", Off::Mitigation(Mitigation::Tagging)),
    ("separate-keys", Off::Mitigation(Mitigation::SeparateKeys)),
    ("handing-on", Off::Mitigation(Mitigation::HandingOn)),
    ("held-buffers", Off::Mitigation(Mitigation::HeldBuffers)),
    ("pins", Off::Mitigation(Mitigation::Pins)),
    ("slot-lists", Off::Mitigation(Mitigation::SlotLists)),
    ("dispatch", Off::Mitigation(Mitigation::Dispatch)),
    ("selector", Off::Mitigation(Mitigation::Selector)),
    ("signal-stack", Off::Mitigation(Mitigation::SignalStack)),
    ("signal-delivery", Off::Mitigation(Mitigation::SignalDelivery)),
    ("gadgets", Off::Mitigation(Mitigation::Gadgets)),
    ("arguments", Off::Mitigation(Mitigation::Arguments)),
    ("frames", Off::Mitigation(Mitigation::Frames)),
    ("reset-heap", Off::Mitigation(Mitigation::ResetHeap)),
    ("reset-room", Off::Mitigation(Mitigation::ResetRoom)),
    ("reset-stacks", Off::Mitigation(Mitigation::ResetStacks)),
    ("reset-thread-stacks", Off::Mitigation(Mitigation::ResetThreadStacks)),
    ("reset-cell-copies", Off::Mitigation(Mitigation::ResetCellCopies)),
    ("reset-cell-data", Off::Mitigation(Mitigation::ResetCellData)),
    ("reset-cell-zeros", Off::Mitigation(Mitigation::ResetCellZeros)),
    ("reset-cell-heap", Off::Mitigation(Mitigation::ResetCellHeap)),
    ("reset-cell-mapped", Off::Mitigation(Mitigation::ResetCellMapped)),
    ("reset-cell-stack", Off::Mitigation(Mitigation::ResetCellStack)),
    ("reset-cell-threads", Off::Mitigation(Mitigation::ResetCellThreads)),
    ("reset-other-cells", Off::Mitigation(Mitigation::ResetOtherCells)),
    ("reset-arena", Off::Mitigation(Mitigation::ResetArena)),
    ("reset-frames", Off::Mitigation(Mitigation::ResetFrames)),
    ("reset-blocks", Off::Mitigation(Mitigation::ResetBlocks)),
    ("reset-info", Off::Mitigation(Mitigation::ResetInfo)),
    ("reset-context", Off::Mitigation(Mitigation::ResetContext)),
    ("reset-signals", Off::Mitigation(Mitigation::ResetSignals)),
    ("reset-timers", Off::Mitigation(Mitigation::ResetTimers)),
    ("reset-modules", Off::Mitigation(Mitigation::ResetModules)),
    ("reset-statics", Off::Mitigation(Mitigation::ResetStatics)),
    ("reset-inputs", Off::Mitigation(Mitigation::ResetInputs)),
    ("reset-outputs", Off::Mitigation(Mitigation::ResetOutputs)),
    ("reset-descriptors", Off::Mitigation(Mitigation::ResetDescriptors)),
    ("stub-rights", Off::Check(Check::StubRights)),
    ("stub-carrier", Off::Check(Check::StubCarrier)),
    ("stub-frame", Off::Check(Check::StubFrame)),
    ("stub-register", Off::Check(Check::StubRegister)),
    ("exit-thread", Off::Check(Check::ExitThread)),
    ("exit-direction", Off::Check(Check::ExitDirection)),
    ("exit-control", Off::Check(Check::ExitControl)),
    ("signal-thread", Off::Check(Check::SignalThread)),
    ("signal-arguments", Off::Check(Check::SignalArguments)),
    ("registers", Off::Check(Check::Registers)),
];

static OFF: OnceLock<(&str, Off)> = OnceLock::new();

/// Reads the environment, once, before the program does anything else. An unknown name ends the program.
pub fn begin() {
    if let Ok(name) = std::env::var(VARIABLE) {
        let Some(known) = NAMES.iter().find(|(known, _)| *known == name) else {
            eprintln!("{VARIABLE}: no mitigation is called {name}");
            std::process::exit(2);
        };
        if let Off::Check(check) = known.1 {
            // The kernel writes there for us, whatever rights the pages have.
            let memory = File::options().write(true).open("/proc/self/mem").expect("this process has memory");
            sites(check, &mut |address, code| memory.write_all_at(code, address).expect("the gates are mapped"));
        }
        let _ = OFF.set(*known);
    }
    eprintln!("monohull: WARNING: {}", warning().unwrap_or_default());
}

/// Whether it is this one.
pub fn disabled(defence: Mitigation) -> bool {
    let hidden_by_slices = |off| defence == Mitigation::TimeSlices && off == Off::Check(Check::ExitControl);
    OFF.get().is_some_and(|(_, off)| *off == Off::Mitigation(defence) || hidden_by_slices(*off))
}

/// A warning for the user of this program.
pub fn warning() -> Option<String> {
    let off = OFF.get().map_or("none", |(name, _)| name);
    Some(format!(
        "this build is for Monohull's own tests and protects nothing: mitigations can be switched off; off: {off}"
    ))
}
