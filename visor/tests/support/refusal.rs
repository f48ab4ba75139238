//! Programs to which the kernel refuses a system call, as sandboxes do.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel answer this call of a program, and of all that it starts, with `EPERM`.
pub(crate) fn refuse(command: &mut Command, call: libc::c_long) -> &mut Command {
    let refusal = SeccompAction::Errno(libc::EPERM as u32);
    let list = [(call, vec![])].into_iter().collect();
    let filter = SeccompFilter::new(list, SeccompAction::Allow, refusal, TargetArch::x86_64).expect("a list");
    let filter = BpfProgram::try_from(filter).expect("a filter");
    let apply = move || apply_filter(&filter).map_err(std::io::Error::other);
    // SAFETY: two system calls between fork and exec, and on success no memory is taken.
    unsafe { command.pre_exec(apply) }
}
