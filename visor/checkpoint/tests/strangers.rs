//! What a stranger would write to get at the system, or at another function: each is refused, and the reason says why.

mod support;

use monohull_abi::call::SYSTEM_INSTANCE;
use monohull_abi::layout::{ARENA_BASE, CARRIER_BASE, CELL_SIZE, PAGE, cell_base};
use monohull_abi::number::{EVENT_WAIT, NULL, QUEUE_WAIT, SYSTEM_ONLY};
use monohull_checkpoint::record::*;
use monohull_checkpoint::{Checkpoint, Error, Packing, SECTION_MAX, Trust, write};
use rustix::fs::FallocateFlags;
use std::fs::File;
use support::{CELLS, IDS, Parts, STACK, contents, memory, pages, sample};

/// How a sample is changed, and what the refusal says.
type Attack = (fn(&mut Contents), &'static str);

const ATTACKS: &[Attack] = &[
    // To be the system.
    (|c| c.threads[0].instance = SYSTEM_INSTANCE, "thread 0x0: its instance is not there"),
    (|c| c.instances[0].id = SYSTEM_INSTANCE, "this number is the system's own"),
    (|c| c.threads[6].frame.number = SYSTEM_ONLY, "a hostcall that only the system may make"),
    (|c| c.threads[5].frame.number = u32::MAX, "a hostcall that only the system may make"),
    (|c| c.threads[6].frame.number = SYSTEM_ONLY - 1, "a hostcall that does not exist"),
    // To be another.
    (|c| c.threads[0].frame.user_rsp = CARRIER_BASE, "its stack pointer is not on its stack"),
    (|c| c.threads[0].frame.user_rsp = cell_base(CELLS[1]) + STACK - 512, "its stack pointer is not on its stack"),
    (|c| c.threads[1].frame.user_rsp = c.threads[0].frame.user_rsp, "its stack pointer is not on its stack"),
    (|c| c.threads[0].frame.user_rsp = cell_base(CELLS[0]) + 512, "its stack pointer is not on its stack"),
    (|c| c.threads[0].frame.user_rsp = cell_base(CELLS[0]) + STACK - 64, "its stack pointer is not on its stack"),
    (|c| c.threads[0].frame.user_rsp += 1, "its stack pointer is not on its stack"),
    (|c| c.instances[1].id = IDS[0] + 0x100, "another instance is in the same cell"),
    (|c| c.threads[1].instance = 0x900 | IDS[0], "its instance is not there"),
    (|c| c.threads[1].number = 2, "another thread has this number"),
    (|c| c.threads[1].number = 0x20_0002, "another thread has this number"),
    (|c| c.threads[1].stack = Some(2), "its stack pointer is not on its stack"),
    (|c| c.threads[2] = ThreadRecord { number: 9, ..c.threads[1].clone() }, "another thread has the same stack"),
    (|c| c.threads[1].stack = Some(1), "its stack is free"),
    (|c| c.threads[1].stack = Some(4), "is none of its instance's"),
    (|c| c.threads[3].state = waits(WaitOn::Thread { number: 5 }), "another thread than it named"),
    (
        |c| {
            c.threads[3].state = waits(WaitOn::Thread { number: 5 });
            c.threads[3].frame.args[0] = 5;
        },
        "it waits for a thread that its instance does not have",
    ),
    (
        |c| {
            let address = cell_base(CELLS[1]) + STACK + 17 * PAGE;
            c.threads[2].state = waits(WaitOn::Futex { address });
            c.threads[2].frame.args[0] = address;
        },
        "it waits for a word that is not its instance's",
    ),
    (
        |c| {
            c.threads[2].state = waits(WaitOn::Futex { address: 1 << 62 | 5 });
            c.threads[2].frame.args[0] = 1 << 62 | 5;
        },
        "it waits for a word that is not its instance's",
    ),
    // Waits that are none.
    (|c| c.threads[4].frame.number = NULL, "does not belong to the hostcall that it makes"),
    (|c| c.threads[0].state = waits(WaitOn::Time), "it waits for nothing, without end"),
    (|c| c.threads[4].state = waits(WaitOn::Slot { name: String::new() }), "a slot whose name is empty or too long"),
    (|c| c.threads[4].state = waits(WaitOn::Slot { name: "x".repeat(256) }), "a slot whose name is empty or too long"),
    (|c| waits_for_event(c, ""), "an event of a name that none can have"),
    (|c| waits_for_event(c, "a\0"), "an event of a name that none can have"),
    (|c| waits_for_event(c, &"x".repeat(129)), "an event of a name that none can have"),
    (|c| waits_in_queue(c, 3, 2, 3), "it waits in another queue than it named"),
    (|c| waits_in_queue(c, 3, 64, 64), "it waits in a queue that no instance has"),
    (|c| waits_in_queue(c, 3, u64::MAX, u64::MAX), "it waits in a queue that no instance has"),
    (
        |c| {
            waits_in_queue(c, 3, 1, 1);
            waits_in_queue(c, 4, 1, 1);
            c.scheduler.queues = vec![vec![2, 0x10_0001], vec![3, 4]];
        },
        "it is in a queue of others' waits",
    ),
    // Queues by which threads are lost, or run twice.
    (|c| c.scheduler.ready.push(5), "it is in the ready queue twice, or is not ready"),
    (|c| c.scheduler.ready.push(4), "it is in the ready queue twice, or is not ready"),
    (|c| c.scheduler.ready.push(77), "it is in the ready queue twice, or is not ready"),
    (|c| c.scheduler.ready.truncate(1), "it is in no queue, so nothing would wake it"),
    (|c| c.scheduler.queues.truncate(2), "it is in no queue, so nothing would wake it"),
    (|c| c.scheduler.queues[0].push(3), "it is in a queue of others' waits"),
    (|c| c.scheduler.queues[0].push(2), "or in two queues"),
    (|c| c.scheduler.queues.push(vec![0]), "it is in a queue of others' waits"),
    (|c| c.scheduler.queues.push(Vec::new()), "one is empty"),
    (|c| c.scheduler.queues[0] = vec![2], "it is in no queue"),
    (
        |c| {
            c.scheduler.queues[0] = vec![2];
            c.scheduler.queues.push(vec![0x10_0001]);
        },
        "two are for the same thing",
    ),
    (|c| c.scheduler.free.push(5), "this number is free twice, or some thread has it"),
    (|c| c.scheduler.free.push(0x40_0008), "this number is free twice, or some thread has it"),
    (|c| c.scheduler.free.push(0x8_0000), "one between them is neither free nor a thread's"),
    // Memory that is not theirs.
    (|c| c.instances[0].stack_size = STACK + 1, "a size that no stack may have"),
    (|c| c.instances[0].stack_size = 1 << 40, "a size that no stack may have"),
    (|c| c.instances[0].heap_end = cell_base(CELLS[0]) + CELL_SIZE, "its heap is not in its cell"),
    (|c| c.instances[0].heap_start = cell_base(CELLS[0]), "its heap is not in its cell"),
    (|c| c.instances[0].heap_end = c.instances[0].heap_start - PAGE, "its heap ends before it begins"),
    (|c| c.instances[0].mapped[0].pages.count = 5, "or not in order"),
    (|c| c.instances[0].mapped[1].pages.count = 5, "mapped memory is not between its heap and its thread stacks"),
    (|c| c.instances[0].mapped[1].pages.count = u64::MAX, "mapped memory is not between its heap and its thread"),
    (|c| c.instances[0].mapped[0].pages.start = cell_base(CELLS[1]), "mapped memory is not between its heap"),
    (|c| c.instances[0].mapped[0].pages.start = c.instances[0].heap_end, "mapped memory is not between its heap"),
    (|c| c.instances[0].mapped[1].state = MappedState::Reserved, "no instance and no module has the pages"),
    (|c| c.instances[0].stacks = u32::MAX, "more thread stacks than its cell has room for"),
    (|c| c.instances[0].free_stacks.push(1), "a free stack is named twice"),
    (|c| c.instances[0].function = 1, "it runs a function that is not there"),
    (|c| c.instances[0].lines[0].stream = 3, "on a stream that does not exist"),
    (|c| c.modules[0].pages[0].start = cell_base(0), "pages outside of the buffer arena"),
    (|c| c.modules[0].pages[0].count = u64::MAX, "pages outside of the buffer arena"),
    (|c| c.modules[1].pages.push(PageRange { start: ARENA_BASE, count: 1 }), "two have the same page"),
    (|c| c.modules[1].name = "mm".to_owned(), "it is there twice"),
    (|c| c.modules[1].bytes.truncate(3), "does not begin with a version"),
    (|c| c.modules[0].pages.clear(), "no instance and no module has the pages"),
    (|c| c.identity.parent = None, "it is taken from the parent, and there is none"),
    // Another host's, another plan's.
    (|c| c.identity.plan.0[0] ^= 1, "it is not the one whose hash the checkpoint has"),
    (|c| c.plan.push(0), "it is not the one whose hash the checkpoint has"),
    (|c| c.identity.abi += 1, "version 2 of the hostcall interface; this program has version 1"),
    (|c| c.identity.layout.arena_base += 1, "`arena_base` is 0x201000000001 there and 0x201000000000 here"),
    (|c| c.identity.label = "x".repeat(5000), "the label: its name has 5000 bytes, and may have 0..=4096"),
    (|c| c.identity.workflow.clear(), "the workflow: its name has 0 bytes"),
];

/// The thread that waits for a slot waits for this event.
fn waits_for_event(contents: &mut Contents, name: &str) {
    contents.threads[4].frame.number = EVENT_WAIT;
    contents.threads[4].state = waits(WaitOn::Event { name: name.to_owned() });
}

/// A thread waits in the queue of this number, and has named that one.
fn waits_in_queue(contents: &mut Contents, thread: usize, number: u64, named: u64) {
    let thread = &mut contents.threads[thread];
    (thread.frame.number, thread.frame.args[0]) = (QUEUE_WAIT, named);
    thread.state = waits(WaitOn::Queue { number });
}

fn waits(on: WaitOn) -> ThreadState {
    ThreadState::Waiting { on, deadline: None }
}

#[test]
fn what_a_stranger_writes_is_refused_with_the_reason() {
    let parts = Parts::of(&sample(Packing::Raw));
    let read = |contents: &Contents| {
        let file = parts.clone().with(contents).unsealed();
        Checkpoint::read(file.as_slice(), Trust::NotSealed).map(drop)
    };
    read(&contents()).expect("the positive control: nothing is changed");
    for (number, (attack, reason)) in ATTACKS.iter().enumerate() {
        let mut contents = contents();
        attack(&mut contents);
        match read(&contents) {
            Err(error @ (Error::Wrong { .. } | Error::OtherAbi { .. } | Error::OtherLayout { .. })) => {
                assert!(error.to_string().contains(reason), "attack {number}: {error}");
            }
            other => panic!("attack {number}, {reason}: {other:?}"),
        }
    }
}

/// Names of a stranger appear in errors with their control characters escaped.
#[test]
fn errors_have_no_control_characters() {
    let mut contents = contents();
    for module in &mut contents.modules {
        module.name = "\u{1b}]52;c;x\u{7}\u{202e}".to_owned();
    }
    let file = Parts::of(&sample(Packing::Raw)).with(&contents).unsealed();
    let error = Checkpoint::read(file.as_slice(), Trust::NotSealed).expect_err("two modules have one name").to_string();
    assert!(error.contains("it is there twice") && !error.contains(|c: char| c.is_control()), "{error:?}");
}

/// Holes in a file cost its writer nothing: a reader that may have been given anyone's does not make memory of them. Neither does it of
/// lists that take many times the memory that they have bytes.
#[test]
fn a_small_file_takes_no_large_memory() {
    let refused = |file: &File| Checkpoint::read(file, Trust::Unchecked).expect_err("it is too much").to_string();
    let mut large = contents();
    large.modules[1].bytes.resize(SECTION_MAX as usize, 0);
    let (memory, file) = (memory(), tempfile::tempfile().expect("a file"));
    write(&mut &file, &large, &pages(&memory), Packing::Raw).expect("it is data");
    Checkpoint::read(&file, Trust::Unchecked).expect("it is all there");
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, flags, 1 << 20, 200 << 20).expect("the file system has holes");
    assert_eq!(refused(&file), "it is malformed: the header or the table of sections: its sections have holes");
    // What this process has written, or a key has sealed, is as large as it was meant to be, on file systems that make holes of zeros too.
    Checkpoint::read(&file, Trust::NotSealed).expect("it is not a stranger's");

    let parts = Parts::of(&sample(Packing::Raw));
    let queues = |count: usize| {
        let mut changed = parts.clone();
        // No ready threads, so many queues without threads, and nothing else.
        let mut bytes = vec![0];
        bytes.extend(varint(count));
        bytes.resize(bytes.len() + count + 4, 0);
        changed.section(5).bytes = bytes;
        Checkpoint::read(changed.unsealed().as_slice(), Trust::Unchecked)
            .map(drop)
            .expect_err("it is wrong")
            .to_string()
    };
    assert!(queues(1).contains("one is empty"), "{}", queues(1));
    assert!(queues((1 << 20) + 1).contains("it is malformed: section `scheduler`"), "{}", queues((1 << 20) + 1));

    let mut many = contents();
    let module = many.modules.remove(1);
    many.modules.extend((0..64).map(|number| ModuleRecord { name: format!("m{number}"), ..module.clone() }));
    let unsealed = parts.clone().with(&many).unsealed();
    let error = Checkpoint::read(unsealed.as_slice(), Trust::Unchecked).expect_err("there are not so many").to_string();
    assert!(error.contains("it has more modules than there are"), "{error}");
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
