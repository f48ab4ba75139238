//! What the processor has: vector registers, and where the kernel's signal frames keep them.

use monohull_abi::types::{CPUID_FIRST, CPUID_LEAVES};
use monohull_trampoline::system::interrupted::XsaveLayout;
use monohull_trampoline::system::{VectorState, clear_x87};
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

/// Queries the processor's features now; processes forked later inherit the answers. On a virtual machine each CPUID traps to
/// the hypervisor and takes as long as starting a workflow.
pub(super) fn detect_processor() {
    vector_state();
    clear_x87();
    xsave_layout();
    cpuid();
}

/// What CPUID answers, by the number of `GET_INFO`.
pub(crate) fn cpuid_fact(what: u64) -> Option<u64> {
    let index = usize::try_from(what.checked_sub(CPUID_FIRST)?).ok()?;
    let answers = cpuid().get(index / 4)?;
    Some(answers[index % 4].into())
}

/// EAX, EBX, ECX and EDX of each of the leaves that functions can read.
fn cpuid() -> &'static [[u32; 4]; CPUID_LEAVES.len()] {
    static ANSWERS: OnceLock<[[u32; 4]; CPUID_LEAVES.len()]> = OnceLock::new();
    ANSWERS.get_or_init(|| {
        // The last leaf of each range, and the last subleaf of leaf 7.
        let [last, last_extended] = [__cpuid(0).eax, __cpuid(0x8000_0000).eax];
        let last_of_7 = if last >= 7 { __cpuid_count(7, 0).eax } else { 0 };
        CPUID_LEAVES.map(|(leaf, subleaf)| {
            let is_there = match leaf {
                7 => last >= 7 && subleaf <= last_of_7,
                0x8000_0000.. => leaf <= last_extended,
                _ => leaf <= last,
            };
            if !is_there {
                return [0; 4];
            }
            let said = __cpuid_count(leaf, subleaf);
            // The highest byte of leaf 1's EBX names the processor that was asked.
            let ebx = if leaf == 1 { said.ebx & 0x00ff_ffff } else { said.ebx };
            [said.eax, ebx, said.ecx, said.edx]
        })
    })
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
