//! Carriers: the host threads that user threads run on. An instance is bound to a carrier while its code runs there.

use crate::address_space::{Access, AddressSpace, AddressSpaceError};
use crate::fault_injection::{self, Mitigation};
use crate::host_time::monotonic_ns;
use crate::keys::Key;
use crate::preemption::{CARRIERS, PREEMPT_SIGNAL, interrupts, new_timer, set, set_timer, timer_signal};
use crate::processor::{puts_back_all_registers, vector_state, xsave_layout};
use crate::thread_setup::{CarrierError, ThreadSetup, checked, info_line, signal_stack};
use monohull_abi::layout::PAGE;
use monohull_abi::module::Call;
use monohull_abi::module::NEVER;
use monohull_sys::signals;
use monohull_trampoline::system::interrupted::{CONTEXT_REGISTERS, Place, UnknownRegisters, place};
use monohull_trampoline::system::{CarrierContext, FaultInfo, Registers, clear_x87, frame_page};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
const PR_SYS_DISPATCH_OFF: u64 = 0;
const PR_SYS_DISPATCH_ON: u64 = 1;

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
        if self.has_handled_signals() {
            self.plant_signal()?;
            if !fault_injection::disabled(Mitigation::ResetSignals) {
                self.forget_signals(space)?;
            }
        }
        if !fault_injection::disabled(Mitigation::ResetContext) {
            self.setup.write_first_state(space);
            state.clear();
        }
        state.tid.store(self.tid, Ordering::Release);
        (self.slice, self.fruitless, self.key, self.frames) = (NEVER, 0, None, 0);
        Ok(())
    }

    /// Whether a handler has run on the signal stack since the stack was empty. The kernel's frame begins at the top, where it is never
    /// all zero: it holds registers, and how long it is.
    pub(super) fn has_handled_signals(&self) -> bool {
        let stack = signal_stack(self.index);
        let top = stack.ss_sp as u64 + stack.ss_size as u64;
        // SAFETY: the stack's highest page, which trusted code may read as long as there is a carrier. No handler runs.
        let words = unsafe { std::slice::from_raw_parts((top - PAGE) as *const u64, PAGE as usize / 8) };
        words.iter().any(|word| *word != 0)
    }

    /// Undoes what signals have left: what was blocked when a handler ended without `sigreturn`, a stack that the kernel has switched
    /// off, and registers of user code that was interrupted. The timers are quiet.
    fn forget_signals(&self, space: &AddressSpace) -> Result<(), CarrierError> {
        // A signal that was blocked arrives now.
        signals::unblock_all().map_err(|source| CarrierError::Host { what: "unblocking signals", source })?;
        let stack = signal_stack(self.index);
        // SAFETY: the stack is this carrier's, and no handler runs on it.
        checked("the alternate signal stack", unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }.into())?;
        let start = stack.ss_sp as u64;
        Ok(space.discard(start..start + stack.ss_size as u64)?)
    }

    /// Leaves a signal blocked and pending, as one that comes when a handler has ended without `sigreturn`: only in the program in which mitigations
    /// can be switched off, so that there is something to find.
    fn plant_signal(&self) -> Result<(), CarrierError> {
        /// A timer that is due goes off within this.
        const SOON: u64 = 20_000_000;
        if !fault_injection::is_unhardened() {
            return Ok(());
        }
        signals::block(timer_signal()).map_err(|source| CarrierError::Host { what: "blocking a signal", source })?;
        set_timer(&CARRIERS[self.index], 1)?;
        let until = monotonic_ns() + SOON;
        while monotonic_ns() < until {}
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

    /// A signal handler has taken user code off this carrier and ended without `sigreturn`: unblocks preemption and timer, which the kernel
    /// blocked for the handler. Before that `read` is called: the kernel's frame is still on the stack then. It is not called if a function has
    /// jumped to the entry point of signal handlers: what is on the stack then is its own choice.
    pub fn after_signal<T>(&self, fault: &FaultInfo, read: impl FnOnce(&Carrier) -> T) -> Option<T> {
        let result = fault.is_delivered().then(|| read(self));
        // SAFETY: both signals were unblocked before.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &interrupts(), std::ptr::null_mut()) };
        result
    }

    /// The registers of user code that `fault` has interrupted, from the kernel's frame. For [`Self::after_signal`].
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

    /// Whether a signal has interrupted trusted code of this carrier since [`clear_attention`](crate::preemption::clear_attention).
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
        state.clear();
    }
}
