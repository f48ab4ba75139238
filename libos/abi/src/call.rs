//! One hostcall on its way: what the gate writes, what a handler reads, and what the handler answers.

/// The caller is trusted: the visor or another module. Its addresses are not checked.
pub const SYSTEM_INSTANCE: u32 = u32::MAX;

/// Why a handler runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Wake {
    /// The first run.
    First = 0,
    /// The key it waited for was woken.
    Woken = 1,
    /// The deadline passed.
    TimedOut = 2,
    /// Every thread in the domain waits and nothing can change that: fail now.
    Deadlock = 3,
}

/// One hostcall of one user thread: the gate writes it, handlers read it, a parked thread *is* it.
///
/// The first fields are written by assembly in `monohull-trampoline`, which asserts their offsets.
#[derive(Debug)]
#[repr(C)]
pub struct Call {
    /// The user stack pointer; the top word is where the thread goes on.
    pub user_rsp: u64,
    /// What the call returns (in `rax`) when the thread goes on.
    pub value: i64,
    /// The hostcall's number, as the function gave it: not yet checked.
    pub number: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// The handler's memory across parks; zero on the first call.
    pub scratch: [u64; 4],
    /// The caller's instance, or [`SYSTEM_INSTANCE`].
    pub instance: u32,
    /// The calling thread, unique in the domain while it lives.
    pub thread: u32,
    /// Why the handler runs.
    pub wake: Wake,
    /// Which carrier it runs on.
    pub carrier: u32,
}

impl Call {
    /// A call by trusted code.
    pub const fn system(number: u32, args: [u64; 6]) -> Call {
        Call {
            user_rsp: 0,
            value: 0,
            number: number as u64,
            args,
            scratch: [0; 4],
            instance: SYSTEM_INSTANCE,
            thread: u32::MAX,
            wake: Wake::First,
            carrier: 0,
        }
    }
}

/// What a handler decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Outcome {
    /// One of the constants below.
    pub tag: u64,
    /// With [`Outcome::READY`]: what the call returns.
    pub value: i64,
}

impl Outcome {
    /// The call is done.
    pub const READY: u64 = 0;
    /// The thread waits; [`Host::wait`](crate::module::Host::wait) has been called.
    pub const PARK: u64 = 1;
    /// The calling thread, or its instance, has ended.
    pub const ENDED: u64 = 2;
    /// The calling thread stays ready but lets others run first; `value` is what the call will return.
    pub const YIELD: u64 = 3;

    /// Done, with a value.
    pub const fn ready(value: i64) -> Outcome {
        Outcome { tag: Self::READY, value }
    }

    /// Done, refused.
    pub const fn error(errno: crate::Errno) -> Outcome {
        Outcome { tag: Self::READY, value: errno.to_value() }
    }

    /// Waiting.
    pub const fn park() -> Outcome {
        Outcome { tag: Self::PARK, value: 0 }
    }
}

impl From<Result<u64, crate::Errno>> for Outcome {
    fn from(result: Result<u64, crate::Errno>) -> Outcome {
        match result {
            Ok(value) => Outcome::ready(value as i64),
            Err(errno) => Outcome::error(errno),
        }
    }
}
