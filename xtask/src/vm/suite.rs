//! What `cargo xtask test --keys` runs in the guest, as plain tables.

use super::Kernel;

/// The isolation that workflows are run with; test programs choose their own.
pub(super) const ISOLATION: &str = "mpk";

/// Test programs: a package, and what the name of a program of it begins with.
pub(super) const PROGRAMS: &[(&str, &str)] = &[
    ("monohull-trampoline", ""),
    // The unit tests of the visor, and of the crates it is made of.
    ("monohull-visor", "monohull"),
    ("monohull-report", ""),
    ("monohull-sys", ""),
    ("monohull-ipc", ""),
    ("monohull-host-files", ""),
    ("monohull-network", ""),
    ("monohull-domain", ""),
    ("monohull-workflow", ""),
    ("monohull-engine", ""),
    ("monohull-worker", ""),
    ("monohull-watchdog", ""),
    ("monohull-visor", "domain_"),
    ("monohull-visor", "e2e_"),
    ("monohull-visor", "process"),
    ("monohull-visor", "serve_"),
    ("monohull-visor", KEYS),
    ("monohull-visor", CGROUP),
];

/// What the names of test programs begin with that need what a computer may lack: natively their tests are ignored.
pub(super) const IGNORED: [&str; 2] = [KEYS, CGROUP];
/// They need keys.
const KEYS: &str = "keys_";
/// They need control groups to divide.
const CGROUP: &str = "cgroup_";

/// What the names of programs begin with that run under both kernels even if other tests are divided between them: they are about
/// what the kernels do differently with keys.
pub(super) const EVERYWHERE: &[&str] = &["keys_untraced", "keys_service", "keys_wasi", "monohull_trampoline"];
/// How many of a hundred tests that both kernels can run are the older one's.
pub(super) const OLDER_SHARE: u64 = 70;

/// Programs of whose tests a part runs with keys each time, and all with `--full`: a name, or what names begin with if it ends in `_`,
/// and how many of a hundred tests. All but those of the last one run natively too, without keys; `keys_attacks` has each attack of that
/// one, which makes it after a restore.
pub(super) const SHARES: &[(&str, u64)] = &[
    ("domain_", 35),
    ("e2e_", 35),
    ("serve_", 35),
    ("process", 35),
    ("process_", 35),
    ("keys_reuse", 35),
    ("keys_restored", 35),
];
/// Tests of these that run with keys each time. With keys they go through gates of their own, or try what keys must stop: an interruption at each
/// instruction of the gates, and the registers after it; every abuse of a hostcall, in a domain that goes on from a continuation; and attacks
/// in a process that has served others.
pub(super) const DAILY: &[(&str, &[&str])] = &[
    ("domain_stepped", &["a_function_can_be_interrupted_at_every_instruction"]),
    (
        "domain_preempted",
        &[
            "an_interrupted_function_finds_all_its_registers_as_they_were",
            "hostcalls_are_made_once_and_rightly_whenever_they_are_interrupted",
        ],
    ),
    (
        "e2e_hostcalls",
        &[
            "every_abuse_after_a_restore_is_refused_and_explained_and_harmless",
            "what_changes_during_a_call_after_a_restore_is_read_once",
        ],
    ),
    (
        "keys_reuse",
        &[
            "nothing_of_an_earlier_invocation_is_left",
            "remains::attacks_in_a_process_that_has_served_others_fail",
            "remains::nothing_that_is_left_on_purpose_is_in_any_page",
        ],
    ),
];

/// Tests that run by themselves, after the others of their program: they use up all there is of something, which takes from
/// their neighbours the time that those are given. A program, and what the tests' names begin with.
pub(super) const ALONE: &[(&str, &str)] =
    &[("keys_attacks", "exhaustion::"), ("keys_restored", "exhaustion::"), ("keys_reused", "exhaustion::")];

/// What test programs make with a compiler, in cargo's folder for tests: the guest has none, and gets what they make here when they
/// are asked for the list of their tests.
pub(super) const MADE: &[&str] = &["process_calls", "keys_wasi"];

/// Programs that tests start.
pub(super) const STARTED: &[&str] = &["monohull"];

/// The computer's programs that tests compare with. Busybox's stop at zero bytes, and its shell takes no others.
pub(super) const TOOLS: &[&str] =
    &["/usr/bin/grep", "/usr/bin/sed", "/usr/bin/sh", "/usr/bin/sort", "/usr/bin/tr", "/usr/bin/uniq"];

/// A program, or tests of it, that do not run in the guest.
pub(super) struct LeftOut {
    /// Name of the program.
    pub(super) program: &'static str,
    /// Names of the tests; all of them if none.
    pub(super) tests: &'static [&'static str],
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

/// Of tests of what is written to.
const NO_LIST: &str = "this kernel does not tell which pages were written to (`PAGEMAP_SCAN`, Linux 6.7)";

/// All that is left out.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        program: "monohull_domain",
        tests: &[
            "checkpoint::changes::tests::captures_are_what_memory_was_that_shows_no_file",
            "checkpoint::changes::tests::captures_are_what_memory_was_where_the_kernel_tells_what_is_written_to",
        ],
        kernel: Some(Kernel::Older),
        why: NO_LIST,
    },
    LeftOut {
        program: "monohull_sys",
        tests: &[
            "written_pages::tests::a_list_of_many_runs_is_whole",
            "written_pages::tests::a_store_into_the_midst_of_a_huge_page_counts",
            "written_pages::tests::stores_of_the_kernel_count",
            "written_pages::tests::what_the_kernel_has_lost_sight_of_counts_as_written",
        ],
        kernel: Some(Kernel::Older),
        why: NO_LIST,
    },
    LeftOut {
        program: "keys_attacks",
        tests: &["instructions::returns_to_other_code_segments_lead_nowhere"],
        kernel: None,
        why: FAR_RETURNS,
    },
    LeftOut {
        program: "keys_restored",
        tests: &["instructions::returns_to_other_code_segments_lead_nowhere"],
        kernel: None,
        why: FAR_RETURNS,
    },
    LeftOut {
        program: "keys_reused",
        tests: &["instructions::returns_to_other_code_segments_lead_nowhere"],
        kernel: None,
        why: FAR_RETURNS,
    },
    LeftOut { program: "keys_reused", tests: &[], kernel: Some(Kernel::Older), why: ON_THE_NEWER },
    LeftOut { program: "e2e_failures", tests: &["far_return"], kernel: None, why: FAR_RETURNS },
    LeftOut { program: "e2e_failures", tests: &["interrupt_return"], kernel: None, why: FAR_RETURNS },
    LeftOut {
        program: "keys_negative",
        tests: &["held_buffers"],
        kernel: Some(Kernel::Older),
        why: "it is the same as under 6.12, and takes a minute",
    },
    LeftOut {
        program: "domain_many_threads",
        tests: &[],
        kernel: None,
        why: "100 000 threads are too much for this processor",
    },
    LeftOut {
        program: "domain_addresses",
        tests: &[],
        kernel: None,
        why: "hundreds of domains are too much for this processor, and what is captured is the same without keys",
    },
    LeftOut {
        program: "domain_exact",
        tests: &[],
        kernel: None,
        why: "hundreds of domains are too much for this processor; `domain_suspend` makes some",
    },
    LeftOut {
        program: "domain_mapped",
        tests: &["whatever_happens_to_a_file_a_page_stays_as_it_was_first_seen_over_captures"],
        kernel: None,
        why: "hundreds of domains are too much for this processor; the other tests of the program make some",
    },
    LeftOut {
        program: "domain_parts",
        tests: &[],
        kernel: None,
        why: "it moves hundreds of megabytes, which are too much for this processor",
    },
    LeftOut {
        program: "domain_runs",
        tests: &[],
        kernel: None,
        why: "tens of thousands of runs are too much for this processor",
    },
    LeftOut {
        program: "serve_soak",
        tests: &["nothing_is_wrong_and_nothing_is_left_after_many_invocations"],
        kernel: None,
        why: "thousands of invocations are too much for this processor; some hundreds, `serve_reuse` and `keys_reuse` run here",
    },
    LeftOut {
        program: "serve_reuse",
        tests: &["a_process_ends_with_the_last_of_a_thousand_invocations_at_most"],
        kernel: None,
        why: "a thousand invocations are too much for this processor, and keys have no part in how many there may be",
    },
    LeftOut { program: "e2e_handover", tests: &[], kernel: None, why: "`keys_attacks` does the same, in fewer rounds" },
    LeftOut {
        program: "e2e_wasi",
        tests: &[],
        kernel: None,
        why: "it compiles its programs; `keys_wasi`, with what was compiled before, and the workflows `wasi-tour` and `wasi-component` do run here",
    },
    LeftOut {
        program: "e2e_wasi_cache",
        tests: &[],
        kernel: None,
        why: "it compiles its programs, before any of them runs",
    },
    LeftOut {
        program: "process",
        tests: &["monohull_run_does_not_wait_for_ever"],
        kernel: None,
        why: "keys have no part in a process that is stopped, and its time would be up before this processor has begun",
    },
    LeftOut { program: "domain_modules", tests: &[], kernel: None, why: "it builds its modules with rustc" },
    LeftOut { program: "serve_hostile", tests: &[], kernel: None, why: "it builds its modules with rustc" },
    LeftOut {
        program: "serve_durable_kills",
        tests: &[],
        kernel: None,
        why: "hundreds of legs are too much for this processor; `serve_durable` has some",
    },
    LeftOut { program: "serve_durable_attacks", tests: &[], kernel: None, why: "keys have no part in what it tries" },
    LeftOut { program: "serve_backup", tests: &[], kernel: None, why: "keys have no part in what is copied" },
    LeftOut { program: "serve_encrypted", tests: &[], kernel: None, why: "its keys are not the processor's" },
    LeftOut { program: "serve_idle", tests: &[], kernel: None, why: "keys have no part in how a server ends" },
    LeftOut { program: "serve_children", tests: &[], kernel: None, why: "keys have no part in what is started" },
    LeftOut { program: "serve_schedules", tests: &[], kernel: None, why: "keys have no part in when it is due" },
    LeftOut {
        program: "serve_durable_versions",
        tests: &[],
        kernel: None,
        why: "hundreds of legs are too much for this processor; `serve_durable` has some",
    },
    LeftOut {
        program: "serve_migrate",
        tests: &[],
        kernel: None,
        why: "keys have no part in which version an invocation is in",
    },
    LeftOut { program: "serve_page", tests: &[], kernel: None, why: "a browser is too much for this processor" },
    LeftOut { program: "serve_http", tests: &[], kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "e2e_photos", tests: &[], kernel: None, why: "its pictures take minutes on this processor" },
    LeftOut { program: "e2e_c_programs", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_examples", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_files", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_hostcalls", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_mmap", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_programs", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_network", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_slot_access", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_standard_input", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut {
        program: "e2e_hostcalls",
        tests: &["abuses_of_files_are_refused_on_every_kind_of_mount"],
        kernel: None,
        why: "those on files in memory do run here, and each kind of mount takes a minute",
    },
    LeftOut { program: "domain_halted", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "domain_in_place", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "domain_preempted", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "domain_stepped", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut {
        program: "domain_suspend",
        tests: &[
            "a_workflow_of_instances_that_are_apart_goes_on_as_well",
            "a_workflow_that_was_suspended_reports_what_an_uninterrupted_one_does",
        ],
        kernel: Some(Kernel::Older),
        why: WITHOUT_KEYS,
    },
    LeftOut { program: "e2e_deadlines", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_fan_out", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_unread", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut { program: "e2e_waiting", tests: &[], kernel: Some(Kernel::Older), why: WITHOUT_KEYS },
    LeftOut {
        program: "e2e_deadlines",
        tests: &[
            "a_step_that_makes_long_calls_ends_at_its_deadline",
            "a_workflow_whose_steps_make_long_calls_ends_at_its_deadline",
        ],
        kernel: None,
        why: "they move hundreds of megabytes, which are too much for this processor and its memory",
    },
    LeftOut {
        program: "e2e_failures",
        tests: &["a_reader_that_stops_keeps_no_function_from_going_on"],
        kernel: None,
        why: "a hundred thousand lines take this processor longer than the test's deadline",
    },
    LeftOut {
        program: "e2e_hoard",
        tests: &[],
        kernel: None,
        why: "a hundred thousand buffers are too much for this processor",
    },
    LeftOut { program: "serve_grants", tests: &[], kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_limits", tests: &[], kernel: Some(Kernel::Older), why: ON_THE_NEWER },
    LeftOut {
        program: "domain_races",
        tests: &[],
        kernel: None,
        why: "`keys_attacks` has the same races with a key for each instance, in fewer rounds",
    },
    LeftOut {
        program: "e2e_examples",
        tests: &[
            "sort::junk_is_refused_by_line",
            "sort::many_equal_lines",
            "sort::no_lines",
            "sort::no_newline_at_the_end",
            "sort::one_line_with_and_without_newline",
            "sort::random_values_of_all_lengths",
            "sort::skewed_values",
            "sort::sorted_and_reversed",
            "sort::the_ends_of_the_range",
            "sort::zero_bytes_and_invalid_utf_8_are_refused_by_line",
            "word_count::invalid_utf_8",
            "word_count::no_text",
            "word_count::one_line",
            "word_count::one_very_long_word",
            "word_count::one_word_without_newline",
            "word_count::random_bytes",
            "word_count::random_words",
            "word_count::white_space_only",
            "word_count::zero_bytes_are_letters",
        ],
        kernel: None,
        why: "what is in a text makes no difference to keys: the workflows do run here, as shipped and with many instances",
    },
    LeftOut {
        program: "e2e_examples",
        tests: &["files::an_image_has_one_writer_or_many_readers"],
        kernel: None,
        why: "it is about locks on the host's files, which are the same with keys",
    },
    LeftOut {
        program: "e2e_files",
        tests: &[
            "a_path_that_changes_while_it_is_used_leads_nowhere_else",
            "changes_through_a_path_that_changes_stay_inside",
        ],
        kernel: None,
        why: "paths are followed in a process that has no functions and no keys, and thousands of changes take a minute here",
    },
    LeftOut {
        program: "e2e_mmap",
        tests: &["a_mapping_shows_a_file_in_an_image"],
        kernel: None,
        why: "those in memory and in a granted directory do run here, and each kind of mount takes half a minute",
    },
    LeftOut { program: "serve_attacks", tests: &[], kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_client", tests: &[], kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_https", tests: &[], kernel: Some(Kernel::Older), why: ON_THE_NEWER },
    LeftOut { program: "serve_tls", tests: &[], kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_openapi", tests: &[], kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_state", tests: &[], kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut { program: "serve_asynchronous", tests: &[], kernel: None, why: WITHOUT_FUNCTIONS },
    LeftOut {
        program: "serve_limits",
        tests: &[
            "a_slow_sender_is_disconnected",
            "a_client_that_does_not_read_is_disconnected",
            "bodies_together_have_a_limit",
            "old_invocations_are_forgotten",
            "a_callback_is_sent_at_the_end",
        ],
        kernel: None,
        why: WITHOUT_FUNCTIONS,
    },
    LeftOut {
        program: "serve_limits",
        tests: &["a_client_that_only_stops_sending_gets_its_answer"],
        kernel: None,
        why: "it is answered for a second, in which this processor does too little",
    },
    LeftOut {
        program: "serve_limits",
        tests: &["load_leaves_nothing_behind", "a_server_without_a_descriptor_left_waits_for_better_times"],
        kernel: None,
        why: "hundreds of invocations are too much for this processor",
    },
    LeftOut {
        program: "e2e_examples",
        tests: &[
            "tour::as_a_function_and_as_a_program",
            "files::the_tour_as_a_function_and_as_a_program",
            "conformance::the_shim_does_what_std_does",
            "conformance::programs_end_as_with_std",
            "conformance::rusts_own_std_does_what_it_does_on_the_host",
            "conformance::programs_over_rusts_own_std_end_as_on_the_host",
        ],
        kernel: None,
        why: "it builds a program with cargo",
    },
    LeftOut {
        program: "e2e_network",
        tests: &["tour::as_a_function_and_as_a_program"],
        kernel: None,
        why: "it builds a program with cargo",
    },
    LeftOut {
        program: "e2e_network",
        tests: &["allowed::a_name_leads_where_it_led_at_the_start"],
        kernel: None,
        why: "the guest knows no names",
    },
    LeftOut {
        program: "e2e_failures",
        tests: &["alignment_check"],
        kernel: None,
        why: "QEMU's processor does not fault on misaligned accesses",
    },
    LeftOut {
        program: "e2e_failures",
        tests: &["unmasked_float"],
        kernel: None,
        why: "QEMU's processor does not fault on floating-point exceptions",
    },
];

/// Of programs that start no function.
const NO_FUNCTION: &str = "no function runs in its tests";

/// Of tests of mailboxes and state.
const EVENTS: &str = "keys have no part in where events and state go; `serve_durable` has some of both";

/// Of tests of what a server does without room, descriptors or good files.
const DISK: &str = "keys have no part in what a server's host lacks";

/// What runs here only with `--full`: what keys have no part in, which runs natively in any case, and what takes long.
pub(super) const WITH_FULL: &[LeftOut] = &[
    LeftOut {
        program: "domain_in_place",
        tests: &[
            "a_changed_page_of_a_file_is_one_page_of_a_capture",
            "files_in_memory_are_what_they_were_however_they_change",
        ],
        kernel: None,
        why: "keys have no part in files in memory, and hundreds of captures of them take minutes here",
    },
    LeftOut {
        program: "keys_restored",
        tests: &[
            "deputies::no_file_is_filled_from_trusted_memory_or_read_into_it",
            "deputies::no_hostcall_reads_or_writes_trusted_memory",
            "jumps::no_byte_of_a_gate_is_a_way_in",
        ],
        kernel: None,
        why: "they are hundreds of runs, each suspended and restored; `keys_attacks` has them, and the others of this program are made after a restore",
    },
    LeftOut {
        program: "e2e_hostcalls",
        tests: &[
            "every_abuse_is_refused_and_explained_and_harmless",
            "every_kind_of_bad_address_has_its_own_error",
            "what_changes_during_a_call_is_read_once",
        ],
        kernel: None,
        why: "the same calls are made here after a restore, on two carriers, and each run of them takes two minutes",
    },
    LeftOut { program: "monohull_report", tests: &[], kernel: None, why: NO_FUNCTION },
    LeftOut { program: "monohull_ipc", tests: &[], kernel: None, why: NO_FUNCTION },
    LeftOut { program: "monohull_host_files", tests: &[], kernel: None, why: NO_FUNCTION },
    LeftOut { program: "monohull_network", tests: &[], kernel: None, why: NO_FUNCTION },
    LeftOut { program: "monohull_workflow", tests: &[], kernel: None, why: NO_FUNCTION },
    LeftOut { program: "monohull_engine", tests: &[], kernel: None, why: NO_FUNCTION },
    LeftOut { program: "monohull_watchdog", tests: &[], kernel: None, why: NO_FUNCTION },
    LeftOut {
        program: "e2e_c_programs",
        tests: &[],
        kernel: None,
        why: "keys have no part in what these programs do, and their workflows, such as `lua`, do run here",
    },
    LeftOut { program: "serve_answers", tests: &[], kernel: None, why: "keys have no part in how HTTP is answered" },
    LeftOut { program: "serve_readers", tests: &[], kernel: None, why: "keys have no part in how fast clients read" },
    LeftOut { program: "serve_https", tests: &[], kernel: None, why: "keys have no part in what a grant permits" },
    LeftOut { program: "serve_durable_arrivals", tests: &[], kernel: None, why: EVENTS },
    LeftOut { program: "serve_durable_sends", tests: &[], kernel: None, why: EVENTS },
    LeftOut { program: "serve_durable_routes", tests: &[], kernel: None, why: EVENTS },
    LeftOut { program: "serve_export", tests: &[], kernel: None, why: "keys have no part in what leaves a server" },
    LeftOut { program: "serve_damaged", tests: &[], kernel: None, why: DISK },
    LeftOut { program: "serve_full_disk", tests: &[], kernel: None, why: DISK },
    LeftOut { program: "serve_shortage", tests: &[], kernel: None, why: DISK },
    LeftOut { program: "serve_durable_state", tests: &[], kernel: None, why: EVENTS },
    LeftOut {
        program: "serve_durable",
        tests: &[
            "an_end_is_waited_for",
            "an_id_is_one_invocations_and_a_key_one_calls",
            "lists_are_filtered_and_come_in_pages",
            "there_are_no_more_than_the_operator_allows",
            "what_has_ended_is_forgotten_in_time",
        ],
        kernel: None,
        why: "keys have no part in what the server remembers",
    },
];

/// A program of which some tests run here each time, and the others only with `--full`.
pub(super) struct Sampled {
    /// Name of the program.
    pub(super) program: &'static str,
    /// Names of the tests that run.
    pub(super) tests: &'static [&'static str],
    /// Why no more.
    pub(super) why: &'static str,
}

/// All of these.
pub(super) const SAMPLED: &[Sampled] = &[Sampled {
    program: "keys_reused",
    tests: &[
        "leftovers::nothing_is_left_in_registers",
        "memory::a_buffer_that_was_handed_on_or_freed_is_out_of_reach",
        "memory::a_function_cannot_touch_its_neighbour",
        "memory::entry_frames_are_empty_for_the_next_instance_with_the_same_key",
        "signals::a_forged_signal_frame_is_not_read",
    ],
    why: "they are hundreds of runs, three invocations each; `keys_attacks` has them, and those that differ most in a used process are made here",
}];

/// What fills the input slots of workflows: a workflow's name, a slot, the bytes.
pub(super) const INPUTS: &[(&str, &str, &[u8])] = &[
    ("conformance", "input", b"one line\n"),
    ("echo", "in", b"hello\n"),
    ("fan-out", "text", b"one fish two fish\nred fish blue fish\n"),
    ("http-hello", "request", b"GET / HTTP/1.1\r\n\r\n"),
    ("jq", "orders", b"[{\"customer\": \"Ada\", \"price\": 3.5}]"),
    ("lua", "orders", b"Ada 3.50\nGrace 12\n"),
    ("parallel-sort", "lines", b"17\n4\n300\n4\n99\n"),
    ("photos", "photo.0", PIXEL),
    ("photos", "photo.1", PIXEL),
    ("photos", "photo.2", PIXEL),
    ("photos", "photo.3", PIXEL),
    ("photos", "photo.4", PIXEL),
    ("photos", "photo.5", PIXEL),
    ("quickjs", "orders", b"Ada 3.50\nGrace 12\n"),
    ("sqlite3", "orders", b"Ada,3.50\nGrace,12\n"),
    ("wasi-component", "text", b"typed\n"),
    ("wasi-http", "request", b"GET / HTTP/1.1\r\n\r\n"),
    ("wasi-tour", "text", b"typed\n"),
    ("word-count", "text", b"one fish two fish\nred fish blue fish\n"),
];

/// A photo in PNG: one red pixel.
const PIXEL: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xb8\xa3\xa1\x01\x00\x03\x10\x01-.\x8e%\xda\x00\x00\x00\x00IEND\xaeB`\x82";
