//! What the processor has: vector registers, and where the kernel's signal frames keep them.

use monohull_trampoline::system::interrupted::XsaveLayout;
use monohull_trampoline::system::{VectorState, clear_x87};
use std::sync::OnceLock;

/// Queries the processor's features now; processes forked later inherit the answers. On a virtual machine each CPUID traps to
/// the hypervisor and takes as long as starting a workflow.
pub(super) fn detect_processor() {
    vector_state();
    clear_x87();
    xsave_layout();
}

/// Where the kernel's signal frames have which registers.
pub(crate) fn xsave_layout() -> &'static XsaveLayout {
    static LAYOUT: OnceLock<XsaveLayout> = OnceLock::new();
    LAYOUT.get_or_init(XsaveLayout::detect)
}

/// Whether interrupted user code can be given back all its registers: mask registers are loaded whole.
pub(crate) fn puts_back_all_registers() -> bool {
    vector_state() != VectorState::Avx512 || is_x86_feature_detected!("avx512bw")
}

/// The vector registers that there are.
pub(super) fn vector_state() -> VectorState {
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        VectorState::Avx512
    } else if is_x86_feature_detected!("avx") {
        VectorState::Avx
    } else {
        VectorState::Sse
    }
}
