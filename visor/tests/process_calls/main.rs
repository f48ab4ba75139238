//! What a worker's trusted code can do to the host when it is in the hands of an attacker.
//!
//! As in `tests/process`, the spawner is forked before there are threads.

mod calls;
mod panics;
#[path = "../support/mod.rs"]
mod support;
mod timers;
#[path = "../process/watch.rs"]
mod watch;
#[path = "../support/wrong_module.rs"]
mod wrong_module;

use libtest_mimic::{Arguments, Trial};
use monohull_visor::domain::keys;
use monohull_visor::engine::IsolationWish;
use monohull_visor::worker::{Settings, Spawner};
use std::process::ExitCode;

/// Spawners whose modules are wrong in other ways.
struct Special {
    panicking: Vec<panics::Panicking>,
    greedy: Spawner,
}

/// A test of theirs, by name; the second spawner is the usual one of this program.
type SpecialTest = (&'static str, fn(&'static Special, &'static Spawner));

const SPECIAL: [SpecialTest; 2] = [
    ("a_module_that_panics_ends_its_process", modules_that_panic),
    ("a_worker_that_takes_all_timers_keeps_no_other_from_running", timers_are_left),
];

fn timers_are_left(special: &'static Special, others: &'static Spawner) {
    timers::a_worker_that_takes_all_timers_keeps_no_other_from_running(&special.greedy, others);
}

fn modules_that_panic(special: &'static Special, _: &'static Spawner) {
    panics::a_module_that_panics_ends_its_process(&special.panicking);
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // With keys wherever there are some, also where they must be asked for: there workers are traced, and the list is longer.
    let wish = if keys::support().is_available() { IsolationWish::Mpk } else { IsolationWish::Auto };
    let usual = Settings::usual(wish).expect("modules are built first: run `cargo xtask test`");
    let special: &'static Special =
        Box::leak(Box::new(Special { panicking: panics::start(&usual), greedy: timers::start(&usual) }));
    let settings = Settings { modules: calls::modules(), preload: Vec::new(), ..usual };
    let spawner = Spawner::start(&settings).unwrap_or_else(|error| panic!("{error}"));
    let spawner: &'static Spawner = Box::leak(Box::new(spawner));
    let trial = |(name, test): &calls::Test| {
        let test = *test;
        Trial::test(*name, move || {
            test(spawner);
            Ok(())
        })
    };
    let mut trials: Vec<Trial> = calls::TESTS.iter().map(trial).collect();
    trials.extend(SPECIAL.iter().map(|(name, test)| {
        let test = *test;
        Trial::test(*name, move || {
            test(special, spawner);
            Ok(())
        })
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}
