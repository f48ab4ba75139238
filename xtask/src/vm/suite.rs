//! What `cargo xtask test --keys` runs in the guest, as plain tables.

use super::Kernel;

/// The isolation that workflows are run with; test programs choose their own.
pub(super) const ISOLATION: &str = "mpk";

/// Test programs: a package, and what the name of a program of it begins with.
pub(super) const PROGRAMS: &[(&str, &str)] = &[
    ("monohull-trampoline", ""),
    // The unit tests of the visor.
    ("monohull", "monohull"),
    ("monohull", "domain_"),
    ("monohull", "e2e_"),
    ("monohull", "process"),
    ("monohull", KEYS),
];

/// What the names of test programs begin with that need keys: natively their tests are ignored.
pub(super) const KEYS: &str = "keys_";

/// Programs that tests start.
pub(super) const STARTED: &[&str] = &["monohull"];

/// The computer's programs that tests compare with. Busybox's stop at zero bytes, and its shell takes no others.
pub(super) const TOOLS: &[&str] =
    &["/usr/bin/grep", "/usr/bin/sed", "/usr/bin/sh", "/usr/bin/sort", "/usr/bin/tr", "/usr/bin/uniq"];

/// A program, or a test of it, that does not run in the guest.
pub(super) struct LeftOut {
    /// Name of the program.
    pub(super) program: &'static str,
    /// Name of the test; all of them if none.
    pub(super) test: Option<&'static str>,
    /// The one kernel it is left out in; all if none.
    pub(super) kernel: Option<Kernel>,
    /// Why not.
    pub(super) why: &'static str,
}

/// All that is left out.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        program: "keys_attacks",
        test: Some("instructions::returns_to_other_code_segments_lead_nowhere"),
        kernel: None,
        why: "QEMU's processor reads a function's stack for far returns as if the kernel did, which ends the process",
    },
    LeftOut {
        program: "domain_many_threads",
        test: None,
        kernel: None,
        why: "100 000 threads are too much for this processor",
    },
    LeftOut {
        program: "domain_runs",
        test: None,
        kernel: None,
        why: "tens of thousands of runs are too much for this processor",
    },
    LeftOut { program: "e2e_handover", test: None, kernel: None, why: "`keys_attacks` does the same, in fewer rounds" },
    LeftOut { program: "process_calls", test: None, kernel: None, why: "it builds its modules with rustc" },
    LeftOut { program: "domain_modules", test: None, kernel: None, why: "it builds its modules with rustc" },
    LeftOut {
        program: "e2e_examples",
        test: Some("tour::as_a_function_and_as_a_program"),
        kernel: None,
        why: "it builds a program with cargo",
    },
    LeftOut {
        program: "e2e_examples",
        test: Some("files::the_tour_as_a_function_and_as_a_program"),
        kernel: None,
        why: "it builds a program with cargo",
    },
    LeftOut {
        program: "e2e_examples",
        test: Some("conformance::the_shim_does_what_std_does"),
        kernel: None,
        why: "it builds a program with cargo",
    },
    LeftOut {
        program: "e2e_network",
        test: Some("tour::as_a_function_and_as_a_program"),
        kernel: None,
        why: "it builds a program with cargo",
    },
    LeftOut {
        program: "e2e_examples",
        test: Some("conformance::programs_end_as_with_std"),
        kernel: None,
        why: "it builds a program with cargo",
    },
    LeftOut {
        program: "e2e_network",
        test: Some("allowed::a_name_leads_where_it_led_at_the_start"),
        kernel: None,
        why: "the guest knows no names",
    },
    LeftOut {
        program: "e2e_failures",
        test: Some("alignment_check"),
        kernel: None,
        why: "QEMU's processor does not fault on misaligned accesses",
    },
    LeftOut {
        program: "e2e_failures",
        test: Some("unmasked_float"),
        kernel: None,
        why: "QEMU's processor does not fault on floating-point exceptions",
    },
];

/// What fills the input slots of workflows: a workflow's name, a slot, the bytes.
pub(super) const INPUTS: &[(&str, &str, &[u8])] = &[
    ("conformance", "input", b"one line\n"),
    ("echo", "in", b"hello\n"),
    ("parallel-sort", "lines", b"17\n4\n300\n4\n99\n"),
    ("photos", "photo.0", PIXEL),
    ("photos", "photo.1", PIXEL),
    ("photos", "photo.2", PIXEL),
    ("photos", "photo.3", PIXEL),
    ("photos", "photo.4", PIXEL),
    ("photos", "photo.5", PIXEL),
    ("word-count", "text", b"one fish two fish\nred fish blue fish\n"),
];

/// A photo in PNG: one red pixel.
const PIXEL: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xb8\xa3\xa1\x01\x00\x03\x10\x01-.\x8e%\xda\x00\x00\x00\x00IEND\xaeB`\x82";
