//! Files that released versions have written are read for ever, and this version writes what it says.

mod support;

use monohull_checkpoint::record::Contents;
use monohull_checkpoint::{Checkpoint, Packing, Trust};
use std::fs;
use std::path::{Path, PathBuf};
use support::{
    KEY, child, child_contents, contents, files, files_contents, memory, queue, queue_contents, requests,
    requests_contents, sample, sealed,
};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn check(name: &str, packing: Packing, says: &Contents) {
    check_stored(name, packing, says, 5);
}

fn check_stored(name: &str, packing: Packing, says: &Contents, stored: u64) {
    let bytes = fs::read(golden(name)).expect("it is kept");
    let read = Checkpoint::read(bytes.as_slice(), Trust::Key(&KEY)).expect("it is good");
    assert_eq!(read.contents(), says);
    assert_eq!((read.format(), read.packing(), read.stored_pages(), read.active_pages()), (1, packing, stored, 1));
    read.verify_pages().expect("its pages are good");
    let memory = memory();
    let mut page = [0; 4096];
    read.read_pages(0, &mut page).expect("it is stored");
    assert_eq!(page, *memory[1].bytes, "the active page is the first");
}

#[test]
fn format_1_with_raw_pages_is_read() {
    check("format-1-raw.checkpoint", Packing::Raw, &contents());
}

#[test]
fn format_1_with_compressed_pages_is_read() {
    check("format-1-lz4.checkpoint", Packing::Lz4, &contents());
}

#[test]
fn format_1_with_the_file_of_a_parent_is_read() {
    check("format-1-child.checkpoint", Packing::Raw, &child_contents());
}

#[test]
fn format_1_with_threads_that_wait_in_queues_is_read() {
    check("format-1-queue.checkpoint", Packing::Raw, &queue_contents());
}

#[test]
fn format_1_with_mapped_files_is_read() {
    check_stored("format-1-files.checkpoint", Packing::Raw, &files_contents(), 6);
}

#[test]
fn format_1_with_requests_is_read() {
    check("format-1-requests.checkpoint", Packing::Raw, &requests_contents());
}

/// How well pages are compressed may change with the library, so only raw ones are compared.
#[test]
fn this_version_writes_what_is_kept() {
    let kept = [
        ("format-1-raw.checkpoint", sample(Packing::Raw)),
        ("format-1-child.checkpoint", child()),
        ("format-1-queue.checkpoint", queue()),
        ("format-1-files.checkpoint", files()),
        ("format-1-requests.checkpoint", requests()),
    ];
    for (name, written) in kept {
        let written = sealed(&written);
        if fs::read(golden(name)).ok().as_ref() != Some(&written) {
            let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            fs::write(&made, written).expect("written");
            panic!(
                "{name} is not what this version writes ({made:?}): a changed record needs a new version of its section"
            );
        }
    }
}
