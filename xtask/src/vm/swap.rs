//! Memory that is swapped out: the guest swaps while `with-swap COMMAND` runs, and at no other time.
//!
//! The area lies on a loop device, which both kernels have as a driver. The command has the variable `MONOHULL_TEST_SWAP`: a test that
//! has memory swapped out then fails if none was.

use super::Kernel;
use super::archive::Archive;
use super::fetch::Cache;
use crate::Result;

/// What a command is run by.
pub(super) const WITH_SWAP: &str = "with-swap ";

/// Tests that have memory swapped out, by their programs. Each runs under each kernel that can run it.
pub(super) const SWAPPED: &[(&str, &[&str])] = &[
    (
        "monohull_domain",
        &[
            "checkpoint::changes::tests::captures_are_what_memory_was_that_shows_no_file",
            "checkpoint::changes::tests::captures_are_what_memory_was_where_the_kernel_tells_what_is_written_to",
            "checkpoint::changes::tests::captures_with_those_before_them_are_what_memory_was",
        ],
    ),
    ("monohull_sys", &["written_pages::tests::what_the_kernel_has_lost_sight_of_counts_as_written"]),
];

/// Whether this test of this program has memory swapped out.
pub(super) fn is_swapped(program: &str, test: &str) -> bool {
    SWAPPED.iter().any(|(name, tests)| *name == program && tests.contains(&test))
}

/// Puts into the guest what it takes, for any kernel.
pub(super) fn prepare(files: &mut Archive, cache: &Cache) -> Result {
    files.script("/bin/with-swap", include_bytes!("with-swap.sh"))?;
    for kernel in Kernel::ALL {
        files.file_as(&cache.driver(kernel, "loop"), format!("/swap/loop-{}.ko", kernel.version()))?;
    }
    Ok(())
}
