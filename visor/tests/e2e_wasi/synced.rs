//! Files that are opened so that each write reaches the disk: how often the processes of a run wait for one.

use super::components::{CODES, command};
use super::stops::counted;
use super::support::{Function, kept, program};
use nix::libc;
use serde_json::json;
use std::fs;

/// Flags of descriptors (`fdflags`).
const APPEND: u32 = 1;
const DSYNC: u32 = 2;
const RSYNC: u32 = 8;
const SYNC: u32 = 16;

/// How often a run waits for the disk. What it has written lies in a directory of the host. Traced as it is, it cannot be traced by the service.
fn synced(function: &Function, outputs: &[&str]) -> usize {
    let folder = function.folder.path();
    fs::create_dir(folder.join("work")).expect("a folder");
    let document = json!({
        "name": "test",
        "functions": { "app": { "image": "app.so" } },
        "files": [{ "at": "/work", "directory": "work", "access": "write" }],
        "outputs": outputs,
        "steps": [{ "name": "app", "function": "app" }],
    });
    fs::write(folder.join("test.json"), document.to_string()).expect("written");
    counted(folder, &["run", "--isolation", "process", "test.json"], libc::SYS_fdatasync)
}

#[test]
fn each_write_waits_for_the_disk_where_a_flag_says_so() {
    let mut calls = Vec::new();
    let open = |flags: u32| {
        format!(
            "(call $path_open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 6) (i32.const 1) (i64.const 0x3fffffff) \
             (i64.const 0) (i32.const {flags}) (i32.const 512))"
        )
    };
    let write = |fd: u32| format!("(call $fd_write (i32.const {fd}) (i32.const 256) (i32.const 1) (i32.const 560))");
    let write_at = |fd: u32| {
        format!("(call $fd_pwrite (i32.const {fd}) (i32.const 256) (i32.const 1) (i64.const 3) (i32.const 560))")
    };
    // The descriptors are 4 to 8, and the last one has no such flag.
    calls.extend([DSYNC, RSYNC, SYNC, DSYNC | APPEND, APPEND].map(open));
    calls.extend((4..=8).map(write));
    calls.extend((4..=8).map(write_at));
    let always = 4 * 2;
    // Flags can be changed.
    calls.push(format!("(call $fd_fdstat_set_flags (i32.const 8) (i32.const {SYNC}))"));
    calls.push(write(8));
    calls.push("(call $fd_fdstat_set_flags (i32.const 8) (i32.const 0))".to_owned());
    calls.push(write(8));
    let must = |call: &String| format!("(if (i32.ne {call} (i32.const 0)) (then unreachable))\n");
    let body: String = calls.iter().map(must).collect();
    let buffer = "(i32.store (i32.const 256) (i32.const 0)) (i32.store (i32.const 260) (i32.const 6))";
    let body = format!("{buffer}\n{body}\n{}", kept(0, "(i32.const 0)"));
    assert_eq!(synced(&Function::new(&program("work/f", &body, 1)), &["out"]), always + 1);
}

#[test]
fn each_write_of_a_component_does_as_well() {
    let codes = CODES.map(|code| format!("{code:?}")).join(" ");
    let imports = format!(
        r#"
        (import "wasi:filesystem/types@0.2.0" (instance $types
            (export "descriptor" (type $descriptor (sub resource)))
            (type $codes (enum {codes}))
            (export "error-code" (type $error-code (eq $codes)))
            (type $path (flags "symlink-follow"))
            (export "path-flags" (type $path-flags (eq $path)))
            (type $open (flags "create" "directory" "exclusive" "truncate"))
            (export "open-flags" (type $open-flags (eq $open)))
            (type $of (flags "read" "write" "file-integrity-sync" "data-integrity-sync" "requested-write-sync" "mutate-directory"))
            (export "descriptor-flags" (type $descriptor-flags (eq $of)))
            (export "[method]descriptor.open-at"
                (func (param "self" (borrow $descriptor)) (param "path-flags" $path-flags) (param "path" string)
                    (param "open-flags" $open-flags) (param "flags" $descriptor-flags)
                    (result (result (own $descriptor) (error $error-code)))))
            (export "[method]descriptor.write"
                (func (param "self" (borrow $descriptor)) (param "buffer" (list u8)) (param "offset" u64)
                    (result (result u64 (error $error-code)))))))
        (alias export $types "descriptor" (type $descriptor))
        (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
            (alias outer $command $descriptor (type $outer))
            (export "descriptor" (type $descriptor (eq $outer)))
            (export "get-directories" (func (result (list (tuple (own $descriptor) string)))))))"#
    );
    let host = r#"
        (core func $open (canon lower (func $types "[method]descriptor.open-at") (memory $mem) (realloc $realloc)))
        (core func $write (canon lower (func $types "[method]descriptor.write") (memory $mem) (realloc $realloc)))
        (core func $preopens (canon lower (func $preopens "get-directories") (memory $mem) (realloc $realloc)))
        (core instance $host (export "open" (func $open)) (export "write" (func $write)) (export "preopens" (func $preopens)))"#;
    let module = r#"
        (import "host" "open" (func $open (param i32 i32 i32 i32 i32 i32 i32)))
        (import "host" "write" (func $write (param i32 i32 i32 i64 i32)))
        (import "host" "preopens" (func $preopens (param i32)))
        (data (i32.const 1024) "work/f")"#;
    let (writing, syncs) = (2, [4, 8, 16]);
    let once = |flags: u32| {
        format!(
            "(call $open (local.get $root) (i32.const 0) (i32.const 1024) (i32.const 6) (i32.const 1) (i32.const {flags}) (i32.const 16))
             (call $must (i32.eqz (i32.load8_u (i32.const 16))))
             (call $write (i32.load (i32.const 20)) (i32.const 1024) (i32.const 6) (i64.const 0) (i32.const 32))
             (call $must (i32.eqz (i32.load8_u (i32.const 32))))\n"
        )
    };
    let all: String = syncs.iter().map(|sync| writing | sync).chain([writing]).map(once).collect();
    let body = format!(
        "(local $root i32)
         (call $preopens (i32.const 16))
         (local.set $root (i32.load (i32.load (i32.const 16))))
         {all} (i32.const 0)"
    );
    assert_eq!(synced(&Function::new(&command(&imports, host, module, &body)), &[]), syncs.len());
}
