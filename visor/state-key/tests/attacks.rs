//! What an attacker without the key can do to a state folder: each change is noticed, and each has a positive control.

use monohull_state_key::{Error, KeyFile, MORE_BYTES, Place, StateKey, StateKeyError};
use proptest::prelude::*;
use std::io::Write;

const PART: usize = 64 << 10;

fn key_file() -> KeyFile {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.key");
    KeyFile::create(&path).expect("made");
    KeyFile::load(&path).expect("read")
}

fn key() -> StateKey {
    key_file().new_state_key().expect("made").0
}

fn place(name: &str) -> Place<'_> {
    Place { kind: "file", name }
}

fn file(key: &StateKey, place: Place<'_>, content: &[u8]) -> Vec<u8> {
    let mut to = key.encrypting(Vec::new()).expect("begun");
    to.write_all(content).expect("written");
    to.finish(place).expect("written")
}

fn plain(key: &StateKey, place: Place<'_>, file: &[u8]) -> Result<Vec<u8>, Error> {
    let mut to = Vec::new();
    key.decrypt_file(place, &mut &*file, &mut to).map(|()| to)
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 7) as u8).collect()
}

#[test]
fn a_file_of_any_length_comes_back() {
    let key = key();
    for length in [0, 1, 15, 16, 17, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 5] {
        let content = content(length);
        let file = file(&key, place("a"), &content);
        assert_eq!(plain(&key, place("a"), &file).expect("as it was"), content, "{length}");
    }
}

#[test]
fn every_bit_counts() {
    let key = key();
    let whole = file(&key, place("a"), b"what a function keeps");
    plain(&key, place("a"), &whole).expect("the control");
    for bit in 0..8 * whole.len() {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(plain(&key, place("a"), &changed).is_err(), "bit {bit}");
    }
    let value = key.encrypt(place("a"), b"what a function keeps").expect("encrypted");
    assert_eq!(key.decrypt(place("a"), &value).expect("the control"), b"what a function keeps");
    for bit in 0..8 * value.len() {
        let mut changed = value.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(key.decrypt(place("a"), &changed), Err(Error::Changed)), "bit {bit}");
    }
}

#[test]
fn a_file_or_value_that_was_cut_off_or_made_longer_is_refused() {
    let key = key();
    let whole = file(&key, place("a"), &content(2 * PART + 9));
    // In the head, at the bounds of parts, within them, and before the end.
    let head = 24;
    for length in [0, 4, 8, 23, head, head + 5, head + PART + 16, head + 2 * (PART + 16), whole.len() - 1] {
        assert!(plain(&key, place("a"), &whole[..length]).is_err(), "{length}");
    }
    for more in [&b"x"[..], &[0; 16], &whole[head..]] {
        assert!(plain(&key, place("a"), &[&whole, more].concat()).is_err());
    }
    let value = key.encrypt(place("a"), b"value").expect("encrypted");
    assert_eq!(value.len(), 5 + MORE_BYTES);
    for length in 0..value.len() {
        assert!(key.decrypt(place("a"), &value[..length]).is_err(), "{length}");
    }
    assert!(key.decrypt(place("a"), &[&value[..], b"x"].concat()).is_err());
}

#[test]
fn nothing_takes_the_place_of_another() {
    let key = key();
    let (a, b) = (file(&key, place("a"), &content(PART + 9)), file(&key, place("b"), &content(PART + 9)));
    plain(&key, place("a"), &a).expect("the control");
    assert!(matches!(plain(&key, place("b"), &a), Err(Error::Changed)), "another file");
    assert!(matches!(plain(&key, Place { kind: "checkpoint", name: "a" }, &a), Err(Error::Changed)), "another kind");
    // The first part of one with the last one of the other, whose content is the same.
    let at = 24 + PART + 16;
    assert!(matches!(plain(&key, place("b"), &[&a[..at], &b[at..]].concat()), Err(Error::Changed)), "a part");
    // Two parts of one file.
    let two = file(&key, place("a"), &content(3 * PART));
    let (first, second) = (&two[24..at], &two[at..at + PART + 16]);
    let swapped = [&two[..24], second, first, &two[at + PART + 16..]].concat();
    assert_eq!(swapped.len(), two.len());
    assert!(matches!(plain(&key, place("a"), &swapped), Err(Error::Changed)), "their order");
    let value = key.encrypt(place("a"), b"value").expect("encrypted");
    assert!(matches!(key.decrypt(place("b"), &value), Err(Error::Changed)), "another value");
    // A kind and a name are not what they are put together.
    let value = key.encrypt(Place { kind: "ab", name: "c" }, b"value").expect("encrypted");
    assert!(key.decrypt(Place { kind: "a", name: "bc" }, &value).is_err());
    assert!(matches!(plain(&key, place("a"), b"plain text"), Err(Error::NotEncrypted)));
}

#[test]
fn equal_contents_do_not_look_equal() {
    let key = key();
    assert_ne!(file(&key, place("a"), b"same"), file(&key, place("a"), b"same"));
    assert_ne!(
        key.encrypt(place("a"), b"same").expect("encrypted"),
        key.encrypt(place("a"), b"same").expect("encrypted")
    );
    let digest = key.digest("event", b"same").expect("made");
    assert_eq!(key.digest("event", b"same").expect("made"), digest, "but they have one name");
    assert_ne!(key.digest("file", b"same").expect("made"), digest);
    assert_ne!(self::key().digest("event", b"same").expect("made"), digest);
}

#[test]
fn another_key_opens_nothing_until_it_is_handed_over() {
    let (own, other) = (key_file(), key_file());
    let (key, wrapped) = own.new_state_key().expect("made");
    let value = key.encrypt(place("a"), b"value").expect("encrypted");
    assert!(matches!(other.open(&wrapped), Err(StateKeyError::Wrong)));
    assert!(matches!(other.hand_over(&own, &wrapped), Err(StateKeyError::Wrong)));
    for length in 0..wrapped.len() {
        assert!(matches!(own.open(&wrapped[..length]), Err(StateKeyError::Wrong)));
    }
    let later = own.hand_over(&other, &wrapped).expect("it is its own");
    assert!(matches!(own.open(&later), Err(StateKeyError::Wrong)));
    assert_eq!(other.open(&later).expect("it fits").decrypt(place("a"), &value).expect("the same"), b"value");
    assert!(matches!(self::key().decrypt(place("a"), &value), Err(Error::Changed)), "the key of another folder");
}

proptest! {
    #[test]
    fn what_is_no_encrypted_file_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), begins in any::<bool>()) {
        let begin: &[u8] = if begins { b"mh-aead1" } else { b"" };
        prop_assert!(plain(&key(), place("a"), &[begin, &bytes].concat()).is_err());
    }
}
