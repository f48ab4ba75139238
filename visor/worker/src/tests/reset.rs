//! Workers that stay after their answer: what they may say, and whom they serve.

use super::*;

/// A version of the workflow, as far as a process that stays is about it.
fn version() -> Arc<Ready> {
    Arc::new(Ready::of_parts(plan(), Vec::new(), 1))
}

/// An answer that says that the workflow ended so.
fn answer(status: Status) -> FromWorker {
    let failure = Failure::blamed(FailureKind::Error, Blame::Function, "as planned");
    let mut report = monohull_engine::report_without_run(&plan(), "process", 0, failure);
    report.status = status;
    if status == Status::Done {
        report.error = None;
    }
    FromWorker::Ended { report: serde_json::to_vec(&report).expect("JSON"), outputs: Vec::new(), sent: false }
}

impl Impostor {
    /// One that was asked to stay.
    fn to_stay(workflow: &Arc<Ready>) -> Impostor {
        let mut impostor = Impostor::new();
        impostor.running.worker.stay = Stay::Asked(Arc::downgrade(workflow));
        impostor
    }

    /// Takes its answer.
    #[track_caller]
    fn ends(&mut self, status: Status) {
        self.message(&answer(status), &[]);
        let received = self.running.next_message().expect("receiving");
        assert!(matches!(received, Some(Message::Ended { .. })), "{received:?}");
    }

    /// It answers, says that it is reset, and is taken at its word.
    #[track_caller]
    fn reset(mut self) -> (CleanWorker, SupervisorChannel, Child) {
        self.ends(Status::Done);
        self.message(&FromWorker::Clean, &[]);
        assert!(matches!(self.running.next_message().expect("receiving"), Some(Message::Clean)));
        (self.running.into_clean().expect("it is clean"), self.theirs, self.process)
    }
}

/// The answer of one that has reset itself before it answered.
fn clean_answer() -> FromWorker {
    let failure = Failure::blamed(FailureKind::Error, Blame::Function, "none");
    let mut report = monohull_engine::report_without_run(&plan(), "process", 0, failure);
    (report.status, report.error) = (Status::Done, None);
    let report = packed_report::pack(&report).expect("there is nothing unusual in it");
    FromWorker::Done { report, outputs: Vec::new(), clean: true }
}

#[test]
fn an_answer_may_say_that_its_worker_is_reset() {
    let workflow = version();
    let mut impostor = Impostor::to_stay(&workflow);
    impostor.message(&clean_answer(), &[]);
    assert!(matches!(impostor.running.next_message().expect("receiving"), Some(Message::Done { .. })));
    assert!(impostor.running.is_clean());
    let clean = impostor.running.into_clean().expect("it is clean");
    assert!(clean.is_waiting() && clean.serves(&workflow));
    assert_eq!(clean.served(), 1);
    drop(clean);
    impostor.process.wait().expect("it is our child");

    // A second message that says so is none.
    let mut impostor = Impostor::to_stay(&workflow);
    impostor.message(&clean_answer(), &[]);
    assert!(matches!(impostor.running.next_message().expect("receiving"), Some(Message::Done { .. })));
    impostor.message(&FromWorker::Clean, &[]);
    impostor.refuses("a reset that was not asked for");

    // Nor is it taken at its word if it has complained.
    let mut complains = Impostor::to_stay(&workflow);
    complains.send(b"something is wrong", &[]);
    assert!(matches!(complains.running.next_message().expect("receiving"), Some(Message::Stderr)));
    complains.message(&clean_answer(), &[]);
    assert!(matches!(complains.running.next_message().expect("receiving"), Some(Message::Done { .. })));
    assert!(complains.running.into_clean().is_none());
    assert!(!complains.process.wait().expect("it is our child").success(), "it was ended");
}

#[test]
fn an_answer_of_one_that_was_not_to_stay_does_not_say_that_it_is_reset() {
    let impostor = Impostor::new();
    impostor.message(&clean_answer(), &[]);
    impostor.refuses("a reset that was not asked for");
}

#[test]
fn a_reset_that_was_not_asked_for_is_refused() {
    let mut impostor = Impostor::new();
    impostor.ends(Status::Done);
    impostor.message(&FromWorker::Clean, &[]);
    impostor.refuses("a reset that was not asked for");
}

#[test]
fn a_reset_before_the_answer_is_refused() {
    let impostor = Impostor::to_stay(&version());
    impostor.message(&FromWorker::Clean, &[]);
    impostor.refuses("a reset that was not asked for");
}

#[test]
fn a_reset_after_a_failure_is_refused() {
    let mut impostor = Impostor::to_stay(&version());
    impostor.ends(Status::Failed);
    impostor.message(&FromWorker::Clean, &[]);
    impostor.refuses("a reset that was not asked for");
}

#[test]
fn a_second_reset_is_refused() {
    let mut impostor = Impostor::to_stay(&version());
    impostor.ends(Status::Done);
    impostor.message(&FromWorker::Clean, &[]);
    assert!(matches!(impostor.running.next_message().expect("receiving"), Some(Message::Clean)));
    impostor.message(&FromWorker::Clean, &[]);
    impostor.refuses("a reset that was not asked for");
}

#[test]
fn a_second_answer_is_refused_also_where_it_stays() {
    let mut impostor = Impostor::to_stay(&version());
    impostor.ends(Status::Done);
    impostor.message(&answer(Status::Done), &[]);
    impostor.refuses("a second answer");
}

#[test]
fn a_worker_is_not_clean_before_it_says_so_or_with_a_text() {
    let workflow = version();
    let mut early = Impostor::to_stay(&workflow);
    early.ends(Status::Done);
    assert!(early.running.into_clean().is_none());
    assert!(!early.process.wait().expect("it is our child").success(), "it was ended");

    let mut complains = Impostor::to_stay(&workflow);
    complains.send(b"something is wrong", &[]);
    assert!(matches!(complains.running.next_message().expect("receiving"), Some(Message::Stderr)));
    complains.ends(Status::Done);
    complains.message(&FromWorker::Clean, &[]);
    assert!(matches!(complains.running.next_message().expect("receiving"), Some(Message::Clean)));
    assert!(complains.running.into_clean().is_none());
    assert!(!complains.process.wait().expect("it is our child").success(), "it was ended");
}

#[test]
fn a_clean_worker_that_speaks_does_not_wait_any_more() {
    let workflow = version();
    for text in [&b"a text"[..], &HEADER] {
        let (clean, theirs, mut process) = Impostor::to_stay(&workflow).reset();
        assert!(clean.is_waiting());
        sendmsg(&theirs, &[IoSlice::new(text)], &mut SendAncillaryBuffer::default(), SendFlags::empty())
            .expect("it is sent");
        assert!(!clean.is_waiting());
        drop(clean);
        assert!(!process.wait().expect("it is our child").success(), "it was ended");
    }
}

#[test]
fn a_clean_worker_serves_its_own_version_of_its_workflow_alone() {
    let (workflow, other) = (version(), version());
    let (clean, theirs, mut process) = Impostor::to_stay(&workflow).reset();
    assert!(clean.serves(&workflow) && !clean.serves(&other));
    let running = clean.assign(&Job { stay: true, ..Job::new(workflow.clone(), Vec::new()) }).expect("it is sent");
    let job = theirs.receive().expect("receiving").expect("a message").read().expect("a job");
    assert!(matches!(job, protocol::ToWorker::Job(job) if job.workflow.is_empty() && job.stay));
    let impostor = Impostor { running, theirs, process };
    let (clean, _theirs, child) = impostor.reset();
    assert_eq!(clean.served(), 2);
    process = child;
    clean.assign(&Job::new(other, Vec::new())).expect_err("another version");
    assert!(!process.wait().expect("it is our child").success(), "it was ended");

    let (clean, _theirs, mut process) = Impostor::to_stay(&workflow).reset();
    assert!(clean.is_needed());
    drop(workflow);
    assert!(!clean.is_needed());
    drop(clean);
    process.wait().expect("it is our child");
}

#[test]
fn a_job_with_something_of_the_host_does_not_stay() {
    let job = |document: &str| {
        let plan = monohull_workflow::load_str(Path::new("w.json"), document).expect("a workflow");
        Job { stay: true, ..Job::new(Arc::new(Ready::of_parts(Arc::new(plan), Vec::new(), 1)), Vec::new()) }
    };
    let with = |more: &str| {
        let start =
            r#"{ "name": "w", "functions": { "f": { "image": "f" } }, "steps": [{ "name": "s", "function": "f" }]"#;
        job(&format!("{start}{more} }}"))
    };
    assert!(with("").may_stay());
    assert!(with(r#", "files": [{ "at": "/m", "memory": "1MiB" }]"#).may_stay());
    for more in [
        r#", "files": [{ "at": "/d", "directory": "/tmp" }]"#,
        r#", "files": [{ "at": "/d", "image": "disk.img" }]"#,
        r#", "files": [{ "at": "/d", "image": "disk.img", "access": "write" }]"#,
        r#", "network": { "mode": "host", "connect": ["127.0.0.1:1"] }"#,
    ] {
        assert!(!with(more).may_stay(), "{more}");
    }
    // One that could have been suspended, and has ended instead.
    assert!(Job { suspend: Some(Duration::ZERO), ..with("") }.may_stay());
    assert!(!Job { continuation: Some(seal(b"", 0).expect("memory").into()), ..with("") }.may_stay());
}
