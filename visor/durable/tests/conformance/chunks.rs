//! Chunks in a folder, with and without a key, and in memory: they keep what they are given, and lose what nothing names.

use crate::model::Model;
use crate::user::All;
use monohull_durable::{
    Bounds, Checkpoint, Chunk, ChunkError, ChunkKind, Chunks, Claimed, Commit, InvocationId, Left, MetaError,
    NewInvocation, Output, OutputAt, Store, Want, named_chunks,
};
use monohull_state_key::KeyFile;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::rc::Rc;
use tempfile::TempDir;

/// Chunks in memory.
#[derive(Default)]
struct Memory {
    chunks: RefCell<BTreeMap<Chunk, Vec<u8>>>,
    /// One more than there are holds.
    held: Rc<()>,
}

impl Chunks for Memory {
    type Hold = Rc<()>;

    fn hold(&self) -> Result<Rc<()>, ChunkError> {
        Ok(self.held.clone())
    }

    fn put(&self, _hold: &Rc<()>, _kind: ChunkKind, from: &mut dyn Read) -> Result<[u8; 32], ChunkError> {
        let mut content = Vec::new();
        from.read_to_end(&mut content)?;
        let hash = Sha256::digest(&content).into();
        self.chunks.borrow_mut().insert(Chunk::Content(hash), content);
        Ok(hash)
    }

    fn put_checkpoint(&self, _hold: &Rc<()>, name: &str, sealed: &[u8]) -> Result<(), ChunkError> {
        self.chunks.borrow_mut().insert(Chunk::Checkpoint(name.to_owned()), sealed.to_vec());
        Ok(())
    }

    fn content(&self, hash: &[u8; 32], _kind: ChunkKind) -> Result<Vec<u8>, ChunkError> {
        let content = self.chunks.borrow().get(&Chunk::Content(*hash)).cloned().ok_or(ChunkError::Missing)?;
        if Sha256::digest(&content)[..] == hash[..] { Ok(content) } else { Err(ChunkError::Damaged) }
    }

    fn checkpoint(&self, name: &str) -> Result<Vec<u8>, ChunkError> {
        self.chunks.borrow().get(&Chunk::Checkpoint(name.to_owned())).cloned().ok_or(ChunkError::Missing)
    }

    fn remove_checkpoint(&self, name: &str) -> Result<(), ChunkError> {
        self.chunks.borrow_mut().remove(&Chunk::Checkpoint(name.to_owned()));
        Ok(())
    }

    fn sweep_but(
        &self,
        named: &mut dyn FnMut() -> Result<Option<BTreeSet<Chunk>>, MetaError>,
    ) -> Result<usize, ChunkError> {
        let named = if Rc::strong_count(&self.held) == 1 { named()? } else { None };
        let Some(named) = named else { return Ok(0) };
        let mut chunks = self.chunks.borrow_mut();
        let before = chunks.len();
        chunks.retain(|chunk, _| named.contains(chunk));
        Ok(before - chunks.len())
    }
}

/// What the suite does to chunks besides: what befalls a disk.
trait Befalls: Chunks {
    /// A bit of a content changes, or its end is lost.
    fn damage(&self, hash: &[u8; 32], cuts: bool);
    /// It is not there any more.
    fn lose(&self, hash: &[u8; 32]);
    fn count(&self) -> usize;
}

fn damaged(mut content: Vec<u8>, cuts: bool) -> Vec<u8> {
    if cuts {
        content.pop();
    } else {
        *content.last_mut().expect("it has some") ^= 1;
    }
    content
}

impl Befalls for Memory {
    fn damage(&self, hash: &[u8; 32], cuts: bool) {
        self.chunks.borrow_mut().entry(Chunk::Content(*hash)).and_modify(|it| *it = damaged(it.clone(), cuts));
    }

    fn lose(&self, hash: &[u8; 32]) {
        self.chunks.borrow_mut().remove(&Chunk::Content(*hash));
    }

    fn count(&self) -> usize {
        self.chunks.borrow().len()
    }
}

impl Befalls for Store {
    fn damage(&self, hash: &[u8; 32], cuts: bool) {
        let content = std::fs::read(self.file(hash)).expect("it is there");
        std::fs::write(self.file(hash), damaged(content, cuts)).expect("written");
    }

    fn lose(&self, hash: &[u8; 32]) {
        std::fs::remove_file(self.file(hash)).expect("it is there");
    }

    fn count(&self) -> usize {
        let files = self.file(&[0; 32]).parent().map(PathBuf::from).expect("a folder");
        [files, self.checkpoints()].into_iter().map(|folder| std::fs::read_dir(folder).expect("a folder").count()).sum()
    }
}

fn keep_and_lose(chunks: &impl Befalls) {
    let hold = chunks.hold().expect("it can be put");
    for kind in [ChunkKind::Code, ChunkKind::Data] {
        let put = |content: &[u8]| chunks.put(&hold, kind, &mut &*content).expect("there is room");
        let large = vec![7; 3 << 20];
        for content in [&b"small"[..], b"", &large] {
            let hash = put(content);
            assert_eq!(put(content), hash, "the same is the same");
            assert_eq!(chunks.content(&hash, kind).expect("it is there"), content);
        }
        let hash = put(b"damaged");
        for cuts in [false, true] {
            chunks.damage(&hash, cuts);
            assert!(matches!(chunks.content(&hash, kind), Err(ChunkError::Damaged)), "{kind:?}, {cuts}");
            assert_eq!(put(b"damaged"), hash);
            assert_eq!(chunks.content(&hash, kind).expect("it is as it was put"), b"damaged");
            chunks.lose(&hash);
            assert!(matches!(chunks.content(&hash, kind), Err(ChunkError::Missing)));
            assert_eq!(put(b"damaged"), hash);
            assert_eq!(chunks.content(&hash, kind).expect("it is there again"), b"damaged");
        }
    }
    chunks.put_checkpoint(&hold, "one.1", b"sealed").expect("there is room");
    chunks.put_checkpoint(&hold, "one.1", b"anew").expect("there is room");
    assert_eq!(chunks.checkpoint("one.1").expect("it is there"), b"anew");
    for _ in 0..2 {
        chunks.remove_checkpoint("one.1").expect("removed, or not there");
        assert!(matches!(chunks.checkpoint("one.1"), Err(ChunkError::Missing)));
    }
    let all = chunks.count();
    let mut none = || Ok(Some(BTreeSet::new()));
    assert_eq!(chunks.sweep_but(&mut none).expect("asked"), 0, "a row may name it yet");
    drop(hold);
    assert_eq!(chunks.sweep_but(&mut || Ok(None)).expect("asked"), 0, "what is named is not known");
    assert!(matches!(chunks.sweep_but(&mut || Err(MetaError::Undone)), Err(ChunkError::Meta(MetaError::Undone))));
    assert_eq!(chunks.count(), all);
    assert_eq!(chunks.sweep_but(&mut none).expect("swept"), all);
    assert_eq!(chunks.count(), 0);
}

fn id(name: &str) -> InvocationId {
    name.parse().expect("a name")
}

/// A start is the hashes of what it names.
fn of_start(start: &[u8]) -> Vec<[u8; 32]> {
    start.chunks(32).map(|hash| hash.try_into().expect("a hash")).collect()
}

/// Starts an invocation with an input, that has come to a checkpoint.
fn waits(chunks: &impl Chunks, meta: &mut impl All, name: &str, input: &[u8]) {
    let hold = chunks.hold().expect("it can be put");
    let put = |kind, mut content: &[u8]| chunks.put(&hold, kind, &mut content).expect("there is room");
    let start = [put(ChunkKind::Code, b"an image"), put(ChunkKind::Data, input)].concat();
    let id = id(name);
    meta.start(&NewInvocation { id: &id, workflow: "w", start: &start, due: 1 }, 1).expect("started");
    let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id), 1) else { panic!("it is due") };
    let file = format!("{name}.1");
    chunks.put_checkpoint(&hold, &file, b"sealed").expect("there is room");
    let checkpoint = Checkpoint { file, bytes: 6 };
    let (waits, taken, published) = Default::default();
    let commit = Commit::Suspended { checkpoint, parent: None, due: Some(2), waits, taken, published };
    meta.commit(&claim.held, &commit, 1).expect("it is ours");
}

/// Ends an invocation, with an output.
fn end(chunks: &impl Chunks, meta: &mut impl All, name: &str) {
    let hold = chunks.hold().expect("it can be put");
    let Ok(Claimed::Yes(claim)) = meta.claim("o", Want::Id(&id(name)), 2) else { panic!("it is due") };
    let hash = chunks.put(&hold, ChunkKind::Data, &mut &b"made"[..]).expect("there is room");
    let outputs = vec![Output { slot: "o".to_owned(), at: OutputAt::File(hash), bytes: 4 }];
    let commit = Commit::Ended { well: true, cancelled: false, report: Vec::new(), published: None };
    let left = Left { outputs, ..Left::default() };
    let committed = meta.commit_with(&claim.held, &commit, &left, 2).expect("it is ours");
    for gone in committed.obsolete {
        chunks.remove_checkpoint(&gone.file).expect("removed");
    }
}

/// An invocation that was removed leaves nothing, and takes nothing from others.
fn leaves_nothing(chunks: &impl Befalls, mut meta: impl All) {
    let sweep = |meta: &dyn Fn() -> Result<Option<BTreeSet<Chunk>>, MetaError>| {
        chunks.sweep_but(&mut || meta()).expect("swept")
    };
    for (name, input) in [("one", &b"shared"[..]), ("two", b"shared"), ("three", b"own")] {
        waits(chunks, &mut meta, name, input);
    }
    // One image, two inputs, three checkpoints.
    assert_eq!((sweep(&|| named_chunks(&meta, of_start)), chunks.count()), (0, 6));
    end(chunks, &mut meta, "three");
    // Its input is not needed any more, nor its checkpoint. Its output is.
    sweep(&|| named_chunks(&meta, of_start));
    assert_eq!(chunks.count(), 5);
    assert!(meta.purge(&id("three"), 3).expect("asked"));
    assert_eq!((sweep(&|| named_chunks(&meta, of_start)), chunks.count()), (1, 4));
    end(chunks, &mut meta, "one");
    assert!(meta.purge(&id("one"), 3).expect("asked"));
    sweep(&|| named_chunks(&meta, of_start));
    assert_eq!(chunks.checkpoint("two.1").expect("it is another's"), b"sealed");
    assert_eq!(chunks.count(), 3);
    // By hand, and by the bounds of a server.
    meta.control(&id("two"), monohull_durable::Control::Cancel, 4).expect("done");
    assert_eq!(meta.forget(Bounds { number: 0, bytes: 0, ended_after: 0 }).expect("done"), 1);
    sweep(&|| named_chunks(&meta, of_start));
    assert_eq!(chunks.count(), 0);
}

fn folder(is_encrypted: bool) -> (TempDir, Store) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("state.key");
    KeyFile::create(&path).expect("a new one");
    let key = KeyFile::load(&path).expect("a key");
    let store = Store::open_served(&folder.path().join("state"), is_encrypted.then_some(&key)).expect("a new one");
    (folder, store)
}

#[test]
fn chunks_are_kept_and_damage_is_told() {
    keep_and_lose(&Memory::default());
    for is_encrypted in [false, true] {
        let (_folder, store) = folder(is_encrypted);
        keep_and_lose(&store);
    }
}

#[test]
fn what_was_removed_leaves_no_chunk() {
    leaves_nothing(&Memory::default(), Model::default());
    for is_encrypted in [false, true] {
        let (_folder, store) = folder(is_encrypted);
        leaves_nothing(&store, store.meta().expect("a database"));
        let (_folder, store) = folder(is_encrypted);
        leaves_nothing(&store, Model::default());
    }
}

#[test]
fn a_name_of_a_checkpoint_leads_nowhere_else() {
    let (_folder, store) = folder(false);
    let hold = store.hold().expect("it can be put");
    for name in ["../meta.sqlite", "", ".", "..", "a/b"] {
        assert!(matches!(store.put_checkpoint(&hold, name, b"x"), Err(ChunkError::Io(_))), "{name}");
        assert!(matches!(store.checkpoint(name), Err(ChunkError::Io(_))), "{name}");
        assert!(matches!(store.remove_checkpoint(name), Err(ChunkError::Io(_))), "{name}");
    }
    assert!(store.meta().is_ok(), "the database is there");
}
