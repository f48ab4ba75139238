//! How the process of a workflow ended, and what that means to people.

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
    /// It, or the spawner above it, is gone, and nobody could tell how.
    Unknown,
    /// By the kernel, for want of memory: it was over the limit of its control group, which is so many bytes; or the host
    /// had none left.
    OutOfMemory(Option<u64>),
    /// It was ended because it did not keep to the protocol.
    ProtocolViolation(String),
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// How it ended.
    pub cause: Cause,
    /// Whether it had given its answer before.
    pub answered: bool,
    /// Whose fault it is, unless it had answered.
    pub blame: Blame,
    /// The same in words.
    pub message: String,
    /// What it wrote to its standard error: messages of trusted code only.
    pub stderr: String,
}

/// Exit statuses of a worker.
pub(super) mod status {
    /// It has answered.
    pub(crate) const DONE: i32 = 0;
    /// Its other end was closed before there was a job.
    pub(crate) const NOT_NEEDED: i32 = 80;
    /// It could not be prepared, and has said why.
    pub(crate) const REFUSED: i32 = 81;
    /// The job could not be done, and it has said why in its last words.
    pub(crate) const FAILED: i32 = 82;
    /// Trusted code panicked.
    pub(crate) const PANICKED: i32 = 101;
}

impl Death {
    pub(super) fn new(cause: Cause, answered: bool, keys_silent: bool, stderr: String) -> Death {
        let (blame, message) = match &cause {
            Cause::Exited(status::DONE) if answered => (Blame::Monohull, "ended after its answer".to_owned()),
            Cause::Exited(status::PANICKED) => (Blame::Monohull, "trusted code panicked".to_owned()),
            Cause::Exited(code) => (Blame::Monohull, format!("ended by itself with status {code}, without an answer")),
            Cause::Signaled(signal) => of_signal(*signal, keys_silent, !stderr.is_empty()),
            Cause::Unknown => (Blame::Host, "ended, and nobody could tell how".to_owned()),
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
            text.push_str("\n  its last words: ");
            text.push_str(line);
        }
        let kind = match self.cause {
            Cause::OutOfMemory(Some(_)) => FailureKind::MemoryLimit,
            _ => FailureKind::Process,
        };
        Failure::blamed(kind, self.blame, text)
    }
}

/// What a signal means. Trusted code that faults leaves words before it ends.
fn of_signal(signal: i32, keys_silent: bool, has_words: bool) -> (Blame, String) {
    let name = Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string());
    match signal {
        libc::SIGSYS => {
            let text = "was ended by the kernel for a system call outside its list: functions make none, so trusted \
                        code made one it should not need, gave up (`abort`), or was made to";
            (Blame::Monohull, text.to_owned())
        }
        libc::SIGKILL => {
            let text = "was killed (SIGKILL): by somebody, or by the kernel for want of memory";
            (Blame::Host, text.to_owned())
        }
        libc::SIGABRT => (Blame::Monohull, format!("was ended by {name}: trusted code gave up")),
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP if has_words => {
            (Blame::Monohull, format!("was ended by {name} in trusted code"))
        }
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP => {
            let why = match keys_silent {
                true => "this kernel cannot tell more while protection keys are in force (Linux 6.12 can)",
                false => "a function has taken away what is needed to tell more",
            };
            (Blame::Function, format!("was ended by {name}: {why}"))
        }
        _ => (Blame::Host, format!("was ended by {name}, which somebody sent")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(cause: Cause, keys_silent: bool, words: &str) -> (Blame, String) {
        let failure = Death::new(cause, false, keys_silent, words.to_owned()).failure();
        (failure.blame, failure.message)
    }

    /// On such a kernel no fault can be told of, so the caller is told that.
    #[test]
    fn a_kernel_that_cannot_tell_of_faults_with_keys_is_named() {
        let (blame, message) = told(Cause::Signaled(libc::SIGSEGV), true, "");
        assert_eq!(blame, Blame::Function);
        assert!(message.contains("SIGSEGV") && message.contains("Linux 6.12 can"), "{message}");
        let (blame, message) = told(Cause::Signaled(libc::SIGILL), false, "");
        assert_eq!(blame, Blame::Function);
        assert!(message.contains("SIGILL") && message.contains("has taken away what is needed"), "{message}");
        // Trusted code that faults has said so.
        let (blame, message) = told(Cause::Signaled(libc::SIGSEGV), true, "fault in trusted code");
        assert_eq!(blame, Blame::Monohull);
        assert!(message.contains("in trusted code\n  its last words: fault in trusted code"), "{message}");
    }

    #[test]
    fn who_ended_it_is_told() {
        for (cause, blame, words) in [
            (Cause::Signaled(libc::SIGKILL), Blame::Host, "SIGKILL"),
            (Cause::Signaled(libc::SIGTERM), Blame::Host, "SIGTERM, which somebody sent"),
            (Cause::Signaled(libc::SIGSYS), Blame::Monohull, "outside its list"),
            (Cause::Signaled(libc::SIGABRT), Blame::Monohull, "gave up"),
            (Cause::Exited(0), Blame::Monohull, "status 0, without an answer"),
            (Cause::OutOfMemory(Some(4096)), Blame::Function, "more than the 4096 bytes"),
            (Cause::OutOfMemory(None), Blame::Host, "no memory left"),
            (Cause::Unknown, Blame::Host, "nobody could tell how"),
        ] {
            let (to, message) = told(cause.clone(), false, "");
            assert_eq!(to, blame, "{cause:?}");
            assert!(message.contains(words), "{cause:?}: {message}");
        }
    }
}
