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
    ("monohull", "serve_"),
    ("monohull", KEYS),
    ("monohull", CGROUP),
];

/// What the names of test programs begin with that need what a computer may lack: natively their tests are ignored.
pub(super) const IGNORED: [&str; 2] = [KEYS, CGROUP];
/// They need keys.
const KEYS: &str = "keys_";
/// They need control groups to divide.
const CGROUP: &str = "cgroup_";

/// Tests that run by themselves, after the others of their program: they use up all there is of something, which takes from
/// their neighbours the time that those are given. A program, and what the tests' names begin with.
pub(super) const ALONE: &[(&str, &str)] = &[("keys_attacks", "exhaustion::")];

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

/// Natively they run.
const FAR_RETURNS: &str =
    "QEMU's processor reads a function's stack for far returns as if the kernel did, which ends the process";
/// Of tests of the service that are about clients, files and documents.
const WITHOUT_FUNCTIONS: &str = "it is the same with and without keys, and takes minutes here";

/// Of tests that run workflows in their own process.
const WITHOUT_KEYS: &str =
    "a process of its own is not traced, so on this kernel it has no keys in force: natively it is the same";

/// Of tests in which the kernels differ by nothing that was found.
const ON_THE_NEWER: &str = "it is the same as under 6.12, and takes minutes here";

/// All that is left out.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        program: "keys_attacks",
        test: Some("instructions::returns_to_other_code_segments_lead_nowhere"),
        kernel: None,
        why: FAR_RETURNS,
    },
    LeftOut { program: "e2e_failures", test: Some("far_return"), kernel: None, why: FAR_RETURNS },
    LeftOut { program: "e2e_failures", test: Some("interrupt_return"), kernel: None, why: FAR_RETURNS },
    LeftOut {
        program: "keys_negative",
        test: Some("held_buffers"),
        kernel: Some(Kernel::Older),
        why: "it is the same as under 6.12, and takes a minute",
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
    LeftOut { program: "serve_hostile", test: None, kernel: None, why: "it builds its modules with rustc" },
    LeftOut { program: "serve_page", test: None, kernel: None, why: "a browser is too much for this processor" },
    LeftOut { program: "serve_http", test: None, kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "e2e_photos", test: None, kernel: None, why: "its pictures take minutes on this processor" },
    LeftOut { program: "e2e_examples", test: None, kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_files", test: None, kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_hostcalls", test: None, kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_mmap", test: None, kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_network", test: None, kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_slot_access", test: None, kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_standard_input", test: None, kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut {
        program: "e2e_hostcalls",
        test: Some("abuses_of_files_are_refused_on_every_kind_of_mount"),
        kernel: None,
        why: "those on files in memory do run here, and each kind of mount takes a minute",
    },
    LeftOut { program: "serve_limits", test: None, kernel: Some(Kernel::Older), why: ON_THE_NEWER },
    LeftOut { program: "domain_races", test: None, kernel: Some(Kernel::Older), why: ON_THE_NEWER },
    LeftOut { program: "serve_attacks", test: None, kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_client", test: None, kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_openapi", test: None, kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_state", test: None, kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_recorded", test: None, kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut {
        program: "serve_limits",
        test: Some("who_sends_slowly_is_cut_off"),
        kernel: None,
        why: WITHOUT_FUNCTIONS,
    },
    LeftOut {
        program: "serve_limits",
        test: Some("who_does_not_read_is_cut_off"),
        kernel: None,
        why: WITHOUT_FUNCTIONS,
    },
    LeftOut {
        program: "serve_limits",
        test: Some("bodies_together_have_a_limit"),
        kernel: None,
        why: WITHOUT_FUNCTIONS,
    },
    LeftOut {
        program: "serve_limits",
        test: Some("old_invocations_are_forgotten"),
        kernel: None,
        why: WITHOUT_FUNCTIONS,
    },
    LeftOut {
        program: "serve_limits",
        test: Some("a_callback_is_told_of_the_end"),
        kernel: None,
        why: WITHOUT_FUNCTIONS,
    },
    LeftOut {
        program: "serve_limits",
        test: Some("a_client_that_only_stops_sending_gets_its_answer"),
        kernel: None,
        why: "it is answered for a second, in which this processor does too little",
    },
    LeftOut {
        program: "serve_limits",
        test: Some("load_leaves_nothing_behind"),
        kernel: None,
        why: "hundreds of invocations are too much for this processor",
    },
    LeftOut {
        program: "serve_limits",
        test: Some("a_server_without_a_descriptor_left_waits_for_better_times"),
        kernel: None,
        why: "hundreds of invocations are too much for this processor",
    },
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
