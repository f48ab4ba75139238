//! `std::hash`: what is fed to a hasher. The hashes themselves are unspecified.

use super::check;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// Writes down what it is fed.
#[derive(Default)]
struct Recorder(Vec<u8>);

impl Hasher for Recorder {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.push(b'|');
    }

    fn finish(&self) -> u64 {
        self.0.len() as u64
    }
}

fn fed(value: impl Hash) -> Vec<u8> {
    let mut recorder = Recorder::default();
    value.hash(&mut recorder);
    recorder.0
}

#[derive(Hash)]
enum Kind {
    Plain,
    Named { size: u8 },
}

pub(super) fn all() {
    check!("integers", (fed(1u8), fed(0x0102u16), fed(-1i32), fed(1u128)));
    check!("text", (fed("ab"), fed(String::from("ab")), fed('a'), fed(true)));
    check!("slices", (fed([1u8, 2]), fed(&[1u8, 2][..]), fed(vec!["a"]), fed(())));
    check!("tuples_and_options", (fed((1u8, 'a')), fed(Some(1u8)), fed(None::<u8>), fed(Ok::<u8, ()>(3))));
    check!("derived", (fed(Kind::Plain), fed(Kind::Named { size: 4 })));
    check!(
        "collections",
        (fed(std::collections::BTreeMap::from([(1u8, 2u8)])), fed(std::collections::VecDeque::from([7u8])))
    );
    check!("times", (fed(std::time::Duration::new(1, 2)), fed(std::cmp::Reverse(1u8))));
    check!("hash_slice", {
        let mut r = Recorder::default();
        Hash::hash_slice(&[1u16, 2], &mut r);
        r.0
    });
    check!("hash_one", BuildHasherDefault::<Recorder>::default().hash_one("xyz"));
    let hash = |state: &RandomState| state.hash_one("hull");
    let state = RandomState::new();
    check!("random_state_agrees_with_itself", (hash(&state) == hash(&state), hash(&state) == hash(&state.clone())));
    check!("random_states_differ", hash(&state) == hash(&RandomState::new()));
    check!("new_hashers_agree", {
        let mut a = DefaultHasher::new();
        let mut b = DefaultHasher::default();
        a.write_u32(7);
        b.write_u32(7);
        a.finish() == b.finish()
    });
    check!("order_matters", {
        let mut a = DefaultHasher::new();
        let mut b = DefaultHasher::new();
        (1, 2).hash(&mut a);
        (2, 1).hash(&mut b);
        a.finish() == b.finish()
    });
    check!("finish_does_not_end_it", {
        let mut a = DefaultHasher::new();
        a.write(b"x");
        let first = a.finish();
        let again = a.finish();
        a.write(b"y");
        (first == again, first == a.finish())
    });
    check!("clones_go_their_own_way", {
        let mut a = DefaultHasher::new();
        a.write(b"x");
        let b = a.clone();
        a.write(b"y");
        a.finish() == b.finish()
    });
    check!("value_of_default_hasher", {
        let mut a = DefaultHasher::new();
        a.write(b"hull");
        a.finish()
    });
    check!("bits_are_spread", {
        let mut low = std::collections::HashSet::new();
        for n in 0..256u32 {
            low.insert(state.hash_one(n) & 0xff);
        }
        // Chance would give some 160.
        low.len() > 64
    });
}
