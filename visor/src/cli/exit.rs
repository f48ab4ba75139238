//! Exit codes. They are part of the interface: scripts depend on them, so they never change their meaning.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The workflow failed.
    WorkflowFailed = 1,
    /// The invocation, the workflow file or a function's source is wrong. Also clap's code for wrong usage.
    Usage = 2,
    /// The host lacks something required, or the output cannot be written.
    Host = 3,
    /// The workflow waits: it was suspended, as was asked for, or is paused.
    Suspended = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What every `--help` says about exit codes.
pub const HELP: &str = "\
Exit codes:
  0  done
  1  the workflow failed
  2  the invocation, the workflow file or a function's source is wrong
  3  the host lacks something required, or standard output cannot be written
  4  the workflow waits: it was suspended (--suspend, --detach, or by a server) or is paused";
