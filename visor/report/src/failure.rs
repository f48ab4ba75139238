//! Kinds of failures, who is at fault, and what is known about a failure.

use serde::{Deserialize, Serialize};

/// What a failure is called in workflow files, reports and JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// `main` returned an error.
    Error,
    /// `main` returned an error that another attempt would not avoid, or an argument of the step is wrong. It is never tried again,
    /// so workflow files cannot name it.
    #[schemars(skip)]
    Permanent,
    /// The function panicked.
    Panic,
    /// `process::exit` with a status other than 0.
    Exit,
    /// An access to memory that the function may not use: a null or wild pointer, read-only memory, memory of another
    /// instance.
    MemoryFault,
    /// The stack ran into its guard page.
    StackOverflow,
    /// An instruction that the processor refuses.
    IllegalInstruction,
    /// Integer division by zero, or an unmasked floating-point exception.
    Arithmetic,
    /// A breakpoint or single-step trap.
    Trap,
    /// A system call that did not go through the gate.
    SystemCall,
    /// The time-stamp counter was read, and the workflow denies it.
    TimeStampCounter,
    /// The step's or the workflow's `timeout` had passed.
    Timeout,
    /// The memory limit was reached.
    MemoryLimit,
    /// All threads wait, and no event can wake one.
    Deadlock,
    /// A libos module failed.
    Libos,
    /// The image could not be loaded.
    Load,
    /// An input slot could not be filled. Not the functions' doing, so workflow files cannot name it.
    #[schemars(skip)]
    Input,
    /// An output slot is empty or could not be written. Workflow files cannot name it.
    #[schemars(skip)]
    Output,
    /// Slots were filled and not read. Workflow files cannot name it.
    #[schemars(skip)]
    Unread,
    /// The process of the workflow ended before its workflow did. Workflow files cannot name it.
    #[schemars(skip)]
    Process,
    /// Ended because the workflow ended. Workflow files cannot name it.
    #[schemars(skip)]
    Cancelled,
}

impl FailureKind {
    /// Every kind that a workflow file may name.
    pub const ALL: [FailureKind; 15] = [
        FailureKind::Error,
        FailureKind::Panic,
        FailureKind::Exit,
        FailureKind::MemoryFault,
        FailureKind::StackOverflow,
        FailureKind::IllegalInstruction,
        FailureKind::Arithmetic,
        FailureKind::Trap,
        FailureKind::SystemCall,
        FailureKind::TimeStampCounter,
        FailureKind::Timeout,
        FailureKind::MemoryLimit,
        FailureKind::Deadlock,
        FailureKind::Libos,
        FailureKind::Load,
    ];

    /// Its name in workflow files, reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::Error => "error",
            FailureKind::Permanent => "permanent",
            FailureKind::Panic => "panic",
            FailureKind::Exit => "exit",
            FailureKind::MemoryFault => "memory-fault",
            FailureKind::StackOverflow => "stack-overflow",
            FailureKind::IllegalInstruction => "illegal-instruction",
            FailureKind::Arithmetic => "arithmetic",
            FailureKind::Trap => "trap",
            FailureKind::SystemCall => "system-call",
            FailureKind::TimeStampCounter => "time-stamp-counter",
            FailureKind::Timeout => "timeout",
            FailureKind::MemoryLimit => "memory-limit",
            FailureKind::Deadlock => "deadlock",
            FailureKind::Libos => "libos",
            FailureKind::Load => "load",
            FailureKind::Input => "input",
            FailureKind::Output => "output",
            FailureKind::Unread => "unread",
            FailureKind::Process => "process",
            FailureKind::Cancelled => "cancelled",
        }
    }

    /// The names of all kinds.
    pub fn names() -> [&'static str; 15] {
        FailureKind::ALL.map(FailureKind::name)
    }
}

/// Who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blame {
    /// The function's code.
    Function,
    /// The workflow file.
    Workflow,
    /// The machine.
    Host,
    /// Monohull itself.
    Monohull,
}

impl Blame {
    /// Its name in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Blame::Function => "the function",
            Blame::Workflow => "the workflow",
            Blame::Host => "the host",
            Blame::Monohull => "Monohull",
        }
    }
}

/// A place in an image.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CodePlace {
    /// Offset in the image.
    pub offset: u64,
    /// The symbol it lies in and the offset there, if the image has symbols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// The source file, line and column, where debug information is at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl std::fmt::Display for CodePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.symbol {
            Some(symbol) => write!(f, "{symbol} (image offset {:#x})", self.offset),
            None => write!(f, "image offset {:#x}", self.offset),
        }
    }
}

/// Why something failed: an instance, a workflow, or the process of one. The domain makes it, reports carry it, and the service
/// turns it into an HTTP status.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// Who is at fault.
    pub blame: Blame,
    /// What happened, as text.
    pub message: String,
    /// The step it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The instance it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<u32>,
    /// The function it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The address that was accessed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// Whose memory that address is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_of: Option<String>,
    /// The instruction it happened at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<CodePlace>,
    /// The calls that led there, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<CodePlace>,
}

impl Failure {
    /// A failure of the function with nothing but a message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure::blamed(kind, Blame::Function, message)
    }

    /// A failure that something else is at fault for.
    pub fn blamed(kind: FailureKind, blame: Blame, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            blame,
            message: message.into(),
            step: None,
            instance: None,
            function: None,
            address: None,
            address_of: None,
            ip: None,
            backtrace: Vec::new(),
        }
    }
}
