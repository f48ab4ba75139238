//! Whose a template is: the workflow's for which it was made, and in memory of the process that keeps it.

use super::super::template::{JobTemplate, Template};
use super::*;
use monohull_ipc::sealed::read_sealed;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

fn version() -> Arc<Ready> {
    Arc::new(Ready::of_parts(plan(), Vec::new(), 1))
}

/// What a process that makes one has sent.
fn sent() -> (Vec<u8>, OwnedFd) {
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|place| (place >> 4) as u8 | 1).collect();
    let file = seal(&bytes, 0).expect("memory");
    (bytes, file)
}

fn metadata(file: &OwnedFd) -> std::fs::Metadata {
    File::from(file.try_clone().expect("a descriptor")).metadata().expect("it is open")
}

/// The kernel charges a page of such memory to the group of the process that writes to it first. All are there before another process has it,
/// and none is one that the maker has written.
#[test]
fn its_pages_are_made_by_the_process_that_keeps_it() {
    let (bytes, made) = sent();
    let template = Template::of(&version(), 0, &made, bytes.len() as u64).expect("a template");
    let [theirs, kept] = [metadata(&made), metadata(template.file())];
    assert_ne!((theirs.dev(), theirs.ino()), (kept.dev(), kept.ino()), "the maker's memory goes with it");
    assert!(kept.blocks() * 512 >= bytes.len() as u64, "{} blocks", kept.blocks());
    drop(made);
    assert_eq!(read_sealed(template.file(), u64::MAX).expect("sealed"), bytes);
    assert_eq!(template.bytes(), bytes.len() as u64);
}

#[test]
fn one_that_is_too_long_is_not_kept() {
    let (bytes, made) = sent();
    Template::of(&version(), 0, &made, bytes.len() as u64 - 1).expect_err("it has a byte too many");
}

/// Two workflows that are equal in each byte may be two tenants'.
#[test]
fn it_is_used_for_no_other_workflow_however_equal() {
    let (own, equal) = (version(), version());
    let (bytes, made) = sent();
    let template = Arc::new(Template::of(&own, 1, &made, bytes.len() as u64).expect("a template"));
    let of = |workflow: &Arc<Ready>| JobTemplate::From(vec![template.clone()]).check(workflow);
    // Nor beside one that is of that one.
    let others = Arc::new(Template::of(&equal, 0, &made, bytes.len() as u64).expect("a template"));
    JobTemplate::From(vec![others.clone(), template.clone()]).check(&equal).expect_err("the second is of another one");
    JobTemplate::From(vec![others.clone()]).check(&equal).expect("it is of this one");
    of(&own).expect("it is of this one");
    let refusal = of(&equal).expect_err("it is of another one").to_string();
    assert!(refusal.contains("a template is of another workflow, or of another version"), "{refusal}");
    // Not even once its own is gone, whatever lies in that place of memory then.
    drop(own);
    assert!(!template.is_needed());
    for _ in 0..100 {
        of(&version()).expect_err("it is of one that is gone");
    }
}

/// What was kept elsewhere is looked at before a process gets it: a run begins without it then, and does not fail.
#[test]
fn what_was_kept_and_is_none_is_refused() {
    let (_, bytes) = sent();
    let why = Template::kept(&version(), 0, bytes).expect_err("it is none").to_string();
    assert!(why.contains("the template cannot be used"), "{why}");
    let open = tempfile::tempfile().expect("a file");
    Template::kept(&version(), 0, open.into()).expect_err("it may change");
}
