//! Workflows in processes of their own: the tree, what passes through it, how its members end, and what they have given up.
//!
//! A spawner is forked before there are threads, so this program has a `main` of its own: it starts what the tests need and
//! hands the tests to a harness afterwards.

mod ends;
mod jobs;
mod sandbox;
#[path = "../support/mod.rs"]
mod support;
mod watch;

use libtest_mimic::{Arguments, Trial};
use monohull_visor::engine::IsolationWish;
use monohull_visor::worker::{Settings, Spawner};
use std::process::ExitCode;

/// The spawners, each for tests of its own.
struct Spawners {
    /// For most.
    usual: Spawner,
    /// To be killed.
    mortal: Spawner,
    /// For counting what is left behind: no other test uses it.
    quiet: Spawner,
}

/// A test by name.
type Test = (&'static str, fn(&'static Spawners));

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let usual = Settings::usual(IsolationWish::Auto).expect("modules are built first: run `cargo xtask test`");
    let start = |settings: &Settings| Spawner::start(settings).unwrap_or_else(|error| panic!("{error}"));
    let preloading = usual;
    let usual = Settings { preload: Vec::new(), ..preloading.clone() };
    let spawners: &'static Spawners =
        Box::leak(Box::new(Spawners { usual: start(&usual), mortal: start(&usual), quiet: start(&preloading) }));
    let tests = [jobs::TESTS, ends::TESTS, sandbox::TESTS].concat();
    let trial = |(name, test): Test| {
        Trial::test(name, move || {
            test(spawners);
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}
