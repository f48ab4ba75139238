//! uuid; rand; ahash: crates that need random bytes. What is printed holds for any of them.

use rand::rngs::{OsRng, StdRng};
use rand::{Rng, SeedableRng, TryRngCore};
use std::random::{DefaultRandomSource, RandomSource};
use uuid::Uuid;

pub(crate) fn show() {
    let ids: Vec<Uuid> = (0..100).map(|_| Uuid::new_v4()).collect();
    println!("uuid.version {:?}", ids[0].get_version());
    println!("uuid.different {}", (1..ids.len()).all(|id| !ids[..id].contains(&ids[id])));

    let dice: Vec<u8> = StdRng::from_os_rng().random_iter::<u8>().map(|byte| byte % 6).take(1000).collect();
    println!("rand.dice {}", (0..6).all(|side| dice.contains(&side)));
    let words: Vec<_> = (0..4).map(|_| OsRng.try_next_u64()).collect();
    println!("rand.source {}", words.iter().all(Result::is_ok) && words[0] != words[1]);

    let hash = || ahash::RandomState::new().hash_one("hull");
    println!("ahash.seeds_differ {}", hash() != hash());

    // More than the host gives in one call.
    let mut bytes = vec![0; 200_000];
    DefaultRandomSource.fill_bytes(&mut bytes);
    println!("random.filled {}", bytes.chunks(1000).all(|part| part.iter().any(|&byte| byte != 0)));
    println!("random.detects {}", std::is_x86_feature_detected!("sse2"));
}
