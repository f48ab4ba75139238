//! What a confined program cannot do. Each attempt is made by this program, started anew: confined, where the kernel must stop it, and not
//! confined, where it must succeed.

use libtest_mimic::{Arguments, Trial};
use monohull_sandbox::computing::{Limits, confine};
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio, exit};
use std::{env, io, process, thread};

const LIMITS: Limits = Limits { memory: 256 << 20, seconds: 1, output: 1 << 20 };
/// The exit code of an attempt that an error has stopped.
const REFUSED: i32 = 9;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, mode, attempt, detail] = &*arguments
        && mode.starts_with("--as-")
    {
        let confined = mode == "--as-confined";
        return run(attempt, detail, confined);
    }
    let trials = TESTS.iter().map(|(name, test)| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

const TESTS: [(&str, fn()); 5] = [
    ("no_other_system_call_is_left", no_other_system_call_is_left),
    ("the_limits_are_in_force", the_limits_are_in_force),
    ("it_ends_with_its_parent", it_ends_with_its_parent),
    ("an_orphan_does_not_begin", an_orphan_does_not_begin),
    ("its_own_end_is_its_own", its_own_end_is_its_own),
];

/// Attempts that end at the list of system calls.
const CALLS: [&str; 13] = [
    "open",
    "create",
    "socket",
    "connect",
    "program",
    "thread",
    "code",
    "to-code",
    "input",
    "other-file",
    "signal",
    "trace",
    "limit",
];

fn no_other_system_call_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    for attempt in CALLS {
        let status = attempted(attempt, &address, true);
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{attempt}, confined: {status}");
        let status = attempted(attempt, &address, false);
        assert!(status.success(), "{attempt}, not confined: {status}");
    }
}

fn the_limits_are_in_force() {
    for (attempt, code, signal) in [
        ("memory", Some(REFUSED), None),
        ("time", None, Some(libc::SIGXCPU)),
        ("deaf-time", None, Some(libc::SIGKILL)),
        ("output", None, Some(libc::SIGXFSZ)),
        ("nothing", Some(0), None),
    ] {
        let status = attempted(attempt, "", true);
        assert_eq!((status.code(), status.signal()), (code, signal), "{attempt}, confined: {status}");
        let status = attempted(attempt, "", false);
        assert!(status.success(), "{attempt}, not confined: {status}");
    }
}

fn it_ends_with_its_parent() {
    // The parent starts a confined program that would go on, and ends. Both have the same pipe: it has an end when both are gone.
    let mut parent = start("parent", "for-ever", false);
    let mut ended = parent.stdout.take().expect("piped");
    let mut first = [0; 1];
    ended.read_exact(&mut first).expect("the child says that it is confined");
    parent.kill().expect("killed");
    parent.wait().expect("waited for");
    let mut rest = Vec::new();
    ended.read_to_end(&mut rest).expect("the pipe ends");
    assert_eq!(rest, b"");
}

fn an_orphan_does_not_begin() {
    assert_eq!(attempted("orphan", "", true).code(), Some(REFUSED));
}

fn its_own_end_is_its_own() {
    assert_eq!(attempted("abort", "", true).signal(), Some(libc::SIGABRT));
    let status = attempted("overflow", "", true);
    assert_eq!(
        status.signal(),
        Some(libc::SIGABRT),
        "std's handler says what happened, and ends the process: {status}"
    );
}

fn start(attempt: &str, detail: &str, confined: bool) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args([if confined { "--as-confined" } else { "--as-free" }, attempt, detail]);
    let output = match attempt {
        "output" => Stdio::from(tempfile::tempfile().expect("a file")),
        _ => Stdio::piped(),
    };
    command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null()).spawn().expect("it starts")
}

fn attempted(attempt: &str, detail: &str, confined: bool) -> ExitStatus {
    start(attempt, detail, confined).wait().expect("waited for")
}

// -- The program that makes the attempts ----------------------------------------------------------------------------------

fn run(attempt: &str, detail: &str, confined: bool) {
    if attempt == "parent" {
        let this = env::current_exe().expect("this program");
        let child = Command::new(this).args(["--as-confined", detail, ""]).stderr(Stdio::null()).spawn();
        child.expect("it starts").wait().expect("waited for");
        return;
    }
    let other = File::create("/dev/null").expect("there").as_raw_fd();
    // A descriptor that is not closed, so that it is one to be written to.
    let kept = File::create("/dev/null").expect("there");
    if confined {
        let parent = match attempt {
            // Its own number: it is not its own parent.
            "orphan" => process::id() as i32,
            _ => nix::unistd::getppid().as_raw(),
        };
        if confine(Some(parent), LIMITS).is_err() {
            exit(REFUSED);
        }
    }
    let result = attempt_to(attempt, detail, kept.as_raw_fd().max(other));
    // The descriptor is closed already where this is confined, and `close` would be an attempt of its own.
    std::mem::forget(kept);
    if result.is_err() {
        exit(REFUSED);
    }
}

fn attempt_to(what: &str, detail: &str, descriptor: i32) -> io::Result<()> {
    match what {
        "nothing" | "orphan" => io::stdout().write_all(b"done\n"),
        "open" => File::open("/proc/self/exe").map(drop),
        "create" => tempfile::tempfile().map(drop),
        "socket" => UnixDatagram::unbound().map(drop),
        "connect" => TcpStream::connect(detail).map(drop),
        "program" => Command::new("/proc/self/exe").args(["--as-free", "nothing", ""]).status().map(drop),
        "thread" => thread::Builder::new().spawn(|| ()).map(|thread| thread.join().expect("it ends")),
        "code" => map(libc::PROT_READ | libc::PROT_EXEC).map(drop),
        "to-code" => map(libc::PROT_READ | libc::PROT_WRITE).and_then(|address| {
            // SAFETY: mprotect(2): the page is this function's own and holds nothing.
            call(unsafe { libc::mprotect(address, 4096, libc::PROT_READ | libc::PROT_EXEC) })
        }),
        "input" => {
            // SAFETY: read(2): the buffer has the length that is given.
            call(unsafe { libc::read(0, [0u8; 8].as_mut_ptr().cast(), 8) } as i32)
        }
        "other-file" => {
            // SAFETY: write(2): the buffer has the length that is given.
            call(unsafe { libc::write(descriptor, [0u8; 8].as_ptr().cast(), 8) } as i32)
        }
        // SAFETY: kill(2): takes numbers; signal 0 only asks whether there is such a process.
        "signal" => call(unsafe { libc::kill(libc::getppid(), 0) }),
        // SAFETY: ptrace(2): this request only lets the parent trace this process.
        "trace" => call(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } as i32),
        "limit" => {
            nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CPU, 1000, 1000).map_err(Into::into)
        }
        "memory" => Vec::<u8>::new().try_reserve_exact(LIMITS.memory as usize).map_err(io::Error::other),
        "time" => {
            spin();
            Ok(())
        }
        "deaf-time" => {
            // SAFETY: signal(2): ignoring a signal runs no code of this process.
            unsafe { libc::signal(libc::SIGXCPU, libc::SIG_IGN) };
            spin();
            Ok(())
        }
        "for-ever" => {
            io::stdout().write_all(b".")?;
            io::stdout().flush()?;
            loop {
                black_box(0);
            }
        }
        "output" => {
            let page = [0; 4096];
            (0..2 * LIMITS.output / 4096).try_for_each(|_| io::stdout().write_all(&page))
        }
        "abort" => process::abort(),
        "overflow" => {
            black_box(overflow(0));
            Ok(())
        }
        other => panic!("there is no attempt {other}"),
    }
}

fn call(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn map(rights: i32) -> io::Result<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: mmap(2): a new mapping, which takes the place of none.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address) }
}

/// Takes more processor time than is allowed, by some seconds.
fn spin() {
    let time = || nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock").tv_sec();
    while time() < LIMITS.seconds as i64 + 2 {
        for _ in 0..1_000_000 {
            black_box(0);
        }
    }
}

#[expect(unconditional_recursion, reason = "until the stack has no more pages")]
fn overflow(depth: u64) -> u64 {
    black_box(overflow(black_box(depth + 1))) + 1
}
