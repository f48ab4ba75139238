//! Which tests run with keys each time, and under which kernel.
//!
//! Under emulation the suite takes as long as all else together, and most of it is the same under both kernels. So by
//! default each test runs under one of them, and `--full` runs each under both. A test always gets the same kernel, by
//! its name: a failure is there again in the next run. What only one kernel can run is not a matter of choice, and a few
//! programs that are about the kernel itself run under both in any case ([`EVERYWHERE`]), as do tests that have memory swapped out.
//!
//! Tests that run natively as well, without keys, are sampled, by their names too, and so are attacks after a restore: of a hundred so many
//! as [`SHARES`] says run each time, and those of [`DAILY`]. Other tests that are about keys, and unit tests, always do.

use super::Kernel;
use super::suite::{DAILY, EVERYWHERE, OLDER_SHARE, SHARES};
use super::swap::is_swapped;
use crate::extent::Extent;

/// Whether this test runs with keys at all.
pub(super) fn is_chosen(extent: Extent, program: &str, test: &str) -> bool {
    let daily = || DAILY.iter().any(|(name, tests)| *name == program && tests.contains(&test));
    extent == Extent::Full
        || is_swapped(program, test)
        || daily()
        || hash(&["daily/", program, "/", test].concat()) % 100 < share(program)
}

/// How many of a hundred tests of this program run each time.
fn share(program: &str) -> u64 {
    let is_meant = |name: &str| program == name || (name.ends_with('_') && program.starts_with(name));
    SHARES.iter().find(|(name, _)| is_meant(name)).map_or(100, |(_, share)| *share)
}

/// Whether this test, which both kernels can run, runs under this one.
pub(super) fn runs_under(kernel: Kernel, extent: Extent, program: &str, test: &str) -> bool {
    let everywhere = || EVERYWHERE.iter().any(|prefix| program.starts_with(prefix)) || is_swapped(program, test);
    extent == Extent::Full || everywhere() || kernel == kernel_of(program, test)
}

/// The kernel of a test.
fn kernel_of(program: &str, test: &str) -> Kernel {
    match hash(&[program, "/", test].concat()) % 100 {
        ..OLDER_SHARE => Kernel::Older,
        _ => Kernel::Newer,
    }
}

/// FNV-1a, with its upper bits mixed into the lower ones, which decide.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_runs_under_exactly_one_kernel_unless_all_run_under_both() {
        let names: Vec<String> = (0..1000).map(|number| format!("module::test_{number}")).collect();
        let under = |kernel, extent, program| names.iter().filter(|t| runs_under(kernel, extent, program, t)).count();
        let both = |extent, program| Kernel::ALL.map(|kernel| under(kernel, extent, program));
        let [older, newer] = both(Extent::Sampled, "keys_attacks");
        assert_eq!(older + newer, 1000);
        assert!(older.abs_diff(10 * OLDER_SHARE as usize) < 60, "{older}");
        assert_eq!(both(Extent::Full, "keys_attacks"), [1000, 1000]);
        assert_eq!(both(Extent::Sampled, EVERYWHERE[0]), [1000, 1000]);
    }

    /// What [`WITH_FULL`](super::super::suite::WITH_FULL) says is made after a restore instead, and what interrupts the gates.
    #[test]
    fn what_keys_make_another_test_of_always_runs() {
        for test in ["every_abuse", "what_changes_during_a_call"] {
            let test = DAILY.iter().flat_map(|(_, tests)| tests.iter()).find(|name| name.starts_with(test));
            assert!(test.is_some_and(|test| test.contains("after_a_restore")), "{test:?}");
        }
        for (program, tests) in DAILY {
            for test in *tests {
                assert!(is_chosen(Extent::Sampled, program, test), "{program} {test}");
            }
        }
        assert!(is_chosen(Extent::Sampled, "domain_stepped", "a_function_can_be_interrupted_at_every_instruction"));
    }

    #[test]
    fn tests_that_run_natively_or_in_another_program_are_sampled_and_others_not() {
        let names: Vec<String> = (0..1000).map(|number| format!("module::test_{number}")).collect();
        let chosen =
            |extent: Extent, program: &str| names.iter().filter(|test| is_chosen(extent, program, test)).count();
        for (name, share) in SHARES {
            let program = if name.ends_with('_') { format!("{name}some") } else { (*name).to_owned() };
            assert!(chosen(Extent::Sampled, &program).abs_diff(10 * *share as usize) < 60, "{program}");
            assert_eq!(chosen(Extent::Full, &program), 1000);
        }
        for program in ["keys_attacks", "keys_reused", "cgroup_memory", "monohull_domain", "monohull_trampoline"] {
            assert_eq!(chosen(Extent::Sampled, program), 1000);
        }
        // The two choices have nothing to do with each other: each kernel gets tests that are chosen.
        let older = |test: &&String| {
            is_chosen(Extent::Sampled, "e2e_some", test) && kernel_of("e2e_some", test) == Kernel::Older
        };
        let expected = (10 * share("e2e_some") * OLDER_SHARE / 100) as usize;
        assert!(names.iter().filter(older).count().abs_diff(expected) < 60);
    }
}
