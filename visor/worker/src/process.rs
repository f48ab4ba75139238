//! The process of a worker: it takes its address space, enters its sandbox, waits for its job, runs it, answers and ends.
//!
//! ```text
//!   detach_from_parent ──▶ (fork) ──▶ worker_main: address space, sandbox ──▶ Ready ──▶ the job (`worker`) ──▶ exit status
//!                                                                                        ▲         │ done, and it is to stay
//!                                                                                        └─ Clean ─┘ (`reset`)
//! ```

use super::exit_status::status::{DONE, FAILED, NOT_NEEDED, REFUSED, SHORTAGE};
use super::protocol::{FromWorker, SupervisorChannel};
use super::reset::{self, Kept, Planted};
use super::sandbox::SandboxTemplate;
use super::worker::{After, DomainSettings, HeldAnswer, Left, NotTaken, run, take_job};
use monohull_domain::ReservedDomain;
use monohull_ipc::Room;
use monohull_ipc::channel::is_shortage;
use monohull_report::escape::shown;
use monohull_sys::fork::{OnlyThread, exit_now};
use monohull_sys::spawner::be_traced;
use monohull_sys::{environment, prefault, signals};
use nix::sys::signal::Signal;
use nix::unistd::{dup2_stdin, dup2_stdout, setsid};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// The number of the null device on every Linux.
const NULL_DEVICE: u64 = libc::makedev(1, 3);

/// Detaches the first process, a spawner or the worker of `monohull run`, from its parent: a session without a terminal, signals
/// that ask for an end ignored, standard input and output on the null device, an empty environment. Its forks inherit that.
///
/// A service manager sends such a signal to all processes of a service at once. What is above decides what it means, and may
/// let a workflow finish; it takes this process with it whenever it ends.
///
/// An error is a text for people. Then the process must not be used: it could read and write what its caller can.
pub(super) fn detach_from_parent() -> Result<OnlyThread, String> {
    let only = OnlyThread::new().map_err(|error| error.to_string())?;
    setsid().map_err(|errno| format!("making a session of its own: {errno}"))?;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals::ignore(signal).map_err(|error| format!("ignoring {signal}: {error}"))?;
    }
    environment::scrub(&only).map_err(|error| format!("clearing the environment: {error}"))?;
    let null = open_null(Path::new("/dev/null"))?;
    dup2_stdin(&null)
        .and_then(|()| dup2_stdout(&null))
        .map_err(|errno| format!("disconnecting standard input and output: {errno}"))?;
    Ok(only)
}

/// Opens the null device. A regular file of its name would keep what is written to it.
fn open_null(path: &Path) -> Result<File, String> {
    let failed = |error: io::Error| format!("opening {}: {error}", shown(path));
    let null = File::options().read(true).write(true).open(path).map_err(failed)?;
    let metadata = null.metadata().map_err(failed)?;
    match metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE {
        true => Ok(null),
        false => Err(format!("{} is not the null device", shown(path))),
    }
}

/// The main function of a worker. `rules`: the template's, if it has any.
pub(super) fn worker_main(channel: OwnedFd, template: Result<&SandboxTemplate, String>, rules: Option<OwnedFd>) -> i32 {
    let channel = Arc::new(SupervisorChannel::new(channel));
    // Never closed: another socket under this number could be sent to with a destination. The sandbox forbids the close.
    std::mem::forget(channel.clone());
    let ready = template.and_then(|template| {
        // Where tracing is refused a fault ends the process, and the report has that as the reason.
        let silent = template.traced && be_traced().is_err();
        prefault::populate(&template.heap);
        let address_space = template.take_address_space().map_err(|error| error.to_string())?;
        let sandbox = template.enter_sandbox(rules).map_err(|error| error.to_string())?;
        Ok((address_space, sandbox, silent, template))
    });
    let (address_space, sandbox, silent, template) = match ready {
        Ok(ready) => ready,
        Err(why) => {
            let _ = channel.send(&FromWorker::Refused(why), &[]);
            return REFUSED;
        }
    };
    if channel.send(&FromWorker::Ready { sandbox, silent }, &[]).is_err() {
        return NOT_NEEDED;
    }
    let settings = DomainSettings { modules: template.modules.clone(), keys: template.keys, silent };
    let (mut address_space, mut kept) = (address_space, None);
    loop {
        let (kept, answer) = match serve_job(&channel, address_space, &settings, &mut kept) {
            Ok((kept, next, answer)) => {
                address_space = next;
                (kept, answer)
            }
            Err(status) => return status,
        };
        let reset = reset::stack(template).and_then(|()| reset::finish(kept));
        let sent = match answer {
            Some(answer) => answer.send(&channel, reset.is_ok()),
            None if reset.is_ok() => channel.send(&FromWorker::Clean, &[]),
            None => Ok(()),
        };
        if let Err(why) = reset {
            eprintln!("{why}");
            return FAILED;
        }
        if sent.is_err() {
            return NOT_NEEDED;
        }
    }
}

/// Takes a job, runs it, answers, and resets its domain. If the process stays for another job of the workflow: the workflow, where its
/// next domain is made, and an answer that has not been sent; else the exit status.
///
/// All that this and its callees leave on the stack is below the caller's frame.
#[inline(never)]
fn serve_job<'k>(
    channel: &Arc<SupervisorChannel>,
    address_space: ReservedDomain,
    settings: &DomainSettings,
    kept: &'k mut Option<Kept>,
) -> Result<(&'k mut Kept, ReservedDomain, Option<HeldAnswer>), i32> {
    let ended = |why: &str, status| {
        eprintln!("{why}");
        status
    };
    let failed = |why: &str| ended(why, FAILED);
    let lacking = |why: &str, is_shortage| ended(why, if is_shortage { SHORTAGE } else { FAILED });
    let (room, memory) = match kept.as_mut() {
        Some(Kept { room, memory, .. }) => (Some(room.get_or_insert_with(Room::new)), memory.as_mut()),
        None => (None, None),
    };
    let taken = take_job(channel, room, memory).map_err(|NotTaken { why, is_shortage }| lacking(&why, is_shortage));
    let mut job = taken?.ok_or(NOT_NEEDED)?;
    if let Some(workflow) = job.workflow.take() {
        if kept.is_some() {
            return Err(failed("a job has come with another workflow"));
        }
        *kept = Some(Kept::new(workflow, job.memory.take()));
    }
    let Some(kept) = kept else { return Err(failed("a job has come without a workflow")) };
    let planted = Planted::of(&job);
    // The kernel frees the rest of the domain faster than this process could.
    let answered = |after| {
        if after == After::End {
            exit_now(DONE);
        }
    };
    match run(channel.clone(), address_space, settings, (&kept.workflow, kept.memory.as_mut()), job, answered) {
        Ok(Some(Left { domain, answer })) => {
            let next = match reset::domain(domain) {
                Ok(next) => next,
                Err(why) => {
                    // That it cannot go on is no reason to lose what it has done.
                    let _ = answer.map(|answer| answer.send(channel, false));
                    return Err(failed(&why));
                }
            };
            planted.leave(channel);
            Ok((kept, next, answer))
        }
        Ok(None) => Err(DONE),
        Err(error) => Err(lacking(&format!("the answer cannot be sent: {error}"), is_shortage(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_null_device_is_taken_for_it() {
        open_null(Path::new("/dev/null")).expect("the null device");
        let refused = |path: &Path| open_null(path).expect_err("not the null device");
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("null");
        assert!(refused(&file).contains("opening"), "it does not exist");
        std::fs::write(&file, "").expect("written");
        assert!(refused(&file).contains("is not the null device"));
        assert!(refused(Path::new("/dev/zero")).contains("is not the null device"));
    }
}
