//! Boots the guest, passes on what it says, and kills it.
//!
//! ```text
//! guest   ttyS0: the kernel's words   -> a file without a name, shown if the guest does not come to its end
//!         ttyS1: the job's words      -> QEMU's standard output -> line by line to the caller
//! ```
//!
//! How QEMU ends says nothing about the job: the job's last word counts, and without one it has failed.

use super::Kernel;
use super::fetch::Cache;
use crate::Result;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What lines for the host begin with; `init.sh` has the same.
const MARK: &str = "@monohull-vm ";
/// How long a guest may take to print its first line; seconds are usual.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// The kernel's command line: its console, to panic at any fault of its own and to reboot at once then (which ends QEMU),
/// and to expect neither faults of this processor nor exact timers.
const KERNEL_OPTIONS: &str = "console=ttyS0 quiet oops=panic panic=-1 mitigations=off no_timer_check";
/// Programs lie at the same addresses in each process. Code that this processor has translated it uses again at the same address only,
/// so that a process starts in a third of the time.
const FIXED_ADDRESSES: &str = "norandmaps";
/// The prefix of a kernel's panic message, before the reason.
const PANIC: &str = "Kernel panic - not syncing: ";

/// All that QEMU's processor can do, without two things that cost its emulation much and that nothing here needs: a fifth
/// level of page tables, and the promise that string instructions are fast, by which the kernel and libc copy and
/// clear memory in what are loops byte by byte here. Together a sixth of the processor time.
const PROCESSOR: &str = "max,-la57,-erms,-fsrm";

/// A guest to be booted.
pub(super) struct Machine<'c> {
    pub(super) cache: &'c Cache,
    pub(super) kernel: Kernel,
    /// Memory in MiB. The guest's files lie in it too.
    pub(super) memory: u32,
    /// How long the job may take.
    pub(super) limit: Duration,
    /// Whether addresses of processes are random, as usual.
    pub(super) random_addresses: bool,
}

/// How a boot ended. Errors contain the whole console output.
pub(super) enum Ended {
    /// The job did, with this exit status.
    Job(u8),
    /// The guest printed nothing.
    Silent(String),
    /// The guest's own kernel panicked after its first line.
    Panicked(String),
    /// It went wrong otherwise after its first line.
    Early(String),
}

impl Machine<'_> {
    /// Runs `/job` of these files, passes each line to `on_line`, and returns its exit status. A guest that prints nothing
    /// at all is started once more.
    pub(super) fn run(&self, files: &File, on_line: &mut dyn FnMut(&str)) -> Result<u8> {
        let mut retried = false;
        loop {
            match self.boot(files, 0, on_line)? {
                Ended::Job(status) => return Ok(status),
                Ended::Silent(why) if !retried => eprintln!("xtask: {why}\nThe machine is started once more."),
                Ended::Silent(why) | Ended::Panicked(why) | Ended::Early(why) => return Err(why),
            }
            retried = true;
        }
    }

    /// The same, once, and it returns how that ended. The job gets `from` as its argument.
    pub(super) fn boot(&self, files: &File, from: usize, on_line: &mut dyn FnMut(&str)) -> Result<Ended> {
        let fail = |what: &str, error: std::io::Error| format!("{what} of the virtual machine: {error}");
        let mut console = nameless(self.cache).map_err(|error| fail("the console", error))?;
        let clone = |file: &File| file.try_clone().map_err(|error| fail("a file", error));
        let mut command = self.command(from);
        command.stdin(clone(files)?).stdout(Stdio::piped()).stderr(clone(&console)?);
        let mut qemu = Running(command.spawn().map_err(|error| format!("cannot start setpriv for QEMU: {error}"))?);
        let lines = lines(qemu.0.stdout.take().expect("piped"));
        let ended = listen(&lines, self.limit, on_line);
        drop(qemu);
        let mut output = Vec::new();
        let read = console.rewind().and_then(|()| console.read_to_end(&mut output));
        let output = read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&output).into_owned());
        let about = |why: &str| {
            format!("the virtual machine with Linux {}: {why}\nIts console:\n{output}", self.kernel.version())
        };
        Ok(match ended {
            Ended::Silent(why) => Ended::Silent(about(&why)),
            Ended::Early(why) => match panic_of(&output) {
                Some(reason) => Ended::Panicked(about(&format!("its kernel panicked: {reason}"))),
                None => Ended::Early(about(&why)),
            },
            other => other,
        })
    }

    /// QEMU. The files come as its standard input and the console goes to its standard error, because neither has a
    /// name.
    fn command(&self, from: usize) -> Command {
        let mut command = self.cache.qemu();
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-smp", "2"]);
        command.arg("-m").arg(self.memory.to_string());
        command.arg("-kernel").arg(self.cache.kernel(self.kernel));
        let addresses = if self.random_addresses { "" } else { FIXED_ADDRESSES };
        // What follows the dashes is for the first process.
        command.args(["-initrd", "/dev/stdin", "-append", &format!("{KERNEL_OPTIONS} {addresses} -- {from}")]);
        command.args(["-chardev", "file,id=console,path=/dev/stderr,append=on", "-serial", "chardev:console"]);
        command.args(["-chardev", "file,id=job,path=/dev/stdout,append=on", "-serial", "chardev:job"]);
        command
    }
}

/// QEMU while it runs; it is killed in any case.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file without a name that is always written at its end.
fn nameless(cache: &Cache) -> std::io::Result<File> {
    let file = tempfile::Builder::new().append(true).tempfile_in(cache.folder())?;
    let (file, path) = file.into_parts();
    path.close()?;
    Ok(file)
}

/// The lines that come from the guest, read by a thread so that waiting for them can have a limit.
fn lines(from: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(std::io::Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Why the kernel panicked, if its console shows that.
fn panic_of(console: &str) -> Option<&str> {
    console.lines().find_map(|line| Some(line.split_once(PANIC)?.1.trim_end()))
}

/// Passes lines on until the job has ended.
fn listen(lines: &Receiver<String>, limit: Duration, on_line: &mut dyn FnMut(&str)) -> Ended {
    let mut up = false;
    let mut keys = false;
    let mut until = Instant::now() + BOOT_LIMIT;
    loop {
        let line = match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(cause) => {
                let when = if up { "the job's end" } else { "its first line" };
                let why = match cause {
                    RecvTimeoutError::Timeout => format!("out of time before {when}"),
                    RecvTimeoutError::Disconnected => format!("it ended before {when}"),
                };
                return if up { Ended::Early(why) } else { Ended::Silent(why) };
            }
        };
        // What is printed last may lack its newline.
        let Some((before, word)) = line.split_once(MARK) else {
            on_line(&line);
            continue;
        };
        if !before.is_empty() {
            on_line(before);
        }
        let _ = std::io::stdout().flush();
        match word.split_once(' ').unwrap_or((word, "")) {
            ("up", _) => (up, until) = (true, Instant::now() + limit),
            ("keys", _) => keys = true,
            ("ended", status) if keys => match status.parse() {
                Ok(status) => return Ended::Job(status),
                Err(_) => return Ended::Early(format!("the job ended with {status:?}")),
            },
            ("over", _) => return Ended::Early("protection keys are not in force".to_owned()),
            _ => on_line(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(words: &[&str]) -> (Ended, Vec<String>) {
        let (sender, receiver) = channel();
        words.iter().for_each(|word| sender.send((*word).to_owned()).expect("received below"));
        drop(sender);
        let mut on_line = Vec::new();
        (listen(&receiver, BOOT_LIMIT, &mut |line| on_line.push(line.to_owned())), on_line)
    }

    #[test]
    fn the_last_marker_counts() {
        let (end, on_line) = ended(&["@monohull-vm up", "@monohull-vm keys", "a", "b@monohull-vm ended 3"]);
        assert!(matches!(end, Ended::Job(3)));
        assert_eq!(on_line, ["a", "b"]);
    }

    #[test]
    fn without_one_it_has_failed() {
        assert!(matches!(ended(&[]).0, Ended::Silent(_)));
        assert!(matches!(ended(&["@monohull-vm up", "@monohull-vm keys", "a"]).0, Ended::Early(_)));
    }

    #[test]
    fn the_reason_of_a_panic_is_found() {
        let console = "[    4.1] int3: 0000 [#1] PREEMPT SMP NOPTI\r\n\
                       [    4.2] Kernel panic - not syncing: Fatal exception in interrupt\r\n\
                       [    4.3] Kernel Offset: disabled\r\n";
        assert_eq!(panic_of(console), Some("Fatal exception in interrupt"));
        assert_eq!(panic_of("[    0.1] a kernel that is in no panic\r\n"), None);
    }

    #[test]
    fn keys_must_have_been_proven() {
        assert!(matches!(ended(&["@monohull-vm up", "@monohull-vm ended 0", "@monohull-vm over"]).0, Ended::Early(_)));
    }
}
