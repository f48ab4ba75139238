//! Programs that no compiler would make: valid, and otherwise arbitrary. Each runs with guard pages and with explicit checks, with the
//! instructions of this processor and with those that all have, and with all constants moved out of its code. That must not make a difference,
//! and each ends by itself or by a trap of its own.

use super::extent::some_of;
use super::support::{compiled, monohull, run_document, words};
use arbitrary::Unstructured;
use serde_json::json;
use std::fs;
use tempfile::TempDir;
use wasm_smith::{Config, Module};

/// Programs of a test run. Each takes a second of a processor with all that belongs to it.
const EVERYDAY: u64 = 12;
const ALL: u64 = 150;
/// Bytes that decide what a program is.
const CHOICES: usize = 8192;
/// Entries of functions and loops until a program traps.
const FUEL: u32 = 50_000;

/// Numbers that are the same each time.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// SplitMix64.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// One of the numbers below.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// The program that belongs to a number.
pub(super) fn generated(number: u64) -> Vec<u8> {
    let mut random = Random(number);
    let choices: Vec<u8> = (0..CHOICES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    let exports = wat::parse_str(r#"(module (memory (export "memory") 1) (func (export "_start")))"#);
    let config = Config {
        exports: Some(exports.expect("a right module")),
        max_imports: 0,
        // One that is not bounded would end most programs before they begin.
        max_memory32_bytes: 64 << 16,
        max_memory64_bytes: 64 << 16,
        // With guard pages there is room for a few.
        max_memories: 4,
        max_tables: 3,
        min_funcs: 4,
        // What Monohull has none of.
        compact_imports_enabled: false,
        custom_page_sizes_enabled: false,
        shared_everything_threads_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..Config::default()
    };
    let mut module = Module::new(config, &mut Unstructured::new(&choices)).expect("enough choices");
    module.ensure_termination(FUEL).expect("its own code");
    module.to_bytes()
}

#[test]
fn arbitrary_programs_end_in_the_same_way_however_they_are_checked() {
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("app.wasm");
    let document = json!({
        "name": "test",
        "functions": { "app": { "image": "app.so" } },
        "steps": [{ "name": "app", "function": "app", "memory": "64MiB", "timeout": "60s" }],
    });
    let mut endings = Vec::new();
    for number in 0..some_of(EVERYDAY, ALL) {
        let module = generated(number);
        fs::write(&program, &module).expect("written");
        let ways: [Option<&[&str]>; 3] = [Some(&[]), Some(&["--explicit-checks", "--cpu", "x86-64-v2"]), None];
        let [guarded, checked, moved] = ways.map(|options| {
            match options {
                Some(options) => {
                    let built = monohull(&[&["build", program.to_str().expect("UTF-8")], options].concat());
                    assert!(built.status.success(), "{number}: {}", words(&built.stderr));
                }
                None => drop(compiled(folder.path(), &module, &["--variant", "5"])),
            }
            let report = run_document(folder.path(), &document);
            match report["status"].as_str() {
                Some("done") => "done".to_owned(),
                Some("failed") => {
                    assert_eq!(report["error"]["blame"], "function", "{number}: {report:#}");
                    let message = report["error"]["message"].as_str().expect("a message");
                    // The cause is the first line. The others are where it was, which differs.
                    let (_, cause) = message.split_once("wasm trap: ").unwrap_or(("", message));
                    cause.lines().next().unwrap_or_default().to_owned()
                }
                _ => panic!("{number}: {report:#}"),
            }
        });
        assert_eq!([&guarded, &guarded], [&checked, &moved], "program {number}");
        endings.push(guarded);
    }
    // They are worth running: some come to their end, and some do not.
    assert!(endings.iter().any(|ending| ending == "done"), "{endings:?}");
    assert!(endings.iter().any(|ending| ending != "done"), "{endings:?}");
}
