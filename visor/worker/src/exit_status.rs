//! How the process of a workflow ended, and the failure that this is.

use monohull_report::Failure;
use monohull_report::failure::{Blame, FailureKind};
use nix::sys::signal::Signal;

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// It, or its spawner, has ended without an exit status.
    Unknown,
    /// The OOM killer has killed it: it was over the limit of its control group, which is so many bytes; or the host had no
    /// memory left.
    OutOfMemory(Option<u64>),
    /// It was killed because it violated the protocol.
    ProtocolViolation(String),
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// How it ended.
    pub cause: Cause,
    /// Whether it had sent its answer before.
    pub answered: bool,
    /// Who is at fault, unless it had answered.
    pub blame: Blame,
    /// The same as text.
    pub message: String,
    /// The beginning of its standard error: messages of trusted code only.
    pub stderr: String,
}

/// Exit statuses of a worker.
pub(super) mod status {
    /// It has answered.
    pub(crate) const DONE: i32 = 0;
    /// The other end of its channel was closed before there was a job.
    pub(crate) const NOT_NEEDED: i32 = 80;
    /// It could not be set up, and has sent the reason.
    pub(crate) const REFUSED: i32 = 81;
    /// The job could not be done; the reason is on its standard error.
    pub(crate) const FAILED: i32 = 82;
    /// Memory of its checkpoint could not be read; the reason is on its standard error, unless the checkpoint is damaged.
    pub(crate) const UNREAD: i32 = 83;
    /// The host had nothing left for the job or for its answer; the reason is on its standard error.
    pub(crate) const SHORTAGE: i32 = 84;
    /// Trusted code panicked.
    pub(crate) const PANICKED: i32 = 101;
}

impl Death {
    pub(super) fn new(cause: Cause, answered: bool, keys_silent: bool, stderr: String) -> Death {
        let (blame, message) = match &cause {
            Cause::Exited(status::DONE) if answered => (Blame::Monohull, "ended after its answer".to_owned()),
            Cause::Exited(status::PANICKED) => (Blame::Monohull, "trusted code panicked".to_owned()),
            Cause::Exited(status::UNREAD) => {
                (Blame::Host, "ended because memory of its checkpoint could not be read".to_owned())
            }
            Cause::Exited(status::SHORTAGE) => {
                (Blame::Host, "ended because the host had no memory or no descriptor for a message".to_owned())
            }
            Cause::Exited(code) => (Blame::Monohull, format!("exited with status {code}, without an answer")),
            Cause::Signaled(signal) => of_signal(*signal, keys_silent, !stderr.is_empty()),
            Cause::Unknown => (Blame::Host, "ended, and its exit status is unknown".to_owned()),
            Cause::OutOfMemory(Some(bytes)) => {
                let text = format!(
                    "was ended by the kernel: it used more than the {bytes} bytes of memory that all its \
                                    functions together may, and what it costs to run them"
                );
                (Blame::Function, text)
            }
            Cause::OutOfMemory(None) => {
                (Blame::Host, "was ended by the kernel, because the host had no memory left".to_owned())
            }
            Cause::ProtocolViolation(how) => {
                let text = format!("was ended because it broke the protocol between Monohull's processes: {how}");
                (Blame::Monohull, text)
            }
        };
        Death { cause, answered, blame, message, stderr }
    }

    /// As the failure of the workflow it ran.
    pub fn failure(&self) -> Failure {
        let mut text = format!("the process of the workflow {}", self.message);
        for line in self.stderr.lines() {
            text.push_str("\n  standard error: ");
            text.push_str(line);
        }
        let kind = match self.cause {
            Cause::OutOfMemory(Some(_)) => FailureKind::MemoryLimit,
            _ => FailureKind::Process,
        };
        Failure::blamed(kind, self.blame, text)
    }
}

/// What a signal means. Trusted code that faults writes to standard error before it ends.
fn of_signal(signal: i32, keys_silent: bool, has_stderr: bool) -> (Blame, String) {
    let name = Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string());
    match signal {
        libc::SIGSYS => {
            let text = "was ended by the kernel for a system call outside its list: functions make none, so trusted \
                        code made one that is not listed, by mistake, by `abort`, or under an attacker's control";
            (Blame::Monohull, text.to_owned())
        }
        libc::SIGKILL => {
            let text = "was killed (SIGKILL), by another process or by the kernel's OOM killer";
            (Blame::Host, text.to_owned())
        }
        libc::SIGABRT => (Blame::Monohull, format!("was ended by {name}: trusted code aborted")),
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP if has_stderr => {
            (Blame::Monohull, format!("was ended by {name} in trusted code"))
        }
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP => {
            let why = match keys_silent {
                true => "this kernel reports no more while protection keys are in force (Linux 6.12 does)",
                false => "a function has destroyed what a report needs",
            };
            (Blame::Function, format!("was ended by {name}: {why}"))
        }
        _ => (Blame::Host, format!("was ended by {name} from another process")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(cause: Cause, keys_silent: bool, stderr: &str) -> (Blame, String) {
        let failure = Death::new(cause, false, keys_silent, stderr.to_owned()).failure();
        (failure.blame, failure.message)
    }

    /// Such a kernel reports no fault, and the message has that as the reason.
    #[test]
    fn a_kernel_that_reports_no_faults_with_keys_is_named() {
        let (blame, message) = failure(Cause::Signaled(libc::SIGSEGV), true, "");
        assert_eq!(blame, Blame::Function);
        assert!(message.contains("SIGSEGV") && message.contains("Linux 6.12 does"), "{message}");
        let (blame, message) = failure(Cause::Signaled(libc::SIGILL), false, "");
        assert_eq!(blame, Blame::Function);
        assert!(message.contains("SIGILL") && message.contains("has destroyed what a report needs"), "{message}");
        // Trusted code that faults reports it.
        let (blame, message) = failure(Cause::Signaled(libc::SIGSEGV), true, "fault in trusted code");
        assert_eq!(blame, Blame::Monohull);
        assert!(message.contains("in trusted code\n  standard error: fault in trusted code"), "{message}");
    }

    #[test]
    fn the_message_names_the_cause() {
        for (cause, blame, text) in [
            (Cause::Signaled(libc::SIGKILL), Blame::Host, "SIGKILL"),
            (Cause::Signaled(libc::SIGTERM), Blame::Host, "SIGTERM from another process"),
            (Cause::Signaled(libc::SIGSYS), Blame::Monohull, "outside its list"),
            (Cause::Signaled(libc::SIGABRT), Blame::Monohull, "aborted"),
            (Cause::Exited(0), Blame::Monohull, "status 0, without an answer"),
            (Cause::Exited(status::FAILED), Blame::Monohull, "status 82, without an answer"),
            (Cause::Exited(status::SHORTAGE), Blame::Host, "no memory or no descriptor"),
            (Cause::OutOfMemory(Some(4096)), Blame::Function, "more than the 4096 bytes"),
            (Cause::OutOfMemory(None), Blame::Host, "no memory left"),
            (Cause::Unknown, Blame::Host, "status is unknown"),
        ] {
            let (to, message) = failure(cause.clone(), false, "");
            assert_eq!(to, blame, "{cause:?}");
            assert!(message.contains(text), "{cause:?}: {message}");
        }
    }
}
