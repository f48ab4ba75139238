//! Carriers: the host threads that user threads run on, and what each must have before it may enter user code.
//!
//! One block per carrier at a fixed address, so that a signal handler finds its carrier from its own stack alone:
//!
//! ```text
//! CARRIER_BASE + i * 64 KiB
//! | guard | alternate signal stack ↓                         | context (one page) |
//! ```

use super::address_space::{Access, AddressSpace, AddressSpaceError};
use super::keys::Key;
use crate::fault_injection::{self, Mitigation};
use monohull_abi::layout::{CARRIER_BASE, CARRIER_MAX, CARRIER_SIZE, CarrierLine, INFO_BASE, PAGE, SELECTOR_ALLOW};
use monohull_abi::module::Call;
use monohull_abi::module::NEVER;
use monohull_sys::signals;
use monohull_trampoline::system::interrupted::{CONTEXT_REGISTERS, Place, UnknownRegisters, XsaveLayout, place};
use monohull_trampoline::system::{
    CarrierContext, FaultInfo, Registers, VectorState, clear_x87, context_address, exit_gate, frame_page,
    thread_pointer,
};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering, fence};
use std::time::Duration;

/// The state of a carrier that other carriers and its signal handler use.
pub struct CarrierState {
    /// Kernel thread id, 0 while detached.
    tid: AtomicI32,
    /// [`PREEMPT_SIGNAL`] has been sent since an instance was last bound.
    preempt_sent: AtomicBool,
    /// Its timer has fired, or the handler has set it, since [`Carrier::bind_instance`] last set it.
    timer_set: AtomicBool,
    /// A signal interrupted trusted code: the run loop checks for the end of the instance before it enters user code.
    attention: AtomicBool,
    /// Kernel ids of two timers: its own, and the one by which others preempt it. -1: no such timer.
    timer: AtomicI32,
    /// See `timer`.
    preempt_timer: AtomicI32,
    /// The `stop` flag of the instance it runs, null in between.
    stop: AtomicPtr<AtomicBool>,
    /// When that instance's time is up.
    deadline: AtomicU64,
    /// How long user code runs now before others get their turn, in ns; [`NEVER`] if it is not interrupted for that.
    slice: AtomicU64,
    /// The hostcall that was made last.
    call: AtomicU64,
}

impl CarrierState {
    /// What a carrier begins with; thread and timers apart.
    fn clear(&self) {
        self.preempt_sent.store(false, Ordering::Relaxed);
        self.timer_set.store(false, Ordering::Relaxed);
        self.attention.store(false, Ordering::Relaxed);
        self.stop.store(std::ptr::null_mut(), Ordering::Release);
        self.deadline.store(NEVER, Ordering::Relaxed);
        self.slice.store(NEVER, Ordering::Relaxed);
        self.call.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl CarrierState {
    /// The kernel's id of its timer.
    pub(super) fn timer_id(&self) -> i32 {
        self.timer.load(Ordering::Acquire)
    }

    /// Whether no instance is bound to it, and none has left anything.
    pub(super) fn is_unbound(&self) -> bool {
        self.stop.load(Ordering::Acquire).is_null()
            && self.deadline.load(Ordering::Relaxed) == NEVER
            && self.slice.load(Ordering::Relaxed) == NEVER
            && self.call.load(Ordering::Relaxed) == 0
    }
}

/// All carriers of the process, by index.
pub static CARRIERS: [CarrierState; CARRIER_MAX] = [const {
    CarrierState {
        tid: AtomicI32::new(0),
        preempt_sent: AtomicBool::new(false),
        timer_set: AtomicBool::new(false),
        attention: AtomicBool::new(false),
        timer: AtomicI32::new(-1),
        preempt_timer: AtomicI32::new(-1),
        stop: AtomicPtr::new(std::ptr::null_mut()),
        deadline: AtomicU64::new(NEVER),
        slice: AtomicU64::new(NEVER),
        call: AtomicU64::new(0),
    }
}; CARRIER_MAX];

/// A carrier could not be set up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum CarrierError {
    #[error("{what} failed: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// The host's answer.
        source: std::io::Error,
    },
    #[error("the carrier's block: {0}")]
    Region(#[from] AddressSpaceError),
}

/// The calling thread as a carrier; undone on drop.
#[derive(Debug)]
pub struct Carrier {
    index: usize,
    /// Kernel thread id.
    tid: i32,
    context: *mut CarrierContext,
    /// What its timer was last set to, unless a handler has set it since.
    armed: u64,
    /// How long user code runs at a time, in ns; [`NEVER`] if it is not interrupted for that.
    slice: u64,
    /// How often in a row a slice was over before user code had run.
    fruitless: u32,
    /// The key that user code is entered with.
    key: Option<Key>,
    /// The keys whose entry frames are mapped, by bit.
    frames: u32,
    /// Reading the time-stamp counter is a fault on this thread.
    counter_denied: bool,
    /// Undone last.
    setup: ThreadSetup,
}

const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
const PR_SYS_DISPATCH_OFF: u64 = 0;
const PR_SYS_DISPATCH_ON: u64 = 1;
const ARCH_SET_GS: i32 = 0x1001;
const RSEQ_FLAG_UNREGISTER: i32 = 1;
/// The signature glibc registers its restartable sequences with on x86.
const RSEQ_SIGNATURE: u32 = 0x5305_3053;
/// A handler that interrupts trusted code of an instance that has to stop sets the timer this far ahead.
const RETRY_NS: u64 = 1_000_000;

/// The first half of a carrier's set-up: what a forked process inherits.
#[derive(Debug)]
pub struct ThreadSetup {
    index: usize,
    old_stack: libc::stack_t,
}

// SAFETY: the address in it is not used but to give it back to the kernel.
unsafe impl Send for ThreadSetup {}

impl ThreadSetup {
    /// Sets up a carrier's block, `gs` and alternate stack on the calling thread, and unregisters rseq.
    pub fn install(space: &AddressSpace, index: usize) -> Result<ThreadSetup, CarrierError> {
        let block = CARRIER_BASE + index as u64 * CARRIER_SIZE;
        space.protect(block + PAGE..block + CARRIER_SIZE, Access::ReadWrite, Key::SYSTEM)?;
        let stack = signal_stack(index);
        // SAFETY: plain data, filled in by the next call.
        let mut old_stack: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: the stack is mapped and used for nothing else.
        checked("the alternate signal stack", unsafe { libc::sigaltstack(&stack, &mut old_stack) }.into())?;
        let setup = ThreadSetup { index, old_stack };
        unregister_rseq()?;
        // SAFETY: x86-64 glibc does not use gs; user code reads its gate there.
        checked("arch_prctl(ARCH_SET_GS)", unsafe {
            libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, info_line(index))
        })?;
        Ok(setup)
    }

    /// Writes the context by which a signal handler finds the thread, and the selector, set for trusted code.
    /// The addresses of both.
    fn write_context(&self) -> (*mut CarrierContext, *mut CarrierLine) {
        let (context, line) = (context_address(self.index) as *mut CarrierContext, info_line(self.index));
        // SAFETY: `install` has made the context's page writable, and the info page is; both places are this block's alone.
        unsafe {
            context.write(CarrierContext::new(self.index, vector_state()));
            (&raw mut (*line).selector).write(SELECTOR_ALLOW);
        }
        (context, line)
    }

    /// The same of a carrier, with the gate that user code leaves by.
    fn write_first_state(&self, space: &AddressSpace) -> (*mut CarrierContext, *mut CarrierLine) {
        let (context, line) = self.write_context();
        // SAFETY: the info page is writable here, and the line is this carrier's alone.
        unsafe { (&raw mut (*line).gate).write(exit_gate(space.keys().variant(), self.index)) };
        (context, line)
    }
}

/// The block of the timekeeper, which is not a carrier.
pub(super) const TIMEKEEPER_BLOCK: usize = CARRIER_MAX;

/// Sets up what the calling thread needs to survive faults when it copies from user memory: a carrier block, without the rest
/// that it takes to enter user code.
pub(super) fn survive_faults(space: &AddressSpace, block: usize) -> Result<ThreadSetup, CarrierError> {
    let setup = ThreadSetup::install(space, block)?;
    setup.write_context();
    Ok(setup)
}

impl Drop for ThreadSetup {
    fn drop(&mut self) {
        // SAFETY: the old stack is what the thread had before; gs goes back to what a thread starts with.
        unsafe {
            libc::sigaltstack(&self.old_stack, std::ptr::null_mut());
            libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, 0u64);
        }
    }
}

impl Carrier {
    /// Makes the calling thread carrier `index`.
    pub fn new(space: &AddressSpace, index: usize) -> Result<Carrier, CarrierError> {
        Carrier::attach(space, ThreadSetup::install(space, index)?)
    }

    /// Makes the calling thread, which has installed the set-up or was forked with it, a carrier: context, info line, timer,
    /// dispatch armed.
    pub fn attach(space: &AddressSpace, setup: ThreadSetup) -> Result<Carrier, CarrierError> {
        let index = setup.index;
        let (context, line) = setup.write_first_state(space);
        // SAFETY: has no preconditions.
        let tid = unsafe { libc::gettid() };
        let carrier = Carrier {
            index,
            tid,
            context,
            armed: NEVER,
            slice: NEVER,
            fruitless: 0,
            key: None,
            frames: 0,
            counter_denied: false,
            setup,
        };
        let state = &CARRIERS[index];
        state.clear();
        state.timer.store(new_timer(tid, timer_signal())?, Ordering::Release);
        if index != 0 {
            // The first carrier gets one when a second thread is started: `allow_preempting_first`.
            state.preempt_timer.store(new_timer(tid, PREEMPT_SIGNAL)?, Ordering::Release);
        }
        state.tid.store(tid, Ordering::Release);
        if fault_injection::disabled(Mitigation::Dispatch) {
            return Ok(carrier);
        }
        // SAFETY: the selector byte stays mapped until dispatch is switched off on drop. The allowed range is empty.
        let armed = unsafe {
            let selector = &raw mut (*line).selector;
            libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0u64, 0u64, selector)
        };
        checked("syscall user dispatch (Linux 5.11 or newer)", armed.into())?;
        Ok(carrier)
    }

    /// The run is over: nothing interrupts this thread any more, and it may read the time-stamp counter. It enters no user code until
    /// it is [renewed](Self::renew).
    pub fn rest(&mut self) -> Result<(), CarrierError> {
        let state = &CARRIERS[self.index];
        state.stop.store(std::ptr::null_mut(), Ordering::Release);
        state.tid.store(0, Ordering::Release);
        if !fault_injection::disabled(Mitigation::ResetTimers) {
            set_timer(state, NEVER)?;
            self.armed = NEVER;
        }
        if self.counter_denied {
            // SAFETY: changes nothing but that reading the counter is no fault any more.
            let status = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) };
            checked("allowing the time-stamp counter", status.into())?;
            self.counter_denied = false;
        }
        Ok(())
    }

    /// Makes this carrier, the first, which [rests](Self::rest), what it was before its first run. No other carrier is there, and no
    /// entry frame is mapped. Thread, timer, signal stack and dispatch stay.
    pub fn renew(&mut self, space: &AddressSpace) -> Result<(), CarrierError> {
        let state = &CARRIERS[self.index];
        let preempt_timer = state.preempt_timer.swap(-1, Ordering::AcqRel);
        if preempt_timer >= 0 && !fault_injection::disabled(Mitigation::ResetTimers) {
            // SAFETY: the timer is this carrier's, and nothing knows of it any more.
            checked("timer_delete", unsafe { libc::syscall(libc::SYS_timer_delete, preempt_timer) })?;
        }
        // The timers are quiet. A signal of theirs that was blocked arrives now.
        signals::unblock_all().map_err(|source| CarrierError::Host { what: "unblocking signals", source })?;
        let stack = signal_stack(self.index);
        // SAFETY: the stack is this carrier's, and no handler runs on it.
        checked("the alternate signal stack", unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }.into())?;
        if !fault_injection::disabled(Mitigation::ResetCarriers) {
            // Registers of user code that was interrupted.
            let start = stack.ss_sp as u64;
            space.discard(start..start + stack.ss_size as u64)?;
        }
        self.setup.write_first_state(space);
        state.clear();
        state.tid.store(self.tid, Ordering::Release);
        (self.slice, self.fruitless, self.key, self.frames) = (NEVER, 0, None, 0);
        Ok(())
    }

    /// Which carrier this is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// For the gates.
    pub fn context(&self) -> *mut CarrierContext {
        self.context
    }

    /// From here on reading the time-stamp counter is a fault on this thread. In user code the fault ends the instance. For
    /// trusted code, such as the vDSO's clocks, `fault::tsc` emulates the instruction.
    pub fn deny_time_stamp_counter(&mut self) -> Result<(), CarrierError> {
        // SAFETY: the handler for such a fault is installed, and this thread has its signal stack.
        let status = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
        checked("denying the time-stamp counter (PR_SET_TSC)", status.into())?;
        self.counter_denied = true;
        Ok(())
    }

    /// From here on user code that runs for this long is interrupted, so that others get their turn. Not where its registers could
    /// not all be put back.
    pub fn slice_time(&mut self, slice: Duration) {
        if puts_back_all_registers() {
            self.slice = u64::try_from(slice.as_nanos()).unwrap_or(NEVER);
        }
    }

    /// A slice of time is over, and user code has run in it or not. If not, the next one is twice as long: on a slow machine one may be over
    /// before user code has been entered.
    pub fn slice_is_over(&mut self, fruitful: bool) {
        /// A slice of 5 ms becomes half a minute at most.
        const MOST: u32 = 12;
        self.fruitless = if fruitful { 0 } else { (self.fruitless + 1).min(MOST) };
    }

    /// Called before the first entry of another instance: sets its stop flag and its deadline.
    ///
    /// After this no order to stop that was meant for an earlier instance can arrive: a preemption that was sent has arrived or is
    /// cancelled, and none is sent for an instance that has been unbound. The timer may have been set for an earlier one, if that is
    /// early enough for this one too: it goes off after a slice of time at the latest. A signal of it only has the run loop look at
    /// the clock. None of this depends on the handler, which functions can call.
    pub fn bind_instance(
        &mut self,
        space: &AddressSpace,
        key: Key,
        stop: &AtomicBool,
        deadline: u64,
    ) -> Result<(), CarrierError> {
        self.enter_with(space, key)?;
        let state = &CARRIERS[self.index];
        // What interrupted trusted code before was no reason for this instance to stop; what is one comes after this.
        state.attention.store(false, Ordering::Relaxed);
        let preempt_timer = state.preempt_timer.load(Ordering::Acquire);
        if state.preempt_sent.swap(false, Ordering::AcqRel) && preempt_timer >= 0 {
            // Waits for the timer if it is just firing; what is pending then is delivered on the way back.
            set(preempt_timer, NEVER)?;
        }
        state.deadline.store(deadline, Ordering::Relaxed);
        state.stop.store(std::ptr::from_ref(stop).cast_mut(), Ordering::Release);
        // If `stop` is set after this, the setting thread sees this carrier and preempts it. If it was set before, the run loop
        // sees it before it enters. `Shared::end` has the other fence of the pair; `carrier_orders` tries all orders.
        fence(Ordering::SeqCst);
        let slice = self.slice.saturating_mul(1 << self.fruitless);
        state.slice.store(slice, Ordering::Relaxed);
        let is_set = !state.timer_set.load(Ordering::Relaxed);
        let in_time =
            if slice == NEVER { self.armed == deadline } else { self.armed <= deadline && self.armed != NEVER };
        if !(is_set && in_time) {
            let at = if slice == NEVER { deadline } else { deadline.min(monotonic_ns().saturating_add(slice)) };
            state.timer_set.store(false, Ordering::Relaxed);
            set_timer(state, at)?;
            self.armed = at;
        }
        clear_x87();
        Ok(())
    }

    /// User code gets the rights of `key` from here on. Its entry frame is mapped on first use.
    fn enter_with(&mut self, space: &AddressSpace, key: Key) -> Result<(), AddressSpaceError> {
        if self.key == Some(key) || !space.keys().in_force() {
            return Ok(());
        }
        self.map_frame(space, key)?;
        // SAFETY: the context is this carrier's, and no user code runs on it now.
        unsafe { (*self.context).enter_with(key.number()) };
        self.key = Some(key);
        Ok(())
    }

    /// Maps the page of the entry frame for this key, on first use.
    fn map_frame(&mut self, space: &AddressSpace, key: Key) -> Result<(), AddressSpaceError> {
        if self.frames & 1 << key.number() == 0 {
            let frame = frame_page(self.index, key.number());
            space.protect(frame..frame + PAGE, Access::ReadWrite, key)?;
            self.frames |= 1 << key.number();
        }
        Ok(())
    }

    /// Makes `call`, which is about to be entered here, go on with these registers.
    pub fn resume(
        &mut self,
        space: &AddressSpace,
        registers: &Registers,
        call: &mut Call,
    ) -> Result<(), AddressSpaceError> {
        // Without keys there are no entry frames, but there is room for them.
        let key = self.key.unwrap_or(Key::FUNCTIONS);
        self.map_frame(space, key)?;
        // SAFETY: the page is mapped and writable, and no user code runs on this carrier now.
        unsafe { registers.resume(self.index, key.number(), vector_state(), call) };
        Ok(())
    }

    /// A user thread with this header goes on this carrier: user code finds the address at `gs:[16]`.
    pub fn put_on(&self, thread_header: u64) {
        // SAFETY: the info page is writable here, and the line is this carrier's alone.
        unsafe { (&raw mut (*info_line(self.index)).thread_header).write(thread_header) };
    }

    /// A signal handler has taken user code off this carrier and ended without `sigreturn`: undoes what the kernel did for
    /// the handler. The alternate stack is switched on, and preemption and timer are unblocked. If the kernel did all that, which
    /// it says itself, `read` is called in between: the kernel's frame is still on the stack then. It is not called if a function
    /// has jumped to the entry of signal handlers: what is on the stack then is not what the handler took it for.
    pub fn restore_signal_state<T>(&self, read: impl FnOnce(&Carrier) -> T) -> Option<T> {
        // SAFETY: plain data, filled in by the next call.
        let mut before: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: the stack is this carrier's, and the handler does not run any more.
        unsafe { libc::sigaltstack(&signal_stack(self.index), &mut before) };
        // The kernel switches the stack off when it delivers a signal, see `signal_stack`.
        let delivered = before.ss_flags & libc::SS_DISABLE != 0 || fault_injection::disabled(Mitigation::SignalStack);
        let result = delivered.then(|| read(self));
        // SAFETY: both signals were unblocked before.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &interrupts(), std::ptr::null_mut()) };
        result
    }

    /// The registers of user code that `fault` has interrupted, from the kernel's frame. For [`Self::restore_signal_state`].
    pub fn interrupted_registers(&self, fault: &FaultInfo) -> Result<Registers, UnknownRegisters> {
        /// Where the frame's x87 part says how long all of it is (`struct _fpx_sw_bytes`), if it says anything.
        const LENGTH: u64 = 468;
        /// Without XSAVE, and the least.
        const LEGACY: u64 = 512;
        let stack = signal_stack(self.index);
        let stack = stack.ss_sp as u64..stack.ss_sp as u64 + stack.ss_size as u64;
        let holds = |at: u64, bytes: u64| stack.contains(&at) && bytes <= stack.end - at;
        if !holds(fault.context, size_of::<libc::ucontext_t>() as u64) {
            return Err(UnknownRegisters(0));
        }
        // SAFETY: it lies on this carrier's signal stack, where the kernel wrote it. No handler runs, and the signals of both
        // interrupts are blocked.
        let (general, extended) = unsafe {
            let context = fault.context as *const libc::ucontext_t;
            let general = (&raw const (*context).uc_mcontext.gregs).cast::<[u64; CONTEXT_REGISTERS]>();
            (&*general, (*context).uc_mcontext.fpregs as u64)
        };
        if !holds(extended, LEGACY) {
            return Err(UnknownRegisters(0));
        }
        // SAFETY: as above.
        let length = u64::from(unsafe { ((extended + LENGTH) as *const u32).read_unaligned() });
        let length = length.clamp(LEGACY, stack.end - extended);
        // SAFETY: as above; the length was checked.
        let extended = unsafe { std::slice::from_raw_parts(extended as *const u8, length as usize) };
        Registers::of_signal(general, fault.ip, extended, xsave_layout())
    }

    /// Where user code of this carrier was that was interrupted at this address.
    pub fn place(&self, space: &AddressSpace, ip: u64) -> Place {
        place(space.keys().variant(), self.index, ip)
    }

    /// The thread that runs is to let others go first before it enters user code again.
    pub fn ask_for_attention(&self) {
        CARRIERS[self.index].attention.store(true, Ordering::Relaxed);
    }

    /// Whether a signal has interrupted trusted code of this carrier since [`clear_attention`].
    pub fn has_attention(&self) -> bool {
        CARRIERS[self.index].attention.load(Ordering::Relaxed)
    }

    /// The carrier does not run the instance any more.
    pub fn unbind_instance(&mut self) {
        CARRIERS[self.index].stop.store(std::ptr::null_mut(), Ordering::Release);
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        let state = &CARRIERS[self.index];
        state.stop.store(std::ptr::null_mut(), Ordering::Release);
        let timers = [&state.timer, &state.preempt_timer].map(|timer| timer.swap(-1, Ordering::AcqRel));
        if self.counter_denied {
            // SAFETY: changes nothing but that reading the counter is no fault any more.
            unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) };
        }
        // SAFETY: the timers are this carrier's; dispatch off has no further arguments.
        unsafe {
            for timer in
                timers.into_iter().filter(|timer| *timer >= 0 && !fault_injection::disabled(Mitigation::ResetTimers))
            {
                libc::syscall(libc::SYS_timer_delete, timer);
            }
            libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0u64, 0u64, 0u64);
        }
        state.tid.store(0, Ordering::Release);
    }
}

/// The signal that preempts a carrier that runs user code.
pub const PREEMPT_SIGNAL: i32 = libc::SIGUSR2;

/// The signal of the carriers' timers.
pub fn timer_signal() -> i32 {
    libc::SIGRTMIN() + 2
}

/// Whether a signal takes user code off its carrier that has done nothing to cause it.
pub fn is_interrupt(signal: i32) -> bool {
    signal == PREEMPT_SIGNAL || signal == timer_signal()
}

fn info_line(index: usize) -> *mut CarrierLine {
    (INFO_BASE + index as u64 * size_of::<CarrierLine>() as u64) as *mut CarrierLine
}

/// The set of the preemption signal and the timer's.
pub fn interrupts() -> libc::sigset_t {
    // SAFETY: a set of no signals is all zeros; then valid signals are added.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigaddset(&mut set, PREEMPT_SIGNAL);
        libc::sigaddset(&mut set, timer_signal());
        set
    }
}

/// The stack of carrier `index` for signal handlers. The kernel switches it off whenever a handler is entered. While it is on,
/// the kernel would take a stack pointer of user code in that range for the handler's, and write a frame wherever it points.
fn signal_stack(index: usize) -> libc::stack_t {
    /// From `linux/signal.h`; Linux 4.7 or newer.
    const SS_AUTODISARM: i32 = 1 << 31;
    let block = CARRIER_BASE + index as u64 * CARRIER_SIZE;
    libc::stack_t {
        ss_sp: (block + PAGE) as *mut _,
        ss_flags: if fault_injection::disabled(Mitigation::SignalStack) { 0 } else { SS_AUTODISARM },
        ss_size: (CARRIER_SIZE - 2 * PAGE) as usize,
    }
}

/// Whether the instance with this flag is bound to carrier `index`.
pub fn runs(index: usize, stop: &AtomicBool) -> bool {
    std::ptr::eq(CARRIERS[index].stop.load(Ordering::Acquire), stop)
}

/// Carrier `index` begins to serve this hostcall.
#[inline]
pub fn note_call(index: usize, number: u64) {
    if let Some(state) = CARRIERS.get(index) {
        state.call.store(number, Ordering::Relaxed);
    }
}

/// The hostcall that carrier `index` serves; `None` if it runs user code. It may have changed when this returns.
pub fn call_under_way(index: usize) -> Option<u64> {
    // SAFETY: a carrier's line lies on the info page, which is there as long as there is a domain.
    let selector = unsafe { (&raw const (*info_line(index)).selector).read_volatile() };
    (selector == SELECTOR_ALLOW).then(|| CARRIERS[index].call.load(Ordering::Relaxed))
}

/// Makes the first carrier preemptible: to be called before another thread is started. All other carriers are preemptible
/// from the start.
///
/// The system call that signals a thread can signal other processes too, so the sandbox denies it. A timer that belongs to
/// the carrier sends the signal; to preempt is to set that timer.
pub fn allow_preempting_first() -> Result<(), CarrierError> {
    let state = &CARRIERS[0];
    if state.preempt_timer.load(Ordering::Acquire) < 0 {
        let timer = new_timer(state.tid.load(Ordering::Acquire), PREEMPT_SIGNAL)?;
        if state.preempt_timer.compare_exchange(-1, timer, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was faster.
            // SAFETY: the timer has just been made here, and nothing else knows of it.
            unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
        }
    }
    Ok(())
}

/// Preempts carrier `index`. Called under the scheduler's lock, while the instance that is to stop is bound to it.
pub fn preempt(index: usize) {
    let state = &CARRIERS[index];
    if state.tid.load(Ordering::Acquire) != 0 && !state.preempt_sent.swap(true, Ordering::AcqRel) {
        // The thread is alive: it unbinds the instance under the same lock, and detaches later.
        let sent = match state.preempt_timer.load(Ordering::Acquire) {
            // No such timer, perhaps for lack of resources: its own serves. It is set again before the carrier runs another
            // instance.
            ..0 => {
                state.timer_set.store(true, Ordering::Release);
                set(state.timer.load(Ordering::Acquire), 1)
            }
            preempt_timer => set(preempt_timer, 1),
        };
        if sent.is_err() {
            // The signal does not come; the next call tries again.
            state.preempt_sent.store(false, Ordering::Release);
        }
    }
}

/// Carrier `index` is about to check whether its instance has to stop: a signal after this is a new one.
pub fn clear_attention(index: usize) {
    if let Some(state) = CARRIERS.get(index) {
        state.attention.store(false, Ordering::Relaxed);
    }
}

/// Whether a signal has asked for the end of what carrier `index` runs, so that a long operation must stop half-way. Always
/// false for threads that are not carriers.
pub fn is_interrupted(index: usize) -> bool {
    let Some(state) = CARRIERS.get(index).filter(|state| state.attention.load(Ordering::Relaxed)) else { return false };
    // SAFETY: as in `on_preempt_signal`.
    let stop = unsafe { state.stop.load(Ordering::Acquire).as_ref() };
    stop.is_some_and(|stop| stop.load(Ordering::Acquire) || monotonic_ns() >= state.deadline.load(Ordering::Relaxed))
}

/// The handler's side of [`PREEMPT_SIGNAL`] and of the timer on carrier `index`. Only atomics and system calls.
pub fn on_preempt_signal(index: usize, signal: i32, in_user: bool) {
    // The timekeeper has a block and is not a carrier. Its signals come from other processes.
    let Some(state) = CARRIERS.get(index) else { return };
    if signal != PREEMPT_SIGNAL {
        // It is disarmed now; `armed` of the carrier is out of date.
        state.timer_set.store(true, Ordering::Relaxed);
    }
    if in_user {
        return;
    }
    // Trusted code was interrupted. The run loop checks this before it enters user code...
    state.attention.store(true, Ordering::Relaxed);
    // ...but may just have done so: come again, soon if the bound instance has to stop. The signal may have been meant for an
    // earlier one.
    // SAFETY: the flag is that of an instance that is bound to this very thread, which unbinds it under the scheduler's lock;
    // an instance is reclaimed only under that lock, when it is bound to no carrier.
    let Some(stop) = (unsafe { state.stop.load(Ordering::Acquire).as_ref() }) else { return };
    let (now, deadline) = (monotonic_ns(), state.deadline.load(Ordering::Relaxed));
    let again = match state.slice.load(Ordering::Relaxed) {
        _ if stop.load(Ordering::Acquire) || now >= deadline => now + RETRY_NS,
        NEVER => return,
        slice => deadline.min(now.saturating_add(slice)),
    };
    state.timer_set.store(true, Ordering::Relaxed);
    let _ = set_timer(state, again);
}

/// Monotonic time in ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Reads a clock in ns.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; both clocks in use always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time-stamp counter: cheap enough for every switch.
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn set_timer(state: &CarrierState, at: u64) -> Result<(), CarrierError> {
    set(state.timer.load(Ordering::Acquire), at)
}

fn set(timer: i32, at: u64) -> Result<(), CarrierError> {
    // A deadline that has passed must fire, and zero would switch the timer off.
    let at = if at == NEVER { 0 } else { at.max(1) };
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    let setting = libc::itimerspec { it_interval: zero, it_value: value };
    // SAFETY: the timer is this process's; the old setting is not asked for.
    let status = unsafe {
        libc::syscall(libc::SYS_timer_settime, timer, libc::TIMER_ABSTIME, &setting, std::ptr::null_mut::<u8>())
    };
    checked("timer_settime", status)
}

/// A timer that sends this signal to a thread of this process.
fn new_timer(tid: i32, signal: i32) -> Result<i32, CarrierError> {
    // SAFETY: plain data.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_notify_thread_id = tid;
    let mut timer = 0i32;
    // SAFETY: both pointers are to locals; the kernel writes a 32-bit id.
    let status =
        unsafe { libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    checked("timer_create", status)?;
    Ok(timer)
}

/// The kernel writes a thread's rseq area when it preempts it; with protection keys that write would be refused while
/// user code runs, and the process killed. Nothing here uses restartable sequences.
fn unregister_rseq() -> Result<(), CarrierError> {
    unsafe extern "C" {
        static __rseq_offset: isize;
        static __rseq_size: u32;
    }
    // SAFETY: constants that glibc 2.35 and newer exports.
    let (offset, size) = unsafe { (__rseq_offset, __rseq_size) };
    let area = thread_pointer().wrapping_add_signed(offset as i64);
    // The second 32 bits are the processor's number while registered, negative otherwise. glibc does not register a thread
    // whose creator is not registered.
    // SAFETY: every thread has the area, at this offset.
    if size == 0 || unsafe { (area as *const i32).add(1).read_volatile() } < 0 {
        return Ok(());
    }
    // The registered length: 32 on every glibc so far, whatever part of it (`__rseq_size`) is in use.
    // SAFETY: unregisters the area that glibc registered for this thread; glibc then falls back to system calls.
    let status = unsafe { libc::syscall(libc::SYS_rseq, area, size.max(32), RSEQ_FLAG_UNREGISTER, RSEQ_SIGNATURE) };
    checked("unregistering rseq", status)
}

/// Queries the processor's features now; processes forked later inherit the answers. On a virtual machine each CPUID traps to
/// the hypervisor and takes as long as starting a workflow.
pub(super) fn detect_processor() {
    vector_state();
    clear_x87();
    xsave_layout();
}

/// Where the kernel's signal frames have which registers.
fn xsave_layout() -> &'static XsaveLayout {
    static LAYOUT: OnceLock<XsaveLayout> = OnceLock::new();
    LAYOUT.get_or_init(XsaveLayout::detect)
}

/// Whether interrupted user code can be given back all its registers: mask registers are loaded whole.
fn puts_back_all_registers() -> bool {
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

fn checked(what: &'static str, status: i64) -> Result<(), CarrierError> {
    if status < 0 {
        return Err(CarrierError::Host { what, source: std::io::Error::last_os_error() });
    }
    Ok(())
}
