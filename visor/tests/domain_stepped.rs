//! A function is interrupted at every single instruction: of its own code, of the way out, of the way in, and of the way back
//! from an interruption. Each time it goes on with the right registers, and each hostcall is made once.
//!
//! The domain is in a process of its own, this program started anew and traced by this one:
//!
//! ```text
//!   step to an instruction ── send it the signal of an interruption ──▶ run loop ──▶ entered again ─┐
//!     ▲                                                                                             ▼
//!     └──────── a step further ◀── a breakpoint at the same instruction, which comes when it really runs
//! ```

mod support;

use libtest_mimic::{Arguments, Trial};
use monohull_trampoline::system::Variant;
use monohull_trampoline::system::interrupted::{Place, entrance, place, ways_back};
use monohull_visor::domain::keys;
use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Silent, Status};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::json;
use std::collections::BTreeSet;
use std::mem::offset_of;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Says that this process is the one with the domain.
const CHILD: &str = "--with-a-domain";
/// How often the function makes its calls; more often than is stepped through.
const ROUNDS: u64 = 400;
/// So many instructions are interrupted. A hostcall with what is around it has some hundred.
const INTERRUPTED: usize = 4000;
/// On a slow machine fewer are, but enough to have seen each part of the way.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so many, each instruction of the way back from one is interrupted too.
const WAY_BACK_EVERY: usize = 600;
/// The signal by which carriers are interrupted.
const INTERRUPT: Signal = Signal::SIGUSR2;
/// Cells begin here.
const USER: std::ops::Range<u64> = monohull_abi::layout::CELLS_BASE..monohull_abi::layout::CELLS_END;

const TESTS: [(&str, fn()); 1] = [
    // The one that starts this program anew.
    ("a_function_can_be_interrupted_at_every_instruction", a_function_can_be_interrupted_at_every_instruction),
];

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == CHILD) {
        return with_a_domain();
    }
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), TESTS.iter().map(trial).collect()).exit_code()
}

/// The function checks its registers and the results of its calls.
fn with_a_domain() -> ExitCode {
    println!("{:#x}", entrance());
    let document = json!({
        "name": "stepped",
        "functions": { "preempted": { "image": "preempted" } },
        "steps": [{ "name": "calls", "function": "preempted", "args": { "how": "calls", "rounds": ROUNDS } }],
        "limits": { "carriers": 1, "timeout": "1h" },
    });
    let report = support::run_with(&document, &RunOptions::default(), Arc::new(Silent));
    match report.status {
        Status::Done => ExitCode::SUCCESS,
        _ => {
            eprintln!("{:#?}", report.error);
            ExitCode::FAILURE
        }
    }
}

fn a_function_can_be_interrupted_at_every_instruction() {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.arg(CHILD).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: one system call between fork and exec; it takes no lock and no memory.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().expect("a process");
    let traced = Traced { thread: Pid::from_raw(child.id() as i32) };
    assert!(
        matches!(waitpid(traced.thread, None), Ok(WaitStatus::Stopped(_, Signal::SIGTRAP))),
        "it stops at its start"
    );
    ptrace::setoptions(traced.thread, Options::PTRACE_O_EXITKILL).expect("options");
    // The program lies elsewhere in the other process, as far away for all of it.
    let offset = traced.offset();
    let entrance = entrance().wrapping_add(offset);
    let variant = if keys::by_default() { Variant::Keys } else { Variant::Plain };
    let place_of = |ip: u64| place(variant, 0, ip.wrapping_sub(offset));

    traced.run_to(&[entrance]).expect("it enters the function");
    let mut seen = BTreeSet::new();
    let (mut own, mut entering, mut leaving) = (0, 0, 0);
    let mut returns = 0;
    let stubs = ways_back().map(|stub| stub.wrapping_add(offset));
    let mut back_to = 0;
    let begin = Instant::now();
    for _ in 0..INTERRUPTED {
        let enough = own > 300 && entering > 60 && leaving > 15 && back_to > 40 && seen.len() > 250;
        if enough && begin.elapsed() > PATIENCE {
            break;
        }
        let ip = traced.step_or_run_to(entrance, &place_of);
        seen.insert(ip);
        let back = match place_of(ip) {
            // The call is made for it: it goes on behind, and comes back here with its next call.
            Place::Leaving { .. } => {
                leaving += 1;
                vec![ip, returns]
            }
            Place::Entering => {
                entering += 1;
                vec![ip]
            }
            Place::Elsewhere => {
                own += 1;
                if own % WAY_BACK_EVERY == 1 {
                    back_to += traced.interrupt_on_the_way_back(&stubs, ip);
                }
                returns = traced.next_of_call(ip).unwrap_or(returns);
                vec![ip]
            }
        };
        let stopped = traced.interrupt_and_run_to(&back).expect("it is entered again");
        if stopped != ip {
            traced.run_to(&[ip]).expect("it makes another call");
        }
    }
    let status = traced.run_to_its_end();
    let output = child.wait_with_output();
    let words = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default();
    assert_eq!(status, 0, "{words}");
    assert!(own > 300 && entering > 60 && leaving > 15 && back_to > 40, "{own} {entering} {leaving} {back_to}");
    assert!(seen.len() > 250, "{} instructions", seen.len());
}

/// The thread that is stepped through. It is stopped whenever it is looked at.
struct Traced {
    thread: Pid,
}

impl Traced {
    /// How far the program's code lies from where it lies in this process.
    fn offset(&self) -> u64 {
        let base = |process: &str| {
            let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("maps");
            let program = std::env::current_exe().expect("this program").display().to_string();
            let first = maps.lines().find(|line| line.ends_with(&program)).expect("the program is mapped");
            u64::from_str_radix(first.split('-').next().expect("an address"), 16).expect("an address")
        };
        base(&self.thread.to_string()).wrapping_sub(base("self"))
    }

    fn ip(&self) -> u64 {
        ptrace::getregs(self.thread).expect("it is stopped").rip
    }

    /// The address behind the instruction at `ip`, if that calls the gate.
    fn next_of_call(&self, ip: u64) -> Option<u64> {
        // call qword ptr gs:[0]
        const CALL: [u8; 8] = [0x65, 0xff, 0x14, 0x25, 0, 0, 0, 0];
        let word = ptrace::read(self.thread, ip as ptrace::AddressType).expect("its code");
        (word.to_ne_bytes() == CALL).then_some(ip + CALL.len() as u64)
    }

    /// Lets it go on, with a signal or none, until it is stopped by a breakpoint or a step. All other signals are dropped, so that it
    /// is interrupted by none but those sent here. `None` if it has ended.
    fn wait(&self, go_on: impl Fn(Option<Signal>), mut signal: Option<Signal>) -> Option<u64> {
        loop {
            go_on(signal.take());
            match waitpid(self.thread, None) {
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => return Some(self.ip()),
                Ok(WaitStatus::Stopped(..)) => {}
                // A signal that has no name: the carrier's timer.
                Err(Errno::EINVAL) => {}
                other => {
                    eprintln!("{other:?}");
                    return None;
                }
            }
        }
    }

    /// Breakpoints at up to two addresses.
    fn set_breakpoints(&self, addresses: &[u64]) {
        let register = |number: usize| offset_of!(libc::user, u_debugreg) + number * size_of::<u64>();
        let write = |number: usize, value: u64| {
            let register = register(number) as ptrace::AddressType;
            ptrace::write_user(self.thread, register, value as i64).expect("a debug register");
        };
        write(7, 0);
        for (number, address) in addresses.iter().enumerate() {
            write(number, *address);
        }
        let enabled = (0..addresses.len()).map(|number| 1 << (2 * number)).sum();
        write(7, enabled);
    }

    fn run_to(&self, addresses: &[u64]) -> Option<u64> {
        self.set_breakpoints(addresses);
        let at = self.wait(|signal| ptrace::cont(self.thread, signal).expect("it goes on"), None);
        self.set_breakpoints(&[]);
        at
    }

    /// A step further. If that leads into trusted code, to the next entry.
    fn step_or_run_to(&self, entrance: u64, place_of: &impl Fn(u64) -> Place) -> u64 {
        let ip = self.wait(|signal| ptrace::step(self.thread, signal).expect("it goes on"), None);
        let ip = ip.expect("it has not ended");
        match place_of(ip) == Place::Elsewhere && !USER.contains(&ip) {
            true => self.run_to(&[entrance]).expect("it is entered again"),
            false => ip,
        }
    }

    /// Sends it an interruption where it is.
    fn interrupt_and_run_to(&self, addresses: &[u64]) -> Option<u64> {
        self.set_breakpoints(addresses);
        let at = self.wait(|signal| ptrace::cont(self.thread, signal).expect("it goes on"), Some(INTERRUPT));
        self.set_breakpoints(&[]);
        at
    }

    /// Interrupts it where it is, and then at each instruction of the way back to there. How many those were.
    fn interrupt_on_the_way_back(&self, stubs: &[u64], ip: u64) -> usize {
        let mut at = self.interrupt_and_run_to(stubs).expect("it is entered again");
        for number in 0.. {
            if at == ip {
                return number;
            }
            assert!(!USER.contains(&at), "it goes on at {at:#x} instead of {ip:#x}");
            let again = self.interrupt_and_run_to(&[at]).expect("it is entered again");
            assert_eq!(again, at);
            at = self.wait(|signal| ptrace::step(self.thread, signal).expect("it goes on"), None).expect("it goes on");
        }
        unreachable!("it comes back")
    }

    fn run_to_its_end(&self) -> i32 {
        loop {
            ptrace::cont(self.thread, None).expect("it goes on");
            match waitpid(self.thread, None) {
                Ok(WaitStatus::Exited(_, status)) => return status,
                Ok(WaitStatus::Stopped(..)) | Err(Errno::EINVAL) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
