//! Records of trees with one field changed: each is refused, and says where.

use crate::MONOHULL_MODULE;
use crate::fields::{AccessedRecord, DirectoryRecord, FileRecord, NameRecord, PlaceRecord, TreeRecord};
use monohull_abi::file::{FileStat, FsOp, MountInfo, MountKind, open};
use monohull_abi::layout::{FILES_BASE, FILES_SIZE};
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
    refuse("the file system is full", &|tree| file(tree, 0).chunks = vec![(0, CHUNK)]);
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

/// A record with its three lists.
type Lists<'r> = (Vec<TreeRecord<'r>>, Vec<AccessedRecord>, Vec<u32>);

/// What is answered to a record with this change of the places of its chunks.
fn with_places(captured: &Captured, change: &dyn Fn(&mut Vec<u32>)) -> Result<Domain, String> {
    let mut edited = captured.clone();
    let (trees, accessed, mut places): Lists<'_> = postcard::from_bytes(&captured.records[0][VERSION..]).unwrap();
    change(&mut places);
    let lists = postcard::to_allocvec(&(trees, accessed, places)).unwrap();
    edited.records[0].splice(VERSION.., lists);
    Domain::resume(&[&MONOHULL_MODULE], &edited)
}

#[test]
fn chunks_are_at_places_of_their_own() {
    let captured = scene();
    assert!(with_places(&captured, &|_| ()).is_ok());
    let last = (FILES_SIZE / CHUNK) as u32 - 1;
    assert!(with_places(&captured, &|places| *places = vec![last, 7, 0]).is_ok());
    let refuse = |words: &str, change: &dyn Fn(&mut Vec<u32>)| match with_places(&captured, change) {
        Ok(_) => panic!("not refused: {words}"),
        Err(refused) => assert!(refused.contains(words), "{refused:?} has no {words:?}"),
    };
    refuse("file 1", &|places| places[1] = places[0]);
    refuse("file 2", &|places| places[2] = places[0]);
    refuse("file 0", &|places| places[0] = last + 1);
    refuse("file 0", &|places| places[0] = u32::MAX);
    refuse("file 0", &|places| places.clear());
    refuse("file 2", &|places| places.truncate(2));
    refuse("1 places without chunks", &|places| places.push(last));
}

fn read(domain: &Domain, node: u64, offset: u64, bytes: usize) -> Vec<u8> {
    let mut into = vec![0; bytes];
    let args = [node, offset, into.as_mut_ptr() as u64, bytes as u64, 0];
    let read = call(domain, FsOp::Read, args);
    into.truncate(read as usize);
    into
}

/// What files contain is in pages, under names that stay the same, and what no file has any more is in none.
#[test]
fn pages_are_those_that_files_have() {
    let mount = MountInfo { kind: MountKind::Memory, read_only: 0, size: 64 << 20 };
    let domain = Domain::with_mounts(&[&MONOHULL_MODULE], vec![(mount, "/".to_string())]);
    let write = |node, offset, bytes: &[u8]| {
        call(&domain, FsOp::Write, [node, offset, bytes.as_ptr() as u64, bytes.len() as u64, 0]);
    };
    let (gone, large) = (make(&domain, "gone", b"a secret that was removed"), make(&domain, "large", b"first"));
    write(large, 3 * CHUNK + 5, b"last");
    let cut = make(&domain, "cut", &vec![b'c'; 3 * 4096]);
    call(&domain, FsOp::Resize, [cut, 4096 + 5, 0, 0, 0]);
    call(&domain, FsOp::RemoveFile, ["gone".as_ptr() as u64, 4, 0, 0, 0]);
    call(&domain, FsOp::Close, [gone, 0, 0, 0, 0]);
    let captured = domain.capture().unwrap();
    let has = |captured: &Captured, word: &[u8]| {
        let pages = captured.file_pages.values();
        let records = captured.records.iter();
        pages.chain(records).any(|bytes| bytes.windows(word.len()).any(|found| found == word))
    };
    assert!(has(&captured, b"first") && has(&captured, b"last") && !has(&captured, b"secret"));
    assert!(captured.records[0].len() < 256, "{} bytes of structure", captured.records[0].len());
    let sizes: Vec<usize> = captured.file_pages.values().map(Vec::len).collect();
    assert_eq!(sizes, [4096, 4096, 2 * 4096], "the chunks of the holes are not there, nor what was cut");
    // A place that is free again is the next chunk's.
    let again = make(&domain, "again", b"again");
    write(large, 0, b"other");
    let next = domain.capture().unwrap();
    let names = |captured: &Captured| captured.file_pages.keys().copied().collect::<Vec<_>>();
    assert!(names(&captured)[0] > FILES_BASE && names(&next)[0] == FILES_BASE, "{:?}", names(&next));
    assert!(names(&captured).iter().all(|name| next.file_pages.contains_key(name)), "{:?}", names(&next));
    drop(domain);
    let resumed = Domain::resume(&[&MONOHULL_MODULE], &next).unwrap();
    assert_eq!(read(&resumed, large, 0, 6), b"other\0");
    assert_eq!(read(&resumed, large, 3 * CHUNK + 4, 9), b"\0last");
    assert_eq!(read(&resumed, again, 0, 9), b"again");
    assert_eq!(read(&resumed, cut, 4095, 9), b"cccccc");
}

/// The records of earlier versions have the bytes of the files behind the trees.
#[test]
fn records_of_earlier_versions_are_read() {
    let captured = scene();
    let (trees, accessed, _): Lists<'_> = postcard::from_bytes(&captured.records[0][VERSION..]).unwrap();
    let bytes = b"wordsother wordsgone";
    let record = |version: u32, lists: Vec<u8>, bytes: &[u8]| {
        let mut earlier = captured.clone();
        earlier.records = vec![[&version.to_le_bytes()[..], &lists, bytes].concat()];
        earlier.file_pages.clear();
        Domain::resume(&[&MONOHULL_MODULE], &earlier)
    };
    let lists = |version| match version {
        1 => postcard::to_allocvec(&trees).unwrap(),
        _ => postcard::to_allocvec(&(&trees, &accessed)).unwrap(),
    };
    for version in [1, 2] {
        let resumed = record(version, lists(version), bytes).unwrap();
        let text: Vec<String> = (0..3).map(|node| String::from_utf8(read(&resumed, node, 0, 64)).unwrap()).collect();
        assert_eq!(text, ["words", "other words", "gone"], "version {version}");
        let next = resumed.capture().unwrap();
        assert_eq!((next.records[0][0], next.file_pages.len()), (3, 3), "it is captured as any other");
        drop(resumed);
        let refused = [(&bytes[..19], "file 2"), (b"wordsother wordsgone!", "1 bytes behind its end")];
        for (bytes, words) in refused {
            let refused = record(version, lists(version), bytes).map(drop).unwrap_err();
            assert!(refused.contains(words), "{refused:?} has no {words:?}");
        }
    }
}
