//! A worker under an attacker's control: the supervisor refuses what it sends, kills the worker, and keeps nothing of it.
//!
//! The worker here is the test itself, and the process that is killed is one that only waits.

mod continuations;
mod reset;
mod slot_memory;
mod templates;

use super::post::Unanswered;
use super::protocol::{Content, FromWorker, SupervisorChannel, ToWorker, WorkerChannel};
use super::slot_memory::SlotMemory;
use super::supervised::{Captures, Reaper, STDERR_PIECES_MAX, STDERR_TAIL_MAX, Stay, StderrTail, Worker};
use super::*;
use monohull_engine::Ready;
use monohull_ipc::channel::{BODY_MAX, FILES_MAX, INLINE_MAX};
use monohull_ipc::sealed::seal;
use monohull_report::{Blame, Failure, FailureKind, Sandbox, Status};
use monohull_workflow::Plan;
use proptest::prelude::*;
use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn the_warm_up_goes_from_a_job_to_its_answer() {
    // No module is loaded. No other unit test of this crate has a domain.
    let home = worker::DomainSettings { modules: PathBuf::new(), keys: false, silent: false };
    warmup::run(home).expect("a workflow that does nothing is done");
}

/// A worker that sends what a test has it send.
struct Impostor {
    running: Running,
    theirs: SupervisorChannel,
    process: Child,
}

const HEADER: [u8; 2] = [1, 0];
const SPILLED: [u8; 2] = [1, 1];

impl Impostor {
    fn new() -> Impostor {
        // It reads from a pipe to which nothing is written.
        let process = Command::new("sh").args(["-c", "read wait"]).stdin(Stdio::piped()).spawn().expect("sh starts");
        let pid = process.id() as i32;
        let pidfd = pidfd_open(Pid::from_raw(pid).expect("a process id"), PidfdFlags::empty()).expect("it is there");
        let (ours, theirs) = WorkerChannel::pair().expect("a socket");
        ours.name_senders().expect("an option of sockets");
        // No process of a test has the id of the first process.
        let reaper = Reaper::Spawner(1);
        let worker = Worker {
            channel: ours,
            pidfd: Arc::new(pidfd),
            pid,
            reaper,
            cgroup: None,
            received: None,
            stderr: StderrTail::default(),
            keys_silent: false,
            plan: Some(plan()),
            suspendable: false,
            residence: super::supervised::Residence::Never,
            captures: Captures::Never,
            sends: false,
            listens: false,
            unanswered: Unanswered::default(),
            continues: false,
            rest: 0,
            answered: false,
            stay: Stay::No,
            memory: None,
            dead: false,
        };
        Impostor { running: Running { worker, sandbox: Arc::default(), before: 0 }, theirs, process }
    }

    fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(files.len()))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
        sendmsg(&self.theirs, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).expect("it is sent");
    }

    /// A message in the right form.
    fn message(&self, message: &FromWorker, files: &[BorrowedFd<'_>]) {
        self.theirs.send(message, files).expect("it is sent");
    }

    /// What was sent is refused for this reason, and the process is ended.
    #[track_caller]
    fn refuses(mut self, reason: &str) {
        let death = match self.running.next_message().expect("receiving") {
            Some(Message::Died(death)) => death,
            other => panic!("{other:?}"),
        };
        match &death.cause {
            Cause::ProtocolViolation(why) => assert!(why.contains(reason), "{why}"),
            other => assert!(format!("{other:?}").contains(reason), "{other:?}"),
        }
        assert!(self.running.next_message().expect("receiving").is_none(), "nothing comes after a death");
        assert!(!self.process.wait().expect("it is our child").success(), "it was ended");
    }
}

fn attached(count: usize) -> Vec<(String, Content)> {
    (0..count).map(|slot| (slot.to_string(), Content::Attached)).collect()
}

/// The workflow it was assigned: it has two output slots.
fn plan() -> Arc<Plan> {
    let document = r#"{ "name": "w", "functions": { "f": { "image": "f" } }, "steps": [{ "name": "s", "function": "f" }],
        "outputs": [{ "slot": "0" }, { "slot": "1" }], "limits": { "slots": "1MiB" } }"#;
    Arc::new(monohull_workflow::load_str(Path::new("w.json"), document).expect("a workflow"))
}

/// A pipe: the end that is sent, and the end that shows whether the other is still open.
fn pipe() -> (File, File) {
    let (read, write) = nix::unistd::pipe().expect("a pipe");
    (write.into(), read.into())
}

/// A message is copied, and takes twice its pages, if it grows behind its largest part.
#[test]
fn the_largest_part_of_a_job_is_its_last() {
    let (ours, theirs) = WorkerChannel::pair().expect("a socket");
    let workflow = Arc::new(Ready::of_parts(plan(), Vec::new(), 1));
    Job::new(workflow, Vec::new()).send(&ours, false, None).expect("it is sent");
    let message = theirs.receive().expect("receiving").expect("a message").read().expect("a job");
    let bytes = postcard::to_extend(&message, Vec::new()).expect("encoded");
    let ToWorker::Job(job) = message else { panic!("{message:?}") };
    assert!(!job.workflow.is_empty() && bytes.ends_with(&job.workflow));
}

#[test]
fn a_message_that_keeps_to_the_protocol_is_accepted() {
    let mut impostor = Impostor::new();
    impostor.message(&FromWorker::Notice(Notice::Point { name: "now".to_owned(), at_ns: 7 }), &[]);
    let received = impostor.running.next_message().expect("receiving");
    assert!(matches!(received, Some(Message::Notice(Notice::Point { at_ns: 7, .. }))), "{received:?}");
    assert!(impostor.running.next_message().expect("receiving").is_none());
    impostor.running.kill();
    impostor.process.wait().expect("it is our child");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 1..300), right in any::<bool>()) {
        let mut impostor = Impostor::new();
        let text = !right && bytes[0] >= b'\t';
        let sent = if right { [&HEADER[..], &bytes].concat() } else { bytes };
        impostor.send(&sent, &[]);
        // They may happen to be a message; then that is received and nothing more.
        match impostor.running.next_message().expect("receiving") {
            Some(Message::Died(_) | Message::Notice(_)) if !text => {}
            Some(Message::Stderr) if text => {}
            other => panic!("{other:?}"),
        }
        impostor.running.kill();
        impostor.process.wait().expect("it is our child");
    }
}

#[test]
fn what_is_written_is_kept_up_to_a_limit() {
    let mut impostor = Impostor::new();
    for _ in 0..10 {
        impostor.send(&[b'x'; 1000], &[]);
    }
    impostor.send(&[2, 0, 0], &[]);
    let mut received = std::iter::repeat_with(|| impostor.running.next_message().expect("receiving"));
    let Some(Some(Message::Died(death))) = received.find(|message| !matches!(message, Some(Message::Stderr))) else {
        panic!("it is refused")
    };
    assert_eq!(death.stderr, "x".repeat(STDERR_TAIL_MAX));
    impostor.process.wait().expect("it is our child");
}

#[test]
fn too_much_standard_error_ends_the_worker() {
    let mut impostor = Impostor::new();
    let died = (0..=STDERR_PIECES_MAX).find_map(|_| {
        impostor.send(b"x", &[]);
        impostor.running.next_message().expect("receiving").filter(|message| !matches!(message, Message::Stderr))
    });
    let Some(Message::Died(death)) = died else { panic!("{died:?}") };
    assert!(death.message.contains("too much output"), "{}", death.message);
    impostor.process.wait().expect("it is our child");
}

#[test]
fn another_version_is_refused() {
    let impostor = Impostor::new();
    impostor.send(&[2, 0, 0], &[]);
    impostor.refuses("another version, 2");
}

#[test]
fn an_unknown_form_is_refused() {
    let impostor = Impostor::new();
    impostor.send(&[1, 7, 0], &[]);
    impostor.refuses("form");
}

#[test]
fn an_empty_packet_is_an_end() {
    let impostor = Impostor::new();
    impostor.send(&[], &[]);
    impostor.refuses("Unknown");
}

#[test]
fn a_closed_end_is_an_end() {
    let mut impostor = Impostor::new();
    impostor.theirs = SupervisorChannel::pair().expect("a socket").0;
    impostor.refuses("Unknown");
}

#[test]
fn a_packet_that_is_too_long_is_refused() {
    let impostor = Impostor::new();
    impostor.send(&vec![1; INLINE_MAX + 100], &[]);
    impostor.refuses("too long");
}

#[test]
fn bytes_behind_a_message_are_refused() {
    let impostor = Impostor::new();
    impostor.send(&[1, 0, 5, 0, 0, 0, 9, 9, 9, 9], &[]);
    impostor.refuses("cannot be read");
}

#[test]
fn too_many_files_are_refused_and_closed() {
    let impostor = Impostor::new();
    let (file, mut other) = pipe();
    impostor.send(&[HEADER[0], HEADER[1], 0], &vec![file.as_fd(); FILES_MAX + 40]);
    drop(file);
    impostor.refuses("too many files");
    assert_eq!(other.read(&mut [0]).expect("the other end is closed"), 0);
}

#[test]
fn files_with_a_notice_are_refused_and_closed() {
    let impostor = Impostor::new();
    let (file, mut other) = pipe();
    impostor.message(&FromWorker::Notice(Notice::Point { name: String::new(), at_ns: 0 }), &[file.as_fd()]);
    drop(file);
    impostor.refuses("only an answer may have files");
    assert_eq!(other.read(&mut [0]).expect("the other end is closed"), 0);
}

#[test]
fn a_body_in_memory_that_can_change_is_refused() {
    let unsealed = nix::sys::memfd::memfd_create(c"unsealed", nix::sys::memfd::MFdFlags::empty()).expect("memory");
    let impostor = Impostor::new();
    impostor.send(&SPILLED, &[unsealed.as_fd()]);
    impostor.refuses("not sealed");
}

#[test]
fn a_body_that_is_no_memory_is_refused() {
    let (file, _other) = pipe();
    let impostor = Impostor::new();
    impostor.send(&SPILLED, &[file.as_fd()]);
    impostor.refuses("socket failed");
}

#[test]
fn a_body_that_is_too_large_is_refused_unread() {
    let huge = seal(b"", BODY_MAX + 1).expect("memory that is not there yet");
    let impostor = Impostor::new();
    impostor.send(&SPILLED, &[huge.as_fd()]);
    impostor.refuses("at most");
}

#[test]
fn only_an_answer_may_be_long() {
    let impostor = Impostor::new();
    impostor.message(&FromWorker::Notice(Notice::Point { name: "x".repeat(2 * INLINE_MAX), at_ns: 0 }), &[]);
    impostor.refuses("only an answer may be that long");
}

#[test]
fn a_body_that_is_missing_is_refused() {
    let impostor = Impostor::new();
    impostor.send(&SPILLED, &[]);
    impostor.refuses("form");
}

#[test]
fn an_output_that_can_change_is_refused() {
    let unsealed = nix::sys::memfd::memfd_create(c"unsealed", nix::sys::memfd::MFdFlags::empty()).expect("memory");
    let mut impostor = Impostor::new();
    impostor.message(&with_report(attached(1)), &[unsealed.as_fd()]);
    let received = impostor.running.next_message().expect("receiving");
    assert!(
        matches!(&received, Some(Message::Died(Death { cause: Cause::ProtocolViolation(why), .. })) if why.contains("sealed"))
    );
    impostor.process.wait().expect("it is our child");
}

#[test]
fn an_output_larger_than_the_slots_is_refused() {
    let huge = seal(b"", (1 << 20) + 1).expect("memory that is not there yet");
    let impostor = Impostor::new();
    impostor.message(&with_report(attached(1)), &[huge.as_fd()]);
    impostor.refuses("larger than its slots");
}

#[test]
fn outputs_and_files_that_do_not_match_are_refused() {
    let sealed = seal(b"content", 0).expect("memory");
    let impostor = Impostor::new();
    impostor.message(&with_report(attached(2)), &[sealed.as_fd()]);
    impostor.refuses("missing");
    let impostor = Impostor::new();
    impostor.message(&with_report(attached(1)), &[sealed.as_fd(), sealed.as_fd()]);
    impostor.refuses("more files than outputs");
}

#[test]
fn an_output_that_the_workflow_does_not_have_is_refused() {
    let output = |name: &str| (name.to_owned(), Content::Bytes(Vec::new()));
    for outputs in [vec![output("other")], vec![output("0"), output("0")]] {
        let impostor = Impostor::new();
        impostor.message(&with_report(outputs), &[]);
        impostor.refuses("the workflow does not have");
    }
    // The control.
    let mut impostor = Impostor::new();
    impostor.message(&with_report(vec![output("0"), output("1")]), &[]);
    assert!(matches!(impostor.running.next_message(), Ok(Some(Message::Ended { .. }))));
    impostor.running.kill();
    impostor.process.wait().expect("it is our child");
}

#[test]
fn outputs_in_a_message_count_as_those_in_files_do() {
    let half = || Content::Bytes(vec![0; (1 << 19) + 1]);
    let impostor = Impostor::new();
    impostor.message(&with_report(vec![("0".to_owned(), half()), ("1".to_owned(), half())]), &[]);
    impostor.refuses("larger than its slots");
}

#[test]
fn more_outputs_than_a_workflow_can_have_are_not_even_read() {
    let many = (0..=1 << 16).map(|_| (String::new(), Content::Bytes(Vec::new()))).collect();
    let impostor = Impostor::new();
    impostor.message(&with_report(many), &[]);
    impostor.refuses("cannot be read");
}

#[test]
fn a_text_has_no_files() {
    let impostor = Impostor::new();
    impostor.send(b"words", &[impostor.theirs.as_fd()]);
    impostor.refuses("files with a text");
}

#[test]
fn a_malformed_report_is_refused() {
    let deep = [vec![b'['; 60_000], vec![b']'; 3]].concat();
    for report in [b"{}".to_vec(), b"nonsense".to_vec(), deep] {
        let impostor = Impostor::new();
        let packed = FromWorker::Done { report: report.clone(), outputs: Vec::new(), clean: false };
        impostor.message(&FromWorker::Ended { report, outputs: Vec::new(), sent: false }, &[]);
        impostor.refuses("cannot be read");
        let impostor = Impostor::new();
        impostor.message(&packed, &[]);
        // One is too long to be looked at.
        impostor.refuses("was sent");
    }
}

#[test]
fn a_second_answer_is_refused() {
    let mut impostor = Impostor::new();
    impostor.message(&with_report(Vec::new()), &[]);
    impostor.message(&with_report(Vec::new()), &[]);
    let received = impostor.running.next_message().expect("receiving");
    assert!(matches!(received, Some(Message::Ended { .. })), "{received:?}");
    impostor.refuses("second answer");
}

#[test]
fn a_worker_cannot_report_its_own_exit_status() {
    let impostor = Impostor::new();
    impostor.message(&FromWorker::Died { status: 0 }, &[]);
    impostor.refuses("that the spawner has not sent");
}

#[test]
fn a_worker_at_work_cannot_be_ready_again() {
    for message in
        [FromWorker::Ready { sandbox: Sandbox::default(), silent: false }, FromWorker::Refused("because".to_owned())]
    {
        let impostor = Impostor::new();
        impostor.message(&message, &[]);
        impostor.refuses("unexpected message");
    }
}

/// An answer with a report as it should be.
fn with_report(outputs: Vec<(String, Content)>) -> FromWorker {
    let report = serde_json::json!({
        "workflow": "w", "status": "done", "isolation": "process", "cold_start_us": 0, "duration_us": 0,
        "steps": [], "modules": [], "output": {}, "error": null,
    });
    FromWorker::Ended { report: report.to_string().into_bytes(), outputs, sent: false }
}
