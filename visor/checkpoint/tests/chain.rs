//! Checkpoints that have only what changed: what is read of a chain is what was there, and a chain that is not as it was made is refused
//! with the name of the file that is wrong.

mod support;

use monohull_abi::layout::{PAGE, cell_base};
use monohull_checkpoint::record::{CHAIN_MAX, ChainRecord, Parent};
use monohull_checkpoint::{
    Chain, Checkpoint, CheckpointId, Content, Error, Heat, Key, Packing, Pages, Trust, check_unchanged, compare_chains,
    seal, write,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use support::{CELLS, KEY, Parts, STACK, contents, record};

/// Files of a folder.
type Folder = BTreeMap<String, Vec<u8>>;
/// Memory: the byte that fills each page that is there.
type Memory = BTreeMap<u64, u8>;

fn heap() -> u64 {
    cell_base(CELLS[0]) + STACK + 16 * PAGE
}

fn page(fill: u8) -> Vec<u8> {
    vec![fill; PAGE as usize]
}

/// Adds a checkpoint of this memory to a folder, sealed by a key: whole, or with what is not as in the one with a name.
fn add(folder: &mut Folder, name: &str, memory: &Memory, before: Option<(&str, &Memory)>, key: &Key) {
    let mut contents = contents();
    contents.identity.id = CheckpointId::random().expect("a number");
    contents.identity.parent = None;
    if let Some((file, _)) = before {
        let parent = Checkpoint::read(folder[file].as_slice(), Trust::Unchecked).expect("it was written");
        contents.identity.parent = Some(Parent { id: parent.contents().identity.id, digest: parent.digest() });
        let depth = parent.contents().chain.as_ref().map_or(0, |chain| chain.depth) + 1;
        contents.chain = Some(ChainRecord { file: file.to_owned(), depth });
    }
    let fills: BTreeMap<u64, Vec<u8>> = memory.iter().map(|(at, fill)| (*at, page(*fill))).collect();
    let mut pages = Pages::new();
    for (at, bytes) in &fills {
        let address = heap() + at * PAGE;
        match before.is_some_and(|(_, before)| before.get(at) == memory.get(at)) {
            true => pages.parent(address, 1),
            false => pages.here(address, bytes, Heat::Rest),
        }
        .expect("the heap");
    }
    let mut bytes = Vec::new();
    write(&mut bytes, &contents, &pages, Packing::Lz4).expect("written");
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&bytes).expect("written");
    seal(&file, key).expect("sealed");
    file.read_exact_at(&mut bytes, 0).expect("read");
    folder.insert(name.to_owned(), bytes);
}

fn read<'f>(folder: &'f Folder, name: &str) -> Result<Chain<&'f [u8]>, Error> {
    let open = |name: &str| folder.get(name).map(Vec::as_slice).ok_or(io::Error::from(io::ErrorKind::NotFound));
    let chain = Chain::read(open(name).expect("the newest"), Trust::Key(&KEY), open)?;
    chain.verify_pages()?;
    Ok(chain)
}

/// The memory that a chain stands for.
fn memory_of(chain: &Chain<&[u8]>) -> Memory {
    let mut memory = Memory::new();
    for piece in chain.pieces() {
        let first = (piece.run.address - heap()) / PAGE;
        let mut bytes = vec![0; (piece.run.count * PAGE) as usize];
        match piece.run.content {
            Content::Here { .. } => chain.read_pages(*piece, &mut bytes).expect("stored"),
            content => assert_eq!(content, Content::Zero),
        }
        for (at, bytes) in (first..).zip(bytes.chunks(PAGE as usize)) {
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            memory.insert(at, bytes[0]);
        }
    }
    memory
}

/// Three checkpoints: `a`, `b` after `a`, `c` after `b`. Each changes a page, drops one and adds one.
fn three() -> (Folder, [Memory; 3]) {
    let memories: [Memory; 3] = [
        [(0, 1), (1, 2), (2, 3), (3, 4)].into(),
        [(0, 1), (1, 20), (3, 4), (4, 5)].into(),
        [(0, 1), (1, 20), (2, 0), (3, 40), (5, 6)].into(),
    ];
    let mut folder = Folder::new();
    add(&mut folder, "a", &memories[0], None, &KEY);
    add(&mut folder, "b", &memories[1], Some(("a", &memories[0])), &KEY);
    add(&mut folder, "c", &memories[2], Some(("b", &memories[1])), &KEY);
    (folder, memories)
}

/// Reads `c` of a folder that is wrong; the error, which names this file.
fn refused(folder: &Folder, file: &str) -> String {
    let error = read(folder, "c").expect_err("it is wrong");
    assert!(!error.is_hosts(), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("it takes pages from {file}, which ")), "{text}");
    text
}

#[test]
fn each_of_a_chain_is_what_it_was_made_of() {
    let (folder, memories) = three();
    for (name, (depth, memory)) in ["a", "b", "c"].iter().zip(memories.iter().enumerate()) {
        let chain = read(&folder, name).expect("right");
        assert_eq!((chain.depth(), &memory_of(&chain)), (depth, memory), "{name}");
    }
    let stored = |name: &str| read(&folder, name).expect("right").newest().stored_pages();
    assert_eq!((stored("a"), stored("b"), stored("c")), (4, 2, 2), "what changed, and no zeros");
}

#[test]
fn chains_are_compared_by_what_they_stand_for() {
    let (mut folder, memories) = three();
    add(&mut folder, "whole", &memories[2], None, &KEY);
    let [a, c, whole] = ["a", "c", "whole"].map(|name| read(&folder, name).expect("right"));
    assert!(compare_chains(&c, &whole).is_same());
    let found = compare_chains(&a, &c);
    assert_eq!((found.same_pages, found.changed_pages, found.added_pages, found.removed_pages), (1, 3, 1, 0));
}

#[test]
fn a_parent_that_is_missing_is_named() {
    let (mut folder, _) = three();
    let a = folder.remove("a").expect("it is there");
    refused(&folder, "a");
    folder.insert("a".to_owned(), a);
    folder.remove("b");
    refused(&folder, "b");
}

#[test]
fn a_parent_that_is_damaged_is_named() {
    for name in ["a", "b"] {
        let (good, _) = three();
        for at in (0..good[name].len()).step_by(7) {
            let mut folder = good.clone();
            folder.get_mut(name).expect("it is there")[at] ^= 4;
            // There is more than one way to compress a page.
            let Err(error) = read(&folder, "c") else { continue };
            assert!(error.to_string().contains(&format!("pages from {name}, which")), "byte {at}: {error}");
        }
        let mut folder = good.clone();
        folder.get_mut(name).expect("it is there").truncate(200);
        assert!(refused(&folder, name).contains("truncated"));
    }
}

/// Sealed by the same key, of the same memory, and with the same name: but it is not that very file.
#[test]
fn another_checkpoint_does_not_take_a_parents_place() {
    let (mut folder, memories) = three();
    add(&mut folder, "b", &memories[1], Some(("a", &memories[0])), &KEY);
    assert!(refused(&folder, "b").contains("it is not the parent"));
}

#[test]
fn a_parent_of_another_key_or_without_a_seal_is_named() {
    let (mut folder, memories) = three();
    add(&mut folder, "a", &memories[0], None, &Key::new([8; 32]));
    assert!(refused(&folder, "a").contains("another key has sealed it"));
    let (mut folder, _) = three();
    let file = folder.get_mut("a").expect("it is there");
    file[40..48].fill(0);
    file[96..128].fill(0);
    assert!(refused(&folder, "a").contains("no key has sealed it"));
}

#[test]
fn parents_that_were_exchanged_are_named() {
    let (mut folder, _) = three();
    let (a, b) = (folder["a"].clone(), folder["b"].clone());
    folder.insert("a".to_owned(), b);
    folder.insert("b".to_owned(), a);
    assert!(refused(&folder, "b").contains("checkpoints before it"));
}

/// A stranger's file, with hashes that fit.
#[test]
fn what_no_chain_has_is_refused() {
    let (good, _) = three();
    let parent = Checkpoint::read(good["a"].as_slice(), Trust::Unchecked).expect("good");
    let named = |file: &str, depth| Some(ChainRecord { file: file.to_owned(), depth });
    let long = "x".repeat(256);
    let wrong = [
        (named("../a", 1), "no name of a file"),
        (named("/a", 1), "a path"),
        (named("..", 1), "a folder"),
        (named("", 1), "no name"),
        (named("a\0", 1), "no name"),
        (named(&long, 1), "a name that is too long"),
        (named("a", 0), "a chain of none"),
        (named("a", CHAIN_MAX + 1), "a chain that is too long"),
        (named("a", u32::MAX), "a chain without an end"),
        (named("a", 2), "another place in the chain"),
    ];
    let open = |name: &str| good.get(name).map(Vec::as_slice).ok_or(io::Error::from(io::ErrorKind::NotFound));
    let file = |chain: &Option<ChainRecord>, has_parent: bool| {
        let mut contents = contents();
        let id = parent.contents().identity.id;
        contents.identity.parent = has_parent.then_some(Parent { id, digest: parent.digest() });
        let mut parts = Parts::of(&good["b"]).with(&contents);
        parts.sections.retain(|section| section.id != 13);
        if let Some(chain) = chain {
            let section = support::Section { id: 13, bytes: record(chain), ..parts.section(9).clone() };
            parts.sections.push(section);
        }
        parts.unsealed().leak()
    };
    let right = file(&named("a", 1), true);
    let control = Chain::read(&*right, Trust::Unchecked, open).expect("the positive control");
    assert!(control.is_whole());
    let unnamed = file(&None, true);
    let unnamed = Chain::read(&*unnamed, Trust::Unchecked, open).expect("what it says can be read");
    assert!(!unnamed.is_whole(), "but it cannot be gone on with");
    for (chain, what) in wrong {
        let file = file(&chain, true);
        Chain::read(&*file, Trust::Unchecked, open).expect_err(what);
    }
    let without_parent = file(&named("a", 1), false);
    Chain::read(&*without_parent, Trust::Unchecked, open).expect_err("a name without a parent");
}

/// The most that a chain may have; one more is refused when it is written.
#[test]
fn a_chain_has_an_end() {
    let mut folder = Folder::new();
    let mut before = Memory::from([(0, 1), (1, 1)]);
    add(&mut folder, "0", &before, None, &KEY);
    for number in 1..=CHAIN_MAX {
        let memory = Memory::from([(0, 1), (1, number as u8)]);
        add(&mut folder, &number.to_string(), &memory, Some((&(number - 1).to_string(), &before)), &KEY);
        before = memory;
    }
    let chain = read(&folder, &CHAIN_MAX.to_string()).expect("right");
    assert_eq!((chain.depth(), memory_of(&chain)), (CHAIN_MAX as usize, before.clone()));
    let last = CHAIN_MAX.to_string();
    let more = std::panic::catch_unwind(move || add(&mut folder, "more", &before, Some((&last, &before)), &KEY));
    assert!(more.is_err());
}

#[test]
fn pages_that_a_parent_does_not_have_are_found() {
    let (folder, _) = three();
    let a = Checkpoint::read(folder["a"].as_slice(), Trust::Key(&KEY)).expect("right");
    let at = |page: u64, count: u64| (heap() + page * PAGE, count);
    for right in [&[at(0, 4)][..], &[at(0, 1), at(1, 2), at(3, 1)], &[at(1, 1), at(3, 1), at(9, 0)]] {
        check_unchanged(a.runs(), right.iter().copied()).expect("they are there");
    }
    for wrong in [at(0, 5), at(4, 1), at(3, u64::MAX), (0, 1), (u64::MAX - 4095, 2), (heap() + 1, 1)] {
        check_unchanged(a.runs(), [wrong]).expect_err("it has none there");
    }
    // Each twice, or in another order, would take as many steps as there are of both.
    for wrong in [[at(0, 4), at(0, 4)], [at(0, 2), at(1, 1)], [at(2, 1), at(1, 1)]] {
        let error = check_unchanged(a.runs(), wrong).expect_err("they are not upwards").to_string();
        assert!(error.contains("out of order"), "{error}");
    }
}

/// What happens to memory between two checkpoints.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, u8),
    Drop(u64),
    /// A new checkpoint: whole, or with what has changed since the newest, or since one that is older.
    Capture(bool, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8u64, 0..4u8).prop_map(|(at, fill)| Step::Write(at, fill)),
        2 => (0..8u64).prop_map(Step::Drop),
        3 => (prop::bool::weighted(0.1), 0..3usize).prop_map(|(whole, back)| Step::Capture(whole, back)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_checkpoint_of_a_tree_is_read_as_it_was(
        first in btree_map(0..8u64, 0..4u8, 0..8),
        steps in vec(step(), 0..60),
    ) {
        let mut folder = Folder::new();
        add(&mut folder, "0", &first, None, &KEY);
        let (mut memory, mut made) = (first.clone(), vec![first]);
        for step in steps {
            match step {
                Step::Write(at, fill) => drop(memory.insert(at, fill)),
                Step::Drop(at) => drop(memory.remove(&at)),
                Step::Capture(whole, back) => {
                    let before = made.len().saturating_sub(1 + back);
                    let name = before.to_string();
                    let before = (!whole).then(|| (name.as_str(), &made[before]));
                    add(&mut folder, &made.len().to_string(), &memory, before, &KEY);
                    made.push(memory.clone());
                }
            }
        }
        for (number, memory) in made.iter().enumerate() {
            let chain = read(&folder, &number.to_string()).expect("right");
            prop_assert_eq!(&memory_of(&chain), memory);
        }
    }
}
