//! Which files have compressed pages.

use super::*;
use std::fs::File;
use tempfile::TempDir;

#[test]
fn pages_of_small_files_are_compressed_and_of_large_or_encrypted_ones_not() {
    let folder = TempDir::new().expect("a folder");
    let small = saved();
    let written = small.write(folder.path(), "small", &KEY, None).expect("written");
    let read =
        |path: &Path| Checkpoint::read(File::open(path).expect("it is there"), Trust::Key(&KEY)).expect("a checkpoint");
    assert_eq!(read(&written.path).packing(), Packing::Lz4);
    let bytes = small.to_bytes(&folder.path().join("small"), &KEY).expect("bytes");
    assert_eq!(Checkpoint::read(&bytes[..], Trust::Key(&KEY)).expect("a checkpoint").packing(), Packing::Lz4);

    let most = PACKED_MOST / PAGE;
    for (pages, packing) in [(most, Packing::Lz4), (most + 1, Packing::Raw)] {
        let written = Many::saved(0..pages, 0, Vec::new()).write(folder.path(), &pages.to_string(), &KEY, None);
        assert_eq!(read(&written.expect("written").path).packing(), packing, "{pages}");
    }

    // The length of an encrypted one tells how many pages there are, and no more.
    let key = state_key(folder.path());
    let keys = Keys { seal: &KEY, state: Some(&key) };
    let encrypted = small.write(folder.path(), "encrypted", keys, None).expect("written");
    let pages = read(&written.path).stored_pages() * PAGE;
    let length = |path: &Path| fs::metadata(path).expect("it is there").len();
    assert!(length(&encrypted.path) > pages && length(&written.path) < pages, "{pages}");
    // So does that of one that is encrypted afterwards.
    let bytes = small.to_bytes(&folder.path().join("encrypted"), keys).expect("bytes");
    assert_eq!(Checkpoint::read(&bytes[..], Trust::Key(&KEY)).expect("a checkpoint").packing(), Packing::Raw);
}
