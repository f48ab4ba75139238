//! A process that is killed between any two stores leaves an image in which everything is as before or as after what it was doing.

use crate::{ME, Slice, checked, closed, domain, formatted};
use lamfat::FatType;
use monohull_abi::Errno;
use monohull_abi::file::{FileKind, open};
use monohull_fat::check::{Finding, check, repair};
use monohull_fat::{Error, Image, ImageMut};
use monohull_module_testing::Files;
use std::collections::BTreeMap;

/// Every file and directory, and what a file holds.
type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// What is there before.
fn prepare(files: Files<'_>) {
    let put = |name: &str, byte: u8, size: usize| {
        let descriptor = files.make(name);
        files.write(descriptor, &vec![byte; size]).unwrap();
        files.close(descriptor).unwrap();
    };
    files.make_directory("/fat/kept").unwrap();
    put("/fat/kept/one", 1, 3000);
    put("/fat/kept/a second one", 2, 9000);
    put("/fat/old", 3, 2000);
    put("/fat/kept/target with a long name", 4, 5000);
    put("/fat/kept/x1", 5, 600);
    put("/fat/kept/x2", 6, 1400);
    // Free clusters and slots are not empty: what was in them must not come back.
    for n in 0..6 {
        put(&format!("/fat/kept/was there before {n}"), b'A', 3000);
    }
    for n in 0..6 {
        files.remove_file(&format!("/fat/kept/was there before {n}")).unwrap();
    }
}

/// What is interrupted, with a look after each step. No answer counts: from some moment on nothing that is stored stays.
fn work(files: Files<'_>, mut look: impl FnMut()) {
    let mut done = |_: Result<(), Errno>| look();
    done(files.make_directory("/fat/new"));
    let file = files.open("/fat/new/a file with a long name", open::READ | open::WRITE | open::CREATE).unwrap_or(0);
    done(Ok(()));
    for _ in 0..5 {
        done(files.write(file, &[9; 700]).map(drop));
    }
    done(files.resize(file, 1000));
    done(files.resize(file, 2600));
    done(files.close(file));
    // In the same directory, to a name with as many slots.
    done(files.rename("/fat/new/a file with a long name", "/fat/new/b file with a long name"));
    // Somewhere else, in the place of another.
    done(files.rename("/fat/new/b file with a long name", "/fat/kept/target with a long name"));
    done(files.rename("/fat/kept/x1", "/fat/kept/x2"));
    done(files.rename("/fat/kept/a second one", "/fat/kept/A Second One"));
    done(files.remove_file("/fat/old"));
    // A directory that grows, and moves.
    for n in 0..4 {
        let file = files.open(&format!("/fat/new/more of them {n}"), open::WRITE | open::CREATE).unwrap_or(0);
        done(Ok(()));
        done(files.write(file, &[n; 100]).map(drop));
        done(files.close(file));
    }
    done(files.rename("/fat/new", "/fat/kept/new"));
    // Files that are open when they lose their names.
    let (one, other) = (files.open("/fat/kept/x2", open::READ), files.open("/fat/kept/one", open::READ));
    done(files.remove_file("/fat/kept/x2"));
    done(files.rename("/fat/kept/new/more of them 1", "/fat/kept/one"));
    done(files.close(one.unwrap_or(0)).and(files.close(other.unwrap_or(0))));
    for n in [0, 2, 3] {
        done(files.remove_file(&format!("/fat/kept/new/more of them {n}")));
    }
    done(files.remove_directory("/fat/kept/new"));
}

/// Everything in the image; of a file that cannot be read why not. Two may have one name: it leads to one of them.
fn tree(files: Files<'_>) -> Tree {
    let (mut tree, mut open) = (Tree::new(), vec!["/fat".to_owned()]);
    while let Some(directory) = open.pop() {
        for name in files.list(&directory).expect("a directory can be listed") {
            let path = format!("{directory}/{}", name.trim_end_matches('/'));
            let is_directory = files.stat(&path).expect("what is listed is there").kind == FileKind::Directory as u32;
            let content = (!is_directory).then(|| files.read(&path).unwrap_or_else(|errno| errno.to_string().into()));
            tree.insert(path.clone(), content);
            if is_directory {
                open.push(path);
            }
        }
    }
    tree
}

/// How many have a name that another one in their directory has.
fn namesakes(files: Files<'_>) -> usize {
    let (mut count, mut open) = (0, vec!["/fat".to_owned()]);
    while let Some(directory) = open.pop() {
        let mut names = files.list(&directory).expect("a directory can be listed");
        open.extend(names.iter().filter_map(|name| Some(format!("{directory}/{}", name.strip_suffix('/')?))));
        names.sort();
        let all = names.len();
        names.dedup();
        count += all - names.len();
    }
    count
}

/// An image that can be changed.
pub(crate) struct Owned(pub(crate) Vec<u8>);

impl Image for Owned {
    fn len(&self) -> u64 {
        Slice(&self.0).len()
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        Slice(&self.0).read(offset, to)
    }
}

impl ImageMut for Owned {
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.0[offset as usize..offset as usize + from.len()].copy_from_slice(from);
        Ok(())
    }
}

fn prepared(kind: FatType) -> Vec<u8> {
    let domain = domain(formatted(kind));
    prepare(domain.files(ME));
    closed(domain)
}

/// How it looks before the first step, after it, and so on.
fn states(before: &[u8]) -> Vec<Tree> {
    let domain = domain(before.to_vec());
    let mut states = vec![tree(domain.files(ME))];
    work(domain.files(ME), || states.push(tree(domain.files(ME))));
    states
}

/// Whether an image that was left in the middle of a step shows all that is there before and after, and nothing that is neither: of
/// what changes its name there may be both.
fn is_between(found: &Tree, before: &Tree, after: &Tree) -> bool {
    let known = |(path, content): (&String, &_)| before.get(path) == Some(content) || after.get(path) == Some(content);
    let in_both = |path: &&String| after.contains_key(*path);
    found.iter().all(known) && before.keys().filter(in_both).all(|path| found.contains_key(path))
}

/// The distance between two numbers of stores that are tried. The closing lines of `cargo xtask test` say that it is a sample; with
/// `--full` each is tried, and in large images every third.
fn stride(kind: FatType) -> u64 {
    let sampled = if std::env::var_os("MONOHULL_EXHAUSTIVE").is_some() { 1 } else { 3 };
    sampled * if kind == FatType::Fat32 { 3 } else { 1 }
}

fn killed_after_any_number_of_stores(kind: FatType) {
    let before = prepared(kind);
    let states = states(&before);
    let mut stores = 0;
    loop {
        let killed = domain(before.clone());
        killed.cut_off_after(stores);
        work(killed.files(ME), || ());
        let done = killed.cut_off_after(0) > 0;
        let mut image = Owned(closed(killed));
        let what = format!("{kind:?} after {stores} stores");
        // Used as it is, and after it was put right.
        let found = tree(domain(image.0.clone()).files(ME));
        let report = repair(&mut image).unwrap();
        assert!(!report.findings.iter().any(Finding::loses_data), "{what}: {:?}", report.findings);
        let steps = states.windows(2).any(|step| is_between(&found, &step[0], &step[1]));
        assert!(steps, "{what}: {:?}, {:?}", sizes(&found), report.findings);
        assert_eq!(check(&image).unwrap().findings, [], "{what} and a repair");
        let repaired = domain(image.0);
        assert_eq!(namesakes(repaired.files(ME)), 0, "{what} and a repair: {:?}", report.findings);
        let repaired = tree(repaired.files(ME));
        assert!(states.contains(&repaired), "{what} and a repair: {:?}, {:?}", sizes(&repaired), report.findings);
        // What was to be seen is not taken back.
        let stays = |(path, content): (&String, &_)| found.get(path).is_none_or(|shown| shown == content);
        assert!(repaired.iter().all(stays), "{what}: {:?} and {:?}", sizes(&found), sizes(&repaired));
        if done {
            break;
        }
        stores += stride(kind);
    }
    assert!(stores > 200, "{kind:?}: only {stores} stores");
}

#[test]
fn killed_after_any_number_of_stores_in_fat12() {
    killed_after_any_number_of_stores(FatType::Fat12);
}

#[test]
fn killed_after_any_number_of_stores_in_fat16() {
    killed_after_any_number_of_stores(FatType::Fat16);
}

#[test]
fn killed_after_any_number_of_stores_in_fat32() {
    killed_after_any_number_of_stores(FatType::Fat32);
}

/// A tree, short enough to be printed.
fn sizes(tree: &Tree) -> Vec<(&str, Option<usize>)> {
    tree.iter().map(|(path, content)| (path.as_str(), content.as_ref().map(Vec::len))).collect()
}

#[test]
fn an_image_that_was_not_closed_stays_so_until_it_is_checked() {
    let mut image = prepared(FatType::Fat16);
    let flag = monohull_fat::Geometry::read(&Slice(&image)).unwrap().dirty_flag() as usize;
    image[flag] |= 1;
    let used = domain(image);
    let file = used.files(ME).make("/fat/new");
    used.files(ME).write(file, b"text").unwrap();
    used.files(ME).close(file).unwrap();
    let mut image = Owned(closed(used));
    assert_eq!(repair(&mut image).unwrap().findings, [Finding::NotClosed]);
    assert_eq!(checked(domain(image.0)).findings, []);
}
