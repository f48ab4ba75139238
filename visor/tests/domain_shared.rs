//! A continuation in sealed memory: any number of domains go on with it, and each has pages of its own where it writes.

mod support;

use monohull_visor::domain::checkpoint::{CapturedPages, Continuation};
use monohull_visor::engine::{Ready, RunOptions};
use monohull_visor::report::{Silent, Status};
use monohull_visor::worker::{Bounds, copy_continuation, read_continuation, seal_continuation};
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use support::sleeper::{LEAST, go_on, sleeper};
use support::{report, suspended};

/// Bytes that the function has written before it sleeps.
const BYTES: usize = 3 << 20;

fn read(memory: &OwnedFd) -> Continuation<CapturedPages> {
    read_continuation(memory.try_clone().expect("a descriptor"), None).expect("a continuation")
}

/// One that sleeps, in sealed memory as well.
fn asleep(ready: &Ready) -> (Continuation, OwnedFd) {
    let first = suspended(go_on(ready, None, false)).continuation;
    let memory = seal_continuation(first.clone()).expect("memory");
    (first, memory)
}

#[test]
fn a_capture_after_pages_were_mapped_is_that_after_they_were_copied() {
    let ready = sleeper(BYTES, 40);
    let _one = support::one_at_a_time();
    let (first, memory) = asleep(&ready);
    let most = first.pages.iter().map(|run| run.bytes.len()).max().expect("pages");
    assert!(most >= BYTES, "they are side by side: {most}");
    // Nothing runs between.
    let copied = suspended(go_on(&ready, Some(first.clone().map_pages(CapturedPages::from)), false)).continuation;
    let mapped = suspended(go_on(&ready, Some(read(&memory)), false)).continuation;
    for again in [copied, mapped] {
        assert!(again.pages == first.pages && again.unchanged.is_empty());
        assert_eq!(again.instances, first.instances);
    }
    assert_eq!(copy_continuation(&memory, Bounds::NONE).expect("it is as it was"), first);
}

/// One writes to its pages and ends; the memory is as before, and so is what another one finds there.
#[test]
fn what_one_fork_writes_no_other_sees() {
    let ready = sleeper(BYTES, 40);
    let _one = support::one_at_a_time();
    let (first, memory) = asleep(&ready);
    for _ in 0..3 {
        let ended = report(go_on(&ready, Some(read(&memory)), true));
        assert_eq!(ended.status, Status::Done, "{:#?}", ended.error);
        assert_eq!(copy_continuation(&memory, Bounds::NONE).expect("it is as it was"), first);
        let other = suspended(go_on(&ready, Some(read(&memory)), false)).continuation;
        assert!(other.pages == first.pages);
    }
    let mappings = fs::read_to_string("/proc/self/maps").expect("mappings");
    assert!(!mappings.contains("memfd:monohull-pages"), "nothing of it is left: {mappings}");
}

/// A run that lies elsewhere than it may is neither mapped nor copied.
#[test]
fn pages_that_lie_elsewhere_are_refused_before_anything_is_mapped() {
    let ready = sleeper(BYTES, 40);
    let _one = support::one_at_a_time();
    let (first, _) = asleep(&ready);
    let large = first.pages.iter().position(|run| run.bytes.len() >= BYTES).expect("it is there");
    let end = {
        let instance = &first.instances[0];
        instance.heap_start + instance.heap
    };
    let code = first.pages[0].address - (64 << 20);
    for address in [end - 4096, end + (1 << 30), first.pages[large].address + 8, code, 0, u64::MAX - 4095] {
        let mut edited = first.clone();
        edited.pages[large].address = address;
        edited.pages.sort_by_key(|run| run.address);
        let memory = seal_continuation(edited).expect("memory");
        let options = RunOptions::default();
        let refused = ready.run_captured(Some(read(&memory)), Some(LEAST), None, &options, Arc::new(Silent));
        assert!(refused.is_err(), "{address:#x}");
    }
    let ended = report(go_on(&ready, Some(first.map_pages(CapturedPages::from)), true));
    assert_eq!(ended.status, Status::Done, "the control: {:#?}", ended.error);
}
