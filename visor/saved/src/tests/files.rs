//! Pages of files in memory: how many there may be, and that they are all read before a run goes on.

use super::*;
use monohull_abi::layout::FILES_BASE;
use monohull_checkpoint::Heat;

/// What the limits of [`checkpoint_of`] allow: memory and stack of an instance, slots, and files.
const MOST: u64 = ((2 << 20) + (64 << 10) + (1 << 20) + (16 << 20)) / PAGE;

/// A checkpoint of a workflow with 16 MiB for files in memory, of which so many pages have names. `equal` of them have one content, the others are zero.
fn checkpoint_of(named: u64, equal: u64) -> Vec<u8> {
    let document = String::from_utf8_lossy(DOCUMENT)
        .replace(
            "\"steps\"",
            "\"files\": [{ \"at\": \"/t\", \"memory\": \"16MiB\" }], \"limits\": { \"slots\": \"1MiB\" }, \"steps\"",
        )
        .replace("\"instances\"", "\"memory\": \"2MiB\", \"stack\": \"64KiB\", \"instances\"");
    let mut contents = contents();
    contents.plan = document.into_bytes();
    contents.identity.plan = Hash::of(&contents.plan);
    contents.modules[0].pages = vec![PageRange { start: FILES_BASE, count: named }];
    let content = vec![7; (equal * PAGE) as usize];
    let mut pages = Pages::new();
    if equal > 0 {
        pages.here(FILES_BASE, &content, Heat::Rest).expect("pages");
    }
    pages.zero(FILES_BASE + equal * PAGE, named - equal).expect("pages");
    let mut bytes = Vec::new();
    write(&mut bytes, &contents, &pages, Packing::Raw).expect("written");
    bytes
}

#[test]
fn as_many_pages_as_the_workflow_may_have_are_read_and_no_more() {
    for equal in [0, 1000] {
        let bytes = checkpoint_of(MOST, equal);
        assert!(bytes.len() < 1 << 20, "equal pages are stored once");
        let read = of(&alone(&bytes), plan).expect("right").continuation.pages;
        assert_eq!(read.iter().map(|run| run.bytes.len() as u64).sum::<u64>(), MOST * PAGE);
        assert_eq!(read[0].address, FILES_BASE);
        let refused = of(&alone(&checkpoint_of(MOST + 1, equal)), plan);
        assert!(matches!(refused, Err(NotOurs::Other(reason)) if reason.contains("limits allow")));
    }
}

/// A module reads and writes them without a fault that could be waited for, unlike pages of functions of the same number.
#[test]
fn they_are_read_at_once() {
    const COUNT: u64 = 200;
    let left = |bytes: &[u8]| {
        let chain = alone(bytes);
        let (_, left) = Saved::of(&chain, plan, Reading::SmallParts).expect("right");
        left.iter().map(|piece| piece.run.count).sum::<u64>()
    };
    assert_eq!(left(&checkpoint_of(COUNT, COUNT)), 0);
    let mut contents = contents();
    let heap = contents.instances[0].heap_start;
    contents.instances[0].heap_end = heap + COUNT * PAGE;
    let content = vec![7; (COUNT * PAGE) as usize];
    let mut pages = Pages::new();
    pages.here(heap, &content, Heat::Rest).expect("pages");
    let mut bytes = Vec::new();
    write(&mut bytes, &contents, &pages, Packing::Raw).expect("written");
    assert_eq!(left(&bytes), COUNT, "the control");
}
