//! The kinds of instructions that are looked for: what each does, what follows from finding one, and why.

use serde::Serialize;

/// What the processor would take a sequence for. The refused ones come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `0f 01 ef`: writes the key rights.
    Wrpkru,
    /// `0f ae /5` with a memory operand: loads processor state, the key rights included.
    Xrstor,
    /// `f3 0f ae /2` with a register operand: sets the base of `fs`.
    Wrfsbase,
    /// `f3 0f ae /3` with a register operand: sets the base of `gs`.
    Wrgsbase,
    /// `0f c7 /3` with a memory operand: XRSTOR for the kernel.
    Xrstors,
    /// `0f 05`: a system call.
    Syscall,
    /// `0f 34`: a system call, the 32-bit way.
    Sysenter,
    /// `cd n`: a software interrupt; `cd 80` is a system call.
    Int,
    /// `ff /3`, `ff /5` with a memory operand, `ca`, `cb`, `cf`: far call, jump and return, IRET.
    FarTransfer,
    /// `8e`, `0f a1`, `0f a9`, `0f b2`, `0f b4`, `0f b5`: loads a segment register.
    SegmentLoad,
}

/// What follows from a finding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file must not be loaded.
    Refuse,
    /// Something else stands behind the check; the finding is reported.
    Warn,
}

/// What a finding is in the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// An instruction of the program.
    Instruction,
    /// Bytes of other instructions.
    Accident,
    /// Decoding does not decide: there may be data around it.
    Unclear,
}

impl Severity {
    /// As it is written in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Refuse => "refused",
            Severity::Warn => "warning",
        }
    }
}

impl Kind {
    /// Every kind, the refused ones first.
    pub const ALL: [Kind; 10] = [
        Kind::Wrpkru,
        Kind::Xrstor,
        Kind::Wrfsbase,
        Kind::Wrgsbase,
        Kind::Xrstors,
        Kind::Syscall,
        Kind::Sysenter,
        Kind::Int,
        Kind::FarTransfer,
        Kind::SegmentLoad,
    ];

    /// Whether a file with it is refused, under the rules that hold for function images.
    pub const fn severity(self) -> Severity {
        match self {
            Kind::Wrpkru | Kind::Xrstor | Kind::Wrfsbase | Kind::Wrgsbase => Severity::Refuse,
            Kind::Xrstors | Kind::Syscall | Kind::Sysenter | Kind::Int | Kind::FarTransfer | Kind::SegmentLoad => {
                Severity::Warn
            }
        }
    }

    /// Whether it enters the kernel, which only syscall user dispatch turns into a fault.
    pub const fn is_system_call(self) -> bool {
        matches!(self, Kind::Syscall | Kind::Sysenter | Kind::Int)
    }

    /// The instruction's name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Wrpkru => "WRPKRU",
            Kind::Xrstor => "XRSTOR",
            Kind::Xrstors => "XRSTORS",
            Kind::Wrfsbase => "WRFSBASE",
            Kind::Wrgsbase => "WRGSBASE",
            Kind::Syscall => "SYSCALL",
            Kind::Sysenter => "SYSENTER",
            Kind::Int => "INT n",
            Kind::FarTransfer => "a far call, jump or return",
            Kind::SegmentLoad => "a segment register load",
        }
    }

    /// Why it matters.
    pub const fn why(self) -> &'static str {
        match self {
            Kind::Wrpkru => "it sets the protection-key rights, and with them opens all memory of the domain",
            Kind::Xrstor => {
                "it loads processor state from memory, the protection-key rights included, and with them opens all \
                 memory of the domain"
            }
            Kind::Xrstors => "it loads processor state like XRSTOR, but faults outside the kernel",
            Kind::Wrfsbase | Kind::Wrgsbase => {
                "it moves a segment base that trusted code relies on to find its own data"
            }
            Kind::Syscall | Kind::Sysenter | Kind::Int => {
                "it enters the kernel past the libos; syscall user dispatch stops it when it runs"
            }
            Kind::FarTransfer => "it can change the code segment; these bytes are common by accident",
            Kind::SegmentLoad => "it can change a segment register; these bytes are common by accident",
        }
    }

    /// What stands behind the check, and so decides the severity.
    pub const fn backstop(self) -> &'static str {
        match self {
            Kind::Wrpkru | Kind::Xrstor | Kind::Wrfsbase | Kind::Wrgsbase => {
                "nothing: the instruction needs no privilege, so the file is refused, also for bytes inside other \
                 instructions"
            }
            Kind::Xrstors => "the processor: XRSTORS is a general-protection fault outside ring 0",
            Kind::Syscall | Kind::Sysenter | Kind::Int => {
                "syscall user dispatch: a system call of user code is a fault of that function; without dispatch the \
                 file is refused"
            }
            Kind::FarTransfer => {
                "the kernel: the only other code segment of a process is the 32-bit one, with the same rights; what \
                 runs there is still subject to keys and dispatch"
            }
            Kind::SegmentLoad => "the kernel: all data segments are flat, and the exit gate tests fs and gs before use",
        }
    }

    /// What to do about it, where nothing more is known.
    pub const fn remedy(self) -> &'static str {
        self.remedy_for(Class::Unclear)
    }

    /// What to do about a finding of this class.
    pub const fn remedy_for(self, class: Class) -> &'static str {
        match (self.severity(), class) {
            (Severity::Refuse, Class::Instruction) => {
                "remove the instruction; it comes from inline assembly, an intrinsic or a linked library"
            }
            (Severity::Refuse, Class::Accident) => {
                "other instructions happen to hold these bytes (an address, a constant, a choice of registers): change \
                 the code there; `monohull build` tries other alignments by itself"
            }
            (Severity::Refuse, Class::Unclear) => {
                "remove the instruction (inline assembly, intrinsics or a linked library); if the bytes lie inside \
                 other instructions or in a jump table, change the code around them or the optimisation level so \
                 that other bytes come out"
            }
            (Severity::Warn, Class::Accident) => "nothing",
            (Severity::Warn, _) if self.is_system_call() => {
                "call the operating system through monohull-std; bytes inside other instructions need nothing"
            }
            (Severity::Warn, _) => "nothing, unless it was written on purpose",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
