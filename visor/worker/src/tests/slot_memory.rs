//! Memory for large slots, in the hands of a worker that is under an attacker's control: what is in it is copied once, is checked as any
//! output, and is cleared.

use super::*;
use monohull_ipc::Recycled;
use monohull_ipc::recycled::RECYCLED_MAX;
use std::os::unix::fs::FileExt;

fn file(memory: &Recycled) -> File {
    memory.as_fd().try_clone_to_owned().expect("a descriptor").into()
}

/// The worker's end of the memory for outputs.
fn with_memory() -> (Impostor, File) {
    let mut impostor = Impostor::new();
    let memory = SlotMemory::new().expect("memory");
    let outputs = file(&memory.outputs);
    impostor.running.worker.memory = Some(memory);
    (impostor, outputs)
}

fn recycled(slots: &[(&str, u64)]) -> FromWorker {
    with_report(slots.iter().map(|(slot, len)| ((*slot).to_owned(), Content::Recycled(*len))).collect())
}

fn is_zero(memory: &File) -> bool {
    let mut bytes = vec![0; RECYCLED_MAX as usize];
    memory.read_exact_at(&mut bytes, 0).expect("all of it");
    bytes.iter().all(|byte| *byte == 0)
}

#[test]
fn outputs_are_copied_in_their_order_and_cleared() {
    let (mut impostor, memory) = with_memory();
    let (first, second) = (vec![1; 500_000], vec![2; 20_000]);
    memory.write_all_at(&first, 0).expect("written");
    memory.write_all_at(&second, 500_000).expect("written");
    impostor.message(&recycled(&[("1", 500_000), ("0", 20_000)]), &[]);
    let received = impostor.running.next_message().expect("receiving");
    let Some(Message::Ended { outputs, .. }) = received else { panic!("{received:?}") };
    assert!(is_zero(&memory));
    // Whatever the worker writes now comes too late.
    memory.write_all_at(&[7; 520_000], 0).expect("written");
    let outputs: Vec<_> = outputs.into_iter().map(|(slot, data)| (slot, data.into_bytes().expect("bytes"))).collect();
    assert!(outputs == [("1".to_owned(), first), ("0".to_owned(), second)]);
    impostor.running.kill();
    impostor.process.wait().expect("it is our child");
}

#[test]
fn outputs_that_cannot_be_in_the_memory_are_refused() {
    // The workflow's slots have a mebibyte in all.
    for slots in [
        &[("0", (1 << 20) + 1)][..],
        &[("0", 1 << 20), ("1", 1)],
        &[("0", RECYCLED_MAX + 1)],
        &[("0", u64::MAX)],
        &[("0", 1), ("1", u64::MAX)],
    ] {
        let (impostor, _memory) = with_memory();
        impostor.message(&recycled(slots), &[]);
        impostor.refuses("an output where it has no room for one");
    }
    let (impostor, _memory) = with_memory();
    impostor.message(&recycled(&[("other", 1)]), &[]);
    impostor.refuses("an output that the workflow does not have");
}

#[test]
fn a_worker_without_the_memory_has_nothing_in_it() {
    let impostor = Impostor::new();
    impostor.message(&recycled(&[("0", 0)]), &[]);
    impostor.refuses("an output where it has no room for one");
}

/// A worker cannot make the memory such that its supervisor fails.
#[test]
fn the_memory_stays_as_large_as_it_is() {
    let (mut impostor, memory) = with_memory();
    memory.set_len(0).expect_err("it is sealed");
    memory.set_len(RECYCLED_MAX * 2).expect_err("it is sealed");
    impostor.message(&recycled(&[("0", 1 << 20)]), &[]);
    let received = impostor.running.next_message().expect("receiving");
    let Some(Message::Ended { outputs, .. }) = received else { panic!("{received:?}") };
    // It has written nothing.
    assert!(
        matches!(&outputs[..], [(_, Data::Bytes(bytes))] if bytes.len() == 1 << 20 && bytes.iter().all(|byte| *byte == 0))
    );
    impostor.running.kill();
    impostor.process.wait().expect("it is our child");
}

/// What a job's inputs are to its worker.
#[test]
fn large_inputs_are_in_the_memory_as_long_as_there_is_room() {
    let document = r#"{ "name": "w", "functions": { "f": { "image": "f" } }, "steps": [{ "name": "s", "function": "f" }],
        "inputs": ["a", "b", "c", "d"], "unread": "ignore" }"#;
    let plan = monohull_workflow::load_str(Path::new("w.json"), document).expect("a workflow");
    let workflow = Arc::new(Ready::of_parts(Arc::new(plan), Vec::new(), 1));
    let sizes = [100, 1_500_000, 1_000_000, 400_000];
    let inputs = || {
        ["a", "b", "c", "d"]
            .into_iter()
            .zip(sizes)
            .map(|(slot, size)| (slot.to_owned(), vec![slot.as_bytes()[0]; size]))
    };
    let (ours, theirs) = WorkerChannel::pair().expect("a socket");
    let mut memory = SlotMemory::new().expect("memory");
    let mut kept = None;
    for has_workflow in [false, true, true] {
        let job = Job {
            stay: true,
            ..Job::new(workflow.clone(), inputs().map(|(slot, bytes)| (slot, Data::Bytes(bytes))).collect())
        };
        // A job without a workflow cannot be unpacked here, so that the parts are looked at.
        job.send(&ours, has_workflow, Some(&mut memory)).expect("it is sent");
        let mut packet = theirs.receive().expect("receiving").expect("a message");
        let Ok(ToWorker::Job(wire)) = packet.read() else { panic!("a job") };
        assert_eq!(wire.memory, !has_workflow);
        let mut files = std::mem::take(&mut packet.files).into_iter();
        if wire.memory {
            let files = [(); 2].map(|()| files.next().expect("the memory"));
            kept = Some(SlotMemory::of_files(files));
        }
        let kept: &mut SlotMemory = kept.as_mut().expect("it has come with the first job");
        for ((slot, content), (name, bytes)) in wire.inputs.into_iter().zip(inputs()) {
            assert_eq!(slot, name);
            let given = match content {
                Content::Bytes(given) => given,
                Content::Attached => Data::File(files.next().expect("a file")).into_bytes().expect("its bytes"),
                Content::Recycled(len) => {
                    let part = kept.inputs.next(len).expect("there is room");
                    kept.inputs.read(part).expect("it is there")
                }
            };
            assert!(given == bytes, "{name}");
        }
        assert!(files.next().is_none());
        kept.clear_inputs().expect("cleared");
        assert!(is_zero(&file(&kept.inputs)));
    }
}
