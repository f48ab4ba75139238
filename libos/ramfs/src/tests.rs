//! Records of trees with one field changed: each is refused, and says where.

use crate::MONOHULL_MODULE;
use crate::fields::{DirectoryRecord, FileRecord, NameRecord, PlaceRecord, TreeRecord};
use monohull_abi::file::{FileStat, FsOp, MountInfo, MountKind, open};
use monohull_abi::number;
use monohull_module_testing::{Captured, Domain};
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// Bytes of the version at the start of a record.
const VERSION: usize = 4;
const CHUNK: u64 = 2 << 20;

fn call(domain: &Domain, op: FsOp, args: [u64; 5]) -> u64 {
    let [a, b, c, d, e] = args;
    let value = domain.system(number::RAMFS, [op.word(0), a, b, c, d, e]);
    u64::try_from(value).expect("it works")
}

fn make(domain: &Domain, path: &str, bytes: &[u8]) -> u64 {
    let mut stat = FileStat::default();
    let args = [path.as_ptr() as u64, path.len() as u64, open::WRITE | open::CREATE, &raw mut stat as u64, 0];
    let node = call(domain, FsOp::Open, args);
    call(domain, FsOp::Write, [node, 0, bytes.as_ptr() as u64, bytes.len() as u64, 0]);
    node
}

/// Directories "d" and "d/e"; files "a", "d/b" and an open one without a name.
fn scene() -> Captured {
    let mount = MountInfo { kind: MountKind::Memory, read_only: 0, size: 1 << 20 };
    let domain = Domain::with_mounts(&[&MONOHULL_MODULE], vec![(mount, "/".to_string())]);
    for path in ["d", "d/e"] {
        call(&domain, FsOp::MakeDirectory, [path.as_ptr() as u64, path.len() as u64, 0, 0, 0]);
    }
    make(&domain, "a", b"words");
    make(&domain, "d/b", b"other words");
    make(&domain, "gone", b"gone");
    call(&domain, FsOp::RemoveFile, ["gone".as_ptr() as u64, 4, 0, 0, 0]);
    domain.capture().unwrap()
}

/// What is answered to a record with this change of its only tree.
fn resumed(captured: &Captured, change: &dyn Fn(&mut TreeRecord<'_>)) -> Result<(), String> {
    let mut edited = captured.clone();
    let (mut trees, bytes): (Vec<TreeRecord<'_>>, _) =
        postcard::take_from_bytes(&captured.records[0][VERSION..]).unwrap();
    change(&mut trees[0]);
    edited.records[0].truncate(VERSION);
    edited.records[0].extend(postcard::to_allocvec(&trees).unwrap());
    edited.records[0].extend(bytes);
    Domain::resume(&[&MONOHULL_MODULE], &edited).map(drop)
}

fn file<'t>(tree: &'t mut TreeRecord<'_>, index: usize) -> &'t mut FileRecord {
    tree.places[index].file.as_mut().expect("a file")
}

#[test]
fn every_field_that_lies_is_refused() {
    let captured = scene();
    assert_eq!(resumed(&captured, &|_| ()), Ok(()));
    let refuse = |words: &str, change: &dyn Fn(&mut TreeRecord<'_>)| match resumed(&captured, change) {
        Ok(()) => panic!("not refused: {words}"),
        Err(refused) => assert!(refused.contains(words), "{refused:?} has no {words:?}"),
    };
    refuse("mount 1 is no memory", &|tree| tree.mount = 1);
    refuse("mount 4294967295 is no memory", &|tree| tree.mount = u32::MAX);
    for next in [0, 1 << 63, u64::MAX] {
        refuse("the numbers of its files", &|tree| tree.next = next);
    }
    refuse("the numbers of its files", &|tree| tree.directories[2].node = tree.directories[1].node);
    refuse("the numbers of its files", &|tree| tree.directories.clear());
    refuse("directory 0", &|tree| tree.directories[0].node = 7);
    refuse("directory 0", &|tree| tree.directories[0].name = "root");
    refuse("directory 1", &|tree| tree.directories[1].node = 7);
    for parent in [1, 2, u32::MAX] {
        refuse("directory 1", &|tree| tree.directories[1].parent = parent);
    }
    for name in ["", ".", "..", "x/y", "x\0", LONG] {
        refuse("directory 1", &|tree| tree.directories[1].name = name);
        refuse("name 0", &|tree| tree.names[0].name = name);
    }
    refuse("directory 1", &|tree| (tree.directories[2].parent, tree.directories[2].name) = (0, "d"));
    refuse("directory 1", &|tree| tree.directories[1].name = "a");
    refuse("name 0", &|tree| tree.names[0].directory = 3);
    refuse("name 0", &|tree| tree.names[0].place = 3);
    refuse("name 1", &|tree| tree.names[1].place = tree.names[0].place);
    refuse("name 2", &|tree| tree.names.push(NameRecord { directory: 0, name: "a", place: 2 }));
    refuse("file 2", &|tree| file(tree, 2).opened = 0);
    refuse("file 0", &|tree| file(tree, 0).opened = u32::MAX);
    refuse("file 0", &|tree| (tree.places[0].file, tree.free) = (None, vec![0]));
    refuse("the numbers of its files", &|tree| tree.free = vec![0]);
    refuse("the numbers of its files", &|tree| tree.free = vec![9]);
    refuse("the numbers of its files", &|tree| tree.places.push(PlaceRecord { generation: 0, file: None }));
    refuse("the numbers of its files", &|tree| {
        tree.places.push(PlaceRecord { generation: 0, file: None });
        tree.free = vec![3, 3];
    });
    refuse("file 0", &|tree| file(tree, 0).size = u64::MAX);
    refuse("file 0", &|tree| file(tree, 0).chunks = vec![(0, 0)]);
    refuse("file 0", &|tree| file(tree, 0).chunks = vec![(0, 100)]);
    refuse("file 0", &|tree| file(tree, 0).chunks = vec![(0, 2 * CHUNK)]);
    refuse("file 0", &|tree| file(tree, 0).chunks = vec![(1, 4096)]);
    refuse("file 0", &|tree| file(tree, 0).chunks = vec![(u64::MAX, 4096)]);
    refuse("file 0", &|tree| file(tree, 0).chunks = vec![(0, 4096), (0, 4096)]);
    refuse("file 0", &|tree| file(tree, 0).size = 5000);
    refuse("the file system is full", &|tree| file(tree, 0).chunks = vec![(0, CHUNK)]);
    refuse("bytes behind its end", &|tree| file(tree, 0).size = 4);
    refuse("the file system is full", &|tree| {
        for node in 0..4000 {
            let name = std::format!("{node}").leak();
            let node = tree.next + node;
            tree.directories.push(DirectoryRecord { parent: 0, name, node, created: 0, modified: 0 });
        }
        tree.next += 4000;
    });
}

/// Longer than a name may be.
const LONG: &str = match str::from_utf8(&[b'n'; 256]) {
    Ok(name) => name,
    Err(_) => "",
};

#[test]
fn a_tree_deeper_than_any_stack_goes_through_a_record() {
    let mount = MountInfo { kind: MountKind::Memory, read_only: 0, size: 64 << 20 };
    let domain = Domain::with_mounts(&[&MONOHULL_MODULE], vec![(mount, "/".to_string())]);
    make(&domain, "a", b"words");
    let captured = domain.capture().unwrap();
    drop(domain);
    let deep = |tree: &mut TreeRecord<'_>| {
        for depth in 0..100_000 {
            let node = tree.next + depth;
            let parent = tree.directories.len() as u32 - 1;
            tree.directories.push(DirectoryRecord { parent, name: "d", node, created: 0, modified: 0 });
        }
        tree.next += 100_000;
    };
    assert_eq!(resumed(&captured, &deep), Ok(()));
}

/// What no checkpoint can have is named before any of it is copied.
#[test]
fn files_that_are_too_large_for_a_record_are_named() {
    let mount = |size| MountInfo { kind: MountKind::Memory, read_only: 0, size };
    let mounts = vec![(mount(1 << 20), "/".to_string()), (mount(8 << 30), "/t".to_string())];
    let domain = Domain::with_mounts(&[&MONOHULL_MODULE], mounts);
    make(&domain, "a", b"words");
    let mut stat = FileStat::default();
    let args = ["b".as_ptr() as u64, 1, open::WRITE | open::CREATE, &raw mut stat as u64, 0];
    let node = domain.system(number::RAMFS, [FsOp::Open.word(1), args[0], args[1], args[2], args[3], args[4]]);
    // A byte of each chunk: the others take no memory until they are written to.
    for chunk in 0..2047 {
        let byte = b"x".as_ptr() as u64;
        let args = [FsOp::Write.word(1), node as u64, chunk * CHUNK + CHUNK - 1, byte, 1, 0];
        assert_eq!(domain.system(number::RAMFS, args), 1);
    }
    let why = domain.capture().map(drop).unwrap_err();
    let words = "files in memory at `/t`: they hold 4292870144 bytes, and a checkpoint has at most 4227858432 of all such files";
    assert_eq!(why, words);
}
