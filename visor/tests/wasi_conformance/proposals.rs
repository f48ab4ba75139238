//! What WebAssembly has beyond its second version: exceptions, references, what is collected, several memories and addresses of 64 bits.
//! No compiler of the tests makes it, so each program is written as text. It runs here in both ways to check addresses, and in Wasmtime, and what it
//! prints and how it ends are the same.

use super::here::{monohull, outcome, report};
use super::in_wasmtime::{run_all, whole};
use super::outcome::first_difference;
use libtest_mimic::Failed;
use monohull_visor::domain::keys::support;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What all of them begin with: `$print` prints a number in decimal, and `$again` calls itself without end.
const PRELUDE: &str = r#"
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (func $print (param $number i32) (local $at i32)
        (local.set $at (i32.const 127))
        (i32.store8 (i32.const 127) (i32.const 10))
        (loop $next
            (local.set $at (i32.sub (local.get $at) (i32.const 1)))
            (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
            (local.set $number (i32.div_u (local.get $number) (i32.const 10)))
            (br_if $next (local.get $number)))
        (i32.store (i32.const 0) (local.get $at))
        (i32.store (i32.const 4) (i32.sub (i32.const 128) (local.get $at)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
    (func $again call $again)
    (type $nothing (func))
    (table $empty 2 funcref)
    (tag $none) (tag $one (param i32)) (tag $other (param i32)) (tag $many (param i32 i64 f32 f64 v128))
"#;

/// Names of programs, and what they have beside that.
const PROGRAMS: [(&str, &str); 30] = [
    (
        "caught_with_its_values",
        r#"(func $throws
                (throw $many (i32.const 1) (i64.const 2) (f32.const 3) (f64.const 4) (v128.const i32x4 5 6 7 8)))
            (func (export "_start") (local $vector v128) (local $double f64) (local $single f32) (local $long i64)
                (block $caught (result i32 i64 f32 f64 v128)
                    (try_table (catch $many $caught) (call $throws))
                    unreachable)
                local.set $vector local.set $double local.set $single local.set $long
                call $print
                (call $print (i32.wrap_i64 (local.get $long)))
                (call $print (i32.trunc_f32_u (local.get $single)))
                (call $print (i32.trunc_f64_u (local.get $double)))
                (call $print (i32x4.extract_lane 3 (local.get $vector))))"#,
    ),
    (
        "the_first_clause_that_fits",
        r#"(func $try (param $which i32)
                (block $all
                    (block $other (result i32)
                        (block $one (result i32)
                            (try_table (catch $one $one) (catch $other $other) (catch $one $other) (catch_all $all)
                                (if (i32.eq (local.get $which) (i32.const 0)) (then (throw $one (i32.const 10))))
                                (if (i32.eq (local.get $which) (i32.const 1)) (then (throw $other (i32.const 20))))
                                (if (i32.eq (local.get $which) (i32.const 2)) (then (throw $none))))
                            (call $print (i32.const 40))
                            return)
                        (call $print (i32.add (i32.const 1)))
                        return)
                    (call $print (i32.add (i32.const 2)))
                    return)
                (call $print (i32.const 33)))
            (func (export "_start")
                (call $try (i32.const 0)) (call $try (i32.const 1)) (call $try (i32.const 2)) (call $try (i32.const 3)))"#,
    ),
    (
        "thrown_again",
        r#"(func $middle (local $kept exnref)
                (block $caught (result exnref)
                    (try_table (catch_all_ref $caught) (throw $one (i32.const 5)))
                    unreachable)
                local.set $kept
                (call $print (i32.const 1))
                (throw_ref (local.get $kept)))
            (func (export "_start") (local $kept exnref)
                (block $caught (result i32 exnref)
                    (try_table (catch_ref $one $caught) (call $middle))
                    unreachable)
                local.set $kept
                call $print
                ;; A second time, of the same one.
                (call $print (block $last (result i32)
                    (try_table (catch $one $last) (throw_ref (local.get $kept)))
                    unreachable)))"#,
    ),
    (
        "the_innermost_handler",
        r#"(func (export "_start")
                (block $outer
                    (try_table (catch_all $outer)
                        (block $inner
                            (try_table (catch $none $inner) (throw $none))
                            unreachable)
                        (call $print (i32.const 1))
                        ;; What a handler throws is not its own.
                        (throw $none))
                    unreachable)
                (call $print (i32.const 2)))"#,
    ),
    (
        "tags_of_one_type_differ",
        r#"(func (export "_start")
                (call $print (block $outer (result i32)
                    (try_table (catch $other $outer)
                        (drop (block $inner (result i32)
                            (try_table (catch $one $inner) (throw $other (i32.const 6)))
                            unreachable))
                        (call $print (i32.const 99)))
                    unreachable)))"#,
    ),
    (
        "through_many_calls",
        r#"(func $deep (param i32) (result i32)
                (if (i32.eqz (local.get 0)) (then (throw $one (i32.const 77))))
                (i32.add (call $deep (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
            (func (export "_start")
                (call $print (block $caught (result i32)
                    (try_table (catch $one $caught) (drop (call $deep (i32.const 2000))))
                    unreachable)))"#,
    ),
    (
        "through_tables_and_tail_calls",
        r#"(type $thrower (func (param i32)))
            (table 2 funcref) (elem (table 1) (i32.const 0) func $throws $tail)
            (func $throws (param i32) (throw $one (local.get 0)))
            (func $tail (param i32) (return_call $throws (i32.add (local.get 0) (i32.const 1))))
            (func $try (param i32)
                (call $print (block $caught (result i32)
                    (try_table (catch $one $caught) (call_indirect 1 (type $thrower) (i32.const 8) (local.get 0)))
                    unreachable)))
            (func (export "_start") (call $try (i32.const 0)) (call $try (i32.const 1)))"#,
    ),
    (
        "locals_are_as_they_were",
        r#"(func $throws (throw $none))
            (func (export "_start") (local $a i32) (local $b f64) (local $n i32)
                (local.set $a (i32.const 1)) (local.set $b (f64.const 2))
                (loop $more
                    (block $caught
                        (try_table (catch_all $caught)
                            (local.set $a (i32.add (local.get $a) (i32.const 10)))
                            (local.set $b (f64.mul (local.get $b) (f64.const 2)))
                            (call $throws)
                            (local.set $a (i32.const 0)))
                        unreachable)
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $more (i32.lt_u (local.get $n) (i32.const 5))))
                (call $print (local.get $a))
                (call $print (i32.trunc_f64_u (local.get $b))))"#,
    ),
    (
        "kept_in_tables_and_globals",
        r#"(global $kept (mut exnref) (ref.null exn))
            (table $all 10 exnref)
            (func $caught (param i32) (result exnref)
                (block $caught (result exnref)
                    (try_table (catch_all_ref $caught) (throw $one (local.get 0)))
                    unreachable))
            (func $value (param exnref)
                (call $print (block $caught (result i32)
                    (try_table (catch $one $caught) (throw_ref (local.get 0)))
                    unreachable)))
            (func (export "_start") (local $n i32)
                (global.set $kept (call $caught (i32.const 1000)))
                (loop $more
                    (table.set $all (i32.rem_u (local.get $n) (i32.const 10)) (call $caught (local.get $n)))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $more (i32.lt_u (local.get $n) (i32.const 100000))))
                (call $value (table.get $all (i32.const 3)))
                (call $value (table.get $all (i32.const 9)))
                (call $value (global.get $kept)))"#,
    ),
    (
        "a_million_are_thrown",
        r#"(func (export "_start") (local $n i32) (local $sum i32)
                (loop $more
                    (local.set $sum (i32.add (local.get $sum) (block $caught (result i32)
                        (try_table (catch $one $caught) (throw $one (local.get $n)))
                        unreachable)))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $more (i32.lt_u (local.get $n) (i32.const 1000000))))
                (call $print (local.get $sum)))"#,
    ),
    ("no_trap_is_caught", "(func $does unreachable)"),
    ("no_access_out_of_bounds_is_caught", "(func $does (drop (i32.load (i32.const 65536))))"),
    ("no_division_by_zero_is_caught", "(func $does (drop (i32.div_u (i32.const 1) (i32.load (i32.const 60000)))))"),
    ("no_recursion_is_caught", "(func $does call $again)"),
    ("no_call_of_nothing_is_caught", "(func $does (call_indirect $empty (type $nothing) (i32.const 1)))"),
    ("no_exit_is_caught", "(func $does (call $exit (i32.const 7)))"),
    ("not_caught", r#"(func (export "_start") (call $print (i32.const 1)) (throw $one (i32.const 4)))"#),
    (
        "not_caught_by_another",
        r#"(func (export "_start")
                (drop (block $caught (result i32)
                    (try_table (catch $one $caught) (throw $other (i32.const 4)))
                    unreachable)))"#,
    ),
    ("not_caught_at_the_start", r#"(func $start (throw $none)) (start $start) (func (export "_start"))"#),
    ("null_is_thrown", r#"(func (export "_start") (throw_ref (ref.null exn)))"#),
    (
        "references_of_functions",
        r#"(type $unary (func (param i32) (result i32)))
            (tag $callee (param (ref $unary)))
            (elem declare func $double)
            (func $double (type $unary) (i32.mul (local.get 0) (i32.const 2)))
            (func (export "_start")
                (call $print (call_ref $unary (i32.const 21)
                    (block $caught (result (ref $unary))
                        (try_table (catch $callee $caught) (throw $callee (ref.func $double)))
                        unreachable))))"#,
    ),
    (
        "references_of_the_host",
        r#"(table $outside 4 externref)
            (func (export "_start")
                (call $print (ref.is_null (table.get $outside (i32.const 2))))
                (call $print (table.grow $outside (ref.null extern) (i32.const 3)))
                (call $print (table.size $outside)))"#,
    ),
    (
        "lists_that_are_collected",
        r#"(type $node (struct (field i32) (field (ref null $node))))
            (func $list (param $n i32) (result (ref null $node)) (local $list (ref null $node))
                (loop $more
                    (local.set $list (struct.new $node (local.get $n) (local.get $list)))
                    (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                    (br_if $more (local.get $n)))
                (local.get $list))
            (func $sum (param $list (ref null $node)) (result i32) (local $sum i32)
                (block $end (loop $more
                    (br_if $end (ref.is_null (local.get $list)))
                    (local.set $sum (i32.add (local.get $sum) (struct.get $node 0 (local.get $list))))
                    (local.set $list (struct.get $node 1 (local.get $list)))
                    (br $more)))
                (local.get $sum))
            (func (export "_start") (local $n i32) (local $kept (ref null $node))
                (local.set $kept (call $list (i32.const 500)))
                (loop $more
                    (drop (call $list (i32.const 1000)))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $more (i32.lt_u (local.get $n) (i32.const 2000))))
                (call $print (call $sum (local.get $kept))))"#,
    ),
    (
        "arrays_and_small_numbers",
        r#"(type $bytes (array (mut i8))) (type $any (array (mut anyref)))
            (func (export "_start") (local $bytes (ref $bytes)) (local $any (ref $any))
                (local.set $bytes (array.new $bytes (i32.const 7) (i32.const 100)))
                (array.set $bytes (local.get $bytes) (i32.const 50) (i32.const 300))
                (call $print (array.get_u $bytes (local.get $bytes) (i32.const 50)))
                (call $print (array.len (local.get $bytes)))
                (local.set $any (array.new_fixed $any 2 (ref.i31 (i32.const 12)) (local.get $bytes)))
                (call $print (i31.get_u (ref.cast (ref i31) (array.get $any (local.get $any) (i32.const 0)))))
                (call $print (ref.test (ref $bytes) (array.get $any (local.get $any) (i32.const 1))))
                (call $print (ref.test (ref $any) (array.get $any (local.get $any) (i32.const 1))))
                (call $print (array.get_u $bytes (local.get $bytes) (i32.const 100))))"#,
    ),
    (
        "memories_with_addresses_of_64_bits",
        r#"(memory $long i64 1 3) (memory $other i64 1)
            (data (memory $long) (i64.const 65533) "abc")
            (data $later "0123456789")
            (func (export "_start")
                (call $print (i32.load8_u $long offset=65530 (i64.const 4)))
                (call $print (i32.wrap_i64 (memory.grow $long (i64.const 1))))
                (call $print (i32.wrap_i64 (memory.grow $long (i64.const 2))))
                (call $print (i32.wrap_i64 (memory.grow $long (i64.const 0x1000000000000))))
                (call $print (i32.wrap_i64 (memory.size $long)))
                (memory.fill $long (i64.const 65536) (i32.const 7) (i64.const 65536))
                (memory.copy $other $long (i64.const 100) (i64.const 65534) (i64.const 4))
                (call $print (i32.load $other (i64.const 100)))
                (memory.copy 0 $other (i32.const 200) (i64.const 100) (i32.const 4))
                (call $print (i32.load (i32.const 200)))
                (memory.init $other $later (i64.const 0) (i32.const 3) (i32.const 4))
                (i64.store $long offset=8 (i64.const 131056) (i64.load $other (i64.const 0)))
                (call $print (i32.load8_u $long (i64.const 131067)))
                (call $print (i32.load8_u $long (i64.const 131072))))"#,
    ),
    (
        "addresses_and_offsets_beyond_32_bits",
        r#"(memory $long i64 1)
            (func $does
                (i32.store $long (i64.const 16) (i32.const 4711))
                (call $print (i32.load $long (i64.const 16)))
                ;; Cut to 32 bits it would be the same place.
                (call $print (i32.load $long offset=0x100000000 (i64.const 16))))"#,
    ),
    (
        "tables_with_addresses_of_64_bits",
        r#"(type $number (func (result i32)))
            (table $long i64 3 8 funcref)
            (elem (table $long) (i64.const 1) func $one $two)
            (func $one (result i32) (i32.const 1)) (func $two (result i32) (i32.const 2))
            (func $does
                (call $print (call_indirect $long (type $number) (i64.const 2)))
                (call $print (i32.wrap_i64 (table.grow $long (ref.func $one) (i64.const 4))))
                (call $print (i32.wrap_i64 (table.grow $long (ref.func $one) (i64.const 0x100000000))))
                (call $print (i32.wrap_i64 (table.size $long)))
                (table.copy $long $long (i64.const 5) (i64.const 1) (i64.const 2))
                (call $print (call_indirect $long (type $number) (i64.const 6)))
                (call $print (ref.is_null (table.get $long (i64.const 0))))
                (call $print (call_indirect $long (type $number) (i64.const 0x100000002))))"#,
    ),
    (
        "several_memories",
        r#"(memory $small 1 1) (memory $large 2) (memory $empty 0)
            (data (memory $large) (i32.const 65536) "large") (data (memory $small) (i32.const 0) "small")
            (func $does
                (call $print (i32.load8_u $large (i32.const 65536)))
                (call $print (i32.load8_u $small (i32.const 0)))
                (memory.copy $small $large (i32.const 65530) (i32.const 65536) (i32.const 5))
                (call $print (i32.load8_u $small (i32.const 65534)))
                (call $print (memory.grow $large (i32.const 3)))
                (call $print (memory.grow $small (i32.const 1)))
                (call $print (memory.grow $empty (i32.const 1)))
                (i32.store $large (i32.const 327676) (i32.const 5))
                (i32.store $empty (i32.const 65532) (i32.const 6))
                (call $print (i32.add (i32.load $large (i32.const 327676)) (i32.load $empty (i32.const 65532))))
                (call $print (i32.load8_u (i32.const 65535)))
                (call $print (i32.load8_u $small (i32.const 65536))))"#,
    ),
    (
        "a_cast_that_fails",
        r#"(type $a (struct (field i32))) (type $b (struct (field i64)))
            (func (export "_start") (local $any anyref)
                (local.set $any (struct.new $a (i32.const 1)))
                (drop (ref.cast (ref $b) (local.get $any))))"#,
    ),
    (
        "a_field_of_null",
        r#"(type $a (struct (field i32)))
            (func (export "_start") (drop (struct.get $a 0 (ref.null $a))))"#,
    ),
];

/// What has a function `$does` runs it where everything is caught.
const CATCHES: &str = r#"
    (func (export "_start")
        (call $print (i32.const 1))
        (block $caught (try_table (catch_all $caught) (call $does)))
        (call $print (i32.const 2)))"#;

/// What came of all of them in Wasmtime.
pub(super) struct Proposals {
    place: PathBuf,
    ran: OnceLock<Result<(), String>>,
}

impl Proposals {
    pub(super) fn new(place: PathBuf) -> Proposals {
        Proposals { place, ran: OnceLock::new() }
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        PROGRAMS.into_iter().map(|(name, _)| name)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Writes all programs, and has Wasmtime run them.
    fn prepare(&self) -> Result<(), String> {
        let mut runs = Vec::new();
        for (name, text) in PROGRAMS {
            let folder = self.folder(name);
            fs::create_dir_all(folder.join("root")).map_err(|error| error.to_string())?;
            let start = if text.contains("_start") { "" } else { CATCHES };
            let module = wat::parse_str(format!("(module {PRELUDE} {text} {start})"));
            let module = module.map_err(|error| format!("{name}: {error}"))?;
            fs::write(folder.join("app.wasm"), module).map_err(|error| error.to_string())?;
            let module = folder.join("app.wasm");
            runs.push(json!({ "folder": folder, "argv": ["app"], "env": {}, "stdin": null, "module": module }));
        }
        run_all(&runs)
    }

    /// Runs a program here, in both ways to check addresses.
    pub(super) fn compare(&self, name: &str) -> Result<(), Failed> {
        self.ran.get_or_init(|| self.prepare()).clone()?;
        let folder = self.folder(name);
        let theirs = whole(&folder)?.lines(false);
        for checks in [&[][..], &["--explicit-checks"]] {
            let ours = run(&folder, checks)?;
            if let Some((here, there)) = first_difference(&ours, &theirs) {
                let all = ours.join("\n");
                return Err(
                    format!("{checks:?}\nhere:        {here}\nin Wasmtime: {there}\n\nall lines here:\n{all}").into()
                );
            }
        }
        Ok(())
    }
}

fn run(folder: &Path, checks: &[&str]) -> Result<Vec<String>, String> {
    let program = folder.join("app.wasm").display().to_string();
    let built = [&["build", &program], checks].concat();
    let built = monohull(&built.into_iter().map(str::to_owned).collect::<Vec<_>>());
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    let document = json!({
        "name": "proposals",
        "functions": { "app": { "image": "app.so" } },
        "steps": [{ "name": "app", "function": "app", "memory": "32MiB" }],
    });
    let file = folder.join("run.json");
    fs::write(&file, document.to_string()).map_err(|error| error.to_string())?;
    let mut options = vec!["run".to_owned(), "--json".to_owned(), file.display().to_string()];
    if support().is_available() {
        options.extend(["--isolation".to_owned(), "mpk".to_owned()]);
    }
    Ok(outcome(&report(&options)?).lines(false))
}
