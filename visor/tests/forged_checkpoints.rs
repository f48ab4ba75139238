//! Checkpoints whose fields were changed, with hashes and seals that fit, go through all checks that a process makes before it has a domain: none of them
//! panics, and what passes can be captured and read again.
//!
//! The fuzz target `checkpoint_records` makes the same changes, and finds by coverage where more of them lead on. Here each file is changed at random, and
//! what is accepted is changed further. `MONOHULL_FORGED` is how many files are made of each that is kept.

#[path = "support/extent.rs"]
mod extent;
#[path = "../fuzz/fuzz_targets/checkpoint_records/forged/mod.rs"]
mod forged;

use extent::some_of;
use forged::{Outcome, Random};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The most bytes of a file.
const MOST: usize = 64 << 10;

fn rounds() -> u32 {
    let given = std::env::var("MONOHULL_FORGED").map(|rounds| rounds.parse().expect("a number"));
    given.unwrap_or(some_of(100, 20_000))
}

#[test]
fn a_forged_checkpoint_is_refused_or_can_be_captured_again() {
    let visor = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = visor.join("tests/golden");
    for entry in fs::read_dir(visor.join("fuzz/corpus/checkpoint_records")).expect("it is kept") {
        let path = entry.expect("a file").path();
        let kept = fs::read(&path).expect("readable");
        assert_eq!(forged::check(&kept, &golden), Outcome::Accepted, "{}", path.display());
        let (mut file, mut outcomes) = (kept.clone(), BTreeMap::<Outcome, u32>::new());
        for round in 0..rounds() {
            let mut random = Random::new(round);
            let Some(changed) = forged::changed(&file, MOST, &mut random) else { continue };
            let checked = catch_unwind(AssertUnwindSafe(|| forged::check(&changed, &golden)));
            let outcome = checked.unwrap_or_else(|_| {
                let aside = std::env::temp_dir().join("forged.checkpoint");
                fs::write(&aside, &changed).expect("written");
                panic!("{} in round {round}, which is now {}", path.display(), aside.display())
            });
            *outcomes.entry(outcome).or_default() += 1;
            // It is changed further, and begins anew from time to time.
            match outcome {
                Outcome::Accepted if random.below(20) > 0 => file = changed,
                _ if random.below(40) == 0 => file.clone_from(&kept),
                _ => {}
            }
        }
        println!("{}: {outcomes:?}", path.display());
        assert_eq!(outcomes.len(), 3, "{}: {outcomes:?}", path.display());
    }
}
